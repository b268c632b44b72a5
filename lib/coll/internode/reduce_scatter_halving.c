/*
 * Reduce-scatter of short messages on many nodes, by recursive halving: each node reduces the whole
 * input to its leader; in the step of distance d, from the largest on, leaders exchange half of the
 * sections for which they are responsible with the node at that distance; each leader scatters its
 * section in the node.
 *
 * If the number of nodes is no power of two, nodes are folded (transfer.h); the representing node
 * is then responsible for the sections of both. Cost: log2(nodes) * a + (nodes - 1) / nodes * bytes
 * * b for an input of bytes, plus 2 * a + bytes * b and a section with folded nodes (Thakur,
 * Rabenseifner, Gropp 2005, section 4.3). For long messages "rails" sends as few bytes, in nodes
 * - 1 messages, without the reduction of the whole input in one rank.
 */
#include "coll/internode/sections.h"

typedef struct halving {
    weiri_internode_coll x;
    char *sections; /* partial results of all nodes' sections */
    int power, index;
} halving;

/* The bytes before the sections of a representing node. */
static size_t bytes_before(const halving *h, int index)
{
    int n = h->x.internode->nnodes;
    int node = index == h->power ? n : weiri_fold_node(index, n, h->power);
    return weiri_section_at(&h->x, node) * h->x.task->count_bytes;
}

static weir_status halving_step(halving *h, int mask, int send, int send_end, int keep,
                                int keep_end)
{
    int node = weiri_fold_node(h->index ^ mask, h->x.internode->nnodes, h->power);
    int peer = h->x.internode->nodes[node].ranks[0];
    size_t from = bytes_before(h, send), to = bytes_before(h, keep);
    const weiri_transfer t = {.to = peer,
                              .from = peer,
                              .send = h->sections + from,
                              .send_bytes = bytes_before(h, send_end) - from,
                              .receive = h->sections + to,
                              .receive_bytes = bytes_before(h, keep_end) - to,
                              .combines = 1,
                              .peer_first = (h->index & mask) != 0,
                              .is_last = mask == 1};
    return weiri_transfer_run(&h->x, &t);
}

static weir_status reduce_halves(halving *h)
{
    int low = 0, high = h->power;
    weir_status status = WEIR_OK;
    for (int mask = h->power / 2; mask > 0 && status == WEIR_OK; mask /= 2) {
        int middle = low + mask;
        if (h->index & mask) {
            status = halving_step(h, mask, low, middle, middle, high);
            low = middle;
        } else {
            status = halving_step(h, mask, middle, high, low, middle);
            high = middle;
        }
    }
    return status;
}

/* Gives an idle node its section. */
static weir_status halving_return(halving *h, const weiri_fold *fold)
{
    int node = fold->is_idle ? h->x.internode->node : h->x.internode->node + 1;
    if (fold->peer == WEIRI_NOBODY)
        return WEIR_OK;
    char *section = h->sections + weiri_section_at(&h->x, node) * h->x.task->count_bytes;
    size_t bytes = weiri_section_ranks(&h->x, node) * h->x.task->count_bytes;
    return fold->is_idle ? weiri_transfer_receive(&h->x, fold->peer, section, bytes)
                         : weiri_transfer_send(&h->x, fold->peer, section, bytes);
}

static weir_status halving_lead(halving *h, char *ranks)
{
    weiri_internode_coll *x = &h->x;
    size_t block = x->task->count_bytes, bytes = block * (size_t)x->coll->nranks;
    weiri_fold fold = weiri_fold_of(x, 0);
    if (weiri_sections_are_ranks(x))
        h->sections = ranks;
    for (int m = 0; m < x->internode->nnodes && h->sections != ranks; m++)
        weiri_section_pack(x, m, h->sections + weiri_section_at(x, m) * block, ranks, block);
    weir_status status = weiri_fold_begin(x, &fold, h->sections, bytes);
    if (status == WEIR_OK && h->index >= 0)
        status = reduce_halves(h);
    return status == WEIR_OK ? halving_return(h, &fold) : status;
}

static weir_status reduce_scatter_halving_run(weiri_coll *coll, const weiri_task *task)
{
    halving h = {.sections = NULL};
    char *ranks = NULL;
    size_t block = task->count_bytes, bytes = block * (size_t)coll->nranks;
    weir_status status = weiri_internode_coll_begin(coll, task, &h.x);
    if (status == WEIR_OK && h.x.place == 0)
        status = weiri_internode_coll_scratch(&h.x, 2 * bytes, &ranks);
    h.power = weiri_group_power(&h.x);
    h.index = weiri_fold_index(h.x.internode->node, h.x.internode->nnodes, h.power);
    h.sections = ranks ? ranks + bytes : NULL;
    if (status == WEIR_OK)
        status = weir_reduce(h.x.node_comm, task->call->in, ranks,
                             task->call->count * (size_t)coll->nranks, task->call->dtype, h.x.op, 0,
                             h.x.stream);
    if (status == WEIR_OK && h.x.place == 0)
        status = halving_lead(&h, ranks);
    if (status == WEIR_OK) {
        char *own = h.x.place == 0
                        ? h.sections + weiri_section_at(&h.x, h.x.internode->node) * block
                        : NULL;
        status = weiri_node_scatter(&h.x, 0, own, block, task->call->out, block);
    }
    return weiri_internode_coll_end(&h.x, status);
}

const weiri_algo weiri_net_reduce_scatter_halving_row = {
    .info = {WEIRI_NET_TRAITS(REDUCE_SCATTER, "halving",
                              "leaders by recursive halving; small sizes, many nodes"),
             .rounding = WEIR_ROUNDING_PER_NODE, .in_order = "packet"},
    .run = reduce_scatter_halving_run,
    .gpu_phases_from = SIZE_MAX,
};
