/*
 * Bulk copies, and the size from which on they should bypass the caches. A copy through the caches
 * is memcpy; a streaming copy is a streaming reduction of one source.
 *
 * Copies into memory that another core reads. A store to a line that another core has cached takes
 * 2 to 3 ns if the two share a last-level cache, and several times as long if they do not; neither
 * the processor's model nor, on virtual machines, the topology says which. So each thread measures
 * it: in every 68 copies it times four. If the fastest of them was slow, the next 1024 bypass the
 * caches on processors where that is faster. If it was merely not as fast as within caches that
 * both cores share, the next 1024 decisions, less the copies made meanwhile, are for copies by the
 * reader alone.
 */
#include "compute/copy.h"

#include "compute/reduce.h"
#include <weir/target.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

enum { DEFAULT_CACHE_BYTES = 32 << 20, DEFAULT_OWN_CACHE_BYTES = 1 << 20, LINE_BYTES = 64 };

enum {
    SLOW_PS_PER_LINE = 6000, /* stores of a copy that overlap nothing but its loads */
    FAR_PS_PER_LINE = 3500,
    TIMED_COPIES = 4,    /* at once; */
    UNTIMED_COPIES = 64, /* and those between */
    SLOW_COPIES = 1024,  /* for which a verdict holds */
};

/* What a thread knows about its stores into memory that other cores read. */
typedef struct peer_pace {
    uint64_t best_ps; /* per line, of the copies timed since the last verdict; 0: none yet */
    int timed, untimed_left, slow_left, far_left;
} peer_pace;

static _Thread_local peer_pace pace;

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

/* In assembly, because compilers replace it by a request for reading where not every processor of
 * the target has it; those without it ignore it. */
static void line_request(const char *line)
{
    __asm__ volatile("prefetchw %0" ::"m"(*line));
}

static void loads_await(void)
{
    _mm_lfence();
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

static void line_request(const char *line)
{
    __builtin_prefetch(line, 1, 3);
}

static void loads_await(void)
{
}

#endif

static int streams_known; /* 1: no, 2: yes; racing threads store the same */

void weiri_copy_assume_streams_to_peers(int does)
{
    __atomic_store_n(&streams_known, does ? 2 : 1, __ATOMIC_RELAXED);
}

int weiri_copy_streams_to_peers(void)
{
    int answer = __atomic_load_n(&streams_known, __ATOMIC_RELAXED);
    if (!answer) {
        answer = cpu_is_amd() ? 2 : 1;
        __atomic_store_n(&streams_known, answer, __ATOMIC_RELAXED);
    }
    return answer == 2;
}

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)

/* A long string move requests lines without their contents. */
void weiri_copy_unfetched(void *dst, const void *src, size_t bytes)
{
    __asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(bytes) : : "memory");
}

#else

void weiri_copy_unfetched(void *dst, const void *src, size_t bytes)
{
    weiri_copy(dst, src, bytes);
}

#endif

void weiri_request_for_writing(const void *block, size_t bytes)
{
    if (weiri_copy_streams_to_peers())
        return;
    for (size_t at = 0; at < bytes; at += LINE_BYTES)
        line_request((const char *)block + at);
}

void weiri_read_no_earlier(void)
{
    if (!weiri_copy_streams_to_peers())
        loads_await();
}

void weiri_copy_note_pace(size_t bytes, uint64_t elapsed_ns)
{
    uint64_t ps = elapsed_ns * 1000 * LINE_BYTES / bytes + 1;
    if (!pace.best_ps || ps < pace.best_ps)
        pace.best_ps = ps;
    if (++pace.timed < TIMED_COPIES)
        return;
    pace.slow_left = pace.best_ps > SLOW_PS_PER_LINE ? SLOW_COPIES : 0;
    pace.far_left = pace.best_ps > FAR_PS_PER_LINE ? SLOW_COPIES : 0;
    pace.untimed_left = pace.far_left ? 0 : UNTIMED_COPIES;
    pace.best_ps = 0;
    pace.timed = 0;
}

static int pace_take(int *left)
{
    if (!*left)
        return 0;
    --*left;
    return 1;
}

int weiri_copy_to_peers_is_slow(void)
{
    return pace_take(&pace.slow_left);
}

int weiri_copy_to_peers_is_far(void)
{
    return pace_take(&pace.far_left);
}

int weiri_copy_to_peer_is_timed(void)
{
    return pace.slow_left == 0 && pace.far_left == 0 && pace.untimed_left == 0;
}

void weiri_copy_to_peer(void *dst, const void *src, size_t bytes)
{
    if (bytes < WEIRI_PEER_STREAMING_BYTES) {
        weiri_copy(dst, src, bytes);
        return;
    }
    if (weiri_copy_to_peers_is_slow()) {
        if (weiri_copy_streams_to_peers())
            copy_streaming_to_peer(dst, src, bytes);
        else
            memcpy(dst, src, bytes);
        return;
    }
    if (pace_take(&pace.far_left) || pace_take(&pace.untimed_left)) {
        memcpy(dst, src, bytes);
        return;
    }
    uint64_t begin_ns = weir_clock_ns();
    memcpy(dst, src, bytes);
    weiri_copy_note_pace(bytes, weir_clock_ns() - begin_ns);
}

void weiri_prefetch(const void *src, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += LINE_BYTES)
        __builtin_prefetch((const char *)src + at, 0, 3);
}

int weiri_copy_from_peers_is_slow(void)
{
    return pace.slow_left > 0;
}

void weiri_copy_from_peer(void *dst, const void *src, size_t bytes)
{
    char *to = dst;
    const char *from = src;
    if (!weiri_copy_from_peers_is_slow()) {
        weiri_copy(dst, src, bytes);
        return;
    }
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

/* Size of a cache as Linux reports it, else as the C library does (which is wrong by a factor of
 * ten on some virtual machines), else a common size. */
static size_t cache_bytes(const char *path, int name, size_t common)
{
    size_t kib = 0;
    FILE *file = fopen(path, "re");
    if (file) {
        if (fscanf(file, "%zuK", &kib) != 1)
            kib = 0;
        fclose(file);
    }
    if (kib)
        return kib << 10;
    long bytes = name >= 0 ? sysconf(name) : -1;
    return bytes > 0 ? (size_t)bytes : common;
}

static size_t last_cache_bytes(void)
{
#if defined(_SC_LEVEL3_CACHE_SIZE)
    const int name = _SC_LEVEL3_CACHE_SIZE;
#else
    const int name = -1;
#endif
    return cache_bytes("/sys/devices/system/cpu/cpu0/cache/index3/size", name, DEFAULT_CACHE_BYTES);
}

/* Racing threads compute the same value. */
static size_t own_cache_bytes(void)
{
    static size_t own_bytes;
    size_t known = __atomic_load_n(&own_bytes, __ATOMIC_RELAXED);
    if (!known) {
#if defined(_SC_LEVEL2_CACHE_SIZE)
        const int name = _SC_LEVEL2_CACHE_SIZE;
#else
        const int name = -1;
#endif
        known = cache_bytes("/sys/devices/system/cpu/cpu0/cache/index2/size", name,
                            DEFAULT_OWN_CACHE_BYTES);
        __atomic_store_n(&own_bytes, known, __ATOMIC_RELAXED);
    }
    return known;
}

int weiri_copies_unfetched(size_t total_bytes)
{
    return total_bytes >= own_cache_bytes() && !weiri_copy_streams_to_peers();
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
