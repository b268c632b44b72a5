/*
 * NCCL EP as a candidate of bench_moe on GPUs: its low-latency mode, expert-major. A dispatch
 * includes the update of the handle with the call's experts. Rows are moved between the library's
 * slots and weir's places by moe_nccl_ep_rows.h.
 */
#include "bench/moe/moe_nccl_ep.h"
#include "bench/moe/moe_nccl_ep_rows.h"

#include "bench/candidate/vendor.h"
#include "bench/gpu/gpu.h"
#include "bench/job/cores.h"
#include "bench/job/exchange.h"

#include <stdlib.h>
#include <string.h>

typedef struct ep_version {
    char *x;
    int64_t *experts;
    float *weights;
    void *handle;
    ep_rows rows;
} ep_version;

typedef struct ep_state {
    bench_nccl_ep ep;
    bench_vendor nccl;
    vendor_comm comm;
    void *group;
    ep_version versions[WEIRV_MOE_VERSIONS];
    char *rows, *outputs, *out; /* rows and outputs: [local experts, slots, hidden] */
    int32_t *counters;
    int slots; /* of an expert */
    int latest;
    void *allocated[3 * WEIRV_MOE_VERSIONS + 4];
    int nallocated;
} ep_state;

/* ------------------------------------------------------------------- set-up */

static void *ep_alloc(moe_candidate *c, size_t bytes, weir_status *status)
{
    ep_state *state = c->state;
    void *memory = NULL;
    if (*status == WEIR_OK)
        *status = bench_gpu_alloc(c->trial->job->gpu, bytes ? bytes : 16, &memory);
    if (memory)
        state->allocated[state->nallocated++] = memory;
    return memory;
}

static weir_status ep_allocate(moe_candidate *c)
{
    const bench_moe_trial *t = c->trial;
    ep_state *state = c->state;
    const size_t row = c->info.row_bytes, choices = (size_t)t->tokens * (size_t)t->config.topk;
    const size_t slots = (size_t)c->info.local_experts * (size_t)state->slots;
    weir_status status = WEIR_OK;
    for (int v = 0; v < WEIRV_MOE_VERSIONS; v++) {
        state->versions[v].x = ep_alloc(c, (size_t)t->tokens * row, &status);
        state->versions[v].experts = ep_alloc(c, choices * sizeof(int64_t), &status);
        state->versions[v].weights = ep_alloc(c, choices * sizeof(float), &status);
    }
    state->rows = ep_alloc(c, slots * row, &status);
    state->outputs = ep_alloc(c, slots * row, &status);
    state->out = ep_alloc(c, (size_t)t->tokens * row, &status);
    state->counters = ep_alloc(c, (size_t)c->info.local_experts * sizeof(int32_t), &status);
    return status;
}

/* Copies tokens, weights and experts, which are 64 bits wide here. */
static weir_status ep_fill(moe_candidate *c, int version)
{
    const bench_moe_trial *t = c->trial;
    ep_state *state = c->state;
    const size_t choices = (size_t)t->tokens * (size_t)t->config.topk;
    const int32_t *experts = weirv_moe_experts(t->oracle, version, t->rank);
    int64_t *wide = malloc((choices + 1) * sizeof *wide);
    if (!wide)
        return bench_job_note(t->job, WEIR_ERR_NO_MEMORY, "no memory for NCCL EP's experts");
    for (size_t i = 0; i < choices; i++)
        wide[i] = experts[i];
    weir_status status =
        bench_gpu_push(t->job->gpu, state->versions[version].experts, wide, choices * sizeof *wide);
    if (status == WEIR_OK)
        status = bench_gpu_push(t->job->gpu, state->versions[version].x, c->x[version],
                                (size_t)t->tokens * c->info.row_bytes);
    free(wide);
    if (status == WEIR_OK)
        status = c->ops->store(c, version, MOE_PART_WEIGHTS);
    return status == WEIR_OK
               ? bench_ep_rows_open(c, version, state->slots, &state->versions[version].rows)
               : status;
}

