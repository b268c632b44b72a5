/*
 * The order of a communicator's calls in several streams and in graphs, with a CUDA runtime of
 * the test's own that writes down what streams wait for and keeps the edges of captured graphs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "comm/gpu/gpu_cuda.h"
#include "nccl/gpu.h"

#define weiri_cuda_enter fake_enter
#define weiri_cuda_leave fake_leave
#define weiri_cuda_relax fake_relax
#define weiri_cuda_restore fake_restore
/* With CUDA 13 these have another argument, for data of edges. */
#if CUDART_VERSION >= 13000
#define cudaStreamGetCaptureInfo(stream, status, id, graph, tips, data, count) \
    fake_capture_info(stream, status, id, graph, tips, count)
#define cudaGraphAddDependencies(graph, from, to, data, count) fake_add_edge(graph, from, to)
#define cudaGraphRemoveDependencies(graph, from, to, data, count) fake_remove_edge(graph, from, to)
#define cudaGraphNodeGetDependencies(node, from, data, count) fake_edges(node, from, count)
#else
#define cudaStreamGetCaptureInfo_v2 fake_capture_info
#define cudaGraphAddDependencies(graph, from, to, count) fake_add_edge(graph, from, to)
#define cudaGraphRemoveDependencies(graph, from, to, count) fake_remove_edge(graph, from, to)
#define cudaGraphNodeGetDependencies fake_edges
#endif
#define cudaGraphAddEventRecordNode fake_record_node
#define cudaEventCreateWithFlags fake_event
#define cudaEventDestroy fake_destroy
#define cudaEventRecord fake_record
#define cudaEventQuery fake_event_query
#define cudaStreamWaitEvent fake_wait
#define cudaStreamQuery fake_query
#define cudaDeviceSynchronize fake_synchronize
#define cudaGetLastError fake_last_error

static weir_status fake_enter(const weir_comm *comm, int *before);
static void fake_leave(const weir_comm *comm, int before);
static enum cudaStreamCaptureMode fake_relax(void);
static void fake_restore(enum cudaStreamCaptureMode mode);
static cudaError_t fake_capture_info(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **tips, size_t *count);
static cudaError_t fake_add_edge(cudaGraph_t graph, const cudaGraphNode_t *from,
                                 const cudaGraphNode_t *to);
static cudaError_t fake_remove_edge(cudaGraph_t graph, const cudaGraphNode_t *from,
                                    const cudaGraphNode_t *to);
static cudaError_t fake_edges(cudaGraphNode_t node, cudaGraphNode_t *from, size_t *count);
static cudaError_t fake_record_node(cudaGraphNode_t *node, cudaGraph_t graph,
                                    const cudaGraphNode_t *from, size_t count, cudaEvent_t event);
static cudaError_t fake_event(cudaEvent_t *event, unsigned flags);
static cudaError_t fake_destroy(cudaEvent_t event);
static cudaError_t fake_record(cudaEvent_t event, cudaStream_t stream);
static cudaError_t fake_event_query(cudaEvent_t event);
static cudaError_t fake_wait(cudaStream_t stream, cudaEvent_t event, unsigned flags);
static cudaError_t fake_query(cudaStream_t stream);
static cudaError_t fake_synchronize(void);
static cudaError_t fake_last_error(void);
#include "nccl/gpu_order_cuda.c"

enum { LOG_BYTES = 256, NEVENTS = 8, NNODES = 64 };

/* Nodes are numbers; a set of them is a word's bits. */
typedef uint64_t nodes;

/* Streams are letters. */
static struct {
    unsigned long long capture; /* that it is in */
    nodes tips;                 /* what its next node will come behind */
} streams[128];
/* What an event is behind: the stream and capture where it was recorded, and nodes there. */
static struct {
    char stream;
    unsigned long long capture;
    nodes behind;
} events[NEVENTS];
static nodes edges[NNODES]; /* what a node comes behind */
static int nnodes, nevents, relaxed, refuses, keeps_edges, is_unmixed;
static char done[LOG_BYTES];

static char letter_of(cudaStream_t stream)
{
    return (char)(uintptr_t)stream;
}

static cudaStream_t stream_of(char letter)
{
    return (cudaStream_t)(uintptr_t)letter; /* NOLINT: never followed */
}

static int number_of(cudaGraphNode_t node)
{
    return (int)(uintptr_t)node;
}

static cudaGraphNode_t node_of(int number)
{
    return (cudaGraphNode_t)(uintptr_t)number; /* NOLINT: never followed */
}

static void note(const char *what, char stream)
{
    const size_t used = strlen(done);
    snprintf(done + used, sizeof done - used, "%s%s%c", used ? ", " : "", what, stream);
}

