/*
 * Proves expert parallelism on the host: dispatch and combine, forward and backward, give bit-exact
 * results in every layout, type and routing; calls with invalid arguments fail on all ranks with
 * the reason and change nothing; calls allocate nothing.
 */
#include "moe/group.h"
#include "verify/moe.h"
#include "verify/tests/support/float_environments.h"
#include "verify/tests/support/internode_ranks.h"

#include <math.h>
#include <stdlib.h>

static const weirv_moe_sample all_rows = {1, 0};

/* One rank with a group, an oracle and buffers. */
typedef struct moe_rank {
    weir_comm *comm;
    weir_moe *group;
    weir_moe_info info;
    weir_moe_config config;
    weirv_moe *oracle;
    int rank, nranks;
    int on_gpu, wide_ids;
    weir_mem *memory[4];
    void *ids[WEIRV_MOE_VERSIONS];
    float *weights[WEIRV_MOE_VERSIONS];
    char *x, *rows, *outputs, *out; /* rows has one row more than dispatch may write */
    float *scales, *row_weights, *row_grads, *weight_grads;
    int32_t *row_experts, *counts, *offsets, *sources;
} moe_rank;

/* A shape; the members that are 0 have defaults. */
typedef struct moe_case {
    const char *name;
    int nranks, experts, topk, tokens, hidden;
    weir_moe_layout layout;
    weir_dtype dtype, dispatch_dtype;
    weirv_moe_spread spread;
    double parameter;
    int alignment, capacity, registered, wide_ids;
} moe_case;

/* Memory as the test sees it. */
static void *zeroed(const moe_rank *r, size_t bytes)
{
    return r->on_gpu ? standin_alloc(bytes ? bytes : 1) : calloc(bytes ? bytes : 1, 1);
}

/* Its address for the library. */
static void *address(const moe_rank *r, const void *seen)
{
    return r->on_gpu ? standin_address(seen) : (void *)(uintptr_t)seen;
}

static void *buffer(moe_rank *r, int index, size_t bytes, int is_registered)
{
    if (!is_registered)
        return zeroed(r, bytes);
    if (weir_mem_alloc(r->comm, bytes, &r->memory[index]) != WEIR_OK)
        return NULL;
    return weir_mem_pointer(r->memory[index]);
}

static void rank_buffers(moe_rank *r, int is_registered)
{
    const size_t rows = (size_t)r->info.recv_rows, k = (size_t)r->config.topk;
    const size_t tokens = (size_t)r->config.max_tokens;
    r->x = buffer(r, 0, tokens * r->info.row_bytes, is_registered);
    r->rows = buffer(r, 1, (rows + 1) * r->info.row_bytes, is_registered);
    r->outputs = buffer(r, 2, rows * r->info.row_bytes, is_registered);
    r->out = buffer(r, 3, tokens * r->info.row_bytes, is_registered);
    for (int version = 0; version < WEIRV_MOE_VERSIONS; version++) {
        r->ids[version] = zeroed(r, tokens * k * sizeof(int64_t));
        r->weights[version] = zeroed(r, tokens * k * sizeof(float));
    }
    r->scales = zeroed(r, rows * (size_t)(r->info.scales_per_row + 1) * sizeof(float));
    r->row_weights = zeroed(r, rows * k * sizeof(float));
    r->row_grads = zeroed(r, rows * k * sizeof(float));
    r->weight_grads = zeroed(r, tokens * k * sizeof(float));
    r->row_experts = zeroed(r, rows * k * sizeof(int32_t));
    r->counts = zeroed(r, (size_t)r->info.local_experts * sizeof(int32_t));
    r->offsets = zeroed(r, (size_t)r->info.local_experts * sizeof(int32_t));
    r->sources = zeroed(r, (size_t)r->nranks * sizeof(int32_t));
}

static weir_moe_config config_of(const moe_case *c)
{
    weir_moe_config config = WEIR_MOE_CONFIG_INIT;
    config.experts = c->experts;
    config.topk = c->topk;
    config.max_tokens = c->tokens;
    config.hidden = c->hidden;
    config.dtype = c->dtype;
    if (c->dispatch_dtype)
        config.dispatch_dtype = c->dispatch_dtype;
    config.layout = c->layout;
    config.alignment = c->alignment;
    config.expert_capacity = c->capacity;
    config.registered = c->registered;
    return config;
}

static int rank_open(moe_rank *r, weir_comm *comm, const moe_case *c)
{
    char problem[WEIRV_MOE_MESSAGE];
    *r = (moe_rank){.comm = comm,
                    .config = config_of(c),
                    .rank = weir_comm_rank(comm),
                    .nranks = weir_comm_nranks(comm),
                    .on_gpu = weir_comm_backend(comm) != WEIR_BACKEND_HOST,
                    .wide_ids = c->wide_ids};
    if (r->on_gpu && !standin_clear())
        return 0;
    weirv_moe_shape shape = {r->nranks, r->config, c->spread, c->parameter, NULL, 7};
    if (weir_moe_create(comm, &r->config, &r->group) != WEIR_OK) {
        fprintf(stderr, "# %s\n", weir_last_error());
        return 0;
    }
    r->info = weir_moe_get_info(r->group);
    rank_buffers(r, c->registered);
    return r->sources && weirv_moe_open(&shape, &r->oracle, problem) == 0;
}

static void rank_close(moe_rank *r)
{
    weirv_moe_close(r->oracle);
    weir_moe_free(r->group);
    void *const all[] = {r->x,           r->rows,        r->outputs,   r->out,          r->scales,
                         r->row_weights, r->row_experts, r->row_grads, r->weight_grads, r->counts,
                         r->offsets,     r->sources};
    for (size_t i = 0; i < sizeof all / sizeof *all && !r->on_gpu; i++)
        if (i >= 4 || !r->memory[i])
            free(all[i]);
    for (int version = 0; version < WEIRV_MOE_VERSIONS && !r->on_gpu; version++) {
        free(r->ids[version]);
        free(r->weights[version]);
    }
    for (int i = 0; i < 4; i++)
        weir_mem_free(r->memory[i]);
}

