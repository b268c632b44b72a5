/*
 * Proves that plans compute correct results on GPUs: the DSL's samples that fit the number of GPUs
 * (if they are installed beside the source) and the library's own plans, at short, long and odd
 * lengths, in and out of place, from registered and unregistered memory, replayed from graphs, and
 * of two communicators at once; all types and operations, compared with the library's allreduce;
 * and that a missing rank ends the others' kernels at the deadline. Needs two GPUs.
 */
#include "verify/tests/support/gpu_ranks.h"
#include "verify/tests/support/plan_ranks.h"

#include "plan/examples/examples.h"

#include <stdlib.h>

enum { MEMORY_BYTES = 9 << 20, REPLAYS = 100 };

/* A rank; its unregistered memory is from cudaMalloc. */
typedef struct test_rank {
    plan_rank of;
    cudaStream_t stream;
    char *given, *got; /* in host memory */
} test_rank;

static int fails(const test_rank *r, const char *what)
{
    fprintf(stderr, "# rank %d of %d: %s: %s; %s\n", r->of.rank, r->of.nranks, what,
            weir_last_error(), cudaGetErrorString(cudaGetLastError()));
    return 1;
}

static int test_rank_open(test_rank *r, weir_boot *boot, int timeout_ms)
{
    plan_rank *of = &r->of;
    memset(r, 0, sizeof *r);
    if (!(of->comm = open_gpu_comm(boot, timeout_ms)) ||
        weir_executor_create(of->comm, &of->executor) != WEIR_OK)
        return fails(r, "no executor");
    of->rank = weir_comm_rank(of->comm);
    of->nranks = weir_comm_nranks(of->comm);
    of->memory_bytes = MEMORY_BYTES;
    if (cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking) != cudaSuccess)
        return fails(r, "no CUDA");
    for (int i = 0; i < 2; i++)
        if (weir_mem_alloc(of->comm, MEMORY_BYTES, &of->memory[i]) != WEIR_OK ||
            cudaMalloc((void **)&of->plain[i], MEMORY_BYTES) != cudaSuccess)
            return fails(r, "no memory");
    r->given = malloc(MEMORY_BYTES);
    r->got = malloc(MEMORY_BYTES);
    return r->given && r->got ? 0 : 1;
}

static int test_rank_close(test_rank *r)
{
    int failures = cudaStreamSynchronize(r->stream) != cudaSuccess ? fails(r, "at the end") : 0;
    weir_executor_destroy(r->of.executor);
    for (int i = 0; i < 2; i++) {
        weir_mem_free(r->of.memory[i]);
        cudaFree(r->of.plain[i]);
    }
    cudaStreamDestroy(r->stream);
    weir_comm_destroy(r->of.comm);
    free(r->given);
    free(r->got);
    return failures;
}

/* A call's buffers on the device. */
typedef struct buffers {
    char *in, *out;
    size_t in_bytes, out_bytes;
} buffers;

static buffers place(const test_rank *r, const plan_use *use)
{
    const int collective = plan_collective(use->plan);
    const size_t n = (size_t)r->of.nranks, block = use->block_bytes;
    const int in_long = collective == WEIR_COLL_ALLTOALL || collective == WEIR_COLL_REDUCE_SCATTER;
    const int out_long = collective == WEIR_COLL_ALLTOALL || collective == WEIR_COLL_ALLGATHER;
    buffers b = {.in_bytes = in_long ? n * block : block,
                 .out_bytes = out_long ? n * block : block};
    b.in = use->is_plain ? r->of.plain[0] : weir_mem_pointer(r->of.memory[0]);
    b.out = use->is_plain ? r->of.plain[1] : weir_mem_pointer(r->of.memory[1]);
    b.in += PLAN_MARGIN + use->skew;
    b.out += PLAN_MARGIN + use->skew;
    if (use->in_place && b.in_bytes > b.out_bytes)
        b.out = b.in + (size_t)r->of.rank * block;
    else if (use->in_place)
        b.in = b.out + (b.out_bytes > b.in_bytes ? (size_t)r->of.rank * block : 0);
    return b;
}

/* Clears the output and its surroundings, and fills the input. */
static int fill_input(test_rank *r, const plan_use *use, const buffers *b, int round)
{
    char *around = b->out - PLAN_MARGIN;
    for (size_t i = 0; i < b->in_bytes / 4; i++)
        plan_store(r->given, i, use->dtype, plan_value(r->of.rank, i, round));
    if (cudaMemsetAsync(around, PLAN_CANARY, b->out_bytes + 2 * PLAN_MARGIN, r->stream) ||
        cudaMemcpyAsync(b->in, r->given, b->in_bytes, cudaMemcpyDefault, r->stream) ||
        cudaStreamSynchronize(r->stream))
        return fails(r, "filling");
    return 0;
}

