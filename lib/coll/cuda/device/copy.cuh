/*
 * Copies by many threads in accesses of 16 bytes, at any alignment. If source and target are
 * aligned differently, the target is stored in whole vectors that are shifted together from two
 * source vectors; only the two ends are copied byte by byte.
 *
 * The threads of a copy are numbered worker of workers. Each thread has several loads in flight
 * before it stores. All accesses are plain; the caller is responsible for ordering them.
 */
#ifndef WEIR_COLL_CUDA_COPY_CUH
#define WEIR_COLL_CUDA_COPY_CUH

#include "coll/cuda/device/access.cuh"
#include "coll/cuda/kernels.h"

enum {
    WEIRI_GPU_COPY_UNROLL = 4, /* loads of 16 bytes that a thread has in flight */
    WEIRI_GPU_LINE_BYTES = 128,
};

WEIRI_GPU_FN uint64_t weiri_gpu_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Quotient rounded up. A 64-bit division is a function call on a GPU, so callers count in units. */
WEIRI_GPU_FN uint32_t weiri_gpu_div_up(uint32_t whole, uint32_t part)
{
    return (whole + part - 1) / part;
}

/* How many units (a power of two) hold `bytes`; at most 2^32 - 1. */
WEIRI_GPU_FN uint32_t weiri_gpu_units_for(uint64_t bytes, uint32_t unit)
{
    return (uint32_t)((bytes + unit - 1) / unit);
}

/* Prefetches the cache lines of [from, from + bytes) that the workers will load first. */
WEIRI_GPU_FN void weiri_gpu_prefetch(const char *from, uint64_t bytes, uint32_t worker,
                                     uint32_t workers)
{
#if WEIR_ON_DEVICE
    uint64_t soon = weiri_gpu_min(bytes, (uint64_t)workers * WEIRI_GPU_COPY_UNROLL * 16);
    for (uint64_t at = (uint64_t)worker * WEIRI_GPU_LINE_BYTES; at < soon;
         at += (uint64_t)workers * WEIRI_GPU_LINE_BYTES)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(from + at));
#else
    (void)from, (void)bytes, (void)worker, (void)workers;
#endif
}

/* The 16 bytes that begin `shift` bytes into two neighbouring vectors. */
WEIRI_GPU_FN weiri_gpu_vector weiri_gpu_shift_vectors(const weiri_gpu_vector &a,
                                                      const weiri_gpu_vector &b, uint32_t shift)
{
    const uint64_t first = shift < 8 ? a.word[0] : a.word[1];
    const uint64_t second = shift < 8 ? a.word[1] : b.word[0];
    const uint64_t third = shift < 8 ? b.word[0] : b.word[1];
    return {{weiri_gpu_shift_words(first, second, shift & 7),
             weiri_gpu_shift_words(second, third, shift & 7)}};
}

/* Copies words of 16 bytes to an aligned target, from `shift` bytes after an aligned source. */
template <bool SHIFTED>
WEIRI_GPU_FN void weiri_gpu_copy_words(char *to, const char *from, uint64_t words, uint32_t shift,
                                       uint32_t worker, uint32_t workers)
{
    enum { UNROLL = WEIRI_GPU_COPY_UNROLL };
    for (uint64_t first = worker; first < words; first += (uint64_t)workers * UNROLL) {
        weiri_gpu_vector vec[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            uint64_t word = first + (uint64_t)workers * u;
            if (word < words) {
                vec[u] = weiri_gpu_load16_cached(from + 16 * word);
                if (SHIFTED)
                    vec[u] = weiri_gpu_shift_vectors(
                        vec[u], weiri_gpu_load16_cached(from + 16 * word + 16), shift);
            }
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            uint64_t word = first + (uint64_t)workers * u;
            if (word < words)
                weiri_gpu_store16(to + 16 * word, vec[u]);
        }
    }
}

/* Copies words of 16 bytes to several targets, all aligned; NULL targets are skipped. */
template <int N>
WEIRI_GPU_FN void weiri_gpu_copy_words_to(char *const (&to)[N], const char *from, uint64_t words,
                                          uint32_t worker, uint32_t workers)
{
    enum { UNROLL = WEIRI_GPU_COPY_UNROLL };
    for (uint64_t first = worker; first < words; first += (uint64_t)workers * UNROLL) {
        weiri_gpu_vector vec[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (first + (uint64_t)workers * u < words)
                vec[u] = weiri_gpu_load16_cached(from + 16 * (first + (uint64_t)workers * u));
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
                if (to[i] && first + (uint64_t)workers * u < words)
                    weiri_gpu_store16(to[i] + 16 * (first + (uint64_t)workers * u), vec[u]);
    }
}

/* Copies bytes. The two ends of the target, less than 48 bytes, are copied one by one. */
WEIRI_GPU_FN void weiri_gpu_copy(char *to, const char *from, uint64_t bytes, uint32_t worker,
                                 uint32_t workers)
{
    uint64_t head = weiri_gpu_min((16 - weiri_gpu_misaligned(to, 16)) & 15, bytes);
    uint32_t shift = weiri_gpu_misaligned(from + head, 16);
    uint64_t words = (bytes - head + shift) / 16;
    if (shift) {
        /* The last word's right neighbour must not lie beyond the source. */
        words -= words > 0;
        weiri_gpu_copy_words<true>(to + head, from + head - shift, words, shift, worker, workers);
    } else {
        weiri_gpu_copy_words<false>(to + head, from + head, words, 0, worker, workers);
    }
    for (uint64_t i = worker; i < bytes - words * 16; i += workers) {
        uint64_t at = i < head ? i : i + words * 16;
        to[at] = from[at];
    }
}

/* Copies with all threads of the block. */
WEIRI_GPU_FN void weiri_gpu_copy(char *to, const char *from, uint64_t bytes)
{
    weiri_gpu_copy(to, from, bytes, threadIdx.x, blockDim.x);
}

/* The rest of a copy to one of several targets; not inlined, so that the targets of the main loop
 * stay in registers. */
WEIRI_GPU_COLD_FN void weiri_gpu_copy_rest(char *to, const char *from, uint64_t bytes,
                                           uint32_t worker, uint32_t workers)
{
    weiri_gpu_copy(to, from, bytes, worker, workers);
}

/* Copies bytes to all targets that are not NULL. */
template <int N>
WEIRI_GPU_FN void weiri_gpu_copy_to(char *const (&to)[N], const char *from, uint64_t bytes,
                                    uint32_t worker, uint32_t workers)
{
    uint64_t words = bytes / 16;
    uint32_t odd = weiri_gpu_misaligned(from, 16);
#pragma unroll
    for (int i = 0; i < N; i++)
        odd |= weiri_gpu_misaligned(to[i], 16);
    if (odd)
        words = 0;
    weiri_gpu_copy_words_to<N>(to, from, words, worker, workers);
    if (words * 16 == bytes)
        return;
#pragma unroll
    for (int i = 0; i < N; i++)
        if (to[i])
            weiri_gpu_copy_rest(to[i] + words * 16, from + words * 16, bytes - words * 16, worker,
                                workers);
}

#endif
