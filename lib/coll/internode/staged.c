/*
 * Calls across machines on buffers of GPUs. Most algorithms take these as they are
 * (net_coll.h: their phases inside a machine run on the GPUs); what others take, and what
 * pairs of ranks on two machines exchange, is staged: inputs are copied into pinned host
 * memory (bridge.h), the algorithm runs there, and its output goes back. Calls with one
 * count go in pieces of it, block by block, so that the host memory stays small; the others
 * take as much as their blocks need.
 */
#include "coll/internode/staged.h"

#include "base/error.h"
#include "coll/internode/bridge.h"
#include "comm/gpu/gpu.h"
#include "comm/internode/internode.h"

#include <string.h>

enum { PIECE_BYTES = 8 << 20 }; /* of all blocks of a buffer, at once */

static weir_status copy(weiri_coll *coll, void *to, const void *from, size_t bytes)
{
    weir_comm *comm = coll->comm;
    return bytes ? comm->gpu->ops->copy(comm->gpu_comm, to, from, bytes) : WEIR_OK;
}

static int is_pairwise(const weir_call *call)
{
    return call->collective == WEIR_COLL_ALLTOALL || call->collective == WEIR_COLL_ALLTOALLV ||
           call->collective == WEIR_COLL_SENDRECV;
}

/* Whether what is exchanged with a rank stays in the GPU's memory. */
static int stays(const weiri_coll *coll, const weir_call *call, size_t rank)
{
    return !coll->staged && is_pairwise(call) &&
           !weiri_internode_is_remote(coll->comm->internode, (int)rank);
}

/* How many blocks of count a buffer of this rank has; 0: it is not used here. */
typedef struct blocks {
    size_t in, out;
} blocks;

static blocks blocks_of(const weiri_coll *coll, const weir_call *call)
{
    size_t n = (size_t)coll->nranks;
    int is_root = call->root == coll->rank;
    switch (call->collective) {
    case WEIR_COLL_REDUCE_SCATTER:
        return (blocks){n, 1};
    case WEIR_COLL_ALLGATHER:
        return (blocks){1, n};
    case WEIR_COLL_ALLTOALL:
        return (blocks){n, n};
    case WEIR_COLL_BROADCAST:
        return (blocks){is_root ? 1 : 0, 1};
    case WEIR_COLL_REDUCE:
        return (blocks){1, is_root ? 1 : 0};
    default:
        return (blocks){1, 1};
    }
}

/* Elements [first, first + count) of every block. */
static weir_status run_piece(weiri_coll *coll, const weir_call *parent, const blocks *b,
                             size_t first, size_t count)
{
    weir_call call = *parent; /* of a part of the elements, on copies */
    char *in = NULL, *out = NULL;
    const size_t parent_bytes = parent->count * coll->element_bytes;
    const size_t at = first * coll->element_bytes, bytes = count * coll->element_bytes;
    const size_t most = (size_t)coll->nranks * bytes;
    weir_status status = weiri_bridge_stage(coll, WEIRI_BRIDGE_IN, most, &in);
    if (status == WEIR_OK)
        status = weiri_bridge_stage(coll, WEIRI_BRIDGE_OUT, most, &out);
    for (size_t i = 0; i < b->in && status == WEIR_OK; i++)
        if (!stays(coll, parent, i))
            status = copy(coll, in + i * bytes, weiri_in_at(parent, i * parent_bytes + at), bytes);
    if (status != WEIR_OK)
        return status;
    call.in = in;
    call.out = out;
    call.count = count;
    weiri_coll_derive(coll, &call);
    for (size_t i = 0; call.collective == WEIR_COLL_ALLTOALL && i < b->in; i++) {
        size_t there = i * parent_bytes + at, here = i * bytes;
        int is_near = stays(coll, parent, i);
        coll->pairs[i] =
            (weiri_pair){is_near ? weiri_in_at(parent, there) : in + here,
                         is_near ? weiri_out_at(parent, there) : out + here, bytes, bytes, 1, 1};
    }
    status = coll->choice->algo->run(coll, &call);
    for (size_t i = 0; i < b->out && status == WEIR_OK; i++)
        if (!stays(coll, parent, i))
            status =
                copy(coll, weiri_out_at(parent, i * parent_bytes + at), out + i * bytes, bytes);
    return status;
}

static weir_status run_pieces(weiri_coll *coll, const weir_call *call)
{
    const blocks b = blocks_of(coll, call);
    size_t n = (size_t)coll->nranks, line = WEIR_LINE_BYTES / coll->element_bytes;
    size_t piece = PIECE_BYTES / n / coll->element_bytes / line * line;
    weir_status status = WEIR_OK;
    for (size_t first = 0; first < call->count && status == WEIR_OK; first += piece) {
        size_t left = call->count - first;
        status = run_piece(coll, call, &b, first, left < piece ? left : piece);
    }
    return status;
}

/* alltoallv and sendrecv: the pairs' blocks side by side. */
static weir_status run_pairs(weiri_coll *coll, const weir_call *call)
{
    weiri_pair device[WEIRI_RANKS_MAX];
    char *in = NULL, *out = NULL;
    size_t n = (size_t)coll->nranks, sent = 0, received = 0;
    memcpy(device, coll->pairs, n * sizeof *device);
    for (size_t peer = 0; peer < n; peer++) {
        sent += stays(coll, call, peer) ? 0 : device[peer].send_bytes;
        received += stays(coll, call, peer) ? 0 : device[peer].recv_bytes;
    }
    weir_status status = weiri_bridge_stage(coll, WEIRI_BRIDGE_IN, sent, &in);
    if (status == WEIR_OK)
        status = weiri_bridge_stage(coll, WEIRI_BRIDGE_OUT, received, &out);
    for (size_t peer = 0; peer < n && status == WEIR_OK; peer++) {
        weiri_pair *pair = &coll->pairs[peer];
        if (stays(coll, call, peer))
            continue;
        pair->from = in;
        pair->to = out;
        status = copy(coll, in, device[peer].from, pair->send_bytes);
        in += pair->send_bytes;
        out += pair->recv_bytes;
    }
    if (status == WEIR_OK)
        status = coll->choice->algo->run(coll, call);
    for (size_t peer = 0; peer < n && status == WEIR_OK; peer++)
        if (!stays(coll, call, peer))
            status = copy(coll, device[peer].to, coll->pairs[peer].to, device[peer].recv_bytes);
    return status;
}

weir_status weiri_internode_coll_gpu(weiri_coll *coll, const weir_call *call, size_t size_bytes)
{
    weir_comm *comm = coll->comm;
    if (call->device_splits)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "weir_alltoallv_device: across machines the host must know the counts; "
                          "use weir_alltoallv");
    weir_status status = comm->gpu->ops->await(comm->gpu_comm, call->stream);
    if (status != WEIR_OK)
        return status;
    coll->staged = size_bytes < coll->choice->algo->bridges_from;
    if (call->collective == WEIR_COLL_ALLTOALLV || call->collective == WEIR_COLL_SENDRECV)
        return run_pairs(coll, call);
    return coll->staged || is_pairwise(call) ? run_pieces(coll, call)
                                             : coll->choice->algo->run(coll, call);
}
