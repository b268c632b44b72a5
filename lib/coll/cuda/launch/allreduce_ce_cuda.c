/*
 * allreduce for the largest messages by copy engines, which carry out both the exchange of inputs
 * and that of results. The output must be symmetric memory; it also receives the inputs of peers.
 *
 * A buffer is divided into a share for each rank, and a share into a few chunks. Chunk by chunk,
 * each rank
 *
 *   1. copies that chunk of each peer's share into the peer's output,
 *   2. enters a barrier, after which all copies of the chunk have arrived,
 *   3. reduces what has arrived for its own share, while the next chunk is copied.
 *
 * Then it copies its share of the result into all outputs, beginning with the chunks that were
 * reduced while the last one was copied; this hides the last reduction.
 *
 * Destination of inputs. Out of place, a chunk from rank i is copied to the receiver's share i of
 * the output, which holds nothing else before the result. In place, that memory still holds input:
 * the chunk replaces the preceding one, which the receiver has sent by then. The first chunk has no
 * predecessor; a kernel passes it through staging buffers (push.cu).
 *
 * Barriers. The one after the copies of chunk k also follows the reduction of chunk k - 1 on all
 * ranks. So no copy overwrites a chunk that is being reduced, and the results that are copied first
 * (all but the last chunk, in place all but the last two) overwrite nothing that is still read.
 *
 * A remainder of less than 16 bytes per rank is reduced by the general kernel.
 */
#include "coll/cuda/launch/copy_engine_cuda.h"

#include "coll/algos.h"
#include "comm/gpu/gpu_cuda.h"

#include <string.h>

enum {
    CHUNKS_LEAST = 3,
    CHUNK_MOST_BYTES = 64 << 20,
    PAGE_BYTES = 4096,
    REDUCE_BLOCKS = 64, /* beside copies: more of them slow the copies down, fewer are too slow */
};

typedef struct ce_plan {
    weiri_engines engines;
    size_t share, chunk; /* bytes */
    size_t chunks;
    int in_place;
} ce_plan;

/* Chunks are whole pages; the chunks of a small share are whole vectors. */
static void ce_divide(ce_plan *p, size_t bytes)
{
    size_t least, unit;
    p->share = bytes / (size_t)p->engines.coll->nranks / 16 * 16;
    unit = p->share < 16 * PAGE_BYTES ? 16 : PAGE_BYTES;
    least = (p->share + CHUNK_MOST_BYTES - 1) / CHUNK_MOST_BYTES;
    p->chunks = least > CHUNKS_LEAST ? least : CHUNKS_LEAST;
    p->chunk = ((p->share + p->chunks - 1) / p->chunks + unit - 1) / unit * unit;
    p->chunks = (p->share + p->chunk - 1) / p->chunk;
}

static size_t chunk_bytes(const ce_plan *p, size_t k)
{
    size_t left = p->share - k * p->chunk;
    return left < p->chunk ? left : p->chunk;
}

/* The offset in any output to which a sender copies its chunk k. */
static size_t arrival_offset(const ce_plan *p, int from, size_t k)
{
    return (size_t)from * p->share + (k - (p->in_place ? 1 : 0)) * p->chunk;
}

/* Step 1. */
static weir_status ce_send_chunk(const ce_plan *p, size_t k)
{
    const weiri_engines *e = &p->engines;
    const int rank = e->coll->rank, nranks = e->coll->nranks;
    weir_status status = WEIR_OK;
    for (int i = 1; i < nranks && status == WEIR_OK; i++) {
        int peer = (rank + i) % nranks;
        status = weiri_engines_copy(e, e->outputs[peer] + arrival_offset(p, rank, k),
                                    weiri_in_at(e->task, (size_t)peer * p->share + k * p->chunk),
                                    chunk_bytes(p, k));
    }
    return status;
}

static weiri_gpu_shape ce_limit(const weiri_engines *e, weiri_gpu_shape shape)
{
    const weiri_budget budget = weiri_budget_of_call(e->coll->comm->budget, e->task->call);
    shape.blocks = weiri_budget_limit(budget, shape.blocks);
    return shape;
}

/* Step 3, in the second stream. */
static weir_status ce_reduce_chunk(const ce_plan *p, size_t k, int blocks)
{
    const weiri_engines *e = &p->engines;
    const int rank = e->coll->rank;
    const size_t at = (size_t)rank * p->share + k * p->chunk;
    weiri_gpu_args args;
    weir_status status = weiri_engines_fork(e);
    if (status != WEIR_OK)
        return status;
    memset(&args, 0, sizeof args);
    args.view = e->barrier.view;
    args.bytes = chunk_bytes(p, k);
    args.dtype = (int32_t)e->task->call->dtype;
    args.op = (int32_t)e->task->call->op;
    args.out = weiri_out_at(e->task, at);
    for (int from = 0; from < e->coll->nranks; from++)
        args.pairs[from].send_at =
            (uint64_t)(uintptr_t)(from == rank ? weiri_in_at(e->task, at)
                                               : weiri_out_at(e->task, arrival_offset(p, from, k)));
    return weiri_cuda_launch(e->coll->comm, (weir_stream)weiri_engines_second_stream(e), "ce",
                             weiri_gpu_reduce_local_kernel(e->task->call->dtype),
                             ce_limit(e, (weiri_gpu_shape){blocks, 512}), &args);
}

