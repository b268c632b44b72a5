/*
 * Flows: transfers in progress, and the loads that they share. A flow demands of each load the
 * bandwidth that it would use without contention; if the demands exceed the bandwidth of a load,
 * all its flows slow down in the same proportion.
 */
#include "plan/cost/simulation.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_US_PER_GBS = 1000 };
#define CLOSE_US 1e-9 /* times that differ by less are equal */

/* The index of a load: those of pairs first, then for each other kind one for each rank (or node).
 */
static uint32_t plan_cost_load_of(const weiri_simulation *sim, weiri_load_kind kind, int from,
                                  int to)
{
    uint32_t n = (uint32_t)sim->plan->nranks;
    if (kind == WEIRI_LOAD_PAIR)
        return (uint32_t)from * n + (uint32_t)to;
    return n * n + (uint32_t)(kind - 1) * n + (uint32_t)from;
}

static double plan_cost_gbs_of(const weiri_plan_model *model, weiri_load_kind kind)
{
    const double gbs[WEIRI_LOAD_KINDS] = {
        [WEIRI_LOAD_PAIR] = model->pair_gbs,   [WEIRI_LOAD_OUT] = model->link_gbs,
        [WEIRI_LOAD_IN] = model->link_gbs,     [WEIRI_LOAD_MEMORY] = model->memory_gbs,
        [WEIRI_LOAD_NET_OUT] = model->net_gbs, [WEIRI_LOAD_NET_IN] = model->net_gbs,
        [WEIRI_LOAD_NODE] = model->machine_gbs};
    return gbs[kind];
}

weir_status weiri_flows_open(weiri_simulation *sim)
{
    uint32_t n = (uint32_t)sim->plan->nranks;
    weiri_plan_cost *cost = sim->cost;
    cost->nloads = n * n + (WEIRI_LOAD_KINDS - 1) * n;
    cost->loads = calloc(cost->nloads, sizeof *cost->loads);
    sim->users = calloc(cost->nloads, sizeof *sim->users);
    sim->wanted = calloc(cost->nloads, sizeof *sim->wanted);
    sim->flowing = calloc(sim->nagents ? sim->nagents : 1, sizeof *sim->flowing);
    if (!cost->loads || !sim->users || !sim->wanted || !sim->flowing)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory for the simulation", sim->plan->file);
    for (int kind = 0; kind < WEIRI_LOAD_KINDS; kind++)
        for (int from = 0; from < (int)n; from++)
            for (int to = 0; to < (kind == WEIRI_LOAD_PAIR ? (int)n : 1); to++)
                cost->loads[plan_cost_load_of(sim, (weiri_load_kind)kind, from, to)] =
                    (weiri_plan_load){.kind = (weiri_load_kind)kind,
                                      .from = from,
                                      .to = to,
                                      .gbs = plan_cost_gbs_of(&cost->model, (weiri_load_kind)kind)};
    return WEIR_OK;
}

int weiri_flows_cross_nodes(const weiri_simulation *sim, int from, int to)
{
    return from / sim->cost->model.node_ranks != to / sim->cost->model.node_ranks;
}

/* ------------------------------------------------------------------- one flow */

typedef struct flow_builder {
    weiri_simulation *sim;
    weiri_agent *agent;
    uint32_t index;
    int copies; /* 1: a copy, which reads as much as it writes */
    uint64_t read, written;
} flow_builder;

static void plan_cost_use_load(flow_builder *b, weiri_load_kind kind, int from, int to,
                               uint64_t bytes)
{
    weiri_agent *agent = b->agent;
    uint32_t load = plan_cost_load_of(b->sim, kind, from, to);
    if (!(b->sim->cost->loads[load].gbs > 0))
        return;
    for (uint32_t i = 0; i < agent->nuses; i++)
        if (agent->uses[i].load == load) {
            agent->uses[i].bytes += bytes;
            return;
        }
    if (agent->nuses == agent->room) {
        uint32_t room = agent->room ? 2 * agent->room : 8;
        weiri_flow_use *uses = realloc(agent->uses, room * sizeof *uses);
        if (!uses) {
            weiri_simulation_no_memory(b->sim);
            return;
        }
        agent->uses = uses;
        agent->room = room;
    }
    agent->uses[agent->nuses++] = (weiri_flow_use){load, bytes};
}

static void plan_cost_use_memory(flow_builder *b, int rank, uint64_t bytes)
{
    plan_cost_use_load(b, WEIRI_LOAD_MEMORY, rank, 0, bytes);
    plan_cost_use_load(b, WEIRI_LOAD_NODE, rank / b->sim->cost->model.node_ranks, 0, bytes);
}

