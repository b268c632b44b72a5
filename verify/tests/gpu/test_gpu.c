/*
 * Proves that every GPU algorithm computes, for every type, operation, length and kind of memory,
 * the same bytes as the host backend does on the same inputs, and changes nothing around its
 * outputs; also in many calls in a row, from graphs, on two streams at once, and with errors and
 * missing ranks. Needs two GPUs, or ranks that share one; the parent process never touches CUDA,
 * because its children do.
 */
#include "verify/tests/support/gpu_ranks.h"
#include "verify/tests/support/small_numbers.h"

#include <weir/weir.h>
#include <weir/device.h>

#include <stdlib.h>

enum { HALF_BYTES = 24 << 20, MARGIN_BYTES = 256, CANARY = 0xA5 };

/* The memory that a call's buffers lie in. */
typedef enum memory_kind {
    LIBRARY,
    UNREGISTERED,
    MIXED,
    REGISTERED,
    SYMMETRIC, /* the library's, promised to be at equal offsets on all ranks */
    MEMORY_KINDS
} memory_kind;

/* A rank with one communicator of each backend. Memory consists of halves: inputs and outputs. */
typedef struct test_rank {
    weir_comm *host, *gpu;
    int rank, nranks, failures;
    unsigned char *expected; /* memory of the host communicator, two halves */
    unsigned char *mirror;   /* what a GPU half should hold, or does hold */
    weir_mem *host_memory, *library, *promised, *registration;
    unsigned char *device, *symmetric, *unregistered; /* GPU memory: registered, registered at equal
                                                       * offsets, and unregistered (cudaMalloc) */
    cudaStream_t stream;
    uint64_t calls;
} test_rank;

/* A call on either backend. Counts are in elements. */
typedef struct gpu_call {
    weir_collective collective;
    weir_dtype dtype;
    weir_op op;
    int root, in_place;
    size_t count, skew; /* skew: elements from the margin to the buffer */
    memory_kind memory;
    const size_t *counts; /* alltoallv: from rank r to rank s at r * nranks + s */
} gpu_call;

static int fails(test_rank *r, const char *what)
{
    if (r->failures++ < 3)
        fprintf(stderr, "# rank %d of %d: %s: %s\n", r->rank, r->nranks, what, weir_last_error());
    return r->failures;
}

static int test_rank_open(test_rank *r, weir_boot *boot, int timeout_ms)
{
    memset(r, 0, sizeof *r);
    if (!(r->host = open_comm_with(boot, WEIR_BACKEND_HOST, 20000)) ||
        !(r->gpu = open_comm_with(boot, WEIR_BACKEND_CUDA, timeout_ms)))
        return fails(r, "no communicator");
    r->rank = weir_comm_rank(r->host);
    r->nranks = weir_comm_nranks(r->host);
    int before = -1, after = -1; /* no device has been chosen yet: the library does that */
    cudaGetDevice(&before);
    if (weir_mem_alloc(r->gpu, 2 * HALF_BYTES, &r->library) != WEIR_OK ||
        cudaGetDevice(&after) != cudaSuccess || after != before)
        return fails(r, "no memory, or another device than before");
    if (cudaSetDevice(weir_comm_device(r->gpu)) != cudaSuccess ||
        cudaMalloc((void **)&r->unregistered, 2 * HALF_BYTES) != cudaSuccess ||
        cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking) != cudaSuccess)
        return fails(r, "no CUDA");
    if (weir_mem_alloc(r->host, 2 * HALF_BYTES, &r->host_memory) != WEIR_OK ||
        weir_mem_alloc(r->gpu, 2 * HALF_BYTES, &r->promised) != WEIR_OK ||
        weir_mem_symmetric(r->promised) != WEIR_OK)
        return fails(r, "no memory");
    r->expected = weir_mem_pointer(r->host_memory);
    r->device = weir_mem_pointer(r->library);
    r->symmetric = weir_mem_pointer(r->promised);
    r->mirror = malloc(HALF_BYTES);
    for (int i = 0; i < 2; i++)
        if (weir_comm_barrier(r->gpu) != WEIR_OK)
            return fails(r, "barrier");
    return r->mirror ? 0 : 1;
}

