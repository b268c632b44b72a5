/* Computations of --beside on GPUs, in a build without CUDA: there are none. */
#include "bench/gpu/compute.h"

weir_status bench_gpu_compute_open(bench_gpu *gpu, bench_note *note, const bench_with *with,
                                   void *const operands[3], const size_t bytes[3],
                                   bench_gpu_compute_state **state)
{
    (void)gpu, (void)operands, (void)bytes, (void)state;
    return bench_note_write(note, WEIR_ERR_UNSUPPORTED, "--beside %s: this build has no CUDA",
                            with->text);
}

weir_status bench_gpu_compute_enqueue(bench_gpu_compute_state *state)
{
    (void)state;
    return WEIR_ERR_UNSUPPORTED;
}

void bench_gpu_compute_close(bench_gpu_compute_state *state)
{
    (void)state;
}
