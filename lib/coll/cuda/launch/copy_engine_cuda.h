/* A call that copy engines serve: the caller's stream, another one beside it, and
 * symmetric memory. */
#ifndef WEIR_COLL_CUDA_LAUNCH_COPY_ENGINE_CUDA_H
#define WEIR_COLL_CUDA_LAUNCH_COPY_ENGINE_CUDA_H

#include "coll/cuda/launch/copy_engine.h"
#include "coll/cuda/launch/run_cuda.h"

typedef struct weiri_engines {
    weiri_coll *coll;
    const weir_call *call;
    char *outputs[WEIRI_GPU_RANKS_MAX]; /* where each rank's output begins, mapped here */
    weiri_gpu_args meeting;             /* what the ranks tell each other when they meet */
} weiri_engines;

/* Begins such a call, whose output has so many bytes: 1; then, whatever comes,
 * weiri_engines_close. 0: the output is not symmetric memory, or *status says why not. */
int weiri_engines_open(weiri_engines *engines, weiri_coll *coll, const weir_call *call,
                       size_t out_bytes, int *before, weir_status *status);
void weiri_engines_close(const weiri_engines *engines, int before);

/* All of these are put into the caller's stream and wait for nothing. */

/* The ranks meet: what all had in their streams before is done. */
weir_status weiri_engines_barrier(weiri_engines *engines);
/* A copy, to any rank's memory. */
weir_status weiri_engines_copy(const weiri_engines *engines, char *to, const char *from,
                               size_t bytes);
/* The stream beside goes on from here. */
weir_status weiri_engines_fork(const weiri_engines *engines);
/* The caller's stream waits for the one beside. */
weir_status weiri_engines_join(const weiri_engines *engines);
/* The stream beside. */
cudaStream_t weiri_engines_beside(const weiri_engines *engines);
/* What CUDA says of a step. */
weir_status weiri_engines_check(cudaError_t error);

#endif
