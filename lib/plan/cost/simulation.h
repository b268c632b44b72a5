/*
 * The inside of the simulation of a plan (cost.h): agents, which are thread blocks and the
 * proxies of port channels; events, at which something that was under way arrives; flows,
 * which are agents' transfers under way. Time only moves between events.
 */
#ifndef WEIR_PLAN_COST_SIMULATION_H
#define WEIR_PLAN_COST_SIMULATION_H

#include "plan/cost/cost.h"
#include "plan/cost/moves.h"

typedef enum weiri_agent_state {
    WEIRI_AGENT_WAITS,  /* for what an event brings */
    WEIRI_AGENT_STARTS, /* an event will start what it does */
    WEIRI_AGENT_FLOWS,
    WEIRI_AGENT_ENDED,  /* a thread block: at its end; a port: nothing to do */
} weiri_agent_state;

/* What a port's proxy was asked for. */
typedef struct weiri_port_request {
    const weiri_plan_op *op;
    uint64_t turn, turn_bytes;
    uint32_t index;  /* which destination; UINT32_MAX: a signal */
    int64_t step;
} weiri_port_request;

typedef struct weiri_flow_use {
    uint32_t load;
    uint64_t bytes;
} weiri_flow_use;

typedef struct weiri_agent {
    weiri_agent_state state;
    int rank;
    uint32_t block;          /* of the rank's; of a port: which of its port channels */
    weiri_plan_walk walk;    /* thread block */
    int64_t step, previous;
    uint32_t progress;       /* of what it waits for, or 1: it has come to its barrier */
    uint32_t round;          /* of the barrier */
    int drains;              /* it is done but for its flush */
    double work_us;
    weiri_port_request *requests; /* port: those from done on are to do */
    uint32_t nrequests, done;
    weiri_flow_use *uses;    /* of its flow */
    uint32_t nuses, room;
    double own_us, left, rate; /* alone; of 1; per us */
} weiri_agent;

typedef enum weiri_event_kind {
    WEIRI_EVENT_START,   /* agent */
    WEIRI_EVENT_SIGNAL,  /* rank, channel, link */
    WEIRI_EVENT_PACKETS, /* rank, first, end: of the line of its scratch's chunks */
    WEIRI_EVENT_MEET,    /* rank, barrier (link) */
} weiri_event_kind;

typedef struct weiri_event {
    double us;
    uint64_t order; /* of those at one time: first come, first served */
    weiri_event_kind kind;
    int rank, channel;
    uint32_t agent, link;
    uint64_t first, end;
    int64_t step; /* what brought it about */
} weiri_event;

typedef struct weiri_span {
    uint64_t first, end;
} weiri_span;

/* What a rank has got. */
typedef struct weiri_rank_state {
    uint32_t *signals[2];  /* of each channel of a type, not consumed yet */
    uint32_t *semaphores;
    uint32_t *met, *rounds; /* of each barrier: who has come, how often all had */
    weiri_span *packets;   /* of scratch: sorted, apart */
    uint32_t npackets;
    uint32_t first_agent, first_port;
} weiri_rank_state;

typedef struct weiri_simulation {
    const weir_plan *plan;
    weiri_plan_cost *cost;
    weiri_rank_state *ranks;
    weiri_agent *agents;
    uint32_t nagents, nblocks; /* thread blocks come first */
    weiri_event *events;       /* a heap */
    uint32_t nevents, room;
    uint64_t order;
    uint32_t *flowing;         /* agents */
    uint32_t nflowing;
    uint32_t *users;           /* of each load: flows, */
    double *wanted;            /* and what they would take of it alone, in bytes a us */
    int rates_are_old;
    double now_us;
    int64_t waker;             /* the step that the current event is of */
    weir_status status;
} weiri_simulation;

void weiri_simulation_no_memory(weiri_simulation *sim);

/* cost_events.c */

/* It happens so much later; its us and order are set here. */
void weiri_event_push(weiri_simulation *sim, weiri_event event, double delay_us);
/* The first one, taken out; there is one. */
weiri_event weiri_event_pop(weiri_simulation *sim);

void weiri_packets_add(weiri_simulation *sim, weiri_rank_state *rank, weiri_span span);
int weiri_packets_are_there(const weiri_rank_state *rank, weiri_span span);

/* cost_agents.c */

/* A thread block comes to its first operation. */
void weiri_agent_begin(weiri_simulation *sim, uint32_t agent);
/* An agent's flow has ended. */
void weiri_agent_flowed(weiri_simulation *sim, uint32_t agent);
void weiri_event_happen(weiri_simulation *sim, const weiri_event *event);

/* cost_flows.c */

/* The loads of the model, none with bytes. */
weir_status weiri_flows_open(weiri_simulation *sim);
int weiri_flows_cross(const weiri_simulation *sim, int from, int to); /* machines */
/* Begins what the operation moves, for its destination index alone where that is not
 * UINT32_MAX. 0: it moves nothing and takes no time, so nothing began. */
int weiri_flow_begin(weiri_simulation *sim, uint32_t agent, const weiri_plan_op *op, uint64_t turn,
                     uint64_t turn_bytes, uint32_t index);
/* When the first flow ends if nothing changes; HUGE_VAL without any. */
double weiri_flows_next_us(weiri_simulation *sim);
/* Moves all flows on to that time; now_us is then us. */
void weiri_flows_advance(weiri_simulation *sim, double us);
/* An agent whose flow has ended, taken out; UINT32_MAX: there is none. */
uint32_t weiri_flows_take_ended(weiri_simulation *sim);

#endif