static weir_status fake_enter(const weir_comm *comm, int *before)
{
    (void)comm;
    *before = 0;
    return WEIR_OK;
}

static void fake_leave(const weir_comm *comm, int before)
{
    (void)comm, (void)before;
}

static enum cudaStreamCaptureMode fake_relax(void)
{
    relaxed++;
    return cudaStreamCaptureModeGlobal;
}

static void fake_restore(enum cudaStreamCaptureMode mode)
{
    (void)mode;
    relaxed--;
}

/* A node of a stream's capture; returns its number, above 0. */
static int add_node(char stream)
{
    assert_true(nnodes + 1 < NNODES);
    edges[++nnodes] = streams[(int)stream].tips;
    streams[(int)stream].tips = (nodes)1 << nnodes;
    return nnodes;
}

static size_t list(nodes set, cudaGraphNode_t *out)
{
    size_t count = 0;
    for (int i = 1; i < NNODES; i++)
        if (set >> i & 1)
            out[count++] = node_of(i);
    return count;
}

static cudaError_t fake_capture_info(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **tips, size_t *count)
{
    static cudaGraphNode_t told[NNODES];
    const int letter = letter_of(stream);
    if (streams[letter].capture == FOREIGN_CAPTURE)
        return cudaErrorStreamCaptureImplicit;
    *id = streams[letter].capture;
    *status = *id ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    if (!graph)
        return cudaSuccess;
    *graph = (cudaGraph_t)(uintptr_t)*id; /* NOLINT: never followed */
    *tips = told;
    *count = list(streams[letter].tips, told);
    return cudaSuccess;
}

/* As CUDA does, these refuse an edge that is there, or is not, and to remove any from a graph
 * that allocates memory. */
static cudaError_t fake_add_edge(cudaGraph_t graph, const cudaGraphNode_t *from,
                                 const cudaGraphNode_t *to)
{
    const nodes bit = (nodes)1 << number_of(*from);
    (void)graph;
    if (edges[number_of(*to)] & bit)
        return cudaErrorInvalidValue;
    edges[number_of(*to)] |= bit;
    return cudaSuccess;
}

static cudaError_t fake_remove_edge(cudaGraph_t graph, const cudaGraphNode_t *from,
                                    const cudaGraphNode_t *to)
{
    const nodes bit = (nodes)1 << number_of(*from);
    (void)graph;
    if (!(edges[number_of(*to)] & bit))
        return cudaErrorInvalidValue;
    if (keeps_edges)
        return cudaErrorNotSupported;
    edges[number_of(*to)] &= ~bit;
    return cudaSuccess;
}

static cudaError_t fake_edges(cudaGraphNode_t node, cudaGraphNode_t *from, size_t *count)
{
    *count = list(edges[number_of(node)], from);
    return cudaSuccess;
}

static cudaError_t fake_record_node(cudaGraphNode_t *node, cudaGraph_t graph,
                                    const cudaGraphNode_t *from, size_t count, cudaEvent_t event)
{
    (void)graph;
    assert_ptr_equal(event, &events[0]); /* that of the last call was made first */
    edges[++nnodes] = 0;
    for (size_t i = 0; i < count; i++)
        edges[nnodes] |= (nodes)1 << number_of(from[i]);
    *node = node_of(nnodes);
    return cudaSuccess;
}

static cudaError_t fake_event(cudaEvent_t *event, unsigned flags)
{
    assert_int_equal(flags, cudaEventDisableTiming);
    assert_true(relaxed > 0 && nevents < NEVENTS);
    events[nevents].stream = '-';
    events[nevents].capture = 0;
    *event = (cudaEvent_t)&events[nevents++];
    return cudaSuccess;
}

static cudaError_t fake_destroy(cudaEvent_t event)
{
    (void)event;
    nevents--;
    return cudaSuccess;
}

static int index_of(cudaEvent_t event)
{
    for (int i = 0; i < nevents; i++)
        if (event == (cudaEvent_t)&events[i])
            return i;
    fail();
    return -1;
}

static cudaError_t fake_record(cudaEvent_t event, cudaStream_t stream)
{
    const int index = index_of(event), letter = letter_of(stream);
    if (refuses)
        return cudaErrorInvalidValue;
    events[index].stream = (char)letter;
    events[index].capture = streams[letter].capture;
    events[index].behind = streams[letter].tips;
    return cudaSuccess;
}

static cudaError_t fake_event_query(cudaEvent_t event)
{
    assert_true(relaxed > 0);
    assert_int_equal(events[index_of(event)].capture, 0);
    return events[index_of(event)].stream == '-' ? cudaSuccess : cudaErrorNotReady;
}

