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

enum { COUNT = 1024, BUFFER_BYTES = 1 << 20, HELD = BUFFER_BYTES / 4, MOST_GPUS = 8 };
enum { TIMEOUT_MS = 5000 };

/* A rank's GPU, another GPU, and memory on both. */
typedef struct rig {
    weir_comm *comm;
    int rank, nranks, other; /* other: a GPU that is not this rank's; -1: there is none */
    int failures;
    weir_mem *memory;
    char *in, *out; /* registered memory, promised to be at equal offsets on all ranks */
    char *plain;    /* unregistered memory (cudaMalloc) of BUFFER_BYTES */
    char *foreign;  /* on the other GPU */
    cudaStream_t stream, foreign_stream;
} rig;

static int fails(rig *r, const char *what)
{
    fprintf(stderr, "# rank %d of %d: %s: %s\n", r->rank, r->nranks, what, weir_last_error());
    return ++r->failures;
}

/* The call must have been rejected as invalid, with these words in its message. */
static void expect_invalid(rig *r, const char *what, weir_status status, const char *words)
{
    if (status != WEIR_ERR_INVALID || !strstr(weir_last_error(), words)) {
        fprintf(stderr, "# status %s, \"%s\" expected\n", weir_status_name(status), words);
        fails(r, what);
    }
}

static int open_foreign(rig *r, int device)
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

