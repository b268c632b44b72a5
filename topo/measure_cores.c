/*
 * Measures links between cores. One thread runs at each rank's place. What crosses a link is data
 * that its owner has just written: the owner writes, barrier, the reader reads it once and takes
 * the time, barrier. The best of several repetitions counts, because it shows what the links can
 * do.
 */
#include "topo/measure.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include <weir/target.h>
#include "topo/model.h"

enum {
    REPEATS = 9,
    PAIR_BYTES = 4 << 20,
    PING_PONGS = 1000,
    SMALLEST_BYTES = 4096,
    STEP = 8,        /* from size to size */
    PATIENCE = 2000, /* polls before yielding the processor: cores may be shared */
};

typedef struct study {
    int nranks;
    size_t largest_bytes;
    weiri_links *links;
    weiri_progress *progress; /* shown by the first thread */
    pthread_barrier_t barrier;
    pthread_mutex_t gate; /* closed until all threads have been started or one has failed to
                           * start */
    int is_off;           /* one has failed to start */
    char **sources;
    uint64_t *sums;
    double *times_us; /* per endpoint, in a repetition */
    struct {
        _Alignas(WEIR_LINE_BYTES) uint64_t value;
    } ball[2];
} study;

typedef struct endpoint {
    study *of;
    int rank;
    hwloc_bitmap_t cpus;
    hwloc_topology_t hwloc;
} endpoint;

static double least(const double *values, int count)
{
    double found = values[0];
    for (int i = 1; i < count; i++)
        found = values[i] < found ? values[i] : found;
    return found;
}

static void barrier(study *all)
{
    pthread_barrier_wait(&all->barrier);
}

/* Reads memory without writing any. The result is used only so that the compiler keeps the
 * loads. */
static uint64_t take_in(const char *from, size_t bytes)
{
    const uint64_t *words = (const uint64_t *)(const void *)from;
    uint64_t sums[8] = {0};
    for (size_t i = 0; i + 8 <= bytes / sizeof *words; i += 8)
        for (int lane = 0; lane < 8; lane++)
            sums[lane] ^= words[i + (size_t)lane];
    return sums[0] ^ sums[1] ^ sums[2] ^ sums[3] ^ sums[4] ^ sums[5] ^ sums[6] ^ sums[7];
}

/* Transfers `bytes` bytes from the memory of rank `from` once. Returns the time, or 0 for a rank
 * that does not read. */
static double time_transfer(study *all, int rank, int from, int reads, size_t bytes, int repeat)
{
    double took_us = 0;
    memset(all->sources[rank], repeat + 1, bytes);
    barrier(all);
    if (reads) {
        double start_us = weiri_clock_us();
        all->sums[rank] = take_in(all->sources[from], bytes);
        took_us = weiri_clock_us() - start_us;
    }
    barrier(all);
    return took_us;
}

/* Every endpoint reads from the next one. Records the bandwidth of the slowest endpoint in the best
 * repetition. */
static void measure_together(study *all, int rank)
{
    weiri_links *links = all->links;
    for (size_t bytes = SMALLEST_BYTES; bytes <= all->largest_bytes; bytes *= STEP) {
        double slowest_us[REPEATS];
        for (int repeat = 0; repeat < REPEATS; repeat++) {
            all->times_us[rank] =
                time_transfer(all, rank, (rank + 1) % all->nranks, 1, bytes, repeat);
            barrier(all);
            slowest_us[repeat] = 0;
            for (int i = 0; i < all->nranks; i++)
                if (all->times_us[i] > slowest_us[repeat])
                    slowest_us[repeat] = all->times_us[i];
            barrier(all);
        }
        if (rank == 0) {
            links->bytes[links->nsizes] = (double)bytes;
            links->together_gbs[links->nsizes++] =
                (double)bytes / least(slowest_us, REPEATS) * 1e-3;
        }
    }
}

static void await(const uint64_t *ball, uint64_t value)
{
    for (unsigned polls = 0; weir_load_acquire(ball) != value; polls++)
        if (polls % PATIENCE == PATIENCE - 1)
            sched_yield();
}

/* Returns half a round trip of a word between two cache lines. */
static double ping_pong(study *all, int is_first, uint64_t *sent)
{
    double start_us = weiri_clock_us();
    for (int i = 0; i < PING_PONGS; i++) {
        ++*sent;
        if (is_first)
            weir_store_release(&all->ball[0].value, *sent);
        await(&all->ball[is_first].value, *sent);
        if (!is_first)
            weir_store_release(&all->ball[1].value, *sent);
    }
    return (weiri_clock_us() - start_us) / PING_PONGS / 2;
}

static void measure_pair(study *all, int rank, int from, int to, uint64_t *sent)
{
    double reads_us[REPEATS], words_us[REPEATS];
    int takes_part = rank == from || rank == to;
    size_t at = (size_t)from * (size_t)all->nranks + (size_t)to;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        reads_us[repeat] =
            time_transfer(all, rank, from, rank == to, takes_part ? PAIR_BYTES : 0, repeat);
        words_us[repeat] = takes_part ? ping_pong(all, rank == from, sent) : 0;
        *sent += takes_part ? 0 : PING_PONGS;
        barrier(all);
    }
    if (rank != to)
        return;
    all->links->gbs[at] = PAIR_BYTES / least(reads_us, REPEATS) * 1e-3;
    all->links->us[at] = least(words_us, REPEATS);
}

