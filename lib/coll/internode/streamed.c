/*
 * Calls between nodes on GPU buffers, in the order of the caller's stream: each enqueues one
 * kernel, which moves the data between the buffers and staging buffers in host memory, where the
 * lanes' threads perform the call (stager.h). Serves communicators with one GPU on every node.
 */
#include "coll/internode/streamed.h"

#include "base/error.h"
#include "coll/algos.h"
#include "comm/gpu/gpu.h"
#include "comm/internode/internode.h"

#include <string.h>

/* Pieces of all blocks up to so many bytes are moved by one block of the kernel. */
enum { ONE_BLOCK_BYTES = 32 << 10 };

static weir_status streamed_get(weiri_coll *coll)
{
    return coll->stager ? WEIR_OK : weiri_stager_open(coll, &coll->stager);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ------------------------------------------------------------------- requests */

/* The largest block that this rank exchanges with a rank of another node. */
static uint64_t streamed_longest(const weiri_coll *coll, const weiri_task *task)
{
    uint64_t most = 0;
    for (int peer = 0; peer < coll->nranks; peer++)
        if (weiri_internode_is_remote(coll->comm->internode, peer))
            most = larger(most, larger(task->pairs[peer].send_bytes, task->pairs[peer].recv_bytes));
    return most;
}

/* Counts that the host knows: enqueues their way into device memory. */
static weir_status streamed_store_splits(weiri_coll *coll, const weiri_task *task,
                                         weiri_stager_args *a)
{
    const size_t n = (size_t)coll->nranks;
    uint64_t *words = WEIRI_STACK_ARRAY(uint64_t, 4 * coll->nranks);
    uint64_t *device = weiri_stager_counts(coll->stager);
    for (size_t peer = 0; peer < n; peer++) {
        const weiri_pair *pair = &task->pairs[peer];
        words[peer] = pair->send_bytes;
        words[n + peer] = pair->send_bytes ? (uint64_t)(pair->from - weiri_in_at(task, 0)) : 0;
        words[2 * n + peer] = pair->recv_bytes;
        words[3 * n + peer] = pair->recv_bytes ? (uint64_t)(pair->to - weiri_out_at(task, 0)) : 0;
    }
    a->element_bytes = 1;
    a->counts = (weiri_gpu_counts){device,         device + n, device + 2 * n,
                                   device + 3 * n, UINT64_MAX, UINT64_MAX};
    return coll->comm->gpu->ops->stager->store(coll->comm->gpu_comm, task->call->stream, device,
                                               words, 4 * n);
}

static weir_status streamed_take_splits(weiri_coll *coll, const weiri_task *task,
                                        weiri_stager_args *a)
{
    const weir_device_splits *s = task->call->device_splits;
    const uint64_t *arrays[] = {s->send_counts, s->send_displs, s->recv_counts, s->recv_displs};
    const size_t bytes = (size_t)coll->nranks * sizeof **arrays;
    weir_status status = WEIR_OK;
    for (int i = 0; i < 4 && status == WEIR_OK; i++)
        status = coll->comm->gpu->ops->check_buffer(coll->comm->gpu_comm, arrays[i], bytes);
    a->element_bytes = (uint32_t)task->element_bytes;
    a->counts = (weiri_gpu_counts){arrays[0],
                                   arrays[1],
                                   arrays[2],
                                   arrays[3],
                                   task->call->in_bytes / task->element_bytes,
                                   task->call->out_bytes / task->element_bytes};
    return status;
}

/* Fills the part of a request that depends on its kind. *longest becomes the length of its longest
 * block. */
static weir_status streamed_fill(weiri_coll *coll, const weiri_task *task, weiri_stager_args *a,
                                 uint64_t *longest)
{
    const weir_call *call = task->call;
    weiri_stager_request *r = &a->request;
    const uint64_t n = (uint64_t)coll->nranks, share = WEIRI_STAGER_BYTES / n / 128 * 128;
    r->most_bytes = share;
    if (!weiri_is_pairwise(task)) {
        const weiri_contract *contract = weiri_contract_of((int)call->collective);
        const weiri_blocks blocks = weiri_blocks_of(coll, task);
        r->kind = WEIRI_STAGER_BLOCKWISE;
        r->in_blocks = blocks.in;
        r->out_blocks = blocks.out;
        if (!contract->in_has_blocks && !contract->out_has_blocks)
            r->most_bytes = WEIRI_STAGER_BYTES;
        r->block_bytes = *longest = task->count_bytes;
        if (call->collective == WEIR_COLL_ALLGATHER)
            r->own = 1 + (uint64_t)coll->rank;
        else if (call->collective == WEIR_COLL_BROADCAST && call->root == coll->rank)
            r->own = 1;
        return WEIR_OK;
    }
    *longest = call->device_splits ? task->size_bytes : streamed_longest(coll, task);
    if (call->collective == WEIR_COLL_ALLTOALL) {
        r->kind = WEIRI_STAGER_EQUAL;
        r->block_bytes = task->count_bytes;
        return WEIR_OK;
    }
    if (call->collective == WEIR_COLL_ALLTOALLV) {
        r->kind = WEIRI_STAGER_SPLITS;
        return call->device_splits ? streamed_take_splits(coll, task, a)
                                   : streamed_store_splits(coll, task, a);
    }
    r->kind = WEIRI_STAGER_SENDRECV;
    r->most_bytes = WEIRI_STAGER_BYTES;
    r->destination = (uint64_t)(call->destination + 1);
    r->source = (uint64_t)(call->source + 1);
    r->send_bytes = call->destination >= 0 ? call->count * task->element_bytes : 0;
    r->recv_bytes = call->source >= 0 ? call->recv_count * task->element_bytes : 0;
    return WEIR_OK;
}

/* ---------------------------------------------------------------------- checks */

/* Kernels fault on memory that they cannot access. */
static weir_status streamed_check_buffers(const weiri_coll *coll, const weiri_task *task)
{
    const weir_comm *comm = coll->comm;
    const weir_call *call = task->call;
    weiri_blocks blocks = {0, 0};
    size_t in = call->in_bytes, out = call->out_bytes;
    if (!weiri_is_pairwise(task)) {
        blocks = weiri_blocks_of(coll, task);
        in = blocks.in * task->count_bytes;
        out = blocks.out * task->count_bytes;
    }
    for (int peer = 0; weiri_is_pairwise(task) && !call->device_splits && peer < coll->nranks;
         peer++) {
        const weiri_pair *pair = &task->pairs[peer];
        if (pair->send_bytes)
            in = larger(in, (size_t)(pair->from - weiri_in_at(task, 0)) + pair->send_bytes);
        if (pair->recv_bytes)
            out = larger(out, (size_t)(pair->to - weiri_out_at(task, 0)) + pair->recv_bytes);
    }
    const weir_status status = comm->gpu->ops->check_buffer(comm->gpu_comm, call->in, in);
    return status == WEIR_OK ? comm->gpu->ops->check_buffer(comm->gpu_comm, call->out, out)
                             : status;
}

/* ------------------------------------------------------------------------ calls */

static weir_status streamed_launch(weiri_coll *coll, const weiri_task *task)
{
    const weir_call *call = task->call;
    const weir_comm *comm = coll->comm;
    weiri_stager_args a = *weiri_stager_common(coll->stager);
    weiri_stager_request *r = &a.request;
    uint64_t longest = 0;
    const weir_status status = streamed_fill(coll, task, &a, &longest);
    if (status != WEIR_OK)
        return status;
    r->collective = (uint64_t)call->collective;
    r->dtype = (uint64_t)call->dtype;
    r->op = (uint64_t)call->op;
    r->root = (uint64_t)call->root;
    r->algo = (uintptr_t)task->choice->algo->info.name; /* of static memory: graphs keep it */
    a.in = call->in;
    a.out = call->out;
    a.copies_own = call->collective == WEIR_COLL_SENDRECV ? call->destination == coll->rank
                                                          : weiri_is_pairwise(task) || r->own;
    const uint64_t piece = weiri_stager_piece(longest, r->most_bytes, a.lanes);
    const uint64_t pieces = weiri_stager_pieces(longest, r->most_bytes, a.lanes);
    const uint64_t blocks = r->most_bytes == WEIRI_STAGER_BYTES ? 1 : (uint64_t)coll->nranks;
    const int lanes = pieces < 1 ? 1 : pieces < (uint64_t)a.lanes ? (int)pieces : a.lanes;
    r->blocks = longest * blocks <= ONE_BLOCK_BYTES && piece >= longest ? 1 : WEIRI_STAGER_BLOCKS;
    weiri_stager_expect(coll->stager, comm->gpu->ops->captures(comm->gpu_comm, call->stream));
    return comm->gpu->ops->stager->launch(comm->gpu_comm, call->stream, lanes, &a);
}

weir_status weiri_streamed_run(weiri_coll *coll, const weiri_task *task)
{
    weir_status status = streamed_get(coll);
    if (status == WEIR_OK)
        status = streamed_check_buffers(coll, task);
    return status == WEIR_OK ? streamed_launch(coll, task) : status;
}
