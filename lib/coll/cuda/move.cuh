/*
 * Bytes from one place to another: words of 8 that packets carry, and copies by
 * many threads in accesses of 16. Any alignment will do. Where source and target
 * are not aligned alike, the target is stored in whole words that are shifted
 * together from the words around the source; only its two ends go byte by byte.
 *
 * A copy's threads are given as worker of workers. Each holds several loads in
 * flight before it stores. Everything is plain loads and stores: the order in
 * which others see them is the caller's affair.
 */
#ifndef WEIR_COLL_CUDA_MOVE_CUH
#define WEIR_COLL_CUDA_MOVE_CUH

#include "coll/cuda/frame.cuh"
#include "coll/cuda/kernels.h"

#if !WEIR_ON_DEVICE
#include <string.h>
#endif

enum {
    WEIRI_GPU_COPY_UNROLL = 4, /* loads of 16 bytes that a thread has in flight */
    WEIRI_GPU_LINE_BYTES = 128,
};

typedef struct __align__(16) weiri_gpu_vec {
    uint64_t low, high;
} weiri_gpu_vec;

/* from is 16-byte aligned. */
WEIRI_GPU_FN weiri_gpu_vec weiri_gpu_load16(const char *from)
{
#if WEIR_ON_DEVICE
    return *(const weiri_gpu_vec *)from;
#else
    weiri_gpu_vec vec;
    WEIRI_GPU_ACCESS16(from);
    memcpy(&vec, from, sizeof vec);
    return vec;
#endif
}

WEIRI_GPU_FN void weiri_gpu_store16(char *to, weiri_gpu_vec vec)
{
#if WEIR_ON_DEVICE
    *(weiri_gpu_vec *)to = vec;
#else
    WEIRI_GPU_ACCESS16(to);
    memcpy(to, &vec, sizeof vec);
#endif
}

WEIRI_GPU_FN uint32_t weiri_gpu_misaligned(const void *pointer, uint32_t unit)
{
    return (uint32_t)(uintptr_t)pointer & (unit - 1);
}

WEIRI_GPU_FN uint64_t weiri_gpu_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Quotient rounded up. Division of 64 bits is a call on a GPU: divide units. */
WEIRI_GPU_FN uint32_t weiri_gpu_parts(uint32_t whole, uint32_t part)
{
    return (whole + part - 1) / part;
}

/* How many units of a power of two hold bytes; up to 2^32 - 1 of them. */
WEIRI_GPU_FN uint32_t weiri_gpu_units(uint64_t bytes, uint32_t unit)
{
    return (uint32_t)((bytes + unit - 1) / unit);
}

/* Asks for the lines of [from, from + bytes) that workers will load first. */
WEIRI_GPU_FN void weiri_gpu_prefetch(const char *from, uint64_t bytes, uint32_t worker,
                                     uint32_t workers)
{
#if WEIR_ON_DEVICE
    uint64_t soon = weiri_gpu_least(bytes, (uint64_t)workers * WEIRI_GPU_COPY_UNROLL * 16);
    for (uint64_t at = (uint64_t)worker * WEIRI_GPU_LINE_BYTES; at < soon;
         at += (uint64_t)workers * WEIRI_GPU_LINE_BYTES)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(from + at));
#else
    (void)from, (void)bytes, (void)worker, (void)workers;
#endif
}

/* -------------------------------------------------------------- words of 8 */

/* Word number index of aligned words. */
WEIRI_GPU_FN uint64_t weiri_gpu_load_even(const char *from, uint32_t index)
{
#if WEIR_ON_DEVICE
    return ((const uint64_t *)from)[index];
#else
    uint64_t word;
    memcpy(&word, from + (size_t)index * 8, 8);
    return word;
#endif
}

WEIRI_GPU_FN void weiri_gpu_store_even(char *to, uint32_t index, uint64_t word)
{
#if WEIR_ON_DEVICE
    ((uint64_t *)to)[index] = word;
#else
    memcpy(to + (size_t)index * 8, &word, 8);
#endif
}

/* The same of words of 4. */
WEIRI_GPU_FN uint64_t weiri_gpu_load_half(const char *from)
{
#if WEIR_ON_DEVICE
    return *(const uint32_t *)from;
#else
    uint32_t half;
    memcpy(&half, from, 4);
    return half;
#endif
}

/* Word number index of bytes; what lies behind their end is zero. */
WEIRI_GPU_FN uint64_t weiri_gpu_load8(const char *from, uint32_t index, uint64_t bytes)
{
    uint64_t at = (uint64_t)index * 8, word = 0;
    if (at + 8 <= bytes && !weiri_gpu_misaligned(from, 8))
        return weiri_gpu_load_even(from, index);
    if (!weiri_gpu_misaligned(from, 4) && !(bytes & 3)) {
        if (at < bytes)
            word = weiri_gpu_load_half(from + at);
        if (at + 4 < bytes)
            word |= weiri_gpu_load_half(from + at + 4) << 32;
        return word;
    }
#pragma unroll
    for (uint32_t i = 0; i < 8; i++)
        if (at + i < bytes)
            word |= (uint64_t)(unsigned char)from[at + i] << (8 * i);
    return word;
}

