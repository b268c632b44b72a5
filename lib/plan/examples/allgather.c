/*
 * Allgather: packets, all pairs, a ring. In place, a rank's input is its share of the output;
 * else it is copied there, where that can be by a thread block of its own.
 */
#include "plan/examples/program.h"

/* The rank's share, where it finds it, and where it is in a rank's output. */
static weir_plan_chunks own_share(weir_plan_builder *b, int rank,
                                  const weiri_plan_example_options *with)
{
    return with->in_place ? weir_plan_slice(weir_plan_output(b, rank), rank, 1)
                          : weir_plan_input(b, rank);
}

static void copy_own(weir_plan_builder *b, int rank, const weiri_plan_example_options *with,
                     int block)
{
    if (!with->in_place)
        weir_plan_copy(weir_plan_slice(weir_plan_output(b, rank), rank, 1),
                       weir_plan_input(b, rank), block);
}

void weiri_example_allgather_packets(weir_plan_builder *b,
                                     const weiri_plan_example_options *with)
{
    int n = with->nranks;
    weiri_example_mesh mesh;
    weir_plan_chunks scratch[WEIRI_EXAMPLE_RANKS];
    weiri_example_mesh_create(b, n, &mesh);
    for (int rank = 0; rank < n; rank++)
        scratch[rank] = weir_plan_scratch(b, rank, n);
    for (int rank = 0; rank < n; rank++) {
        for (int peer = 0; peer < n; peer++)
            if (peer != rank)
                weir_plan_put_packets(mesh.of[rank].to[peer],
                                      weir_plan_slice(scratch[peer], rank, 1),
                                      own_share(b, rank, with), 0);
        copy_own(b, rank, with, 1);
        for (int peer = 0; peer < n; peer++)
            if (peer != rank)
                weir_plan_unpack_packets(weir_plan_slice(weir_plan_output(b, rank), peer, 1),
                                         weir_plan_slice(scratch[rank], peer, 1), 0);
    }
}

/* A thread block for each peer: they meet, it writes, and says so. */
void weiri_example_allgather_direct(weir_plan_builder *b, const weiri_plan_example_options *with)
{
    int n = with->nranks;
    weiri_example_mesh mesh;
    weiri_example_mesh_create(b, n, &mesh);
    for (int rank = 0; rank < n; rank++) {
        for (int peer = 0; peer < n; peer++) {
            int block = weiri_example_among_others(rank, peer);
            if (peer == rank)
                continue;
            weiri_example_barrier(&mesh.of[rank], rank, peer, peer + 1, block);
            weir_plan_put(mesh.of[rank].to[peer],
                          weir_plan_slice(weir_plan_output(b, peer), rank, 1),
                          own_share(b, rank, with), block);
            weiri_example_barrier(&mesh.of[rank], rank, peer, peer + 1, block);
        }
        copy_own(b, rank, with, n - 1);
    }
}

/* A rank tells the one before that its output may be written; then each sends on what came
 * last, its own share first. */
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
            int share = (rank - step + n) % n;
            weir_plan_put(ring.next[rank], weir_plan_slice(weir_plan_output(b, next), share, 1),
                          step ? weir_plan_slice(weir_plan_output(b, rank), share, 1)
                               : own_share(b, rank, with),
                          0);
            weir_plan_signal(ring.next[rank], 0, WEIR_PLAN_BEFORE);
            weir_plan_wait(ring.prev[rank], 0, WEIR_PLAN_AFTER);
        }
        copy_own(b, rank, with, 0);
    }
}