/* ------------------------------------------------------------------- calls */

/* Returns a version's experts, 32 or 64 bits wide. */
static const void *ids_of(const moe_rank *r, int version)
{
    const int32_t *experts = weirv_moe_experts(r->oracle, version, r->rank);
    const int count = weirv_moe_tokens(r->oracle, version, r->rank) * r->config.topk;
    for (int i = 0; i < count; i++)
        if (r->wide_ids)
            ((int64_t *)r->ids[version])[i] = experts[i];
        else
            ((int32_t *)r->ids[version])[i] = experts[i];
    return address(r, r->ids[version]);
}

static const float *weights_of(const moe_rank *r, int version)
{
    const int count = weirv_moe_tokens(r->oracle, version, r->rank) * r->config.topk;
    if (count)
        memcpy(r->weights[version], weirv_moe_weights(r->oracle, version, r->rank),
               (size_t)count * sizeof(float));
    return address(r, r->weights[version]);
}

static weir_moe_dispatch_args dispatch_args(const moe_rank *r, int version)
{
    weir_moe_dispatch_args a = WEIR_MOE_DISPATCH_ARGS_INIT;
    const int by_expert = r->config.layout == WEIR_MOE_EXPERT_MAJOR;
    a.handle = version % 2;
    a.tokens = weirv_moe_tokens(r->oracle, version, r->rank);
    a.x = address(r, r->x);
    a.topk_experts = ids_of(r, version);
    a.topk_dtype = r->wide_ids ? WEIR_INT64 : WEIR_INT32;
    a.topk_weights = weights_of(r, version);
    a.rows = address(r, r->rows);
    a.rows_bytes = r->info.recv_bytes;
    a.row_scales = address(r, r->info.scales_per_row ? r->scales : NULL);
    a.row_weights = address(r, r->row_weights);
    a.row_experts = address(r, by_expert ? NULL : r->row_experts);
    a.expert_counts = address(r, r->counts);
    a.expert_offsets = address(r, by_expert ? r->offsets : NULL);
    a.source_counts = address(r, r->sources);
    return a;
}

static weir_moe_combine_args combine_args(const moe_rank *r, int version, int weighted)
{
    weir_moe_combine_args a = WEIR_MOE_COMBINE_ARGS_INIT;
    a.handle = version % 2;
    a.rows = address(r, r->outputs);
    a.weights = weighted ? weights_of(r, version) : NULL;
    a.out = address(r, r->out);
    a.out_bytes = (size_t)r->config.max_tokens * r->info.row_bytes;
    return a;
}

static uint64_t check_dispatch(const moe_rank *r, int version, int data)
{
    char message[WEIRV_MOE_MESSAGE];
    const int by_expert = r->config.layout == WEIR_MOE_EXPERT_MAJOR;
    const weirv_moe_received_rows got = {
        r->rows,
        r->info.scales_per_row ? r->scales : NULL,
        r->row_weights,
        by_expert ? NULL : r->row_experts,
        r->counts,
        by_expert ? r->offsets : NULL,
        r->sources,
        r->rows + (size_t)weirv_moe_end_row(r->oracle, version, r->rank) * r->info.recv_row_bytes,
        NULL};
    const uint64_t wrong =
        weirv_moe_check_dispatch(r->oracle, version, data, r->rank, &got, all_rows, message);
    if (wrong)
        fprintf(stderr, "# %s\n", message);
    return wrong;
}

static uint64_t check_combine(const moe_rank *r, int version, weirv_moe_added added, int weighted)
{
    char message[WEIRV_MOE_MESSAGE];
    const uint64_t wrong = weirv_moe_check_combine(r->oracle, version, r->rank, r->out, added,
                                                   weighted, 0, all_rows, message);
    if (wrong)
        fprintf(stderr, "# %s\n", message);
    return wrong;
}

/* Gradients of the weights: a number that says whose they are. */
static float grad_of(int source, int token, int choice)
{
    return (float)(source * 65536 + token * 16 + choice);
}

static void fill_grads(moe_rank *r, int version)
{
    const int by_expert = r->config.layout == WEIR_MOE_EXPERT_MAJOR;
    const int count = weirv_moe_received(r->oracle, version, r->rank);
    for (int i = 0; i < count; i++) {
        int source, token, choice;
        const int row = weirv_moe_row(r->oracle, version, r->rank, i, &source, &token, &choice);
        for (int k = 0; k < (by_expert ? 1 : r->config.topk); k++)
            r->row_grads[by_expert ? row : row * r->config.topk + k] =
                grad_of(source, token, by_expert ? choice : k);
    }
}

static int wrong_grads(const moe_rank *r, int version)
{
    const int32_t *experts = weirv_moe_experts(r->oracle, version, r->rank);
    const int tokens = weirv_moe_tokens(r->oracle, version, r->rank);
    int wrong = 0;
    for (int i = 0; i < tokens * r->config.topk; i++) {
        const float expected =
            experts[i] < 0 ? 0 : grad_of(r->rank, i / r->config.topk, i % r->config.topk);
        wrong += r->weight_grads[i] != expected;
    }
    return wrong;
}

/* ------------------------------------------------------------- right results */

/* Where the ranks' calls of the forward pass run; NULL: in the default one. */
static const float_environment *environment;

static weir_status forward_call(weir_status status, int *failures)
{
    EXPECT(failures, !environment || float_environment_leave(environment));
    return status;
}

static void forward_enter(void)
{
    if (environment)
        float_environment_enter(environment);
}

