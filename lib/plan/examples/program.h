/*
 * Channels and barriers that the example programs share (program.c), and the declarations of the
 * programs for the table in examples.c.
 */
#ifndef WEIR_PLAN_EXAMPLES_PROGRAM_H
#define WEIR_PLAN_EXAMPLES_PROGRAM_H

#include "plan/examples/examples.h"

enum { WEIRI_EXAMPLE_RANKS = 128 };

typedef struct weiri_example_row {
    weir_plan_chan to[WEIRI_EXAMPLE_RANKS]; /* channel to each peer */
} weiri_example_row;

/* Memory channels from every rank to every other rank. */
typedef struct weiri_example_mesh {
    weiri_example_row of[WEIRI_EXAMPLE_RANKS];
} weiri_example_mesh;
void weiri_example_mesh_create(weir_plan_builder *b, int nranks, weiri_example_mesh *mesh);

/* A ring: for each rank its channels to the next and to the previous rank. With two ranks, these
 * are the same channel. */
typedef struct weiri_example_ring {
    weir_plan_chan next[WEIRI_EXAMPLE_RANKS], prev[WEIRI_EXAMPLE_RANKS];
} weiri_example_ring;
void weiri_example_ring_create(weir_plan_builder *b, int nranks, weiri_example_ring *ring);

/* Appends a barrier between a thread block of a rank and those of the peers first to end - 1 (the
 * rank itself is skipped): it signals to each peer after its earlier operations, and waits for each
 * peer's signal before its later ones. */
void weiri_example_barrier(const weiri_example_row *row, int rank, int first, int end, int block);

/* The buffer with the rank's input; in place, that is its output buffer. */
static inline weir_plan_chunks weiri_example_source(weir_plan_builder *b, int rank,
                                                    const weiri_plan_example_options *with)
{
    return with->in_place ? weir_plan_output(b, rank) : weir_plan_input(b, rank);
}

/* The index of a peer among the ranks other than rank, from 0. */
static inline int weiri_example_among_others(int rank, int peer)
{
    return peer < rank ? peer : peer - 1;
}

typedef void weiri_example_program(weir_plan_builder *b, const weiri_plan_example_options *with);
weiri_example_program weiri_example_allreduce_oneshot;
weiri_example_program weiri_example_allreduce_twoshot;
weiri_example_program weiri_example_allreduce_ring;
weiri_example_program weiri_example_allreduce_direct;
weiri_example_program weiri_example_allreduce_hierarchical;
weiri_example_program weiri_example_allreduce_switch;
weiri_example_program weiri_example_allgather_packets;
weiri_example_program weiri_example_allgather_direct;
weiri_example_program weiri_example_allgather_ring;
weiri_example_program weiri_example_reduce_scatter_direct;
weiri_example_program weiri_example_reduce_scatter_ring;
weiri_example_program weiri_example_alltoall_packets;
weiri_example_program weiri_example_alltoall_direct;
weiri_example_program weiri_example_broadcast_direct;
weiri_example_program weiri_example_broadcast_chain;
weiri_example_program weiri_example_reduce_direct;
weiri_example_program weiri_example_reduce_chain;

#endif
