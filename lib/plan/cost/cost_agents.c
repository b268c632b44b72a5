/*
 * Agents of a simulation: when their operations begin, and the effects of operations on others. A
 * thread block goes through its operations: reach_op (arrive at it), try_begin (is everything there
 * that it waits for?), start_agent (its latency has passed, data flows), finish_moves (data is
 * moved, others are notified), end_op.
 */
#include "plan/cost/simulation.h"

#include "base/error.h"

#include <stdlib.h>

static double plan_cost_delay_us(const weiri_simulation *sim, int from, int to, double us)
{
    return us + (weiri_flows_cross_nodes(sim, from, to) ? sim->cost->model.net_us : 0);
}

static void plan_cost_add_arrival(weiri_simulation *sim, int64_t step, int rank, double us,
                                  uint64_t bytes)
{
    weiri_plan_cost *cost = sim->cost;
    weiri_plan_arrival *arrival =
        weiri_plan_append(&cost->arrivals, &cost->narrivals, sizeof *arrival);
    if (!arrival) {
        weiri_simulation_no_memory(sim);
        return;
    }
    *arrival = (weiri_plan_arrival){step, rank, us, bytes};
    if (us > cost->total_us) {
        cost->total_us = us;
        cost->last = step;
    }
}

/* ------------------------------------------------- conditions of operations */

/* The range that an operation handles, in the line of all chunks of the reference's buffer. */
static weiri_span plan_cost_span_of_ref(const weiri_simulation *sim, const weiri_plan_op *op,
                                        const weiri_plan_ref *ref, uint64_t turn,
                                        uint64_t turn_bytes)
{
    const weiri_plan_layout *layout = &sim->cost->layout;
    weiri_plan_span part = weiri_plan_part(layout, op, ref->size, turn, turn_bytes);
    uint64_t begin = ref->index * layout->chunk_bytes;
    return (weiri_span){begin + part.first, begin + part.end};
}

static int plan_cost_have_packets(const weiri_simulation *sim, const weiri_agent *agent,
                                  const weiri_plan_op *op)
{
    const weiri_plan_ref *refs = &agent->walk.gpu->refs[op->first_src];
    for (uint32_t i = 0; i < op->nsrcs; i++)
        if (refs[i].is_packets && refs[i].place == WEIRI_PLAN_LOCAL &&
            !weiri_packets_have_arrived(
                &sim->ranks[agent->rank],
                plan_cost_span_of_ref(sim, op, &refs[i], agent->walk.turn, agent->walk.turn_bytes)))
            return 0;
    return 1;
}

/* Consumes a count of each of the operation's ids as far as they are positive; 1 when all are
 * consumed. */
static int plan_cost_consume_counts(weiri_agent *agent, const weiri_plan_op *op, uint32_t *counts)
{
    const uint32_t *ids = &agent->walk.gpu->ids[op->first_id];
    for (; agent->progress < op->nids && counts[ids[agent->progress]]; agent->progress++)
        counts[ids[agent->progress]]--;
    return agent->progress == op->nids;
}

/* Enters a barrier at the first call; returns 1 once all blocks have entered it. */
static int plan_cost_enter_barrier(weiri_simulation *sim, weiri_agent *agent,
                                   const weiri_plan_op *op)
{
    weiri_rank_state *rank = &sim->ranks[agent->rank];
    if (agent->progress)
        return agent->round != rank->rounds[op->barrier];
    agent->progress = 1;
    agent->round = rank->rounds[op->barrier];
    if (++rank->arrived[op->barrier] == op->nblocks) {
        rank->arrived[op->barrier] = 0;
        weiri_event_push(sim,
                         (weiri_event){.kind = WEIRI_EVENT_BARRIER,
                                       .rank = agent->rank,
                                       .link = op->barrier,
                                       .step = agent->step},
                         sim->cost->model.barrier_us);
    }
    return 0;
}

static int plan_cost_ports_are_idle(const weiri_simulation *sim, const weiri_agent *agent,
                                    const weiri_plan_op *op)
{
    const weiri_agent *ports = &sim->agents[sim->ranks[agent->rank].first_port];
    for (uint32_t i = 0; i < op->nids && op->channel == WEIRI_PLAN_PORT; i++)
        if (ports[agent->walk.gpu->ids[op->first_id + i]].state != WEIRI_AGENT_ENDED)
            return 0;
    return 1;
}

