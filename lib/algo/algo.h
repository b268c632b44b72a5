/*
 * The algorithm object, its contexts on each communicator, and what the kinds of algorithms share.
 * A kind is a weir_algo_ops table and a state: builtin.c (rows of the algorithm table), file.c
 * (kernels in files), lib/plan (plans), and custom algorithms of programs.
 */
#ifndef WEIR_ALGO_ALGO_H
#define WEIR_ALGO_ALGO_H

#include "coll/coll.h"
#include <weir/algo.h>

enum { WEIRI_CONTEXTS_MAX = 16, WEIRI_SUMMARY_BYTES = 256 };

/* A context on this rank. The same slots are in use on all ranks; keys, and whether a captured
 * graph holds the context, may differ between ranks. */
typedef struct weiri_context {
    int used;
    int held;          /* a captured graph uses it, so it is never evicted */
    uint64_t last_use; /* weiri_algo_instance.uses at its latest use */
    weir_algo_key key;
    void *context;
} weiri_context;

/* An algorithm on one communicator. */
typedef struct weiri_algo_instance {
    struct weiri_algo_instance *next;
    weir_comm *comm;
    uint64_t uses; /* contexts taken so far */
    weiri_context contexts[WEIRI_CONTEXTS_MAX];
} weiri_algo_instance;

struct weir_algo {
    weiri_algo_object object; /* weir_run calls it */
    char name[WEIR_ALGO_NAME_BYTES], summary[WEIRI_SUMMARY_BYTES];
    weir_collective collective;
    const weir_algo_ops *ops;
    void *state;
    int is_builtin;    /* lib/coll checks its buffers and records its name */
    weir_mem *scratch; /* of its collection; NULL without one */
    weiri_algo_instance *instances;
};

/* Returns the context of a call, and creates it if needed. Collective. mine is this rank's check of
 * the call: if it is an error on any rank, the call fails on all. WEIR_ERR_MISMATCH on ranks whose
 * check was WEIR_OK. */
weir_status weiri_context_take(weir_algo *algo, weiri_algo_instance *instance,
                               const weir_call *call, weir_status mine, void **context);
/* Destroys all contexts on a communicator. Collective. */
void weiri_contexts_destroy(weir_algo *algo, weiri_algo_instance *instance);

/* Sets in_bytes and out_bytes from the counts. Local. */
void weiri_call_set_lengths(const weir_comm *comm, weir_call *call);
/* Sets the counts from in_bytes and out_bytes. Local. WEIR_ERR_INVALID if the lengths contradict
 * each other, or if splits are missing or extend past a buffer. */
weir_status weiri_call_set_counts(const weir_comm *comm, weir_call *call);

/* Creates the algorithm object of a row of weir_algo_list, or, if row is -1, "auto", which selects
 * by the tuning table. Local. */
weir_status weiri_algo_builtin(weir_collective collective, int row, weir_algo **algo);

#endif
