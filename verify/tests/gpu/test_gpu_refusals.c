/*
 * Proves what a GPU communicator rejects: buffers on other GPUs or in the host's memory, undersized
 * buffers, streams of other GPUs, counts that overflow, ranks that share a GPU, too many ranks.
 * Each rejection has its status and a remedy, nothing hangs, and the communicator serves the next
 * call. Most cases need two GPUs; the parent process never touches CUDA.
 */
#include "verify/tests/support/gpu_ranks.h"

#include <weir/weir.h>

#include <stdlib.h>
#include <string.h>

enum { COUNT = 1024, BUFFER_BYTES = 1 << 20, HELD = BUFFER_BYTES / 4 };
enum { TIMEOUT_MS = 5000 };

/* A rank's GPU, another GPU, and memory on both. */
typedef struct test_rank {
    weir_comm *comm;
    int rank, nranks, other; /* other: a GPU that is not this rank's; -1: there is none */
    int failures;
    weir_mem *memory;
    char *in, *out;     /* registered memory, promised to be at equal offsets on all ranks */
    char *unregistered; /* memory (cudaMalloc) of BUFFER_BYTES */
    char *foreign;      /* on the other GPU */
    cudaStream_t stream, foreign_stream;
} test_rank;

static int fails(test_rank *r, const char *what)
{
    fprintf(stderr, "# rank %d of %d: %s: %s\n", r->rank, r->nranks, what, weir_last_error());
    return ++r->failures;
}

/* The call must have been rejected as invalid, with these words in its message. */
static void expect_invalid(test_rank *r, const char *what, weir_status status, const char *words)
{
    if (status != WEIR_ERR_INVALID || !strstr(weir_last_error(), words)) {
        fprintf(stderr, "# status %s, \"%s\" expected\n", weir_status_name(status), words);
        fails(r, what);
    }
}

static int open_foreign(test_rank *r, int device)
{
    int count = 0;
    cudaGetDeviceCount(&count);
    r->other = count > 1 ? (device + 1) % count : -1;
    if (r->other < 0)
        return 0;
    return cudaSetDevice(r->other) != cudaSuccess ||
           cudaMalloc((void **)&r->foreign, BUFFER_BYTES) != cudaSuccess ||
           cudaStreamCreateWithFlags(&r->foreign_stream, cudaStreamNonBlocking) != cudaSuccess ||
           cudaSetDevice(device) != cudaSuccess;
}

static int test_rank_open(test_rank *r, weir_boot *boot)
{
    memset(r, 0, sizeof *r);
    if (!(r->comm = open_gpu_comm(boot, TIMEOUT_MS)))
        return 1;
    r->rank = weir_comm_rank(r->comm);
    r->nranks = weir_comm_nranks(r->comm);
    if (open_foreign(r, weir_comm_device(r->comm)) ||
        cudaSetDevice(weir_comm_device(r->comm)) != cudaSuccess ||
        cudaMalloc((void **)&r->unregistered, BUFFER_BYTES) != cudaSuccess ||
        cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking) != cudaSuccess)
        return fails(r, "no CUDA");
    if (weir_mem_alloc(r->comm, (size_t)2 * BUFFER_BYTES, &r->memory) != WEIR_OK ||
        weir_mem_symmetric(r->memory) != WEIR_OK)
        return fails(r, "no memory");
    r->in = weir_mem_pointer(r->memory);
    r->out = r->in + BUFFER_BYTES;
    for (int i = 0; i < 2; i++)
        if (weir_comm_barrier(r->comm) != WEIR_OK)
            return fails(r, "barrier");
    return 0;
}

static int test_rank_close(test_rank *r)
{
    if (cudaStreamSynchronize(r->stream) != cudaSuccess || weir_comm_check(r->comm) != WEIR_OK)
        fails(r, "at the end");
    weir_mem_free(r->memory);
    weir_comm_destroy(r->comm);
    cudaStreamDestroy(r->stream);
    cudaFree(r->unregistered);
    if (r->other >= 0) {
        cudaStreamDestroy(r->foreign_stream);
        cudaFree(r->foreign);
    }
    return r->failures;
}