static int plan_cost_can_begin(weiri_simulation *sim, weiri_agent *agent, const weiri_plan_op *op)
{
    weiri_rank_state *rank = &sim->ranks[agent->rank];
    switch (op->kind) {
    case WEIRI_PLAN_WAIT_OP:
    case WEIRI_PLAN_RELAXED_WAIT_OP:
        return plan_cost_consume_counts(agent, op, rank->signals[op->channel]);
    case WEIRI_PLAN_SEM_ACQUIRE_OP:
        return plan_cost_consume_counts(agent, op, rank->semaphores);
    case WEIRI_PLAN_BARRIER_OP:
        return plan_cost_enter_barrier(sim, agent, op);
    case WEIRI_PLAN_FLUSH_OP:
        return plan_cost_ports_are_idle(sim, agent, op);
    default:
        return plan_cost_have_packets(sim, agent, op);
    }
}

/* -------------------------------------------------------------------- blocks */

static weiri_plan_step *plan_cost_step_of(const weiri_simulation *sim, const weiri_agent *agent)
{
    return &sim->cost->steps[agent->step];
}

/* Begins the current operation of a block if its condition holds. */
static void plan_cost_try_begin(weiri_simulation *sim, weiri_agent *agent, int waited)
{
    const weiri_plan_op *op = weiri_plan_walk_op(&agent->walk);
    const weiri_plan_model *model = &sim->cost->model;
    if (!plan_cost_can_begin(sim, agent, op)) {
        agent->state = WEIRI_AGENT_WAITS;
        return;
    }
    double us = op->kind == WEIRI_PLAN_NOP_OP ? model->fence_us : model->op_us;
    weiri_plan_step *step = plan_cost_step_of(sim, agent);
    step->began_us = sim->now_us;
    step->waited =
        waited && sim->waker != agent->step; /* the last block at a barrier did not wait */
    step->cause = step->waited ? sim->waker : agent->previous;
    agent->state = WEIRI_AGENT_STARTS;
    agent->work_us += us;
    weiri_event_push(
        sim, (weiri_event){.kind = WEIRI_EVENT_START, .agent = (uint32_t)(agent - sim->agents)},
        us);
}

/* Moves a block to its next operation. */
static void plan_cost_reach_op(weiri_simulation *sim, weiri_agent *agent)
{
    weiri_plan_cost *cost = sim->cost;
    agent->progress = 0;
    if (!weiri_plan_walk_op(&agent->walk)) {
        agent->state = WEIRI_AGENT_ENDED;
        return;
    }
    if (cost->nsteps == WEIRI_PLAN_STEPS_MAX) {
        sim->status = weiri_fail(WEIR_ERR_INVALID,
                                 "%s: more than %d operations to simulate, with all turns of "
                                 "pipelines, for %llu bytes; choose fewer bytes",
                                 sim->plan->file, WEIRI_PLAN_STEPS_MAX,
                                 (unsigned long long)cost->message_bytes);
        return;
    }
    weiri_plan_step *step = weiri_plan_append(&cost->steps, &cost->nsteps, sizeof *step);
    if (!step) {
        weiri_simulation_no_memory(sim);
        return;
    }
    *step = (weiri_plan_step){.rank = agent->rank,
                              .block = agent->block,
                              .op = agent->walk.at,
                              .turn = agent->walk.turn,
                              .reached_us = sim->now_us,
                              .cause = -1};
    agent->step = cost->nsteps - 1;
    plan_cost_try_begin(sim, agent, 0);
}

/* After something has arrived at a rank: its waiting blocks test their conditions again. */
static void plan_cost_wake_rank(weiri_simulation *sim, int rank, int64_t waker)
{
    weiri_agent *first = &sim->agents[sim->ranks[rank].first_agent];
    int64_t before = sim->waker;
    sim->waker = waker;
    for (weiri_agent *at = first; at < first + sim->plan->gpus[rank].nblocks; at++)
        if (at->state == WEIRI_AGENT_WAITS && !at->drains)
            plan_cost_try_begin(sim, at, 1);
    sim->waker = before;
}

/* The peer's end of the rank's channel i, where its signals arrive; -1: the peer has none. */
static int64_t plan_cost_other_end(const weiri_simulation *sim, int rank, weiri_plan_channel type,
                                   uint32_t i)
{
    const weiri_plan_link *own = &sim->plan->gpus[rank].links[type][i];
    const weiri_plan_gpu *peer = &sim->plan->gpus[own->peer];
    for (uint32_t k = 0; k < peer->nlinks[type]; k++)
        if (peer->links[type][k].peer == rank && peer->links[type][k].ordinal == own->ordinal)
            return k;
    return -1;
}

static void plan_cost_send_signal(weiri_simulation *sim, int rank, weiri_plan_channel type,
                                  uint32_t i, double us, int64_t step)
{
    int64_t end = plan_cost_other_end(sim, rank, type, i);
    int peer = sim->plan->gpus[rank].links[type][i].peer;
    if (end >= 0)
        weiri_event_push(sim,
                         (weiri_event){.kind = WEIRI_EVENT_SIGNAL,
                                       .rank = peer,
                                       .channel = (int)type,
                                       .link = (uint32_t)end,
                                       .step = step},
                         plan_cost_delay_us(sim, rank, peer, us));
}

