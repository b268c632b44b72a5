/*
 * The node's available memory, or its control group's if that is less, divided among the local
 * ranks. A rank needs two buffers of the size (input and output); a margin is left for the
 * library, MPI and verification.
 */
#include "bench/job/preflight.h"

#include "bench/gpu/gpu.h"
#include "bench/job/exchange.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Reads the number after a key ("MemAvailable:"), or at the start of the file if key is empty.
 * Returns 0 if there is none ("max" is none). */
static int read_number(const char *path, const char *key, unsigned long long *value)
{
    char line[256];
    int found = 0;
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    while (!found && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0)
            found = sscanf(line + strlen(key), "%llu", value) == 1;
    fclose(file);
    return found;
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* What is left of a control group's limit. Page cache counts as used, which errs on the safe
 * side. */
static size_t group_bytes(const char *limit_path, const char *used_path)
{
    unsigned long long limit = 0, used = 0;
    if (!read_number(limit_path, "", &limit) || !read_number(used_path, "", &used))
        return SIZE_MAX;
    return limit > used ? (size_t)(limit - used) : 0;
}

static size_t available_bytes(void)
{
    unsigned long long kib = 0;
    size_t bytes = SIZE_MAX;
    if (read_number("/proc/meminfo", "MemAvailable:", &kib))
        bytes = (size_t)kib * 1024;
    bytes =
        min_size(bytes, group_bytes("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"));
    return min_size(bytes, group_bytes("/sys/fs/cgroup/memory/memory.limit_in_bytes",
                                       "/sys/fs/cgroup/memory/memory.usage_in_bytes"));
}

/* The largest size that fits the rank's GPU. A vendor's library may have two more buffers, and
 * needs some memory itself. */
static size_t device_limit(const bench_job *job, const bench_options *options)
{
    const size_t margin_bytes = (size_t)1 << 30;
    size_t buffers = options->npeers ? 4 : 2;
    bench_gpu_info gpu;
    bench_gpu_describe(job->gpu, &gpu);
    return gpu.free_bytes > margin_bytes ? (gpu.free_bytes - margin_bytes) / buffers : 0;
}

/* The largest size that a rank of this node can run. */
static size_t size_limit(const bench_job *job, const bench_options *options)
{
    const size_t margin_bytes = (size_t)48 << 20;
    size_t usable = available_bytes();
    usable -= usable / 16;
    size_t share = usable / (size_t)job->local_nranks;
    share = share > margin_bytes ? (share - margin_bytes) / 2 : 0;
    return job->gpu ? min_size(share, device_limit(job, options)) : share;
}

weir_status bench_memory_limit(bench_job *job, bench_options *options)
{
    double mine = (double)size_limit(job, options);
    uint64_t limit = (uint64_t)bench_exchange_fold(job, BENCH_FOLD_MIN, mine);
    if (options->max_bytes <= limit)
        return WEIR_OK;
    if (options->min_bytes > limit) {
        bench_job_say(job,
                      "-b %zu: %d ranks on a node have memory for %llu bytes each; give a "
                      "smaller -b or fewer ranks",
                      options->min_bytes, job->local_nranks, (unsigned long long)limit);
        return WEIR_ERR_NO_MEMORY;
    }
    bench_job_say(job, "warning: -e %zu needs more memory than there is; reduced to %llu",
                  options->max_bytes, (unsigned long long)limit);
    options->max_bytes = (size_t)limit;
    return WEIR_OK;
}
