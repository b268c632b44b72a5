/*
 * Allreduce with packets: ranks wait only for packets. A program uses one thread block; instances
 * divide the data among more.
 *
 * Launches use two halves of scratch alternately, and need no other order between them: a rank that
 * ends a launch has received packets from every peer, so each peer has begun that launch and has
 * finished the previous one, which used the half that comes next.
 */
#include "plan/examples/program.h"

/* Every rank sends all of its data to all others, and reduces what it receives. */
void weiri_example_allreduce_oneshot(weir_plan_builder *b, const weiri_plan_example_options *with)
{
    int n = with->nranks;
    weiri_example_mesh *mesh = with->mesh;
    weir_plan_chunks scratch[WEIRI_EXAMPLE_RANKS];
    weiri_example_mesh_create(b, n, mesh);
    for (int rank = 0; rank < n; rank++)
        scratch[rank] = weir_plan_scratch(b, rank, (n - 1) * n);
    for (int rank = 0; rank < n; rank++) {
        weir_plan_chunks in = weiri_example_source(b, rank, with);
        weir_plan_chunks from[WEIRI_EXAMPLE_RANKS];
        for (int peer = 0; peer < n; peer++)
            if (peer != rank)
                weir_plan_put_packets(
                    mesh->of[rank].to[peer],
                    weir_plan_slice(scratch[peer], weiri_example_among_others(peer, rank) * n, n),
                    in, 0);
        for (int i = 0; i < n - 1; i++)
            from[i] = weir_plan_slice(scratch[rank], i * n, n);
        weir_plan_reduce_packets(weir_plan_output(b, rank), in, from, n - 1, 0);
    }
}

/* Every rank sends each peer that peer's share, reduces its own share, and sends the result to
 * all. */
void weiri_example_allreduce_twoshot(weir_plan_builder *b, const weiri_plan_example_options *with)
{
    int n = with->nranks;
    weiri_example_mesh *mesh = with->mesh;
    weir_plan_chunks shares[WEIRI_EXAMPLE_RANKS], results[WEIRI_EXAMPLE_RANKS];
    weiri_example_mesh_create(b, n, mesh);
    for (int rank = 0; rank < n; rank++) {
        shares[rank] = weir_plan_scratch(b, rank, n);
        results[rank] = weir_plan_scratch(b, rank, n);
    }
    for (int rank = 0; rank < n; rank++) {
        weir_plan_chunks in = weiri_example_source(b, rank, with);
        weir_plan_chunks out = weir_plan_output(b, rank);
        weir_plan_chunks own = weir_plan_slice(out, rank, 1), from[WEIRI_EXAMPLE_RANKS];
        int count = 0;
        for (int peer = 0; peer < n; peer++)
            if (peer != rank) {
                weir_plan_put_packets(mesh->of[rank].to[peer],
                                      weir_plan_slice(shares[peer], rank, 1),
                                      weir_plan_slice(in, peer, 1), 0);
                from[count++] = weir_plan_slice(shares[rank], peer, 1);
            }
        weir_plan_reduce_packets(own, weir_plan_slice(in, rank, 1), from, count, 0);
        for (int peer = 0; peer < n; peer++)
            if (peer != rank)
                weir_plan_put_packets(mesh->of[rank].to[peer],
                                      weir_plan_slice(results[peer], rank, 1), own, 0);
        for (int peer = 0; peer < n; peer++)
            if (peer != rank)
                weir_plan_unpack_packets(weir_plan_slice(out, peer, 1),
                                         weir_plan_slice(results[rank], peer, 1), 0);
    }
}