static int test_rank_close(test_rank *r)
{
    if (cudaStreamSynchronize(r->stream) != cudaSuccess || weir_comm_check(r->gpu) != WEIR_OK)
        fails(r, "barrier at the end");
    weir_mem_free(r->registration);
    weir_mem_free(r->promised);
    weir_mem_free(r->library);
    weir_mem_free(r->host_memory);
    weir_comm_destroy(r->gpu);
    weir_comm_destroy(r->host);
    cudaFree(r->unregistered);
    free(r->mirror);
    return r->failures;
}

static unsigned char *gpu_base(const test_rank *r, memory_kind memory)
{
    if (memory == SYMMETRIC)
        return r->symmetric;
    int apart = memory == UNREGISTERED || memory == REGISTERED || (memory == MIXED && r->rank % 2);
    return apart ? r->unregistered : r->device;
}

/* The elements of this rank's input and output. */
static void extents(const test_rank *r, const gpu_call *c, size_t *in, size_t *out)
{
    size_t n = (size_t)r->nranks;
    int many_in = c->collective == WEIR_COLL_REDUCE_SCATTER || c->collective == WEIR_COLL_ALLTOALL;
    int many_out = c->collective == WEIR_COLL_ALLGATHER || c->collective == WEIR_COLL_ALLTOALL;
    *in = many_in ? n * c->count : c->count;
    *out = many_out ? n * c->count : c->count;
    if (!c->counts)
        return;
    *in = *out = 0;
    for (size_t peer = 0; peer < n; peer++) {
        *in += c->counts[(size_t)r->rank * n + peer];
        *out += c->counts[peer * n + (size_t)r->rank];
    }
}

static weir_status run_pairwise(const test_rank *r, weir_comm *comm, const gpu_call *c,
                                const void *in, void *out, cudaStream_t stream)
{
    size_t n = (size_t)r->nranks, me = (size_t)r->rank;
    size_t send[MOST_GPUS], recv[MOST_GPUS], send_at[MOST_GPUS], recv_at[MOST_GPUS];
    if (c->collective == WEIR_COLL_ALLTOALL)
        return weir_alltoall(comm, in, out, c->count, c->dtype, stream);
    if (c->collective == WEIR_COLL_SENDRECV)
        return weir_sendrecv(comm, in, c->count, (r->rank + 1) % r->nranks, out, c->count,
                             (r->rank + r->nranks - 1) % r->nranks, c->dtype, stream);
    for (size_t peer = 0, sent = 0, got = 0; peer < n; peer++) {
        send[peer] = c->counts[me * n + peer];
        recv[peer] = c->counts[peer * n + me];
        send_at[peer] = sent;
        recv_at[peer] = got;
        sent += send[peer];
        got += recv[peer];
    }
    return weir_alltoallv(comm, in, send, send_at, out, recv, recv_at, c->dtype, stream);
}

static weir_status run_call(const test_rank *r, weir_comm *comm, const gpu_call *c,
                            unsigned char *base, cudaStream_t stream)
{
    size_t bytes = weir_dtype_bytes(c->dtype), at = MARGIN_BYTES + c->skew * bytes;
    void *in = base + at, *out = base + HALF_BYTES + at;
    size_t block = (size_t)r->rank * c->count * bytes;
    if (c->in_place && c->collective == WEIR_COLL_ALLGATHER)
        in = (char *)out + block;
    else if (c->in_place && c->collective == WEIR_COLL_REDUCE_SCATTER)
        out = (char *)in + block;
    else if (c->in_place)
        in = out;
    switch (c->collective) {
    case WEIR_COLL_ALLREDUCE:
        return weir_allreduce(comm, in, out, c->count, c->dtype, c->op, stream);
    case WEIR_COLL_REDUCE_SCATTER:
        return weir_reduce_scatter(comm, in, out, c->count, c->dtype, c->op, stream);
    case WEIR_COLL_ALLGATHER:
        return weir_allgather(comm, in, out, c->count, c->dtype, stream);
    case WEIR_COLL_BROADCAST:
        return weir_broadcast(comm, in, out, c->count, c->dtype, c->root, stream);
    case WEIR_COLL_REDUCE:
        return weir_reduce(comm, in, out, c->count, c->dtype, c->op, c->root, stream);
    default:
        return run_pairwise(r, comm, c, in, out, stream);
    }
}

