/*
 * Bulk stores: a warp fills a buffer in shared memory, and the asynchronous copy unit stores it to
 * a peer while the warp does something else. Nothing else of the multiprocessor waits for such
 * stores, whereas a fence after ordinary ones also waits for those of all other warps.
 *
 *     all threads of the warp fill the buffer
 *     weiri_gpu_bulk_store(&bulk, to, buffer, bytes);      all threads
 *     ...
 *     weiri_gpu_bulk_await(&bulk);                         one thread: the first of the warp
 *     a release by that thread                             announces the data to the peer
 *
 * After weiri_gpu_bulk_await_read, which waits less long, the buffer may be filled and stored
 * again; weiri_gpu_bulk_await then waits for all stores. It makes them visible to this thread only:
 * a relaxed store after it can arrive at the peer before the data do.
 *
 * GPUs before Hopper have no such unit; the threads of the warp store there.
 */
#ifndef WEIR_COLL_CUDA_BULK_CUH
#define WEIR_COLL_CUDA_BULK_CUH

#include "coll/cuda/device/access.cuh"

#if WEIR_ON_DEVICE && __CUDA_ARCH__ >= 900
#define WEIRI_GPU_HAS_BULK 1
#else
#define WEIRI_GPU_HAS_BULK 0
#endif

/* The store that a warp's first thread waits for. In the emulator it is performed as late as
 * possible, by the wait. */
struct weiri_gpu_bulk {
#if !WEIR_ON_DEVICE
    char *to;
    const char *from;
    uint32_t bytes;
#else
    char unused;
#endif
};

/* Stores `bytes`, a multiple of 16, of `from`, which is in shared memory. All threads of the warp
 * call it after they have filled the buffer. */
WEIRI_GPU_FN void weiri_gpu_bulk_store(weiri_gpu_bulk *bulk, char *to, const char *from,
                                       uint32_t bytes)
{
#if WEIRI_GPU_HAS_BULK
    (void)bulk;
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncwarp();
    if (threadIdx.x % 32 == 0 && bytes) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                     "r"((uint32_t)__cvta_generic_to_shared(from)), "r"(bytes)
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
#else
    __syncwarp();
#if WEIR_ON_DEVICE
    (void)bulk;
    for (uint32_t at = 16 * (threadIdx.x % 32); at < bytes; at += 16 * 32)
        weiri_gpu_store16(to + at, *(const weiri_gpu_vector *)(from + at));
    __syncwarp();
#else
    *bulk = {to, from, bytes};
#endif
#endif
}

/* Waits until the warp's stores have been performed. Its first thread calls it. */
WEIRI_GPU_FN void weiri_gpu_bulk_await(weiri_gpu_bulk *bulk)
{
#if WEIRI_GPU_HAS_BULK
    (void)bulk;
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#elif WEIR_ON_DEVICE
    (void)bulk;
#else
    for (uint32_t at = 0; at < bulk->bytes; at += 16) {
        weiri_gpu_vector vector;
        memcpy(&vector, bulk->from + at, sizeof vector);
        weiri_gpu_store16(bulk->to + at, vector);
    }
    bulk->bytes = 0;
#endif
}

/* Waits until they have read their buffer. Its first thread calls it, then __syncwarp. */
WEIRI_GPU_FN void weiri_gpu_bulk_await_read(weiri_gpu_bulk *bulk)
{
#if WEIRI_GPU_HAS_BULK
    (void)bulk;
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#else
    weiri_gpu_bulk_await(bulk);
#endif
}

#endif
