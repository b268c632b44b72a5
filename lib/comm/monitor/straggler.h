/*
 * The rank that others waited for most, from the timed calls of all ranks: the rank that entered a
 * call last kept the others waiting from their entry to its own, as long as they were in the call.
 *
 * Ranks of different nodes have different clocks, which are aligned first: ranks leave most calls
 * at nearly the same time, so the median difference between their leaving times is taken for the
 * difference of their clocks. On GPUs only durations are known: the rank that was in the call for
 * the shortest time waited least, and the others waited for it as much longer as they were in it.
 */
#ifndef WEIR_COMM_MONITOR_STRAGGLER_H
#define WEIR_COMM_MONITOR_STRAGGLER_H

#include "comm/comm.h"

/* The timed calls of a rank, in any order. */
typedef struct weiri_timed_calls {
    const weiri_monitored_call *calls;
    int count;
} weiri_timed_calls;

typedef struct weiri_straggler {
    int rank;           /* -1: no call was timed on all ranks, or nobody waited */
    int ncalls;         /* timed calls that were compared */
    int nlast;          /* compared calls in which others waited for this rank */
    uint64_t waited_ns; /* by each other rank on average, in total */
    uint64_t most_ns;   /* the longest wait of one rank in one call */
} weiri_straggler;

/* Copies the valid timed calls of a rank, at most WEIRI_MONITOR_CALLS, and returns their number.
 * Thread-safe. */
int weiri_timed_calls_copy(const weiri_monitored *from, weiri_monitored_call *to);

/* Compares the latest calls, ncalls at most, that all ranks have timed. has_one_clock: the clocks
 * of the ranks need no alignment. */
weiri_straggler weiri_straggler_find(const weiri_timed_calls *ranks, int nranks, int ncalls,
                                     int has_one_clock);
/* As weiri_straggler_find, for the ranks of a communicator that are on this node. */
weiri_straggler weiri_straggler_of(const weir_comm *comm, int ncalls);

#endif