static weir_status call(test_rank *r, const plan_use *use, const buffers *b)
{
    return weir_executor_run(r->of.executor, use->plan, b->in, b->out, b->in_bytes, b->out_bytes,
                             use->dtype, use->op, r->stream);
}

static int check(test_rank *r, const plan_use *use, const buffers *b, int round)
{
    const int collective = plan_collective(use->plan);
    const size_t whole = b->out_bytes + 2 * PLAN_MARGIN;
    if (cudaMemcpyAsync(r->got, b->out - PLAN_MARGIN, whole, cudaMemcpyDefault, r->stream) ||
        cudaStreamSynchronize(r->stream) || weir_comm_check(r->of.comm) != WEIR_OK)
        return fails(r, weir_plan_name(use->plan));
    const char *out = r->got + PLAN_MARGIN;
    for (size_t i = 0; i < b->out_bytes / 4; i++)
        if ((collective != WEIR_COLL_REDUCE || r->of.rank == 0) &&
            !plan_equals(out, i, use->dtype, plan_expected(&r->of, use, collective, i, round))) {
            fprintf(stderr,
                    "# rank %d: %s, %zu bytes a block, %s %s, in place %d, plain %d, skew %zu: "
                    "element %zu is wrong, expected %d\n",
                    r->of.rank, weir_plan_name(use->plan), use->block_bytes,
                    weir_dtype_name(use->dtype), weir_op_name(use->op), use->in_place,
                    use->is_plain, use->skew, i, plan_expected(&r->of, use, collective, i, round));
            return 1;
        }
    for (size_t i = 0; !use->in_place && i < PLAN_MARGIN; i++)
        if (r->got[i] != PLAN_CANARY || out[b->out_bytes + i] != PLAN_CANARY)
            return fails(r, "a plan wrote outside of its output");
    return 0;
}

static int run_once(test_rank *r, const plan_use *use, int round)
{
    const buffers b = place(r, use);
    if (fill_input(r, use, &b, round))
        return 1;
    if (call(r, use, &b) != WEIR_OK)
        return fails(r, weir_plan_name(use->plan));
    return check(r, use, &b, round);
}

/* Captures a call, once its context exists, and replays it several times in a row. */
static int capture_and_replay(test_rank *r, const plan_use *use, int round)
{
    const buffers b = place(r, use);
    cudaGraph_t graph = NULL;
    cudaGraphExec_t ready = NULL;
    if (run_once(r, use, round) || fill_input(r, use, &b, round) ||
        cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeGlobal) != cudaSuccess)
        return fails(r, "capture");
    weir_status status = call(r, use, &b);
    if (cudaStreamEndCapture(r->stream, &graph) != cudaSuccess || status != WEIR_OK ||
        cudaGraphInstantiate(&ready, graph, 0) != cudaSuccess)
        return fails(r, "a captured plan");
    for (int i = 0; i < REPLAYS; i++)
        if (cudaGraphLaunch(ready, r->stream) != cudaSuccess)
            return fails(r, "a replayed plan");
    int failures = check(r, use, &b, round);
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
    return failures;
}

/* Bytes of a block: short, long, odd, of several pipeline iterations, leaving ranks without
 * data. */
static const size_t lengths[] = {1024, 1 << 20, 4 * 3331, 60000, 8, 65536 + 4};
enum { NLENGTHS = sizeof lengths / sizeof *lengths };

static int use_plan(test_rank *r, const weir_plan *plan)
{
    int failures = 0;
    for (int round = 0; round < 3 * NLENGTHS && !failures; round++) {
        const size_t length = lengths[round % NLENGTHS];
        const plan_use use = {.plan = plan,
                              .block_bytes = length,
                              .dtype = round & 1 ? WEIR_INT32 : WEIR_FLOAT,
                              .op = round & 2 ? WEIR_MAX : WEIR_SUM,
                              .in_place = round / NLENGTHS == 1,
                              .is_plain = round / NLENGTHS == 2 && length < 70000,
                              .skew = round == 2 ? 4 : 0};
        failures = run_once(r, &use, round);
    }
    for (int i = 0; i < 3 && !failures; i++) {
        const plan_use use = {
            .plan = plan, .block_bytes = lengths[i], .dtype = WEIR_FLOAT, .op = WEIR_SUM};
        failures = capture_and_replay(r, &use, 50 + i);
    }
    return failures;
}

