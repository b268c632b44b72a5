/*
 * allreduce by copy engines, in both of its halves, for the largest messages. The
 * output is symmetric memory, and also where contributions land.
 *
 * A buffer is a share for each rank, a share a few chunks. Each rank, chunk by chunk,
 *
 *   1. copies that chunk of each peer's share into the peer's output,
 *   2. meets the others: it has arrived,
 *   3. reduces, beside the next chunk's copies, what has landed for its own share.
 *
 * Then it copies its share of the result into all outputs, those chunks first which
 * were reduced while the last one was under way; this hides the last reduction.
 *
 * Where a contribution lands. Out of place, a chunk that rank i has sent lands in its
 * own place of share i of the receiver's output, which gets nothing else before the
 * result. In place that is input still: a chunk lands where the chunk before it was,
 * which the receiver has sent away by then. The first chunk has no such place, and a
 * kernel pushes it through the stages (push.cu).
 *
 * Meetings. The one behind the copies of chunk k is also behind the reduction of
 * chunk k - 1, on all ranks. So no chunk lands on one that is being reduced, and the
 * results that are copied first (all but those of the last chunk, in place of the last
 * two) overwrite nothing that is still read.
 *
 * A rest of less than 16 bytes a rank is reduced by the general kernel.
 */
#include "coll/cuda/launch/copy_engine_cuda.h"

#include "coll/algos.h"
#include "comm/gpu/gpu_cuda.h"

#include <string.h>

enum {
    CHUNKS_LEAST = 3,
    CHUNK_MOST_BYTES = 64 << 20,
    PAGE_BYTES = 4096,
    BLOCKS_BESIDE = 64, /* of the reduction: more disturb the copies, fewer are late */
};

typedef struct plan {
    weiri_engines engines;
    size_t share, chunk; /* bytes */
    size_t chunks;
    int in_place;
} plan;

/* Chunks of whole pages, or of a small share of whole vectors. */
static void divide(plan *p, size_t bytes)
{
    size_t least, unit;
    p->share = bytes / (size_t)p->engines.coll->nranks / 16 * 16;
    unit = p->share < 16 * PAGE_BYTES ? 16 : PAGE_BYTES;
    least = (p->share + CHUNK_MOST_BYTES - 1) / CHUNK_MOST_BYTES;
    p->chunks = least > CHUNKS_LEAST ? least : CHUNKS_LEAST;
    p->chunk = ((p->share + p->chunks - 1) / p->chunks + unit - 1) / unit * unit;
    p->chunks = (p->share + p->chunk - 1) / p->chunk;
}

static size_t length_of(const plan *p, size_t k)
{
    size_t left = p->share - k * p->chunk;
    return left < p->chunk ? left : p->chunk;
}

/* Where chunk k of a sender's lands in any output. */
static size_t landing_of(const plan *p, int from, size_t k)
{
    return (size_t)from * p->share + (k - (p->in_place ? 1 : 0)) * p->chunk;
}

/* Step 1. */
static weir_status send_chunk(const plan *p, size_t k)
{
    const weiri_engines *e = &p->engines;
    const int rank = e->coll->rank, nranks = e->coll->nranks;
    weir_status status = WEIR_OK;
    for (int i = 1; i < nranks && status == WEIR_OK; i++) {
        int peer = (rank + i) % nranks;
        status = weiri_engines_copy(e, e->outputs[peer] + landing_of(p, rank, k),
                                    weiri_in_at(e->call, (size_t)peer * p->share + k * p->chunk),
                                    length_of(p, k));
    }
    return status;
}

/* Step 3, in the stream beside. */
static weir_status reduce_chunk(const plan *p, size_t k, int blocks)
{
    const weiri_engines *e = &p->engines;
    const int rank = e->coll->rank;
    const size_t at = (size_t)rank * p->share + k * p->chunk;
    weiri_gpu_args args;
    weir_status status = weiri_engines_fork(e);
    if (status != WEIR_OK)
        return status;
    memset(&args, 0, sizeof args);
    args.view = e->meeting.view;
    args.bytes = length_of(p, k);
    args.op = (int32_t)e->call->op;
    args.out = weiri_out_at(e->call, at);
    for (int from = 0; from < e->coll->nranks; from++)
        args.pairs[from].send_at =
            (uint64_t)(uintptr_t)(from == rank ? weiri_in_at(e->call, at)
                                               : weiri_out_at(e->call, landing_of(p, from, k)));
    return weiri_cuda_launch(e->coll, (weir_stream)weiri_engines_beside(e), "ce",
                             weiri_gpu_reduce_local_kernel(e->call->dtype),
                             (weiri_gpu_shape){blocks, 512}, &args);
}

