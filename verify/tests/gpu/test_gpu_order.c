/*
 * Proves the order of a communicator's calls in several streams and in graphs, with a fake CUDA
 * runtime that records what streams wait for and keeps the edges of captured graphs.
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
#include "nccl/gpu/gpu.h"

#define weiri_cuda_enter fake_enter
#define weiri_cuda_leave fake_leave
#define weiri_cuda_relax fake_relax
#define weiri_cuda_restore fake_restore
/* With CUDA 13 these functions have one more argument, for edge data. */
#if CUDART_VERSION >= 13000
#define cudaStreamGetCaptureInfo(stream, status, id, graph, tips, data, count)                     \
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
#include "nccl/gpu/gpu_order_cuda.c"

enum { LOG_BYTES = 256, NEVENTS = 8, NNODES = 64 };

/* Nodes are numbers; a set of nodes is a bit mask. */
typedef uint64_t nodes;

/* Streams are named by letters. */
static struct {
    unsigned long long capture; /* capture that it is in */
    nodes tips;                 /* what its next node will depend on */
} streams[128];
/* What an event stands for: the stream and capture where it was recorded, and the nodes there. */
static struct {
    char stream;
    unsigned long long capture;
    nodes predecessors;
} events[NEVENTS];
static nodes edges[NNODES]; /* predecessors of a node */
static int nnodes, nevents, relaxed, record_fails, keeps_edges, is_unmixed;
static char done[LOG_BYTES];

static char letter_of(cudaStream_t stream)
{
    return (char)(uintptr_t)stream;
}

static cudaStream_t stream_of(char letter)
{
    return (cudaStream_t)(uintptr_t)letter; /* NOLINT: never dereferenced */
}

static int number_of(cudaGraphNode_t node)
{
    return (int)(uintptr_t)node;
}

static cudaGraphNode_t node_of(int number)
{
    return (cudaGraphNode_t)(uintptr_t)number; /* NOLINT: never dereferenced */
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

/* Adds a node to a stream's capture and returns its number, which is above 0. */
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
    static cudaGraphNode_t listed[NNODES];
    const int letter = letter_of(stream);
    if (streams[letter].capture == FOREIGN_CAPTURE)
        return cudaErrorStreamCaptureImplicit;
    *id = streams[letter].capture;
    *status = *id ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    if (!graph)
        return cudaSuccess;
    *graph = (cudaGraph_t)(uintptr_t)*id; /* NOLINT: never dereferenced */
    *tips = listed;
    *count = list(streams[letter].tips, listed);
    return cudaSuccess;
}

/* As CUDA does, these reject adding an edge that exists, removing one that does not, and removing
 * any from a graph that allocates memory. */
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
    assert_ptr_equal(event, &events[0]); /* the event of the last call was created first */
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
    if (record_fails)
        return cudaErrorInvalidValue;
    events[index].stream = (char)letter;
    events[index].capture = streams[letter].capture;
    events[index].predecessors = streams[letter].tips;
    return cudaSuccess;
}

static cudaError_t fake_event_query(cudaEvent_t event)
{
    assert_true(relaxed > 0);
    assert_int_equal(events[index_of(event)].capture, 0);
    return events[index_of(event)].stream == '-' ? cudaSuccess : cudaErrorNotReady;
}

/* As CUDA does, rejects an event of another capture unless an external wait is requested. */
static cudaError_t fake_wait(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    const int index = index_of(event), letter = letter_of(stream);
    char what[] = "? after ";
    if (flags == cudaEventWaitExternal) {
        assert_int_equal(index, 0);
        add_node((char)letter);
        note("graph of ", (char)letter);
        return cudaSuccess;
    }
    if (events[index].capture != streams[letter].capture)
        return cudaErrorStreamCaptureIsolation;
    if (streams[letter].capture)
        streams[letter].tips |= events[index].predecessors;
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

/* Makes a call with or without work. In a graph, checks what precedes the event node at its end:
 * all that the call did and, where possible, nothing else. */
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
        const nodes predecessors = edges[number_of((cudaGraphNode_t)in->record)];
        if (in->id == comm->order.present && !is_unmixed)
            assert_int_equal(keeps_edges ? predecessors & tips : predecessors, tips);
        else if (in->id == comm->order.present)
            assert_null(in->record);
    }
}

/* Makes calls in these streams and returns what they wait for. A digit after a letter puts the
 * stream into that capture from then on; '!' into a capture that does not belong to the
 * communicator. A capital letter makes a call without work. */
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
    nevents = nnodes = record_fails = keeps_edges = is_unmixed = 0;
    unsetenv("NCCL_GRAPH_MIXING_SUPPORT");
    *state = &comm;
    return 0;
}

static void test_calls_are_ordered_across_streams(void **state)
{
    assert_string_equal(calls(*state, "aaaa"), "");
    assert_string_equal(calls(*state, "ab"), "all.");
    assert_string_equal(calls(*state, "bbac"), "a after b, c after a");
    assert_int_equal(nevents, 1);
}

static void test_branches_of_a_capture_are_ordered(void **state)
{
    assert_string_equal(calls(*state, "a1aab1bc1a"), "graph of a, b after a, c after b, a after c");
    assert_string_equal(calls(*state, "AABaC"), "b after a, a after b, c after a");
    assert_int_equal(nevents, 2);
}

/* Each graph waits for the calls before it, and every later call waits for the graph, as it may
 * have been launched. */