static void forward(moe_rank *r, int version, int *failures)
{
    const int weighted = r->config.layout == WEIR_MOE_EXPERT_MAJOR;
    const weir_moe_dispatch_args d = dispatch_args(r, version);
    const weir_moe_combine_args c = combine_args(r, version, weighted);
    weirv_moe_fill_tokens(r->oracle, version, version, r->rank, r->x);
    memset(r->rows +
               (size_t)weirv_moe_end_row(r->oracle, version, r->rank) * r->info.recv_row_bytes,
           WEIRV_MOE_GUARD, r->info.recv_row_bytes);
    forward_enter();
    EXPECT_OK(failures, forward_call(weir_moe_dispatch(r->group, &d), failures));
    EXPECT(failures, check_dispatch(r, version, version) == 0);
    weirv_moe_fill_outputs(r->oracle, version, r->rank, r->outputs);
    forward_enter();
    EXPECT_OK(failures, forward_call(weir_moe_combine(r->group, &c), failures));
    EXPECT(failures, check_combine(r, version, WEIRV_MOE_OUTPUTS, weighted) == 0);
}

/* Gradients go by the routing of the forward pass, in halves. */
static void backward(moe_rank *r, int version, int *failures)
{
    const int data = (version + 1) % WEIRV_MOE_VERSIONS;
    weir_moe_dispatch_args d = dispatch_args(r, version);
    weir_moe_combine_args c = combine_args(r, version, 0);
    d.topk_experts = NULL;
    d.topk_weights = NULL;
    weirv_moe_fill_tokens(r->oracle, version, data, r->rank, r->x);
    EXPECT_OK(failures, weir_moe_dispatch_send(r->group, &d));
    EXPECT_OK(failures, weir_moe_dispatch_complete(r->group));
    EXPECT(failures, check_dispatch(r, version, data) == 0);
    weirv_moe_fill_outputs(r->oracle, version, r->rank, r->outputs);
    fill_grads(r, version);
    c.row_weight_grads = address(r, r->row_grads);
    c.weight_grads = address(r, r->weight_grads);
    EXPECT_OK(failures, weir_moe_combine_send(r->group, &c));
    EXPECT_OK(failures, weir_moe_combine_complete(r->group));
    EXPECT(failures, check_combine(r, version, WEIRV_MOE_OUTPUTS, 0) == 0);
    EXPECT(failures, wrong_grads(r, version) == 0);
}

static int right_in(weir_comm *comm, const moe_case *c)
{
    int failures = 0;
    moe_rank r;
    if (!comm)
        return NO_COMM;
    EXPECT(&failures, rank_open(&r, comm, c));
    for (int round = 0; !failures && round < 4; round++)
        for (int version = 0; !failures && version < WEIRV_MOE_VERSIONS; version++) {
            forward(&r, version, &failures);
            backward(&r, version, &failures);
        }
    rank_close(&r);
    weir_comm_destroy(comm);
    return failures;
}

static int right_results(weir_boot *boot, void *argument)
{
    return right_in(open_comm(boot), argument);
}

#define BF16 WEIR_BFLOAT16
#define FP8 WEIR_FP8_E4M3
#define EXPERT WEIR_MOE_EXPERT_MAJOR
#define RANK WEIR_MOE_RANK_MAJOR
#define FLAT WEIR_MOE_FLAT

static const moe_case right_cases[] = {
    {"expert", 2, 8, 2, 20, 256, EXPERT, BF16, 0, WEIRV_MOE_UNIFORM, 0, 0, 0, 0, 0},
    {"rank", 4, 8, 4, 20, 256, RANK, BF16, 0, WEIRV_MOE_UNIFORM, 0, 0, 0, 0, 0},
    {"flat", 4, 8, 4, 20, 264, FLAT, WEIR_HALF, 0, WEIRV_MOE_RAGGED, 0, 0, 0, 0, 1},
    {"aligned", 4, 16, 4, 13, 256, EXPERT, BF16, 0, WEIRV_MOE_ZIPF, 1.2, 16, 0, 0, 1},
    {"fixed stride", 3, 6, 3, 13, 136, EXPERT, WEIR_FLOAT, 0, WEIRV_MOE_UNIFORM, 0, 8, 39, 0, 0},
    {"fp8", 4, 16, 8, 33, 392, EXPERT, BF16, FP8, WEIRV_MOE_MASKED, 0.4, 4, 0, 0, 0},
    {"fp8, flat", 3, 6, 5, 33, 128, FLAT, WEIR_FLOAT, FP8, WEIRV_MOE_RAGGED, 0, 0, 0, 0, 0},
    {"fp8, rank, half", 2, 6, 3, 9, 512, RANK, WEIR_HALF, FP8, WEIRV_MOE_EMPTY, 0, 0, 0, 0, 0},
    {"registered", 4, 8, 2, 64, 1024, EXPERT, BF16, 0, WEIRV_MOE_UNIFORM, 0, 0, 0, 1, 0},
    {"registered, flat", 4, 8, 8, 64, 1024, FLAT, BF16, 0, WEIRV_MOE_HOT, 0, 0, 0, 1, 0},
    {"long", 2, 4, 2, 200, 1024, EXPERT, BF16, 0, WEIRV_MOE_UNIFORM, 0, 0, 0, 0, 0},
    {"shortest rows", 2, 32, 16, 5, 8, EXPERT, BF16, 0, WEIRV_MOE_RAGGED, 0, 0, 0, 0, 0},
    {"one choice", 3, 3, 1, 31, 4, RANK, WEIR_FLOAT, 0, WEIRV_MOE_MASKED, 0.5, 0, 0, 0, 0},
    {"more choices than experts", 2, 2, 5, 9, 256, EXPERT, BF16, 0, WEIRV_MOE_UNIFORM, 0, 0, 0, 0,
     0},
    {"one rank", 1, 7, 3, 9, 256, EXPERT, BF16, FP8, WEIRV_MOE_UNIFORM, 0, 8, 0, 0, 0},
    {"all masked", 2, 4, 2, 9, 256, FLAT, BF16, 0, WEIRV_MOE_MASKED, 1.1, 0, 0, 0, 0},
    {"16 ranks", 16, 64, 8, 6, 256, EXPERT, BF16, 0, WEIRV_MOE_RAGGED, 0, 0, 0, 0, 0},
};

