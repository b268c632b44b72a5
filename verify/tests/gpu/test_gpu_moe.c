/*
 * Proves dispatch and combine on GPUs against the oracle of verify/moe.h: all layouts and types,
 * forward and backward, in halves, on one node and on two emulated ones; a graph that is captured
 * once and replayed with 100 routings; calls by the tens of thousands without growing memory; and
 * what weir_moe_check reports: experts that do not exist, exceeded capacities, refused arguments, a
 * rank that makes no call. Needs GPUs: see support/gpu_ranks.h. The parent process never touches
 * CUDA, because its children do.
 */
#include "verify/moe.h"
#include "verify/tests/support/gpu_ranks.h"
#include "verify/tests/support/long_part.h"

#include <weir/moe.h>

#include <stdlib.h>

/* The members that are 0 have defaults. */
typedef struct moe_case {
    const char *name;
    int experts_each, topk, tokens, hidden;
    weir_moe_layout layout;
    weir_dtype dtype, dispatch_dtype;
    weirv_moe_spread spread;
    int alignment, registered, wide_ids, max_blocks;
} moe_case;

enum { BUFFERS = 16 };

/* A buffer of GPU memory and its copy on the host. */
typedef struct moe_buffer {
    char *device, *host;
    size_t bytes;
    weir_mem *memory; /* NULL: of cudaMalloc */
} moe_buffer;

enum {
    X,
    ROWS,
    OUTPUTS,
    OUT,
    IDS,
    WEIGHTS,
    SCALES,
    ROW_WEIGHTS,
    ROW_EXPERTS,
    COUNTS,
    OFFSETS,
    SOURCES,
    GRADS,
    WEIGHT_GRADS
};

typedef struct moe_rank {
    const moe_case *how;
    weir_comm *comm;
    weir_moe *group;
    weir_moe_info info;
    weir_moe_config config;
    weirv_moe *oracle;
    cudaStream_t stream;
    int rank, nranks, by_expert, failures;
    moe_buffer buffers[BUFFERS];
} moe_rank;

static void expect(moe_rank *r, int good, const char *what)
{
    if (!good && r->failures++ < 3)
        fprintf(stderr, "# rank %d of %d, %s: %s: %s\n", r->rank, r->nranks, r->how->name, what,
                weir_last_error());
}

#define EXPECT_CALL(r, call) expect(r, (call) == WEIR_OK, #call)

static void buffer_open(moe_rank *r, int which, size_t bytes)
{
    moe_buffer *b = &r->buffers[which];
    const int is_read = which == X || which == OUTPUTS;
    *b = (moe_buffer){.bytes = bytes ? bytes : 16};
    b->host = calloc(1, b->bytes);
    if (is_read && r->how->registered && weir_mem_alloc(r->comm, b->bytes, &b->memory) == WEIR_OK)
        b->device = weir_mem_pointer(b->memory);
    else
        cudaMalloc((void **)&b->device, b->bytes);
    expect(r, b->device && b->host && cudaMemset(b->device, 0, b->bytes) == cudaSuccess, "memory");
}

static void buffers_open(moe_rank *r)
{
    const size_t rows = (size_t)r->info.recv_rows, k = (size_t)r->config.topk;
    const size_t tokens = (size_t)r->config.max_tokens, local = (size_t)r->info.local_experts;
    buffer_open(r, X, tokens * r->info.row_bytes);
    buffer_open(r, ROWS, (rows + 1) * r->info.recv_row_bytes);
    buffer_open(r, OUTPUTS, rows * r->info.row_bytes);
    buffer_open(r, OUT, tokens * r->info.row_bytes);
    buffer_open(r, IDS, tokens * k * 8);
    buffer_open(r, WEIGHTS, tokens * k * 4);
    buffer_open(r, SCALES, rows * (size_t)r->info.scales_per_row * 4);
    buffer_open(r, ROW_WEIGHTS, rows * k * 4);
    buffer_open(r, ROW_EXPERTS, rows * k * 4);
    buffer_open(r, COUNTS, local * 4);
    buffer_open(r, OFFSETS, local * 4);
    buffer_open(r, SOURCES, (size_t)r->nranks * 4);
    buffer_open(r, GRADS, rows * k * 4);
    buffer_open(r, WEIGHT_GRADS, tokens * k * 4);
    /* What r->stream does next is not ordered with the memsets. */
    expect(r, cudaDeviceSynchronize() == cudaSuccess, "memory");
    for (int i = 0; i < 2; i++) /* peers map the memory */
        expect(r, weir_comm_barrier(r->comm) == WEIR_OK, "barrier");
}

