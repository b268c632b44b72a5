/*
 * Proves that algorithms with their own kernels work on GPUs: compiled by NVRTC, launched through
 * the driver, replayed from graphs, and with contexts that captured graphs keep alive. Needs two
 * GPUs; the parent process never touches CUDA, because its children do.
 */
#define _GNU_SOURCE
#include "verify/tests/support/algo_files.h"
#include "verify/tests/support/gpu_ranks.h"

#include "comm/gpu/gpu.h"
#include <weir/algo.h>

enum { MOST = 3 << 20, MARGIN = 64, CANARY = 0xA5 };

static char example[4200];

typedef struct test_rank {
    weir_comm *comm;
    size_t rank, n;
    weir_mem *data; /* the input, then the output between margins */
    unsigned char *in, *out, *mirror;
    cudaStream_t stream;
} test_rank;

static int test_rank_open(test_rank *r, weir_boot *boot)
{
    memset(r, 0, sizeof *r);
    if (!(r->comm = open_gpu_comm(boot, 10000)))
        return 1;
    r->rank = (size_t)weir_comm_rank(r->comm);
    r->n = (size_t)weir_comm_nranks(r->comm);
    if (weir_mem_alloc(r->comm, (r->n + 1) * MOST + 4 * MARGIN, &r->data) != WEIR_OK ||
        cudaStreamCreate(&r->stream) != cudaSuccess) {
        fprintf(stderr, "# rank %zu: %s\n", r->rank, weir_last_error());
        return 1;
    }
    r->in = weir_mem_pointer(r->data);
    r->mirror = malloc((r->n + 1) * MOST + 4 * MARGIN);
    return 0;
}

static int test_rank_close(test_rank *r, int failures)
{
    cudaStreamDestroy(r->stream);
    weir_mem_free(r->data);
    weir_comm_destroy(r->comm);
    free(r->mirror);
    return failures;
}

/* Writes a new input, and canaries around and into the output. */
static void fill(test_rank *r, size_t bytes, int round)
{
    r->out = r->in + MOST + MARGIN + (size_t)(round % 16);
    boot_fill(r->mirror, bytes, (int)r->rank, round);
    cudaMemcpy(r->in, r->mirror, bytes, cudaMemcpyHostToDevice);
    cudaMemset(r->out - MARGIN, CANARY, r->n * bytes + 2 * MARGIN);
    cudaDeviceSynchronize();
}

static int gathered(test_rank *r, size_t bytes, int round)
{
    if (cudaStreamSynchronize(r->stream) != cudaSuccess)
        return 0;
    cudaMemcpy(r->mirror, r->out - MARGIN, r->n * bytes + 2 * MARGIN, cudaMemcpyDeviceToHost);
    for (size_t i = 0; i < MARGIN; i++)
        if (r->mirror[i] != CANARY || r->mirror[MARGIN + r->n * bytes + i] != CANARY)
            return 0;
    for (size_t peer = 0; peer < r->n; peer++)
        if (!boot_filled(r->mirror + MARGIN + peer * bytes, bytes, (int)peer, round))
            return 0;
    return 1;
}

static weir_status gather(test_rank *r, weir_algo *algo, size_t bytes, int blocks, int threads)
{
    return weir_algo_execute_args(algo, r->comm, r->in, r->out, bytes, r->n * bytes, WEIR_INT8,
                                  WEIR_SUM, r->stream, NULL, blocks, threads, NULL);
}

/* ------------------------------------------------------------------- gathering */

static int gather_all(weir_boot *boot, void *argument)
{
    static const size_t sizes[] = {0, 1, 127, 4099, 1 << 20, MOST - 3};
    static const int grids[][2] = {{0, 0}, {1, 32}, {16, 1024}};
    test_rank r;
    weir_algo *algo = NULL;
    int failures = 0, round = 0;
    (void)argument;
    if (test_rank_open(&r, boot))
        return 1;
    EXPECT_OK(&failures,
              weir_algo_from_file(r.comm, example, "allgather", WEIR_COLL_ALLGATHER, &algo));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !failures; i++)
        for (int g = 0; g < 3 && !failures; g++) {
            fill(&r, sizes[i], ++round);
            EXPECT_OK(&failures, gather(&r, algo, sizes[i], grids[g][0], grids[g][1]));
            EXPECT(&failures, gathered(&r, sizes[i], round));
        }
    EXPECT(&failures, gather(&r, algo, 64, 1 << 20, 1024) != WEIR_OK);
    EXPECT_OK(&failures, weir_comm_check(r.comm));
    weir_algo_destroy(algo);
    return test_rank_close(&r, failures);
}

