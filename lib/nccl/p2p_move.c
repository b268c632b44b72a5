/*
 * Sends and receives that the host moves: the calling thread moves the messages of all
 * pairs in turn until all are through, so that their order in a group does not matter.
 */
#include "nccl/p2p_host.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* One direction of a pair: the call under way and how far it is. */
typedef struct flow {
    const weiri_nccl_call *call; /* NULL: all done */
    size_t next;                 /* where to look for the one behind it */
    uint64_t at;                 /* bytes of it that were moved */
} flow;

typedef struct exchange {
    weiri_nccl_comm *comm;
    const weiri_nccl_call *calls;
    size_t count;
    flow *flows; /* [peer][sends, receives] */
} exchange;

static void advance(const exchange *x, flow *f, int sends, int peer)
{
    f->call = weiri_p2p_next_of(x->calls, x->count, sends, peer, &f->next);
    f->at = 0;
}

/* How long the next piece of a message is: of an empty one there is an empty piece. */
static uint64_t piece_of(const exchange *x, const weiri_p2p_way *way, const flow *f)
{
    uint64_t left = weiri_p2p_bytes_of(f->call) - f->at, most = way->piece_bytes(x->comm);
    return left < most ? left : most;
}

/* A piece was moved. */
static void pass(const exchange *x, flow *f, int peer, uint64_t bytes)
{
    f->at += bytes;
    if (f->at == weiri_p2p_bytes_of(f->call))
        advance(x, f, weiri_nccl_sends(f->call), peer);
}

static weir_status send_some(const exchange *x, flow *f, int peer, int *moved)
{
    const weiri_p2p_way *way = weiri_p2p_way_to(x->comm, peer);
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && f->call && way->has_room(x->comm, peer)) {
        uint64_t bytes = piece_of(x, way, f);
        if (bytes)
            memcpy(way->outgoing(x->comm, peer), (const char *)f->call->call.in + f->at, bytes);
        status = way->post(x->comm, peer, bytes, weiri_p2p_bytes_of(f->call));
        pass(x, f, peer, bytes);
        *moved = 1;
    }
    return status;
}

static weir_status refuse_length(const exchange *x, int peer, uint64_t expected, uint64_t seen)
{
    weiri_fail(WEIR_ERR_MISMATCH,
               "rank %d receives %llu bytes from rank %d, which sends %llu; counts must match",
               x->comm->rank, (unsigned long long)expected, peer, (unsigned long long)seen);
    return weiri_comm_give_up(x->comm->comm, WEIR_ERR_MISMATCH);
}

static weir_status receive_some(const exchange *x, flow *f, int peer, int *moved)
{
    const weiri_p2p_way *way = weiri_p2p_way_to(x->comm, peer);
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && f->call && way->has_arrived(x->comm, peer)) {
        uint64_t bytes = piece_of(x, way, f), expected = weiri_p2p_bytes_of(f->call), seen;
        const char *data = way->incoming(x->comm, peer, &seen);
        if (seen != expected)
            return refuse_length(x, peer, expected, seen);
        if (bytes)
            memcpy((char *)f->call->call.out + f->at, data, bytes);
        status = way->take(x->comm, peer);
        pass(x, f, peer, bytes);
        *moved = 1;
    }
    return status;
}

/* One round over all peers; *left: how many directions are not done. */
static weir_status move_some(const exchange *x, int *moved, int *left)
{
    weir_status status = WEIR_OK;
    *left = 0;
    for (int peer = 0; peer < x->comm->nranks && status == WEIR_OK; peer++) {
        flow *out = &x->flows[2 * peer], *in = &x->flows[2 * peer + 1];
        if (out->call)
            status = send_some(x, out, peer, moved);
        if (in->call && status == WEIR_OK)
            status = receive_some(x, in, peer, moved);
        *left += (out->call != NULL) + (in->call != NULL);
    }
    return status;
}

/* A direction that is not done, by turns: each peer's death is to be seen. Twice the peer,
 * plus 1 if it is to be received from. */
static int pick(const exchange *x, const weiri_waiter *waiter, int left)
{
    int which = (int)(waiter->polls.polls / WEIRI_POLLS_PER_LIFE_CHECK % (uint64_t)left);
    for (int i = 0; i < 2 * x->comm->nranks; i++)
        if (x->flows[i].call && which-- == 0)
            return i;
    return 0;
}

/* Where the host waits: with this machine's ranks in host memory. */
static weir_comm *waits_in(const exchange *x)
{
    weir_comm *parent = x->comm->comm;
    return parent->host_comm ? parent->host_comm : parent;
}

static weir_status idle(const exchange *x, weiri_waiter *waiter, int left)
{
    const int one = pick(x, waiter, left), peer = one / 2, receives = one % 2;
    const weiri_p2p_way *way = weiri_p2p_way_to(x->comm, peer);
    weiri_p2p_awaited what = receives ? way->arrival(x->comm, peer) : way->room(x->comm, peer);
    return weiri_comm_idle_for(waits_in(x), waiter, what.word, what.target, peer,
                               receives ? "receive" : "send");
}

static weir_status move_all(const exchange *x)
{
    static const weiri_waiter fresh = {.is_for_one = 1};
    weiri_internode *internode = x->comm->comm->internode;
    weiri_waiter waiter = fresh;
    for (int left = 1; left > 0;) {
        int moved = 0;
        weir_status status = move_some(x, &moved, &left);
        if (status == WEIR_OK && !moved && left > 0)
            status = idle(x, &waiter, left);
        if (status != WEIR_OK)
            return status;
        if (!moved)
            continue;
        weiri_comm_idle_end(waits_in(x), &waiter);
        waiter = fresh; /* the deadline is for a time in which nothing moves */
        if (internode)
            weiri_internode_poll(internode);
    }
    return internode ? weiri_internode_flush(internode, "send") : WEIR_OK;
}

weir_status weiri_p2p_move(weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count)
{
    exchange x = {comm, calls, count, calloc((size_t)comm->nranks * 2, sizeof(flow))};
    if (!x.flows)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for sends and receives");
    for (int peer = 0; peer < comm->nranks; peer++)
        if (weiri_p2p_by_host(comm, peer)) {
            advance(&x, &x.flows[2 * peer], 1, peer);
            advance(&x, &x.flows[2 * peer + 1], 0, peer);
        }
    weir_status status = move_all(&x);
    free(x.flows);
    return status;
}
