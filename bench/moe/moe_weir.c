/* weir as a candidate of bench_moe. */
#include "bench/moe/moe_trial.h"

#include <stdlib.h>

static weir_status weir_open(moe_candidate *c)
{
    const bench_moe_trial *t = c->trial;
    weir_moe *group = NULL;
    weir_moe_config config = t->config;
    /* The buffers hold what is received, so the capacity is theirs; rank-major has none. */
    if (config.layout != WEIR_MOE_RANK_MAJOR)
        config.recv_capacity = c->info.recv_rows;
    config.handles = WEIRV_MOE_VERSIONS;
    weir_status status = weir_moe_create(t->job->comm, &config, &group);
    if (status == WEIR_OK)
        c->info = weir_moe_get_info(group);
    c->state = group;
    return status;
}

static void weir_close(moe_candidate *c)
{
    weir_moe_free(c->state);
}

static weir_status weir_dispatch(moe_candidate *c, int version)
{
    const bench_moe_trial *t = c->trial;
    const int by_expert = t->config.layout == WEIR_MOE_EXPERT_MAJOR;
    weir_moe_dispatch_args a = WEIR_MOE_DISPATCH_ARGS_INIT;
    a.handle = version;
    a.tokens = weirv_moe_tokens(t->oracle, version, t->job->rank);
    a.x = c->x[version];
    a.topk_experts = weirv_moe_experts(t->oracle, version, t->job->rank);
    a.topk_weights = by_expert ? NULL : c->weights[version];
    a.rows = c->rows;
    a.rows_bytes = c->info.recv_bytes;
    a.row_scales = c->info.scales_per_row ? c->scales : NULL;
    a.row_weights = by_expert ? NULL : c->row_weights;
    a.row_experts = by_expert ? NULL : c->row_experts;
    a.expert_counts = c->counts;
    a.expert_offsets = by_expert ? c->offsets : NULL;
    return weir_moe_dispatch(c->state, &a);
}

static weir_status weir_combine(moe_candidate *c, int version)
{
    const bench_moe_trial *t = c->trial;
    weir_moe_combine_args a = WEIR_MOE_COMBINE_ARGS_INIT;
    a.handle = version;
    a.rows = c->adds_rows ? c->rows : c->outputs;
    a.weights = t->config.layout == WEIR_MOE_EXPERT_MAJOR ? c->weights[version] : NULL;
    a.out = c->out;
    a.out_bytes = (size_t)t->tokens * c->info.row_bytes;
    return weir_moe_combine(c->state, &a);
}

const moe_candidate_ops bench_moe_weir = {"weir", weir_open, weir_close, weir_dispatch,
                                          weir_combine};