static void push(moe_rank *r, int which)
{
    const moe_buffer *b = &r->buffers[which];
    expect(r,
           cudaMemcpyAsync(b->device, b->host, b->bytes, cudaMemcpyHostToDevice, r->stream) ==
               cudaSuccess,
           "copy");
}

static void pull(moe_rank *r, int which)
{
    const moe_buffer *b = &r->buffers[which];
    expect(r,
           cudaMemcpyAsync(b->host, b->device, b->bytes, cudaMemcpyDeviceToHost, r->stream) ==
               cudaSuccess,
           "copy");
}

static void settle(moe_rank *r)
{
    expect(r, cudaStreamSynchronize(r->stream) == cudaSuccess, "stream");
}

static weirv_moe *oracle_open(moe_rank *r, uint64_t seed)
{
    char problem[WEIRV_MOE_MESSAGE];
    weirv_moe *oracle = NULL;
    const weirv_moe_shape shape = {r->nranks, r->config, r->how->spread, 0.3, NULL, seed};
    expect(r, weirv_moe_open(&shape, &oracle, problem) == 0, "oracle");
    return oracle;
}

static void rank_open(moe_rank *r, weir_boot *boot, const moe_case *how, int timeout_ms)
{
    memset(r, 0, sizeof *r);
    r->how = how;
    r->rank = weir_boot_rank(boot);
    r->nranks = weir_boot_nranks(boot);
    if (!(r->comm = open_gpu_comm(boot, timeout_ms)))
        exit(1);
    r->config = (weir_moe_config)WEIR_MOE_CONFIG_INIT;
    r->config.experts = how->experts_each * r->nranks;
    r->config.topk = how->topk;
    r->config.max_tokens = how->tokens;
    r->config.hidden = how->hidden;
    r->config.dtype = how->dtype;
    if (how->dispatch_dtype)
        r->config.dispatch_dtype = how->dispatch_dtype;
    r->config.layout = how->layout;
    r->config.alignment = how->alignment;
    r->config.registered = how->registered;
    r->config.max_blocks = how->max_blocks;
    r->by_expert = how->layout == WEIR_MOE_EXPERT_MAJOR;
    expect(r, cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking) == cudaSuccess,
           "stream");
    EXPECT_CALL(r, weir_moe_create(r->comm, &r->config, &r->group));
    if (r->failures)
        exit(1);
    r->info = weir_moe_get_info(r->group);
    buffers_open(r);
    r->oracle = oracle_open(r, 7);
    if (r->failures)
        exit(1);
}

static int rank_close(moe_rank *r)
{
    weirv_moe_close(r->oracle);
    weir_moe_free(r->group);
    for (int i = 0; i < BUFFERS; i++) {
        weir_mem_free(r->buffers[i].memory);
        if (!r->buffers[i].memory)
            cudaFree(r->buffers[i].device);
        free(r->buffers[i].host);
    }
    cudaStreamDestroy(r->stream);
    weir_comm_destroy(r->comm);
    return r->failures;
}

/* --------------------------------------------------------------------- calls */

static void *device(const moe_rank *r, int which)
{
    return r->buffers[which].device;
}

