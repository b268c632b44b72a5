/*
 * Plain loads and stores of buffers: aligned vectors of 16 bytes, and words of 8 bytes at any
 * address, possibly cut short by the end of the buffer. An unaligned word is assembled by shifting
 * from the two aligned words around it.
 */
#ifndef WEIR_COLL_CUDA_ACCESS_CUH
#define WEIR_COLL_CUDA_ACCESS_CUH

#include "coll/cuda/device/protocol.cuh"

#if !WEIR_ON_DEVICE
#include <string.h>
#endif

struct __align__(16) weiri_gpu_vector
{
    uint64_t word[2];
};

WEIRI_GPU_FN uint32_t weiri_gpu_misaligned(const void *pointer, uint32_t unit)
{
    return (uint32_t)(uintptr_t)pointer & (unit - 1);
}

/* --------------------------------------------------- vectors of 16, aligned */

/* Cached in L1: for copies that read each vector twice because source and target are aligned
 * differently. */
WEIRI_GPU_FN weiri_gpu_vector weiri_gpu_load16_cached(const char *from)
{
#if WEIR_ON_DEVICE
    return *(const weiri_gpu_vector *)from;
#else
    weiri_gpu_vector vector;
    WEIRI_GPU_ACCESS16(from);
    memcpy(&vector, from, sizeof vector);
    return vector;
#endif
}

/* Not cached in L1. */
WEIRI_GPU_FN weiri_gpu_vector weiri_gpu_load16(const char *from)
{
#if WEIR_ON_DEVICE
    weiri_gpu_vector vector;
    asm volatile("ld.global.L1::no_allocate.v2.u64 {%0, %1}, [%2];"
                 : "=l"(vector.word[0]), "=l"(vector.word[1])
                 : "l"(from)
                 : "memory");
    return vector;
#else
    return weiri_gpu_load16_cached(from);
#endif
}

WEIRI_GPU_FN void weiri_gpu_store16(char *to, const weiri_gpu_vector &vector)
{
#if WEIR_ON_DEVICE
    asm volatile("st.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(vector.word[0]),
                 "l"(vector.word[1])
                 : "memory");
#else
    WEIRI_GPU_ACCESS16(to);
    memcpy(to, &vector, sizeof vector);
#endif
}

/* ----------------------------------------------------- words of 8, anywhere */

/* `from` must be aligned to 8. */
WEIRI_GPU_FN uint64_t weiri_gpu_load8(const char *from)
{
    return *(const volatile uint64_t *)from;
}

WEIRI_GPU_FN void weiri_gpu_store8(char *to, uint64_t word)
{
    *(uint64_t *)to = word;
}

/* The 8 bytes that begin `shift` bytes (0 to 7) into two neighbouring words. */
WEIRI_GPU_FN uint64_t weiri_gpu_shift_words(uint64_t low, uint64_t high, uint32_t shift)
{
    return shift ? low >> 8 * shift | high << (64 - 8 * shift) : low;
}

/* The first `bytes` (1 to 8) of a word, loaded in parts that are all in flight at once: a byte up
 * to an even address, 2-byte pairs, and a last byte. */
WEIRI_GPU_FN uint64_t weiri_gpu_load_parts(const char *from, uint32_t bytes)
{
    const uint32_t odd = weiri_gpu_misaligned(from, 2);
    const volatile uint8_t *single = (const volatile uint8_t *)from;
    const volatile uint16_t *pairs = (const volatile uint16_t *)(from + odd);
    uint64_t word = odd ? single[0] : 0;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        if (odd + 2 * i + 1 < bytes)
            word |= (uint64_t)pairs[i] << (8 * odd + 16 * i);
    if ((bytes - odd) & 1)
        word |= (uint64_t)single[bytes - 1] << (8 * (bytes - 1));
    return word;
}

WEIRI_GPU_FN void weiri_gpu_store_parts(char *to, uint64_t word, uint32_t bytes)
{
    const uint32_t odd = weiri_gpu_misaligned(to, 2);
    uint16_t *pairs = (uint16_t *)(to + odd);
    if (odd)
        to[0] = (char)word;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        if (odd + 2 * i + 1 < bytes)
            pairs[i] = (uint16_t)(word >> (8 * odd + 16 * i));
    if ((bytes - odd) & 1)
        to[bytes - 1] = (char)(word >> (8 * (bytes - 1)));
}

/* The first 8 of the `bytes` that remain of a buffer; missing bytes are 0. May read bytes that
 * precede `from` in the same aligned word, but none after the buffer's end. */
WEIRI_GPU_FN uint64_t weiri_gpu_load_word(const char *from, size_t bytes)
{
    const uint32_t shift = weiri_gpu_misaligned(from, 8);
    if (__builtin_expect(bytes >= 8 && !shift, 1))
        return weiri_gpu_load8(from);
    if (bytes >= 16)
        return weiri_gpu_shift_words(weiri_gpu_load8(from - shift),
                                     weiri_gpu_load8(from - shift + 8), shift);
    return bytes ? weiri_gpu_load_parts(from, bytes < 8 ? (uint32_t)bytes : 8) : 0;
}

/* Stores as much of a word as the buffer's remaining `bytes` have room for. */
WEIRI_GPU_FN void weiri_gpu_store_word(char *to, uint64_t word, size_t bytes)
{
    const uint32_t shift = weiri_gpu_misaligned(to, 8);
    if (__builtin_expect(bytes >= 8 && !shift, 1)) {
        weiri_gpu_store8(to, word);
    } else if (bytes >= 8 && shift == 4) {
        ((uint32_t *)to)[0] = (uint32_t)word;
        ((uint32_t *)to)[1] = (uint32_t)(word >> 32);
    } else if (bytes) {
        weiri_gpu_store_parts(to, word, bytes < 8 ? (uint32_t)bytes : 8);
    }
}

/* Whether the buffer's address and length are multiples of 8. This is the common case, for which
 * kernels have a shorter path. */
WEIRI_GPU_FN bool weiri_gpu_word_aligned(const void *buffer, uint64_t bytes)
{
    return !(((uint32_t)(uintptr_t)buffer | (uint32_t)bytes) & 7);
}

/* A word of a buffer of which `left` bytes remain; even: the buffer is word-aligned. */
WEIRI_GPU_FN uint64_t weiri_gpu_load_next(const char *from, size_t left, bool even)
{
    return even ? weiri_gpu_load8(from) : weiri_gpu_load_word(from, left);
}

WEIRI_GPU_FN void weiri_gpu_store_next(char *to, uint64_t word, size_t left, bool even)
{
    if (even)
        weiri_gpu_store8(to, word);
    else
        weiri_gpu_store_word(to, word, left);
}

#endif
