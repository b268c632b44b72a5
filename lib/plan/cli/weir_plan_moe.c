/* The command moe of weir-plan: estimates of expert parallelism for some numbers of ranks. */
#include "plan/cli/commands.h"

#include "base/error.h"
#include "plan/cost/moe.h"
#include "programs/moe_models.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------------ values */

static weir_status plan_cli_read_shape(const settings *chosen, weiri_moe_shape *shape)
{
    const moe_model *model = moe_model_find(chosen->model);
    if (!model)
        return weiri_fail(WEIR_ERR_INVALID, "--model %s: expected %s", chosen->model,
                          MOE_MODEL_NAMES);
    *shape = (weiri_moe_shape){.tokens = chosen->tokens,
                               .hidden = chosen->hidden ? chosen->hidden : model->hidden,
                               .experts = chosen->experts ? chosen->experts : model->experts,
                               .topk = chosen->topk ? chosen->topk : model->topk,
                               .groups = chosen->groups,
                               .fp8 = chosen->fp8};
    return WEIR_OK;
}

/* ------------------------------------------------------------------------- table */

static void plan_cli_print_heading(const weiri_plan_model *model, const weiri_moe_shape *shape)
{
    printf("# %s: %s\n", model->name, model->about);
    printf("# %d tokens per rank, hidden %d, %d experts, top-%d, dispatched as %s; uniform "
           "routing\n",
           shape->tokens, shape->hidden, shape->experts, shape->topk,
           shape->fp8 ? "fp8 with scales" : "2-byte elements");
    puts("# Estimates: the time is that of the bound and of latencies; MB into the busiest rank;\n"
         "# GB/s count a row for each choice, each rank, and each node of a token, local ones too");
    printf("# %5s %5s %8s %6s %10s %10s %-7s %9s %9s %8s %8s %8s\n", "ranks", "nodes", "phase",
           "cross", "us", "latency us", "bound", "link MB", "net MB", "choice", "rank", "node");
}

static void plan_cli_print_estimate(const weiri_plan_model *model, const weiri_moe_shape *shape,
                                    weiri_moe_phase phase, const weiri_moe_estimate *e)
{
    static const char *const bounds[WEIRI_LOAD_KINDS] = {
        [WEIRI_LOAD_PAIR] = "pair",     [WEIRI_LOAD_OUT] = "link",    [WEIRI_LOAD_IN] = "link",
        [WEIRI_LOAD_MEMORY] = "memory", [WEIRI_LOAD_NET_OUT] = "net", [WEIRI_LOAD_NET_IN] = "net",
        [WEIRI_LOAD_NODE] = "node"};
    const int nodes = (shape->ranks + model->node_ranks - 1) / model->node_ranks;
    printf("  %5d %5d %8s %6s %10.2f %10.2f %-7s %9.3f %9.3f", shape->ranks, nodes,
           phase == WEIRI_MOE_DISPATCH ? "dispatch" : "combine",
           weiri_moe_crossing_name(e->crossing), e->us, e->latency_us, bounds[e->bound],
           e->link_bytes / 1e6, e->net_bytes / 1e6);
    for (int i = 0; i < 3; i++)
        printf(" %8.2f", e->counted_bytes[i] / e->us / 1e3);
    putchar('\n');
}

static weir_status plan_cli_estimate_ranks(const weiri_plan_model *model,
                                           const weiri_moe_shape *shape,
                                           weiri_moe_crossing crossing, int is_first)
{
    weiri_moe_estimate estimates[WEIRI_MOE_PHASES];
    for (int phase = 0; phase < WEIRI_MOE_PHASES; phase++) {
        weir_status status = weiri_moe_estimate_phase(model, shape, (weiri_moe_phase)phase,
                                                      crossing, &estimates[phase]);
        if (status != WEIR_OK)
            return status;
    }
    if (is_first)
        plan_cli_print_heading(model, shape);
    for (int phase = 0; phase < WEIRI_MOE_PHASES; phase++)
        plan_cli_print_estimate(model, shape, (weiri_moe_phase)phase, &estimates[phase]);
    return WEIR_OK;
}

/* Without --ranks: two, and twice as many while the topology and the experts allow it. */
weir_status command_moe(const settings *chosen)
{
    weiri_plan_model model;
    weiri_moe_shape shape;
    const weiri_moe_crossing crossing = (weiri_moe_crossing)chosen->crossing;
    weir_status status = plan_cli_read_shape(chosen, &shape);
    if (status == WEIR_OK)
        status = weiri_plan_model_read(chosen->topology ? chosen->topology : "h200x8", &model);
    if (status != WEIR_OK)
        return status;
    const int first = chosen->nranks ? chosen->nranks : 2;
    const int most = chosen->nranks ? chosen->nranks : model.ranks;
    for (shape.ranks = first; status == WEIR_OK && shape.ranks <= most; shape.ranks *= 2) {
        if (shape.ranks > first && shape.experts % shape.ranks)
            break;
        status = plan_cli_estimate_ranks(&model, &shape, crossing, shape.ranks == first);
    }
    return status;
}
