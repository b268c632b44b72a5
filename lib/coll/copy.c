/*
 * Bulk copies. The C library's memcpy is as fast as anything through the
 * caches; only the streaming copy is our own. It stores whole cache lines
 * around the caches, so it first copies up to a line boundary of the
 * destination, and ends with the part of a line that is left.
 */
#include "coll/copy.h"

#include "base/target.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

enum {
    SMALL_BYTES = 4 * WEIR_LINE_BYTES, /* below it a fence costs more than it saves */
    DEFAULT_CACHE_BYTES = 32 << 20
};

void weiri_copy(void *dst, const void *src, size_t bytes)
{
    if (bytes)
        memcpy(dst, src, bytes);
}

#if defined(__x86_64__)

/* bytes: a multiple of a line; dst: at the start of a line. Two lines at a time
 * leave enough loads in flight; wider stores are no faster, since what leaves
 * the core is a full line in any case. */
static void stream_lines(uint8_t *dst, const uint8_t *src, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += WEIR_LINE_BYTES) {
        const __m128i *from = (const __m128i *)(const void *)(src + at);
        __m128i *to = (__m128i *)(void *)(dst + at);
        __m128i first = _mm_loadu_si128(from);
        __m128i second = _mm_loadu_si128(from + 1);
        __m128i third = _mm_loadu_si128(from + 2);
        __m128i fourth = _mm_loadu_si128(from + 3);
        _mm_stream_si128(to, first);
        _mm_stream_si128(to + 1, second);
        _mm_stream_si128(to + 2, third);
        _mm_stream_si128(to + 3, fourth);
    }
}

void weiri_streaming_fence(void)
{
    _mm_sfence();
}

#else

static void stream_lines(uint8_t *dst, const uint8_t *src, size_t bytes)
{
    memcpy(dst, src, bytes);
}

void weiri_streaming_fence(void)
{
}

#endif

void weiri_copy_streaming_unfenced(void *dst, const void *src, size_t bytes)
{
    if (bytes < SMALL_BYTES) {
        weiri_copy(dst, src, bytes);
        return;
    }
    uint8_t *to = dst;
    const uint8_t *from = src;
    size_t head = (size_t)(0 - (uintptr_t)to) % WEIR_LINE_BYTES;
    size_t lines = (bytes - head) / WEIR_LINE_BYTES * WEIR_LINE_BYTES;
    memcpy(to, from, head);
    stream_lines(to + head, from + head, lines);
    memcpy(to + head + lines, from + head + lines, bytes - head - lines);
}

void weiri_copy_streaming(void *dst, const void *src, size_t bytes)
{
    weiri_copy_streaming_unfenced(dst, src, bytes);
    weiri_streaming_fence();
}

size_t weiri_streaming_threshold_bytes(void)
{
    return DEFAULT_CACHE_BYTES;
}