static weir_status sum(const test_rank *r, const void *in, void *out, size_t count,
                       cudaStream_t stream)
{
    return weir_allreduce(r->comm, in, out, count, WEIR_INT32, WEIR_SUM, stream);
}

/* A valid call must still give the right result. */
static void expect_service(test_rank *r, const char *after)
{
    static int ones[COUNT], got[COUNT];
    for (int i = 0; i < COUNT; i++)
        ones[i] = i;
    if (weir_mem_write(r->memory, 0, ones, sizeof ones) != WEIR_OK ||
        sum(r, r->in, r->out, COUNT, r->stream) != WEIR_OK ||
        cudaStreamSynchronize(r->stream) != cudaSuccess ||
        weir_mem_read(r->memory, BUFFER_BYTES, got, sizeof got) != WEIR_OK)
        fails(r, after);
    for (int i = 0; i < COUNT; i++)
        if (got[i] != i * r->nranks) {
            fails(r, "wrong data after a rejected call");
            return;
        }
}

typedef struct refusal_case {
    void (*check)(test_rank *r);
} refusal_case;

static int run_refusal(weir_boot *boot, void *argument)
{
    const refusal_case *c = argument;
    test_rank r;
    if (test_rank_open(&r, boot))
        return 1;
    c->check(&r);
    return test_rank_close(&r);
}

#define REFUSAL_TEST(name, check) TWO_GPUS_TEST(name, run_refusal, (&(refusal_case){check}))

/* --------------------------------------------------------------- the checks */

static void buffers(test_rank *r)
{
    static int local[COUNT];
    expect_invalid(r, "host input", sum(r, local, r->out, COUNT, r->stream), "host memory");
    expect_invalid(r, "host output", sum(r, r->in, local, COUNT, r->stream), "host memory");
    expect_invalid(r, "too short", sum(r, r->unregistered, r->out, HELD + 1, r->stream),
                   "ends after");
    expect_invalid(r, "too short from its middle",
                   sum(r, r->unregistered + BUFFER_BYTES / 2, r->out, HELD / 2 + 1, r->stream),
                   "ends after 524288");
    expect_invalid(r, "too short in the library's memory",
                   sum(r, r->in, r->out + 4, HELD, r->stream), "allocation by weir_mem_alloc ends");
    expect_service(r, "after the buffers");
    if (sum(r, r->unregistered, r->unregistered, HELD, r->stream) != WEIR_OK)
        fails(r, "a whole buffer of cudaMalloc");
    expect_invalid(r, "one element more than before",
                   sum(r, r->unregistered, r->unregistered, HELD + 1, r->stream), "ends after");
    if (r->other >= 0) {
        expect_invalid(r, "another GPU's input", sum(r, r->foreign, r->out, COUNT, r->stream),
                       "a buffer is on GPU");
        expect_invalid(r, "another GPU's output", sum(r, r->in, r->foreign, COUNT, r->stream),
                       "a buffer is on GPU");
    }
    expect_service(r, "after all of that");
}

