/*
 * Alltoall of short messages on many nodes, by Bruck's algorithm: each leader gathers the inputs of
 * its node's ranks; leaders exchange bundles, the blocks from all ranks of a node to all ranks of
 * another; each leader scatters the outputs.
 *
 * Bundle j of a leader is at first the one for the node j after its own. In the step of distance d,
 * a power of two, it sends all bundles whose number contains d to the node d after its own. So
 * bundle j travels j nodes in as many steps as j has bits, and then is from the node j before.
 * Cost: ceil(log2(nodes)) * (a + nodes / 2 * bundle * b) (Bruck and others 1997), where "packet"
 * needs nodes - 1 messages, but sends each bundle once.
 */
#include "coll/internode/sections.h"

enum { ROUND_BYTES = 1 << 20 }; /* at most so much of a node's input at once */

typedef struct bruck {
    weiri_internode_coll x;
    size_t done, block; /* this round's part of every block */
    char *inputs;       /* of the ranks of this node */
    char *bundles, *sent, *received;
    size_t bundle_most; /* room for each bundle */
} bruck;

/* The ranks of the node that sends bundle j to the one that receives it, when this node, or another
 * one, has it before the step of a distance. */
static size_t bundle_bytes(const bruck *b, int node, int j, int distance)
{
    int n = b->x.internode->nnodes, from = (node + n - (j & (distance - 1))) % n;
    int to = (from + j) % n;
    return weiri_section_ranks(&b->x, from) * weiri_section_ranks(&b->x, to) * b->block;
}

static char *bundle_at(const bruck *b, int j)
{
    return b->bundles + (size_t)j * b->bundle_most;
}

/* Bundle j from the inputs: for each rank of this node, the blocks for the ranks of another. */
static void bundle_pack(const bruck *b, int j)
{
    const weiri_internode *internode = b->x.internode;
    const weiri_node *to = &internode->nodes[(internode->node + j) % internode->nnodes];
    size_t input = b->block * (size_t)b->x.coll->nranks;
    char *at = bundle_at(b, j);
    for (int place = 0; place < b->x.count; place++)
        for (int i = 0; i < to->count; i++, at += b->block)
            memcpy(at, b->inputs + (size_t)place * input + (size_t)to->ranks[i] * b->block,
                   b->block);
}

/* Copies what has arrived as bundle j into the outputs, which replace the inputs. */
static void bundle_unpack(const bruck *b, int j)
{
    const weiri_internode *internode = b->x.internode;
    int n = internode->nnodes;
    const weiri_node *from = &internode->nodes[(internode->node + n - j) % n];
    size_t output = b->block * (size_t)b->x.coll->nranks;
    const char *at = bundle_at(b, j);
    for (int i = 0; i < from->count; i++)
        for (int place = 0; place < b->x.count; place++, at += b->block)
            memcpy(b->inputs + (size_t)place * output + (size_t)from->ranks[i] * b->block, at,
                   b->block);
}

static weir_status bruck_step(bruck *b, int distance)
{
    const weiri_internode *internode = b->x.internode;
    int n = internode->nnodes, node = internode->node;
    int to = (node + distance) % n, from = (node + n - distance) % n;
    size_t sent = 0, received = 0;
    for (int j = distance; j < n; j++) {
        if (!(j & distance))
            continue;
        size_t bytes = bundle_bytes(b, node, j, distance);
        memcpy(b->sent + sent, bundle_at(b, j), bytes);
        sent += bytes;
        received += bundle_bytes(b, from, j, distance);
    }
    const weiri_transfer t = {.to = internode->nodes[to].ranks[0],
                              .from = internode->nodes[from].ranks[0],
                              .send = b->sent,
                              .send_bytes = sent,
                              .receive = b->received,
                              .receive_bytes = received};
    weir_status status = weiri_transfer_run(&b->x, &t);
    const char *at = b->received;
    for (int j = distance; j < n && status == WEIR_OK; j++) {
        if (!(j & distance))
            continue;
        size_t bytes = bundle_bytes(b, from, j, distance);
        memcpy(bundle_at(b, j), at, bytes);
        at += bytes;
    }
    return status;
}

static weir_status bruck_lead(bruck *b)
{
    int n = b->x.internode->nnodes;
    weir_status status = WEIR_OK;
    for (int j = 0; j < n; j++)
        bundle_pack(b, j);
    for (int distance = 1; distance < n && status == WEIR_OK; distance *= 2)
        status = bruck_step(b, distance);
    for (int j = 0; j < n && status == WEIR_OK; j++)
        bundle_unpack(b, j);
    return status;
}

/* Divides the scratch memory. */
static weir_status bruck_lay_out(bruck *b, char **own)
{
    size_t n = (size_t)b->x.internode->nnodes, most = (size_t)b->x.internode->most;
    size_t input = b->block * (size_t)b->x.coll->nranks, inputs = input * (size_t)b->x.count;
    int leads = b->x.place == 0;
    b->bundle_most = most * most * b->block;
    weir_status status = weiri_internode_coll_scratch(
        &b->x, input + (leads ? inputs + 3 * n * b->bundle_most : 0), own);
    b->inputs = leads ? *own + input : NULL;
    b->bundles = leads ? b->inputs + inputs : NULL;
    b->sent = leads ? b->bundles + n * b->bundle_most : NULL;
    b->received = leads ? b->sent + n * b->bundle_most : NULL;
    return status;
}

static weir_status bruck_round(bruck *b)
{
    const weiri_task *task = b->x.task;
    size_t n = (size_t)b->x.coll->nranks, input = b->block * n, each = b->x.task->count_bytes;
    char *own = NULL;
    weir_status status = bruck_lay_out(b, &own);
    if (status != WEIR_OK)
        return status;
    for (size_t rank = 0; rank < n; rank++)
        memcpy(own + rank * b->block, weiri_in_at(task, rank * each + b->done), b->block);
    status = weiri_node_gather(&b->x, 0, own, input, b->inputs, input);
    if (status == WEIR_OK && b->x.place == 0)
        status = bruck_lead(b);
    if (status == WEIR_OK)
        status = weiri_node_scatter(&b->x, 0, b->inputs, input, own, input);
    for (size_t rank = 0; rank < n && status == WEIR_OK; rank++)
        memcpy(weiri_out_at(task, rank * each + b->done), own + rank * b->block, b->block);
    return status;
}

static weir_status alltoall_bruck_run(weiri_coll *coll, const weiri_task *task)
{
    bruck b = {.done = 0};
    weir_status status = weiri_internode_coll_begin(coll, task, &b.x);
    size_t most = ROUND_BYTES / ((size_t)coll->nranks * (size_t)b.x.internode->most);
    most = most < WEIR_LINE_BYTES ? WEIR_LINE_BYTES : most / WEIR_LINE_BYTES * WEIR_LINE_BYTES;
    b.x.unit_bytes = 1;
    for (; status == WEIR_OK && b.done < task->count_bytes; b.done += b.block) {
        b.block = weiri_least(task->count_bytes - b.done, most);
        status = bruck_round(&b);
    }
    return weiri_internode_coll_end(&b.x, status);
}

const weiri_algo weiri_net_alltoall_bruck_row = {
    .info = {WEIRI_NET_TRAITS(ALLTOALL, "bruck",
                              "leaders by Bruck's algorithm; small sizes, many nodes")},
    .run = alltoall_bruck_run,
    .gpu_phases_from = SIZE_MAX,
};
