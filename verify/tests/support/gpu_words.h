/*
 * CUDA's keywords and built-ins for the host's C++ compiler: the Makefile includes this first when
 * it compiles kernels (lib/coll/cuda) for the emulator, gpu_emulator.hh.
 *
 * threadIdx and its like are variables that the emulator sets whenever another thread runs.
 * Kernels declare shared memory by WEIRI_GPU_SHARED; it holds garbage when a block begins.
 * __shared__ itself is not emulated.
 *
 * Warp operations apply to all existing threads of the warp; their masks are ignored.
 */
#ifndef VERIFY_TESTS_SUPPORT_GPU_WORDS_H
#define VERIFY_TESTS_SUPPORT_GPU_WORDS_H

#include <cstdint>
#include <cstring>
#include <type_traits>

/* <cmath> and <algorithm> would take most of the compile time of a kernel. */
extern "C" float fabsf(float) noexcept;
extern "C" float fmaxf(float, float) noexcept;

#define __global__
#define __device__
#define __host__
/* Without optimization, copies in every caller would take most of the compiler's time. */
#define __forceinline__ inline
#define __restrict__ __restrict
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __constant__ const

struct uint2 {
    uint32_t x, y;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
struct alignas(16) ulonglong2 {
    unsigned long long x, y;
};
struct dim3 {
    uint32_t x, y, z;
};

static inline uint2 make_uint2(uint32_t x, uint32_t y)
{
    return {x, y};
}
static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
    return {x, y, z, w};
}
static inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y)
{
    return {x, y};
}

extern dim3 threadIdx, blockIdx, blockDim, gridDim;
enum { warpSize = 32 };

/* Implemented by the emulator: barriers of a block's or a warp's threads. Every thread passes a
 * word and gets the sum, or the words of all 32 lanes. */
uint64_t weir_emulated_block_sum(uint64_t mine);
/* Waits for `threads` threads of the block at one of its other barriers, numbered from 1. */
void weir_emulated_barrier(unsigned barrier, unsigned threads);
void weir_emulated_warp(uint64_t mine, uint64_t lanes[32]);
extern "C" void weir_emulated_stored(void);
/* The shared variable of the running block that the address `key` names, of so many bytes. */
void *weir_emulated_shared(const void *key, size_t bytes);

static inline void __syncthreads()
{
    weir_emulated_block_sum(0);
}
static inline void __barrier_sync_count(unsigned barrier, unsigned threads)
{
    weir_emulated_barrier(barrier, threads);
}
static inline int __syncthreads_count(int predicate)
{
    return (int)weir_emulated_block_sum(predicate != 0);
}
static inline int __syncthreads_or(int predicate)
{
    return __syncthreads_count(predicate) != 0;
}
static inline int __syncthreads_and(int predicate)
{
    return __syncthreads_count(!predicate) == 0;
}

static inline void __syncwarp(uint32_t = 0xffffffff)
{
    uint64_t lanes[32];
    weir_emulated_warp(0, lanes);
}
static inline uint32_t __ballot_sync(uint32_t, int predicate)
{
    uint64_t lanes[32];
    uint32_t ballot = 0;
    weir_emulated_warp(predicate != 0, lanes);
    for (int lane = 0; lane < 32; lane++)
        ballot |= (uint32_t)lanes[lane] << lane;
    return ballot;
}
static inline int __any_sync(uint32_t mask, int predicate)
{
    return __ballot_sync(mask, predicate) != 0;
}
static inline int __all_sync(uint32_t mask, int predicate)
{
    return __ballot_sync(mask, !predicate) == 0;
}
static inline uint32_t __reduce_or_sync(uint32_t, uint32_t bits)
{
    uint64_t lanes[32];
    uint32_t all = 0;
    weir_emulated_warp(bits, lanes);
    for (int lane = 0; lane < 32; lane++)
        all |= (uint32_t)lanes[lane];
    return all;
}
static inline uint32_t __match_any_sync(uint32_t, uint32_t value)
{
    uint64_t lanes[32];
    uint32_t same = 0;
    weir_emulated_warp(value, lanes);
    for (int lane = 0; lane < 32; lane++)
        same |= (uint32_t)(lanes[lane] == value) << lane;
    return same;
}
template <typename T> static inline T __shfl_sync(uint32_t, T value, int from, int width = 32)
{
    uint64_t lanes[32], mine = 0;
    static_assert(sizeof(T) <= sizeof mine, "one word a lane");
    memcpy(&mine, &value, sizeof value);
    weir_emulated_warp(mine, lanes);
    int lane = (int)(threadIdx.x % 32);
    memcpy(&value, &lanes[lane / width * width + from % width], sizeof value);
    return value;
}
template <typename T> static inline T __shfl_xor_sync(uint32_t mask, T value, int flip)
{
    return __shfl_sync(mask, value, (int)(threadIdx.x % 32) ^ flip);
}

/* Atomics: threads yield only at defined points, so plain code is atomic. */
template <typename T, typename U> static inline T atomicAdd(T *word, U value)
{
    T before = *word;
    *word = (T)(before + (T)value);
    weir_emulated_stored();
    return before;
}
template <typename T, typename U> static inline T atomicExch(T *word, U value)
{
    T before = *word;
    *word = (T)value;
    weir_emulated_stored();
    return before;
}
template <typename T, typename U, typename V>
static inline T atomicCAS(T *word, U expected, V value)
{
    T before = *word;
    if (before == (T)expected)
        *word = (T)value;
    weir_emulated_stored();
    return before;
}
template <typename T, typename U> static inline T atomicMin(T *word, U value)
{
    T before = *word;
    *word = (T)value < before ? (T)value : before;
    weir_emulated_stored();
    return before;
}
template <typename T, typename U> static inline T atomicMax(T *word, U value)
{
    T before = *word;
    *word = before < (T)value ? (T)value : before;
    weir_emulated_stored();
    return before;
}
template <typename T, typename U> static inline T atomicOr(T *word, U value)
{
    T before = *word;
    *word = (T)(before | (T)value);
    weir_emulated_stored();
    return before;
}
#define atomicAdd_system atomicAdd
#define atomicCAS_system atomicCAS

static inline void __threadfence()
{
}
static inline void __threadfence_system()
{
}
template <typename T> static inline T __ldg(const T *word)
{
    return *word;
}
template <typename T> static inline T __ldcs(const T *word)
{
    return *word;
}
template <typename T> static inline T __ldcg(const T *word)
{
    return *word;
}
template <typename T> static inline void __stcs(T *word, T value)
{
    *word = value;
}
template <typename T> static inline void __stcg(T *word, T value)
{
    *word = value;
}
static inline int __popc(uint32_t word)
{
    return __builtin_popcount(word);
}
static inline int __ffs(int word)
{
    return __builtin_ffs(word);
}
static inline int __clz(int word)
{
    return word ? __builtin_clz((unsigned)word) : 32;
}
template <typename T, typename U> static inline typename std::common_type<T, U>::type min(T a, U b)
{
    return b < a ? b : a;
}
template <typename T, typename U> static inline typename std::common_type<T, U>::type max(T a, U b)
{
    return a < b ? b : a;
}

#endif