/* Fills both halves of the host's memory with new inputs and canaries. In place, the output's half
 * holds the input. */
static void fill(test_rank *r, const gpu_call *c)
{
    size_t in, out, bytes = weir_dtype_bytes(c->dtype), at = MARGIN_BYTES + c->skew * bytes;
    extents(r, c, &in, &out);
    size_t used = at + (in > out ? in : out) * bytes + MARGIN_BYTES;
    memset(r->expected, CANARY, used);
    memset(r->expected + HALF_BYTES, CANARY, used);
    uint64_t seed = mix_bits(++r->calls * 64 + (uint64_t)r->rank);
    size_t first = 0;
    unsigned char *half = r->expected;
    if (c->in_place && c->collective != WEIR_COLL_REDUCE_SCATTER)
        half += HALF_BYTES;
    if (c->in_place && c->collective == WEIR_COLL_ALLGATHER)
        first = (size_t)r->rank * c->count;
    for (size_t i = 0; i < in; i++)
        small_number_encode(half + at + (first + i) * bytes, c->dtype,
                            (unsigned)(mix_bits(seed + i) % 3 + 1));
}

static size_t used_bytes(const test_rank *r, const gpu_call *c)
{
    size_t in, out, bytes = weir_dtype_bytes(c->dtype);
    extents(r, c, &in, &out);
    return 2 * MARGIN_BYTES + (c->skew + (in > out ? in : out)) * bytes;
}

/* Copies both halves from the host to the GPU, after everything before has finished. */
static void send_halves(const test_rank *r, const gpu_call *c, unsigned char *base)
{
    for (size_t half = 0; half < 2; half++)
        cudaMemcpyAsync(base + half * HALF_BYTES, r->expected + half * HALF_BYTES, used_bytes(r, c),
                        cudaMemcpyHostToDevice, r->stream);
    cudaStreamSynchronize(r->stream);
}

static void compare(test_rank *r, const gpu_call *c, const unsigned char *base, const char *what)
{
    size_t used = used_bytes(r, c), bytes = weir_dtype_bytes(c->dtype);
    for (size_t half = 0; half < 2; half++) {
        const unsigned char *expected = r->expected + half * HALF_BYTES;
        cudaMemcpyAsync(r->mirror, base + half * HALF_BYTES, used, cudaMemcpyDeviceToHost,
                        r->stream);
        if (cudaStreamSynchronize(r->stream) != cudaSuccess)
            fails(r, "cannot read back");
        if (memcmp(r->mirror, expected, used) == 0)
            continue;
        size_t at = 0, wrong = 0;
        for (size_t i = used; i-- > 0;)
            if (r->mirror[i] != expected[i]) {
                at = i;
                wrong++;
            }
        if (r->failures++ < 3)
            fprintf(stderr,
                    "# rank %d of %d: %s %s %s %s, count %zu skew %zu memory %d in place %d: half "
                    "%zu element %ld, %zu bytes wrong: got %02x, expected %02x\n",
                    r->rank, r->nranks, weir_collective_name(c->collective), what,
                    weir_dtype_name(c->dtype), weir_op_name(c->op), c->count, c->skew,
                    (int)c->memory, c->in_place, half,
                    ((long)at - MARGIN_BYTES) / (long)bytes - (long)c->skew, wrong, r->mirror[at],
                    expected[at]);
    }
}

/* Makes one call on both backends and compares the results. If a call fails, all ranks continue. */
static void try_call(test_rank *r, const gpu_call *c, const char *algo)
{
    unsigned char *base = gpu_base(r, c->memory);
    fill(r, c);
    send_halves(r, c, base);
    if (weir_comm_set_algo(r->gpu, c->collective, algo) != WEIR_OK ||
        run_call(r, r->gpu, c, base, r->stream) != WEIR_OK)
        fails(r, algo);
    if (run_call(r, r->host, c, r->expected, NULL) != WEIR_OK)
        fails(r, "host");
    if (cudaStreamSynchronize(r->stream) != cudaSuccess || weir_comm_check(r->gpu) != WEIR_OK)
        fails(r, algo);
    else
        compare(r, c, base, algo);
}

