/*
 * Allreduce of long messages on many nodes, around a ring: each node reduces and scatters; along
 * every rail the partial result is divided into a block for each node; in step k of the first
 * nodes - 1 a rank sends the block of node - k to the next node, which adds its own partial result;
 * in the second nodes - 1 steps the finished blocks travel around the ring; each node gathers.
 *
 * Every rank communicates with two others only, at any number of nodes. A block is combined in the
 * order in which it travels, by one chain of ranks, and copied from the last one, so all ranks have
 * the same bits. Cost along a rail of bytes: 2 * (nodes - 1) * (a + bytes / nodes * b) (Patarasuk,
 * Yuan 2009).
 */
#include "coll/internode/transfer.h"

typedef struct ring {
    weiri_internode_coll *x;
    char *part;
    size_t count;
} ring;

static size_t block_at(const ring *r, int block)
{
    return weiri_part_at(r->count, block, r->x->internode->nnodes) * r->x->task->element_bytes;
}

static size_t block_bytes(const ring *r, int block)
{
    return block_at(r, block + 1) - block_at(r, block);
}

/* Sends a block to the next node and receives another one from the previous node. */
static weir_status ring_step(ring *r, int send, int receive, int combines, int is_last)
{
    int n = r->x->internode->nnodes, node = r->x->internode->node;
    const weiri_transfer t = {.to = weiri_group_rank(r->x, weiri_next(node, n)),
                              .from = weiri_group_rank(r->x, weiri_previous(node, n)),
                              .send = r->part + block_at(r, send),
                              .send_bytes = block_bytes(r, send),
                              .receive = r->part + block_at(r, receive),
                              .receive_bytes = block_bytes(r, receive),
                              .combines = combines,
                              .peer_first = 1,
                              .is_last = is_last};
    return weiri_transfer_run(r->x, &t);
}

static weir_status ring_along_rail(weiri_internode_coll *x, char *part, size_t count)
{
    ring r = {x, part, count};
    int n = x->internode->nnodes, block = x->internode->node;
    weir_status status = WEIR_OK;
    for (int step = 1; step < 2 * n - 1 && status == WEIR_OK; step++) {
        int next = weiri_previous(block, n);
        status = ring_step(&r, block, next, step < n, step == n - 1);
        block = next;
    }
    return status;
}

static weir_status allreduce_ring_run(weiri_coll *coll, const weiri_task *task)
{
    return weiri_parts_allreduce(coll, task, ring_along_rail);
}

const weiri_algo weiri_net_allreduce_ring_row = {
    .info = {WEIRI_NET_TRAITS(ALLREDUCE, "ring", "rails around a ring of nodes; many nodes"),
             .rounding = WEIR_ROUNDING_PER_NODE, .in_order = "packet"},
    .run = allreduce_ring_run,
    .gpu_phases_from = SIZE_MAX,
};
