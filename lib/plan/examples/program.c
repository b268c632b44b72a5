/* Channels and barriers that the example programs share. */
#include "plan/examples/program.h"

void weiri_example_mesh_create(weir_plan_builder *b, int nranks, weiri_example_mesh *mesh)
{
    for (int rank = 0; rank < nranks; rank++)
        for (int peer = 0; peer < nranks; peer++)
            if (peer != rank)
                mesh->of[rank].to[peer] = weir_plan_memory_channel(b, rank, peer);
}

void weiri_example_ring_create(weir_plan_builder *b, int nranks, weiri_example_ring *ring)
{
    for (int rank = 0; rank < nranks; rank++) {
        int next = (rank + 1) % nranks, prev = (rank + nranks - 1) % nranks;
        ring->next[rank] = weir_plan_memory_channel(b, rank, next);
        ring->prev[rank] =
            next == prev ? ring->next[rank] : weir_plan_memory_channel(b, rank, prev);
    }
}

void weiri_example_barrier(const weiri_example_row *row, int rank, int first, int end, int block)
{
    for (int peer = first; peer < end; peer++)
        if (peer != rank)
            weir_plan_signal(row->to[peer], block, WEIR_PLAN_BEFORE);
    for (int peer = first; peer < end; peer++)
        if (peer != rank)
            weir_plan_wait(row->to[peer], block, WEIR_PLAN_AFTER);
}