/* In place: exchanges the first chunk and stores its result. */
static weir_status ce_push_first(const ce_plan *p)
{
    const weiri_engines *e = &p->engines;
    weiri_gpu_args args;
    memset(&args, 0, sizeof args);
    args.view = e->barrier.view;
    args.in = e->task->call->in;
    args.out = e->task->call->out;
    args.bytes = p->share * (size_t)e->coll->nranks;
    args.chunk_bytes = chunk_bytes(p, 0);
    args.dtype = (int32_t)e->task->call->dtype;
    args.op = (int32_t)e->task->call->op;
    args.collective = WEIR_COLL_ALLREDUCE;
    const weiri_gpu_shape shape =
        weiri_gpu_push_shape(&args, weiri_cuda_of(e->coll->comm)->processors);
    return weiri_cuda_launch(e->coll->comm, e->task->call->stream, "ce",
                             weiri_gpu_push_kernel(e->task->call->dtype, e->coll->nranks),
                             ce_limit(e, shape), &args);
}

/* Enqueues steps 1 to 3 of all chunks; the last reduction may still be running. */
static weir_status ce_scatter(ce_plan *p)
{
    weiri_engines *e = &p->engines;
    weir_status status = weiri_engines_barrier(e);
    for (size_t k = 0; k < p->chunks && status == WEIR_OK; k++) {
        const int pushed = p->in_place && k == 0, last = k + 1 == p->chunks;
        status = pushed ? ce_push_first(p) : ce_send_chunk(p, k);
        if (status == WEIR_OK && k > (p->in_place ? 1 : 0)) /* a reduction was started */
            status = weiri_engines_join(e);
        if (status == WEIR_OK)
            status = weiri_engines_barrier(e);
        if (status == WEIR_OK && !pushed)
            status = ce_reduce_chunk(p, k, last ? 2 * REDUCE_BLOCKS : REDUCE_BLOCKS);
    }
    return status;
}

/* Copies bytes [at, end) of this rank's result into all other outputs. */
static weir_status ce_gather(const ce_plan *p, size_t at, size_t end)
{
    const weiri_engines *e = &p->engines;
    const size_t place = (size_t)e->coll->rank * p->share + at;
    weir_status status = WEIR_OK;
    for (int i = 1; i < e->coll->nranks && status == WEIR_OK; i++) {
        int peer = (e->coll->rank + i) % e->coll->nranks;
        status =
            weiri_engines_copy(e, e->outputs[peer] + place, weiri_out_at(e->task, place), end - at);
    }
    return status;
}

static weir_status ce_run(ce_plan *p)
{
    weiri_engines *e = &p->engines;
    const size_t held_back = p->in_place ? 2 : 1;
    const size_t first = p->chunks > held_back ? (p->chunks - held_back) * p->chunk : 0;
    weir_status status = ce_scatter(p);
    if (status == WEIR_OK)
        status = ce_gather(p, 0, first);
    if (status == WEIR_OK && (!p->in_place || p->chunks > 1))
        status = weiri_engines_join(e);
    if (status == WEIR_OK)
        status = weiri_engines_barrier(e);
    if (status == WEIR_OK)
        status = ce_gather(p, first, p->share);
    return status == WEIR_OK ? weiri_engines_barrier(e) : status;
}

/* Reduces the elements after the last share. */
static weir_status ce_reduce_rest(weiri_coll *coll, const weiri_task *task, size_t done)
{
    const char *name = coll->last_algo;
    weir_call call = *task->call;
    if (done == task->count_bytes)
        return WEIR_OK;
    call.in = weiri_in_at(task, done);
    call.out = weiri_out_at(task, done);
    call.count -= done / task->element_bytes;
    const weiri_task rest = weiri_task_part(task, &call);
    weir_status status = weiri_cuda_run_general(coll, &rest);
    coll->last_algo = name;
    return status;
}

weir_status weiri_cuda_allreduce_ce(weiri_coll *coll, const weiri_task *task)
{
    ce_plan p;
    weir_status status;
    int before;
    if (task->count_bytes < 16 * (size_t)coll->nranks)
        return weiri_cuda_run_general(coll, task);
    if (!weiri_engines_open(&p.engines, coll, task, task->count_bytes, &before, &status))
        return status == WEIR_OK ? weiri_cuda_run_kernel(coll, task) : status;
    p.in_place = task->call->in == task->call->out;
    p.engines.barrier.in_desc = p.in_place ? p.engines.barrier.out_desc : WEIRI_GPU_UNMAPPED;
    ce_divide(&p, task->count_bytes);
    status = ce_run(&p);
    weiri_engines_close(&p.engines, before);
    return status == WEIR_OK ? ce_reduce_rest(coll, task, p.share * (size_t)coll->nranks) : status;
}