/* Every rank calls in its own environment. */
static int right_in_environments(weir_comm *comm, const moe_case *c)
{
    int failures = 0;
    moe_rank r;
    if (!comm)
        return NO_COMM;
    EXPECT(&failures, rank_open(&r, comm, c));
    for (int i = 0; !failures && i < (int)FLOAT_ENVIRONMENTS; i++) {
        environment = &float_environments[(i + r.rank) % (int)FLOAT_ENVIRONMENTS];
        forward(&r, i % WEIRV_MOE_VERSIONS, &failures);
    }
    environment = NULL;
    rank_close(&r);
    weir_comm_destroy(comm);
    return failures;
}

static int right_on_a_node(weir_boot *boot, void *argument)
{
    return right_in_environments(open_comm(boot), argument);
}

static int right_on_two_nodes(weir_boot *boot, void *argument)
{
    const layout where = {.nodes = "ab"};
    return right_in_environments(open_internode(boot, &where), argument);
}

static void test_environments(void **state)
{
    static moe_case cases[] = {
        {"weights", 2, 8, 3, 20, 264, EXPERT, BF16, 0, WEIRV_MOE_UNIFORM, 0, 0, 0, 0, 0},
        {"fp8", 2, 8, 3, 20, 264, EXPERT, WEIR_HALF, FP8, WEIRV_MOE_UNIFORM, 0, 0, 0, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_ranks(2, right_on_a_node, &cases[i]);
        run_ranks(2, right_on_two_nodes, &cases[i]);
    }
}

/* Even, ragged and interleaved nodes. */
typedef struct node_case {
    moe_case shape;
    layout where; /* its transport NULL: the test double */
} node_case;

static const node_case node_cases[] = {
    {{"2 nodes", 4, 8, 4, 20, 256, EXPERT, BF16, 0, WEIRV_MOE_UNIFORM, 0, 0, 0, 0, 0},
     {.nodes = "aabb"}},
    {{"tcp, flat", 4, 8, 4, 20, 264, FLAT, WEIR_HALF, 0, WEIRV_MOE_RAGGED, 0, 0, 0, 0, 1},
     {.nodes = "aabb", .transport = "tcp"}},
    {{"3 nodes, fp8", 6, 12, 8, 17, 392, EXPERT, BF16, FP8, WEIRV_MOE_MASKED, 0.4, 4, 0, 0, 0},
     {.nodes = "aabbcc"}},
    {{"ragged nodes, rank", 5, 10, 5, 13, 256, RANK, WEIR_FLOAT, 0, WEIRV_MOE_HOT, 0, 0, 0, 0, 0},
     {.nodes = "aaabb"}},
    {{"a node of one rank", 4, 8, 3, 13, 128, FLAT, BF16, FP8, WEIRV_MOE_RAGGED, 0, 0, 0, 0, 1},
     {.nodes = "abbb"}},
    {{"interleaved", 4, 8, 2, 20, 256, EXPERT, BF16, 0, WEIRV_MOE_ZIPF, 1.2, 0, 80, 0, 0},
     {.nodes = "abab"}},
    {{"tcp, 3 nodes", 3, 9, 6, 20, 2048, EXPERT, BF16, 0, WEIRV_MOE_EMPTY, 0, 8, 0, 0, 0},
     {.nodes = "abc", .transport = "tcp"}},
};

static int right_across(weir_boot *boot, void *argument)
{
    const node_case *c = argument;
    weir_comm *comm = open_internode(boot, &c->where);
    if (comm && weir_comm_nnodes(comm) < 2)
        return 1;
    return right_in(comm, &c->shape);
}

static void test_right_results(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof right_cases / sizeof *right_cases; i++) {
        print_message("# %s\n", right_cases[i].name);
        run_ranks(right_cases[i].nranks, right_results, (void *)(uintptr_t)&right_cases[i]);
    }
}

static void test_nodes(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * sizeof node_cases / sizeof *node_cases; i++) {
        node_case c = node_cases[i / 2];
        c.where.gpus = i % 2;
        print_message("# %s%s\n", c.shape.name, c.where.gpus ? ", GPUs" : "");
        run_ranks(c.shape.nranks, right_across, &c);
    }
}

/* ------------------------------------------------------------------ refusals */

static const moe_case plain_case = {"plain",           2, 8, 2, 8, 256, EXPERT, BF16, 0,
                                    WEIRV_MOE_UNIFORM, 0, 0, 0, 0, 0};

static int failed_with(weir_status got, weir_status expected, const char *text)
{
    if (got == expected && strstr(weir_last_error(), text))
        return 1;
    fprintf(stderr, "# status %d (expected %d): %s (expected \"%s\")\n", got, expected,
            got == WEIR_OK ? "" : weir_last_error(), text);
    return 0;
}

