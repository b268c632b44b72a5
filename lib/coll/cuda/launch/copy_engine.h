/* Collectives by copy engines: what kernels and the host share. */
#ifndef WEIR_COLL_CUDA_LAUNCH_COPY_ENGINE_H
#define WEIR_COLL_CUDA_LAUNCH_COPY_ENGINE_H

#include "coll/cuda/kernels.h"

/* Of a buffer that ranks share out: from one share to the next. The last ones may be
 * shorter, or empty. */
WEIR_FN size_t weiri_gpu_share_bytes(size_t bytes, int nranks)
{
    return ((bytes + (size_t)nranks - 1) / (size_t)nranks + 15) / 16 * 16;
}

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel of one block and at least as many threads as ranks, in which all
 * ranks meet. pairs[peer].recv_at: the desc that the peer's out_desc must be, or
 * 0 if it does not matter; then in_desc must be WEIRI_GPU_UNMAPPED on all ranks or on none. */
const void *weiri_gpu_barrier_kernel(void);

/* A kernel that reduces what all ranks' contributions are by now in this GPU's memory:
 * args.bytes at the address in pairs[rank].send_at each, into args.out. Any grid. */
const void *weiri_gpu_reduce_local_kernel(weir_dtype dtype);

#ifdef __cplusplus
}
#endif

#endif
