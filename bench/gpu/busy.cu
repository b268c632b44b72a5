/* The kernel of bench_gpu_compute: see busy.cuh. */
#include "bench/gpu/busy.cuh"

/* sink is NULL: the store keeps the arithmetic. */
static __global__ void __launch_bounds__(1024) busy(uint64_t ns, float *sink)
{
    const uint64_t most_ns = 10000000000; /* the deadline */
    float result;
    bench_gpu_busy(ns, most_ns, &result);
    if (sink)
        *sink = result;
}

extern "C" const void *bench_gpu_busy_kernel(void)
{
    return (const void *)busy;
}
