/*
 * alltoall, alltoallv and sendrecv: each pair of ranks on two machines has messages of
 * its own, as many as its block needs, and one for an empty block; pairs inside a
 * machine exchange by its own collective meanwhile. The first message of a block says
 * its length, which both sides compare.
 *
 * Short blocks of alltoallv travel in bundles instead (bundle.h), of which a word also tells
 * a long block's length. So no message is taken as a block's before the bundles are read:
 * until then it is not known whether the sender's first message is of this call.
 *
 * On GPUs what goes to or comes from other machines is in host memory (staged.c), and the
 * rest stays where it is: blocks of this machine's ranks are exchanged by its GPUs.
 */
#include "compute/copy.h"
#include "coll/internode/bundle.h"

#include <string.h>

typedef struct pairs {
    weiri_internode_coll x;
    weiri_bundles bundles; /* alltoallv's */
    int known;             /* the bundles were read, or there are none */
    size_t sent[WEIRI_RANKS_MAX], received[WEIRI_RANKS_MAX];
    unsigned char sends[WEIRI_RANKS_MAX], receives[WEIRI_RANKS_MAX]; /* is not done yet */
} pairs;

/* What has room goes out; sets *moved if anything does. Blocks of one message go with the
 * next poll, all ranks' together: a poll for each would mostly look for what is not there. */
static weir_status send_some(pairs *p, int rank, int *moved)
{
    const weiri_pair *pair = &p->x.coll->pairs[rank];
    weiri_internode *internode = p->x.internode;
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && p->sends[rank] &&
           weiri_internode_has_room(&internode->peers[rank])) {
        size_t bytes = weiri_least(pair->send_bytes - p->sent[rank], internode->slot_bytes);
        weiri_copy(weiri_internode_outgoing(internode, rank), pair->from + p->sent[rank], bytes);
        status = pair->send_bytes <= internode->slot_bytes
                     ? weiri_internode_post(internode, rank, bytes, pair->send_bytes)
                     : weiri_internode_send(internode, rank, bytes, pair->send_bytes);
        p->sent[rank] += bytes;
        p->sends[rank] = p->sent[rank] < pair->send_bytes;
        *moved = 1;
    }
    return status;
}

static weir_status receive_some(pairs *p, int rank, int *moved)
{
    const weiri_pair *pair = &p->x.coll->pairs[rank];
    weiri_internode *internode = p->x.internode;
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && p->receives[rank] &&
           weiri_internode_has_arrived(&internode->peers[rank])) {
        const char *data = weiri_internode_incoming(internode, rank);
        const weiri_internode_head *head = weiri_internode_head_of(data);
        if (head->total_bytes != pair->recv_bytes ||
            head->bytes > pair->recv_bytes - p->received[rank])
            return weiri_coll_mismatch(p->x.coll, p->x.phase, rank, head->total_bytes);
        weiri_copy(pair->to + p->received[rank], data, head->bytes);
        p->received[rank] += head->bytes;
        p->receives[rank] = p->received[rank] < pair->recv_bytes;
        status = weiri_internode_take(internode, rank);
        *moved = 1;
    }
    return status;
}

/* A round over the ranks of other machines. missing: one that is not done, or -1. */
static weir_status move(pairs *p, int *moved, int *missing)
{
    int n = p->x.coll->nranks, to = p->x.coll->rank, from = to;
    *missing = -1;
    for (int step = 1; step < n; step++) {
        to = weiri_next(to, n);
        from = weiri_previous(from, n);
        weir_status status = send_some(p, to, moved);
        if (status == WEIR_OK && p->known)
            status = receive_some(p, from, moved);
        if (status != WEIR_OK)
            return status;
        if (p->sends[to])
            *missing = to;
        if (p->receives[from])
            *missing = from;
    }
    return WEIR_OK;
}

static weir_status await_peer(pairs *p, weiri_waiter *waiter, int rank)
{
    const weiri_internode_peer *peer = &p->x.internode->peers[rank];
    const uint64_t *word = p->receives[rank] ? &peer->words->arrived : &peer->words->consumed;
    uint64_t target = p->receives[rank] ? peer->taken + 1 : peer->sent + 1 - WEIRI_INTERNODE_SLOTS;
    return weiri_comm_idle_for(p->x.local->comm, waiter, word, target, rank, p->x.phase);
}

/* Blocks that came in bundles go where they belong, and what was told of the others is
 * compared. */
