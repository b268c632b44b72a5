/*
 * The host's part of the allreduce by copy engines (pipeline.h): puts copies and
 * kernels of all chunks into four streams beside the caller's, joined by events.
 * The outputs must be symmetric memory, because a copy engine cannot look up
 * where a peer's is.
 */
#include "coll/cuda/pipeline.h"

#include "base/error.h"
#include "coll/algos.h"
#include "coll/cuda/run_cuda.h"
#include "comm/gpu_cuda.h"

#include <string.h>

enum { PUSH, TELL, REDUCE, GATHER }; /* streams */
enum { PIECE_UNIT_BYTES = 4096, REDUCE_BLOCKS = 32, REDUCE_THREADS = 512 };

/* One call on its way into the streams. The first CUDA error stays in status. */
typedef struct pipeline {
    weiri_coll *coll;
    const weiri_call *call;
    weiri_cuda *cuda;
    char *outputs[WEIRI_GPU_RANKS_MAX];
    size_t slot_bytes, chunk_bytes;
    weir_status status;
} pipeline;

static void step(pipeline *p, cudaError_t error)
{
    if (error != cudaSuccess && p->status == WEIR_OK)
        p->status = weiri_cuda_fail(WEIR_ERR_SYSTEM, error, "cannot copy with the copy engines");
}

/* Work that comes in stream `to` waits for all that is in stream `from` now. */
static void order(pipeline *p, cudaStream_t from, cudaStream_t to)
{
    step(p, cudaEventRecord(p->cuda->order, from));
    step(p, cudaStreamWaitEvent(to, p->cuda->order, 0));
}

typedef struct piece {
    size_t at, bytes;
} piece;

/* A rank's piece of a chunk, in bytes of the buffer. */
static piece piece_of(const pipeline *p, size_t number, int rank)
{
    size_t begin = number * p->chunk_bytes, n = (size_t)p->coll->nranks;
    size_t left = p->call->bytes - begin;
    size_t length = left < p->chunk_bytes ? left : p->chunk_bytes;
    size_t each = (length / n / PIECE_UNIT_BYTES + 1) * PIECE_UNIT_BYTES;
    if (length == p->chunk_bytes)
        each = p->slot_bytes;
    size_t first = (size_t)rank * each < length ? (size_t)rank * each : length;
    return (piece){begin + first, length - first < each ? length - first : each};
}

static void copy(pipeline *p, void *to, const void *from, size_t bytes, int stream)
{
    if (bytes)
        step(p, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                                p->cuda->lanes[stream]));
}

static void push(pipeline *p, size_t number)
{
    int n = p->coll->nranks, rank = p->coll->rank;
    size_t at = weiri_gpu_stage_at(rank, n, (int)(number & 1), p->slot_bytes);
    for (int i = 1; i < n; i++) {
        int peer = (rank + i) % n;
        piece part = piece_of(p, number, peer);
        copy(p, p->cuda->view.scratch[peer] + at, p->call->in + part.at, part.bytes, PUSH);
    }
}

static void gather(pipeline *p, size_t number)
{
    int n = p->coll->nranks, rank = p->coll->rank;
    piece part = piece_of(p, number, rank);
    for (int i = 1; i < n; i++) {
        int peer = (rank + i) % n;
        copy(p, p->outputs[peer] + part.at, p->call->out + part.at, part.bytes, GATHER);
    }
}

static void launch(pipeline *p, const void *kernel, size_t number, int blocks, int threads,
                   int stream)
{
    piece part = piece_of(p, number, p->coll->rank);
    weiri_gpu_chunk chunk = {.view = p->cuda->view,
                             .number = number,
                             .in = p->call->in + part.at,
                             .out = p->call->out + part.at,
                             .bytes = part.bytes,
                             .slot_bytes = p->slot_bytes,
                             .op = (int32_t)p->call->op};
    void *arguments[] = {&chunk};
    step(p, cudaLaunchKernel(kernel, (dim3){(unsigned)blocks, 1, 1},
                             (dim3){(unsigned)threads, 1, 1}, arguments, 0,
                             p->cuda->lanes[stream]));
}

static void run_chunk(pipeline *p, size_t number)
{
    weiri_cuda *cuda = p->cuda;
    if (number)
        order(p, cuda->lanes[TELL], cuda->lanes[PUSH]);
    push(p, number);
    order(p, cuda->lanes[PUSH], cuda->lanes[TELL]);
    launch(p, weiri_gpu_pipeline_tell_kernel(), number, 1, 32, TELL);
    launch(p, weiri_gpu_pipeline_reduce_kernel(p->call->dtype, p->coll->nranks), number,
           REDUCE_BLOCKS, REDUCE_THREADS, REDUCE);
    order(p, cuda->lanes[REDUCE], cuda->lanes[GATHER]);
    gather(p, number);
}

static void run_chunks(pipeline *p, weiri_gpu_args *meeting)
{
    cudaStream_t stream = (cudaStream_t)p->call->stream;
    size_t chunks = (p->call->bytes + p->chunk_bytes - 1) / p->chunk_bytes;
    cudaError_t error = weiri_cuda_meet(p->call, meeting);
    if (error != cudaSuccess) {
        p->status = weiri_cuda_fail_launch(p->coll->comm, error);
        return;
    }
    for (int i = 0; i < WEIRI_CUDA_LANES; i++)
        order(p, stream, p->cuda->lanes[i]);
    for (size_t number = 0; number < chunks && p->status == WEIR_OK; number++)
        run_chunk(p, number);
    for (int i = 0; i < WEIRI_CUDA_LANES; i++)
        order(p, p->cuda->lanes[i], stream);
    meeting->count = chunks;
    step(p, weiri_cuda_meet(p->call, meeting));
}

weir_status weiri_cuda_pipeline(weiri_coll *coll, const weiri_call *call)
{
    weiri_gpu_args meeting;
    pipeline p = {.coll = coll, .call = call, .cuda = weiri_cuda_of(coll->comm)};
    int before;
    memset(&meeting, 0, sizeof meeting);
    if (coll->nranks == 1 ||
        !weiri_cuda_find_outputs(coll, call->out, call->bytes, p.outputs, &meeting))
        return weiri_cuda_run_general(coll, call);
    p.slot_bytes = WEIRI_GPU_STAGE_BYTES / (size_t)coll->nranks / PIECE_UNIT_BYTES *
                   PIECE_UNIT_BYTES;
    p.chunk_bytes = p.slot_bytes * (size_t)coll->nranks;
    weir_status status = weiri_cuda_ready(coll->comm, call->stream, &before);
    if (status != WEIR_OK)
        return status;
    meeting.view = p.cuda->view;
    p.status = weiri_cuda_check_input(coll, call);
    if (p.status == WEIR_OK)
        run_chunks(&p, &meeting);
    weiri_cuda_leave(coll->comm, before);
    return p.status;
}
