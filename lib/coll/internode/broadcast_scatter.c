/*
 * Broadcast of long messages on many nodes, by scatter and allgather: the root's node broadcasts;
 * along every rail its part of the data is divided into a block for each node, which a binomial
 * tree scatters and a ring gathers; each other node gathers the parts of its rails.
 *
 * Cost along a rail of bytes: (ceil(log2(nodes)) + nodes - 1) * a + 2 * (nodes - 1) / nodes * bytes
 * * b (van de Geijn; Thakur, Rabenseifner, Gropp 2005, section 3.4).
 */
#include "coll/internode/tree_binomial.h"

typedef struct scatter {
    weiri_internode_coll x;
    weiri_binomial b;
    char *part;
    size_t bytes; /* of the part */
} scatter;

/* Block i belongs to position i. */
static size_t block_at(const scatter *s, int block)
{
    return weiri_part_at(s->bytes, block < s->b.nnodes ? block : s->b.nnodes, s->b.nnodes);
}

static int rank_at(const scatter *s, int position)
{
    return weiri_group_rank(&s->x, weiri_binomial_node(&s->b, position));
}

/* A rank receives the blocks of its subtree, and sends the blocks of its children's subtrees. */
static weir_status scatter_blocks(scatter *s)
{
    const weiri_binomial *b = &s->b;
    int own = b->position;
    weir_status status = WEIR_OK;
    if (own > 0)
        status =
            weiri_transfer_receive(&s->x, rank_at(s, own - b->span), s->part + block_at(s, own),
                                   block_at(s, own + b->span) - block_at(s, own));
    for (int span = b->span / 2; span > 0 && status == WEIR_OK; span /= 2) {
        int child = own + span;
        if (child < b->nnodes)
            status = weiri_transfer_send(&s->x, rank_at(s, child), s->part + block_at(s, child),
                                         block_at(s, child + span) - block_at(s, child));
    }
    return status;
}

static weir_status gather_blocks(scatter *s)
{
    int n = s->b.nnodes, block = s->b.position;
    int to = rank_at(s, weiri_next(block, n)), from = rank_at(s, weiri_previous(block, n));
    weir_status status = WEIR_OK;
    for (int step = 1; step < n && status == WEIR_OK; step++) {
        int next = weiri_previous(block, n);
        const weiri_transfer t = {.to = to,
                                  .from = from,
                                  .send = s->part + block_at(s, block),
                                  .send_bytes = block_at(s, block + 1) - block_at(s, block),
                                  .receive = s->part + block_at(s, next),
                                  .receive_bytes = block_at(s, next + 1) - block_at(s, next)};
        status = weiri_transfer_run(&s->x, &t);
        block = next;
    }
    return status;
}

static weir_status broadcast_scatter_run(weiri_coll *coll, const weiri_task *task)
{
    scatter s = {.bytes = 0};
    weir_status status = weiri_internode_coll_begin(coll, task, &s.x);
    int nrails = s.x.internode->fewest, has_rail = s.x.place < nrails;
    weiri_share share = weiri_parts_share(task->count_bytes, s.x.place, nrails);
    s.b = weiri_binomial_of(&s.x, task->call->root);
    s.part = weiri_out_at(task, share.first);
    s.bytes = share.count;
    s.x.unit_bytes = 1;
    if (status == WEIR_OK && s.b.position == 0)
        status =
            weir_broadcast(s.x.node_comm, task->call->in ? task->call->in : task->call->out,
                           task->call->out, task->count_bytes, WEIR_UINT8, s.b.place, s.x.stream);
    if (status == WEIR_OK && has_rail)
        status = scatter_blocks(&s);
    if (status == WEIR_OK && has_rail)
        status = gather_blocks(&s);
    if (status == WEIR_OK && s.b.position > 0)
        status = weiri_parts_gather(&s.x, task->call->out, task->count_bytes, 1, nrails);
    return weiri_internode_coll_end(&s.x, status);
}

const weiri_algo weiri_net_broadcast_scatter_row = {
    .info = {WEIRI_NET_TRAITS(BROADCAST, "scatter",
                              "rails scatter and gather around a ring of nodes; many nodes")},
    .run = broadcast_scatter_run,
    .gpu_phases_from = SIZE_MAX,
};
