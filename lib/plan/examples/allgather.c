/*
 * Allgather: packets, all pairs, a ring. In place, a rank's input is its block of the output;
 * otherwise it is copied there, if possible by a separate thread block.
 */
#include "plan/examples/program.h"

/* The chunk with the rank's input: in place, a chunk of its output. */
static weir_plan_chunks plan_example_own_block(weir_plan_builder *b, int rank,
                                               const weiri_plan_example_options *with)
{
    return with->in_place ? weir_plan_slice(weir_plan_output(b, rank), rank, 1)
                          : weir_plan_input(b, rank);
}

static void plan_example_allgather_copy(weir_plan_builder *b, int rank,
                                        const weiri_plan_example_options *with, int block)
{
    if (!with->in_place)
        weir_plan_copy(weir_plan_slice(weir_plan_output(b, rank), rank, 1),
                       weir_plan_input(b, rank), block);
}

void weiri_example_allgather_packets(weir_plan_builder *b, const weiri_plan_example_options *with)
{
    int n = with->nranks;
    weiri_example_mesh *mesh = with->mesh;
    weir_plan_chunks scratch[WEIRI_EXAMPLE_RANKS];
    weiri_example_mesh_create(b, n, mesh);
    for (int rank = 0; rank < n; rank++)
        scratch[rank] = weir_plan_scratch(b, rank, n);
    for (int rank = 0; rank < n; rank++) {
        for (int peer = 0; peer < n; peer++)
            if (peer != rank)
                weir_plan_put_packets(mesh->of[rank].to[peer],
                                      weir_plan_slice(scratch[peer], rank, 1),
                                      plan_example_own_block(b, rank, with), 0);
        plan_example_allgather_copy(b, rank, with, 1);
        for (int peer = 0; peer < n; peer++)
            if (peer != rank)
                weir_plan_unpack_packets(weir_plan_slice(weir_plan_output(b, rank), peer, 1),
                                         weir_plan_slice(scratch[rank], peer, 1), 0);
    }
}

/* One thread block for each peer: barrier with the peer, write, barrier. */
void weiri_example_allgather_direct(weir_plan_builder *b, const weiri_plan_example_options *with)
{
    int n = with->nranks;
    weiri_example_mesh *mesh = with->mesh;
    weiri_example_mesh_create(b, n, mesh);
    for (int rank = 0; rank < n; rank++) {
        for (int peer = 0; peer < n; peer++) {
            int block = weiri_example_among_others(rank, peer);
            if (peer == rank)
                continue;
            weiri_example_barrier(&mesh->of[rank], rank, peer, peer + 1, block);
            weir_plan_put(mesh->of[rank].to[peer],
                          weir_plan_slice(weir_plan_output(b, peer), rank, 1),
                          plan_example_own_block(b, rank, with), block);
            weiri_example_barrier(&mesh->of[rank], rank, peer, peer + 1, block);
        }
        plan_example_allgather_copy(b, rank, with, n - 1);
    }
}

/* A rank signals to the previous one that its output may be written. Then each rank passes on the
 * block that it received last, starting with its own. */
void weiri_example_allgather_ring(weir_plan_builder *b, const weiri_plan_example_options *with)
{
    int n = with->nranks;
    weiri_example_ring ring;
    weiri_example_ring_create(b, n, &ring);
    for (int rank = 0; rank < n; rank++) {
        int next = (rank + 1) % n;
        weir_plan_signal(ring.prev[rank], 0, WEIR_PLAN_BEFORE);
        weir_plan_wait(ring.next[rank], 0, WEIR_PLAN_AFTER);
        for (int step = 0; step < n - 1; step++) {
            int chunk = (rank - step + n) % n;
            weir_plan_put(ring.next[rank], weir_plan_slice(weir_plan_output(b, next), chunk, 1),
                          step ? weir_plan_slice(weir_plan_output(b, rank), chunk, 1)
                               : plan_example_own_block(b, rank, with),
                          0);
            weir_plan_signal(ring.next[rank], 0, WEIR_PLAN_BEFORE);
            weir_plan_wait(ring.prev[rank], 0, WEIR_PLAN_AFTER);
        }
        plan_example_allgather_copy(b, rank, with, 0);
    }
}
