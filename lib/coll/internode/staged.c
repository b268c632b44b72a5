/*
 * Calls between nodes on GPU buffers, if a node has several GPUs; streamed.c serves one GPU on each
 * node. A call waits on the host for its stream, and returns when its output is complete. Most
 * algorithms accept these buffers as they are and run their phases within a node on the GPUs
 * (internode_coll.h). For the other algorithms, and for the messages of pairs of ranks on different
 * nodes, data are staged: inputs are copied into pinned host memory (gpu_staging.h), the algorithm
 * runs there, and outputs are copied back. Calls with one count are divided into pieces of every
 * block, so that the host memory stays small; alltoallv and sendrecv use as much host memory as
 * their blocks need.
 */
#include "base/error.h"
#include "coll/algos.h"
#include "coll/internode/gpu_staging.h"
#include "coll/internode/streamed.h"
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
static int stays_on_gpu(const weiri_coll *coll, const weiri_task *task, size_t rank)
{
    return task->memory == WEIRI_TASK_AS_GIVEN && weiri_is_pairwise(task) &&
           !weiri_internode_is_remote(coll->comm->internode, (int)rank);
}

/* Stores the pairs of a piece of an alltoall, of which the call's elements begin at byte `at` of
 * every block. */
static void staged_fill_pairs(weiri_coll *coll, const weiri_task *whole, const weiri_task *piece,
                              size_t at)
{
    const size_t bytes = piece->count_bytes;
    for (size_t i = 0; i < (size_t)coll->nranks; i++) {
        size_t gpu_at = i * whole->count_bytes + at, host_at = i * bytes;
        int stays = stays_on_gpu(coll, whole, i);
        coll->pairs[i] =
            (weiri_pair){stays ? weiri_in_at(whole, gpu_at) : weiri_in_at(piece, host_at),
                         stays ? weiri_out_at(whole, gpu_at) : weiri_out_at(piece, host_at),
                         bytes,
                         bytes,
                         1,
                         1};
    }
}

/* Runs the call for elements [first, first + count) of every block, on copies. */
static weir_status staged_run_piece(weiri_coll *coll, const weiri_task *whole,
                                    const weiri_blocks *b, size_t first, size_t count)
{
    weir_call call = *whole->call;
    char *in = NULL, *out = NULL;
    const size_t at = first * whole->element_bytes, bytes = count * whole->element_bytes;
    const size_t stride = whole->count_bytes, most = (size_t)coll->nranks * bytes;
    weir_status status = weiri_gpu_staging_host(coll, WEIRI_GPU_STAGING_IN, most, &in);
    if (status == WEIR_OK)
        status = weiri_gpu_staging_host(coll, WEIRI_GPU_STAGING_OUT, most, &out);
    for (size_t i = 0; i < b->in && status == WEIR_OK; i++)
        if (!stays_on_gpu(coll, whole, i))
            status = staged_copy(coll, in + i * bytes, weiri_in_at(whole, i * stride + at), bytes);
    if (status != WEIR_OK)
        return status;
    call.in = in;
    call.out = out;
    call.count = count;
    const weiri_task piece = weiri_task_part(whole, &call);
    if (call.collective == WEIR_COLL_ALLTOALL)
        staged_fill_pairs(coll, whole, &piece, at);
    status = whole->choice->algo->run(coll, &piece);
    for (size_t i = 0; i < b->out && status == WEIR_OK; i++)
        if (!stays_on_gpu(coll, whole, i))
            status =
                staged_copy(coll, weiri_out_at(whole, i * stride + at), out + i * bytes, bytes);
    return status;
}

static weir_status staged_run_pieces(weiri_coll *coll, const weiri_task *task)
{
    const weiri_blocks b = weiri_blocks_of(coll, task);
    const size_t count = task->call->count, line = WEIR_LINE_BYTES / task->element_bytes;
    size_t piece = PIECE_BYTES / (size_t)coll->nranks / task->element_bytes / line * line;
    weir_status status = WEIR_OK;
    for (size_t first = 0; first < count && status == WEIR_OK; first += piece) {
        size_t left = count - first;
        status = staged_run_piece(coll, task, &b, first, left < piece ? left : piece);
    }
    return status;
}

/* alltoallv and sendrecv: the pairs' blocks, adjacent in the staging buffers. */
static weir_status staged_run_pairs(weiri_coll *coll, const weiri_task *task)
{
    weiri_pair *staged = WEIRI_STACK_ARRAY(weiri_pair, coll->nranks);
    weiri_task on_host = *task;
    char *in = NULL, *out = NULL;
    size_t n = (size_t)coll->nranks, sent = 0, received = 0;
    for (size_t peer = 0; peer < n; peer++) {
        sent += stays_on_gpu(coll, task, peer) ? 0 : task->pairs[peer].send_bytes;
        received += stays_on_gpu(coll, task, peer) ? 0 : task->pairs[peer].recv_bytes;
    }
    weir_status status = weiri_gpu_staging_host(coll, WEIRI_GPU_STAGING_IN, sent, &in);
    if (status == WEIR_OK)
        status = weiri_gpu_staging_host(coll, WEIRI_GPU_STAGING_OUT, received, &out);
    memcpy(staged, task->pairs, n * sizeof *staged);
    for (size_t peer = 0; peer < n && status == WEIR_OK; peer++) {
        weiri_pair *pair = &staged[peer];
        if (stays_on_gpu(coll, task, peer))
            continue;
        status = staged_copy(coll, in, pair->from, pair->send_bytes);
        pair->from = in;
        pair->to = out;
        in += pair->send_bytes;
        out += pair->recv_bytes;
    }
    on_host.pairs = staged;
    if (status == WEIR_OK)
        status = task->choice->algo->run(coll, &on_host);
    for (size_t peer = 0; peer < n && status == WEIR_OK; peer++)
        if (!stays_on_gpu(coll, task, peer))
            status =
                staged_copy(coll, task->pairs[peer].to, staged[peer].to, staged[peer].recv_bytes);
    return status;
}

weir_status weiri_internode_coll_gpu(weiri_coll *coll, const weiri_task *given)
{
    weir_comm *comm = coll->comm;
    const weir_call *call = given->call;
    weiri_task task = *given;
    if (comm->nlanes)
        return weiri_streamed_run(coll, given);
    if (call->device_splits)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "weir_alltoallv_device: between nodes with several GPUs the host must "
                          "know the counts; use weir_alltoallv");
    weir_status status = comm->gpu->ops->await(comm->gpu_comm, call->stream);
    if (status != WEIR_OK)
        return status;
    if (task.size_bytes < task.choice->algo->gpu_phases_from)
        task.memory = WEIRI_TASK_STAGED;
    if (call->collective == WEIR_COLL_ALLTOALLV || call->collective == WEIR_COLL_SENDRECV)
        return staged_run_pairs(coll, &task);
    return task.memory == WEIRI_TASK_STAGED || weiri_is_pairwise(&task)
               ? staged_run_pieces(coll, &task)
               : task.choice->algo->run(coll, &task);
}