static int reduces(weir_collective collective)
{
    return collective == WEIR_COLL_ALLREDUCE || collective == WEIR_COLL_REDUCE_SCATTER ||
           collective == WEIR_COLL_REDUCE;
}

static int has_in_place(weir_collective collective)
{
    return reduces(collective) || collective == WEIR_COLL_ALLGATHER ||
           collective == WEIR_COLL_BROADCAST;
}

/* Calls check for every algorithm of the GPU backend. */
static void each_algo(test_rank *r, void (*check)(test_rank *r, const weir_algo_info *algo))
{
    size_t rows;
    const weir_algo_info *list = weir_algo_list(&rows);
    for (size_t i = 0; i < rows && r->failures == 0; i++)
        if (list[i].backend == WEIR_ALGO_CUDA && list[i].collective != WEIR_COLL_ALLTOALLV)
            check(r, &list[i]);
}

static void algo_types(test_rank *r, const weir_algo_info *algo)
{
    static const size_t counts[] = {1, 5, 130, 1027};
    for (int dtype = 0; dtype < WEIR_DTYPE_COUNT; dtype++)
        for (int op = 0; op < (reduces(algo->collective) ? WEIR_OP_COUNT : 1); op++)
            for (size_t i = 0; i < 4 && r->failures == 0; i++)
                for (int in_place = 0; in_place <= has_in_place(algo->collective); in_place++)
                    try_call(r,
                             &(gpu_call){.collective = algo->collective,
                                         .dtype = (weir_dtype)dtype,
                                         .op = (weir_op)op,
                                         .root = (int)i % r->nranks,
                                         .in_place = in_place,
                                         .count = counts[i]},
                             algo->name);
}

static void algo_sizes(test_rank *r, const weir_algo_info *algo)
{
    static const size_t counts[] = {2, 4096, 9999, 65536, 262145, 600000};
    for (size_t i = 0; i < 6; i++)
        for (int memory = 0; memory < MEMORY_KINDS; memory++)
            for (size_t skew = 0; skew < 4 && r->failures == 0; skew += 3)
                try_call(r,
                         &(gpu_call){.collective = algo->collective,
                                     .dtype = WEIR_FLOAT,
                                     .root = r->nranks - 1,
                                     .in_place = i % 2 && has_in_place(algo->collective),
                                     .count = counts[i],
                                     .skew = skew,
                                     .memory = (memory_kind)memory},
                         algo->name);
}

/* Lengths whose last vector is partial, repeated often: a warp that diverges at the end of a buffer
 * may store such a vector late, which shows in a few of ten thousand calls. */
static void algo_lines(test_rank *r, const weir_algo_info *algo)
{
    enum { TIMES = 250 };
    static const weir_dtype types[] = {WEIR_INT32, WEIR_INT8, WEIR_HALF};
    static const size_t counts[] = {1027, 5, 1027};
    for (int i = 0; strncmp(algo->name, "ll128", 5) == 0 && i < 3; i++)
        for (int time = 0; time < 2 * TIMES && r->failures == 0; time++)
            try_call(r,
                     &(gpu_call){.collective = algo->collective,
                                 .dtype = types[i],
                                 .in_place = time % 2 && has_in_place(algo->collective),
                                 .count = counts[i]},
                     algo->name);
}

/* -------------------------------------------------------- what the ranks do */

/* Runs a check with an open test_rank. */
typedef struct gpu_case {
    void (*check)(test_rank *r);
} gpu_case;

static int run_gpu_case(weir_boot *boot, void *argument)
{
    const gpu_case *c = argument;
    test_rank r;
    if (test_rank_open(&r, boot, 5000))
        return 1;
    c->check(&r);
    return test_rank_close(&r);
}

#define GPU_TEST(name, check)                                                                      \
    AT(name, test_on_gpus, (&(ranks_test){0, run_gpu_case, &(gpu_case){check}, NULL}))

static void check_types(test_rank *r)
{
    each_algo(r, algo_types);
}