static const char *ep_refusal(const bench_moe_trial *t)
{
    if (!t->job->gpu)
        return "it works on GPU memory; use --backend cuda";
    if (t->config.layout != WEIR_MOE_EXPERT_MAJOR || t->options->alignment > 1)
        return "its low-latency mode is compared in layout expert, alignment 1";
    if (t->config.dtype != WEIR_BFLOAT16)
        return "its rows are bfloat16 in both directions";
    if (t->options->spread == WEIRV_MOE_EMPTY || t->options->spread == WEIRV_MOE_RAGGED)
        return "it is called with as many tokens on each rank";
    return NULL;
}

static weir_status ep_check(const moe_candidate *c, nccl_ep_result result, const char *call)
{
    const ep_state *state = c->state;
    if (!result)
        return WEIR_OK;
    return bench_job_note(c->trial->job, WEIR_ERR_SYSTEM, "--peer nccl-ep: %s failed: %s", call,
                          state->nccl.error_string(result));
}

/* Opens both libraries, which stay open. Local. */
static weir_status ep_libraries(const bench_moe_trial *t, bench_vendor *nccl, bench_nccl_ep *ep)
{
    char why[600];
    if (bench_vendor_open(NULL, nccl, why, sizeof why) != WEIR_OK)
        return bench_job_note(t->job, WEIR_ERR_SYSTEM, "--peer nccl-ep: NCCL: %s", why);
    if (bench_nccl_ep_open(t->options->common.peers[0].path, ep, why, sizeof why))
        return bench_job_note(t->job, WEIR_ERR_SYSTEM, "--peer nccl-ep: %s", why);
    return WEIR_OK;
}

/* Collective; agreed. */
static weir_status ep_communicator(moe_candidate *c)
{
    bench_job *job = c->trial->job;
    ep_state *state = c->state;
    vendor_id id = {{0}};
    weir_status status = WEIR_OK;
    if (c->trial->rank == 0)
        status = ep_check(c, state->nccl.get_unique_id(&id), "ncclGetUniqueId");
    status = bench_job_agree(job, status, "NCCL EP");
    if (status != WEIR_OK)
        return status;
    if (bench_exchange_share(job, &id, sizeof id) != 0)
        return bench_job_note(job, WEIR_ERR_NO_MEMORY, "--peer nccl-ep: no memory");
    const int nranks = c->trial->nranks, rank = c->trial->rank;
    return bench_job_agree(
        job, ep_check(c, state->nccl.comm_init(&state->comm, nranks, id, rank), "ncclCommInitRank"),
        "NCCL EP");
}

static weir_status ep_group(moe_candidate *c)
{
    const bench_moe_trial *t = c->trial;
    ep_state *state = c->state;
    nccl_ep_config config = {.size = sizeof config,
                             .magic = (unsigned)NCCL_EP_MAGIC,
                             .version = NCCL_EP_API,
                             .algorithm = NCCL_EP_LOW_LATENCY,
                             .experts = (unsigned)t->config.experts,
                             .max_tokens = (unsigned)t->tokens,
                             .max_token_bytes = (unsigned)c->info.row_bytes,
                             .queue_pairs = (unsigned)c->info.local_experts,
                             .max_sms = (unsigned)t->options->max_blocks};
    weir_status status =
        ep_check(c, state->ep.create_group(&state->group, state->comm, &config), "create group");
    for (int v = 0; status == WEIR_OK && v < WEIRV_MOE_VERSIONS; v++)
        status = ep_check(c,
                          state->ep.init_handle(&state->versions[v].handle, state->group,
                                                NCCL_EP_EXPERT_MAJOR, NULL, t->config.topk, NULL),
                          "init handle");
    return status;
}

