/*
 * The GPU algorithms as the host sees them: for each algorithm its kernels, its default grid for a
 * call, and whether it serves a call. The algorithms are described in their .cu files.
 */
#ifndef WEIR_COLL_CUDA_KERNELS_H
#define WEIR_COLL_CUDA_KERNELS_H

#include "coll/cuda/args.h"
#include "comm/budget.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A grid: blocks and threads per block. */
typedef struct weiri_gpu_shape {
    int blocks; /* at most WEIRI_GPU_BLOCKS_MAX; all must be resident */
    int threads;
} weiri_gpu_shape;

/* The host address of the kernel for a data type and number of ranks, for cudaLaunchKernel, whose
 * only argument is a weiri_gpu_args; NULL for an unknown type. Local. */
typedef const void *(*weiri_gpu_kernel)(weir_dtype dtype, int nranks);
/* The default grid for a call on a device with so many multiprocessors. The number of blocks must
 * be the same on all ranks, so it depends only on what is the same there. Local. */
typedef weiri_gpu_shape (*weiri_gpu_shape_of)(const weiri_gpu_args *args, int processors);
/* Whether the algorithm serves the call; depends only on what is the same on all ranks. */
typedef int (*weiri_gpu_serves)(const weiri_gpu_args *args);

typedef struct weiri_gpu_algo {
    weiri_gpu_kernel kernel;
    weiri_gpu_shape_of shape;
    weiri_gpu_serves serves;
} weiri_gpu_algo;

/* The grid for a call within a budget. If the preferred one (0 blocks: the default) has too many
 * blocks, the default for so many multiprocessors, whose blocks may have more threads. */
static inline weiri_gpu_shape weiri_gpu_shape_within(const weiri_gpu_algo *algo,
                                                     const weiri_gpu_args *args, int processors,
                                                     weiri_gpu_shape preferred, weiri_budget budget)
{
    const int most = weiri_budget_limit(budget, processors);
    if (!preferred.blocks || preferred.blocks > weiri_budget_limit(budget, preferred.blocks))
        preferred = algo->shape(args, most < processors ? most : processors);
    preferred.blocks = weiri_budget_limit(budget, preferred.blocks);
    return preferred;
}

#define WEIRI_GPU_DECLARE(name)                                                                    \
    const void *weiri_gpu_##name##_kernel(weir_dtype dtype, int nranks);                           \
    weiri_gpu_shape weiri_gpu_##name##_shape(const weiri_gpu_args *args, int processors);          \
    int weiri_gpu_##name##_serves(const weiri_gpu_args *args);

WEIRI_GPU_DECLARE(allreduce_packet)
WEIRI_GPU_DECLARE(allreduce_ll128_one)
WEIRI_GPU_DECLARE(ll128)       /* allreduce, reduce_scatter, reduce */
WEIRI_GPU_DECLARE(push)        /* allreduce, reduce_scatter, reduce */
WEIRI_GPU_DECLARE(reduce_ring) /* allreduce, reduce_scatter */
WEIRI_GPU_DECLARE(allgather_ring)
WEIRI_GPU_DECLARE(alltoall_rotation)
WEIRI_GPU_DECLARE(reduce_chain)
WEIRI_GPU_DECLARE(reduce_ll128_chain)
WEIRI_GPU_DECLARE(reduce_scatter_packet)
WEIRI_GPU_DECLARE(reduce_scatter_direct)
WEIRI_GPU_DECLARE(reduce_packet)
WEIRI_GPU_DECLARE(allgather_packet)
WEIRI_GPU_DECLARE(allgather_ll128)
WEIRI_GPU_DECLARE(allgather_direct)
WEIRI_GPU_DECLARE(broadcast_packet)
WEIRI_GPU_DECLARE(broadcast_ll128)
WEIRI_GPU_DECLARE(broadcast_chain)
WEIRI_GPU_DECLARE(broadcast_direct)
WEIRI_GPU_DECLARE(exchange_packet)
WEIRI_GPU_DECLARE(exchange_ll128)
WEIRI_GPU_DECLARE(exchange_short)
WEIRI_GPU_DECLARE(exchange_direct)

/* Calls between nodes (coll/internode/stager.h). */
const void *weiri_stager_move_kernel(void);
const void *weiri_stager_store_kernel(void);

#ifdef __cplusplus
}
#endif

#endif