/* A group cannot be created with these fields. */
static void bad_configurations(weir_comm *comm, int *failures)
{
    const struct {
        size_t offset;
        int value;
        const char *text;
    } bad[] = {
        {offsetof(weir_moe_config, experts), 7, "7 experts cannot be divided evenly among 2 ranks"},
        {offsetof(weir_moe_config, experts), 0, "experts is 0"},
        {offsetof(weir_moe_config, topk), 17, "topk is 17; it must be 1 to 16"},
        {offsetof(weir_moe_config, max_tokens), -1, "max_tokens is -1"},
        {offsetof(weir_moe_config, hidden), 20, "multiple of 16 bytes"},
        {offsetof(weir_moe_config, dtype), WEIR_INT32, "dtype is int32"},
        {offsetof(weir_moe_config, dispatch_dtype), WEIR_HALF, "dispatch_dtype is half"},
        {offsetof(weir_moe_config, recv_capacity), -5, "recv_capacity is -5"},
        {offsetof(weir_moe_config, layout), 3, "layout is 3"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weir_moe *group = NULL;
        weir_moe_config config = config_of(&plain_case);
        memcpy((char *)&config + bad[i].offset, &bad[i].value, sizeof bad[i].value);
        EXPECT(failures,
               failed_with(weir_moe_create(comm, &config, &group), WEIR_ERR_INVALID, bad[i].text));
        EXPECT(failures, group == NULL);
    }
}

static void different_configurations(weir_comm *comm, int *failures)
{
    weir_moe *group = NULL;
    weir_moe_config config = config_of(&plain_case);
    config.max_tokens += weir_comm_rank(comm);
    EXPECT(failures, failed_with(weir_moe_create(comm, &config, &group), WEIR_ERR_MISMATCH,
                                 "max_tokens is 8 on rank 0 and 9 on rank 1"));
}

/* What is wrong on rank 1. */
typedef void spoil(moe_rank *r, weir_moe_dispatch_args *d, weir_moe_combine_args *c,
                   int32_t *experts);

static void spoil_expert(moe_rank *r, weir_moe_dispatch_args *d, weir_moe_combine_args *c,
                         int32_t *experts)
{
    (void)c;
    experts[3 * r->config.topk + 1] = 8;
    d->topk_experts = experts;
}

static void spoil_tokens(moe_rank *r, weir_moe_dispatch_args *d, weir_moe_combine_args *c,
                         int32_t *experts)
{
    (void)r, (void)c, (void)experts;
    d->tokens = 9;
}

static void spoil_rows(moe_rank *r, weir_moe_dispatch_args *d, weir_moe_combine_args *c,
                       int32_t *experts)
{
    (void)r, (void)c, (void)experts;
    d->rows_bytes--;
}

static void spoil_handle(moe_rank *r, weir_moe_dispatch_args *d, weir_moe_combine_args *c,
                         int32_t *experts)
{
    (void)r, (void)c, (void)experts;
    d->handle = 2;
}

static void spoil_weights(moe_rank *r, weir_moe_dispatch_args *d, weir_moe_combine_args *c,
                          int32_t *experts)
{
    (void)r, (void)c, (void)experts;
    d->topk_weights = NULL;
}

static void spoil_type(moe_rank *r, weir_moe_dispatch_args *d, weir_moe_combine_args *c,
                       int32_t *experts)
{
    (void)r, (void)c, (void)experts;
    d->topk_dtype = WEIR_FLOAT;
}

static void spoil_x(moe_rank *r, weir_moe_dispatch_args *d, weir_moe_combine_args *c,
                    int32_t *experts)
{
    (void)r, (void)c, (void)experts;
    d->x = NULL;
}

static void spoil_member(moe_rank *r, weir_moe_dispatch_args *d, weir_moe_combine_args *c,
                         int32_t *experts)
{
    (void)c, (void)experts;
    d->row_experts = r->row_experts;
}

static void spoil_out(moe_rank *r, weir_moe_dispatch_args *d, weir_moe_combine_args *c,
                      int32_t *experts)
{
    (void)d, (void)experts;
    c->out_bytes = 7 * r->info.row_bytes;
}

static void spoil_combine_handle(moe_rank *r, weir_moe_dispatch_args *d, weir_moe_combine_args *c,
                                 int32_t *experts)
{
    (void)r, (void)d, (void)experts;
    c->handle = 1;
}

/* What rank 1 passes as the structure of a dispatch or a combine. */
typedef enum unreadable { READABLE, UNREADABLE_NULL, UNREADABLE_SIZE, UNREADABLE_NEWER } unreadable;

static void spoil_nothing(moe_rank *r, weir_moe_dispatch_args *d, weir_moe_combine_args *c,
                          int32_t *experts)
{
    (void)r, (void)d, (void)c, (void)experts;
}

/* Copies a structure of so many bytes into one of a newer version, unless it is NULL. */
static const void *unreadable_args(unreadable how, const void *args, size_t bytes, char *newer)
{
    size_t size = bytes + 8;
    if (how == READABLE || how == UNREADABLE_NULL)
        return how == READABLE ? args : NULL;
    memcpy(newer, args, bytes);
    memset(newer + bytes, 1, 8);
    size = how == UNREADABLE_SIZE ? 5 : size;
    memcpy(newer, &size, sizeof size);
    return newer;
}

/* Both ranks get the reason; then the group works. */
static void bad_calls(weir_comm *comm, int *failures)
{
    static const struct {
        spoil *spoil;
        const char *text;
        int in_combine;
        unreadable how;
    } bad[] = {
        {spoil_expert, "on rank 1: choice 1 of token 3 names expert 8", 0, READABLE},
        {spoil_tokens, "on rank 1: 9 tokens; the group was created for 0 to 8", 0, READABLE},
        {spoil_rows, "on rank 1: rows has", 0, READABLE},
        {spoil_handle, "handle 2", 0, READABLE},
        {spoil_weights, "dispatch on rank 1: topk_weights is NULL", 0, READABLE},
        {spoil_type, "topk_dtype is", 0, READABLE},
        {spoil_x, "on rank 1: x is NULL", 0, READABLE},
        {spoil_member, "on rank 1: row_experts is not NULL", 0, READABLE},
        {spoil_out, "combine on rank 1: out has", 1, READABLE},
        {spoil_combine_handle, "combine on rank 1: handle 1 has no routing", 1, READABLE},
        {spoil_nothing, "dispatch on rank 1: args is NULL", 0, UNREADABLE_NULL},
        {spoil_nothing, "dispatch on rank 1: args.size is 5;", 0, UNREADABLE_SIZE},
        {spoil_nothing, "but the library knows", 0, UNREADABLE_NEWER},
        {spoil_nothing, "combine on rank 1: args is NULL", 1, UNREADABLE_NULL},
        {spoil_nothing, "combine on rank 1: args.size is 5;", 1, UNREADABLE_SIZE},
        {spoil_nothing, "but the library knows", 1, UNREADABLE_NEWER},
    };
    _Alignas(16) char newer[sizeof(weir_moe_dispatch_args) + 8];
    moe_rank r;
    int32_t experts[16];
    EXPECT(failures, rank_open(&r, comm, &plain_case));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weir_moe_dispatch_args d = dispatch_args(&r, 0);
        weir_moe_combine_args c = combine_args(&r, 0, 1);
        memcpy(experts, d.topk_experts, sizeof experts);
        if (r.rank == 1)
            bad[i].spoil(&r, &d, &c, experts);
        memset(r.rows, 0x11, r.info.recv_bytes);
        const unreadable how = r.rank == 1 ? bad[i].how : READABLE;
        const weir_status status = weir_moe_dispatch(
            r.group, unreadable_args(bad[i].in_combine ? READABLE : how, &d, sizeof d, newer));
        if (bad[i].in_combine) {
            EXPECT_OK(failures, status);
            EXPECT(failures,
                   failed_with(weir_moe_combine(r.group, unreadable_args(how, &c, sizeof c, newer)),
                               WEIR_ERR_INVALID, bad[i].text));
        } else {
            EXPECT(failures, failed_with(status, WEIR_ERR_INVALID, bad[i].text));
            EXPECT(failures, r.rows[0] == 0x11);
        }
        forward(&r, 0, failures);
    }
    rank_close(&r);
}