/* As CUDA does, it refuses what is not of the same capture, unless that is asked for. */
static cudaError_t fake_wait(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    const int index = index_of(event), letter = letter_of(stream);
    char what[] = "? behind ";
    if (flags == cudaEventWaitExternal) {
        assert_int_equal(index, 0);
        add_node((char)letter);
        note("graph of ", (char)letter);
        return cudaSuccess;
    }
    if (events[index].capture != streams[letter].capture)
        return cudaErrorStreamCaptureIsolation;
    if (streams[letter].capture)
        streams[letter].tips |= events[index].behind;
    what[0] = (char)letter;
    note(what, events[index].stream);
    return cudaSuccess;
}

static cudaError_t fake_query(cudaStream_t stream)
{
    (void)stream;
    assert_true(relaxed > 0);
    return cudaErrorNotReady;
}

static cudaError_t fake_synchronize(void)
{
    note("all", '.');
    return cudaSuccess;
}

static cudaError_t fake_last_error(void)
{
    return cudaSuccess;
}

/* A call with work to do or without; in a graph, what its end is signalled behind: all that it
 * did, and nothing else where that can be. */
static void call(weiri_nccl_comm *comm, char letter, int has_work)
{
    const int is_captured =
        streams[(int)letter].capture && streams[(int)letter].capture != FOREIGN_CAPTURE;
    assert_int_equal(weiri_nccl_gpu_order(comm, stream_of(letter)), WEIR_OK);
    if (is_captured && has_work)
        add_node(letter);
    assert_int_equal(weiri_nccl_gpu_ordered(comm, stream_of(letter)), WEIR_OK);
    if (!is_captured)
        return;
    const nodes tips = streams[(int)letter].tips;
    for (int i = 0; i < WEIRI_NCCL_CAPTURES; i++) {
        const weiri_nccl_capture *in = &comm->order.captures[i];
        const nodes behind = edges[number_of((cudaGraphNode_t)in->record)];
        if (in->id == comm->order.present && !is_unmixed)
            assert_int_equal(keeps_edges ? behind & tips : behind, tips);
        else if (in->id == comm->order.present)
            assert_null(in->record);
    }
}

/* What calls in these streams wait for. Behind a letter a digit: that stream is in that capture
 * from now on; '!': in one that it has no part in. A capital has nothing to do. */
static const char *calls(weiri_nccl_comm *comm, const char *text)
{
    done[0] = '\0';
    for (const char *at = text; *at; at++) {
        const int is_idle = *at >= 'A' && *at <= 'Z';
        const char letter = (char)(is_idle ? *at - 'A' + 'a' : *at);
        if (at[1] == '!' || (at[1] >= '0' && at[1] <= '9')) {
            const unsigned long long before = streams[(int)letter].capture;
            streams[(int)letter].capture =
                at[1] == '!' ? FOREIGN_CAPTURE : (unsigned long long)(at[1] - '0');
            if (streams[(int)letter].capture != before)
                streams[(int)letter].tips = 0;
            at++;
        }
        call(comm, letter, !is_idle);
    }
    return done;
}

static struct weiri_gpu gpu;
static weir_comm here = {.gpu = &gpu};

static int set_up(void **state)
{
    static weiri_nccl_comm comm;
    memset(streams, 0, sizeof streams);
    memset(&comm, 0, sizeof comm);
    comm.comm = &here;
    nevents = nnodes = refuses = keeps_edges = is_unmixed = 0;
    unsetenv("NCCL_GRAPH_MIXING_SUPPORT");
    *state = &comm;
    return 0;
}

static void test_streams(void **state)
{
    assert_string_equal(calls(*state, "aaaa"), "");
    assert_string_equal(calls(*state, "ab"), "all.");
    assert_string_equal(calls(*state, "bbac"), "a behind b, c behind a");
    assert_int_equal(nevents, 1);
}

static void test_branches_of_a_capture(void **state)
{
    assert_string_equal(calls(*state, "a1aab1bc1a"),
                        "graph of a, b behind a, c behind b, a behind c");
    assert_string_equal(calls(*state, "AABaC"), "b behind a, a behind b, c behind a");
    assert_int_equal(nevents, 2);
}

/* Each graph waits for what was before, and from then on every call: a graph may have run. */
static void test_graphs_and_others(void **state)
{
    assert_string_equal(calls(*state, "aaa1ab2b"), "graph of a, graph of b");
    assert_string_equal(calls(*state, "c0c0b2a0"), "all., c behind -, c behind c, a behind c");
    assert_string_equal(calls(*state, "b3ca3"), "graph of b, c behind a, a behind b");
}

