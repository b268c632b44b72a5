/*
 * Sends and receives moved by the host: the calling thread moves the messages of all pairs in turn
 * until all have completed, so their order in a group does not matter.
 *
 * A message to a rank of this node is lent from the length on at which a sendrecv lends its data,
 * if the peer can map the buffer or the kernel may copy from it. The sender alone decides. A sender
 * that receives nothing has time to store pieces while the receiver copies earlier ones, which for
 * long messages takes less time than the kernel's copy.
 */
#include "nccl/p2p/p2p_host.h"

#include "base/error.h"
#include "coll/coll.h"
#include "compute/copy.h"

#include <stdlib.h>
#include <string.h>

/* One direction of a pair: the current call and its progress. */
typedef struct host_flow {
    const weiri_nccl_call *call; /* NULL: all done */
    size_t next;                 /* where the search for the next call begins */
    uint64_t at;                 /* bytes of it that have been moved */
    weiri_desc lent;             /* send: where its data are; generation 0: pieces have them */
    weiri_p2p_awaited readers;   /* send: shows that lent messages have been read; word NULL: they
                                  * have */
} host_flow;

typedef struct host_exchange {
    weiri_nccl_comm *comm;
    weiri_coll *coll; /* of this node's ranks; NULL: all peers are on other nodes */
    const weiri_nccl_call *calls;
    size_t count;
    int receives;     /* whether this rank has any receives */
    host_flow *flows; /* [peer][0: send, 1: receive] */
} host_exchange;

/* Longer messages of a rank that receives nothing are not lent to the kernel's copies
 * (docs/performance/host-collectives.md). */
enum { ONE_WAY_LENT_BYTES = 1 << 20 };

/* Whether this rank would rather lend unregistered memory than copy it into the mailbox. */
static int lends_unregistered(const host_exchange *x, uint64_t bytes)
{
    if (bytes > ONE_WAY_LENT_BYTES && !x->receives && !x->coll->comm->oversubscribed)
        return 0;
    return weiri_lends_unregistered(x->coll, WEIR_COLL_SENDRECV);
}

/* Where a message is for its receiver, if it is to be lent; else generation 0. */
static weiri_desc describe_lent(const host_exchange *x, const weiri_nccl_call *call, int peer)
{
    const weiri_desc none = {0, 0, 0};
    const uint64_t bytes = weiri_p2p_bytes_of(call);
    if (!x->coll || !weiri_p2p_transport_to(x->comm, peer)->all_taken ||
        bytes < x->coll->cma_from_bytes[WEIR_COLL_SENDRECV])
        return none;
    weiri_desc desc = weiri_describe(x->coll, call->call.in, bytes, WEIRI_LENDS_ANY);
    if (desc.generation == WEIRI_GENERATION_UNREGISTERED && !lends_unregistered(x, bytes))
        return none;
    return desc;
}

static void flow_next_call(const host_exchange *x, host_flow *f, int sends, int peer)
{
    f->call = weiri_p2p_next_call(x->calls, x->count, sends, peer, &f->next);
    f->at = 0;
    if (f->call && sends)
        f->lent = describe_lent(x, f->call, peer);
}

/* Length of the next piece of a message; an empty message has one empty piece. */
static uint64_t next_piece_bytes(const host_exchange *x, const weiri_p2p_transport *transport,
                                 const host_flow *f, weiri_desc lent)
{
    uint64_t left = weiri_p2p_bytes_of(f->call) - f->at,
             most = lent.generation ? WEIRI_P2P_LENT_BYTES : transport->piece_bytes(x->comm);
    return left < most ? left : most;
}

/* Accounts for a piece that was moved. */
static void flow_advance(const host_exchange *x, host_flow *f, int peer, uint64_t bytes)
{
    f->at += bytes;
    if (f->at == weiri_p2p_bytes_of(f->call))
        flow_next_call(x, f, weiri_nccl_sends(f->call), peer);
}

