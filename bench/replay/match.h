/*
 * Which calls of a recorded job belong together, and an order in which blocking calls can run: the
 * job is run once with calls that take no time. Ranks that do not agree are found here, before
 * anything runs.
 *
 * Communicators whose calls were in flight together are in different lanes, which run on streams
 * or threads of their own; the order is one within each lane.
 *
 * Sends and receives that were issued together become an exchange among the ranks that they
 * connect. Where exchanges would wait for each other in a circle, although single messages do not,
 * each message becomes an exchange of two ranks.
 */
#ifndef BENCH_REPLAY_MATCH_H
#define BENCH_REPLAY_MATCH_H

#include "bench/replay/trace.h"

enum {
    REPLAY_EXCHANGE = REPLAY_KINDS, /* a step of sends and receives */
    REPLAY_LANES_MAX = 8
};

/* What one rank does at once. */
typedef struct replay_step {
    uint32_t call, ncalls; /* of the rank: an exchange has several that follow each other */
    uint32_t set;          /* index in replay_schedule.sets */
    uint32_t instance;     /* the same number on all ranks that take part */
    uint8_t kind;          /* replay_kind, or REPLAY_EXCHANGE */
    uint8_t is_grouped;    /* in an ncclGroup with the next step of the lane */
} replay_step;

typedef struct replay_steps {
    replay_step *list;
    size_t count, room;
} replay_steps;

typedef struct replay_schedule {
    replay_pool pool;    /* of the sets of exchanges */
    replay_steps *lanes; /* at rank * nlanes + lane, in an order that blocking calls can run in */
    int nranks, nlanes;
    replay_comm **sets; /* the trace's communicators, then those of exchanges */
    int nsets, ncomms;  /* ncomms: sets that are the trace's */
    size_t sets_room;
    uint32_t instances;    /* of all sets */
    int runs_message_wise; /* exchanges had to be divided into messages */
} replay_schedule;

/* Matches the calls, fills in the trace's unknown splits, and gives communicators their lanes. Of a
 * job that was killed, calls at the end that not all ranks have reached are removed, with a note.
 * Local. WEIR_ERR_MISMATCH: two calls do not match; the error line has file and line of both.
 * WEIR_ERR_INVALID: calls wait for each other in a circle. Release with replay_schedule_free. */
weir_status replay_match(replay_trace *trace, replay_schedule **schedule);
void replay_schedule_free(replay_schedule *schedule);

/* -------------------------------------------- between match.c, lanes.c and order.c */

typedef struct replay_matching {
    replay_trace *trace;
    uint32_t **numbers;  /* of each rank's calls: the instance */
    uint32_t **partners; /* of each rank's messages: the call at the other end */
    uint32_t instances;  /* collectives and messages */
    int nlanes;
} replay_matching;

/* Gives communicators their lanes. Returns how many there are. */
int replay_lanes(replay_trace *trace);
/* Finds an order of steps. See replay_match. */
weir_status replay_order(const replay_matching *matching, replay_schedule **schedule);

#endif
