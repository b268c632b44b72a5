/*
 * The kernels of libweir_nccl: sends and receives (p2p.cuh), one-sided calls (rma.cuh), and the
 * scaled copy of a custom operation's input, which needs no memory ordering.
 */
#include "nccl/p2p/p2p.cuh"
#include "nccl/rma/rma.cuh"
#include "nccl/calls/scale.h"

/* The threads for which the registers suffice. */
enum { EXCHANGE_THREADS = 448, SCALE_THREADS = 256, PUT_THREADS = 512, WAIT_THREADS = 32 };

template <bool SHORT>
static __global__ void __launch_bounds__(EXCHANGE_THREADS, WEIRI_P2P_BLOCKS_PER_PROCESSOR)
    exchange(const __grid_constant__ weiri_p2p_args args)
{
    if (!SHORT)
        __builtin_assume(blockDim.x == EXCHANGE_THREADS); /* makes addresses constant */
    weiri_p2p_exchange<SHORT>(args);
}

/* device_scalar: the scalar's address, or NULL if `value` holds it. */
static __global__ void __launch_bounds__(SCALE_THREADS)
    scale(void *to, const void *from, const void *device_scalar, uint64_t value, int dtype,
          uint64_t count)
{
    const uint64_t first = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    weiri_nccl_scale_span(to, from, device_scalar ? device_scalar : &value, dtype, first,
                          (uint64_t)gridDim.x * blockDim.x, count);
}

extern "C" const void *weiri_nccl_exchange_kernel(int are_short, int *threads)
{
    *threads = EXCHANGE_THREADS;
    return are_short ? (const void *)exchange<true> : (const void *)exchange<false>;
}

extern "C" const void *weiri_nccl_scale_kernel(int *threads)
{
    *threads = SCALE_THREADS;
    return (const void *)scale;
}

static __global__ void __launch_bounds__(PUT_THREADS)
    put_signal(const __grid_constant__ weiri_rma_out_args args)
{
    weiri_rma_put(args);
}

static __global__ void __launch_bounds__(WAIT_THREADS)
    wait_signal(const __grid_constant__ weiri_rma_wait_args args)
{
    weiri_rma_wait(args);
}

extern "C" const void *weiri_nccl_put_kernel(int *threads)
{
    *threads = PUT_THREADS;
    return (const void *)put_signal;
}

extern "C" const void *weiri_nccl_wait_kernel(int *threads)
{
    *threads = WAIT_THREADS;
    return (const void *)wait_signal;
}
