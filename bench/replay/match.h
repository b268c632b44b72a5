/*
 * Which calls of a recorded job belong together, and an order in which blocking calls can run: the
 * job is run once with calls that take no time. Ranks that do not agree are found here, before
 * anything runs.
 *
 * Sends and receives that were issued together become an exchange among the ranks that they
 * connect. Where exchanges would wait for each other in a circle, although single messages do not,
 * each message becomes an exchange of two ranks.
 */
#ifndef BENCH_REPLAY_MATCH_H
#define BENCH_REPLAY_MATCH_H

#include "bench/replay/trace.h"

enum { REPLAY_EXCHANGE = REPLAY_KINDS }; /* a step of sends and receives */

/* What one rank does at once. */
typedef struct replay_step {
    uint32_t call, ncalls; /* of the rank: an exchange has several that follow each other */
    uint32_t set;          /* index in replay_schedule.sets */
    uint32_t instance;     /* the same number on all ranks that take part */
    uint8_t kind;          /* replay_kind, or REPLAY_EXCHANGE */
    uint8_t is_grouped;    /* in an ncclGroup with the next step of the rank */
} replay_step;

typedef struct replay_steps {
    replay_step *list;
    size_t count, room;
} replay_steps;

typedef struct replay_schedule {
    replay_steps *ranks; /* of each rank, in an order that blocking calls can run in */
    int nranks;
    replay_comm **sets; /* the trace's communicators, then those of exchanges */
    int nsets, sets_room;
    int ncomms;            /* sets that are the trace's */
    uint32_t instances;    /* of all sets */
    int runs_message_wise; /* exchanges had to be divided into messages */
} replay_schedule;

/* Matches the calls, and fills in the trace's unknown splits. Local. WEIR_ERR_MISMATCH: two calls
 * do not match; the error line has file and line of both. WEIR_ERR_INVALID: calls wait for each
 * other in a circle. Release with replay_schedule_free. */
weir_status replay_match(replay_trace *trace, replay_schedule **schedule);
void replay_schedule_free(replay_schedule *schedule);

#endif
