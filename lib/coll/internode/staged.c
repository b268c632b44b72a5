/*
 * Calls between nodes on GPU buffers. Most algorithms accept these buffers as they are and run
 * their phases within a node on the GPUs (internode_coll.h). For the other algorithms, and for the
 * messages of pairs of ranks on different nodes, data are staged: inputs are copied into pinned
 * host memory (gpu_staging.h), the algorithm runs there, and outputs are copied back. Calls with
 * one count are divided into pieces of every block, so that the host memory stays small; alltoallv
 * and sendrecv use as much host memory as their blocks need.
 */
#include "base/error.h"
#include "coll/algos.h"
#include "coll/internode/gpu_staging.h"
#include "comm/gpu/gpu.h"
#include "comm/internode/internode.h"

#include <string.h>

enum { PIECE_BYTES = 8 << 20 }; /* of all blocks of a buffer, at once */

static weir_status staged_copy(weiri_coll *coll, void *to, const void *from, size_t bytes)
{
    weir_comm *comm = coll->comm;
    return bytes ? comm->gpu->ops->copy(comm->gpu_comm, to, from, bytes) : WEIR_OK;
}

/* Whether the blocks exchanged with a rank stay in GPU memory. */
static int stays_on_gpu(const weiri_coll *coll, const weir_call *call, size_t rank)
{
    return !coll->staged && weiri_is_pairwise(call) &&
           !weiri_internode_is_remote(coll->comm->internode, (int)rank);
}

/* Runs the call for elements [first, first + count) of every block. */
static weir_status staged_run_piece(weiri_coll *coll, const weir_call *parent,
                                    const weiri_blocks *b, size_t first, size_t count)
{
    weir_call call = *parent; /* for a part of the elements, on copies */
    char *in = NULL, *out = NULL;
    const size_t parent_bytes = parent->count * coll->element_bytes;
    const size_t at = first * coll->element_bytes, bytes = count * coll->element_bytes;
    const size_t most = (size_t)coll->nranks * bytes;
    weir_status status = weiri_gpu_staging_host(coll, WEIRI_GPU_STAGING_IN, most, &in);
    if (status == WEIR_OK)
        status = weiri_gpu_staging_host(coll, WEIRI_GPU_STAGING_OUT, most, &out);
    for (size_t i = 0; i < b->in && status == WEIR_OK; i++)
        if (!stays_on_gpu(coll, parent, i))
            status = staged_copy(coll, in + i * bytes, weiri_in_at(parent, i * parent_bytes + at),
                                 bytes);
    if (status != WEIR_OK)
        return status;
    call.in = in;
    call.out = out;
    call.count = count;
    weiri_coll_derive(coll, &call);
    for (size_t i = 0; call.collective == WEIR_COLL_ALLTOALL && i < b->in; i++) {
        size_t gpu_at = i * parent_bytes + at, host_at = i * bytes;
        int stays = stays_on_gpu(coll, parent, i);
        coll->pairs[i] =
            (weiri_pair){stays ? weiri_in_at(parent, gpu_at) : in + host_at,
                         stays ? weiri_out_at(parent, gpu_at) : out + host_at, bytes, bytes, 1, 1};
    }
    status = coll->choice->algo->run(coll, &call);
    for (size_t i = 0; i < b->out && status == WEIR_OK; i++)
        if (!stays_on_gpu(coll, parent, i))
            status = staged_copy(coll, weiri_out_at(parent, i * parent_bytes + at), out + i * bytes,
                                 bytes);
    return status;
}

static weir_status staged_run_pieces(weiri_coll *coll, const weir_call *call)
{
    const weiri_blocks b = weiri_blocks_of(coll, call);
    size_t n = (size_t)coll->nranks, line = WEIR_LINE_BYTES / coll->element_bytes;
    size_t piece = PIECE_BYTES / n / coll->element_bytes / line * line;
    weir_status status = WEIR_OK;
    for (size_t first = 0; first < call->count && status == WEIR_OK; first += piece) {
        size_t left = call->count - first;
        status = staged_run_piece(coll, call, &b, first, left < piece ? left : piece);
    }
    return status;
}

/* alltoallv and sendrecv: the pairs' blocks, adjacent in the staging buffers. */
static weir_status staged_run_pairs(weiri_coll *coll, const weir_call *call)
{
    weiri_pair device[WEIRI_RANKS_MAX];
    char *in = NULL, *out = NULL;
    size_t n = (size_t)coll->nranks, sent = 0, received = 0;
    memcpy(device, coll->pairs, n * sizeof *device);
    for (size_t peer = 0; peer < n; peer++) {
        sent += stays_on_gpu(coll, call, peer) ? 0 : device[peer].send_bytes;
        received += stays_on_gpu(coll, call, peer) ? 0 : device[peer].recv_bytes;
    }
    weir_status status = weiri_gpu_staging_host(coll, WEIRI_GPU_STAGING_IN, sent, &in);
    if (status == WEIR_OK)
        status = weiri_gpu_staging_host(coll, WEIRI_GPU_STAGING_OUT, received, &out);
    for (size_t peer = 0; peer < n && status == WEIR_OK; peer++) {
        weiri_pair *pair = &coll->pairs[peer];
        if (stays_on_gpu(coll, call, peer))
            continue;
        pair->from = in;
        pair->to = out;
        status = staged_copy(coll, in, device[peer].from, pair->send_bytes);
        in += pair->send_bytes;
        out += pair->recv_bytes;
    }
    if (status == WEIR_OK)
        status = coll->choice->algo->run(coll, call);
    for (size_t peer = 0; peer < n && status == WEIR_OK; peer++)
        if (!stays_on_gpu(coll, call, peer))
            status = staged_copy(coll, device[peer].to, coll->pairs[peer].to,
                                 device[peer].recv_bytes);
    return status;
}

weir_status weiri_internode_coll_gpu(weiri_coll *coll, const weir_call *call, size_t size_bytes)
{
    weir_comm *comm = coll->comm;
    if (call->device_splits)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "weir_alltoallv_device: between nodes the host must know the counts; "
                          "use weir_alltoallv");
    weir_status status = comm->gpu->ops->await(comm->gpu_comm, call->stream);
    if (status != WEIR_OK)
        return status;
    coll->staged = size_bytes < coll->choice->algo->gpu_phases_from;
    if (call->collective == WEIR_COLL_ALLTOALLV || call->collective == WEIR_COLL_SENDRECV)
        return staged_run_pairs(coll, call);
    return coll->staged || weiri_is_pairwise(call) ? staged_run_pieces(coll, call)
                                                   : coll->choice->algo->run(coll, call);
}