/* More rows than the capacity: every rank gets the expert, its rank and the count, nothing is
 * written, and combine refuses the handle. */
static void overflow(weir_comm *comm, int *failures)
{
    const struct {
        weir_moe_layout layout;
        int expert_capacity, recv_capacity;
        const char *text;
    } limits[] = {
        {EXPERT, 15, 0, "expert 0 on rank 0 would receive 16 rows, but expert_capacity is 15"},
        {EXPERT, 0, 16, "rank 0 would receive"},
        {FLAT, 0, 15, "rank 0 would receive 16 rows, but there is room for 15"},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        moe_rank r;
        moe_case c = plain_case;
        c.spread = WEIRV_MOE_HOT;
        c.layout = limits[i].layout;
        EXPECT(failures, rank_open(&r, comm, &c));
        weir_moe *group = NULL;
        weir_moe_config config = r.config;
        config.expert_capacity = limits[i].expert_capacity;
        config.recv_capacity = limits[i].recv_capacity;
        EXPECT_OK(failures, weir_moe_create(comm, &config, &group));
        const size_t bytes = group ? weir_moe_get_info(group).recv_bytes : 0;
        weir_moe_dispatch_args d = dispatch_args(&r, 0);
        const weir_moe_combine_args k = combine_args(&r, 0, 0);
        d.rows_bytes = bytes;
        d.rows = malloc(bytes);
        memset(d.rows, 0x11, bytes);
        EXPECT(failures,
               failed_with(weir_moe_dispatch(group, &d), WEIR_ERR_INVALID, limits[i].text));
        for (size_t at = 0; at < bytes; at++)
            *failures += ((char *)d.rows)[at] != 0x11;
        free(d.rows);
        EXPECT(failures, failed_with(weir_moe_combine(group, &k), WEIR_ERR_INVALID, "no routing"));
        weir_moe_free(group);
        rank_close(&r);
    }
}

static void different_calls(weir_comm *comm, int *failures)
{
    moe_rank r;
    EXPECT(failures, rank_open(&r, comm, &plain_case));
    forward(&r, 0, failures);
    weir_moe_dispatch_args d = dispatch_args(&r, 0);
    weir_moe_combine_args c = combine_args(&r, 0, 1);
    const weir_status status =
        r.rank ? weir_moe_combine(r.group, &c) : weir_moe_dispatch(r.group, &d);
    EXPECT(failures, status == WEIR_ERR_MISMATCH || status == WEIR_ERR_ABORTED);
    rank_close(&r);
}

static int run_different_calls(weir_boot *boot, void *argument)
{
    int failures = 0;
    weir_comm *comm = open_comm(boot);
    (void)argument;
    different_calls(comm, &failures);
    weir_comm_destroy(comm);
    return failures;
}

static void half_calls(weir_comm *comm, int *failures)
{
    moe_rank r;
    EXPECT(failures, rank_open(&r, comm, &plain_case));
    forward(&r, 0, failures);
    const weir_moe_dispatch_args d = dispatch_args(&r, 1);
    const weir_moe_combine_args c = combine_args(&r, 0, 1);
    EXPECT(failures,
           failed_with(weir_moe_dispatch_complete(r.group), WEIR_ERR_INVALID, "no dispatch"));
    /* A dispatch on one handle and a combine on another are under way together. */
    weirv_moe_fill_tokens(r.oracle, 1, 1, r.rank, r.x);
    memset(r.rows + (size_t)weirv_moe_end_row(r.oracle, 1, r.rank) * r.info.recv_row_bytes,
           WEIRV_MOE_GUARD, r.info.recv_row_bytes);
    EXPECT_OK(failures, weir_moe_dispatch_send(r.group, &d));
    EXPECT(failures,
           failed_with(weir_moe_dispatch_send(r.group, &d), WEIR_ERR_INVALID, "under way"));
    EXPECT_OK(failures, weir_moe_combine_send(r.group, &c));
    EXPECT(failures,
           failed_with(weir_moe_combine_complete(r.group), WEIR_ERR_INVALID, "in that order"));
    EXPECT_OK(failures, weir_moe_dispatch_complete(r.group));
    EXPECT(failures, check_dispatch(&r, 1, 1) == 0);
    EXPECT_OK(failures, weir_moe_combine_complete(r.group));
    EXPECT(failures, check_combine(&r, 0, WEIRV_MOE_OUTPUTS, 1) == 0);
    rank_close(&r);
}

