/* What match.c finds out for order.c: the instance of each call. Internal to these files. */
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

/* Finds an order of steps. See replay_match. */
weir_status replay_order(const replay_matching *matching, replay_schedule **schedule);

#endif