/* -------------------------------------------------------------------- plans */

static int run_samples(weir_boot *boot, void *argument)
{
    static const char *const names[] = {
        "exec_reduce",
        "exec_transfer_pack",
        "single_node_allreduce_pipeline.8",
        "single_node_allgather_pkt.8",
        "single_node_allreduce.8",
        "single_node_allreduce_pkt.8",
        "single_node_alltoall_alltoall.8",
    };
    test_rank r;
    (void)argument;
    if (test_rank_open(&r, boot, 20000))
        return NO_COMM;
    int failures = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && !failures; i++) {
        char file[128];
        weir_plan *plan = NULL;
        snprintf(file, sizeof file, "../shared/plans/%s.json", names[i]);
        if (access(file, R_OK) != 0)
            continue;
        if (weir_plan_read(file, &plan) != WEIR_OK)
            failures = fails(&r, file);
        else if (weir_plan_nranks(plan) == r.of.nranks)
            failures = use_plan(&r, plan);
        weir_plan_free(plan);
    }
    return failures + test_rank_close(&r);
}

static int run_examples(weir_boot *boot, void *argument)
{
    test_rank r;
    size_t count;
    const weiri_plan_example *all = weiri_plan_examples(&count);
    (void)argument;
    if (test_rank_open(&r, boot, 20000))
        return NO_COMM;
    int failures = 0;
    for (size_t i = 0; i < 2 * count && !failures; i++) {
        weiri_plan_example_options with = {.nranks = r.of.nranks,
                                           .instances = i & 1 ? 4 : 1,
                                           .in_place = (int)i & 1,
                                           .unit_bytes = 16384};
        weir_plan *plan = NULL;
        if (weiri_plan_example_make(&all[i / 2], &with, &plan) != WEIR_OK)
            failures = fails(&r, all[i / 2].name);
        else
            failures = use_plan(&r, plan);
        weir_plan_free(plan);
    }
    return failures + test_rank_close(&r);
}

static weir_plan *make(const test_rank *r, const char *name)
{
    weiri_plan_example_options with = {.nranks = r->of.nranks, .instances = 4};
    weir_plan *plan = NULL;
    if (weiri_plan_example_make(weiri_plan_example_find(name), &with, &plan) != WEIR_OK)
        fails(r, name);
    return plan;
}

/* ------------------------------------------------------------ two communicators */

static int run_two(weir_boot *boot, void *argument)
{
    static const char *const names[] = {"allreduce_twoshot", "allreduce_direct"};
    test_rank ranks[2];
    weir_plan *plans[2] = {NULL, NULL};
    int failures = 0;
    (void)argument;
    for (int i = 0; i < 2; i++) {
        if (test_rank_open(&ranks[i], boot, 20000))
            return NO_COMM;
        plans[i] = make(&ranks[i], names[i]);
        failures += !plans[i];
    }
    for (int round = 0; round < 8 && !failures; round++) {
        buffers b[2];
        plan_use use[2];
        for (int i = 0; i < 2; i++) {
            use[i] = (plan_use){.plan = plans[(round / 4 + i) % 2],
                                .dtype = WEIR_FLOAT,
                                .block_bytes = lengths[round % 4],
                                .op = WEIR_SUM};
            b[i] = place(&ranks[i], &use[i]);
            failures += fill_input(&ranks[i], &use[i], &b[i], round + i);
        }
        for (int repeat = 0; repeat < 20 && !failures; repeat++)
            for (int i = 0; i < 2; i++)
                if (call(&ranks[i], &use[i], &b[i]) != WEIR_OK)
                    failures += fails(&ranks[i], "one of two communicators");
        for (int i = 0; i < 2; i++)
            failures += check(&ranks[i], &use[i], &b[i], round + i);
    }
    for (int i = 0; i < 2; i++) {
        weir_plan_free(plans[i]);
        failures += test_rank_close(&ranks[i]);
    }
    return failures;
}

/* -------------------------------------------------------- types and operations */

/* The representations of 0, 1 and 2. */
static const uint64_t bits_of[WEIR_DTYPE_COUNT][3] = {
    [WEIR_INT8] = {0, 1, 2},
    [WEIR_UINT8] = {0, 1, 2},
    [WEIR_INT32] = {0, 1, 2},
    [WEIR_UINT32] = {0, 1, 2},
    [WEIR_INT64] = {0, 1, 2},
    [WEIR_UINT64] = {0, 1, 2},
    [WEIR_HALF] = {0, 0x3c00, 0x4000},
    [WEIR_FLOAT] = {0, 0x3f800000, 0x40000000},
    [WEIR_DOUBLE] = {0, 0x3ff0000000000000, 0x4000000000000000},
    [WEIR_BFLOAT16] = {0, 0x3f80, 0x4000},
    [WEIR_FP8_E4M3] = {0, 0x38, 0x40},
    [WEIR_FP8_E5M2] = {0, 0x3c, 0x40},
};

