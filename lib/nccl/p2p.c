/*
 * Mailboxes, and sends and receives in memory of the process: the calling
 * thread moves the messages of all pairs in turn until all are through, so that
 * their order in a group does not matter. A rank's messages to itself are copied,
 * the first send to the first receive.
 */
#include "nccl/p2p.h"

#include "nccl/gpu.h"
#include "nccl/p2p_gpu.h"
#include "nccl/vendor.h"

#include "base/error.h"
#include "base/log.h"
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>

typedef struct weiri_nccl_p2p {
    weir_mem *own;
    weir_mem **all;  /* nranks */
    char **mailbox;  /* nranks, mapped here */
    int lanes;
} weiri_nccl_p2p;

void weiri_nccl_p2p_destroy(weiri_nccl_comm *comm)
{
    weiri_nccl_p2p *p2p = comm->p2p;
    if (!p2p)
        return;
    for (int rank = 0; p2p->all && rank < comm->nranks; rank++)
        if (rank != comm->rank)
            weir_mem_free(p2p->all[rank]);
    weir_mem_free(p2p->own);
    free(p2p->all);
    free(p2p->mailbox);
    free(p2p);
    comm->p2p = NULL;
}

static weir_status make_own(weiri_nccl_comm *comm)
{
    size_t n = (size_t)comm->nranks;
    weiri_nccl_p2p *p2p = calloc(1, sizeof *p2p);
    comm->p2p = p2p;
    if (p2p) {
        p2p->lanes = weiri_p2p_lanes(comm->device >= 0, comm->nranks);
        p2p->all = calloc(n, sizeof *p2p->all);
        p2p->mailbox = calloc(n, sizeof *p2p->mailbox);
    }
    if (!p2p || !p2p->all || !p2p->mailbox)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for sends and receives");
    return weir_mem_alloc(comm->comm, n * (size_t)p2p->lanes * sizeof(weiri_p2p_lane), &p2p->own);
}

weir_status weiri_nccl_p2p_create(weiri_nccl_comm *comm)
{
    weir_status status = weir_boot_agree(comm->boot, make_own(comm));
    weiri_nccl_p2p *p2p = comm->p2p;
    if (status == WEIR_OK)
        status = weir_mem_exchange(comm->comm, p2p->own, p2p->all);
    for (int rank = 0; status == WEIR_OK && rank < comm->nranks; rank++)
        p2p->mailbox[rank] = weir_mem_pointer(p2p->all[rank]);
    return weir_boot_agree(comm->boot, status);
}

static uint64_t bytes_of(const weiri_nccl_call *call)
{
    return call->count * weir_dtype_bytes((weir_dtype)call->datatype);
}

/* -------------------------------------------------------------------- itself */

/* The next call of a kind for a peer, from a place on; NULL: none. */
static const weiri_nccl_call *next_of(const weiri_nccl_call *calls, size_t count,
                                      weiri_nccl_kind kind, int peer, size_t *from)
{
    while (*from < count) {
        const weiri_nccl_call *call = &calls[(*from)++];
        if (call->kind == kind && call->root == peer)
            return call;
    }
    return NULL;
}

static weir_status copy_to_self(weiri_nccl_comm *comm, const weiri_nccl_call *send,
                                const weiri_nccl_call *recv)
{
    uint64_t bytes = bytes_of(send);
    if (bytes != bytes_of(recv))
        return weiri_fail(WEIR_ERR_INVALID, "rank %d sends %llu bytes to itself and receives %llu",
                          comm->rank, (unsigned long long)bytes,
                          (unsigned long long)bytes_of(recv));
    if (comm->device >= 0)
        return weiri_nccl_gpu_copy(comm, recv->out, send->in, bytes, recv->stream);
    if (bytes && recv->out != send->in)
        memmove(recv->out, send->in, bytes);
    return WEIR_OK;
}

static weir_status serve_self(weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count)
{
    size_t sends = 0, recvs = 0;
    for (;;) {
        const weiri_nccl_call *send =
            next_of(calls, count, WEIRI_NCCL_SEND, comm->rank, &sends);
        const weiri_nccl_call *recv =
            next_of(calls, count, WEIRI_NCCL_RECV, comm->rank, &recvs);
        if (!send && !recv)
            return WEIR_OK;
        if (!send || !recv)
            return weiri_fail(WEIR_ERR_MISMATCH,
                              "rank %d: a send to itself needs a receive in the same group",
                              comm->rank);
        weir_status status = copy_to_self(comm, send, recv);
        if (status != WEIR_OK)
            return status;
    }
}

/* -------------------------------------------------------------- host memory */

/* One direction of a pair: the call under way and how far it is. */
typedef struct flow {
    const weiri_nccl_call *call; /* NULL: all done */
    size_t next;                 /* where to look for the one behind it */
    uint64_t pieces;             /* of it, moved */
} flow;

