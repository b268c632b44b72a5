/* Allreduce on one node without packets: all pairs, a ring, a switch channel. */
#include "plan/examples/program.h"

/* Each rank reads and reduces the chunk with its number of all ranks, and writes the result to all.
 * The first barrier: the peers' inputs are complete. The last barrier: the peers have finished
 * reading and writing. */
void weiri_example_allreduce_direct(weir_plan_builder *b, const weiri_plan_example_options *with)
{
    int n = with->nranks;
    weiri_example_mesh *mesh = with->mesh;
    weiri_example_mesh_create(b, n, mesh);
    for (int rank = 0; rank < n; rank++) {
        weir_plan_chunks own = weir_plan_slice(weiri_example_source(b, rank, with), rank, 1);
        weir_plan_chunks result = weir_plan_slice(weir_plan_output(b, rank), rank, 1);
        int begun = 0;
        weiri_example_barrier(&mesh->of[rank], rank, 0, n, 0);
        for (int peer = 0; peer < n; peer++) {
            if (peer == rank)
                continue;
            weir_plan_chunks theirs = weir_plan_slice(weiri_example_source(b, peer, with), rank, 1);
            weir_plan_read_reduce(mesh->of[rank].to[peer], result, begun ? result : own, &theirs, 1,
                                  0);
            begun = 1;
        }
        for (int peer = 0; peer < n; peer++)
            if (peer != rank)
                weir_plan_put(mesh->of[rank].to[peer],
                              weir_plan_slice(weir_plan_output(b, peer), rank, 1), result, 0);
        weiri_example_barrier(&mesh->of[rank], rank, 0, n, 0);
    }
}

/*
 * Chunks go round the ring twice. In step s of the first round a rank reduces chunk (rank - s) with
 * its own data and sends it to the next rank; the last step yields the result of chunk (rank + 1).
 * In the second round the results are passed on.
 *
 * A rank need not ask the next one for permission to write: each result includes the data of all
 * ranks, so a rank that has received all results knows that the scratch of the others has been
 * read.
 */
void weiri_example_allreduce_ring(weir_plan_builder *b, const weiri_plan_example_options *with)
{
    int n = with->nranks;
    weiri_example_ring ring;
    weir_plan_chunks scratch[WEIRI_EXAMPLE_RANKS];
    weiri_example_ring_create(b, n, &ring);
    for (int rank = 0; rank < n; rank++)
        scratch[rank] = weir_plan_scratch(b, rank, n - 1);
    for (int rank = 0; rank < n; rank++) {
        int next = (rank + 1) % n;
        weir_plan_chunks in = weiri_example_source(b, rank, with);
        weir_plan_chunks out = weir_plan_output(b, rank), there = weir_plan_output(b, next);
        weir_plan_put(ring.next[rank], weir_plan_slice(scratch[next], 0, 1),
                      weir_plan_slice(in, rank, 1), 0);
        weir_plan_signal(ring.next[rank], 0, WEIR_PLAN_BEFORE);
        for (int step = 1; step < n; step++) {
            int chunk = (rank - step + n) % n, is_last = step == n - 1;
            weir_plan_chunks come = weir_plan_slice(scratch[rank], step - 1, 1);
            weir_plan_chunks sum = is_last ? weir_plan_slice(out, chunk, 1) : come;
            weir_plan_wait(ring.prev[rank], 0, WEIR_PLAN_AFTER);
            weir_plan_reduce(sum, weir_plan_slice(in, chunk, 1), &come, 1, 0);
            weir_plan_put(ring.next[rank],
                          is_last ? weir_plan_slice(there, chunk, 1)
                                  : weir_plan_slice(scratch[next], step, 1),
                          sum, 0);
            weir_plan_signal(ring.next[rank], 0, WEIR_PLAN_BEFORE);
        }
        for (int step = 0; step < n - 1; step++) {
            int chunk = (rank - step + n) % n;
            weir_plan_wait(ring.prev[rank], 0, WEIR_PLAN_AFTER);
            if (step == n - 2)
                continue;
            weir_plan_put(ring.next[rank], weir_plan_slice(there, chunk, 1),
                          weir_plan_slice(out, chunk, 1), 0);
            weir_plan_signal(ring.next[rank], 0, WEIR_PLAN_BEFORE);
        }
    }
}

/* As all pairs, but switch channels read from, and write to, all ranks in one operation. */
void weiri_example_allreduce_switch(weir_plan_builder *b, const weiri_plan_example_options *with)
{
    int n = with->nranks;
    weiri_example_mesh *mesh = with->mesh;
    weir_plan_buffer buffer = with->in_place ? WEIR_PLAN_OUTPUT : WEIR_PLAN_INPUT;
    weir_plan_switch from = weir_plan_switch_channel(b, buffer, NULL, n);
    weir_plan_switch to =
        with->in_place ? from : weir_plan_switch_channel(b, WEIR_PLAN_OUTPUT, NULL, n);
    weiri_example_mesh_create(b, n, mesh);
    for (int rank = 0; rank < n; rank++) {
        weir_plan_chunks result = weir_plan_slice(weir_plan_output(b, rank), rank, 1);
        weiri_example_barrier(&mesh->of[rank], rank, 0, n, 0);
        weir_plan_switch_reduce(from, rank, result, 0);
        weir_plan_switch_broadcast(to, result, rank, 0);
        weiri_example_barrier(&mesh->of[rank], rank, 0, n, 0);
    }
}