static int compare_type(test_rank *r, const weir_plan *plan, weir_dtype dtype, weir_op op)
{
    const size_t element = weir_dtype_bytes(dtype), count = 4099, bytes = count * element;
    char *in = weir_mem_pointer(r->of.memory[0]), *out = weir_mem_pointer(r->of.memory[1]);
    char *right = r->of.plain[0];
    for (size_t i = 0; i < count; i++)
        memcpy(r->given + i * element, &bits_of[dtype][(i + (size_t)r->of.rank * (i / 7)) % 3],
               element);
    if (cudaMemcpyAsync(in, r->given, bytes, cudaMemcpyDefault, r->stream) ||
        cudaStreamSynchronize(r->stream))
        return fails(r, "filling");
    if (weir_executor_run(r->of.executor, plan, in, out, bytes, bytes, dtype, op, r->stream) ||
        weir_allreduce(r->of.comm, in, right, count, dtype, op, r->stream))
        return fails(r, "calling");
    if (cudaMemcpyAsync(r->got, out, bytes, cudaMemcpyDefault, r->stream) ||
        cudaMemcpyAsync(r->given, right, bytes, cudaMemcpyDefault, r->stream) ||
        cudaStreamSynchronize(r->stream))
        return fails(r, "reading");
    if (memcmp(r->got, r->given, bytes) == 0)
        return 0;
    fprintf(stderr, "# rank %d: %s of %s: %s differs from the library's allreduce\n", r->of.rank,
            weir_op_name(op), weir_dtype_name(dtype), weir_plan_name(plan));
    return 1;
}

static int run_types(weir_boot *boot, void *argument)
{
    static const char *const names[] = {"allreduce_oneshot", "allreduce_direct"};
    test_rank r;
    (void)argument;
    if (test_rank_open(&r, boot, 20000))
        return NO_COMM;
    int failures = 0;
    for (int i = 0; i < 2 && !failures; i++) {
        weir_plan *plan = make(&r, names[i]);
        failures = !plan;
        for (int dtype = 0; dtype < WEIR_DTYPE_COUNT && !failures; dtype++)
            for (int op = 0; op < WEIR_OP_COUNT && !failures; op++)
                failures = compare_type(&r, plan, (weir_dtype)dtype, (weir_op)op);
        weir_plan_free(plan);
    }
    return failures + test_rank_close(&r);
}

/* -------------------------------------------------------------- a missing rank */

/* The last rank does not call; the other ranks' kernels end at the deadline and report where they
 * waited. */
static int run_missing(weir_boot *boot, void *argument)
{
    test_rank r;
    (void)argument;
    if (test_rank_open(&r, boot, 1000))
        return NO_COMM;
    weir_plan *plan = make(&r, "allreduce_twoshot");
    const plan_use use = {.plan = plan, .block_bytes = 4096, .dtype = WEIR_FLOAT, .op = WEIR_SUM};
    const buffers b = place(&r, &use);
    int failures = plan ? run_once(&r, &use, 1) : 1;
    if (!failures && r.of.rank + 1 < r.of.nranks) {
        if (call(&r, &use, &b) != WEIR_OK || cudaStreamSynchronize(r.stream) != cudaSuccess)
            failures = fails(&r, "the call whose wait must time out");
        const weir_status status = call(&r, &use, &b);
        if (status == WEIR_OK || !strstr(weir_last_error(), "thread block"))
            failures += fails(&r, "expected an error that names the thread block");
    }
    if (r.of.rank + 1 == r.of.nranks)
        sleep(3); /* the rank exists, but does not call */
    weir_plan_free(plan);
    test_rank_close(&r);
    return failures;
}

/* ------------------------------------------------------------------------ main */

int main(void)
{
    const struct CMUnitTest tests[] = {
        GPUS_TEST("samples of the DSL compute correct results, also in graphs", run_samples),
        GPUS_TEST("the library's own plans compute correct results, also in graphs", run_examples),
        GPUS_TEST("two communicators at once", run_two),
        GPUS_TEST("every type and operation gives the result of the library's allreduce",
                  run_types),
        GPUS_TEST("a missing rank ends the others at their deadline", run_missing),
    };
    return RUN_TESTS("plans on GPUs", tests);
}