static weir_status call(const test_rank *r, weir_collective collective, const void *in, void *out,
                        cudaStream_t stream)
{
    size_t counts[MOST_GPUS], displs[MOST_GPUS], n = COUNT;
    for (size_t i = 0; i < MOST_GPUS; i++) {
        counts[i] = n;
        displs[i] = i * n;
    }
    switch (collective) {
    case WEIR_COLL_ALLREDUCE:
        return sum(r, in, out, n, stream);
    case WEIR_COLL_REDUCE_SCATTER:
        return weir_reduce_scatter(r->comm, in, out, n, WEIR_INT32, WEIR_SUM, stream);
    case WEIR_COLL_ALLGATHER:
        return weir_allgather(r->comm, in, out, n, WEIR_INT32, stream);
    case WEIR_COLL_BROADCAST:
        return weir_broadcast(r->comm, in, out, n, WEIR_INT32, r->rank, stream);
    case WEIR_COLL_REDUCE:
        return weir_reduce(r->comm, in, out, n, WEIR_INT32, WEIR_SUM, r->rank, stream);
    case WEIR_COLL_ALLTOALL:
        return weir_alltoall(r->comm, in, out, n, WEIR_INT32, stream);
    case WEIR_COLL_ALLTOALLV:
        return weir_alltoallv(r->comm, in, counts, displs, out, counts, displs, WEIR_INT32, stream);
    default:
        return weir_sendrecv(r->comm, in, n, (r->rank + 1) % r->nranks, out, n,
                             (r->rank + r->nranks - 1) % r->nranks, WEIR_INT32, stream);
    }
}

/* For every algorithm, a rejected call has no effect. */
static void algorithms(test_rank *r)
{
    static int local[COUNT * MOST_GPUS];
    size_t rows;
    const weir_algo_info *list = weir_algo_list(&rows);
    for (size_t i = 0; i < rows; i++) {
        char what[96];
        weir_collective collective = list[i].collective;
        if (list[i].backend != WEIR_ALGO_CUDA)
            continue;
        snprintf(what, sizeof what, "%s %s", weir_collective_name(collective), list[i].name);
        if (weir_comm_set_algo(r->comm, collective, list[i].name) != WEIR_OK)
            fails(r, what);
        expect_invalid(r, what, call(r, collective, local, r->out, r->stream), "host memory");
        expect_invalid(r, what, call(r, collective, r->in, local, r->stream), "host memory");
        if (r->other >= 0)
            expect_invalid(r, what, call(r, collective, r->in, r->out, r->foreign_stream),
                           "the stream is on GPU");
    }
    weir_comm_set_algo(r->comm, WEIR_COLL_ALLREDUCE, "auto");
    expect_service(r, "after every algorithm");
}

static void counts(test_rank *r)
{
    size_t huge[MOST_GPUS], many[MOST_GPUS], after[MOST_GPUS], none[MOST_GPUS] = {0};
    for (int i = 0; i < MOST_GPUS; i++)
        huge[i] = SIZE_MAX / 4 + 2;
    expect_invalid(r, "a count", sum(r, r->in, r->out, SIZE_MAX / 4, r->stream), "too large");
    expect_invalid(
        r, "counts",
        weir_alltoallv(r->comm, r->in, huge, none, r->out, huge, none, WEIR_INT32, r->stream),
        "too large");
    expect_invalid(
        r, "displacements",
        weir_alltoallv(r->comm, r->in, none, huge, r->out, none, huge, WEIR_INT32, r->stream),
        "too large");
    for (size_t i = 0; i < MOST_GPUS; i++) {
        many[i] = HELD;
        after[i] = i * HELD;
    }
    expect_invalid(
        r, "more than there is",
        weir_alltoallv(r->comm, r->in, many, none, r->out, many, after, WEIR_INT32, r->stream),
        "allocation by weir_mem_alloc ends");
    expect_service(r, "after the counts");
}

/* A single rank, for which no kernel runs. */
static void single_rank(test_rank *r)
{
    static int local[COUNT];
    expect_invalid(r, "host input", sum(r, local, r->out, COUNT, r->stream), "host memory");
    expect_invalid(r, "host output", sum(r, r->in, local, COUNT, r->stream), "host memory");
    expect_invalid(r, "host memory in place", sum(r, local, local, COUNT, r->stream),
                   "host memory");
    expect_service(r, "alone");
}

/* More ranks than GPUs, or than are supported, are rejected on every rank with these words; with
 * WEIR_BACKEND_AUTO the communicator is on the host. */
