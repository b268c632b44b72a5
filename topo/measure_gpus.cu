/* The kernels that measure GPUs; measure.h explains. */
#include "topo/measure.h"

#include <weir/target.h>

#include <cuda_runtime.h>

static __global__ void ping_pong(int is_first, uint32_t rounds, uint64_t *own, uint64_t *theirs,
                                 uint64_t *ns_and_rounds)
{
    const uint64_t most_ns = 1000000000;
    uint64_t start_ns = weir_clock_ns(), round = 0;
    int is_late = 0;
    while (round < rounds && !is_late) {
        round++;
        if (is_first)
            weir_store_relaxed(theirs, round);
        while (weir_load_relaxed(own) < round && !is_late)
            is_late = weir_clock_ns() - start_ns > most_ns;
        if (!is_first)
            weir_store_relaxed(theirs, round);
    }
    ns_and_rounds[0] = weir_clock_ns() - start_ns;
    ns_and_rounds[1] = is_late ? round - 1 : round;
}

int weiri_topo_gpu_ping_pong(void *stream, int is_first, uint32_t rounds, uint64_t *own,
                             uint64_t *theirs, uint64_t *ns_and_rounds)
{
    ping_pong<<<1, 1, 0, (cudaStream_t)stream>>>(is_first, rounds, own, theirs, ns_and_rounds);
    return (int)cudaGetLastError();
}

/* Each thread has FLIGHT loads under way. */
static __global__ void __launch_bounds__(512)
    read_over(const uint64_t *from, uint64_t mask, uint64_t total, uint64_t *sink)
{
    enum { FLIGHT = 8 };
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    uint64_t found = 0;
    for (uint64_t at = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; at < total;
         at += FLIGHT * step) {
        uint64_t low[FLIGHT], high[FLIGHT];
#pragma unroll
        for (int i = 0; i < FLIGHT; i++)
            weir_load_pair(from + 2 * ((at + i * step) & mask), &low[i], &high[i]);
#pragma unroll
        for (int i = 0; i < FLIGHT; i++)
            found |= low[i] ^ high[i];
    }
    if (found)
        weir_store_relaxed(sink, found);
}

int weiri_topo_gpu_read(void *stream, const void *from, uint64_t bytes, uint64_t total,
                        uint64_t *sink)
{
    enum { BLOCKS = 264, THREADS = 512 };
    read_over<<<BLOCKS, THREADS, 0, (cudaStream_t)stream>>>((const uint64_t *)from, bytes / 16 - 1,
                                                            total / 16, sink);
    return (int)cudaGetLastError();
}
