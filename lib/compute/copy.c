/*
 * Bulk copies, and the size from which on they should bypass the caches. A copy through the caches
 * is memcpy; a streaming copy is a streaming reduction of one source.
 */
#include "compute/copy.h"

#include "compute/reduce.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

enum { DEFAULT_CACHE_BYTES = 32 << 20, LINE_BYTES = 64 };

void weiri_copy(void *dst, const void *src, size_t bytes)
{
    if (bytes)
        memcpy(dst, src, bytes);
}

void weiri_copy_streaming(void *dst, const void *src, size_t bytes)
{
    if (bytes)
        weiri_reduce(dst, &src, 1, bytes, WEIR_UINT8, WEIR_SUM, 1, 1);
}

#if defined(__x86_64__)

static int cpu_is_amd(void)
{
    unsigned highest, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid(0, &highest, &ebx, &ecx, &edx) && ebx == signature_AMD_ebx &&
           ecx == signature_AMD_ecx && edx == signature_AMD_edx;
}

/* Copies whole cache lines to an aligned destination. */
static void stream_lines(char *dst, const char *src, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += LINE_BYTES)
        for (size_t part = at; part < at + LINE_BYTES; part += sizeof(__m128i)) {
            __m128i value = _mm_loadu_si128((const __m128i *)(const void *)(src + part));
            _mm_stream_si128((__m128i *)(void *)(dst + part), value);
        }
}

static void copy_streaming_to_peer(char *dst, const char *src, size_t bytes)
{
    size_t head = (size_t)(0 - (uintptr_t)dst) % LINE_BYTES;
    size_t lines = (bytes - head) / LINE_BYTES * LINE_BYTES;
    memcpy(dst, src, head);
    memcpy(dst + head + lines, src + head + lines, bytes - head - lines);
    stream_lines(dst + head, src + head, lines);
    _mm_sfence();
}

#else

static int cpu_is_amd(void)
{
    return 0;
}

static void copy_streaming_to_peer(char *dst, const char *src, size_t bytes)
{
    memcpy(dst, src, bytes);
}

#endif

int weiri_copy_streams_to_peers(void)
{
    static int known; /* 1: no, 2: yes; racing threads store the same */
    int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!answer) {
        answer = cpu_is_amd() ? 2 : 1;
        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    }
    return answer == 2;
}

void weiri_copy_to_peer(void *dst, const void *src, size_t bytes)
{
    if (bytes >= WEIRI_PEER_STREAMING_BYTES && weiri_copy_streams_to_peers())
        copy_streaming_to_peer(dst, src, bytes);
    else
        weiri_copy(dst, src, bytes);
}

void weiri_prefetch(const void *src, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += LINE_BYTES)
        __builtin_prefetch((const char *)src + at, 0, 3);
}

void weiri_copy_from_peer(void *dst, const void *src, size_t bytes)
{
    char *to = dst;
    const char *from = src;
    weiri_prefetch(from, bytes < WEIRI_PREFETCH_BYTES ? bytes : WEIRI_PREFETCH_BYTES);
    while (bytes > WEIRI_PREFETCH_BYTES) {
        size_t ahead = bytes - WEIRI_PREFETCH_BYTES;
        weiri_prefetch(from + WEIRI_PREFETCH_BYTES,
                       ahead < WEIRI_PREFETCH_BYTES ? ahead : WEIRI_PREFETCH_BYTES);
        memcpy(to, from, WEIRI_PREFETCH_BYTES);
        to += WEIRI_PREFETCH_BYTES;
        from += WEIRI_PREFETCH_BYTES;
        bytes = ahead;
    }
    weiri_copy(to, from, bytes);
}

/* Size of the last-level cache as Linux reports it, else as the C library does (which is wrong by a
 * factor of ten on some virtual machines), else a common size. */
static size_t last_cache_bytes(void)
{
    size_t kib = 0;
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "re");
    if (file) {
        if (fscanf(file, "%zuK", &kib) != 1)
            kib = 0;
        fclose(file);
    }
    if (kib)
        return kib << 10;
#if defined(_SC_LEVEL3_CACHE_SIZE)
    long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (bytes > 0)
        return (size_t)bytes;
#endif
    return DEFAULT_CACHE_BYTES;
}

/* Half of the cache: streaming is faster from a third of it on for a reduction of two sources, and
 * from two thirds on for a copy. Racing threads compute the same value. */
size_t weiri_streaming_threshold_bytes(void)
{
    static size_t threshold_bytes;
    size_t known = __atomic_load_n(&threshold_bytes, __ATOMIC_RELAXED);
    if (!known) {
        known = last_cache_bytes() / 2;
        __atomic_store_n(&threshold_bytes, known, __ATOMIC_RELAXED);
    }
    return known;
}