/* Copies into a mailbox, which the peer's core reads, or into a message. */
static void copy_out(const host_exchange *x, int peer, char *to, const char *from, uint64_t bytes)
{
    if (weiri_p2p_is_remote(x->comm, peer))
        memcpy(to, from, bytes);
    else
        weiri_copy_to_peer(to, from, bytes);
}

static weir_status flow_send(const host_exchange *x, host_flow *f, int peer, int *moved)
{
    const weiri_p2p_transport *transport = weiri_p2p_transport_to(x->comm, peer);
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && f->call && transport->has_room(x->comm, peer)) {
        const weiri_p2p_head head = {weiri_p2p_bytes_of(f->call), f->lent};
        uint64_t bytes = next_piece_bytes(x, transport, f, head.lent);
        if (bytes && !head.lent.generation)
            copy_out(x, peer, transport->outgoing(x->comm, peer),
                     (const char *)f->call->call.in + f->at, bytes);
        status = transport->post(x->comm, peer, bytes, head);
        if (head.lent.generation) {
            x->comm->p2p->lent += f->at == 0;
            f->readers = transport->all_taken(x->comm, peer);
        }
        flow_advance(x, f, peer, bytes);
        *moved = 1;
    }
    if (f->readers.word && weir_load_acquire(f->readers.word) >= f->readers.target) {
        f->readers.word = NULL;
        *moved = 1;
    }
    return status;
}

/* Whether anything is left to do in a direction. */
static int flow_is_left(const host_flow *f)
{
    return f->call || f->readers.word;
}

static weir_status fail_length(const host_exchange *x, int peer, uint64_t expected, uint64_t seen)
{
    weiri_fail(WEIR_ERR_MISMATCH,
               "rank %d receives %llu bytes from rank %d, which sends %llu; counts must match",
               x->comm->rank, (unsigned long long)expected, peer, (unsigned long long)seen);
    return weiri_comm_give_up(x->comm->comm, WEIR_ERR_MISMATCH);
}

/* Copies a piece of a lent message. If the communicator was aborted meanwhile, the sender may have
 * returned and used its buffer for something else. */
static weir_status fetch_lent(const host_exchange *x, const host_flow *f, int peer, weiri_desc lent,
                              uint64_t bytes)
{
    const uint64_t never = 0;
    weir_comm *node = x->coll->comm;
    const int rank = weiri_comm_node_rank(x->comm->comm, peer);
    weir_status status = weiri_fetch(x->coll, rank, lent, f->at, (char *)f->call->call.out + f->at,
                                     bytes, weiri_p2p_bytes_of(f->call) * (size_t)x->coll->nranks);
    const int is_aborted = weir_load_acquire(node->guard.abort_word) != 0;
    if (WEIRI_LIKELY(status == WEIR_OK && !is_aborted))
        return WEIR_OK;
    if (status == WEIR_OK || (!is_aborted && weiri_comm_is_dead(node, rank)))
        return weiri_comm_wait_slow(node, &never, 1, rank, "receive"); /* reports the reason */
    return is_aborted ? status : weiri_comm_give_up(x->comm->comm, status);
}

static weir_status flow_receive(const host_exchange *x, host_flow *f, int peer, int *moved)
{
    const weiri_p2p_transport *transport = weiri_p2p_transport_to(x->comm, peer);
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && f->call && transport->has_arrived(x->comm, peer)) {
        weiri_p2p_head head;
        const char *data = transport->incoming(x->comm, peer, &head);
        uint64_t bytes = next_piece_bytes(x, transport, f, head.lent),
                 expected = weiri_p2p_bytes_of(f->call);
        if (head.message_bytes != expected)
            return fail_length(x, peer, expected, head.message_bytes);
        if (head.lent.generation)
            status = fetch_lent(x, f, peer, head.lent, bytes);
        else if (bytes)
            weiri_copy_from_peer((char *)f->call->call.out + f->at, data, bytes);
        if (status != WEIR_OK)
            return status;
        status = transport->take(x->comm, peer);
        flow_advance(x, f, peer, bytes);
        *moved = 1;
        /* The peer may wait for the next piece of this rank's message, which takes little time. */
        if (head.lent.generation)
            break;
    }
    return status;
}