static int too_many_ranks(weir_boot *boot, void *words)
{
    weir_comm *comm = NULL;
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_CUDA;
    if (weir_comm_create(boot, &config, &comm) != WEIR_ERR_UNSUPPORTED ||
        !strstr(weir_last_error(), words)) {
        fprintf(stderr, "# \"%s\" expected: %s\n", (const char *)words, weir_last_error());
        return 1;
    }
    if (!(comm = open_comm_with(boot, WEIR_BACKEND_AUTO, 0)))
        return 1;
    int wrong = weir_comm_backend(comm) != WEIR_BACKEND_HOST;
    weir_comm_destroy(comm);
    return wrong;
}

/* Two ranks on the first GPU are rejected unless every rank allows it; then it works. */
static int ranks_share_a_gpu(weir_boot *boot, void *argument)
{
    weir_comm *comm = NULL;
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_CUDA;
    config.device = 0;
    test_rank r;
    (void)argument;
    if (weir_boot_rank(boot) == 0)
        setenv("WEIR_ALLOW_SHARED_GPU", "1", 1);
    if (weir_comm_create(boot, &config, &comm) != WEIR_ERR_UNSUPPORTED ||
        !strstr(weir_last_error(), "WEIR_ALLOW_SHARED_GPU=1"))
        return 1;
    setenv("WEIR_ALLOW_SHARED_GPU", "1", 1);
    memset(&r, 0, sizeof r);
    r.other = -1;
    config.timeout_ms = 20000;
    if (weir_comm_create(boot, &config, &r.comm) != WEIR_OK)
        return fails(&r, "no communicator of two ranks on one GPU");
    r.rank = weir_comm_rank(r.comm);
    r.nranks = weir_comm_nranks(r.comm);
    if (weir_mem_alloc(r.comm, (size_t)2 * BUFFER_BYTES, &r.memory) != WEIR_OK ||
        cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking) != cudaSuccess)
        return fails(&r, "no memory");
    r.in = weir_mem_pointer(r.memory);
    r.out = r.in + BUFFER_BYTES;
    expect_service(&r, "two ranks on one GPU");
    return test_rank_close(&r);
}

/* ------------------------------------------------------------------ harness */

static void test_rank_limits(void **state)
{
    (void)state;
    int gpus = need_gpus(1);
    run_ranks(1, run_refusal, &(refusal_case){single_rank});
    run_ranks(2, ranks_share_a_gpu, NULL);
    run_ranks(MOST_GPUS + 1, too_many_ranks, (void *)"at most 8 GPUs");
    if (gpus < MOST_GPUS)
        run_ranks(gpus + 1, too_many_ranks, (void *)"WEIR_ALLOW_SHARED_GPU=1");
}

/* Without a GPU or a driver, creation fails on every rank. The message is printed, because it
 * depends on the node. */
static int no_gpu_is_reported(weir_boot *boot, void *argument)
{
    weir_comm *comm = NULL;
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_CUDA;
    (void)argument;
    weir_status status = weir_comm_create(boot, &config, &comm);
    if (weir_boot_rank(boot) == 0)
        printf("# %s\n", weir_last_error());
    return status != WEIR_ERR_UNSUPPORTED || !strstr(weir_last_error(), "backend cuda: ");
}

static void test_without_gpus(void **state)
{
    (void)state;
    if (count_gpus() > 0) {
        print_message("# this node has GPUs\n");
        skip();
    }
    run_ranks(3, no_gpu_is_reported, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REFUSAL_TEST("unusable buffers are rejected", buffers),
        REFUSAL_TEST("unusable buffers are rejected by every algorithm", algorithms),
        REFUSAL_TEST("counts that overflow are rejected", counts),
        AT("one rank, ranks that share a GPU, and too many ranks", test_rank_limits, NULL),
        AT("without GPUs, every rank gets the reason", test_without_gpus, NULL),
    };
    unsetenv("WEIR_ALLOW_SHARED_GPU"); /* its refusal is tested, too */
    return RUN_TESTS("rejected GPU calls", tests);
}
