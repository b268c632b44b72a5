/* Kernels of --beside: see compute.h. They wait for nobody, and end after a fixed amount of work.
 */
#include <cuda_runtime.h>

#include <stdint.h>

/* Random floats of (0.5, 1), or pairs of 16-bit ones of either format, from a hash of the index. */
static __global__ void fill(uint32_t *words, unsigned long long count, int is_half)
{
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        uint32_t x = (uint32_t)i * 2654435761u;
        x = (x ^ x >> 15) * 2246822519u;
        x ^= x >> 13;
        words[i] = is_half ? 0x38003800u | (x & 0x007f007fu) : 0x3f000000u | x >> 9;
    }
}

static __global__ void copy(uint4 *to, const uint4 *from, unsigned long long count)
{
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        to[i] = from[i];
}

/* sink is NULL: the store keeps the arithmetic. */
static __global__ void __launch_bounds__(256) multiply(float *sink)
{
    float x = (float)threadIdx.x;
    for (int i = 0; i < 60000; i++)
        x = x * 0.999f + 1.0f;
    if (sink)
        *sink = x;
}

extern "C" const void *bench_gpu_fill_kernel(void)
{
    return (const void *)fill;
}

extern "C" const void *bench_gpu_stream_kernel(void)
{
    return (const void *)copy;
}

extern "C" const void *bench_gpu_flops_kernel(void)
{
    return (const void *)multiply;
}