typedef struct exchange {
    weiri_nccl_comm *comm;
    const weiri_nccl_call *calls;
    size_t count;
    flow *flows; /* [peer][sends, receives] */
} exchange;

static void advance(const exchange *x, flow *f, weiri_nccl_kind kind, int peer)
{
    f->call = next_of(x->calls, x->count, kind, peer, &f->next);
    f->pieces = 0;
}

static weir_status send_some(const exchange *x, flow *f, int peer, int *moved)
{
    const weiri_nccl_comm *comm = x->comm;
    char *const *mailbox = comm->p2p->mailbox;
    weiri_p2p_lane *there = weiri_p2p_lane_at(mailbox[peer], comm->rank, 1, 0);
    weiri_p2p_lane *here = weiri_p2p_lane_at(mailbox[comm->rank], peer, 1, 0);
    while (f->call && here->own_sent < weir_load_acquire(&here->taken) + WEIRI_P2P_SLOTS) {
        uint64_t bytes = bytes_of(f->call), at;
        uint64_t length = weiri_p2p_piece(bytes, 1, 0, f->pieces, &at);
        unsigned slot = (unsigned)(here->own_sent % WEIRI_P2P_SLOTS);
        if (length)
            memcpy(there->slot[slot].data, (const char *)f->call->in + at, length);
        there->slot[slot].message_bytes = bytes;
        weir_store_release(&there->sent, ++here->own_sent);
        *moved = 1;
        if (++f->pieces == weiri_p2p_pieces(bytes, 1, 0))
            advance(x, f, WEIRI_NCCL_SEND, peer);
    }
    return WEIR_OK;
}

static weir_status refuse_length(const exchange *x, int peer, uint64_t expected, uint64_t seen)
{
    weiri_fail(WEIR_ERR_MISMATCH,
               "rank %d receives %llu bytes from rank %d, which sends %llu; counts must match",
               x->comm->rank, (unsigned long long)expected, peer, (unsigned long long)seen);
    weiri_log(WEIRI_LOG_ERROR, "%s", weir_last_error());
    weir_comm_abort(x->comm->comm);
    return WEIR_ERR_MISMATCH;
}

static weir_status receive_some(const exchange *x, flow *f, int peer, int *moved)
{
    const weiri_nccl_comm *comm = x->comm;
    char *const *mailbox = comm->p2p->mailbox;
    weiri_p2p_lane *there = weiri_p2p_lane_at(mailbox[peer], comm->rank, 1, 0);
    weiri_p2p_lane *here = weiri_p2p_lane_at(mailbox[comm->rank], peer, 1, 0);
    while (f->call && weir_load_acquire(&here->sent) > here->own_taken) {
        uint64_t bytes = bytes_of(f->call), at;
        unsigned slot = (unsigned)(here->own_taken % WEIRI_P2P_SLOTS);
        if (here->slot[slot].message_bytes != bytes)
            return refuse_length(x, peer, bytes, here->slot[slot].message_bytes);
        uint64_t length = weiri_p2p_piece(bytes, 1, 0, f->pieces, &at);
        if (length)
            memcpy((char *)f->call->out + at, here->slot[slot].data, length);
        weir_store_release(&there->taken, ++here->own_taken);
        *moved = 1;
        if (++f->pieces == weiri_p2p_pieces(bytes, 1, 0))
            advance(x, f, WEIRI_NCCL_RECV, peer);
    }
    return WEIR_OK;
}

/* One round over all peers. *left: twice a peer that is not done, plus 1 if it is to be
 * received from; -1: none. */
static weir_status move_some(const exchange *x, int *moved, int *left)
{
    weir_status status = WEIR_OK;
    *left = -1;
    for (int peer = 0; peer < x->comm->nranks && status == WEIR_OK; peer++) {
        flow *out = &x->flows[2 * peer], *in = &x->flows[2 * peer + 1];
        if (out->call)
            status = send_some(x, out, peer, moved);
        if (in->call && status == WEIR_OK)
            status = receive_some(x, in, peer, moved);
        if (out->call)
            *left = 2 * peer;
        if (in->call)
            *left = 2 * peer + 1;
    }
    return status;
}

static weir_status move_all(const exchange *x)
{
    weiri_waiter waiter = {{0, 0}, 0, 0};
    weir_comm *comm = x->comm->comm;
    for (int left = 0; left >= 0;) {
        int moved = 0;
        weir_status status = move_some(x, &moved, &left);
        if (status == WEIR_OK && left >= 0 && !moved) {
            weiri_p2p_lane *here =
                weiri_p2p_lane_at(x->comm->p2p->mailbox[x->comm->rank], left / 2, 1, 0);
            status = left % 2 ? weiri_comm_idle(comm, &waiter, &here->sent, here->own_taken + 1,
                                                left / 2, "receive")
                              : weiri_comm_idle(comm, &waiter, &here->taken,
                                                here->own_sent - WEIRI_P2P_SLOTS + 1, left / 2,
                                                "send");
        }
        if (status != WEIR_OK)
            return status;
    }
    weiri_comm_idle_end(comm, &waiter);
    return WEIR_OK;
}

