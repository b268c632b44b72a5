/* Sets up and runs the simulation of a plan, and finds its critical path. */
#include "plan/cost/simulation.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BARRIERS = WEIRI_PLAN_BLOCKS_MAX };

/* ------------------------------------------------------------------- set-up */

static int plan_cost_make_rank(weiri_rank_state *rank, const weiri_plan_gpu *gpu)
{
    int made = 1;
    for (int type = WEIRI_PLAN_MEMORY; type <= WEIRI_PLAN_PORT; type++) {
        rank->signals[type] = calloc(gpu->nlinks[type] + 1, sizeof(uint32_t));
        made &= rank->signals[type] != NULL;
    }
    rank->semaphores = calloc(gpu->nsemaphores + 1, sizeof(uint32_t));
    rank->arrived = calloc(BARRIERS, sizeof(uint32_t));
    rank->rounds = calloc(BARRIERS, sizeof(uint32_t));
    if (rank->semaphores && gpu->nsemaphores)
        memcpy(rank->semaphores, gpu->semaphores, gpu->nsemaphores * sizeof(uint32_t));
    return made && rank->semaphores && rank->arrived && rank->rounds;
}

/* Numbers the agents: the thread blocks of all ranks, then the ports. */
static void plan_cost_place_agents(weiri_simulation *sim)
{
    const weir_plan *plan = sim->plan;
    uint32_t at = 0;
    for (int rank = 0; rank < plan->nranks; rank++) {
        sim->ranks[rank].first_agent = at;
        for (uint32_t block = 0; block < plan->gpus[rank].nblocks; block++, at++) {
            weiri_agent *agent = &sim->agents[at];
            *agent = (weiri_agent){.rank = rank, .block = block, .step = -1, .previous = -1};
            weiri_plan_walk_begin(plan, &sim->cost->layout, rank, block, &agent->walk);
        }
    }
    for (int rank = 0; rank < plan->nranks; rank++) {
        sim->ranks[rank].first_port = at;
        for (uint32_t i = 0; i < plan->gpus[rank].nlinks[WEIRI_PLAN_PORT]; i++, at++)
            sim->agents[at] =
                (weiri_agent){.rank = rank, .block = i, .state = WEIRI_AGENT_ENDED, .step = -1};
    }
}

static weir_status plan_cost_open_simulation(weiri_simulation *sim)
{
    const weir_plan *plan = sim->plan;
    int made = 1;
    for (int rank = 0; rank < plan->nranks; rank++) {
        sim->nblocks += plan->gpus[rank].nblocks;
        sim->nagents += plan->gpus[rank].nlinks[WEIRI_PLAN_PORT];
    }
    sim->nagents += sim->nblocks;
    sim->ranks = calloc((size_t)plan->nranks, sizeof *sim->ranks);
    sim->agents = calloc(sim->nagents ? sim->nagents : 1, sizeof *sim->agents);
    for (int rank = 0; rank < plan->nranks && sim->ranks; rank++)
        made &= plan_cost_make_rank(&sim->ranks[rank], &plan->gpus[rank]);
    if (!sim->ranks || !sim->agents || !made) {
        weiri_simulation_no_memory(sim);
        return sim->status;
    }
    plan_cost_place_agents(sim);
    return weiri_flows_open(sim);
}

static void plan_cost_close_simulation(weiri_simulation *sim)
{
    for (int rank = 0; sim->ranks && rank < sim->plan->nranks; rank++) {
        weiri_rank_state *state = &sim->ranks[rank];
        free(state->signals[0]);
        free(state->signals[1]);
        free(state->semaphores);
        free(state->arrived);
        free(state->rounds);
        free(state->packets);
    }
    for (uint32_t i = 0; sim->agents && i < sim->nagents; i++) {
        free(sim->agents[i].requests);
        free(sim->agents[i].uses);
    }
    free(sim->ranks);
    free(sim->agents);
    free(sim->events);
    free(sim->flowing);
    free(sim->users);
    free(sim->wanted);
}