static weir_moe_dispatch_args dispatch_args(const moe_rank *r, int version, int is_backward)
{
    weir_moe_dispatch_args a = WEIR_MOE_DISPATCH_ARGS_INIT;
    a.handle = version % 2;
    a.tokens = weirv_moe_tokens(r->oracle, version, r->rank);
    a.x = device(r, X);
    a.topk_experts = is_backward ? NULL : device(r, IDS);
    a.topk_dtype = r->how->wide_ids ? WEIR_INT64 : WEIR_INT32;
    a.topk_weights = is_backward ? NULL : device(r, WEIGHTS);
    a.rows = device(r, ROWS);
    a.rows_bytes = r->info.recv_bytes;
    a.row_scales = r->info.scales_per_row ? device(r, SCALES) : NULL;
    a.row_weights = device(r, ROW_WEIGHTS);
    a.row_experts = r->by_expert ? NULL : device(r, ROW_EXPERTS);
    a.expert_counts = device(r, COUNTS);
    a.expert_offsets = r->by_expert ? device(r, OFFSETS) : NULL;
    a.source_counts = device(r, SOURCES);
    a.stream = r->stream;
    return a;
}

static weir_moe_combine_args combine_args(const moe_rank *r, int version, int is_backward)
{
    weir_moe_combine_args a = WEIR_MOE_COMBINE_ARGS_INIT;
    a.handle = version % 2;
    a.rows = device(r, OUTPUTS);
    a.weights = r->by_expert && !is_backward ? device(r, WEIGHTS) : NULL;
    a.row_weight_grads = is_backward ? device(r, GRADS) : NULL;
    a.weight_grads = is_backward ? device(r, WEIGHT_GRADS) : NULL;
    a.out = device(r, OUT);
    a.out_bytes = r->buffers[OUT].bytes;
    a.stream = r->stream;
    return a;
}

static float grad_of(int source, int token, int choice)
{
    return (float)(source * 65536 + token * 16 + choice);
}

static void fill_grads(moe_rank *r, int version)
{
    float *grads = (float *)(void *)r->buffers[GRADS].host;
    const int count = weirv_moe_received(r->oracle, version, r->rank), k = r->config.topk;
    for (int i = 0; i < count; i++) {
        int source, token, choice;
        const int row = weirv_moe_row(r->oracle, version, r->rank, i, &source, &token, &choice);
        for (int j = 0; j < (r->by_expert ? 1 : k); j++)
            grads[r->by_expert ? row : row * k + j] =
                grad_of(source, token, r->by_expert ? choice : j);
    }
    push(r, GRADS);
}

/* Copies the inputs of a version to the GPU; data: that of the tokens. */
static void fill(moe_rank *r, int version, int data)
{
    const int32_t *experts = weirv_moe_experts(r->oracle, version, r->rank);
    const size_t choices = (size_t)r->config.max_tokens * (size_t)r->config.topk;
    for (size_t i = 0; i < choices; i++)
        if (r->how->wide_ids)
            ((int64_t *)(void *)r->buffers[IDS].host)[i] = experts[i];
        else
            ((int32_t *)(void *)r->buffers[IDS].host)[i] = experts[i];
    memcpy(r->buffers[WEIGHTS].host, weirv_moe_weights(r->oracle, version, r->rank), choices * 4);
    weirv_moe_fill_tokens(r->oracle, version, data, r->rank, r->buffers[X].host);
    weirv_moe_fill_outputs(r->oracle, version, r->rank, r->buffers[OUTPUTS].host);
    memset(r->buffers[ROWS].host, WEIRV_MOE_GUARD, r->buffers[ROWS].bytes);
    memset(r->buffers[OUT].host, WEIRV_MOE_GUARD, r->buffers[OUT].bytes);
    for (int which = X; which <= WEIGHTS; which++)
        push(r, which);
    fill_grads(r, version);
}

