/* Collectives by copy engines: functions that kernels and the host share. */
#ifndef WEIR_COLL_CUDA_LAUNCH_COPY_ENGINE_H
#define WEIR_COLL_CUDA_LAUNCH_COPY_ENGINE_H

#include "coll/cuda/kernels.h"

/* A buffer divided among the ranks: the distance from one share to the next. The last shares may be
 * shorter, or empty. */
WEIR_FN size_t weiri_gpu_share_bytes(size_t bytes, int nranks)
{
    return ((bytes + (size_t)nranks - 1) / (size_t)nranks + 15) / 16 * 16;
}

#ifdef __cplusplus
extern "C" {
#endif

/* The address of a kernel that performs a barrier among the ranks: one block, at least as many
 * threads as ranks. pairs[peer].recv_at is the descriptor that the peer's out_desc must equal, or 0
 * if any will do; if it is not 0, in_desc must be WEIRI_GPU_UNMAPPED on all ranks or on none. */
const void *weiri_gpu_barrier_kernel(void);

/* The address of a kernel that reduces inputs in this GPU's memory: args.bytes from the address in
 * pairs[rank].send_at of each rank, into args.out. Any grid. */
const void *weiri_gpu_reduce_local_kernel(weir_dtype dtype);

#ifdef __cplusplus
}
#endif

#endif
