/*
 * Allreduce over several nodes with equal numbers of ranks. The data consists of one share for each
 * rank of a node; a share has one chunk for each node.
 *
 *   1. Inside each node, over memory channels, a rank reads and reduces its share of all ranks of
 *      its node.
 *   2. Between nodes, over port channels, the ranks with the same share send each node its chunk,
 *      which is reduced there, and the result is sent back to all.
 *   3. Inside each node, a rank writes its share to the others.
 *
 * The scratch of a rank has a chunk for each node. A peer may write there again in the next launch,
 * because it has received the result of what it sent before.
 */
#include "plan/examples/program.h"

/* A rank, its place among the nodes, and its channels. */
typedef struct place {
    weir_plan_builder *b;
    const weiri_plan_example_options *with;
    int rank, share; /* share: its index among the ranks of its node */
    int node, nodes;
    int first, end; /* the ranks of its node: [first, end) */
    const weiri_example_row *inside;
    const weir_plan_chan *ports;     /* to the rank with the same share on each node */
    const weir_plan_chunks *scratch; /* of all ranks */
} place;

/* The chunks of this rank's share, in a rank's buffer. */
static weir_plan_chunks plan_example_share_of(const place *at, weir_plan_chunks buffer)
{
    return weir_plan_slice(buffer, at->share * at->nodes, at->nodes);
}

static int plan_example_partner(const place *at, int node)
{
    return node * at->with->node_ranks + at->share;
}

static void plan_example_reduce_in_node(const place *at)
{
    weir_plan_chunks own =
        plan_example_share_of(at, weiri_example_source(at->b, at->rank, at->with));
    weir_plan_chunks sum = plan_example_share_of(at, weir_plan_output(at->b, at->rank));
    int begun = 0;
    weiri_example_barrier(at->inside, at->rank, at->first, at->end, 0);
    for (int peer = at->first; peer < at->end; peer++) {
        if (peer == at->rank)
            continue;
        weir_plan_chunks theirs =
            plan_example_share_of(at, weiri_example_source(at->b, peer, at->with));
        weir_plan_read_reduce(at->inside->to[peer], sum, begun ? sum : own, &theirs, 1, 0);
        begun = 1;
    }
    if (!begun && !at->with->in_place)
        weir_plan_copy(sum, own, 0);
}

static void plan_example_exchange_between_nodes(const place *at)
{
    weir_plan_chunks sum = plan_example_share_of(at, weir_plan_output(at->b, at->rank));
    weir_plan_chunks own = weir_plan_slice(sum, at->node, 1), come[WEIRI_EXAMPLE_RANKS];
    int count = 0;
    for (int node = 0; node < at->nodes; node++)
        if (node != at->node) {
            weir_plan_put(at->ports[node],
                          weir_plan_slice(at->scratch[plan_example_partner(at, node)], at->node, 1),
                          weir_plan_slice(sum, node, 1), 0);
            weir_plan_signal(at->ports[node], 0, WEIR_PLAN_BEFORE);
            come[count++] = weir_plan_slice(at->scratch[at->rank], node, 1);
        }
    for (int node = 0; node < at->nodes; node++)
        if (node != at->node)
            weir_plan_wait(at->ports[node], 0, WEIR_PLAN_AFTER);
    if (count)
        weir_plan_reduce(own, own, come, count, 0);
    for (int node = 0; node < at->nodes; node++)
        if (node != at->node) {
            weir_plan_chunks there =
                plan_example_share_of(at, weir_plan_output(at->b, plan_example_partner(at, node)));
            weir_plan_put(at->ports[node], weir_plan_slice(there, at->node, 1), own, 0);
            weir_plan_signal(at->ports[node], 0, WEIR_PLAN_BEFORE);
        }
    for (int node = 0; node < at->nodes; node++)
        if (node != at->node)
            weir_plan_flush(at->ports[node], 0, WEIR_PLAN_AFTER);
    for (int node = 0; node < at->nodes; node++)
        if (node != at->node)
            weir_plan_wait(at->ports[node], 0, WEIR_PLAN_AFTER);
}

static void plan_example_spread_in_node(const place *at)
{
    weir_plan_chunks result = plan_example_share_of(at, weir_plan_output(at->b, at->rank));
    for (int peer = at->first; peer < at->end; peer++)
        if (peer != at->rank)
            weir_plan_put(at->inside->to[peer],
                          plan_example_share_of(at, weir_plan_output(at->b, peer)), result, 0);
    weiri_example_barrier(at->inside, at->rank, at->first, at->end, 0);
}

void weiri_example_allreduce_hierarchical(weir_plan_builder *b,
                                          const weiri_plan_example_options *with)
{
    int n = with->nranks, each = with->node_ranks, nodes = n / each;
    weiri_example_row inside, ports;
    weir_plan_chunks scratch[WEIRI_EXAMPLE_RANKS];
    for (int rank = 0; rank < n; rank++)
        scratch[rank] = weir_plan_scratch(b, rank, nodes);
    for (int rank = 0; rank < n; rank++) {
        place at = {b,
                    with,
                    rank,
                    rank % each,
                    rank / each,
                    nodes,
                    rank / each * each,
                    (rank / each + 1) * each,
                    &inside,
                    ports.to,
                    scratch};
        for (int peer = at.first; peer < at.end; peer++)
            if (peer != rank)
                inside.to[peer] = weir_plan_memory_channel(b, rank, peer);
        for (int node = 0; node < nodes; node++)
            if (node != at.node)
                ports.to[node] = weir_plan_port_channel(b, rank, plan_example_partner(&at, node));
        plan_example_reduce_in_node(&at);
        plan_example_exchange_between_nodes(&at);
        plan_example_spread_in_node(&at);
    }
}
