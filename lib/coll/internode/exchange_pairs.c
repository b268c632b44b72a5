/*
 * alltoall, alltoallv and sendrecv across nodes, and broadcast and allgather with one rank on each
 * node: each pair of ranks on different nodes exchanges
 * messages, as many as its block needs, and one for an empty block; meanwhile pairs within a node
 * use the node's own collective. The first message of a block has its length, which the receiver
 * compares with its own.
 *
 * Short blocks of alltoallv are sent in bundles (bundle.h), which also hold the lengths of long
 * blocks. Until the bundles are read it is unknown whether a sender's first message belongs to this
 * call, so messages of pairs are not read before.
 *
 * On GPUs blocks to and from other nodes are in host memory (staged.c); the others stay where they
 * are and are exchanged by the node's GPUs.
 */
#include "compute/copy.h"
#include "coll/internode/bundle.h"
#include "coll/internode/pairs_in_node.h"

#include <string.h>

typedef struct pairs {
    weiri_internode_coll x;
    weiri_bundles bundles; /* of alltoallv */
    int known;             /* the bundles have been read, or there are none */
    weiri_progress *of;    /* of each rank: bytes sent and received, what is left */
} pairs;

/* Sends as much as there is room for; sets *moved if anything was sent. A block that fits into one
 * message is only posted: the next poll sends the posted blocks of all ranks, with one check for
 * arrivals. */
static weir_status pairs_send(pairs *p, int rank, int *moved)
{
    const weiri_pair *pair = &p->x.task->pairs[rank];
    weiri_internode *internode = p->x.internode;
    const size_t total = weiri_block_bytes(p->x.task, rank, p->x.coll->nranks, 0);
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && p->of[rank].sends &&
           weiri_internode_has_room(&internode->peers[rank])) {
        size_t bytes = weiri_least(pair->send_bytes - p->of[rank].sent, internode->slot_bytes);
        const char *from = pair->from + p->of[rank].sent;
        if (weiri_internode_is_direct(internode, bytes)) {
            status = weiri_internode_post(internode, rank, from, bytes, total);
        } else {
            weiri_copy(weiri_internode_outgoing(internode, rank), from, bytes);
            status = weiri_internode_post(internode, rank, NULL, bytes, total);
        }
        p->of[rank].sent += bytes;
        p->of[rank].sends = p->of[rank].sent < pair->send_bytes;
        *moved = 1;
    }
    return status;
}

/* Has the rest of a long block arrive in place. The first message of another node's leader to this
 * one's may be a bundle, as long as that is not known. */
static void pairs_expect(const pairs *p, int rank)
{
    const weiri_pair *pair = &p->x.task->pairs[rank];
    size_t left = pair->recv_bytes - p->of[rank].received;
    if (p->known && weiri_internode_is_direct(p->x.internode, left))
        weiri_internode_expect(p->x.internode, rank, pair->to + p->of[rank].received, left);
}

static weir_status pairs_receive(pairs *p, int rank, int *moved)
{
    const weiri_pair *pair = &p->x.task->pairs[rank];
    weiri_internode *internode = p->x.internode;
    const size_t total = weiri_block_bytes(p->x.task, rank, p->x.coll->nranks, 1);
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && p->of[rank].receives &&
           weiri_internode_has_arrived(&internode->peers[rank])) {
        const char *data = weiri_internode_incoming(internode, rank);
        const weiri_internode_head *head = weiri_internode_head_of(data);
        if (head->total_bytes != total || head->bytes > pair->recv_bytes - p->of[rank].received)
            return weiri_coll_mismatch(p->x.coll, p->x.task, p->x.phase, rank, head->total_bytes);
        if (!weiri_internode_landed(internode, rank))
            weiri_copy(pair->to + p->of[rank].received, data, head->bytes);
        p->of[rank].received += head->bytes;
        p->of[rank].receives = p->of[rank].received < pair->recv_bytes;
        status = weiri_internode_take(internode, rank);
        *moved = 1;
    }
    if (status == WEIR_OK && p->of[rank].receives)
        pairs_expect(p, rank);
    return status;
}

/* One round over the ranks of other nodes. *missing becomes one that has not finished, or -1. */
static weir_status pairs_move(pairs *p, int *moved, int *missing)
{
    int n = p->x.coll->nranks, to = p->x.coll->rank, from = to;
    *missing = -1;
    for (int step = 1; step < n; step++) {
        to = weiri_next(to, n);
        from = weiri_previous(from, n);
        weir_status status = pairs_send(p, to, moved);
        if (status == WEIR_OK && p->known)
            status = pairs_receive(p, from, moved);
        if (status != WEIR_OK)
            return status;
        if (p->of[to].sends)
            *missing = to;
        if (p->of[from].receives)
            *missing = from;
    }
    return WEIR_OK;
}

static weir_status pairs_await_peer(pairs *p, weiri_waiter *waiter, int rank)
{
    const weiri_internode_peer *peer = &p->x.internode->peers[rank];
    const uint64_t *word = p->of[rank].receives ? &peer->words->arrived : &peer->words->consumed;
    uint64_t target = p->of[rank].receives ? peer->taken + 1 : weiri_internode_room_at(peer);
    return weiri_comm_idle_for(p->x.host->comm, waiter, word, target, rank, p->x.phase);
}

