/*
 * The kernels of the NCCL-shaped library: sends and receives, and the scaled copy of
 * a custom operation's input.
 */
#include "nccl/p2p.cuh"
#include "nccl/scale.h"

/* Two blocks of 448 threads on a multiprocessor have registers enough. */
enum { EXCHANGE_THREADS = 448, SCALE_THREADS = 256 };

template <int KIND>
static __global__ void __launch_bounds__(EXCHANGE_THREADS, 2)
    exchange(const __grid_constant__ weiri_p2p_args args)
{
    weiri_p2p_exchange<KIND>(args);
}

/* there: where the scalar is; NULL: value has it. */
static __global__ void __launch_bounds__(SCALE_THREADS)
scale(void *to, const void *from, const void *there, uint64_t value, int dtype, uint64_t count)
{
    const uint64_t first = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    weiri_nccl_scale_span(to, from, there ? there : &value, dtype, first,
                          (uint64_t)gridDim.x * blockDim.x, count);
}

extern "C" const void *weiri_nccl_exchange_kernel(weiri_p2p_kind kind, int *threads)
{
    *threads = EXCHANGE_THREADS;
    return kind == WEIRI_P2P_SHORT   ? (const void *)exchange<WEIRI_P2P_SHORT>
           : kind == WEIRI_P2P_ALIKE ? (const void *)exchange<WEIRI_P2P_ALIKE>
                                     : (const void *)exchange<WEIRI_P2P_MIXED>;
}

extern "C" const void *weiri_nccl_scale_kernel(int *threads)
{
    *threads = SCALE_THREADS;
    return (const void *)scale;
}