/* A dispatch that rank 1 refuses while a combine is under way does not disturb the combine. */
static void refused_meanwhile(weir_comm *comm, int *failures)
{
    moe_rank r;
    EXPECT(failures, rank_open(&r, comm, &plain_case));
    for (int round = 0; round < 6; round++) {
        forward(&r, 0, failures);
        weir_moe_dispatch_args d = dispatch_args(&r, 1);
        const weir_moe_combine_args c = combine_args(&r, 0, 1);
        weirv_moe_fill_outputs(r.oracle, 0, r.rank, r.outputs);
        EXPECT_OK(failures, weir_moe_combine_send(r.group, &c));
        d.rows_bytes -= r.rank == 1;
        const weir_status sent = weir_moe_dispatch_send(r.group, &d);
        EXPECT(failures, sent == (r.rank == 1 ? WEIR_ERR_INVALID : WEIR_OK));
        EXPECT_OK(failures, weir_moe_combine_complete(r.group));
        EXPECT(failures, check_combine(&r, 0, WEIRV_MOE_OUTPUTS, 1) == 0);
        if (sent == WEIR_OK)
            EXPECT(failures, failed_with(weir_moe_dispatch_complete(r.group), WEIR_ERR_INVALID,
                                         "on rank 1: rows has"));
    }
    rank_close(&r);
}

/* Rank 1 alone repeats a send, which is no call of the group: the other rank does not notice. */
static void repeated_send(weir_comm *comm, int *failures)
{
    moe_rank r;
    EXPECT(failures, rank_open(&r, comm, &plain_case));
    for (int round = 0; round < 6; round++) {
        const weir_moe_dispatch_args d = dispatch_args(&r, 0);
        EXPECT_OK(failures, weir_moe_dispatch_send(r.group, &d));
        if (r.rank == 1) {
            EXPECT(failures, failed_with(weir_moe_dispatch(r.group, &d), WEIR_ERR_INVALID,
                                         "complete it before the next one"));
            EXPECT(failures, failed_with(weir_moe_dispatch_send(r.group, NULL), WEIR_ERR_INVALID,
                                         "complete it before the next one"));
        }
        EXPECT_OK(failures, weir_moe_dispatch_complete(r.group));
        forward(&r, 0, failures);
    }
    rank_close(&r);
}

/* ------------------------------------------------------------- other promises */

/* NaN and infinity in rows and weights reach the results. */
static void special_values(weir_comm *comm, int *failures)
{
    moe_rank r;
    moe_case c = plain_case;
    c.dtype = WEIR_FLOAT;
    EXPECT(failures, rank_open(&r, comm, &c));
    float weights[16];
    weir_moe_dispatch_args d = dispatch_args(&r, 0);
    weir_moe_combine_args k = combine_args(&r, 0, 1);
    memcpy(weights, d.topk_weights, sizeof weights);
    weights[0] = NAN;
    d.topk_weights = weights;
    k.weights = weights;
    weirv_moe_fill_tokens(r.oracle, 0, 0, r.rank, r.x);
    ((float *)(void *)r.x)[256] = INFINITY;
    EXPECT_OK(failures, weir_moe_dispatch(r.group, &d));
    k.rows = r.rows;
    EXPECT_OK(failures, weir_moe_combine(r.group, &k));
    const float *out = (const float *)(const void *)r.out;
    EXPECT(failures, isnan(out[0]) && isnan(out[255]) && isinf(out[256]) && isfinite(out[257]));
    rank_close(&r);
}

/* A token that names an expert twice has two rows there. */
static void repeated_experts(weir_comm *comm, int *failures)
{
    moe_rank r;
    moe_case c = plain_case;
    c.dtype = WEIR_FLOAT;
    EXPECT(failures, rank_open(&r, comm, &c));
    const int32_t experts[16] = {5, 5, 1, 1, 1, 2, 7, 7, -1, 3, 4, 4, 0, 0, 6, -1};
    float weights[16];
    for (int i = 0; i < 16; i++)
        weights[i] = 0.5f;
    weir_moe_dispatch_args d = dispatch_args(&r, 0);
    weir_moe_combine_args k = combine_args(&r, 0, 1);
    d.topk_experts = experts;
    d.topk_weights = k.weights = weights;
    k.rows = r.rows;
    weirv_moe_fill_tokens(r.oracle, 0, 0, r.rank, r.x);
    EXPECT_OK(failures, weir_moe_dispatch(r.group, &d));
    EXPECT_OK(failures, weir_moe_combine(r.group, &k));
    EXPECT(failures, memcmp(r.out, r.x, 4 * r.info.row_bytes) == 0);
    rank_close(&r);
}

static void flat_memory(weir_comm *comm, int *failures)
{
    moe_rank r;
    EXPECT(failures, rank_open(&r, comm, &plain_case));
    forward(&r, 0, failures);
    const size_t before = weir_comm_scratch_bytes(comm);
    const int maps = count_steady_maps();
    const weir_moe_dispatch_args d = dispatch_args(&r, 0);
    const weir_moe_combine_args c = combine_args(&r, 0, 1);
    for (int i = 0; !*failures && i < 3000; i++) {
        EXPECT_OK(failures, weir_moe_dispatch(r.group, &d));
        EXPECT_OK(failures, weir_moe_combine(r.group, &c));
    }
    forward(&r, 0, failures);
    EXPECT(failures, weir_comm_scratch_bytes(comm) == before && count_steady_maps() == maps);
    rank_close(&r);
}

/* ----------------------------------------------------------- several nodes */

static void fail_across(weir_comm *comm, const layout *where, int *failures)
{
    EXPECT(failures, weir_comm_nnodes(comm) == where->nnodes);
    bad_calls(comm, failures);
    overflow(comm, failures);
    half_calls(comm, failures);
    repeated_send(comm, failures);
    special_values(comm, failures);
    repeated_experts(comm, failures);
    flat_memory(comm, failures);
    if (!*failures)
        different_calls(comm, failures);
}

/* A call with GPUs of several nodes; the device is a stand-in. */
typedef void spoil_on_gpu(moe_rank *r, weir_moe_dispatch_args *d, weir_moe_combine_args *c);

static char foreign_stream[1], captured_stream[1], own_stream[1];

static void spoil_nothing_on_gpu(moe_rank *r, weir_moe_dispatch_args *d, weir_moe_combine_args *c)
{
    (void)r;
    d->stream = c->stream = own_stream;
}