void weiri_plan_cost_free(weiri_plan_cost *cost)
{
    free(cost->steps);
    free(cost->arrivals);
    free(cost->loads);
    cost->steps = NULL;
    cost->arrivals = NULL;
    cost->loads = NULL;
}

int64_t *weiri_plan_critical_path(const weiri_plan_cost *cost, uint32_t *count)
{
    int64_t *path = malloc((cost->nsteps + 1) * sizeof *path);
    *count = 0;
    for (int64_t at = cost->last; path && at >= 0 && *count < cost->nsteps;
         at = cost->steps[at].cause)
        path[(*count)++] = at;
    for (uint32_t i = 0; path && i < *count / 2; i++) {
        int64_t kept = path[i];
        path[i] = path[*count - 1 - i];
        path[*count - 1 - i] = kept;
    }
    return path;
}

/* --------------------------------------------------------------------- run */

static void plan_cost_run(weiri_simulation *sim)
{
    for (uint32_t i = 0; i < sim->nblocks && sim->status == WEIR_OK; i++)
        weiri_agent_begin(sim, i);
    while (sim->status == WEIR_OK && (sim->nevents || sim->nflowing)) {
        double flow_us = weiri_flows_next_us(sim);
        double event_us = sim->nevents ? sim->events[0].us : HUGE_VAL;
        uint32_t ended;
        weiri_flows_advance(sim, flow_us < event_us ? flow_us : event_us);
        while ((ended = weiri_flows_take_ended(sim)) != UINT32_MAX)
            weiri_agent_flow_ended(sim, ended);
        while (sim->nevents && sim->events[0].us <= sim->now_us && sim->status == WEIR_OK) {
            weiri_event event = weiri_event_pop(sim);
            weiri_event_perform(sim, &event);
        }
    }
}

/* After the last event: checks that all thread blocks have ended, and finds the busiest one. */
static weir_status plan_cost_check_ended(const weiri_simulation *sim)
{
    weiri_plan_cost *cost = sim->cost;
    char where[WEIRI_PLAN_WHERE_BYTES];
    for (uint32_t i = 0; i < sim->nblocks; i++) {
        const weiri_agent *agent = &sim->agents[i];
        if (agent->state != WEIRI_AGENT_ENDED)
            return weiri_fail(
                WEIR_ERR_INVALID,
                "%s: waits for ever for an event that never happens; run weir-plan "
                "check to find the cause",
                weiri_plan_where(sim->plan, agent->rank, agent->block, agent->walk.at, where));
        if (agent->work_us > cost->busiest_us) {
            cost->busiest_us = agent->work_us;
            cost->busiest_rank = agent->rank;
            cost->busiest_block = agent->block;
        }
    }
    return WEIR_OK;
}

weir_status weiri_plan_simulate(const weir_plan *plan, const weiri_plan_model *model,
                                uint64_t message_bytes, weiri_plan_cost *cost)
{
    weiri_plan_cost made = {
        .model = *model, .message_bytes = message_bytes, .last = -1, .total_us = model->launch_us};
    weiri_simulation sim = {.plan = plan, .cost = &made, .now_us = model->launch_us, .waker = -1};
    if (plan->nranks > model->ranks)
        return weiri_fail(
            WEIR_ERR_INVALID,
            "%s: the plan has %d ranks, but topology %s has %d; use a topology file with "
            "ranks = %d",
            plan->file, plan->nranks, model->name, model->ranks, plan->nranks);
    weir_status status = weiri_plan_lay_out_message(plan, message_bytes, &made.layout);
    if (status != WEIR_OK)
        return status;
    status = plan_cost_open_simulation(&sim);
    if (status == WEIR_OK) {
        plan_cost_run(&sim);
        status = sim.status == WEIR_OK ? plan_cost_check_ended(&sim) : sim.status;
    }
    plan_cost_close_simulation(&sim);
    if (status == WEIR_OK)
        *cost = made;
    else
        weiri_plan_cost_free(&made);
    return status;
}