/* Queues the arrival of the data or packets that an operation has stored to one destination. */
static void plan_cost_deliver_data(weiri_simulation *sim, int rank, const weiri_plan_op *op,
                                   uint32_t index, uint64_t turn, uint64_t turn_bytes, int64_t step)
{
    const weiri_plan_gpu *gpu = &sim->plan->gpus[rank];
    const weiri_plan_ref *ref = &gpu->refs[op->first_dst + index];
    weiri_span span = plan_cost_span_of_ref(sim, op, ref, turn, turn_bytes);
    const weiri_plan_switch *group =
        ref->place == WEIRI_PLAN_GROUP ? &gpu->switches[ref->rank] : NULL;
    for (uint32_t i = 0; i < (group ? group->nranks : 1); i++) {
        int to = group                            ? (int)gpu->ids[group->first_rank + i]
                 : ref->place == WEIRI_PLAN_LOCAL ? rank
                                                  : ref->rank;
        double us = to == rank ? 0
                    : ref->is_packets
                        ? plan_cost_delay_us(sim, rank, to, sim->cost->model.packet_us)
                        : plan_cost_delay_us(sim, rank, to, 0);
        if (ref->is_packets && span.end > span.first)
            weiri_event_push(sim,
                             (weiri_event){.kind = WEIRI_EVENT_PACKETS,
                                           .rank = to,
                                           .step = step,
                                           .first = span.first,
                                           .end = span.end},
                             us);
        if (to != rank && span.end > span.first)
            plan_cost_add_arrival(sim, step, to, sim->now_us + us, span.end - span.first);
    }
}

/* -------------------------------------------------------------------- ports */

/* Begins the next request of a port, after delay_us, or makes the port idle. */
static void plan_cost_serve_next(weiri_simulation *sim, weiri_agent *port, double delay_us)
{
    if (port->done == port->nrequests) {
        port->state = WEIRI_AGENT_ENDED;
        free(port->requests);
        port->requests = NULL;
        port->done = port->nrequests = 0;
        return;
    }
    port->state = WEIRI_AGENT_STARTS;
    weiri_event_push(
        sim, (weiri_event){.kind = WEIRI_EVENT_START, .agent = (uint32_t)(port - sim->agents)},
        delay_us);
}

static void plan_cost_post_request(weiri_simulation *sim, const weiri_agent *agent,
                                   const weiri_plan_op *op, uint32_t link, uint32_t index)
{
    weiri_agent *port = &sim->agents[sim->ranks[agent->rank].first_port + link];
    weiri_port_request *request =
        weiri_plan_append(&port->requests, &port->nrequests, sizeof *request);
    if (!request) {
        weiri_simulation_no_memory(sim);
        return;
    }
    *request =
        (weiri_port_request){op, agent->walk.turn, agent->walk.turn_bytes, index, agent->step};
    if (port->state == WEIRI_AGENT_ENDED)
        plan_cost_serve_next(sim, port, sim->cost->model.port_us);
}

static void plan_cost_end_op(weiri_simulation *sim, weiri_agent *agent);

/* Completes a request of a port: its data or signal arrives, and a flush may complete. */
static void plan_cost_end_request(weiri_simulation *sim, weiri_agent *port)
{
    weiri_port_request request = port->requests[port->done++];
    weiri_agent *first = &sim->agents[sim->ranks[port->rank].first_agent];
    if (request.index == UINT32_MAX)
        plan_cost_send_signal(sim, port->rank, WEIRI_PLAN_PORT, port->block, 0, request.step);
    else
        plan_cost_deliver_data(sim, port->rank, request.op, request.index, request.turn,
                               request.turn_bytes, request.step);
    plan_cost_serve_next(sim, port, 0);
    if (port->state != WEIRI_AGENT_ENDED)
        return;
    plan_cost_wake_rank(sim, port->rank, request.step);
    for (weiri_agent *at = first; at < first + sim->plan->gpus[port->rank].nblocks; at++)
        if (at->drains && plan_cost_ports_are_idle(sim, at, weiri_plan_walk_op(&at->walk)))
            plan_cost_end_op(sim, at);
}

static void plan_cost_start_request(weiri_simulation *sim, weiri_agent *port)
{
    const weiri_port_request *request = &port->requests[port->done];
    uint32_t at = (uint32_t)(port - sim->agents);
    if (request->index == UINT32_MAX ||
        !weiri_flow_begin(sim, at, request->op, request->turn, request->turn_bytes, request->index))
        plan_cost_end_request(sim, port);
}

/* --------------------------------------------------------------- operations */