static weir_status run_host(weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count)
{
    exchange x = {comm, calls, count, calloc((size_t)comm->nranks * 2, sizeof(flow))};
    if (!x.flows)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for sends and receives");
    for (int peer = 0; peer < comm->nranks; peer++)
        if (peer != comm->rank) {
            advance(&x, &x.flows[2 * peer], WEIRI_NCCL_SEND, peer);
            advance(&x, &x.flows[2 * peer + 1], WEIRI_NCCL_RECV, peer);
        }
    weir_status status = move_all(&x);
    free(x.flows);
    return status;
}

/* ---------------------------------------------------------------------- GPUs */

/* Calls of one direction of a pair in one launch. */
enum { CALLS_EACH = WEIRI_P2P_CALLS_MAX / (2 * WEIRI_GPU_RANKS_MAX) };

static weiri_p2p_call describe(const weiri_nccl_call *call)
{
    int sends = call->kind == WEIRI_NCCL_SEND;
    return (weiri_p2p_call){sends ? (char *)(uintptr_t)call->in : call->out, bytes_of(call),
                            call->root, sends};
}

/* The next calls of one direction of a pair, into a launch. */
static void add_flow(const weiri_nccl_call *calls, size_t count, int way, size_t *next,
                     weiri_p2p_args *args, cudaStream_t *stream)
{
    weiri_nccl_kind kind = way % 2 ? WEIRI_NCCL_RECV : WEIRI_NCCL_SEND;
    int before = args->ncalls;
    for (int i = 0; i < CALLS_EACH; i++) {
        const weiri_nccl_call *call = next_of(calls, count, kind, way / 2, next);
        if (!call)
            break;
        int lanes = weiri_p2p_lanes_of(bytes_of(call), args->lanes);
        args->blocks_each = lanes > args->blocks_each ? lanes : args->blocks_each;
        args->call[args->ncalls++] = describe(call);
        *stream = call->stream;
    }
    if (args->ncalls > before)
        args->first[args->nflows++] = before;
    args->first[args->nflows] = args->ncalls;
}

/* Puts the next calls of each direction of each pair into a launch. */
static weir_status launch(weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count,
                          size_t *next, int *launched)
{
    weiri_p2p_args args = {.rank = comm->rank, .lanes = comm->p2p->lanes};
    cudaStream_t stream = NULL;
    for (int rank = 0; rank < comm->nranks; rank++)
        args.mailbox[rank] = comm->p2p->mailbox[rank];
    for (int way = 0; way < 2 * comm->nranks; way++)
        if (way / 2 != comm->rank)
            add_flow(calls, count, way, &next[way], &args, &stream);
    *launched = args.ncalls > 0;
    return *launched ? weiri_nccl_gpu_exchange(comm, &args, stream) : WEIR_OK;
}

static weir_status run_gpu(weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count)
{
    size_t next[2 * WEIRI_GPU_RANKS_MAX] = {0};
    weir_status status = WEIR_OK;
    for (int launched = 1; launched && status == WEIR_OK;)
        status = launch(comm, calls, count, next, &launched);
    return status;
}

/* Mailboxes of other machines cannot be mapped. */
static weir_status check_peers(const weiri_nccl_comm *comm, const weiri_nccl_call *calls,
                               size_t count)
{
    for (size_t i = 0; i < count; i++)
        if ((calls[i].kind == WEIRI_NCCL_SEND || calls[i].kind == WEIRI_NCCL_RECV) &&
            !comm->p2p->mailbox[calls[i].root])
            return weiri_fail(WEIR_ERR_UNSUPPORTED,
                              "rank %d and rank %d are on different machines: sends and receives "
                              "stay on one; use collectives",
                              comm->rank, calls[i].root);
    return WEIR_OK;
}

weir_status weiri_nccl_p2p_run(weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count)
{
    if (comm->vendor)
        return weiri_nccl_vendor_p2p(comm, calls, count);
    weir_status status = check_peers(comm, calls, count);
    if (status == WEIR_OK)
        status = serve_self(comm, calls, count);
    if (status == WEIR_OK && comm->nranks > 1)
        status = comm->device >= 0 ? run_gpu(comm, calls, count) : run_host(comm, calls, count);
    if (status == WEIR_OK)
        weiri_log(WEIRI_LOG_INFO, "nccl sends and receives, rank %d of %d: %zu call(s) through "
                  "mailboxes", comm->rank, comm->nranks, count);
    return status;
}