/* Two graphs captured at a time, and as many as are remembered. */
static void test_captures_side_by_side(void **state)
{
    assert_string_equal(calls(*state, "a1b2a1c1b2d2a1"),
                        "graph of a, graph of b, c behind a, d behind b, a behind c");
    assert_string_equal(calls(*state, "e3f4e3a1g3"),
                        "graph of e, graph of f, g behind e");
    assert_string_equal(calls(*state, "h5b2"), "graph of h, b behind d");
}

/* A capture says nothing of calls before it, which have no event behind them. */
static void test_calls_before_a_capture(void **state)
{
    weiri_nccl_comm *comm = *state;
    assert_string_equal(calls(comm, "ab1"), "graph of b");
    assert_true(weiri_nccl_gpu_is_busy(comm));
    assert_string_equal(calls(comm, "c"), "all., c behind -");
    assert_string_equal(calls(comm, "a"), "a behind c");
}

static void test_graphs_that_are_not_mixed(void **state)
{
    is_unmixed = 1;
    setenv("NCCL_GRAPH_MIXING_SUPPORT", "0", 1);
    assert_string_equal(calls(*state, "aa1b1Ba1"), "b behind a, a behind b");
    assert_string_equal(calls(*state, "a0a0"), "");
    assert_string_equal(calls(*state, "c"), "all.");
}

static void test_graphs_that_allocate(void **state)
{
    keeps_edges = 1;
    assert_string_equal(calls(*state, "a1aAb1a"), "graph of a, b behind a, a behind b");
}

static void test_foreign_captures(void **state)
{
    assert_string_equal(calls(*state, "a1c!d!b1"), "graph of a, b behind a");
}

/* A call that did not come about is not waited for. */
static void test_failed_calls(void **state)
{
    weiri_nccl_comm *comm = *state;
    assert_string_equal(calls(comm, "a1"), "graph of a");
    streams['b'].capture = 2;
    assert_int_equal(weiri_nccl_gpu_order(comm, stream_of('b')), WEIR_OK);
    refuses = 1;
    assert_int_equal(weiri_nccl_gpu_ordered(comm, stream_of('b')), WEIR_ERR_SYSTEM);
    refuses = 0;
    assert_string_equal(calls(comm, "c2d2"), "graph of c, d behind c");
}

static void test_groups_and_the_end(void **state)
{
    weiri_nccl_comm *comm = *state;
    assert_false(weiri_nccl_gpu_is_busy(comm));
    assert_string_equal(calls(comm, "a"), "");
    assert_true(weiri_nccl_gpu_is_busy(comm));
    streams['a'].capture = 1; /* it cannot be asked, and has no event */
    assert_false(weiri_nccl_gpu_is_busy(comm));
    assert_string_equal(calls(comm, "a0b"), "all.");
    assert_true(weiri_nccl_gpu_is_busy(comm));
    assert_int_equal(weiri_nccl_gpu_follow(comm, stream_of('a'), stream_of('b')), WEIR_OK);
    assert_non_null(strstr(done, "a behind b"));
    assert_int_equal(nevents, 2);
    weiri_nccl_gpu_order_end(comm);
    assert_int_equal(nevents, 0);
    assert_null(comm->order.last);
}

/* Graphs may outlive the communicator, and their nodes name its event. */
static void test_the_end_before_graphs(void **state)
{
    weiri_nccl_comm *comm = *state;
    assert_string_equal(calls(comm, "a1b2"), "graph of a, graph of b");
    assert_int_equal(nevents, 3);
    weiri_nccl_gpu_order_end(comm);
    assert_int_equal(nevents, 1);
    assert_null(comm->order.last);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_streams, set_up),
        cmocka_unit_test_setup(test_branches_of_a_capture, set_up),
        cmocka_unit_test_setup(test_graphs_and_others, set_up),
        cmocka_unit_test_setup(test_captures_side_by_side, set_up),
        cmocka_unit_test_setup(test_calls_before_a_capture, set_up),
        cmocka_unit_test_setup(test_graphs_that_are_not_mixed, set_up),
        cmocka_unit_test_setup(test_graphs_that_allocate, set_up),
        cmocka_unit_test_setup(test_foreign_captures, set_up),
        cmocka_unit_test_setup(test_failed_calls, set_up),
        cmocka_unit_test_setup(test_groups_and_the_end, set_up),
        cmocka_unit_test_setup(test_the_end_before_graphs, set_up),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("gpu_order", tests, NULL, NULL);
}
