/*
 * Allreduce of long messages on many nodes, by two binary trees: each node reduces and scatters;
 * along every rail each half of the partial result is reduced up one tree and broadcast down it,
 * in messages that follow each other; each node gathers.
 *
 * Trees. Positions 0 to nodes - 1 form a binary tree in which inner positions are odd and leaves
 * are even. In the first tree a node's position is its number, in the second one the next number:
 * so a node (with an odd number of nodes: all but one) that is a leaf of one tree is an inner node
 * of the other, and each rank sends and receives about twice its data in all, as around a ring, but
 * with latencies that grow by the logarithm of nodes (Sanders, Speck, Traeff 2009).
 *
 * Messages between two ranks can belong to either tree and direction; total_bytes of their heads
 * says to which. Every message can be consumed at once: an inner position combines left child, own
 * data, right child in this order, and keeps a copy of data that the right child sends early. So no
 * message waits behind another one, and the result does not depend on the order of arrival.
 */
#include "coll/internode/transfer.h"

#include "compute/copy.h"

enum {
    TREES = 2,
    CHILDREN = 2,
    PEERS_MOST = TREES * (CHILDREN + 1),
    CHUNKS = 8,         /* messages of a tree's half, unless they were too short or too long */
    LEAST_BYTES = 8192, /* of such a message */
};

typedef enum direction { UP, DOWN } direction;

/* One tree as this rank sees it, and its progress in bytes. */
typedef struct tree {
    int parent, child[CHILDREN]; /* ranks, or WEIRI_NOBODY */
    char *data, *aside;          /* this tree's half; and what came early from the right child */
    size_t bytes;
    size_t arrived[CHILDREN], combined[CHILDREN]; /* from the children */
    size_t sent_up, complete, sent_down[CHILDREN];
} tree;

typedef struct trees {
    weiri_internode_coll *x;
    size_t chunk;
    tree of[TREES];
    int peers[PEERS_MOST], npeers;
} trees;

/* -------------------------------------------------------------------- the trees */

/* The top of the positions [low, high): its left part is complete and as large as possible. */
static int tree_top(int low, int high)
{
    int left = high - low > 1 ? 1 : 0;
    while (left && 2 * left + 1 < high - low)
        left = 2 * left + 1;
    return low + left;
}

/* Finds the parent and the children of a position among n; -1: none. */
static void tree_find(int position, int n, int *parent, int child[CHILDREN])
{
    int low = 0, high = n, top = tree_top(0, n);
    *parent = -1;
    while (top != position) {
        *parent = top;
        if (position < top)
            high = top;
        else
            low = top + 1;
        top = tree_top(low, high);
    }
    child[0] = low < top ? tree_top(low, top) : -1;
    child[1] = top + 1 < high ? tree_top(top + 1, high) : -1;
}

/* The rank at a position of tree number t. */
static int trees_rank_at(const trees *r, int t, int position)
{
    int n = r->x->internode->nnodes;
    return position < 0 ? WEIRI_NOBODY : weiri_group_rank(r->x, (position + n - t) % n);
}

static void trees_add_peer(trees *r, int rank)
{
    int i = 0;
    while (i < r->npeers && r->peers[i] != rank)
        i++;
    if (i == r->npeers && rank != WEIRI_NOBODY)
        r->peers[r->npeers++] = rank;
}

/* Divides this rail's part among the trees, and finds this rank's neighbours. */
static weir_status trees_plan(trees *r, char *part, size_t count)
{
    char *aside = NULL;
    int n = r->x->internode->nnodes, node = r->x->internode->node;
    size_t each = r->x->task->element_bytes, line = WEIR_LINE_BYTES;
    weir_status status = weiri_internode_coll_scratch(r->x, count * each, &aside);
    for (int t = 0; t < TREES && status == WEIR_OK; t++) {
        weiri_share share = weiri_parts_share(count, t, TREES);
        tree *of = &r->of[t];
        *of = (tree){.data = part + share.first * each,
                     .aside = aside + share.first * each,
                     .bytes = share.count * each};
        tree_find((node + t) % n, n, &of->parent, of->child);
        of->parent = trees_rank_at(r, t, of->parent);
        trees_add_peer(r, of->parent);
        for (int i = 0; i < CHILDREN; i++) {
            of->child[i] = trees_rank_at(r, t, of->child[i]);
            trees_add_peer(r, of->child[i]);
        }
    }
    size_t most = weiri_internode_coll_elements(r->x) * each;
    r->chunk = (count * each / TREES / CHUNKS + line - 1) / line * line;
    r->chunk = r->chunk < LEAST_BYTES ? LEAST_BYTES : r->chunk;
    r->chunk = weiri_least(r->chunk, most);
    return status;
}

/* ------------------------------------------------------------------ combination */

static void tree_combine(const trees *r, tree *of, int i, const char *data, size_t bytes)
{
    char *own = of->data + of->combined[i];
    const void *parts[2] = {i == 0 ? data : own, i == 0 ? own : data};
    int is_last = of->parent == WEIRI_NOBODY && (i == 1 || of->child[1] == WEIRI_NOBODY);
    weiri_reduce(own, parts, 2, bytes / r->x->task->element_bytes, r->x->task->call->dtype,
                 is_last ? r->x->task->call->op : r->x->op, (uint64_t)r->x->coll->nranks, 0);
    of->combined[i] += bytes;
}

/* How far the data are combined with the data of all children, or of the left child only. */
static size_t tree_ready(const tree *of, int children)
{
    size_t ready = of->bytes;
    for (int i = 0; i < children; i++)
        if (of->child[i] != WEIRI_NOBODY)
            ready = weiri_least(ready, of->combined[i]);
    return ready;
}

