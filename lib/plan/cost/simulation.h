/*
 * Internals of the simulation of a plan (cost.h). Agents are thread blocks and the proxies of port
 * channels; flows are their transfers in progress; events are points in time at which something
 * arrives or begins. Time advances from one event, or end of a flow, to the next.
 *
 * Calls go one way: cost.c (the main loop) -> cost_agents.c -> cost_flows.c -> cost_events.c.
 */
#ifndef WEIR_PLAN_COST_SIMULATION_H
#define WEIR_PLAN_COST_SIMULATION_H

#include "plan/cost/cost.h"
#include "plan/cost/moves.h"

typedef enum weiri_agent_state {
    WEIRI_AGENT_WAITS,  /* for an event */
    WEIRI_AGENT_STARTS, /* an event is queued that starts its operation or request */
    WEIRI_AGENT_FLOWS,  /* it transfers data */
    WEIRI_AGENT_ENDED,  /* a thread block: at its end; a port: idle */
} weiri_agent_state;

/* A request to the proxy of a port. */
typedef struct weiri_port_request {
    const weiri_plan_op *op;
    uint64_t turn, turn_bytes;
    uint32_t index; /* the destination of the operation; UINT32_MAX: a signal */
    int64_t step;
} weiri_port_request;

typedef struct weiri_flow_use {
    uint32_t load;
    uint64_t bytes;
} weiri_flow_use;

typedef struct weiri_agent {
    weiri_agent_state state;
    int rank;
    uint32_t block;         /* index of the thread block, or of the rank's port channel */
    weiri_plan_walk walk;   /* thread block: its position */
    int64_t step, previous; /* thread block: its current step, and the one before */
    uint32_t progress;      /* ids of a wait that are satisfied; barrier: 1 after it has entered */
    uint32_t round;         /* the round of the barrier that it has entered */
    int drains;             /* 1: only the flush of its operation is outstanding */
    double work_us;         /* sum of its operations without waits and contention */
    weiri_port_request *requests; /* port: [done, nrequests) are outstanding */
    uint32_t nrequests, done;
    weiri_flow_use *uses; /* the resources that its flow uses */
    uint32_t nuses, room;
    double own_us;     /* time of its flow without contention */
    double left, rate; /* fraction of the flow that is left, and its decrease per us */
} weiri_agent;

typedef enum weiri_event_kind {
    WEIRI_EVENT_START,   /* agent */
    WEIRI_EVENT_SIGNAL,  /* rank, channel, link */
    WEIRI_EVENT_PACKETS, /* rank, first, end: range of the line of all chunks of its scratch */
    WEIRI_EVENT_BARRIER, /* rank, barrier (link) */
} weiri_event_kind;

typedef struct weiri_event {
    double us;
    uint64_t order; /* number of the event; breaks ties of us */
    weiri_event_kind kind;
    int rank, channel;
    uint32_t agent, link;
    uint64_t first, end;
    int64_t step; /* the step that caused it */
} weiri_event;

typedef struct weiri_span {
    uint64_t first, end;
} weiri_span;

/* What has arrived at a rank. */
typedef struct weiri_rank_state {
    uint32_t *signals[2]; /* unconsumed signals of each memory channel, and of each port channel */
    uint32_t *semaphores; /* values */
    uint32_t *arrived, *rounds; /* of each barrier: blocks in the current round; rounds completed */
    weiri_span *packets;        /* ranges of scratch whose packets have arrived: sorted, disjoint */
    uint32_t npackets, first_agent, first_port;
} weiri_rank_state;

typedef struct weiri_simulation {
    const weir_plan *plan;
    weiri_plan_cost *cost;
    weiri_rank_state *ranks;
    weiri_agent *agents;
    uint32_t nagents, nblocks; /* thread blocks come first */
    weiri_event *events;       /* binary heap by time */
    uint32_t nevents, room;
    uint64_t order;
    uint32_t *flowing; /* agents with a flow */
    uint32_t nflowing;
    uint32_t *users;   /* flows that use each load */
    double *wanted;    /* their demand on each load without contention, bytes per us */
    int rates_are_old; /* 1: flows have changed since the rates were computed */
    double now_us;
    int64_t waker; /* the step that caused the current event */
    weir_status status;
} weiri_simulation;

void weiri_simulation_no_memory(weiri_simulation *sim);

/* cost_events.c */

/* Queues an event delay_us from now; sets its us and order. */
void weiri_event_push(weiri_simulation *sim, weiri_event event, double delay_us);
/* Removes and returns the earliest event; there must be one. */
weiri_event weiri_event_pop(weiri_simulation *sim);

/* Records arrived packets; asks whether all packets of a range have arrived. */
void weiri_packets_add(weiri_simulation *sim, weiri_rank_state *rank, weiri_span span);
int weiri_packets_have_arrived(const weiri_rank_state *rank, weiri_span span);

/* cost_agents.c */

/* Moves a thread block to its first operation. */
void weiri_agent_begin(weiri_simulation *sim, uint32_t agent);
/* Continues an agent whose flow has ended. */
void weiri_agent_flow_ended(weiri_simulation *sim, uint32_t agent);
/* Performs an event, and continues the agents that waited for it. */
void weiri_event_perform(weiri_simulation *sim, const weiri_event *event);

/* cost_flows.c */

/* Creates the loads of the model. */
weir_status weiri_flows_open(weiri_simulation *sim);
/* 1 if two ranks are on different nodes. */
int weiri_flows_cross_nodes(const weiri_simulation *sim, int from, int to);
/* Begins the transfers of an operation; only those to destination `index` unless it is UINT32_MAX.
 * 0: the operation moves nothing, so that no flow began. */
int weiri_flow_begin(weiri_simulation *sim, uint32_t agent, const weiri_plan_op *op, uint64_t turn,
                     uint64_t turn_bytes, uint32_t index);
/* The time at which the first flow ends if no flow begins before; HUGE_VAL if there is none. */
double weiri_flows_next_us(weiri_simulation *sim);
/* Advances the time, and all flows, to us. */
void weiri_flows_advance(weiri_simulation *sim, double us);
/* Removes a flow that has ended and returns its agent; UINT32_MAX if there is none. */
uint32_t weiri_flows_take_ended(weiri_simulation *sim);

#endif
