/*
 * The kernels of the allreduce by copy engines (pipeline.h). Copies of engines
 * are performed when a kernel behind them in their stream's order begins, so
 * telling needs a release and no more; a reduction acquires what peers told.
 */
#include "coll/cuda/pipeline.h"
#include "coll/cuda/vector.cuh"

WEIRI_GPU_FN weiri_gpu_counters *counters_of(const weiri_gpu_view &view, int at, int from)
{
    return (weiri_gpu_counters *)(view.scratch[at] + WEIRI_GPU_COUNTERS_AT) + from;
}

WEIRI_GPU_FN void await_counter(const weiri_gpu_view &view, int peer, const uint64_t *counter,
                                uint64_t target)
{
    weir_waiter waiter = {0, 0};
    uint64_t seen;
    while ((seen = weir_load_acquire(counter)) < target) {
        int status = weir_waiter_step(&waiter, &view.guard);
        if (status) {
            weiri_gpu_fail(view, status, peer, WEIR_WAIT_SEMAPHORE, target, seen);
            return;
        }
    }
}

static __global__ void tell(const __grid_constant__ weiri_gpu_chunk chunk)
{
    const weiri_gpu_view &view = chunk.view;
    uint64_t before = weir_load_relaxed(&view.state->chunks) + chunk.number;
    int peer = (int)threadIdx.x;
    if (peer >= view.nranks || peer == view.rank)
        return;
    weir_store_release(&counters_of(view, peer, view.rank)->pushed, before + 1);
    if (chunk.number)
        await_counter(view, peer, &counters_of(view, view.rank, peer)->used, before);
}

/* The own piece: 16 bytes of all ranks at a time, or by words where buffers are
 * aligned otherwise. Stages are aligned. */
template <int dtype, int ranks>
static __global__ void __launch_bounds__(512) reduce(const __grid_constant__ weiri_gpu_chunk chunk)
{
    const weiri_gpu_view &view = chunk.view;
    uint64_t before = weir_load_relaxed(&view.state->chunks) + chunk.number;
    int peer = (int)threadIdx.x;
    if (peer < view.nranks && peer != view.rank) {
        if (blockIdx.x == 0)
            weir_store_release(&counters_of(view, peer, view.rank)->used, before);
        await_counter(view, peer, &counters_of(view, view.rank, peer)->pushed, before + 1);
    }
    __syncthreads();
    const char *from[ranks];
#pragma unroll
    for (int r = 0; r < ranks; r++)
        from[r] =
            r == view.rank || r >= view.nranks
                ? chunk.in
                : view.scratch[view.rank] +
                      weiri_gpu_stage_at(r, view.nranks, (int)(chunk.number & 1), chunk.slot_bytes);
    size_t stride = (size_t)gridDim.x * blockDim.x,
           i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    int aligned = ((uintptr_t)chunk.in | (uintptr_t)chunk.out) % 16 == 0;
    size_t vectors = aligned ? chunk.bytes / 16 : 0;
    for (size_t at = i; at < vectors; at += stride) {
        uint64_t words[ranks][2], totals[2];
#pragma unroll
        for (int r = 0; r < ranks; r++) {
            weiri_gpu_vector vector = weiri_gpu_load16(from[r] + 16 * at);
            words[r][0] = vector.word[0];
            words[r][1] = vector.word[1];
        }
        weiri_gpu_reduce<dtype>(chunk.op, view.nranks, words, totals);
        weiri_gpu_store16(chunk.out + 16 * at, {{totals[0], totals[1]}});
    }
    for (size_t at = 16 * vectors + 8 * i; at < chunk.bytes; at += 8 * stride) {
        uint64_t words[ranks][1], totals[1];
#pragma unroll
        for (int r = 0; r < ranks; r++)
            words[r][0] = weiri_gpu_load_word(from[r] + at, chunk.bytes - at);
        weiri_gpu_reduce<dtype>(chunk.op, view.nranks, words, totals);
        weiri_gpu_store_word(chunk.out + at, totals[0], chunk.bytes - at);
    }
}

const void *weiri_gpu_pipeline_tell_kernel(void)
{
    return (const void *)tell;
}

const void *weiri_gpu_pipeline_reduce_kernel(weir_dtype dtype, int nranks)
{
#define ROW(symbol, word, bytes)                                                                   \
    {(const void *)reduce<WEIR_##symbol, 2>, (const void *)reduce<WEIR_##symbol, 4>,               \
     (const void *)reduce<WEIR_##symbol, 8>},
    static const void *const kernels[][3] = {WEIR_DTYPE_MAP(ROW)};
#undef ROW
    if ((unsigned)dtype >= WEIR_DTYPE_COUNT)
        return nullptr;
    return kernels[dtype][nranks <= 2 ? 0 : nranks <= 4 ? 1 : 2];
}
