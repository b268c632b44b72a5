/* Reduce-scatter: all pairs, a ring. In place, a rank's output is its block of the input. */
#include "plan/examples/program.h"

static weir_plan_chunks plan_example_input_block(weir_plan_builder *b, int rank, int of)
{
    return weir_plan_slice(weir_plan_input(b, rank), of, 1);
}

static weir_plan_chunks plan_example_result_of(weir_plan_builder *b, int rank,
                                               const weiri_plan_example_options *with)
{
    return with->in_place ? plan_example_input_block(b, rank, rank) : weir_plan_output(b, rank);
}

/* The first barrier: the peers' inputs are complete. The last barrier: the peers have finished
 * reading. */
void weiri_example_reduce_scatter_direct(weir_plan_builder *b,
                                         const weiri_plan_example_options *with)
{
    int n = with->nranks;
    weiri_example_mesh *mesh = with->mesh;
    weiri_example_mesh_create(b, n, mesh);
    for (int rank = 0; rank < n; rank++) {
        weir_plan_chunks result = plan_example_result_of(b, rank, with);
        int begun = 0;
        weiri_example_barrier(&mesh->of[rank], rank, 0, n, 0);
        for (int peer = 0; peer < n; peer++) {
            if (peer == rank)
                continue;
            weir_plan_chunks theirs = plan_example_input_block(b, peer, rank);
            weir_plan_read_reduce(mesh->of[rank].to[peer], result,
                                  begun ? result : plan_example_input_block(b, rank, rank), &theirs,
                                  1, 0);
            begun = 1;
        }
        weiri_example_barrier(&mesh->of[rank], rank, 0, n, 0);
    }
}

/* A rank signals to the previous one that its scratch may be written. In step s it reduces block
 * (rank - 1 - s) with its own data and sends it to the next rank; its own block arrives last. */
void weiri_example_reduce_scatter_ring(weir_plan_builder *b, const weiri_plan_example_options *with)
{
    int n = with->nranks;
    weiri_example_ring ring;
    weir_plan_chunks scratch[WEIRI_EXAMPLE_RANKS];
    weiri_example_ring_create(b, n, &ring);
    for (int rank = 0; rank < n; rank++)
        scratch[rank] = weir_plan_scratch(b, rank, n - 1);
    for (int rank = 0; rank < n; rank++) {
        int next = (rank + 1) % n;
        weir_plan_signal(ring.prev[rank], 0, WEIR_PLAN_BEFORE);
        weir_plan_wait(ring.next[rank], 0, WEIR_PLAN_AFTER);
        weir_plan_put(ring.next[rank], weir_plan_slice(scratch[next], 0, 1),
                      plan_example_input_block(b, rank, (rank - 1 + n) % n), 0);
        weir_plan_signal(ring.next[rank], 0, WEIR_PLAN_BEFORE);
        for (int step = 1; step < n; step++) {
            weir_plan_chunks own = plan_example_input_block(b, rank, (rank - 1 - step + 2 * n) % n);
            weir_plan_chunks come = weir_plan_slice(scratch[rank], step - 1, 1);
            weir_plan_wait(ring.prev[rank], 0, WEIR_PLAN_AFTER);
            if (step == n - 1) {
                weir_plan_reduce(plan_example_result_of(b, rank, with), own, &come, 1, 0);
                continue;
            }
            weir_plan_reduce(come, own, &come, 1, 0);
            weir_plan_put(ring.next[rank], weir_plan_slice(scratch[next], step, 1), come, 0);
            weir_plan_signal(ring.next[rank], 0, WEIR_PLAN_BEFORE);
        }
    }
}
