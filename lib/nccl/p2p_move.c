/*
 * Sends and receives moved by the host: the calling thread moves the messages of all pairs in turn
 * until all have completed, so their order in a group does not matter.
 */
#include "nccl/p2p_host.h"

#include "base/error.h"
#include "compute/copy.h"

#include <stdlib.h>
#include <string.h>

/* One direction of a pair: the current call and its progress. */
typedef struct host_flow {
    const weiri_nccl_call *call; /* NULL: all done */
    size_t next;                 /* where the search for the next call begins */
    uint64_t at;                 /* bytes of it that have been moved */
} host_flow;

typedef struct host_exchange {
    weiri_nccl_comm *comm;
    const weiri_nccl_call *calls;
    size_t count;
    host_flow *flows; /* [peer][0: send, 1: receive] */
} host_exchange;

static void flow_next_call(const host_exchange *x, host_flow *f, int sends, int peer)
{
    f->call = weiri_p2p_next_call(x->calls, x->count, sends, peer, &f->next);
    f->at = 0;
}

/* Length of the next piece of a message; an empty message has one empty piece. */
static uint64_t next_piece_bytes(const host_exchange *x, const weiri_p2p_transport *transport,
                                 const host_flow *f)
{
    uint64_t left = weiri_p2p_bytes_of(f->call) - f->at, most = transport->piece_bytes(x->comm);
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
        uint64_t bytes = next_piece_bytes(x, transport, f);
        if (bytes)
            copy_out(x, peer, transport->outgoing(x->comm, peer),
                     (const char *)f->call->call.in + f->at, bytes);
        status = transport->post(x->comm, peer, bytes, weiri_p2p_bytes_of(f->call));
        flow_advance(x, f, peer, bytes);
        *moved = 1;
    }
    return status;
}

static weir_status fail_length(const host_exchange *x, int peer, uint64_t expected, uint64_t seen)
{
    weiri_fail(WEIR_ERR_MISMATCH,
               "rank %d receives %llu bytes from rank %d, which sends %llu; counts must match",
               x->comm->rank, (unsigned long long)expected, peer, (unsigned long long)seen);
    return weiri_comm_give_up(x->comm->comm, WEIR_ERR_MISMATCH);
}

static weir_status flow_receive(const host_exchange *x, host_flow *f, int peer, int *moved)
{
    const weiri_p2p_transport *transport = weiri_p2p_transport_to(x->comm, peer);
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && f->call && transport->has_arrived(x->comm, peer)) {
        uint64_t bytes = next_piece_bytes(x, transport, f), expected = weiri_p2p_bytes_of(f->call),
                 seen;
        const char *data = transport->incoming(x->comm, peer, &seen);
        if (seen != expected)
            return fail_length(x, peer, expected, seen);
        if (bytes)
            weiri_copy_from_peer((char *)f->call->call.out + f->at, data, bytes);
        status = transport->take(x->comm, peer);
        flow_advance(x, f, peer, bytes);
        *moved = 1;
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
        if (out->call)
            status = flow_send(x, out, peer, moved);
        if (in->call && status == WEIR_OK)
            status = flow_receive(x, in, peer, moved);
        *left += (out->call != NULL) + (in->call != NULL);
    }
    return status;
}

/* Picks a direction that is not done, a different one each time, so that the death of any peer is
 * detected. Returns twice the peer, plus 1 for receiving. */
static int pick_direction(const host_exchange *x, const weiri_waiter *waiter, int left)
{
    int which = (int)(waiter->polls.polls / WEIRI_POLLS_PER_LIFE_CHECK % (uint64_t)left);
    for (int i = 0; i < 2 * x->comm->nranks; i++)
        if (x->flows[i].call && which-- == 0)
            return i;
    return 0;
}

/* The communicator to wait in: that of host memory on this node. */
static weir_comm *host_comm_of(const host_exchange *x)
{
    weir_comm *parent = x->comm->comm;
    return parent->host_comm ? parent->host_comm : parent;
}

static weir_status wait_idle(const host_exchange *x, weiri_waiter *waiter, int left)
{
    const int one = pick_direction(x, waiter, left), peer = one / 2, receives = one % 2;
    const weiri_p2p_transport *transport = weiri_p2p_transport_to(x->comm, peer);
    weiri_p2p_awaited what =
        receives ? transport->arrival(x->comm, peer) : transport->room(x->comm, peer);
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
    host_exchange x = {comm, calls, count, calloc((size_t)comm->nranks * 2, sizeof(host_flow))};
    if (!x.flows)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for sends and receives");
    for (int peer = 0; peer < comm->nranks; peer++)
        if (weiri_p2p_is_moved_by_host(comm, peer)) {
            flow_next_call(&x, &x.flows[2 * peer], 1, peer);
            flow_next_call(&x, &x.flows[2 * peer + 1], 0, peer);
        }
    weir_status status = move_all(&x);
    free(x.flows);
    return status;
}