static void check_whole_lines(test_rank *r)
{
    each_algo(r, algo_lines);
}

static void check_every_size(test_rank *r)
{
    if (weir_mem_register(r->gpu, r->unregistered + HALF_BYTES, HALF_BYTES, &r->registration) !=
        WEIR_OK)
        fails(r, "registration");
    each_algo(r, algo_sizes);
}

/* Splits that change with every call, some of them zero, with several calls in flight. */
static void splits_change(test_rank *r)
{
    enum { CALLS = 200 };
    size_t counts[MOST_GPUS * MOST_GPUS];
    for (uint64_t call = 0; call < CALLS && r->failures == 0; call++) {
        for (int i = 0; i < r->nranks * r->nranks; i++) {
            uint64_t random = mix_bits(call * 64 + (uint64_t)i);
            counts[i] = random % 4 == 0 ? 0 : (random >> 8) % (random % 8 == 1 ? 200000 : 600);
        }
        gpu_call c = {.collective = WEIR_COLL_ALLTOALLV,
                      .dtype = call % 2 ? WEIR_BFLOAT16 : WEIR_FLOAT,
                      .skew = call % 3,
                      .memory = (memory_kind)(call / 4 % 3),
                      .counts = counts};
        try_call(r, &c, "auto");
    }
}

/* Many calls between two synchronizations, of alternating algorithms, each of which reads the
 * output of the call before; then the same replayed from a graph. */
static void calls_in_a_row(test_rank *r)
{
    static const char *const algos[] = {"packet", "ll128", "push", "packet", "push", "ll128"};
    enum { ROUNDS = 6, REPLAYS = 25 };
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    gpu_call c = {
        .collective = WEIR_COLL_ALLREDUCE, .dtype = WEIR_UINT32, .in_place = 1, .count = 5000};
    fill(r, &c);
    send_halves(r, &c, r->device);
    for (int captured = 0; captured < 2; captured++) {
        if (captured)
            cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal);
        for (int i = 0; i < ROUNDS; i++)
            if (weir_comm_set_algo(r->gpu, c.collective, algos[i]) != WEIR_OK ||
                run_call(r, r->gpu, &c, r->device, r->stream) != WEIR_OK)
                fails(r, algos[i]);
    }
    if (cudaStreamEndCapture(r->stream, &graph) != cudaSuccess ||
        cudaGraphInstantiate(&exec, graph, 0) != cudaSuccess) {
        fails(r, "no graph");
        return;
    }
    for (int i = 0; i < REPLAYS; i++)
        cudaGraphLaunch(exec, r->stream);
    for (int i = 0; i < ROUNDS * (1 + REPLAYS); i++)
        run_call(r, r->host, &c, r->expected, NULL);
    cudaStreamSynchronize(r->stream);
    if (weir_comm_check(r->gpu) != WEIR_OK)
        fails(r, "replays");
    compare(r, &c, r->device, "in a row");
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
}

/* Two communicators on two streams of the same GPUs at the same time. */
static int two_streams(weir_boot *boot, void *argument)
{
    enum { CALLS = 100 };
    test_rank r[2];
    gpu_call c = {
        .collective = WEIR_COLL_ALLREDUCE, .dtype = WEIR_UINT32, .in_place = 1, .count = 3000};
    (void)argument;
    for (int i = 0; i < 2; i++) {
        if (test_rank_open(&r[i], boot, 5000))
            return 1;
        fill(&r[i], &c);
        send_halves(&r[i], &c, r[i].device);
    }
    for (int call = 0; call < CALLS; call++)
        for (int i = 0; i < 2; i++) {
            int which = (i + r[0].rank) % 2; /* ranks differ in which one comes first */
            weir_comm_set_algo(r[which].gpu, c.collective, call % 2 ? "packet" : "push");
            if (run_call(&r[which], r[which].gpu, &c, r[which].device, r[which].stream))
                fails(&r[which], "call");
        }
    for (int call = 0; call < CALLS; call++)
        for (int i = 0; i < 2; i++)
            run_call(&r[i], r[i].host, &c, r[i].expected, NULL);
    for (int i = 0; i < 2; i++) {
        cudaStreamSynchronize(r[i].stream);
        compare(&r[i], &c, r[i].device, "beside another stream");
    }
    return test_rank_close(&r[0]) + test_rank_close(&r[1]);
}