static int open_rig(rig *r, weir_boot *boot)
{
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.timeout_ms = TIMEOUT_MS;
    config.backend = WEIR_BACKEND_CUDA;
    memset(r, 0, sizeof *r);
    if (weir_comm_create(boot, &config, &r->comm) != WEIR_OK)
        return fails(r, "no communicator");
    r->rank = weir_comm_rank(r->comm);
    r->nranks = weir_comm_nranks(r->comm);
    if (open_foreign(r, weir_comm_device(r->comm)) ||
        cudaSetDevice(weir_comm_device(r->comm)) != cudaSuccess ||
        cudaMalloc((void **)&r->plain, BUFFER_BYTES) != cudaSuccess ||
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

static int close_rig(rig *r)
{
    if (cudaStreamSynchronize(r->stream) != cudaSuccess || weir_comm_check(r->comm) != WEIR_OK)
        fails(r, "at the end");
    weir_mem_free(r->memory);
    weir_comm_destroy(r->comm);
    cudaStreamDestroy(r->stream);
    cudaFree(r->plain);
    if (r->other >= 0) {
        cudaStreamDestroy(r->foreign_stream);
        cudaFree(r->foreign);
    }
    return r->failures;
}

static weir_status sum(const rig *r, const void *in, void *out, size_t count, cudaStream_t stream)
{
    return weir_allreduce(r->comm, in, out, count, WEIR_INT32, WEIR_SUM, stream);
}

/* A valid call must still give the right result. */
static void expect_service(rig *r, const char *after)
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

/* -------------------------------------------------------- what the ranks do */

static int buffers(weir_boot *boot, void *argument)
{
    static int local[COUNT];
    rig r;
    (void)argument;
    if (open_rig(&r, boot))
        return 1;
    expect_invalid(&r, "host input", sum(&r, local, r.out, COUNT, r.stream), "host memory");
    expect_invalid(&r, "host output", sum(&r, r.in, local, COUNT, r.stream), "host memory");
    expect_invalid(&r, "too short", sum(&r, r.plain, r.out, HELD + 1, r.stream), "ends after");
    expect_invalid(&r, "too short from its middle",
                   sum(&r, r.plain + BUFFER_BYTES / 2, r.out, HELD / 2 + 1, r.stream),
                   "ends after 524288");
    expect_invalid(&r, "too short in the library's memory",
                   sum(&r, r.in, r.out + 4, HELD, r.stream), "allocation by weir_mem_alloc ends");
    expect_service(&r, "after the buffers");
    if (sum(&r, r.plain, r.plain, HELD, r.stream) != WEIR_OK)
        fails(&r, "a whole buffer of cudaMalloc");
    expect_invalid(&r, "one element more than before",
                   sum(&r, r.plain, r.plain, HELD + 1, r.stream), "ends after");
    if (r.other >= 0) {
        expect_invalid(&r, "another GPU's input", sum(&r, r.foreign, r.out, COUNT, r.stream),
                       "a buffer is on GPU");
        expect_invalid(&r, "another GPU's output", sum(&r, r.in, r.foreign, COUNT, r.stream),
                       "a buffer is on GPU");
    }
    expect_service(&r, "after all of that");
    return close_rig(&r);
}

static weir_status call(const rig *r, weir_collective collective, const void *in, void *out,
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
static int algorithms(weir_boot *boot, void *argument)
{
    static int local[COUNT * MOST_GPUS];
    rig r;
    size_t rows;
    (void)argument;
    if (open_rig(&r, boot))
        return 1;
    const weir_algo_info *list = weir_algo_list(&rows);
    for (size_t i = 0; i < rows; i++) {
        char what[96];
        weir_collective collective = list[i].collective;
        if (list[i].backend != WEIR_ALGO_CUDA)
            continue;
        snprintf(what, sizeof what, "%s %s", weir_collective_name(collective), list[i].name);
        if (weir_comm_set_algo(r.comm, collective, list[i].name) != WEIR_OK)
            fails(&r, what);
        expect_invalid(&r, what, call(&r, collective, local, r.out, r.stream), "host memory");
        expect_invalid(&r, what, call(&r, collective, r.in, local, r.stream), "host memory");
        if (r.other >= 0)
            expect_invalid(&r, what, call(&r, collective, r.in, r.out, r.foreign_stream),
                           "the stream is on GPU");
    }
    weir_comm_set_algo(r.comm, WEIR_COLL_ALLREDUCE, "auto");
    expect_service(&r, "after every algorithm");
    return close_rig(&r);
}

static int counts(weir_boot *boot, void *argument)
{
    size_t huge[MOST_GPUS], many[MOST_GPUS], after[MOST_GPUS], none[MOST_GPUS] = {0};
    rig r;
    (void)argument;
    if (open_rig(&r, boot))
        return 1;
    for (int i = 0; i < MOST_GPUS; i++)
        huge[i] = SIZE_MAX / 4 + 2;
    expect_invalid(&r, "a count", sum(&r, r.in, r.out, SIZE_MAX / 4, r.stream), "too large");
    expect_invalid(&r, "counts", weir_alltoallv(r.comm, r.in, huge, none, r.out, huge, none,
                                                WEIR_INT32, r.stream), "too large");
    expect_invalid(&r, "displacements", weir_alltoallv(r.comm, r.in, none, huge, r.out, none, huge,
                                                       WEIR_INT32, r.stream), "too large");
    for (size_t i = 0; i < MOST_GPUS; i++) {
        many[i] = HELD;
        after[i] = i * HELD;
    }
    expect_invalid(&r, "more than there is", weir_alltoallv(r.comm, r.in, many, none, r.out, many,
                                                            after, WEIR_INT32, r.stream),
                   "allocation by weir_mem_alloc ends");
    expect_service(&r, "after the counts");
    return close_rig(&r);
}

/* A single rank, for which no kernel runs. */
static int single_rank(weir_boot *boot, void *argument)
{
    static int local[COUNT];
    rig r;
    (void)argument;
    if (open_rig(&r, boot))
        return 1;
    expect_invalid(&r, "host input", sum(&r, local, r.out, COUNT, r.stream), "host memory");
    expect_invalid(&r, "host output", sum(&r, r.in, local, COUNT, r.stream), "host memory");
    expect_invalid(&r, "host memory in place", sum(&r, local, local, COUNT, r.stream),
                   "host memory");
    expect_service(&r, "alone");
    return close_rig(&r);
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
    config.backend = WEIR_BACKEND_AUTO;
    if (weir_comm_create(boot, &config, &comm) != WEIR_OK)
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
    rig r;
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
    return close_rig(&r);
}

/* ------------------------------------------------------------------ harness */

static void test_on_two_gpus(void **state)
{
    int (*const *body)(weir_boot *, void *) = *state;
    need_gpus(2);
    run_ranks(2, *body, NULL);
}

static void test_rank_limits(void **state)
{
    (void)state;
    int gpus = need_gpus(1);
    run_ranks(1, single_rank, NULL);
    run_ranks(2, ranks_share_a_gpu, NULL);
    run_ranks(MOST_GPUS + 1, too_many_ranks, (void *)"at most 8 GPUs");
    if (gpus < MOST_GPUS)
        run_ranks(gpus + 1, too_many_ranks, (void *)"WEIR_ALLOW_SHARED_GPU=1");
}

/* Without a GPU, or a driver: on every rank, and it says what to do. What it says is
 * printed, because it depends on the machine. */
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
        print_message("# this machine has GPUs\n");
        skip();
    }
    run_ranks(3, no_gpu_is_reported, NULL);
}

int main(void)
{
    static int (*const bodies[])(weir_boot *, void *) = {buffers, algorithms, counts};
    const struct CMUnitTest tests[] = {
        AT("unusable buffers are rejected", test_on_two_gpus, (void *)&bodies[0]),
        AT("unusable buffers are rejected by every algorithm", test_on_two_gpus,
           (void *)&bodies[1]),
        AT("counts that overflow are rejected", test_on_two_gpus, (void *)&bodies[2]),
        cmocka_unit_test(test_rank_limits),
        cmocka_unit_test(test_without_gpus),
    };
    unsetenv("WEIR_ALLOW_SHARED_GPU"); /* its refusal is tested, too */
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
