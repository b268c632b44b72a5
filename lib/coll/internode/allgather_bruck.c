/*
 * Allgather of short messages on many nodes, by Bruck's algorithm: each leader gathers the blocks
 * of its node; in the step of distance d leaders send what they have, at most the sections of d
 * nodes, to the node d before them; each leader broadcasts the result in its node.
 *
 * A leader's buffer begins with its own section, followed by those of the next nodes. For a power
 * of two this is recursive doubling in another order. Cost: ceil(log2(nodes)) * a + (nodes - 1) *
 * section * b (Bruck, Ho, Kipnis, Upfal, Weathersby 1997).
 */
#include "coll/internode/sections.h"

/* The bytes of the sections of this node and the next ones, so many in all. */
static size_t bruck_bytes(const weiri_internode_coll *x, int node, int sections)
{
    size_t ranks = 0;
    for (int i = 0; i < sections; i++)
        ranks += weiri_section_ranks(x, (node + i) % x->internode->nnodes);
    return ranks * x->task->count_bytes;
}

static weir_status bruck_exchange(weiri_internode_coll *x, char *sections)
{
    int n = x->internode->nnodes, node = x->internode->node;
    weir_status status = WEIR_OK;
    for (int have = 1; have < n && status == WEIR_OK; have *= 2) {
        int count = have < n - have ? have : n - have;
        int to = (node + n - have) % n, from = (node + have) % n;
        const weiri_transfer t = {.to = x->internode->nodes[to].ranks[0],
                                  .from = x->internode->nodes[from].ranks[0],
                                  .send = sections,
                                  .send_bytes = bruck_bytes(x, node, count),
                                  .receive = sections + bruck_bytes(x, node, have),
                                  .receive_bytes = bruck_bytes(x, from, count)};
        status = weiri_transfer_run(x, &t);
    }
    return status;
}

/* The leader: gathers its section, exchanges, and puts the blocks in the order of ranks. */
static weir_status bruck_lead(weiri_internode_coll *x)
{
    char *sections = NULL;
    size_t block = x->task->count_bytes;
    int n = x->internode->nnodes, node = x->internode->node;
    weir_status status =
        weiri_internode_coll_scratch(x, block * (size_t)x->coll->nranks, &sections);
    if (status == WEIR_OK)
        status = weiri_node_gather(x, 0, x->task->call->in, block, sections, block);
    if (status == WEIR_OK)
        status = bruck_exchange(x, sections);
    for (int i = 0; i < n && status == WEIR_OK; i++) {
        int m = (node + i) % n;
        weiri_section_unpack(x, m, x->task->call->out, sections, block);
        sections += weiri_section_ranks(x, m) * block;
    }
    return status;
}

static weir_status allgather_bruck_run(weiri_coll *coll, const weiri_task *task)
{
    weiri_internode_coll x;
    weir_status status = weiri_internode_coll_begin(coll, task, &x);
    if (status == WEIR_OK)
        status = x.place == 0
                     ? bruck_lead(&x)
                     : weiri_node_gather(&x, 0, task->call->in, task->count_bytes, NULL, 0);
    if (status == WEIR_OK)
        status = weir_broadcast(x.node_comm, task->call->out, task->call->out,
                                task->count_bytes * (size_t)coll->nranks, WEIR_UINT8, 0, x.stream);
    return weiri_internode_coll_end(&x, status);
}

const weiri_algo weiri_net_allgather_bruck_row = {
    .info = {WEIRI_NET_TRAITS(ALLGATHER, "bruck",
                              "leaders by Bruck's algorithm; small sizes, many nodes")},
    .run = allgather_bruck_run,
    .gpu_phases_from = SIZE_MAX,
};