static void spoil_expert_on_gpu(moe_rank *r, weir_moe_dispatch_args *d, weir_moe_combine_args *c)
{
    (void)d, (void)c;
    ((int32_t *)r->ids[0])[3 * r->config.topk + 1] = 8;
}

static void spoil_stream_on_gpu(moe_rank *r, weir_moe_dispatch_args *d, weir_moe_combine_args *c)
{
    (void)r;
    d->stream = c->stream = foreign_stream;
}

static void spoil_capture(moe_rank *r, weir_moe_dispatch_args *d, weir_moe_combine_args *c)
{
    (void)r;
    d->stream = c->stream = captured_stream;
}

static void spoil_x_on_gpu(moe_rank *r, weir_moe_dispatch_args *d, weir_moe_combine_args *c)
{
    (void)c;
    d->x = r->x; /* not an address of the device */
}

static void spoil_counts_on_gpu(moe_rank *r, weir_moe_dispatch_args *d, weir_moe_combine_args *c)
{
    (void)c;
    d->expert_counts = r->counts;
}

static void spoil_tokens_on_gpu(moe_rank *r, weir_moe_dispatch_args *d, weir_moe_combine_args *c)
{
    (void)r, (void)c;
    d->tokens = 9;
}

static void spoil_out_on_gpu(moe_rank *r, weir_moe_dispatch_args *d, weir_moe_combine_args *c)
{
    (void)d;
    c->out = r->out;
}

static void calls_on_gpus(weir_comm *comm, const layout *where, int *failures)
{
    static const struct {
        spoil_on_gpu *spoil;
        const char *in_dispatch, *in_combine; /* the reason; NULL: none */
    } calls[] = {
        {spoil_nothing_on_gpu, NULL, NULL},
        {spoil_expert_on_gpu, "on rank 1: choice 1 of token 3 names expert 8", NULL},
        {spoil_tokens_on_gpu, "on rank 1: 9 tokens; the group was created for 0 to 8", NULL},
        {spoil_stream_on_gpu, "dispatch on rank 1: stream is not one of the rank's GPU", NULL},
        {spoil_capture, "dispatch on rank 1: stream is being captured", NULL},
        {spoil_x_on_gpu, "dispatch on rank 1: x is not memory of the rank's GPU", NULL},
        {spoil_counts_on_gpu, "dispatch on rank 1: a buffer is not memory of", NULL},
        {spoil_out_on_gpu, NULL, "combine on rank 1: out is not memory of the rank's GPU"},
    };
    moe_rank r;
    EXPECT(failures, weir_comm_nnodes(comm) == where->nnodes);
    EXPECT(failures, weir_comm_backend(comm) == WEIR_BACKEND_CUDA);
    standin.foreign = foreign_stream;
    standin.captured = captured_stream;
    EXPECT(failures, rank_open(&r, comm, &plain_case));
    for (size_t i = 0; !*failures && i < sizeof calls / sizeof *calls; i++) {
        weir_moe_dispatch_args d = dispatch_args(&r, 0);
        weir_moe_combine_args c = combine_args(&r, 0, 1);
        const uint64_t copies = standin.late;
        if (r.rank == 1)
            calls[i].spoil(&r, &d, &c);
        memset(r.rows, 0x11, r.info.recv_bytes);
        const weir_status status = weir_moe_dispatch(r.group, &d);
        EXPECT(failures, calls[i].in_dispatch
                             ? failed_with(status, WEIR_ERR_INVALID, calls[i].in_dispatch)
                             : status == WEIR_OK && standin.late > copies);
        EXPECT(failures, !calls[i].in_dispatch == (r.rows[0] != 0x11));
        if (calls[i].in_combine)
            EXPECT(failures, failed_with(weir_moe_combine(r.group, &c), WEIR_ERR_INVALID,
                                         calls[i].in_combine));
        forward(&r, 1, failures);
    }
    rank_close(&r);
    flat_memory(comm, failures);
}

/* GPUs of one node in a build without kernels. */
static void refuse_backend(weir_comm *comm, int *failures)
{
    struct weiri_gpu gpu = {0};
    weir_moe *group = NULL;
    const weir_moe_config config = config_of(&plain_case);
    if (weiri_moe_gpu_ops.open)
        return;
    comm->gpu = &gpu;
    EXPECT(failures, failed_with(weir_moe_create(comm, &config, &group), WEIR_ERR_UNSUPPORTED,
                                 "the communicator has the cuda backend"));
    comm->gpu = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AT("results are right in all layouts, types and routings", test_right_results, NULL),
        AT("results are right across nodes", test_nodes, NULL),
        AT("results are right in any floating-point environment", test_environments, NULL),
        COMM_TEST("invalid configurations are refused on all ranks", 2, bad_configurations),
        COMM_TEST("configurations that differ are named", 2, different_configurations),
        COMM_TEST("invalid calls fail on all ranks and change nothing", 2, bad_calls),
        COMM_TEST("overflow names expert, rank and count", 2, overflow),
        COMM_TEST("halves overlap, and are completed in order", 2, half_calls),
        COMM_TEST("a refused call does not disturb the one under way", 2, refused_meanwhile),
        COMM_TEST("a send that one rank repeats disturbs nobody", 2, repeated_send),
        COMM_TEST("NaN and infinity pass through", 2, special_values),
        COMM_TEST("an expert may be named twice", 2, repeated_experts),
        COMM_TEST("memory does not grow", 2, flat_memory),
        RANKS_TEST("ranks that make different calls are reported", 2, run_different_calls, NULL),
        LAYOUT_TEST("failures and halves across nodes", fail_across, "ab", 2),
        LAYOUT_TEST("calls on GPUs of several nodes", calls_on_gpus, "ab", 2, NULL, 1),
        COMM_TEST("GPUs are refused in a build without kernels", 2, refuse_backend),
    };
    return RUN_TESTS("moe", tests);
}