static weir_status ep_check_trial(const bench_moe_trial *t)
{
    const char *refusal = ep_refusal(t);
    bench_vendor nccl;
    bench_nccl_ep ep;
    return refusal ? bench_job_note(t->job, WEIR_ERR_INVALID, "--peer nccl-ep: %s", refusal)
                   : ep_libraries(t, &nccl, &ep);
}

static weir_status ep_open(moe_candidate *c)
{
    const bench_moe_trial *t = c->trial;
    ep_state *state = calloc(1, sizeof *state);
    c->state = state;
    weir_status status = WEIR_OK;
    if (!state)
        status = bench_job_note(t->job, WEIR_ERR_NO_MEMORY, "--peer nccl-ep: no memory");
    else
        status = ep_libraries(t, &state->nccl, &state->ep);
    status = bench_job_agree(t->job, status, "NCCL EP");
    if (status != WEIR_OK)
        return status;
    bench_cores_check(t->job, "NCCL EP");
    state->slots = t->tokens * t->nranks;
    c->tolerance = 8.0 / 256;
    c->info.recv_bytes = (size_t)c->info.recv_rows * c->info.row_bytes;
    status = bench_job_agree(t->job, ep_allocate(c), "NCCL EP");
    for (int v = 0; status == WEIR_OK && v < WEIRV_MOE_VERSIONS; v++)
        status = ep_fill(c, v);
    status = bench_job_agree(t->job, status, "NCCL EP");
    if (status == WEIR_OK)
        status = ep_communicator(c);
    return status == WEIR_OK ? bench_job_agree(t->job, ep_group(c), "NCCL EP") : status;
}

static void ep_close(moe_candidate *c)
{
    ep_state *state = c->state;
    if (!state)
        return;
    for (int v = 0; v < WEIRV_MOE_VERSIONS; v++) {
        if (state->versions[v].handle)
            state->ep.destroy_handle(state->versions[v].handle);
        bench_ep_rows_close(&state->versions[v].rows);
    }
    if (state->group)
        state->ep.destroy_group(state->group);
    if (state->comm)
        state->nccl.comm_destroy(state->comm);
    for (int i = 0; i < state->nallocated; i++)
        bench_gpu_free(c->trial->job->gpu, state->allocated[i]);
    free(state);
    c->state = NULL;
}

/* -------------------------------------------------------------------- calls */

static nccl_ep_tensor ep_tensor(void *data, int datatype, unsigned ndim, size_t *sizes)
{
    return (nccl_ep_tensor){.size = sizeof(nccl_ep_tensor),
                            .magic = (unsigned)NCCL_EP_TENSOR_MAGIC,
                            .ndim = ndim,
                            .datatype = datatype,
                            .data = data,
                            .sizes = sizes};
}

static weir_status ep_dispatch(moe_candidate *c, int version)
{
    const weir_moe_config *config = &c->trial->config;
    ep_state *state = c->state;
    ep_version *v = &state->versions[version];
    void *stream = bench_gpu_stream(c->trial->job->gpu);
    const size_t tokens = (size_t)c->trial->tokens, local = (size_t)c->info.local_experts;
    size_t chosen[] = {tokens, (size_t)config->topk}, sent[] = {tokens, (size_t)config->hidden};
    size_t placed[] = {local, (size_t)state->slots, (size_t)config->hidden}, counted[] = {local};
    nccl_ep_tensor experts = ep_tensor(v->experts, NCCL_EP_INT64, 2, chosen);
    nccl_ep_tensor x = ep_tensor(v->x, NCCL_EP_BFLOAT16, 2, sent);
    nccl_ep_tensor rows = ep_tensor(state->rows, NCCL_EP_BFLOAT16, 3, placed);
    nccl_ep_tensor counters = ep_tensor(state->counters, NCCL_EP_INT32, 1, counted);
    const unsigned magic = (unsigned)NCCL_EP_MAGIC;
    const nccl_ep_dispatch_inputs in = {sizeof in, magic, &x, NULL, NULL};
    const nccl_ep_dispatch_outputs out = {sizeof out, magic, &rows, NULL, NULL, NULL};
    const nccl_ep_layout_info info = {sizeof info, magic, &counters, NULL, NULL, NULL};
    state->latest = version;
    weir_status status =
        ep_check(c, state->ep.update_handle(v->handle, &experts, NULL, stream), "update handle");
    return status == WEIR_OK
               ? ep_check(c, state->ep.dispatch(v->handle, &in, &out, &info, NULL, stream),
                          "dispatch")
               : status;
}

