/*
 * Proves that weir_alltoallv_device uses the counts that are in device memory when a call runs in
 * its stream: counts rewritten from call to call without other synchronization, and counts
 * rewritten between replays of a graph. Wrong counts are reported and change nothing outside of the
 * blocks. Needs two GPUs; the parent process never touches CUDA, because its children do.
 */
#include "verify/tests/support/gpu_ranks.h"

#include <weir/weir.h>

#include <stdlib.h>

enum { CALLS = 16, ROOM = 400000, MARGIN = 64 };
enum { ROOM_BYTES = ROOM * 4, ALL_BYTES = (ROOM + 2 * MARGIN) * 4 };
static const uint32_t CANARY = 0xA5A5A5A5u;

/* One rank. in and out hold ROOM elements of 4 bytes between margins. */
typedef struct test_rank {
    weir_comm *comm;
    weir_mem *memory[2];
    cudaStream_t stream;
    cudaGraphExec_t replayed; /* NULL: calls are not replayed */
    int rank, nranks, unregistered, failures;
    int may_abort;       /* another rank may abort the communicator before this rank calls */
    uint32_t *in, *out;  /* device memory, after the first margin */
    uint64_t *counts;    /* device memory: four arrays of nranks */
    uint64_t *counts_of; /* pinned memory: the counts of each call */
    uint32_t *results;   /* pinned memory: out and its margins after each call */
    size_t matrix[CALLS][MOST_GPUS][MOST_GPUS]; /* [call][from][to] */
} test_rank;

static void expect(test_rank *r, int good, const char *what)
{
    if (!good && r->failures++ < 3)
        fprintf(stderr, "# rank %d of %d: %s: %s\n", r->rank, r->nranks, what, weir_last_error());
}

/* Element i of a rank's input. */
static uint32_t input_of(int rank, size_t i)
{
    return (uint32_t)mix_bits((uint64_t)rank << 40 | i);
}

static uint32_t *allocate(test_rank *r, int which)
{
    void *memory = NULL;
    if (r->unregistered)
        expect(r, cudaMalloc(&memory, ALL_BYTES) == cudaSuccess, "no GPU memory");
    else if (weir_mem_alloc(r->comm, ALL_BYTES, &r->memory[which]) == WEIR_OK)
        memory = weir_mem_pointer(r->memory[which]);
    expect(r, memory != NULL, "no memory");
    return (uint32_t *)memory + MARGIN;
}

static void test_rank_open(test_rank *r, weir_boot *boot, int unregistered, int timeout_ms)
{
    memset(r, 0, sizeof *r);
    r->unregistered = unregistered;
    r->rank = weir_boot_rank(boot);
    r->nranks = weir_boot_nranks(boot);
    if (!(r->comm = open_gpu_comm(boot, timeout_ms)))
        exit(1);
    size_t words = 4 * MOST_GPUS * sizeof(uint64_t);
    expect(r, cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking) == cudaSuccess,
           "no stream");
    expect(r, cudaMalloc((void **)&r->counts, words) == cudaSuccess, "no memory");
    expect(r, cudaMallocHost((void **)&r->counts_of, CALLS * words) == cudaSuccess, "no memory");
    expect(r, cudaMallocHost((void **)&r->results, (size_t)CALLS * ALL_BYTES) == cudaSuccess,
           "no memory");
    r->in = allocate(r, 0);
    r->out = allocate(r, 1);
    if (r->failures)
        exit(1);
    for (size_t i = 0; i < ROOM; i++)
        r->results[i] = input_of(r->rank, i);
    cudaMemcpy(r->in, r->results, ROOM_BYTES, cudaMemcpyHostToDevice);
    for (int i = 0; i < 2; i++) /* makes each rank's memory known to its peers */
        expect(r, weir_comm_barrier(r->comm) == WEIR_OK, "barrier");
}

static int test_rank_close(test_rank *r)
{
    if (r->replayed)
        cudaGraphExecDestroy(r->replayed);
    for (int i = 0; i < 2; i++)
        weir_mem_free(r->memory[i]);
    if (r->unregistered) {
        cudaFree(r->in - MARGIN);
        cudaFree(r->out - MARGIN);
    }
    weir_comm_destroy(r->comm);
    cudaFree(r->counts);
    cudaFreeHost(r->counts_of);
    cudaFreeHost(r->results);
    cudaStreamDestroy(r->stream);
    return r->failures;
}

/* Draws how many elements each pair exchanges in a call, the same on every rank; some exchange
 * none. */
