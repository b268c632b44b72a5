/*
 * Broadcast from rank 0 and reduce to rank 0: directly, and as a pipeline through a chain of all
 * ranks, which handles unit_bytes of the data at a time. Only the root has the input of a broadcast
 * and the output of a reduce.
 */
#include "plan/examples/program.h"

static void plan_example_rooted_copy(weir_plan_builder *b, const weiri_plan_example_options *with,
                                     int block)
{
    if (!with->in_place)
        weir_plan_copy(weir_plan_output(b, 0), weir_plan_input(b, 0), block);
}

/* The root has a thread block for each peer. A peer signals when its output may be written. */
void weiri_example_broadcast_direct(weir_plan_builder *b, const weiri_plan_example_options *with)
{
    int n = with->nranks;
    for (int peer = 1; peer < n; peer++) {
        weir_plan_chan out = weir_plan_memory_channel(b, 0, peer);
        weir_plan_chan back = weir_plan_memory_channel(b, peer, 0);
        weir_plan_signal(back, 0, WEIR_PLAN_BEFORE);
        weir_plan_wait(out, peer - 1, WEIR_PLAN_AFTER);
        weir_plan_put(out, weir_plan_output(b, peer), weiri_example_source(b, 0, with), peer - 1);
        weir_plan_signal(out, peer - 1, WEIR_PLAN_BEFORE);
        weir_plan_wait(back, 0, WEIR_PLAN_AFTER);
    }
    plan_example_rooted_copy(b, with, 0);
}

void weiri_example_broadcast_chain(weir_plan_builder *b, const weiri_plan_example_options *with)
{
    int n = with->nranks;
    weir_plan_chan next[WEIRI_EXAMPLE_RANKS], prev[WEIRI_EXAMPLE_RANKS];
    for (int rank = 0; rank < n - 1; rank++) {
        next[rank] = weir_plan_memory_channel(b, rank, rank + 1);
        prev[rank + 1] = weir_plan_memory_channel(b, rank + 1, rank);
    }
    for (int rank = 0; rank < n; rank++) {
        weir_plan_chunks data = rank ? weir_plan_output(b, rank) : weiri_example_source(b, 0, with);
        if (rank > 0)
            weir_plan_signal(prev[rank], 0, WEIR_PLAN_BEFORE);
        if (rank < n - 1)
            weir_plan_wait(next[rank], 0, WEIR_PLAN_AFTER);
        weir_plan_pipeline_begin(b, with->unit_bytes, 1);
        if (rank > 0)
            weir_plan_wait(prev[rank], 0, WEIR_PLAN_AFTER);
        if (rank < n - 1) {
            weir_plan_put(next[rank], weir_plan_output(b, rank + 1), data, 0);
            weir_plan_signal(next[rank], 0, WEIR_PLAN_BEFORE);
        }
        weir_plan_pipeline_end(b);
    }
    plan_example_rooted_copy(b, with, 1);
}

/* A peer signals that its input is complete; the root reads it, and signals when it has finished.
 */
void weiri_example_reduce_direct(weir_plan_builder *b, const weiri_plan_example_options *with)
{
    int n = with->nranks;
    weir_plan_chan from[WEIRI_EXAMPLE_RANKS];
    weir_plan_chunks result = weir_plan_output(b, 0);
    for (int peer = 1; peer < n; peer++) {
        weir_plan_chan back = weir_plan_memory_channel(b, peer, 0);
        from[peer] = weir_plan_memory_channel(b, 0, peer);
        weir_plan_signal(back, 0, WEIR_PLAN_BEFORE);
        weir_plan_wait(back, 0, WEIR_PLAN_AFTER);
        weir_plan_wait(from[peer], 0, WEIR_PLAN_AFTER);
    }
    for (int peer = 1; peer < n; peer++) {
        weir_plan_chunks theirs = weir_plan_input(b, peer);
        weir_plan_read_reduce(from[peer], result,
                              peer > 1 ? result : weiri_example_source(b, 0, with), &theirs, 1, 0);
    }
    for (int peer = 1; peer < n; peer++)
        weir_plan_signal(from[peer], 0, WEIR_PLAN_BEFORE);
}

/* From the last rank on, each rank adds its data to what it receives, and sends the sum to the
 * previous rank, which has signalled that its scratch may be written. */
void weiri_example_reduce_chain(weir_plan_builder *b, const weiri_plan_example_options *with)
{
    int n = with->nranks;
    weir_plan_chan up[WEIRI_EXAMPLE_RANKS], down[WEIRI_EXAMPLE_RANKS];
    weir_plan_chunks scratch[WEIRI_EXAMPLE_RANKS];
    for (int rank = 0; rank < n - 1; rank++) {
        up[rank] = weir_plan_memory_channel(b, rank, rank + 1);
        down[rank + 1] = weir_plan_memory_channel(b, rank + 1, rank);
        scratch[rank] = weir_plan_scratch(b, rank, 1);
    }
    for (int rank = 0; rank < n; rank++) {
        weir_plan_chunks own = rank ? weir_plan_input(b, rank) : weiri_example_source(b, 0, with);
        if (rank < n - 1)
            weir_plan_signal(up[rank], 0, WEIR_PLAN_BEFORE);
        if (rank > 0)
            weir_plan_wait(down[rank], 0, WEIR_PLAN_AFTER);
        weir_plan_pipeline_begin(b, with->unit_bytes, 1);
        weir_plan_chunks sum = own;
        if (rank < n - 1) {
            sum = rank ? scratch[rank] : weir_plan_output(b, 0);
            weir_plan_wait(up[rank], 0, WEIR_PLAN_AFTER);
            weir_plan_reduce(sum, own, &scratch[rank], 1, 0);
        }
        if (rank > 0) {
            weir_plan_put(down[rank], scratch[rank - 1], sum, 0);
            weir_plan_signal(down[rank], 0, WEIR_PLAN_BEFORE);
        }
        weir_plan_pipeline_end(b);
    }
}
