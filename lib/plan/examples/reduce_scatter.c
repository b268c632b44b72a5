/* Reduce-scatter: all pairs, a ring. In place, a rank's output is its share of the input. */
#include "plan/examples/program.h"

static weir_plan_chunks share(weir_plan_builder *b, int rank, int of)
{
    return weir_plan_slice(weir_plan_input(b, rank), of, 1);
}

static weir_plan_chunks result_of(weir_plan_builder *b, int rank,
                                  const weiri_plan_example_options *with)
{
    return with->in_place ? share(b, rank, rank) : weir_plan_output(b, rank);
}

/* Meeting before: the others' data is there. Meeting behind: they are done with it. */
void weiri_example_reduce_scatter_direct(weir_plan_builder *b,
                                         const weiri_plan_example_options *with)
{
    int n = with->nranks;
    weiri_example_mesh mesh;
    weiri_example_mesh_create(b, n, &mesh);
    for (int rank = 0; rank < n; rank++) {
        weir_plan_chunks result = result_of(b, rank, with);
        int begun = 0;
        weiri_example_barrier(&mesh.of[rank], rank, 0, n, 0);
        for (int peer = 0; peer < n; peer++) {
            if (peer == rank)
                continue;
            weir_plan_chunks theirs = share(b, peer, rank);
            weir_plan_read_reduce(mesh.of[rank].to[peer], result,
                                  begun ? result : share(b, rank, rank), &theirs, 1, 0);
            begun = 1;
        }
        weiri_example_barrier(&mesh.of[rank], rank, 0, n, 0);
    }
}

/* A rank tells the one before that its scratch may be written. In step s it sends share
 * (rank - 1 - s), reduced with its own data, on to the next; the last that comes is its own. */
void weiri_example_reduce_scatter_ring(weir_plan_builder *b,
                                       const weiri_plan_example_options *with)
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
                      share(b, rank, (rank - 1 + n) % n), 0);
        weir_plan_signal(ring.next[rank], 0, WEIR_PLAN_BEFORE);
        for (int step = 1; step < n; step++) {
            weir_plan_chunks own = share(b, rank, (rank - 1 - step + 2 * n) % n);
            weir_plan_chunks come = weir_plan_slice(scratch[rank], step - 1, 1);
            weir_plan_wait(ring.prev[rank], 0, WEIR_PLAN_AFTER);
            if (step == n - 1) {
                weir_plan_reduce(result_of(b, rank, with), own, &come, 1, 0);
                continue;
            }
            weir_plan_reduce(come, own, &come, 1, 0);
            weir_plan_put(ring.next[rank], weir_plan_slice(scratch[next], step, 1), come, 0);
            weir_plan_signal(ring.next[rank], 0, WEIR_PLAN_BEFORE);
        }
    }
}