static void check(moe_rank *r, int version, int data, int is_backward)
{
    const weirv_moe_sample all = {1, 0};
    char message[WEIRV_MOE_MESSAGE] = "";
    for (int which = 0; which < BUFFERS; which++)
        if (r->buffers[which].device)
            pull(r, which);
    settle(r);
    EXPECT_CALL(r, weir_moe_check(r->group));
    const moe_buffer *b = r->buffers;
    const size_t guard =
        (size_t)weirv_moe_end_row(r->oracle, version, r->rank) * r->info.recv_row_bytes;
    const weirv_moe_received_rows got = {
        b[ROWS].host,
        r->info.scales_per_row ? (float *)(void *)b[SCALES].host : NULL,
        (float *)(void *)b[ROW_WEIGHTS].host,
        r->by_expert ? NULL : (int32_t *)(void *)b[ROW_EXPERTS].host,
        (int32_t *)(void *)b[COUNTS].host,
        r->by_expert ? (int32_t *)(void *)b[OFFSETS].host : NULL,
        (int32_t *)(void *)b[SOURCES].host,
        b[ROWS].host + guard,
        NULL};
    expect(r,
           !weirv_moe_check_dispatch(r->oracle, version, data, r->rank, &got, all, message) &&
               !weirv_moe_check_combine(r->oracle, version, r->rank, b[OUT].host, WEIRV_MOE_OUTPUTS,
                                        r->by_expert && !is_backward, 0, all, message),
           message);
    const int32_t *experts = weirv_moe_experts(r->oracle, version, r->rank);
    const float *grads = (float *)(void *)b[WEIGHT_GRADS].host;
    const int k = r->config.topk, tokens = weirv_moe_tokens(r->oracle, version, r->rank);
    int wrong = 0;
    for (int i = 0; is_backward && i < tokens * k; i++)
        wrong += grads[i] != (experts[i] < 0 ? 0 : grad_of(r->rank, i / k, i % k));
    expect(r, !wrong, "gradients of weights");
}

/* ------------------------------------------------------------- right results */

#define BF16 WEIR_BFLOAT16
#define FP8 WEIR_FP8_E4M3
#define EXPERT WEIR_MOE_EXPERT_MAJOR
#define RANK WEIR_MOE_RANK_MAJOR
#define FLAT WEIR_MOE_FLAT
#define UNIFORM WEIRV_MOE_UNIFORM

static const moe_case right_cases[] = {
    {"expert", 8, 4, 64, 1024, EXPERT, BF16, 0, UNIFORM, 0, 1, 0, 0},
    {"expert, unregistered", 8, 4, 64, 1024, EXPERT, BF16, 0, UNIFORM, 16, 0, 1, 0},
    {"expert, half, 2 blocks", 4, 8, 33, 520, EXPERT, WEIR_HALF, 0, WEIRV_MOE_RAGGED, 4, 0, 0, 2},
    {"expert, float, fp8", 4, 8, 33, 516, EXPERT, WEIR_FLOAT, FP8, WEIRV_MOE_MASKED, 8, 0, 0, 0},
    {"expert, fp8", 16, 8, 200, 7168, EXPERT, BF16, FP8, WEIRV_MOE_ZIPF, 128, 1, 0, 0},
    {"rank", 4, 4, 64, 1024, RANK, BF16, 0, WEIRV_MOE_HOT, 0, 1, 0, 0},
    {"rank, half, fp8", 4, 4, 64, 1000, RANK, WEIR_HALF, FP8, WEIRV_MOE_EMPTY, 0, 0, 1, 0},
    {"flat", 4, 4, 200, 4096, FLAT, BF16, 0, UNIFORM, 0, 1, 0, 0},
    {"flat, float", 4, 3, 64, 132, FLAT, WEIR_FLOAT, 0, WEIRV_MOE_RAGGED, 0, 0, 0, 1},
    {"flat, fp8", 4, 3, 64, 4096, FLAT, BF16, FP8, WEIRV_MOE_MASKED, 0, 1, 0, 0},
    {"shortest rows", 16, 16, 5, 8, EXPERT, BF16, 0, WEIRV_MOE_RAGGED, 0, 0, 0, 0},
};

static void forward(moe_rank *r, int version)
{
    const weir_moe_dispatch_args d = dispatch_args(r, version, 0);
    const weir_moe_combine_args c = combine_args(r, version, 0);
    fill(r, version, version);
    EXPECT_CALL(r, weir_moe_dispatch(r->group, &d));
    EXPECT_CALL(r, weir_moe_combine(r->group, &c));
    check(r, version, version, 0);
}