static void test_graphs_and_later_calls_are_ordered(void **state)
{
    assert_string_equal(calls(*state, "aaa1ab2b"), "graph of a, graph of b");
    assert_string_equal(calls(*state, "c0c0b2a0"), "all., c after -, c after c, a after c");
    assert_string_equal(calls(*state, "b3ca3"), "graph of b, c after a, a after b");
}

/* Several graphs captured at the same time, up to the number that is remembered. */
static void test_simultaneous_captures_are_ordered_separately(void **state)
{
    assert_string_equal(calls(*state, "a1b2a1c1b2d2a1"),
                        "graph of a, graph of b, c after a, d after b, a after c");
    assert_string_equal(calls(*state, "e3f4e3a1g3"), "graph of e, graph of f, g after e");
    assert_string_equal(calls(*state, "h5b2"), "graph of h, b after d");
}

/* Calls before a capture are in an unknown place, as no event follows them. */
static void test_calls_after_a_capture_wait_for_the_device(void **state)
{
    weiri_nccl_comm *comm = *state;
    assert_string_equal(calls(comm, "ab1"), "graph of b");
    assert_true(weiri_nccl_gpu_is_busy(comm));
    assert_string_equal(calls(comm, "c"), "all., c after -");
    assert_string_equal(calls(comm, "a"), "a after c");
}

static void test_mixing_support_can_be_disabled(void **state)
{
    is_unmixed = 1;
    setenv("NCCL_GRAPH_MIXING_SUPPORT", "0", 1);
    assert_string_equal(calls(*state, "aa1b1Ba1"), "b after a, a after b");
    assert_string_equal(calls(*state, "a0a0"), "");
    assert_string_equal(calls(*state, "c"), "all.");
}

static void test_graphs_that_allocate_keep_their_edges(void **state)
{
    keeps_edges = 1;
    assert_string_equal(calls(*state, "a1aAb1a"), "graph of a, b after a, a after b");
}

/* The handle 2 is another stream in every thread. */
static void test_streams_of_threads_differ(void **state)
{
    weiri_nccl_comm *comm = *state;
    assert_ptr_equal(cudaStreamPerThread, stream_of(2));
    assert_string_equal(calls(comm, "\2"), "");
    assert_string_equal(calls(comm, "\2\2a"), "\2 after \2, \2 after \2, a after \2");
    assert_string_equal(calls(comm, "\0021\2"), "graph of \2, \2 after \2");
}

static void test_captures_of_others_are_ignored(void **state)
{
    assert_string_equal(calls(*state, "a1c!d!b1"), "graph of a, b after a");
}

/* Later calls do not wait for a call that failed. */
static void test_failed_calls_are_not_waited_for(void **state)
{
    weiri_nccl_comm *comm = *state;
    assert_string_equal(calls(comm, "a1"), "graph of a");
    streams['b'].capture = 2;
    assert_int_equal(weiri_nccl_gpu_order(comm, stream_of('b')), WEIR_OK);
    record_fails = 1;
    assert_int_equal(weiri_nccl_gpu_ordered(comm, stream_of('b')), WEIR_ERR_SYSTEM);
    record_fails = 0;
    assert_string_equal(calls(comm, "c2d2"), "graph of c, d after c");
}

static void test_busy_streams_and_release_of_events(void **state)
{
    weiri_nccl_comm *comm = *state;
    assert_false(weiri_nccl_gpu_is_busy(comm));
    assert_string_equal(calls(comm, "a"), "");
    assert_true(weiri_nccl_gpu_is_busy(comm));
    streams['a'].capture = 1; /* it cannot be queried and has no event */
    assert_false(weiri_nccl_gpu_is_busy(comm));
    assert_string_equal(calls(comm, "a0b"), "all.");
    assert_true(weiri_nccl_gpu_is_busy(comm));
    assert_int_equal(weiri_nccl_gpu_follow(comm, stream_of('a'), stream_of('b')), WEIR_OK);
    assert_non_null(strstr(done, "a after b"));
    assert_int_equal(nevents, 2);
    weiri_nccl_gpu_order_end(comm);
    assert_int_equal(nevents, 0);
    assert_null(comm->order.last);
}

/* Graphs may outlive the communicator, and their nodes refer to its event. */
static void test_graphs_outlive_the_communicator(void **state)
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
        cmocka_unit_test_setup(test_calls_are_ordered_across_streams, set_up),
        cmocka_unit_test_setup(test_branches_of_a_capture_are_ordered, set_up),
        cmocka_unit_test_setup(test_graphs_and_later_calls_are_ordered, set_up),
        cmocka_unit_test_setup(test_simultaneous_captures_are_ordered_separately, set_up),
        cmocka_unit_test_setup(test_calls_after_a_capture_wait_for_the_device, set_up),
        cmocka_unit_test_setup(test_mixing_support_can_be_disabled, set_up),
        cmocka_unit_test_setup(test_graphs_that_allocate_keep_their_edges, set_up),
        cmocka_unit_test_setup(test_streams_of_threads_differ, set_up),
        cmocka_unit_test_setup(test_captures_of_others_are_ignored, set_up),
        cmocka_unit_test_setup(test_failed_calls_are_not_waited_for, set_up),
        cmocka_unit_test_setup(test_busy_streams_and_release_of_events, set_up),
        cmocka_unit_test_setup(test_graphs_outlive_the_communicator, set_up),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("gpu_order", tests, NULL, NULL);
}
