/* weir as a candidate of bench_moe, on the host and on GPUs. */
#include "bench/moe/moe_device.h"

#include <stdlib.h>

typedef struct weir_state {
    weir_moe *group;
    moe_device device;
} weir_state;

static weir_status weir_open(moe_candidate *c)
{
    const bench_moe_trial *t = c->trial;
    weir_moe_config config = t->config;
    weir_state *state = calloc(1, sizeof *state);
    /* The buffers hold what is received, so the capacity is theirs; rank-major has none. */
    if (config.layout != WEIR_MOE_RANK_MAJOR)
        config.recv_capacity = c->info.recv_rows;
    config.handles = WEIRV_MOE_VERSIONS;
    c->state = state;
    weir_status status = bench_job_agree(
        t->job, state ? WEIR_OK : bench_job_note(t->job, WEIR_ERR_NO_MEMORY, "no memory"), "state");
    if (status == WEIR_OK)
        status =
            bench_job_agree(t->job, weir_moe_create(t->job->comm, &config, &state->group), "weir");
    if (status != WEIR_OK)
        return status;
    c->info = weir_moe_get_info(state->group);
    return bench_moe_device_open(c, &state->device);
}

static void weir_close(moe_candidate *c)
{
    weir_state *state = c->state;
    if (!state)
        return;
    weir_moe_free(state->group);
    bench_moe_device_close(c, &state->device);
    free(state);
    c->state = NULL;
}

/* A captured call has a fixed number of tokens, of which some may be masked. */
static weir_status weir_dispatch(moe_candidate *c, int slot)
{
    const bench_moe_trial *t = c->trial;
    weir_state *state = c->state;
    const moe_device *d = &state->device;
    const moe_inputs *in = &d->slots[slot];
    const int by_expert = t->config.layout == WEIR_MOE_EXPERT_MAJOR;
    weir_moe_dispatch_args a = WEIR_MOE_DISPATCH_ARGS_INIT;
    a.handle = slot;
    a.tokens = t->options->common.graph ? t->tokens : weirv_moe_tokens(t->oracle, slot, t->rank);
    a.x = in->x;
    a.topk_experts = in->experts;
    a.topk_weights = by_expert ? NULL : in->weights;
    a.rows = d->rows;
    a.rows_bytes = c->info.recv_bytes;
    a.row_scales = c->info.scales_per_row ? d->scales : NULL;
    a.row_weights = by_expert ? NULL : d->row_weights;
    a.row_experts = by_expert ? NULL : d->row_experts;
    a.expert_counts = d->counts;
    a.expert_offsets = by_expert ? d->offsets : NULL;
    a.stream = bench_gpu_stream(t->job->gpu);
    return weir_moe_dispatch(state->group, &a);
}

static weir_status weir_combine(moe_candidate *c, int slot)
{
    const bench_moe_trial *t = c->trial;
    weir_state *state = c->state;
    const moe_device *d = &state->device;
    const moe_inputs *in = &d->slots[slot];
    weir_moe_combine_args a = WEIR_MOE_COMBINE_ARGS_INIT;
    a.handle = slot;
    a.rows = c->adds_rows ? d->rows : in->outputs;
    a.weights = t->config.layout == WEIR_MOE_EXPERT_MAJOR ? in->weights : NULL;
    a.out = d->out;
    a.out_bytes = (size_t)t->tokens * c->info.row_bytes;
    a.stream = bench_gpu_stream(t->job->gpu);
    return weir_moe_combine(state->group, &a);
}

static weir_status weir_store(moe_candidate *c, int version, int parts)
{
    weir_state *state = c->state;
    return bench_moe_device_store(c, &state->device, version, parts);
}

static weir_status weir_fetch(moe_candidate *c, int parts)
{
    weir_state *state = c->state;
    weir_status status = bench_moe_device_fetch(c, &state->device, parts);
    return status == WEIR_OK ? weir_moe_check(state->group) : status;
}

static weir_status weir_place(moe_candidate *c, int slot, int version, int parts)
{
    weir_state *state = c->state;
    return bench_moe_device_place(c, &state->device, slot, version, parts);
}

weir_status bench_moe_weir_copy_us(moe_candidate *c, double bytes, double *us)
{
    weir_state *state = c->state;
    return bench_moe_device_copy_us(c, &state->device, bytes, us);
}

const moe_candidate_ops bench_moe_weir = {.name = "weir",
                                          .title = "weir",
                                          .open = weir_open,
                                          .close = weir_close,
                                          .dispatch = weir_dispatch,
                                          .combine = weir_combine,
                                          .store = weir_store,
                                          .fetch = weir_fetch,
                                          .place = weir_place};