static void backward(moe_rank *r, int version)
{
    const int data = (version + 1) % WEIRV_MOE_VERSIONS;
    const weir_moe_dispatch_args d = dispatch_args(r, version, 1);
    const weir_moe_combine_args c = combine_args(r, version, 1);
    fill(r, version, data);
    EXPECT_CALL(r, weir_moe_dispatch_send(r->group, &d));
    EXPECT_CALL(r, weir_moe_dispatch_complete(r->group));
    EXPECT_CALL(r, weir_moe_combine_send(r->group, &c));
    EXPECT_CALL(r, weir_moe_combine_complete(r->group));
    check(r, version, data, 1);
}

static int right_result(weir_boot *boot, const moe_case *how)
{
    moe_rank r;
    rank_open(&r, boot, how, 20000);
    for (int version = 0; !r.failures && version < WEIRV_MOE_VERSIONS; version++) {
        forward(&r, version);
        backward(&r, version);
    }
    return rank_close(&r);
}

/* All cases in the same processes, which take seconds to start on several GPUs. */
static int right_results(weir_boot *boot, void *argument)
{
    int failures = 0;
    (void)argument;
    for (size_t i = 0; !failures && i < sizeof right_cases / sizeof *right_cases; i++) {
        failures = right_result(boot, &right_cases[i]);
        if (failures)
            print_message("# wrong: %s\n", right_cases[i].name);
    }
    return failures;
}

/* Runs a body with several ranks, if there are GPUs for them or they may share one. */
static void run_several(int most, ranks_body *body, void *argument)
{
    if (sharing_ranks() || count_gpus() > 1)
        run_gpu_ranks(most, body, argument);
    else
        print_message("# needs 2 GPUs for several ranks, here is 1\n");
}

static void test_right_results(void **state)
{
    (void)state;
    need_gpus(1);
    run_ranks(1, right_results, NULL);
    run_several(MOST_GPUS, right_results, NULL);
}

/* The same with the ranks on two nodes in turn; buffers of the host and captures are refused. */
static int across_nodes(weir_boot *boot, void *argument)
{
    static const size_t cases[] = {1, 4, 6, 9};
    int failures = 0;
    (void)argument;
    setenv("WEIR_HOSTID", weir_boot_rank(boot) % 2 ? "b" : "a", 1);
    setenv("WEIR_TRANSPORT", "tcp", 1);
    for (size_t i = 0; !failures && i < sizeof cases / sizeof *cases; i++) {
        moe_rank r;
        rank_open(&r, boot, &right_cases[cases[i]], 20000);
        expect(&r, weir_comm_nnodes(r.comm) == 2, "nodes");
        for (int version = 0; !r.failures && version < WEIRV_MOE_VERSIONS; version++) {
            forward(&r, version);
            backward(&r, version);
        }
        weir_moe_dispatch_args d = dispatch_args(&r, 0, 0);
        d.rows = r.rank == 1 ? (void *)&r : d.rows;
        expect(&r, weir_moe_dispatch(r.group, &d) == WEIR_ERR_INVALID, "memory of the stack");
        d = dispatch_args(&r, 0, 0);
        cudaGraph_t graph = NULL;
        cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal);
        expect(&r, weir_moe_dispatch(r.group, &d) == WEIR_ERR_INVALID, "a capture");
        cudaStreamEndCapture(r.stream, &graph);
        cudaGraphDestroy(graph);
        forward(&r, 1);
        failures = rank_close(&r);
    }
    return failures;
}

static void test_across_nodes(void **state)
{
    (void)state;
    need_gpus(1);
    run_several(4, across_nodes, NULL);
}

/* -------------------------------------------------------------------- graphs */

enum { REPLAYS = 100 };
static const moe_case replayed_case = {"graph", 8,       4,  48, 512, EXPERT, BF16,
                                       0,       UNIFORM, 16, 1,  0,   0};