/* If a rank never calls, the others end at their deadline and report it. */
static int missing_rank(weir_boot *boot, void *argument)
{
    test_rank r;
    gpu_call c = {.collective = WEIR_COLL_ALLREDUCE, .dtype = WEIR_FLOAT, .count = 64};
    (void)argument;
    if (test_rank_open(&r, boot, 1000))
        return 1;
    double began_s = now_s();
    if (r.rank != 0) {
        if (run_call(&r, r.gpu, &c, r.device, r.stream) != WEIR_OK)
            fails(&r, "call");
        cudaStreamSynchronize(r.stream);
        weir_status status = weir_comm_check(r.gpu);
        if (status != WEIR_ERR_TIMEOUT && status != WEIR_ERR_ABORTED)
            fails(&r, "no deadline");
        if (now_s() - began_s > 5)
            fails(&r, "too late");
        if (run_call(&r, r.gpu, &c, r.device, r.stream) == WEIR_OK)
            fails(&r, "a call after the end");
    }
    weir_boot_barrier(boot);
    int failures = r.failures;
    weir_mem_free(r.library);
    weir_mem_free(r.host_memory);
    weir_comm_destroy(r.gpu);
    weir_comm_destroy(r.host);
    return failures;
}

/* Unusable buffers are rejected with a reason, and later calls still work. */
static void bad_buffers(test_rank *r)
{
    float local[4] = {0};
    if (weir_allreduce(r->gpu, local, local, 4, WEIR_FLOAT, WEIR_SUM, r->stream) !=
        WEIR_ERR_INVALID)
        fails(r, "host memory was accepted");
    if (weir_mem_register(r->gpu, local, sizeof local, &r->registration) == WEIR_OK)
        fails(r, "host memory was registered");
    gpu_call c = {.collective = WEIR_COLL_ALLREDUCE, .dtype = WEIR_FLOAT, .count = 64};
    try_call(r, &c, "auto");
}

/* --------------------------------------------------------------- test cases */

/* Without a GPU, creating a GPU communicator fails with an explanation on every rank. */
static int no_gpu_is_reported(weir_boot *boot, void *argument)
{
    weir_comm *comm = NULL;
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_CUDA;
    (void)argument;
    return weir_comm_create(boot, &config, &comm) != WEIR_ERR_UNSUPPORTED ||
           !strstr(weir_last_error(), "backend cuda");
}

/* With WEIR_BACKEND_AUTO it falls back to the host. */
static int auto_falls_back_to_host(weir_boot *boot, void *argument)
{
    weir_comm *comm = open_comm_with(boot, WEIR_BACKEND_AUTO, 0);
    (void)argument;
    if (!comm)
        return 1;
    int wrong = weir_comm_backend(comm) != WEIR_BACKEND_HOST || weir_comm_device(comm) != -1;
    weir_comm_destroy(comm);
    return wrong;
}

static void test_without_gpus(void **state)
{
    (void)state;
    if (count_gpus() > 0) {
        print_message("# this node has GPUs\n");
        skip();
    }
    run_ranks(3, no_gpu_is_reported, NULL);
    run_ranks(3, auto_falls_back_to_host, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GPU_TEST("every algorithm, type and operation gives the host's result", check_types),
        GPU_TEST("every size and kind of memory gives the host's result", check_every_size),
        GPU_TEST("LL128 lines arrive as a whole", check_whole_lines),
        GPU_TEST("alltoallv with splits that change", splits_change),
        GPU_TEST("many calls in a row, and replayed from a graph", calls_in_a_row),
        GPUS_TEST("two communicators on two streams", two_streams),
        GPUS_TEST("a missing rank ends the others at their deadline", missing_rank),
        GPU_TEST("unusable buffers are rejected", bad_buffers),
        AT("without GPUs, creation fails on every rank or falls back to the host",
           test_without_gpus, NULL),
    };
    return RUN_TESTS("GPU collectives", tests);
}
