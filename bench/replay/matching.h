/* What match.c, collect.c, trim.c and order.c share. Internal to these files. */
#ifndef BENCH_REPLAY_MATCHING_H
#define BENCH_REPLAY_MATCHING_H

#include "bench/replay/match.h"

typedef struct replay_matching {
    replay_trace *trace;
    uint32_t **numbers;     /* of each rank's calls: the instance; of messages, the message */
    uint32_t **partners;    /* of each rank's messages: the call at the other end */
    uint32_t instances;     /* collectives and messages */
    uint32_t first_message; /* instances below are collectives */
} replay_matching;

/* The collectives of each rank of a communicator, in order. */
typedef struct replay_comm_calls {
    uint32_t **calls;
    size_t *counts;
} replay_comm_calls;

/* An end of a message. Ends of one pair of ranks and one communicator match in order. */
typedef struct replay_end {
    uint64_t pair; /* sender's and receiver's rank of the job */
    uint32_t comm, rank, call;
    uint32_t nth; /* of the pair: the order of issue */
} replay_end;

/* Lists the collectives by communicator and rank; NULL: no memory. */
replay_comm_calls *replay_collect(const replay_trace *trace);
void replay_comm_calls_free(const replay_trace *trace, replay_comm_calls *lists);
/* Lists the sends, or the receives, ordered by communicator and pair, then by issue; NULL: no
 * memory. The caller frees it. */
replay_end *replay_list_ends(const replay_trace *trace, int kind, size_t *count);
/* As of a job that was killed: removes the calls at the end of ranks that other ranks have not
 * reached, and notes how many. */
weir_status replay_trim(replay_trace *trace);
/* Finds an order of steps. See replay_match. */
weir_status replay_order(const replay_matching *matching, replay_schedule **schedule);

#endif