/* The effects of an operation on others after it has moved its bytes: signals, arrivals, requests
 * to ports, releases. */
static void plan_cost_notify_others(weiri_simulation *sim, weiri_agent *agent,
                                    const weiri_plan_op *op)
{
    const uint32_t *ids = &agent->walk.gpu->ids[op->first_id];
    int with_signal = weiri_plan_is_put_signal(op->kind);
    int is_signal = op->kind == WEIRI_PLAN_SIGNAL_OP || op->kind == WEIRI_PLAN_RELAXED_SIGNAL_OP;
    int by_port = op->channel == WEIRI_PLAN_PORT;
    for (uint32_t i = 0; i < op->ndsts; i++)
        if (by_port)
            plan_cost_post_request(sim, agent, op, ids[i], i);
        else
            plan_cost_deliver_data(sim, agent->rank, op, i, agent->walk.turn,
                                   agent->walk.turn_bytes, agent->step);
    for (uint32_t i = 0; (is_signal || with_signal) && i < op->nids; i++)
        if (by_port)
            plan_cost_post_request(sim, agent, op, ids[i], UINT32_MAX);
        else
            plan_cost_send_signal(sim, agent->rank, WEIRI_PLAN_MEMORY, ids[i],
                                  op->kind == WEIRI_PLAN_RELAXED_SIGNAL_OP
                                      ? sim->cost->model.relaxed_us
                                      : sim->cost->model.signal_us,
                                  agent->step);
    for (uint32_t i = 0; op->kind == WEIRI_PLAN_SEM_RELEASE_OP && i < op->nids; i++)
        sim->ranks[agent->rank].semaphores[ids[i]]++;
}

/* Ends the current operation of a block, and moves it to the next one. */
static void plan_cost_end_op(weiri_simulation *sim, weiri_agent *agent)
{
    weiri_plan_cost *cost = sim->cost;
    const weiri_plan_op *op = weiri_plan_walk_op(&agent->walk);
    int releases = op->kind == WEIRI_PLAN_SEM_RELEASE_OP;
    agent->drains = 0;
    plan_cost_step_of(sim, agent)->ended_us = sim->now_us;
    if (sim->now_us >= cost->total_us) {
        cost->total_us = sim->now_us;
        cost->last = agent->step;
    }
    agent->previous = agent->step;
    if (releases)
        plan_cost_wake_rank(sim, agent->rank, agent->step);
    weiri_plan_walk_next(&agent->walk);
    plan_cost_reach_op(sim, agent);
}

/* After the bytes of a block's operation are moved. */
static void plan_cost_finish_moves(weiri_simulation *sim, weiri_agent *agent)
{
    const weiri_plan_op *op = weiri_plan_walk_op(&agent->walk);
    plan_cost_notify_others(sim, agent, op);
    agent->drains =
        op->kind == WEIRI_PLAN_PUT_SIGNAL_FLUSH_OP && !plan_cost_ports_are_idle(sim, agent, op);
    if (agent->drains)
        agent->state = WEIRI_AGENT_WAITS;
    else
        plan_cost_end_op(sim, agent);
}

static void plan_cost_start_agent(weiri_simulation *sim, uint32_t at)
{
    weiri_agent *agent = &sim->agents[at];
    if (at >= sim->nblocks) {
        plan_cost_start_request(sim, agent);
        return;
    }
    const weiri_plan_op *op = weiri_plan_walk_op(&agent->walk);
    if (op->ndsts == 0 || op->channel == WEIRI_PLAN_PORT ||
        !weiri_flow_begin(sim, at, op, agent->walk.turn, agent->walk.turn_bytes, UINT32_MAX))
        plan_cost_finish_moves(sim, agent);
}

void weiri_event_perform(weiri_simulation *sim, const weiri_event *event)
{
    weiri_rank_state *rank = &sim->ranks[event->rank];
    switch (event->kind) {
    case WEIRI_EVENT_START:
        plan_cost_start_agent(sim, event->agent);
        return;
    case WEIRI_EVENT_SIGNAL:
        rank->signals[event->channel][event->link]++;
        break;
    case WEIRI_EVENT_PACKETS:
        weiri_packets_add(sim, rank, (weiri_span){event->first, event->end});
        break;
    case WEIRI_EVENT_BARRIER:
        rank->rounds[event->link]++;
        break;
    }
    plan_cost_wake_rank(sim, event->rank, event->step);
}

void weiri_agent_begin(weiri_simulation *sim, uint32_t at)
{
    plan_cost_reach_op(sim, &sim->agents[at]);
}

void weiri_agent_flow_ended(weiri_simulation *sim, uint32_t at)
{
    if (at < sim->nblocks)
        plan_cost_finish_moves(sim, &sim->agents[at]);
    else
        plan_cost_end_request(sim, &sim->agents[at]);
}