static weir_status unpack(pairs *p)
{
    weiri_told told[WEIRI_RANKS_MAX];
    weiri_bundles_read(&p->bundles, told);
    for (int rank = 0; rank < p->x.coll->nranks; rank++) {
        const weiri_pair *pair = &p->x.coll->pairs[rank];
        if (!weiri_internode_is_remote(p->x.internode, rank) || !told[rank].known)
            continue;
        if (told[rank].bytes != pair->recv_bytes)
            return weiri_coll_mismatch(p->x.coll, p->x.phase, rank, told[rank].bytes);
        if (told[rank].data) {
            weiri_copy(pair->to, told[rank].data, pair->recv_bytes);
            p->receives[rank] = 0;
        }
    }
    weiri_bundles_end(&p->bundles);
    p->known = 1;
    return WEIR_OK;
}

/* Reads the bundles if they are there, and moves what else can be; sets *done if nothing is
 * left, and pauses if nothing moved. */
static weir_status advance(pairs *p, weiri_waiter *waiter, int *done)
{
    int moved = 0, ready = 0, missing = -1;
    weir_status status = WEIR_OK;
    if (!p->known)
        status = weiri_bundles_look(&p->bundles, &moved, &ready);
    if (status == WEIR_OK && ready)
        status = unpack(p);
    if (status == WEIR_OK)
        status = move(p, &moved, &missing);
    *done = p->known && missing < 0;
    if (status != WEIR_OK || *done || moved || ready)
        return status;
    return p->known ? await_peer(p, waiter, missing) : weiri_bundles_idle(&p->bundles, waiter);
}

/* Pairs inside the machine; every local rank takes part, be there any or not. Blocks may be
 * anywhere, so the lowest of each side stand for the buffers. */
static weir_status exchange_inside(pairs *p)
{
    const weiri_internode *internode = p->x.internode;
    const weiri_node *own = &internode->nodes[internode->node];
    weir_call call = *p->x.call;
    weiri_coll *inside = NULL;
    size_t most = 0;
    weir_status status = weiri_coll_get(p->x.inside, &inside);
    if (status != WEIR_OK)
        return status;
    if (p->x.landing)
        call.collective = WEIR_COLL_ALLTOALLV; /* whose blocks GPUs look for one by one */
    call.in = NULL;
    call.out = NULL;
    for (int place = 0; place < own->count; place++) {
        const weiri_pair *pair = &p->x.coll->pairs[own->ranks[place]];
        inside->pairs[place] = *pair;
        most = pair->send_bytes > most ? pair->send_bytes : most;
        most = pair->recv_bytes > most ? pair->recv_bytes : most;
        if (pair->send_bytes && (!call.in || pair->from < (const char *)call.in))
            call.in = pair->from;
        if (pair->recv_bytes && (!call.out || pair->to < (char *)call.out))
            call.out = pair->to;
    }
    const weiri_pair *self = &inside->pairs[0];
    return own->count > 1
               ? weiri_coll_run(inside, &call, most * (size_t)own->count)
               : weiri_internode_coll_carry(&p->x, self->to, self->from, self->send_bytes);
}

/* Sends the bundles; what is left to do is then that of messages between pairs. */
static weir_status begin(pairs *p)
{
    const weiri_coll *coll = p->x.coll;
    weiri_bundles_init(&p->bundles, &p->x);
    p->known = p->x.call->collective != WEIR_COLL_ALLTOALLV || !p->bundles.most;
    memset(p->sent, 0, sizeof p->sent);
    memset(p->received, 0, sizeof p->received);
    for (int rank = 0; rank < coll->nranks; rank++) {
        const weiri_pair *pair = &coll->pairs[rank];
        int is_remote = weiri_internode_is_remote(p->x.internode, rank);
        int is_apart = p->known || !weiri_bundles_takes(&p->bundles, pair->send_bytes);
        p->sends[rank] = is_remote && is_apart && pair->sends;
        p->receives[rank] = is_remote && pair->receives;
    }
    return p->known ? WEIR_OK : weiri_bundles_send(&p->bundles);
}

weir_status weiri_internode_coll_pairs(weiri_coll *coll, const weir_call *call)
{
    pairs p;
    int moved = 0, missing = -1;
    weiri_waiter waiter = {.polls = {0, 0}};
    weir_status status = weiri_internode_coll_begin(coll, call, &p.x);
    if (status != WEIR_OK)
        return status;
    status = begin(&p);
    if (status == WEIR_OK)
        status = move(&p, &moved, &missing);
    weiri_internode_poll(p.x.internode);
    if (status == WEIR_OK)
        status = exchange_inside(&p);
    if (status == WEIR_OK && !p.known)
        status = weiri_bundles_begin(&p.bundles);
    for (int done = p.known && missing < 0; status == WEIR_OK && !done;)
        status = advance(&p, &waiter, &done);
    weiri_comm_idle_end(p.x.local->comm, &waiter);
    return weiri_internode_coll_end(&p.x, status);
}