/* --------------------------------------------------------------------- graphs */

static int capture(test_rank *r, weir_algo *algo, size_t bytes, weir_status *status,
                   cudaGraphExec_t *replay)
{
    cudaGraph_t graph = NULL;
    if (cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess)
        return 0;
    *status = gather(r, algo, bytes, 0, 0);
    if (cudaStreamEndCapture(r->stream, &graph) != cudaSuccess)
        return 0;
    int made = cudaGraphInstantiateWithFlags(replay, graph, 0) == cudaSuccess;
    cudaGraphDestroy(graph);
    return made;
}

static int replay_graphs(weir_boot *boot, void *argument)
{
    enum { BYTES = 70001, REPLAYS = 100 };
    test_rank r;
    weir_algo *algo = NULL;
    cudaGraphExec_t replay = NULL;
    weir_status status = WEIR_OK;
    int failures = 0;
    (void)argument;
    if (test_rank_open(&r, boot))
        return 1;
    EXPECT_OK(&failures,
              weir_algo_from_file(r.comm, example, "allgather", WEIR_COLL_ALLGATHER, &algo));
    fill(&r, BYTES, 0);
    EXPECT(&failures, capture(&r, algo, BYTES, &status, &replay));
    EXPECT(&failures, status == WEIR_ERR_UNSUPPORTED);
    EXPECT(&failures, boot_last_error_has("while a stream is captured"));
    if (replay)
        cudaGraphExecDestroy(replay);
    EXPECT_OK(&failures, gather(&r, algo, BYTES, 0, 0));
    EXPECT(&failures, gathered(&r, BYTES, 0));
    EXPECT(&failures, capture(&r, algo, BYTES, &status, &replay) && status == WEIR_OK);
    /* Other grids alternate in the second context; the captured one stays. */
    for (int blocks = 1; blocks < 5 && !failures; blocks++)
        EXPECT_OK(&failures, gather(&r, algo, BYTES, blocks, 0));
    EXPECT(&failures, weir_algo_contexts(algo, r.comm) == 2);
    for (int round = 0; round < REPLAYS && !failures; round++) {
        fill(&r, BYTES, round * 16); /* the captured call's output is at a fixed place */
        EXPECT(&failures, cudaGraphLaunch(replay, r.stream) == cudaSuccess);
        EXPECT(&failures, gathered(&r, BYTES, round * 16));
        EXPECT_OK(&failures, weir_comm_barrier(r.comm));
    }
    if (replay)
        cudaGraphExecDestroy(replay);
    weir_algo_destroy(algo);
    return test_rank_close(&r, failures);
}

/* ------------------------------------------------------------------- launching */

static const char source[] =
    "#include \"weir/kernel.h\"\n"
    "typedef struct add_args { uint64_t *to; int32_t more; } add_args;\n"
    "WEIR_KERNEL(add, add_args, args)\n"
    "{\n"
    "    WEIR_SHARED(room);\n"
    "    if (weir_tid() == 0)\n"
    "        room[0] = (char)args.more;\n"
    "    weir_block_sync();\n"
    "    if (weir_tid() == weir_nthreads() - 1)\n"
    "        atomicAdd((unsigned long long *)args.to, (unsigned long long)room[0]);\n"
    "}\n"
    "typedef struct fail_args { weir_guard guard; } fail_args;\n"
    "WEIR_KERNEL(give_up, fail_args, args)\n"
    "{\n"
    "    weir_kernel_fail(&args.guard, WEIR_ERR_INVALID);\n"
    "}\n";

static int compile(const test_rank *r, weir_kernel **kernel, weir_kernel **again)
{
    char path[512];
    int failures = 0;
    EXPECT_OK(&failures, weir_kernel_compile(r->comm, algo_path(path, "g.cu"), "add", kernel));
    EXPECT_OK(&failures, weir_kernel_compile(r->comm, path, "add", again));
    EXPECT(&failures, *again && weir_kernel_is_cached(*again));
    EXPECT(&failures, weir_kernel_compile(r->comm, path, "subtract", again) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("it has: add, give_up"));
    EXPECT(&failures,
           weir_kernel_compile(r->comm, algo_path(path, "h.cu"), "k", again) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("h.cu:3: error"));
    return failures;
}