static int replayed(weir_boot *boot, void *argument)
{
    moe_rank r;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    (void)argument;
    rank_open(&r, boot, &replayed_case, 20000);
    forward(&r, 0);
    const weir_moe_dispatch_args d = dispatch_args(&r, 0, 0);
    const weir_moe_combine_args c = combine_args(&r, 0, 0);
    expect(&r, cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeGlobal) == cudaSuccess,
           "capture");
    EXPECT_CALL(&r, weir_moe_dispatch(r.group, &d));
    EXPECT_CALL(&r, weir_moe_combine(r.group, &c));
    expect(&r, cudaStreamEndCapture(r.stream, &graph) == cudaSuccess, "capture");
    expect(&r, cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess, "graph");
    for (int i = 0; !r.failures && i < REPLAYS; i++) {
        const int version = i % WEIRV_MOE_VERSIONS;
        if (!version) {
            weirv_moe_close(r.oracle);
            r.oracle = oracle_open(&r, 100 + (uint64_t)i);
        }
        fill(&r, version, version);
        expect(&r, cudaGraphLaunch(exec, r.stream) == cudaSuccess, "launch");
        check(&r, version, version, 0);
    }
    if (exec)
        cudaGraphExecDestroy(exec);
    if (graph)
        cudaGraphDestroy(graph);
    return rank_close(&r);
}

/* -------------------------------------------------------------------- memory */

static const moe_case plain_case = {"plain", 4, 2, 8, 256, EXPERT, BF16, 0, UNIFORM, 0, 0, 0, 0};

static size_t free_bytes(void)
{
    size_t available = 0, all = 0;
    cudaMemGetInfo(&available, &all);
    return available;
}

static size_t resident_pages(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*u %lu", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return pages;
}

/* Makes pairs of calls: *argument of them. */
static int many_calls(weir_boot *boot, void *argument)
{
    enum { GROWTH_PAGES = 64 };
    moe_rank r;
    rank_open(&r, boot, &plain_case, 20000);
    forward(&r, 0);
    const weir_moe_dispatch_args d = dispatch_args(&r, 0, 0);
    const weir_moe_combine_args c = combine_args(&r, 0, 0);
    size_t free_before = 0, pages_before = 0;
    for (int i = 0; !r.failures && i < 200 + *(const int *)argument; i++) {
        EXPECT_CALL(&r, weir_moe_dispatch(r.group, &d));
        EXPECT_CALL(&r, weir_moe_combine(r.group, &c));
        if (i % 100 == 99)
            settle(&r);
        if (i == 199) {
            expect(&r, weir_comm_barrier(r.comm) == WEIR_OK, "barrier");
            free_before = free_bytes();
            pages_before = resident_pages();
        }
    }
    settle(&r);
    expect(&r, weir_comm_barrier(r.comm) == WEIR_OK, "barrier");
    expect(&r, free_bytes() == free_before, "GPU memory has grown");
    expect(&r, resident_pages() <= pages_before + GROWTH_PAGES, "host memory has grown");
    expect(&r, weir_comm_barrier(r.comm) == WEIR_OK, "barrier");
    forward(&r, 1);
    return rank_close(&r);
}

static void test_memory(void **state)
{
    (void)state;
    int many = 30000, few = 100;
    need_gpus(1);
    run_ranks_within(4 * LIMIT_MS, 1, many_calls, &many);
    run_several(MOST_GPUS, many_calls, &few);
    if (long_part("60000 calls of several ranks") && !sharing_ranks())
        run_several(2, many_calls, &many);
}

/* ------------------------------------------------------------------ failures */

static void expect_report(moe_rank *r, weir_status status, const char *text)
{
    settle(r);
    const weir_status got = weir_moe_check(r->group);
    expect(r, got == status, "another status");
    if (got != WEIR_OK && !strstr(weir_last_error(), text))
        expect(r, 0, text);
}

