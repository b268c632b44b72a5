/*
 * The node's available memory, or its control group's if that is less, divided among the ranks of
 * the node, and the free memory of the rank's GPU: see memory.h. Margins are left for the library,
 * MPI and verification, whose own buffers do not grow with the size.
 */
#include "bench/job/memory.h"

#include "base/words.h"
#include "bench/gpu/gpu.h"
#include "bench/job/exchange.h"
#include "bench/job/groups.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const size_t node_margin_bytes = (size_t)48 << 20; /* of each rank */
static const size_t gpu_margin_bytes = (size_t)1 << 30;

/* Reads the number after a key ("MemAvailable:"), or at the start of the file if key is empty.
 * Returns 0 if there is none ("max" is none). */
static int read_number(const char *folder, const char *name, const char *key,
                       unsigned long long *value)
{
    char line[256], path[2 * PATH_MAX];
    int found = 0;
    snprintf(path, sizeof path, "%s%s", folder, name);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    while (!found && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0)
            found = sscanf(line + strlen(key), "%llu", value) == 1;
    fclose(file);
    return found;
}

/* Lowers *bytes to what is left of a control group's limit, of either version. Page cache counts as
 * used, which errs on the safe side. */
static void limit_to_group(const char *folder, void *bytes)
{
    static const struct {
        const char *limit, *used;
    } files[] = {{"/memory.max", "/memory.current"},
                 {"/memory.limit_in_bytes", "/memory.usage_in_bytes"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        unsigned long long limit = 0, used = 0;
        if (!read_number(folder, files[i].limit, "", &limit) ||
            !read_number(folder, files[i].used, "", &used))
            continue;
        size_t *least = bytes, left = limit > used ? (size_t)(limit - used) : 0;
        *least = left < *least ? left : *least;
    }
}

size_t bench_memory_available(const char *root)
{
    unsigned long long kib = 0;
    size_t bytes = SIZE_MAX;
    if (read_number(root, "/proc/meminfo", "MemAvailable:", &kib))
        bytes = (size_t)kib * 1024;
    bench_groups_read(root, "memory", limit_to_group, &bytes);
    return bytes;
}

/* What a rank can use of the node's memory; a part of it stays free. */
static size_t share_of_node(const bench_memory_room *room)
{
    size_t share = (room->node_bytes - room->node_bytes / 16) / (size_t)room->node_ranks;
    return share > node_margin_bytes ? share - node_margin_bytes : 0;
}

static size_t share_of_gpu(const bench_memory_room *room)
{
    if (room->gpu_bytes == BENCH_MEMORY_NO_GPU)
        return SIZE_MAX;
    return room->gpu_bytes > gpu_margin_bytes ? room->gpu_bytes - gpu_margin_bytes : 0;
}

int bench_memory_holds(const bench_memory_room *room, const bench_need *need)
{
    return need->host_bytes <= share_of_node(room) && need->gpu_bytes <= share_of_gpu(room);
}

/* GiB with three digits. */
static const char *gib_word(size_t bytes, char *text, size_t text_bytes)
{
    double gib = (double)bytes / ((size_t)1 << 30);
    snprintf(text, text_bytes, "%.*f GiB", gib < 10 ? 2 : gib < 100 ? 1 : 0, gib);
    return text;
}

void bench_memory_explain(const bench_memory_room *room, const bench_need *need, char *text,
                          size_t bytes)
{
    char needed[32], there[32];
    if (need->gpu_bytes > share_of_gpu(room))
        snprintf(text, bytes, "buffers take %s on each GPU, which has %s free",
                 gib_word(need->gpu_bytes, needed, sizeof needed),
                 gib_word(room->gpu_bytes, there, sizeof there));
    else
        snprintf(text, bytes, "buffers of %d rank%s take %s, and %s of memory are available",
                 room->node_ranks, weiri_s(room->node_ranks),
                 gib_word(need->host_bytes * (size_t)room->node_ranks, needed, sizeof needed),
                 gib_word(room->node_bytes, there, sizeof there));
}

/* A size as options take it: 48G, 1536M, 20. */
static void size_word(size_t bytes, char *text, size_t text_bytes)
{
    static const char *const units[] = {"", "K", "M", "G", "T"};
    int unit = 0;
    while (unit < 4 && bytes && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, text_bytes, "%zu%s", bytes, units[unit]);
}

static bench_memory_room room_of(const bench_job *job)
{
    bench_memory_room room = {bench_memory_available(""), job->local_nranks, BENCH_MEMORY_NO_GPU};
    bench_gpu_info gpu;
    if (job->gpu) {
        bench_gpu_describe(job->gpu, &gpu);
        room.gpu_bytes = gpu.free_bytes;
    }
    return room;
}

/* The largest size that this rank has room for: the largest wanted, or a smaller one in whole MiB,
 * and below one MiB in bytes. */
static size_t largest_that_fits(const bench_job *job, const bench_options *options,
                                weir_collective collective, const bench_dist *dist)
{
    bench_memory_room room = room_of(job);
    size_t low = 0, high = bench_sizes_last(options);
    const size_t unit = (size_t)1 << 20;
    while (low < high) {
        size_t middle = high - (high - low) / 2;
        bench_need need = bench_buffers_need(job, options, collective, dist, middle);
        if (bench_memory_holds(&room, &need))
            low = middle;
        else
            high = middle - 1;
    }
    return low > unit && low < bench_sizes_last(options) ? low / unit * unit : low;
}

/* Explains the refusal on the rank with the least room. */
static weir_status refuse_size(bench_job *job, const bench_options *options,
                               weir_collective collective, const bench_dist *dist, size_t fits)
{
    char why[160], given[32], asked[32], fitting[32];
    size_t last = bench_sizes_last(options);
    bench_memory_room room = room_of(job);
    bench_need need = bench_buffers_need(job, options, collective, dist, last);
    const char *option = options->max_given ? "-e" : "-b";
    bench_memory_explain(&room, &need, why, sizeof why);
    size_word(options->max_bytes, given, sizeof given);
    size_word(last, asked, sizeof asked);
    size_word(fits, fitting, sizeof fitting);
    return bench_job_note(job, WEIR_ERR_NO_MEMORY,
                          "%s %s does not fit node %s: at %s %s; give %s %s or less%s", option,
                          given, job->host, asked, why, option, fitting,
                          job->local_nranks > 1 ? ", or start fewer ranks" : "");
}

weir_status bench_memory_check(bench_job *job, bench_options *options, weir_collective collective,
                               const bench_dist *dist)
{
    size_t last = bench_sizes_last(options);
    size_t mine = largest_that_fits(job, options, collective, dist);
    size_t fits = (size_t)bench_exchange_fold(job, BENCH_FOLD_MIN, (double)mine);
    int first = mine < last && mine == fits ? job->rank : job->nranks;
    first = (int)bench_exchange_fold(job, BENCH_FOLD_MIN, first);
    weir_status status = WEIR_OK;
    if (fits >= last)
        return WEIR_OK;
    int is_default = !options->max_given && options->min_bytes <= fits;
    if (job->rank == first && !is_default)
        status = refuse_size(job, options, collective, dist, fits);
    status = bench_job_agree(job, status, "size");
    if (status == WEIR_OK) {
        char fitting[32];
        size_word(fits, fitting, sizeof fitting);
        bench_job_say(job,
                      "warning: memory is scarce, so sizes end at %s; -e SIZE sets the "
                      "largest",
                      fitting);
        options->max_bytes = fits;
    }
    return status;
}
