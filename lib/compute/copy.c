/*
 * Bulk copies, and the size from which on they should bypass the caches. A copy through the caches
 * is memcpy; a streaming copy is a streaming reduction of one source.
 */
#include "compute/copy.h"

#include "compute/reduce.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_CACHE_BYTES = 32 << 20 };

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