static void *run(void *argument)
{
    endpoint *own = argument;
    study *all = own->of;
    uint64_t sent = 0;
    pthread_mutex_lock(&all->gate);
    pthread_mutex_unlock(&all->gate);
    if (all->is_off)
        return NULL;
    if (own->cpus) /* without binding the endpoint still works, if less steadily */
        hwloc_set_cpubind(own->hwloc, own->cpus, HWLOC_CPUBIND_THREAD);
    memset(all->sources[own->rank], 0, all->largest_bytes);
    measure_together(all, own->rank);
    const double pairs = (double)all->nranks * (all->nranks - 1);
    double done = 0;
    for (int from = 0; from < all->nranks; from++)
        for (int to = 0; to < all->nranks; to++) {
            if (from == to)
                continue;
            if (own->rank == 0) /* the others wait for this thread before they measure */
                weiri_progress_show(all->progress, "links between cores", done++ / pairs);
            measure_pair(all, own->rank, from, to, &sent);
        }
    return NULL;
}

/* The last core of a rank's place, to which benchmarks bind it; NULL if unknown. */
static hwloc_bitmap_t cpus_of(const weiri_topo *topo, int rank, int nranks)
{
    weiri_place place;
    if (weiri_topo_place(topo, rank, nranks, &place) != WEIR_OK)
        return NULL;
    hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
    if (cpus && hwloc_bitmap_list_sscanf(cpus, place.cpus) == 0) {
        hwloc_bitmap_only(cpus, (unsigned)hwloc_bitmap_last(cpus));
    } else {
        hwloc_bitmap_free(cpus);
        cpus = NULL;
    }
    weiri_place_free(&place);
    return cpus;
}

static weir_status take_buffers(study *all)
{
    for (int rank = 0; rank < all->nranks; rank++) {
        all->sources[rank] = malloc(all->largest_bytes);
        if (!all->sources[rank])
            return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to measure: %d endpoints, %zu bytes",
                              all->nranks, all->largest_bytes);
    }
    return WEIR_OK;
}

static weir_status run_threads(study *all, const weiri_topo *topo)
{
    int n = all->nranks, started = 0;
    pthread_t *threads = calloc((size_t)n, sizeof *threads);
    endpoint *endpoints = calloc((size_t)n, sizeof *endpoints);
    weir_status status = threads && endpoints ? WEIR_OK : WEIR_ERR_NO_MEMORY;
    if (status != WEIR_OK)
        weiri_fail(status, "no memory for %d threads", n);
    pthread_mutex_lock(&all->gate);
    for (; started < n && status == WEIR_OK; started++) {
        endpoints[started] = (endpoint){all, started, cpus_of(topo, started, n), topo->hwloc};
        int error = pthread_create(&threads[started], NULL, run, &endpoints[started]);
        if (error) {
            status = weiri_fail_errno(WEIR_ERR_SYSTEM, error, "cannot start thread %d of %d",
                                      started, n);
            break;
        }
    }
    all->is_off = status != WEIR_OK;
    pthread_mutex_unlock(&all->gate);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; endpoints && i < n; i++)
        hwloc_bitmap_free(endpoints[i].cpus);
    free(threads);
    free(endpoints);
    return status;
}

static void forget(study *all)
{
    for (int rank = 0; all->sources && rank < all->nranks; rank++)
        free(all->sources[rank]);
    free(all->sources);
    free(all->sums);
    free(all->times_us);
}

/* Larger than the caches of one core, but not larger than the memory divided among many. */
static size_t largest_for(int nranks)
{
    enum { FEW = 8, LARGEST = 128 << 20, LARGEST_OF_MANY = 16 << 20 };
    return nranks <= FEW ? LARGEST : LARGEST_OF_MANY;
}

weir_status weiri_topo_measure_cores(const weiri_topo *topo, int nranks, weiri_progress *progress,
                                     weiri_links **links)
{
    if (nranks < 2 || nranks > WEIRI_LINKS_ENDPOINTS_MAX)
        return weiri_fail(WEIR_ERR_INVALID, "links between %d cores: give --ranks 2 to %d", nranks,
                          WEIRI_LINKS_ENDPOINTS_MAX);
    study all = {.nranks = nranks, .largest_bytes = largest_for(nranks), .progress = progress};
    weir_status status = weiri_links_create(nranks, &all.links);
    if (status != WEIR_OK)
        return status;
    all.sources = calloc((size_t)nranks, sizeof *all.sources);
    all.sums = calloc((size_t)nranks, sizeof *all.sums);
    all.times_us = calloc((size_t)nranks, sizeof *all.times_us);
    if (!all.sources || !all.sums || !all.times_us)
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to measure %d cores", nranks);
    if (status == WEIR_OK)
        status = take_buffers(&all);
    pthread_mutex_init(&all.gate, NULL);
    pthread_barrier_init(&all.barrier, NULL, (unsigned)nranks);
    if (status == WEIR_OK)
        status = run_threads(&all, topo);
    pthread_barrier_destroy(&all.barrier);
    pthread_mutex_destroy(&all.gate);
    forget(&all);
    if (status != WEIR_OK) {
        weiri_links_free(all.links);
        return status;
    }
    snprintf(all.links->backend, sizeof all.links->backend, "host");
    weiri_topo_digest(topo, all.links->machine);
    *links = all.links;
    return WEIR_OK;
}
