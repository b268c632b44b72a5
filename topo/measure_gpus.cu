/* Two blocks on two GPUs that answer each other; measure_gpus.h explains. */
#include "topo/measure_gpus.h"

#include "base/target.h"

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