/* Stores length bytes of a word, in accesses that to allows. */
WEIRI_GPU_FN void weiri_gpu_store_odd(char *to, uint64_t word, uint32_t length)
{
#if WEIR_ON_DEVICE
    if (!(length & 3) && !weiri_gpu_misaligned(to, 4)) {
        ((uint32_t *)to)[0] = (uint32_t)word;
        if (length == 8)
            ((uint32_t *)to)[1] = (uint32_t)(word >> 32);
        return;
    }
    if (length == 8 && !weiri_gpu_misaligned(to, 2)) {
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            ((uint16_t *)to)[i] = (uint16_t)(word >> (16 * i));
        return;
    }
#endif
#pragma unroll 1
    for (uint32_t i = 0; i < 8; i++)
        if (i < length)
            to[i] = (char)(word >> (8 * i));
}

/* The same for storing; nothing is stored behind the end. */
WEIRI_GPU_FN void weiri_gpu_store8(char *to, uint32_t index, uint64_t bytes, uint64_t word)
{
    uint64_t at = (uint64_t)index * 8;
    if (at + 8 <= bytes && !weiri_gpu_misaligned(to, 8))
        weiri_gpu_store_even(to, index, word);
    else
        weiri_gpu_store_odd(to + at, word, (uint32_t)weiri_gpu_least(bytes - at, 8));
}

/* ------------------------------------------------------------------- copies */

/* The 16 bytes that begin `shift` bytes into two neighbouring words. */
WEIRI_GPU_FN weiri_gpu_vec weiri_gpu_join(weiri_gpu_vec a, weiri_gpu_vec b, uint32_t shift)
{
    uint64_t first = shift < 8 ? a.low : a.high;
    uint64_t second = shift < 8 ? a.high : b.low;
    uint64_t third = shift < 8 ? b.low : b.high;
    uint32_t bits = (shift & 7) * 8;
    weiri_gpu_vec joined = {first, second};
    if (bits) {
        joined.low = first >> bits | second << (64 - bits);
        joined.high = second >> bits | third << (64 - bits);
    }
    return joined;
}

/* words of 16 to an aligned target from `shift` bytes behind an aligned source. */
template <bool SHIFTED>
WEIRI_GPU_FN void weiri_gpu_copy_words(char *to, const char *from, uint64_t words, uint32_t shift,
                                       uint32_t worker, uint32_t workers)
{
    enum { UNROLL = WEIRI_GPU_COPY_UNROLL };
    for (uint64_t first = worker; first < words; first += (uint64_t)workers * UNROLL) {
        weiri_gpu_vec vec[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            uint64_t word = first + (uint64_t)workers * u;
            if (word < words) {
                vec[u] = weiri_gpu_load16(from + 16 * word);
                if (SHIFTED)
                    vec[u] = weiri_gpu_join(vec[u], weiri_gpu_load16(from + 16 * word + 16), shift);
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

/* words of 16 to several targets, all aligned; those that are NULL are left out. */
template <int N>
WEIRI_GPU_FN void weiri_gpu_copy_words_to(char *const (&to)[N], const char *from, uint64_t words,
                                          uint32_t worker, uint32_t workers)
{
    enum { UNROLL = WEIRI_GPU_COPY_UNROLL };
    for (uint64_t first = worker; first < words; first += (uint64_t)workers * UNROLL) {
        weiri_gpu_vec vec[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (first + (uint64_t)workers * u < words)
                vec[u] = weiri_gpu_load16(from + 16 * (first + (uint64_t)workers * u));
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
                if (to[i] && first + (uint64_t)workers * u < words)
                    weiri_gpu_store16(to[i] + 16 * (first + (uint64_t)workers * u), vec[u]);
    }
}

/* Copies bytes; the two ends of the target, less than 48 bytes, one by one. */
WEIRI_GPU_FN void weiri_gpu_copy(char *to, const char *from, uint64_t bytes, uint32_t worker,
                                 uint32_t workers)
{
    uint64_t head = weiri_gpu_least((16 - weiri_gpu_misaligned(to, 16)) & 15, bytes);
    uint32_t shift = weiri_gpu_misaligned(from + head, 16);
    uint64_t words = (bytes - head + shift) / 16;
    if (shift) {
        /* The last word's neighbour must not reach beyond the source. */
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

/* What is left for copies by single targets; apart, so that targets stay in registers. */
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