static weir_status ep_combine(moe_candidate *c, int version)
{
    const weir_moe_config *config = &c->trial->config;
    ep_state *state = c->state;
    ep_version *v = &state->versions[version];
    const size_t tokens = (size_t)c->trial->tokens, local = (size_t)c->info.local_experts;
    size_t chosen[] = {tokens, (size_t)config->topk}, sent[] = {tokens, (size_t)config->hidden};
    size_t placed[] = {local, (size_t)state->slots, (size_t)config->hidden};
    nccl_ep_tensor rows =
        ep_tensor(c->adds_rows ? state->rows : state->outputs, NCCL_EP_BFLOAT16, 3, placed);
    nccl_ep_tensor out = ep_tensor(state->out, NCCL_EP_BFLOAT16, 2, sent);
    nccl_ep_tensor weights = ep_tensor(v->weights, NCCL_EP_FLOAT, 2, chosen);
    const unsigned magic = (unsigned)NCCL_EP_MAGIC;
    const nccl_ep_combined in = {sizeof in, magic, &rows, NULL};
    const nccl_ep_combined results = {sizeof results, magic, &out, &weights};
    return ep_check(
        c, state->ep.combine(v->handle, &in, &results, NULL, bench_gpu_stream(c->trial->job->gpu)),
        "combine");
}

/* ------------------------------------------------------------------ mirrors */

static weir_status ep_fetch(moe_candidate *c, int parts)
{
    ep_state *state = c->state;
    bench_gpu *gpu = c->trial->job->gpu;
    weir_status status = bench_gpu_sync(gpu);
    if (status == WEIR_OK && parts & MOE_PART_RECEIVED)
        status = bench_gpu_pull(gpu, c->counts, state->counters,
                                (size_t)c->info.local_experts * sizeof *c->counts);
    if (status == WEIR_OK && parts & MOE_PART_RECEIVED) {
        c->holds_outputs[state->latest] = 0; /* slots have changed */
        status = bench_ep_rows_fetch(c, &state->versions[state->latest].rows, state->rows);
    }
    if (status == WEIR_OK && parts & MOE_PART_OUT)
        status =
            bench_gpu_pull(gpu, c->out, state->out, (size_t)c->trial->tokens * c->info.row_bytes);
    return status;
}

static weir_status ep_store(moe_candidate *c, int version, int parts)
{
    ep_state *state = c->state;
    bench_gpu *gpu = c->trial->job->gpu;
    const size_t tokens = (size_t)c->trial->tokens;
    weir_status status = WEIR_OK;
    if (parts & MOE_PART_WEIGHTS)
        status = bench_gpu_push(gpu, state->versions[version].weights, c->weights[version],
                                tokens * (size_t)c->trial->config.topk * sizeof(float));
    if (status == WEIR_OK && parts & MOE_PART_OUT)
        status = bench_gpu_push(gpu, state->out, c->out, tokens * c->info.row_bytes);
    if (status == WEIR_OK && parts & MOE_PART_OUTPUTS)
        status = bench_ep_rows_store(c, &state->versions[version].rows, state->outputs);
    return status;
}

const moe_candidate_ops bench_moe_nccl_ep = {.name = "nccl-ep",
                                             .title = "NCCL EP",
                                             .algo = "low-latency",
                                             .check = ep_check_trial,
                                             .open = ep_open,
                                             .close = ep_close,
                                             .dispatch = ep_dispatch,
                                             .combine = ep_combine,
                                             .store = ep_store,
                                             .fetch = ep_fetch};
