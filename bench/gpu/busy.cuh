/*
 * Computation of a recorded job, imitated: a block keeps its multiprocessor's arithmetic busy for a
 * time by the device's clock, and touches no memory. It waits for nobody.
 */
#ifndef BENCH_GPU_BUSY_CUH
#define BENCH_GPU_BUSY_CUH

#include <weir/device.h>

/* Computes for ns nanoseconds, but not longer than most_ns. Returns the time that has passed. Every
 * thread calls it. */
WEIR_FN uint64_t bench_gpu_busy(uint64_t ns, uint64_t most_ns, float *result)
{
    const uint64_t start_ns = weir_clock_ns();
    const uint64_t wanted_ns = ns < most_ns ? ns : most_ns;
    uint64_t passed_ns = 0;
    float x = (float)threadIdx.x;
    while (passed_ns < wanted_ns) {
        for (int i = 0; i < 64; i++)
            x = x * 0.999f + 1.0f;
#ifdef WEIR_EMULATED
        weir_relax(); /* the emulator's clock goes on when threads yield */
#endif
        passed_ns = weir_clock_ns() - start_ns;
    }
    *result = x;
    return passed_ns;
}

#endif
