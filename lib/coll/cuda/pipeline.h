/*
 * allreduce by copy engines: what the host (pipeline_cuda.c) and the kernels
 * (pipeline.cu) share.
 *
 * The buffer is cut into chunks, a chunk into a piece for each rank. Of every
 * chunk, in turn:
 *
 *   push     copy engines copy each peer's piece of the own input into the
 *            peer's stage, where every sender has two slots, for odd and even
 *            chunks
 *   tell     a kernel tells the peers that the chunk is there, and waits until
 *            they have used up the one before, whose slot comes next
 *   reduce   a kernel waits for all peers' pieces and reduces the own one from
 *            stage and input into the output
 *   gather   copy engines copy the reduced piece into every peer's output
 *
 * Each step has a stream of its own, so that copies of both kinds keep the links
 * busy all the time. Counters, which only grow, say how many chunks a rank has
 * pushed to a peer or used up of a peer's: they go on from call to call, from a
 * base in device memory, so a captured call replays.
 */
#ifndef WEIR_COLL_CUDA_PIPELINE_H
#define WEIR_COLL_CUDA_PIPELINE_H

#include "coll/cuda/args.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a kernel of the pipeline is given, about one chunk. */
typedef struct weiri_gpu_chunk {
    weiri_gpu_view view;
    uint64_t number;     /* of the chunk within the call, from 0 */
    const char *in;      /* the own piece of the own input */
    char *out;           /* and of the output */
    uint64_t bytes;      /* of the piece */
    uint64_t slot_bytes; /* of a sender's slot in the stage */
    int32_t op;
    int32_t padding;
} weiri_gpu_chunk;

/* The kernel's host addresses for cudaLaunchKernel, with a weiri_gpu_chunk. tell:
 * one block of 32 threads. */
const void *weiri_gpu_pipeline_tell_kernel(void);
const void *weiri_gpu_pipeline_reduce_kernel(weir_dtype dtype, int nranks);

/* Where rank `from` of nranks puts its pieces of even (0) or odd (1) chunks. */
WEIR_FN size_t weiri_gpu_stage_at(int from, int nranks, int odd, size_t slot_bytes)
{
    return WEIRI_GPU_STAGE_AT + ((size_t)odd * (size_t)nranks + (size_t)from) * slot_bytes;
}

#ifdef __cplusplus
}
#endif

#endif
