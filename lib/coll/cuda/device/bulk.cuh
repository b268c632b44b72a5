/*
 * Copies by the multiprocessor's asynchronous copy unit: one thread of a block
 * orders pieces of a source into shared memory and from there to one target or
 * several, and no register holds any of it. Five pieces are on their way.
 *
 *   load   piece q into slot q % 5; the slot's barrier counts its bytes
 *   store  once they are there, from the slot to all targets: one bulk group
 *   reuse  once the group has been read out of the slot
 *
 * weiri_gpu_bulk_end waits for all groups to their end, so what the thread does
 * then (a block barrier, a release) comes after all stores. Sources are memory
 * that earlier kernels have written. What is not aligned, and all of it on a device
 * without such a unit, is copied by all threads.
 */
#ifndef WEIR_COLL_CUDA_BULK_CUH
#define WEIR_COLL_CUDA_BULK_CUH

#include "coll/cuda/device/move.cuh"

#if defined(WEIR_EMULATED)
enum { WEIRI_GPU_BULK_SLOTS = 5, WEIRI_GPU_BULK_BYTES = 256 };
#define WEIRI_GPU_HAS_BULK 1
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
enum { WEIRI_GPU_BULK_SLOTS = 5, WEIRI_GPU_BULK_BYTES = 8192 };
#define WEIRI_GPU_HAS_BULK 1
#else
enum { WEIRI_GPU_BULK_SLOTS = 5, WEIRI_GPU_BULK_BYTES = 8192 };
#define WEIRI_GPU_HAS_BULK 0
#endif

/* A block's, in shared memory. */
typedef struct __align__(128) weiri_gpu_bulk {
#if WEIRI_GPU_HAS_BULK
    char slot[WEIRI_GPU_BULK_SLOTS][WEIRI_GPU_BULK_BYTES];
    uint64_t loaded[WEIRI_GPU_BULK_SLOTS];
#endif
    uint32_t pieces; /* loaded since the launch began */
#if defined(WEIR_EMULATED)
    uint32_t groups, nstores; /* committed; begun and not read out of their slots */
    struct {
        char *to;
        uint32_t slot, bytes, group;
    } stores[(WEIRI_GPU_BULK_SLOTS + 1) * WEIRI_GPU_RANKS_MAX];
#endif
} weiri_gpu_bulk;

/* Where a source goes: to[i] + at for i below count; NULL ones are left out. */
typedef struct weiri_gpu_targets {
    char *const *to;
    int count, first; /* in the order first, first + 1, ... around */
    uint64_t at;
} weiri_gpu_targets;

WEIRI_GPU_FN char *weiri_gpu_target(const weiri_gpu_targets &targets, int i)
{
    int index = targets.first + i;
    char *to = targets.to[index < targets.count ? index : index - targets.count];
    return to ? to + targets.at : NULL;
}

/* ------------------------------------------------- what the unit does, one thread */

#if WEIRI_GPU_HAS_BULK && WEIR_ON_DEVICE

WEIRI_GPU_FN uint32_t weiri_gpu_shared(const void *pointer)
{
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

WEIRI_GPU_FN void weiri_gpu_bulk_init(weiri_gpu_bulk *bulk)
{
    for (int slot = 0; slot < WEIRI_GPU_BULK_SLOTS; slot++)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(
                         weiri_gpu_shared(&bulk->loaded[slot]))
                     : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
}

/* Begins to load a piece into its slot. */
WEIRI_GPU_FN void weiri_gpu_bulk_load(weiri_gpu_bulk *bulk, uint32_t piece, const char *from,
                                      uint32_t bytes)
{
    uint32_t slot = piece % WEIRI_GPU_BULK_SLOTS;
    uint32_t loaded = weiri_gpu_shared(&bulk->loaded[slot]);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(loaded), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(weiri_gpu_shared(bulk->slot[slot])),
                 "l"(from), "r"(bytes), "r"(loaded)
                 : "memory");
}

WEIRI_GPU_FN void weiri_gpu_bulk_await(weiri_gpu_bulk *bulk, uint32_t piece)
{
    uint32_t loaded = weiri_gpu_shared(&bulk->loaded[piece % WEIRI_GPU_BULK_SLOTS]);
    uint32_t turn = piece / WEIRI_GPU_BULK_SLOTS & 1, done = 0;
    while (!done)
        asm volatile("{\n\t.reg .pred p;\n\t"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, p;\n\t}"
                     : "=r"(done)
                     : "r"(loaded), "r"(turn)
                     : "memory");
}

/* Begins to store a piece. */
WEIRI_GPU_FN void weiri_gpu_bulk_store(weiri_gpu_bulk *bulk, uint32_t piece, char *to,
                                       uint32_t bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                 "r"(weiri_gpu_shared(bulk->slot[piece % WEIRI_GPU_BULK_SLOTS])), "r"(bytes)
                 : "memory");
}

/* Ends a group of stores. */
WEIRI_GPU_FN void weiri_gpu_bulk_commit(weiri_gpu_bulk *)
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Waits until all groups but the last so many are read out of their slots. */
template <int BUT> WEIRI_GPU_FN void weiri_gpu_bulk_await_read(weiri_gpu_bulk *)
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(BUT) : "memory");
}

WEIRI_GPU_FN void weiri_gpu_bulk_await_all(weiri_gpu_bulk *)
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
}

#elif WEIRI_GPU_HAS_BULK

/* The same as slowly as may be: a store reads its slot when that is awaited. */
WEIRI_GPU_FN void weiri_gpu_bulk_init(weiri_gpu_bulk *bulk)
{
    bulk->groups = bulk->nstores = 0;
}

