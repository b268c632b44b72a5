/* The sizes of caches, from sysfs or sysconf: see cache.h. */
#include "bench/job/cache.h"

#include <stdio.h>
#include <unistd.h>

enum { POOL_CACHES = 2 }; /* all copies together are this many times as large as the cache */

size_t bench_cache_bytes(void)
{
    static const int levels[] = {_SC_LEVEL4_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE,
                                 _SC_LEVEL2_CACHE_SIZE};
    size_t kib = 0;
    /* The kernel reports one cache; on a virtual machine sysconf may report the sum of all. */
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "r");
    if (file && fscanf(file, "%zuK", &kib) != 1)
        kib = 0;
    if (file)
        fclose(file);
    for (size_t i = 0; i < sizeof levels / sizeof levels[0] && !kib; i++) {
        long bytes = sysconf(levels[i]);
        if (bytes > 0)
            return (size_t)bytes;
    }
    return kib ? kib << 10 : (size_t)32 << 20;
}

/* The number of hardware threads that share cpu 0's last-level cache, from a list such as
 * "0-3,8"; all if the list cannot be read. */
static int threads_at_cache(int all)
{
    int count = 0, low = 0, high = 0;
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list", "r");
    if (!file)
        return all;
    while (fscanf(file, "%d", &low) == 1) {
        int next = fgetc(file);
        if (next == '-' && fscanf(file, "%d", &high) == 1) {
            count += high - low + 1;
            next = fgetc(file);
        } else {
            count++;
        }
        if (next != ',')
            break;
    }
    fclose(file);
    return count > 0 ? count : all;
}

int bench_cache_sharers(int local_nranks, int sharing, int all)
{
    int caches = sharing > 0 && all > sharing ? all / sharing : 1;
    return (local_nranks + caches - 1) / caches;
}

size_t bench_cache_pool_bytes(int local_nranks, size_t largest)
{
    int all = (int)sysconf(_SC_NPROCESSORS_ONLN);
    int ranks = bench_cache_sharers(local_nranks, threads_at_cache(all), all);
    size_t share = POOL_CACHES * bench_cache_bytes() / (size_t)(ranks > 0 ? ranks : 1);
    return share > largest ? share : largest;
}

size_t bench_cache_gpu_pool_bytes(size_t cache_bytes, size_t largest)
{
    return POOL_CACHES * cache_bytes > largest ? POOL_CACHES * cache_bytes : largest;
}