/* One round over all peers; *left: how many directions are not done. */
static weir_status move_round(const host_exchange *x, int *moved, int *left)
{
    weir_status status = WEIR_OK;
    *left = 0;
    for (int peer = 0; peer < x->comm->nranks && status == WEIR_OK; peer++) {
        host_flow *out = &x->flows[2 * peer], *in = &x->flows[2 * peer + 1];
        if (flow_is_left(out))
            status = flow_send(x, out, peer, moved);
        if (in->call && status == WEIR_OK)
            status = flow_receive(x, in, peer, moved);
        *left += flow_is_left(out) + flow_is_left(in);
    }
    return status;
}

/* Picks a direction that is not done, a different one each time, so that the death of any peer is
 * detected. Returns twice the peer, plus 1 for receiving. */
static int pick_direction(const host_exchange *x, const weiri_waiter *waiter, int left)
{
    int which = (int)(waiter->polls.polls / WEIRI_POLLS_PER_LIFE_CHECK % (uint64_t)left);
    for (int i = 0; i < 2 * x->comm->nranks; i++)
        if (flow_is_left(&x->flows[i]) && which-- == 0)
            return i;
    return 0;
}

/* The communicator to wait in: the host sub-communicator of this node. */
static weir_comm *host_comm_of(const host_exchange *x)
{
    weir_comm *parent = x->comm->comm;
    return parent->host_comm ? parent->host_comm : parent;
}

static weir_status wait_idle(const host_exchange *x, weiri_waiter *waiter, int left)
{
    const int one = pick_direction(x, waiter, left), peer = one / 2, receives = one % 2;
    const weiri_p2p_transport *transport = weiri_p2p_transport_to(x->comm, peer);
    weiri_p2p_awaited what = x->flows[one].readers;
    if (x->flows[one].call)
        what = receives ? transport->arrival(x->comm, peer) : transport->room(x->comm, peer);
    return weiri_comm_idle_for(host_comm_of(x), waiter, what.word, what.target, peer,
                               receives ? "receive" : "send");
}

static weir_status move_all(const host_exchange *x)
{
    static const weiri_waiter fresh = {.is_for_one = 1};
    weiri_internode *internode = x->comm->comm->internode;
    weiri_waiter waiter = fresh;
    for (int left = 1; left > 0;) {
        int moved = 0;
        weir_status status = move_round(x, &moved, &left);
        if (status == WEIR_OK && !moved && left > 0)
            status = wait_idle(x, &waiter, left);
        if (status != WEIR_OK)
            return status;
        if (!moved)
            continue;
        weiri_comm_idle_end(host_comm_of(x), &waiter);
        waiter = fresh; /* the deadline applies to a time in which nothing moves */
        if (internode)
            weiri_internode_poll(internode);
    }
    return internode ? weiri_internode_flush(internode, "send") : WEIR_OK;
}

weir_status weiri_p2p_run_on_host(weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count)
{
    host_exchange x = {.comm = comm, .calls = calls, .count = count};
    if (comm->device < 0 && comm->p2p->count > 1) {
        weir_status got = weiri_coll_get(comm->p2p->node, &x.coll);
        if (got != WEIR_OK)
            return got;
    }
    x.flows = calloc((size_t)comm->nranks * 2, sizeof *x.flows);
    if (!x.flows)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for sends and receives");
    for (int sends = 0; sends < 2; sends++)
        for (int peer = 0; peer < comm->nranks; peer++)
            if (weiri_p2p_is_moved_by_host(comm, peer)) {
                host_flow *f = &x.flows[2 * peer + !sends];
                flow_next_call(&x, f, sends, peer);
                x.receives |= !sends && f->call;
            }
    weir_status status = move_all(&x);
    free(x.flows);
    return status;
}
