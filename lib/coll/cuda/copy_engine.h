/* Collectives by copy engines: what the host and the meeting kernel share. */
#ifndef WEIR_COLL_CUDA_COPY_ENGINE_H
#define WEIR_COLL_CUDA_COPY_ENGINE_H

#include "coll/cuda/args.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel of one block and at least as many threads as ranks, in which all
 * ranks meet. pairs[peer].recv_at: the desc that the peer's out_desc must be, or
 * 0 if it does not matter; count: of chunks that a pipeline has gone on by. */
const void *weiri_gpu_meet_kernel(void);

#ifdef __cplusplus
}
#endif

#endif
