/* Alltoall: packets, all pairs. In place, a rank receives to scratch, because the destination of
 * received data still holds data to be sent. */
#include "plan/examples/program.h"

/* Copies the rank's own block, in a separate thread block. */
static void plan_example_alltoall_copy(weir_plan_builder *b, int rank,
                                       const weiri_plan_example_options *with, int block)
{
    if (!with->in_place)
        weir_plan_copy(weir_plan_slice(weir_plan_output(b, rank), rank, 1),
                       weir_plan_slice(weir_plan_input(b, rank), rank, 1), block);
}

void weiri_example_alltoall_packets(weir_plan_builder *b, const weiri_plan_example_options *with)
{
    int n = with->nranks;
    weiri_example_mesh *mesh = with->mesh;
    weir_plan_chunks scratch[WEIRI_EXAMPLE_RANKS];
    weiri_example_mesh_create(b, n, mesh);
    for (int rank = 0; rank < n; rank++)
        scratch[rank] = weir_plan_scratch(b, rank, n);
    for (int rank = 0; rank < n; rank++) {
        weir_plan_chunks in = weiri_example_source(b, rank, with);
        for (int peer = 0; peer < n; peer++)
            if (peer != rank)
                weir_plan_put_packets(mesh->of[rank].to[peer],
                                      weir_plan_slice(scratch[peer], rank, 1),
                                      weir_plan_slice(in, peer, 1), 0);
        plan_example_alltoall_copy(b, rank, with, 1);
        for (int peer = 0; peer < n; peer++)
            if (peer != rank)
                weir_plan_unpack_packets(weir_plan_slice(weir_plan_output(b, rank), peer, 1),
                                         weir_plan_slice(scratch[rank], peer, 1), 0);
    }
}

/* One thread block for each peer: barrier with the peer, write, barrier. */
void weiri_example_alltoall_direct(weir_plan_builder *b, const weiri_plan_example_options *with)
{
    int n = with->nranks;
    weiri_example_mesh *mesh = with->mesh;
    weir_plan_chunks there[WEIRI_EXAMPLE_RANKS];
    weiri_example_mesh_create(b, n, mesh);
    for (int rank = 0; rank < n; rank++)
        there[rank] = with->in_place ? weir_plan_scratch(b, rank, n) : weir_plan_output(b, rank);
    for (int rank = 0; rank < n; rank++) {
        weir_plan_chunks in = weiri_example_source(b, rank, with);
        for (int peer = 0; peer < n; peer++) {
            int block = weiri_example_among_others(rank, peer);
            if (peer == rank)
                continue;
            weiri_example_barrier(&mesh->of[rank], rank, peer, peer + 1, block);
            weir_plan_put(mesh->of[rank].to[peer], weir_plan_slice(there[peer], rank, 1),
                          weir_plan_slice(in, peer, 1), block);
            weiri_example_barrier(&mesh->of[rank], rank, peer, peer + 1, block);
            if (with->in_place)
                weir_plan_copy(weir_plan_slice(in, peer, 1), weir_plan_slice(there[rank], peer, 1),
                               block);
        }
        plan_example_alltoall_copy(b, rank, with, n - 1);
    }
}
