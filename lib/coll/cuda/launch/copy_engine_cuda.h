/* A call that copy engines carry out: the caller's stream, a second stream beside it, and symmetric
 * memory. */
#ifndef WEIR_COLL_CUDA_LAUNCH_COPY_ENGINE_CUDA_H
#define WEIR_COLL_CUDA_LAUNCH_COPY_ENGINE_CUDA_H

#include "coll/cuda/launch/copy_engine.h"
#include "coll/cuda/launch/run_cuda.h"

typedef struct weiri_engines {
    weiri_coll *coll;
    const weiri_task *task;
    char *outputs[WEIRI_GPU_RANKS_MAX]; /* where each rank's output begins, mapped here */
    weiri_gpu_args barrier;             /* argument of the barrier kernel */
} weiri_engines;

/* Begins a call whose output has out_bytes. Returns 1; weiri_engines_close must follow then.
 * Returns 0 if the output is not symmetric memory (*status is WEIR_OK) or after an error. Local. */
int weiri_engines_open(weiri_engines *engines, weiri_coll *coll, const weiri_task *task,
                       size_t out_bytes, int *before, weir_status *status);
void weiri_engines_close(const weiri_engines *engines, int before);

/* The following functions enqueue work and do not block. */

/* A barrier among the ranks, after all earlier work in their streams. */
weir_status weiri_engines_barrier(weiri_engines *engines);
/* A copy to memory of any rank. */
weir_status weiri_engines_copy(const weiri_engines *engines, char *to, const char *from,
                               size_t bytes);
/* The second stream continues after the caller's stream. */
weir_status weiri_engines_fork(const weiri_engines *engines);
/* The caller's stream waits for the second one. */
weir_status weiri_engines_join(const weiri_engines *engines);
cudaStream_t weiri_engines_second_stream(const weiri_engines *engines);
#endif
