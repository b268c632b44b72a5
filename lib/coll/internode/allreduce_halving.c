/*
 * Allreduce of long messages on many nodes, by Rabenseifner's algorithm: each node reduces and
 * scatters; along every rail the partial results are reduced and scattered by recursive halving
 * and gathered by recursive doubling; each node gathers. In the step of distance d a rank exchanges
 * half of what it is still responsible for with the node at that distance.
 *
 * If the number of nodes is no power of two, nodes are folded (transfer.h).
 *
 * Operands are combined in the order of nodes, and one rank finishes an element. Cost along a rail
 * of bytes: 2 * log2(nodes) * a + 2 * (nodes - 1) / nodes * bytes * b, plus 2 * (a + bytes * b)
 * with folded nodes (Thakur, Rabenseifner, Gropp 2005, section 4.2).
 */
#include "coll/internode/transfer.h"

typedef struct halving {
    weiri_internode_coll *x;
    char *part;   /* of this rail, in out */
    size_t count; /* elements of the part */
    int power, index;
    int low, high; /* blocks of the part for which this rank is responsible */
} halving;

static size_t block_at(const halving *h, int block)
{
    return weiri_part_at(h->count, block, h->power) * h->x->task->element_bytes;
}

/* Exchanges blocks with the node at a distance: sends [from, from_end), receives [to, to_end). */
static weir_status exchange_blocks(halving *h, int mask, int from, int from_end, int to, int to_end,
                                   int combines)
{
    int peer =
        weiri_group_rank(h->x, weiri_fold_node(h->index ^ mask, h->x->internode->nnodes, h->power));
    const weiri_transfer t = {.to = peer,
                              .from = peer,
                              .send = h->part + block_at(h, from),
                              .send_bytes = block_at(h, from_end) - block_at(h, from),
                              .receive = h->part + block_at(h, to),
                              .receive_bytes = block_at(h, to_end) - block_at(h, to),
                              .combines = combines,
                              .peer_first = (h->index & mask) != 0,
                              .is_last = mask * 2 == h->power};
    return weiri_transfer_run(h->x, &t);
}

static weir_status reduce_halves(halving *h)
{
    weir_status status = WEIR_OK;
    h->low = 0;
    h->high = h->power;
    for (int mask = 1; mask < h->power && status == WEIR_OK; mask *= 2) {
        int middle = (h->low + h->high) / 2;
        if (h->index & mask) {
            status = exchange_blocks(h, mask, h->low, middle, middle, h->high, 1);
            h->low = middle;
        } else {
            status = exchange_blocks(h, mask, middle, h->high, h->low, middle, 1);
            h->high = middle;
        }
    }
    return status;
}

static weir_status gather_halves(halving *h)
{
    weir_status status = WEIR_OK;
    for (int mask = h->power / 2; mask > 0 && status == WEIR_OK; mask /= 2) {
        int size = h->high - h->low, is_upper = (h->index & mask) != 0;
        int other = is_upper ? h->low - size : h->high;
        status = exchange_blocks(h, mask, h->low, h->high, other, other + size, 0);
        h->low = is_upper ? other : h->low;
        h->high = h->low + 2 * size;
    }
    return status;
}

static weir_status halving_along_rail(weiri_internode_coll *x, char *part, size_t count)
{
    halving h = {.x = x, .part = part, .count = count, .power = weiri_group_power(x)};
    weiri_fold fold = weiri_fold_of(x, x->place);
    size_t bytes = count * x->task->element_bytes;
    h.index = weiri_fold_index(x->internode->node, x->internode->nnodes, h.power);
    weir_status status = weiri_fold_begin(x, &fold, part, bytes);
    if (status == WEIR_OK && h.index >= 0)
        status = reduce_halves(&h);
    if (status == WEIR_OK && h.index >= 0)
        status = gather_halves(&h);
    return status == WEIR_OK ? weiri_fold_end(x, &fold, part, bytes) : status;
}

static weir_status allreduce_halving_run(weiri_coll *coll, const weiri_task *task)
{
    return weiri_parts_allreduce(coll, task, halving_along_rail);
}

const weiri_algo weiri_net_allreduce_halving_row = {
    .info = {WEIRI_NET_TRAITS(ALLREDUCE, "halving",
                              "rails by recursive halving and doubling (Rabenseifner); many nodes"),
             .rounding = WEIR_ROUNDING_PER_NODE, .in_order = "packet"},
    .run = allreduce_halving_run,
    .gpu_phases_from = SIZE_MAX,
};
