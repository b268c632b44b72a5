/*
 * Allreduce of several machines with as many ranks each. The data is one share for each rank
 * of a machine, of one chunk for each machine.
 *
 *   1. Inside each machine, over memory, a rank reads and reduces its share of its machine's
 *      ranks.
 *   2. Between machines, over ports, the ranks with the same share exchange it: to each
 *      machine its chunk, which is reduced there and sent back to all.
 *   3. Inside each machine, a rank writes its share to the others.
 *
 * A rank's scratch has a chunk for each machine. A rank may send there again in the next
 * launch, for it has had the answer to what it sent before.
 */
#include "plan/examples/program.h"

/* A rank's place, and what it has. */
typedef struct place {
    weir_plan_builder *b;
    const weiri_plan_example_options *with;
    int rank, share; /* which of its machine's ranks it is */
    int machine, machines;
    int first, end;  /* its machine's ranks */
    const weiri_example_row *inside;
    const weir_plan_chan *ports; /* to the rank with the same share on each machine */
    const weir_plan_chunks *scratch; /* of all ranks */
} place;

/* The chunks of this rank's share, in a rank's buffer. */
static weir_plan_chunks share_of(const place *at, weir_plan_chunks buffer)
{
    return weir_plan_slice(buffer, at->share * at->machines, at->machines);
}

static int partner(const place *at, int machine)
{
    return machine * at->with->machine_ranks + at->share;
}

static void reduce_inside(const place *at)
{
    weir_plan_chunks own = share_of(at, weiri_example_source(at->b, at->rank, at->with));
    weir_plan_chunks sum = share_of(at, weir_plan_output(at->b, at->rank));
    int begun = 0;
    weiri_example_barrier(at->inside, at->rank, at->first, at->end, 0);
    for (int peer = at->first; peer < at->end; peer++) {
        if (peer == at->rank)
            continue;
        weir_plan_chunks theirs = share_of(at, weiri_example_source(at->b, peer, at->with));
        weir_plan_read_reduce(at->inside->to[peer], sum, begun ? sum : own, &theirs, 1, 0);
        begun = 1;
    }
    if (!begun && !at->with->in_place)
        weir_plan_copy(sum, own, 0);
}

static void exchange_between(const place *at)
{
    weir_plan_chunks sum = share_of(at, weir_plan_output(at->b, at->rank));
    weir_plan_chunks own = weir_plan_slice(sum, at->machine, 1), come[WEIRI_EXAMPLE_RANKS];
    int count = 0;
    for (int machine = 0; machine < at->machines; machine++)
        if (machine != at->machine) {
            weir_plan_put(at->ports[machine],
                          weir_plan_slice(at->scratch[partner(at, machine)], at->machine, 1),
                          weir_plan_slice(sum, machine, 1), 0);
            weir_plan_signal(at->ports[machine], 0, WEIR_PLAN_BEFORE);
            come[count++] = weir_plan_slice(at->scratch[at->rank], machine, 1);
        }
    for (int machine = 0; machine < at->machines; machine++)
        if (machine != at->machine)
            weir_plan_wait(at->ports[machine], 0, WEIR_PLAN_AFTER);
    if (count)
        weir_plan_reduce(own, own, come, count, 0);
    for (int machine = 0; machine < at->machines; machine++)
        if (machine != at->machine) {
            weir_plan_chunks there = share_of(at, weir_plan_output(at->b, partner(at, machine)));
            weir_plan_put(at->ports[machine], weir_plan_slice(there, at->machine, 1), own, 0);
            weir_plan_signal(at->ports[machine], 0, WEIR_PLAN_BEFORE);
        }
    for (int machine = 0; machine < at->machines; machine++)
        if (machine != at->machine)
            weir_plan_flush(at->ports[machine], 0, WEIR_PLAN_AFTER);
    for (int machine = 0; machine < at->machines; machine++)
        if (machine != at->machine)
            weir_plan_wait(at->ports[machine], 0, WEIR_PLAN_AFTER);
}

static void spread_inside(const place *at)
{
    weir_plan_chunks result = share_of(at, weir_plan_output(at->b, at->rank));
    for (int peer = at->first; peer < at->end; peer++)
        if (peer != at->rank)
            weir_plan_put(at->inside->to[peer], share_of(at, weir_plan_output(at->b, peer)),
                          result, 0);
    weiri_example_barrier(at->inside, at->rank, at->first, at->end, 0);
}

void weiri_example_allreduce_hierarchical(weir_plan_builder *b,
                                          const weiri_plan_example_options *with)
{
    int n = with->nranks, each = with->machine_ranks, machines = n / each;
    weiri_example_row inside, ports;
    weir_plan_chunks scratch[WEIRI_EXAMPLE_RANKS];
    for (int rank = 0; rank < n; rank++)
        scratch[rank] = weir_plan_scratch(b, rank, machines);
    for (int rank = 0; rank < n; rank++) {
        place at = {b, with, rank, rank % each, rank / each, machines, rank / each * each,
                    (rank / each + 1) * each, &inside, ports.to, scratch};
        for (int peer = at.first; peer < at.end; peer++)
            if (peer != rank)
                inside.to[peer] = weir_plan_memory_channel(b, rank, peer);
        for (int machine = 0; machine < machines; machine++)
            if (machine != at.machine)
                ports.to[machine] = weir_plan_port_channel(b, rank, partner(&at, machine));
        reduce_inside(&at);
        exchange_between(&at);
        spread_inside(&at);
    }
}
