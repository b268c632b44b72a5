/*
 * Algorithms inside: the object, its contexts on each communicator, and what the kinds of
 * algorithms share. A kind is a table of weir_algo_ops and a state: custom ones bring
 * theirs, builtin.c and file.c are ours.
 */
#ifndef WEIR_ALGO_ALGO_H
#define WEIR_ALGO_ALGO_H

#include "comm/comm.h"
#include <weir/algo.h>

enum { WEIRI_CONTEXTS_MAX = 16, WEIRI_SUMMARY_BYTES = 256 };

/* A context on this rank. Slots are filled and emptied by all ranks alike; keys, and whether
 * a graph holds one, are each rank's own. */
typedef struct weiri_context {
    int used;
    int held; /* by a graph that was captured: never given up */
    uint64_t last_use;
    weir_algo_key key;
    void *context;
} weiri_context;

/* An algorithm on one communicator. */
typedef struct weiri_algo_place {
    struct weiri_algo_place *next;
    weir_comm *comm;
    uint64_t uses;
    weiri_context contexts[WEIRI_CONTEXTS_MAX];
} weiri_algo_place;

struct weir_algo {
    char name[WEIR_ALGO_NAME_BYTES], summary[WEIRI_SUMMARY_BYTES];
    weir_collective collective;
    const weir_algo_ops *ops;
    void *state;
    int is_builtin; /* notes its call by itself */
    weir_mem *scratch;
    weiri_algo_place *places;
};

/* The context of a call, which is rejected with `mine` on this rank unless that is WEIR_OK.
 * Collective. */
weir_status weiri_context_take(weir_algo *algo, weiri_algo_place *place,
                               const weir_call *call, weir_status mine, void **context);
/* Destroys all of them. Collective. */
void weiri_contexts_drop(weir_algo *algo, weiri_algo_place *place);

/* Sets the lengths of a call's buffers from its counts. Pure. */
void weiri_call_set_lengths(const weir_comm *comm, weir_call *call);
/* Sets the counts from the lengths. Local. WEIR_ERR_INVALID: lengths that do not belong together,
 * splits that are missing or extend past a buffer. */
weir_status weiri_call_set_counts(const weir_comm *comm, weir_call *call);

/* The algorithm of a row of weir_algo_list by its number; -1: that which the tuning table
 * chooses. Local. */
weir_status weiri_algo_builtin(weir_collective collective, int row, weir_algo **algo);

#endif