static int reports(weir_boot *boot, void *argument)
{
    moe_rank r;
    (void)argument;
    rank_open(&r, boot, &plain_case, 20000);
    const weir_moe_dispatch_args d = dispatch_args(&r, 0, 0);
    weir_moe_combine_args c = combine_args(&r, 0, 0);
    fill(&r, 0, 0);
    if (r.rank == 1)
        ((int32_t *)(void *)r.buffers[IDS].host)[3] = r.config.experts;
    push(&r, IDS);
    EXPECT_CALL(&r, weir_moe_dispatch(r.group, &d));
    expect_report(&r, WEIR_ERR_INVALID, "dispatch on rank 1: choice 1 of token 1 names expert");
    pull(&r, ROWS);
    settle(&r);
    expect(&r, (uint8_t)r.buffers[ROWS].host[0] == WEIRV_MOE_GUARD, "a row was written");
    EXPECT_CALL(&r, weir_moe_combine(r.group, &c));
    expect_report(&r, WEIR_ERR_INVALID, "has no routing");
    forward(&r, 1);
    c.handle = 1;
    c.out_bytes = r.rank == 1 ? 1 : c.out_bytes;
    const weir_status status = weir_moe_combine(r.group, &c);
    expect(&r, status == (r.rank == 1 ? WEIR_ERR_INVALID : WEIR_OK), "out_bytes");
    expect_report(&r, r.rank == 1 ? WEIR_OK : WEIR_ERR_INVALID,
                  "combine on rank 1: out has 1 bytes");
    forward(&r, 2);
    backward(&r, 2);
    return rank_close(&r);
}

static const moe_case full_case = {"full", 4, 2, 8, 256, FLAT, BF16, 0, WEIRV_MOE_UNIFORM,
                                   0,      0, 0, 0};

/* A group with room for one row less than a rank receives. */
static int overflows(weir_boot *boot, void *argument)
{
    moe_rank r;
    weir_moe *small = NULL, *large;
    (void)argument;
    rank_open(&r, boot, &full_case, 20000);
    weir_moe_config config = r.config;
    weir_moe_dispatch_args d = dispatch_args(&r, 0, 0);
    config.recv_capacity = 1;
    for (int rank = 0; rank < r.nranks; rank++) {
        const int rows = weirv_moe_end_row(r.oracle, 0, rank);
        config.recv_capacity = rows > config.recv_capacity ? rows : config.recv_capacity;
    }
    config.recv_capacity--;
    EXPECT_CALL(&r, weir_moe_create(r.comm, &config, &small));
    fill(&r, 0, 0);
    EXPECT_CALL(&r, weir_moe_dispatch(small, &d));
    large = r.group;
    r.group = small;
    expect_report(&r, WEIR_ERR_INVALID, "nothing was written, raise recv_capacity");
    r.group = large;
    pull(&r, ROWS);
    settle(&r);
    expect(&r, (uint8_t)r.buffers[ROWS].host[0] == WEIRV_MOE_GUARD, "a row was written");
    weir_moe_free(small);
    return rank_close(&r);
}

/* Rank 1 makes no call: the kernels of the others end at their deadline. */
static int lonely(weir_boot *boot, void *argument)
{
    moe_rank r;
    (void)argument;
    rank_open(&r, boot, &plain_case, 3000);
    const weir_moe_dispatch_args d = dispatch_args(&r, 0, 0);
    fill(&r, 0, 0);
    if (r.rank != 1) {
        EXPECT_CALL(&r, weir_moe_dispatch(r.group, &d));
        settle(&r);
        const weir_status status = weir_moe_check(r.group);
        expect(&r, status == WEIR_ERR_TIMEOUT || status == WEIR_ERR_ABORTED, "no deadline");
    }
    weir_boot_barrier(boot);
    return rank_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AT("results are right in all layouts and types", test_right_results, NULL),
        AT("results are right across nodes", test_across_nodes, NULL),
        GPUS_TEST("a graph is replayed with 100 routings", replayed),
        AT("memory does not grow in 60000 calls", test_memory, NULL),
        GPUS_TEST("what kernels find is reported on all ranks", reports),
        GPUS_TEST("overflow is reported, and nothing is written", overflows),
        GPUS_TEST("a rank that makes no call is reported at the deadline", lonely),
    };
    return RUN_TESTS("moe on GPUs", tests);
}