WEIRI_GPU_FN void weiri_gpu_bulk_load(weiri_gpu_bulk *bulk, uint32_t piece, const char *from,
                                      uint32_t bytes)
{
    memcpy(bulk->slot[piece % WEIRI_GPU_BULK_SLOTS], from, bytes);
}

WEIRI_GPU_FN void weiri_gpu_bulk_await(weiri_gpu_bulk *, uint32_t)
{
}

WEIRI_GPU_FN void weiri_gpu_bulk_store(weiri_gpu_bulk *bulk, uint32_t piece, char *to,
                                       uint32_t bytes)
{
    bulk->stores[bulk->nstores++] = {to, piece % WEIRI_GPU_BULK_SLOTS, bytes, bulk->groups};
}

WEIRI_GPU_FN void weiri_gpu_bulk_commit(weiri_gpu_bulk *bulk)
{
    bulk->groups++;
}

template <int BUT> WEIRI_GPU_FN void weiri_gpu_bulk_await_read(weiri_gpu_bulk *bulk)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < bulk->nstores; i++) {
        if (bulk->stores[i].group + BUT < bulk->groups)
            memcpy(bulk->stores[i].to, bulk->slot[bulk->stores[i].slot], bulk->stores[i].bytes);
        else
            bulk->stores[left++] = bulk->stores[i];
    }
    bulk->nstores = left;
}

WEIRI_GPU_FN void weiri_gpu_bulk_await_all(weiri_gpu_bulk *bulk)
{
    weiri_gpu_bulk_await_read<0>(bulk);
}

#endif

/* ---------------------------------------------------------------------- copies */

#if WEIRI_GPU_HAS_BULK

/* One thread stores a piece that has been loaded to all targets. */
WEIRI_GPU_FN void weiri_gpu_bulk_store_all(weiri_gpu_bulk *bulk, uint32_t piece,
                                           const weiri_gpu_targets &targets, uint64_t offset,
                                           uint32_t bytes)
{
    weiri_gpu_bulk_await(bulk, piece);
    for (int i = 0; i < targets.count; i++) {
        char *to = weiri_gpu_target(targets, i);
        if (to)
            weiri_gpu_bulk_store(bulk, piece, to + offset, bytes);
    }
    weiri_gpu_bulk_commit(bulk);
}

/* One thread; bytes are a multiple of 16, everything is aligned. */
WEIRI_GPU_FN void weiri_gpu_bulk_move(weiri_gpu_bulk *bulk, const weiri_gpu_targets &targets,
                                      const char *from, uint64_t bytes)
{
    enum { SLOTS = WEIRI_GPU_BULK_SLOTS, PIECE = WEIRI_GPU_BULK_BYTES };
    uint32_t pieces = weiri_gpu_units(bytes, PIECE), first = bulk->pieces;
    for (uint32_t i = 0; i < SLOTS && i < pieces; i++)
        weiri_gpu_bulk_load(bulk, first + i, from + (uint64_t)i * PIECE,
                            (uint32_t)weiri_gpu_least(bytes - (uint64_t)i * PIECE, PIECE));
    for (uint32_t i = 0; i < pieces; i++) {
        uint64_t at = (uint64_t)i * PIECE;
        uint32_t next = i + SLOTS - 1; /* into the slot of the store before this one */
        weiri_gpu_bulk_store_all(bulk, first + i, targets, at,
                                 (uint32_t)weiri_gpu_least(bytes - at, PIECE));
        if (!i || next >= pieces)
            continue;
        weiri_gpu_bulk_await_read<1>(bulk);
        at = (uint64_t)next * PIECE;
        weiri_gpu_bulk_load(bulk, first + next, from + at,
                            (uint32_t)weiri_gpu_least(bytes - at, PIECE));
    }
    weiri_gpu_bulk_await_read<0>(bulk);
    bulk->pieces = first + pieces;
}

#endif

/* All threads of a block, once before its first copy. */
WEIRI_GPU_FN void weiri_gpu_bulk_begin(weiri_gpu_bulk *bulk)
{
    if (threadIdx.x)
        return;
    bulk->pieces = 0;
#if WEIRI_GPU_HAS_BULK
    weiri_gpu_bulk_init(bulk);
#endif
}

/* All threads, behind the last copy and before the block meets to signal. */
WEIRI_GPU_FN void weiri_gpu_bulk_end(weiri_gpu_bulk *bulk)
{
#if WEIRI_GPU_HAS_BULK
    if (!threadIdx.x)
        weiri_gpu_bulk_await_all(bulk);
#else
    (void)bulk;
#endif
}

/* All threads of a block copy bytes to all targets. */
WEIRI_GPU_FN void weiri_gpu_bulk_copy(weiri_gpu_bulk *bulk, const weiri_gpu_targets &targets,
                                      const char *from, uint64_t bytes)
{
    uint64_t whole = 0;
#if WEIRI_GPU_HAS_BULK
    uint32_t odd = weiri_gpu_misaligned(from, 16);
    for (int i = 0; i < targets.count; i++)
        odd |= weiri_gpu_misaligned(weiri_gpu_target(targets, i), 16);
    if (!odd)
        whole = bytes & ~(uint64_t)15;
    if (whole && !threadIdx.x)
        weiri_gpu_bulk_move(bulk, targets, from, whole);
#else
    (void)bulk;
#endif
    for (int i = 0; i < targets.count; i++) {
        char *to = weiri_gpu_target(targets, i);
        if (to)
            weiri_gpu_copy(to + whole, from + whole, bytes - whole);
    }
}

#endif
