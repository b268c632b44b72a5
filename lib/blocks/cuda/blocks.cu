/* Copies of a list's blocks, and waits for tags: see args.h. */
#include "blocks/cuda/args.h"
#include "coll/cuda/device/copy.cuh"

static const uint64_t blocks_bad = (uint64_t)1 << 32;

static __device__ __forceinline__ void blocks_report(const blocks_gpu_args &a, uint64_t e,
                                                     const blocks_entry &entry, int side)
{
    blocks_gpu_report *report = a.report;
    if (a.arrived)
        atomicAdd((unsigned long long *)a.arrived, (unsigned long long)blocks_bad);
    if (atomicCAS((unsigned long long *)a.claimed, 0ull, 1ull) != 0)
        return;
    weir_store_relaxed(&report->entry, e);
    weir_store_relaxed(&report->offset, side ? entry.destination : entry.source);
    weir_store_relaxed(&report->bytes, entry.bytes);
    weir_store_relaxed(&report->reach, a.reach[side]);
    weir_store_relaxed(&report->pool_bytes, a.pool_bytes[side]);
    weir_store_relaxed(&report->rank, (uint64_t)a.ranks[side]);
    weir_store_relaxed(&report->is_put, (uint64_t)a.is_put);
    weir_store_release(&report->problem,
                       (uint64_t)(side ? BLOCKS_GPU_DESTINATION : BLOCKS_GPU_SOURCE));
}

/* Copies one part of block k, in the order of repetitions, then entries. All threads of a warp. */
static __device__ __forceinline__ void blocks_copy_part(const blocks_gpu_args &a, uint64_t k,
                                                        uint64_t part, uint32_t lane)
{
    const blocks_list &list = a.list;
    const uint64_t r = list.repetitions == 1 ? 0 : k / list.count;
    const uint64_t e = k - r * list.count;
    const blocks_entry entry = blocks_entry_at(&list, e);
    const int is_bad[2] = {
        blocks_is_outside(entry.source, entry.bytes, a.reach[0], a.pool_bytes[0]),
        blocks_is_outside(entry.destination, entry.bytes, a.reach[1], a.pool_bytes[1])};
    if (is_bad[0] || is_bad[1]) {
        if (lane == 0)
            blocks_report(a, e, entry, !is_bad[0]);
        return;
    }
    const blocks_entry shift = blocks_shift(&list, r);
    const uint64_t each = ((entry.bytes >> a.parts_log) + 16) & ~(uint64_t)15;
    const uint64_t first = part * each;
    if (first < entry.bytes)
        weiri_gpu_copy(a.pools[1] + entry.destination + shift.destination + first,
                       a.pools[0] + entry.source + shift.source + first,
                       weiri_gpu_min(each, entry.bytes - first), lane, BLOCKS_GPU_WARP);
}

/* Stores the tag after all copies of the launch. All threads. */
static __device__ __forceinline__ void blocks_signal(const blocks_gpu_args &a)
{
    __syncthreads();
    if (threadIdx.x || !a.tag_at)
        return;
    weir_fence_system();
    const uint64_t before = atomicAdd((unsigned long long *)a.arrived, 1ull);
    if ((uint32_t)before != gridDim.x - 1)
        return;
    weir_store_relaxed(a.arrived, 0);
    weir_fence_system();
    if (before < blocks_bad)
        weir_store_release(a.tag_at, a.tag_word ? weir_load_relaxed(a.tag_word) : a.tag);
}

static __global__ void __launch_bounds__(BLOCKS_GPU_THREADS)
    blocks_copy(const __grid_constant__ blocks_gpu_args a)
{
    const uint32_t warps = gridDim.x * (blockDim.x / BLOCKS_GPU_WARP);
    const uint32_t warp = (blockIdx.x * blockDim.x + threadIdx.x) / BLOCKS_GPU_WARP;
    const uint64_t units = a.list.count * a.list.repetitions << a.parts_log;
    for (uint64_t unit = warp; unit < units; unit += warps)
        blocks_copy_part(a, unit >> a.parts_log, unit & (((uint64_t)1 << a.parts_log) - 1),
                         threadIdx.x % BLOCKS_GPU_WARP);
    blocks_signal(a);
}

static __global__ void blocks_wait(const __grid_constant__ blocks_gpu_wait w)
{
    weir_guard guard = w.view.guard;
    guard.peer = w.source;
    const int status = weir_wait_at_least(w.word, w.tag, &guard);
    if (status)
        weiri_gpu_fail(w.view, status, w.source, WEIR_WAIT_SEMAPHORE, w.tag,
                       weir_load_relaxed(w.word));
}

const void *weiri_blocks_gpu_copy_kernel(void)
{
    return (const void *)&blocks_copy;
}

const void *weiri_blocks_gpu_wait_kernel(void)
{
    return (const void *)&blocks_wait;
}