static void draw(test_rank *r, int call, uint64_t seed, size_t most)
{
    for (int from = 0; from < r->nranks; from++)
        for (int to = 0; to < r->nranks; to++) {
            uint64_t random = mix_bits(seed * 4096 + (uint64_t)(call * 64 + from * 8 + to));
            size_t bound = random % 4 == 1 ? most / (size_t)r->nranks : 600;
            r->matrix[call][from][to] = random % 4 == 0 ? 0 : (random >> 8) % bound;
        }
}

/* Where a pair's block begins in the sender's input or the receiver's output. */
static size_t place_of(const test_rank *r, int call, int from, int to, int at_receiver)
{
    size_t at = 0;
    for (int peer = 0; peer < (at_receiver ? from : to); peer++)
        at += at_receiver ? r->matrix[call][peer][to] : r->matrix[call][from][peer];
    return at;
}

static uint64_t *counts_of(const test_rank *r, int call)
{
    uint64_t *arrays = r->counts_of + (size_t)call * 4 * MOST_GPUS;
    for (int peer = 0, n = r->nranks; peer < n; peer++) {
        arrays[peer] = r->matrix[call][r->rank][peer];
        arrays[n + peer] = place_of(r, call, r->rank, peer, 0);
        arrays[2 * n + peer] = r->matrix[call][peer][r->rank];
        arrays[3 * n + peer] = place_of(r, call, peer, r->rank, 1);
    }
    return arrays;
}

static weir_status exchange(const test_rank *r)
{
    const uint64_t *counts = r->counts;
    int n = r->nranks;
    return weir_alltoallv_device(r->comm, r->in, ROOM_BYTES, counts, counts + n, r->out, ROOM_BYTES,
                                 counts + 2 * n, counts + 3 * n, WEIR_FLOAT, r->stream);
}

static void capture(test_rank *r)
{
    cudaGraph_t graph = NULL;
    cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal);
    expect(r, exchange(r) == WEIR_OK, "captured call");
    expect(r, cudaStreamEndCapture(r->stream, &graph) == cudaSuccess, "no graph");
    expect(r, cudaGraphInstantiate(&r->replayed, graph, 0) == cudaSuccess, "no graph");
    cudaGraphDestroy(graph);
}

/* Enqueues new counts, a call or a replay, and a copy of the output, without waiting. */
static void enqueue(test_rank *r, int call, const uint64_t *arrays)
{
    size_t bytes = 4 * (size_t)r->nranks * sizeof *arrays;
    cudaMemcpyAsync(r->counts, arrays, bytes, cudaMemcpyHostToDevice, r->stream);
    cudaMemsetAsync(r->out - MARGIN, CANARY & 0xff, ALL_BYTES, r->stream);
    if (r->replayed)
        expect(r, cudaGraphLaunch(r->replayed, r->stream) == cudaSuccess, "replay");
    else {
        weir_status status = exchange(r);
        expect(r, status == WEIR_OK || (status == WEIR_ERR_ABORTED && r->may_abort), "call");
    }
    cudaMemcpyAsync(r->results + (size_t)call * (ROOM + 2 * MARGIN), r->out - MARGIN, ALL_BYTES,
                    cudaMemcpyDeviceToHost, r->stream);
}

/* Compares every element, including those outside of all blocks. */
static void compare(test_rank *r, int call)
{
    const uint32_t *got = r->results + (size_t)call * (ROOM + 2 * MARGIN);
    size_t at = MARGIN, wrong = 0;
    for (size_t i = 0; i < MARGIN; i++)
        wrong += got[i] != CANARY;
    for (int from = 0; from < r->nranks; from++) {
        size_t first = place_of(r, call, from, r->rank, 0);
        for (size_t i = 0; i < r->matrix[call][from][r->rank]; i++)
            wrong += got[at++] != input_of(from, first + i);
    }
    while (at < ROOM + 2 * MARGIN)
        wrong += got[at++] != CANARY;
    if (wrong)
        fprintf(stderr, "# call %d: %zu elements are wrong\n", call, wrong);
    expect(r, wrong == 0, r->replayed ? "a replay has other data" : "a call has other data");
}

static void run_all(test_rank *r, uint64_t seed, size_t most)
{
    for (int call = 0; call < CALLS; call++) {
        draw(r, call, seed, most);
        enqueue(r, call, counts_of(r, call));
    }
    expect(r, cudaStreamSynchronize(r->stream) == cudaSuccess, "stream");
    expect(r, weir_comm_check(r->comm) == WEIR_OK, "check");
    for (int call = 0; call < CALLS && !r->failures; call++)
        compare(r, call);
}

/* -------------------------------------------------------- what the ranks do */