/* In place, the first chunk, with its result. */
static weir_status push_first(const plan *p)
{
    const weiri_engines *e = &p->engines;
    weiri_gpu_args args;
    memset(&args, 0, sizeof args);
    args.view = e->meeting.view;
    args.in = e->call->in;
    args.out = e->call->out;
    args.bytes = p->share * (size_t)e->coll->nranks;
    args.chunk_bytes = length_of(p, 0);
    args.op = (int32_t)e->call->op;
    args.collective = WEIR_COLL_ALLREDUCE;
    return weiri_cuda_launch(
        e->coll, e->call->stream, "ce", weiri_gpu_push_kernel(e->call->dtype, e->coll->nranks),
        weiri_gpu_push_shape(&args, weiri_cuda_of(e->coll->comm)->processors), &args);
}

/* All contributions under way, and all but the last chunk's reduced everywhere. */
static weir_status scatter(plan *p)
{
    weiri_engines *e = &p->engines;
    weir_status status = weiri_engines_barrier(e);
    for (size_t k = 0; k < p->chunks && status == WEIR_OK; k++) {
        const int pushed = p->in_place && k == 0, last = k + 1 == p->chunks;
        status = pushed ? push_first(p) : send_chunk(p, k);
        if (status == WEIR_OK && k > (p->in_place ? 1 : 0)) /* there was a reduction */
            status = weiri_engines_join(e);
        if (status == WEIR_OK)
            status = weiri_engines_barrier(e);
        if (status == WEIR_OK && !pushed)
            status = reduce_chunk(p, k, last ? 2 * BLOCKS_BESIDE : BLOCKS_BESIDE);
    }
    return status;
}

/* Bytes [at, end) of the own share's result, into all other outputs. */
static weir_status gather(const plan *p, size_t at, size_t end)
{
    const weiri_engines *e = &p->engines;
    const size_t place = (size_t)e->coll->rank * p->share + at;
    weir_status status = WEIR_OK;
    for (int i = 1; i < e->coll->nranks && status == WEIR_OK; i++) {
        int peer = (e->coll->rank + i) % e->coll->nranks;
        status =
            weiri_engines_copy(e, e->outputs[peer] + place, weiri_out_at(e->call, place), end - at);
    }
    return status;
}

static weir_status run(plan *p)
{
    weiri_engines *e = &p->engines;
    const size_t held_back = p->in_place ? 2 : 1;
    const size_t first = p->chunks > held_back ? (p->chunks - held_back) * p->chunk : 0;
    weir_status status = scatter(p);
    if (status == WEIR_OK)
        status = gather(p, 0, first);
    if (status == WEIR_OK && (!p->in_place || p->chunks > 1))
        status = weiri_engines_join(e);
    if (status == WEIR_OK)
        status = weiri_engines_barrier(e);
    if (status == WEIR_OK)
        status = gather(p, first, p->share);
    return status == WEIR_OK ? weiri_engines_barrier(e) : status;
}

/* What is left behind the shares. */
static weir_status reduce_rest(weiri_coll *coll, const weir_call *call, size_t done)
{
    const char *name = coll->last_algo;
    weir_call rest = *call;
    if (done == coll->count_bytes)
        return WEIR_OK;
    rest.in = weiri_in_at(call, done);
    rest.out = weiri_out_at(call, done);
    rest.count -= done / coll->element_bytes;
    weiri_coll_derive(coll, &rest);
    weir_status status = weiri_cuda_run_general(coll, &rest);
    coll->last_algo = name;
    return status;
}

weir_status weiri_cuda_allreduce_ce(weiri_coll *coll, const weir_call *call)
{
    plan p;
    weir_status status;
    int before;
    if (coll->count_bytes < 16 * (size_t)coll->nranks)
        return weiri_cuda_run_general(coll, call);
    if (!weiri_engines_open(&p.engines, coll, call, coll->count_bytes, &before, &status))
        return status == WEIR_OK ? weiri_cuda_run_general(coll, call) : status;
    p.in_place = call->in == call->out;
    p.engines.meeting.in_desc = p.in_place ? p.engines.meeting.out_desc : WEIRI_GPU_UNMAPPED;
    divide(&p, coll->count_bytes);
    status = run(&p);
    weiri_engines_close(&p.engines, before);
    return status == WEIR_OK ? reduce_rest(coll, call, p.share * (size_t)coll->nranks) : status;
}