/* Copies the blocks of the bundles to their destinations; compares the lengths of all blocks. */
static weir_status pairs_unpack(pairs *p)
{
    weiri_block_info *blocks = WEIRI_STACK_ARRAY(weiri_block_info, p->x.coll->nranks);
    weiri_bundles_read(&p->bundles, blocks);
    for (int rank = 0; rank < p->x.coll->nranks; rank++) {
        const weiri_pair *pair = &p->x.task->pairs[rank];
        if (!weiri_internode_is_remote(p->x.internode, rank) || !blocks[rank].known)
            continue;
        if (blocks[rank].bytes != pair->recv_bytes)
            return weiri_coll_mismatch(p->x.coll, p->x.task, p->x.phase, rank, blocks[rank].bytes);
        if (blocks[rank].data) {
            weiri_copy(pair->to, blocks[rank].data, pair->recv_bytes);
            p->of[rank].receives = 0;
        }
    }
    weiri_bundles_end(&p->bundles);
    p->known = 1;
    return WEIR_OK;
}

/* Reads the bundles if they have arrived, and sends and receives what is possible; sets *done if
 * nothing is left to do, and pauses if nothing moved. */
static weir_status pairs_advance(pairs *p, weiri_waiter *waiter, int *done)
{
    int moved = 0, ready = 0, missing = -1;
    weir_status status = WEIR_OK;
    if (!p->known)
        status = weiri_bundles_look(&p->bundles, &moved, &ready);
    if (status == WEIR_OK && ready)
        status = pairs_unpack(p);
    if (status == WEIR_OK)
        status = pairs_move(p, &moved, &missing);
    *done = p->known && missing < 0;
    if (status != WEIR_OK || *done || moved || ready)
        return status;
    return p->known ? pairs_await_peer(p, waiter, missing)
                    : weiri_bundles_idle(&p->bundles, waiter);
}

/* Sends the bundles, and lists the pairs that need separate messages. */
static weir_status pairs_begin(pairs *p)
{
    const weiri_coll *coll = p->x.coll;
    weiri_bundles_init(&p->bundles, &p->x);
    p->known = p->x.task->call->collective != WEIR_COLL_ALLTOALLV || !p->bundles.most ||
               p->x.task->memory == WEIRI_TASK_OF_OTHER_NODES;
    p->of = coll->progress;
    for (int rank = 0; rank < coll->nranks; rank++) {
        const weiri_pair *pair = &p->x.task->pairs[rank];
        int is_remote = weiri_internode_is_remote(p->x.internode, rank);
        int has_messages = p->known || !weiri_bundles_takes(&p->bundles, pair->send_bytes);
        p->of[rank] = (weiri_progress){.sends = is_remote && has_messages && pair->sends,
                                       .receives = is_remote && pair->receives};
    }
    return p->known ? WEIR_OK : weiri_bundles_send(&p->bundles);
}

/* Ranks that share a core take turns after each sendrecv, even if a rank has not waited in it.
 * Otherwise one that finds two messages makes two calls in its turn, the rank that it sends to does
 * the same, and so on: every second call is short, and the others take twice their time. */
static void pairs_take_turns(const pairs *p, uint64_t idles)
{
    const weir_comm *host = p->x.host->comm;
    if (p->x.task->call->collective == WEIR_COLL_SENDRECV && host->oversubscribed &&
        host->idles == idles)
        weir_relax();
}

weir_status weiri_internode_coll_run_pairs(weiri_coll *coll, const weiri_task *task)
{
    pairs p;
    int moved = 0, missing = -1;
    weiri_waiter waiter = {.polls = {0, 0}};
    weir_status status = weiri_internode_coll_begin(coll, task, &p.x);
    if (status != WEIR_OK)
        return status;
    const uint64_t idles = p.x.host->comm->idles;
    status = pairs_begin(&p);
    if (status == WEIR_OK)
        status = pairs_move(&p, &moved, &missing);
    weiri_internode_poll(p.x.internode);
    if (status == WEIR_OK && task->memory != WEIRI_TASK_OF_OTHER_NODES)
        status = weiri_pairs_in_node(&p.x);
    if (status == WEIR_OK && !p.known)
        status = weiri_bundles_begin(&p.bundles);
    for (int done = p.known && missing < 0; status == WEIR_OK && !done;)
        status = pairs_advance(&p, &waiter, &done);
    weiri_comm_idle_end(p.x.host->comm, &waiter);
    pairs_take_turns(&p, idles);
    weiri_internode_expect_nothing(p.x.internode);
    status = weiri_internode_coll_end(&p.x, status);
    if (status != WEIR_OK)
        weiri_internode_forget(p.x.internode);
    return status;
}

const weiri_algo weiri_net_alltoall_pairs_row = {
    .info = {WEIRI_NET_TRAITS(ALLTOALL, "pairs", "messages between pairs of ranks")},
    .run = weiri_internode_coll_run_pairs,
};

const weiri_algo weiri_net_alltoallv_pairs_row = {
    .info = {WEIRI_NET_TRAITS(ALLTOALLV, "pairs",
                              "messages between pairs of ranks, short blocks of two nodes in one")},
    .run = weiri_internode_coll_run_pairs,
};

const weiri_algo weiri_net_sendrecv_pairs_row = {
    .info = {WEIRI_NET_TRAITS(SENDRECV, "pairs", "messages between pairs of ranks")},
    .run = weiri_internode_coll_run_pairs,
};