/* Takes a partial result from a child. */
static void tree_accept(const trees *r, tree *of, int i, const char *data, size_t bytes)
{
    size_t at = of->arrived[i];
    of->arrived[i] += bytes;
    if (i == 0 || (of->combined[1] == at && at + bytes <= tree_ready(of, 1)))
        tree_combine(r, of, i, data, bytes);
    else
        weiri_copy(of->aside + at, data, bytes);
    size_t late = weiri_least(of->arrived[1], tree_ready(of, 1));
    if (of->child[1] != WEIRI_NOBODY && late > of->combined[1])
        tree_combine(r, of, 1, of->aside + of->combined[1], late - of->combined[1]);
    if (of->parent == WEIRI_NOBODY)
        of->complete = tree_ready(of, CHILDREN);
}

/* --------------------------------------------------------------------- messages */

/* Whether everything of a tree and direction has arrived from a peer. */
static int is_complete(const trees *r, int rank, int tag)
{
    const tree *of = &r->of[tag / 2];
    if (tag % 2 == DOWN)
        return rank != of->parent || of->complete == of->bytes;
    for (int i = 0; i < CHILDREN; i++)
        if (rank == of->child[i])
            return of->arrived[i] == of->bytes;
    return 1;
}

static weir_status trees_receive(trees *r, int rank, int *moved)
{
    weiri_internode *internode = r->x->internode;
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && weiri_internode_has_arrived(&internode->peers[rank])) {
        const char *data = weiri_internode_incoming(internode, rank);
        const weiri_internode_head *head = weiri_internode_head_of(data);
        if (head->total_bytes >= 2 * TREES || is_complete(r, rank, (int)head->total_bytes))
            return WEIR_OK; /* of the peer's next call */
        tree *of = &r->of[head->total_bytes / 2];
        if (head->total_bytes % 2 == DOWN) {
            weiri_copy(of->data + of->complete, data, head->bytes);
            of->complete += head->bytes;
        } else {
            tree_accept(r, of, rank == of->child[0] ? 0 : 1, data, head->bytes);
        }
        status = weiri_internode_take(internode, rank);
        *moved = 1;
    }
    return status;
}

/* Sends a rank what is ready of a tree's data, beyond *sent. */
static weir_status trees_send(trees *r, int t, direction way, int rank, size_t ready, size_t *sent,
                              int *moved)
{
    weiri_internode *internode = r->x->internode;
    const tree *of = &r->of[t];
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && rank != WEIRI_NOBODY && *sent < ready &&
           (ready - *sent >= r->chunk || ready == of->bytes) &&
           weiri_internode_has_room(&internode->peers[rank])) {
        size_t bytes = weiri_least(r->chunk, ready - *sent);
        weiri_copy(weiri_internode_outgoing(internode, rank), of->data + *sent, bytes);
        status = weiri_internode_send(internode, rank, bytes, (uint64_t)t * 2 + way);
        *sent += bytes;
        *moved = 1;
    }
    return status;
}

/* Sends and receives what is possible. *missing becomes a rank with which something is left to do,
 * or WEIRI_NOBODY. */
static weir_status trees_move(trees *r, int *moved, int *missing)
{
    weir_status status = WEIR_OK;
    *missing = WEIRI_NOBODY;
    for (int i = 0; i < r->npeers && status == WEIR_OK; i++)
        status = trees_receive(r, r->peers[i], moved);
    for (int t = 0; t < TREES && status == WEIR_OK; t++) {
        tree *of = &r->of[t];
        status = trees_send(r, t, UP, of->parent, tree_ready(of, CHILDREN), &of->sent_up, moved);
        for (int i = 0; i < CHILDREN && status == WEIR_OK; i++) {
            status = trees_send(r, t, DOWN, of->child[i], of->complete, &of->sent_down[i], moved);
            if (of->child[i] != WEIRI_NOBODY && of->sent_down[i] < of->bytes)
                *missing = of->child[i];
        }
        if (of->parent != WEIRI_NOBODY && (of->sent_up < of->bytes || of->complete < of->bytes))
            *missing = of->parent;
        for (int i = 0; i < CHILDREN; i++)
            if (of->child[i] != WEIRI_NOBODY && of->arrived[i] < of->bytes)
                *missing = of->child[i];
    }
    return status;
}

static weir_status trees_along_rail(weiri_internode_coll *x, char *part, size_t count)
{
    trees r = {.x = x};
    weiri_waiter waiter = {.polls = {0, 0}};
    int missing = WEIRI_NOBODY;
    weir_status status = trees_plan(&r, part, count);
    while (status == WEIR_OK) {
        int moved = 0;
        status = trees_move(&r, &moved, &missing);
        if (status != WEIR_OK || missing == WEIRI_NOBODY)
            break;
        if (moved)
            continue;
        const weiri_internode_peer *peer = &x->internode->peers[missing];
        status = weiri_comm_idle_for(x->host->comm, &waiter, &peer->words->arrived, peer->taken + 1,
                                     missing, x->phase);
    }
    weiri_comm_idle_end(x->host->comm, &waiter);
    return status;
}

static weir_status allreduce_trees_run(weiri_coll *coll, const weiri_task *task)
{
    return weiri_parts_allreduce(coll, task, trees_along_rail);
}

const weiri_algo weiri_net_allreduce_trees_row = {
    .info = {WEIRI_NET_TRAITS(ALLREDUCE, "trees", "rails up and down two binary trees; many nodes"),
             .rounding = WEIR_ROUNDING_PER_NODE, .in_order = "packet"},
    .run = allreduce_trees_run,
    .gpu_phases_from = SIZE_MAX,
};
