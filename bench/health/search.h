/*
 * The search for one slow node or link among n nodes by groups that exchange messages side by side:
 * a group is slow if it contains the slow node, or both ends of the slow link. Halves are tested
 * until the fault is in one of them or, if neither is slow, between them; then quarters of both
 * halves. Takes at most 2 log2(n) + 1 rounds. Finds one fault; several are a matter for all pairs.
 *
 *   search_begin(&search, n);
 *   while ((ngroups = search_next(&search, groups)) > 0)
 *       search_tell(&search, slow); // slow[g]: whether group g was slow
 *
 * Pure. Groups borrow memory of the search.
 */
#ifndef BENCH_HEALTH_SEARCH_H
#define BENCH_HEALTH_SEARCH_H

#include "bench/health/fleet.h"

typedef enum search_state {
    SEARCH_SPLIT,  /* the fault, if there is one, is within the nodes a; tests two halves */
    SEARCH_ENDS,   /* a is a slow pair; tests each of its nodes with a good one */
    SEARCH_CROSS,  /* the fault is a link from a to b; tests halves of a with halves of b */
    SEARCH_CROSS2, /* the same with the halves exchanged */
    SEARCH_DONE
} search_state;

typedef struct fleet_search {
    int n, rounds;
    search_state state;
    int *a, na, *b, nb; /* the nodes that are suspected */
    int is_slow;        /* a slow group has been seen */
    int *space, step;   /* memory of the groups; the first or second test of a state */
    int nodes[2];       /* the result: a node and -1, a link, or -1 and -1: nothing is slow */
} fleet_search;

/* Returns 0, or -1 without memory. n is at least 2. */
int search_begin(fleet_search *search, int n);
void search_end(fleet_search *search);
/* Stores the groups of the next round and returns their number, 1 or 2; 0: the search is over. */
int search_next(fleet_search *search, fleet_group groups[2]);
void search_tell(fleet_search *search, const int slow[2]);

#endif