static int changing(weir_boot *boot, int replayed)
{
    static const char *const algos[] = {"direct", "auto"};
    int failures = 0;
    for (int unregistered = 0; unregistered < 2 && !failures; unregistered++) {
        test_rank r;
        test_rank_open(&r, boot, unregistered, 5000);
        for (int i = 0; i < 6 && !r.failures; i++) {
            if (r.replayed)
                cudaGraphExecDestroy(r.replayed);
            r.replayed = NULL;
            expect(&r, weir_comm_set_algo(r.comm, WEIR_COLL_ALLTOALLV, algos[i % 2]) == WEIR_OK,
                   algos[i % 2]);
            if (replayed)
                capture(&r);
            run_all(&r, (uint64_t)(i + 10 * unregistered), i < 3 ? 600 * MOST_GPUS : ROOM);
        }
        failures = test_rank_close(&r);
    }
    return failures;
}

static int in_one_stream(weir_boot *boot, void *argument)
{
    (void)argument;
    return changing(boot, 0);
}

static int in_a_graph(weir_boot *boot, void *argument)
{
    (void)argument;
    return changing(boot, 1);
}

enum { SEND_BEHIND, SEND_WRAPS, RECV_BEHIND, RECV_OTHER, HOST_ARRAYS, FAULTS };

/* Makes rank 0's arrays wrong. */
static void plant(const test_rank *r, int fault, uint64_t *arrays)
{
    int n = r->nranks;
    if (fault == SEND_BEHIND)
        arrays[n + 1] = ROOM - arrays[1] + 1;
    else if (fault == SEND_WRAPS)
        arrays[1] += (uint64_t)1 << 62;
    else if (fault == RECV_BEHIND)
        arrays[3 * n + 1] = ROOM - arrays[2 * n + 1] + 1;
    else if (fault == RECV_OTHER)
        arrays[2 * n + 1] /= 2;
}

/* The last fault needs no device: the call rejects arrays in host memory. */
static void host_arrays(test_rank *r)
{
    static const uint64_t none[4 * MOST_GPUS];
    expect(r,
           weir_alltoallv_device(r->comm, r->in, ROOM_BYTES, none, none, r->out, ROOM_BYTES, none,
                                 none, WEIR_FLOAT, r->stream) == WEIR_ERR_INVALID,
           "host memory was accepted for counts");
}

static void faulty_call(test_rank *r, int fault, size_t count)
{
    static const weir_status expected_status[] = {WEIR_ERR_INVALID, WEIR_ERR_INVALID,
                                                  WEIR_ERR_INVALID, WEIR_ERR_MISMATCH};
    for (int from = 0; from < r->nranks; from++)
        for (int to = 0; to < r->nranks; to++)
            r->matrix[0][from][to] = count;
    uint64_t *arrays = counts_of(r, 0);
    if (r->rank == 0)
        plant(r, fault, arrays);
    else
        r->may_abort = 1;
    double began_s = now_s();
    enqueue(r, 0, arrays);
    expect(r, cudaStreamSynchronize(r->stream) == cudaSuccess, "stream");
    weir_status status = weir_comm_check(r->comm);
    if (r->rank == 0)
        expect(r, status == expected_status[fault], "wrong counts were not reported");
    expect(r, now_s() - began_s < 5, "too late");
    const uint32_t *got = r->results;
    for (size_t i = 0; i < ROOM + 2 * MARGIN; i++)
        if (i < MARGIN || i >= MARGIN + count * (size_t)r->nranks)
            expect(r, got[i] == CANARY, "written outside of the blocks");
}

static int wrong_counts(weir_boot *boot, void *argument)
{
    int fault = *(const int *)argument / 2, unregistered = fault % 2;
    test_rank r;
    test_rank_open(&r, boot, unregistered, 20000);
    if (fault == HOST_ARRAYS)
        host_arrays(&r);
    else
        faulty_call(&r, fault, *(const int *)argument % 2 ? 40000 : 100);
    weir_boot_barrier(boot);
    return test_rank_close(&r);
}

/* --------------------------------------------------------------- test cases */

static void faults(void **state)
{
    (void)state;
    int gpus = need_gpus(2);
    for (int fault = 0; fault < 2 * FAULTS; fault++)
        run_ranks(gpus < 3 ? gpus : 3, wrong_counts, &fault);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GPUS_TEST("calls use the counts rewritten before them in the stream", in_one_stream),
        GPUS_TEST("a replayed graph uses rewritten counts", in_a_graph),
        AT("wrong counts are reported", faults, NULL),
    };
    return RUN_TESTS("device counts", tests);
}