static void plan_cost_use_leg(void *context, const weiri_plan_leg *leg)
{
    flow_builder *b = context;
    if (b->index != UINT32_MAX && leg->index != b->index)
        return;
    b->read += leg->is_source || b->copies ? leg->bytes : 0;
    b->written += leg->is_source ? 0 : leg->bytes;
    if (leg->from == leg->to) {
        plan_cost_use_memory(b, leg->from, leg->bytes * leg->accesses);
        return;
    }
    if (weiri_flows_cross_nodes(b->sim, leg->from, leg->to)) {
        plan_cost_use_load(b, WEIRI_LOAD_NET_OUT, leg->from, 0, leg->bytes);
        plan_cost_use_load(b, WEIRI_LOAD_NET_IN, leg->to, 0, leg->bytes);
    } else {
        plan_cost_use_load(b, WEIRI_LOAD_OUT, leg->from, 0, leg->bytes);
        plan_cost_use_load(b, WEIRI_LOAD_IN, leg->to, 0, leg->bytes);
        plan_cost_use_load(b, WEIRI_LOAD_PAIR, leg->from, leg->to, leg->bytes);
    }
    plan_cost_use_memory(b, leg->from, leg->bytes);
    plan_cost_use_memory(b, leg->to, leg->bytes);
}

static double plan_cost_larger(double a, double b)
{
    return a > b ? a : b;
}

int weiri_flow_begin(weiri_simulation *sim, uint32_t at, const weiri_plan_op *op, uint64_t turn,
                     uint64_t turn_bytes, uint32_t index)
{
    weiri_agent *agent = &sim->agents[at];
    const weiri_plan_model *model = &sim->cost->model;
    weiri_plan_layout *layout = &sim->cost->layout;
    int by_port = at >= sim->nblocks;
    flow_builder b = {.sim = sim,
                      .agent = agent,
                      .index = index,
                      .copies = weiri_plan_traits[op->kind].mode != WEIRI_PLAN_REDUCE};
    agent->nuses = 0;
    weiri_plan_each_leg(sim->plan, layout, agent->rank, op, turn, turn_bytes, plan_cost_use_leg,
                        &b);
    double own = plan_cost_larger((double)b.read, (double)b.written) /
                 (by_port ? model->port_gbs : model->block_gbs);
    if (!by_port)
        own = plan_cost_larger(own, (double)weiri_plan_reduced_bytes(sim->plan, layout, agent->rank,
                                                                     op, turn, turn_bytes) /
                                        model->reduce_gbs);
    agent->own_us = own / BYTES_US_PER_GBS;
    agent->work_us += agent->own_us;
    if (agent->own_us <= CLOSE_US)
        return 0;
    for (uint32_t i = 0; i < agent->nuses; i++) {
        sim->users[agent->uses[i].load]++;
        sim->wanted[agent->uses[i].load] += (double)agent->uses[i].bytes / agent->own_us;
        sim->cost->loads[agent->uses[i].load].bytes += agent->uses[i].bytes;
    }
    agent->left = 1;
    agent->rate = 0; /* until plan_cost_renew_rates */
    agent->state = WEIRI_AGENT_FLOWS;
    sim->flowing[sim->nflowing++] = at;
    sim->rates_are_old = 1;
    return 1;
}

/* ------------------------------------------------------------------- all flows */

static void plan_cost_renew_rates(weiri_simulation *sim)
{
    for (uint32_t i = 0; i < sim->nflowing && sim->rates_are_old; i++) {
        weiri_agent *agent = &sim->agents[sim->flowing[i]];
        double slower = 1;
        for (uint32_t u = 0; u < agent->nuses; u++) {
            uint32_t load = agent->uses[u].load;
            slower = plan_cost_larger(slower, sim->wanted[load] /
                                                  (sim->cost->loads[load].gbs * BYTES_US_PER_GBS));
        }
        agent->rate = 1 / (slower * agent->own_us);
    }
    sim->rates_are_old = 0;
}

double weiri_flows_next_us(weiri_simulation *sim)
{
    double first = HUGE_VAL;
    plan_cost_renew_rates(sim);
    for (uint32_t i = 0; i < sim->nflowing; i++) {
        const weiri_agent *agent = &sim->agents[sim->flowing[i]];
        double left = agent->left / agent->rate;
        first = left < first ? left : first;
    }
    return sim->now_us + first;
}

void weiri_flows_advance(weiri_simulation *sim, double us)
{
    for (uint32_t i = 0; i < sim->nflowing; i++) {
        weiri_agent *agent = &sim->agents[sim->flowing[i]];
        agent->left -= agent->rate * (us - sim->now_us);
    }
    sim->now_us = us;
}

uint32_t weiri_flows_take_ended(weiri_simulation *sim)
{
    double rounding = CLOSE_US + sim->now_us * 1e-12;
    for (uint32_t i = 0; i < sim->nflowing; i++) {
        uint32_t at = sim->flowing[i];
        const weiri_agent *agent = &sim->agents[at];
        if (agent->rate <= 0 || agent->left / agent->rate > rounding)
            continue;
        memmove(&sim->flowing[i], &sim->flowing[i + 1],
                (--sim->nflowing - i) * sizeof *sim->flowing);
        for (uint32_t u = 0; u < agent->nuses; u++) {
            uint32_t load = agent->uses[u].load;
            sim->wanted[load] -= (double)agent->uses[u].bytes / agent->own_us;
            if (--sim->users[load] == 0)
                sim->wanted[load] = 0; /* without rounding errors */
        }
        sim->rates_are_old = 1;
        return at;
    }
    return UINT32_MAX;
}