static int compile_and_launch(weir_boot *boot, void *argument)
{
    test_rank r;
    weir_kernel *kernel = NULL, *again = NULL;
    weir_params params;
    uint64_t sum = 0;
    (void)argument;
    if (test_rank_open(&r, boot))
        return 1;
    int failures = compile(&r, &kernel, &again);
    if (failures)
        return test_rank_close(&r, failures);
    weir_params_clear(&params);
    weir_params_pointer(&params, r.in);
    weir_params_int32(&params, 3);
    EXPECT_OK(&failures, weir_kernel_launch(kernel, 4, 256, 100, r.stream, &params));
    EXPECT_OK(&failures, weir_kernel_launch(again, 2, 64, 100 << 10, r.stream, &params));
    cudaStreamSynchronize(r.stream);
    EXPECT_OK(&failures, weir_mem_read(r.data, 0, &sum, sizeof sum));
    EXPECT(&failures, sum == 18);
    EXPECT(&failures,
           weir_kernel_launch(kernel, 1 << 16, 1024, 1, r.stream, &params) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("are on the GPU at once"));
    EXPECT(&failures,
           weir_kernel_launch(kernel, 1, 32, 1 << 30, r.stream, &params) == WEIR_ERR_INVALID);
    weir_params_int32(&params, 3);
    weir_params_int32(&params, 3);
    EXPECT(&failures, weir_kernel_launch(kernel, 1, 32, 1, r.stream, &params) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("takes a parameter of 16 bytes, not 24"));
    EXPECT_OK(&failures, weir_comm_check(r.comm));
    weir_kernel_free(again);
    weir_kernel_free(kernel);
    return test_rank_close(&r, failures);
}

/* After a kernel has failed, the next call reports it on every rank whose kernel failed. */
static int give_up(weir_boot *boot, void *argument)
{
    test_rank r;
    weir_kernel *kernel = NULL;
    weir_params params;
    char path[512];
    int failures = 0;
    (void)argument;
    if (test_rank_open(&r, boot))
        return 1;
    EXPECT_OK(&failures, weir_kernel_compile(r.comm, algo_path(path, "g.cu"), "give_up", &kernel));
    if (failures)
        return test_rank_close(&r, failures);
    weir_guard guard = r.comm->gpu->ops->guard(r.comm);
    weir_params_clear(&params);
    weir_params_bytes(&params, &guard, sizeof guard, _Alignof(weir_guard));
    EXPECT_OK(&failures, weir_kernel_launch(kernel, 1, 32, 0, r.stream, &params));
    cudaStreamSynchronize(r.stream);
    EXPECT(&failures, weir_kernel_launch(kernel, 1, 32, 0, r.stream, &params) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("rank 0: a kernel failed: invalid argument"));
    weir_kernel_free(kernel);
    return test_rank_close(&r, failures);
}

static void test_failed_kernel_is_reported_by_the_next_call(void **state)
{
    (void)state;
    need_gpus(1);
    run_ranks(1, give_up, NULL);
}

static void test_kernels_are_compiled_and_launched(void **state)
{
    (void)state;
    need_gpus(1);
    algo_write("g.cu", source);
    algo_write("h.cu", "#include \"weir/kernel.h\"\nWEIR_KERNEL(k, int, args)\n{ nonsense }\n");
    run_ranks(1, compile_and_launch, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AT("kernels are compiled and launched", test_kernels_are_compiled_and_launched, NULL),
        AT("a failed kernel is reported by the next call",
           test_failed_kernel_is_reported_by_the_next_call, NULL),
        GPUS_TEST("the example computes an allgather", gather_all),
        TWO_GPUS_TEST("graphs replay and keep their context", replay_graphs, NULL),
    };
    char folder[4096];
    if (!getcwd(folder, sizeof folder))
        return 1;
    snprintf(example, sizeof example, "%s/lib/algo/examples/allgather.cu", folder);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("algorithms on GPUs", tests, algo_folder_open,
                                       algo_folder_close);
}
