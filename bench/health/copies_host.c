/*
 * Copies in the memory of the host: by one thread, by one thread on each core at once, and between
 * cores. The best of several repetitions counts, because it shows what the memory can do.
 */
#include "bench/health/checks.h"
#include "base/error.h"
#include "topo/measure.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { COPY_BYTES = 32 << 20, THREADS_MAX = 256, LINK_RANKS_MAX = 8 };

typedef struct copy_team {
    pthread_barrier_t barrier;
    int repeats;
    double *seconds; /* per repetition, of the slowest thread; written by thread 0 */
} copy_team;

/* One thread: copies its own memory in step with the others. */
static void *copy_thread(void *argument)
{
    copy_team *team = argument;
    char *from = malloc(COPY_BYTES), *to = malloc(COPY_BYTES);
    if (from && to) {
        memset(from, 1, COPY_BYTES);
        memset(to, 2, COPY_BYTES);
    }
    for (int i = 0; i < team->repeats; i++) {
        const int is_first = pthread_barrier_wait(&team->barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
        const double began = weiri_clock_s();
        if (from && to)
            memcpy(to, from, COPY_BYTES);
        pthread_barrier_wait(&team->barrier);
        if (is_first)
            team->seconds[i] = from && to ? weiri_clock_s() - began : 0;
    }
    free(from);
    free(to);
    return NULL;
}

/* GB/s that nthreads copy together: bytes read, in the best repetition; 0: not measured. */
static double copy_measure_gbs(int nthreads, int repeats)
{
    pthread_t threads[THREADS_MAX];
    double seconds[64] = {0}, best = 0;
    copy_team team = {.repeats = repeats, .seconds = seconds};
    if (pthread_barrier_init(&team.barrier, NULL, (unsigned)nthreads) != 0)
        return 0;
    for (int i = 0; i < nthreads; i++)
        if (pthread_create(&threads[i], NULL, copy_thread, &team) != 0) {
            fputs("weir-check: cannot start a thread for each core; see ulimit -u\n", stderr);
            exit(3);
        }
    for (int i = 0; i < nthreads; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&team.barrier);
    for (int i = 0; i < repeats; i++)
        if (seconds[i] > 0) {
            const double gbs = (double)nthreads * COPY_BYTES / seconds[i] / 1e9;
            best = gbs > best ? gbs : best;
        }
    return best;
}

static void copies_add(health_report *report, const char *id, const char *what, double gbs)
{
    health_check *check = health_add(report, id, what);
    health_look(check, "memory channels (dmidecode -t memory), the processor's frequency and power "
                       "settings (cpupower), other jobs");
    if (gbs > 0)
        health_set_value(check, gbs, "GB/s", 1);
    else
        health_set(check, HEALTH_SKIPPED, "not enough memory to measure");
}

static void copies_add_links(health_report *report, const health_settings *settings,
                             const weiri_topo *topo, int ncores)
{
    weiri_links *links;
    double slowest = 0, latest = 0;
    const int nranks = ncores < LINK_RANKS_MAX ? ncores : LINK_RANKS_MAX;
    if (nranks < 2)
        return;
    health_check *check = health_add(report, "host.links.bandwidth", "between cores, slowest pair");
    if (weiri_topo_measure_cores(topo, nranks, settings->progress, &links) != WEIR_OK) {
        health_set(check, HEALTH_BROKEN, "%s", weir_last_error());
        return;
    }
    for (int from = 0; from < nranks; from++)
        for (int to = 0; to < nranks; to++) {
            const size_t at = (size_t)from * (size_t)nranks + (size_t)to;
            if (from == to)
                continue;
            slowest = slowest == 0 || links->gbs[at] < slowest ? links->gbs[at] : slowest;
            latest = links->us[at] > latest ? links->us[at] : latest;
        }
    weiri_links_free(links);
    health_set_value(check, slowest, "GB/s", 1);
    health_look(check, "weir-topo --measure shows every pair; NUMA settings; other jobs");
    check = health_add(report, "host.links.latency", "between cores, slowest pair");
    health_set_value(check, latest, "us", 3);
    health_look(check, "weir-topo --measure shows every pair; frequency and power settings");
}

void health_check_host_copies(health_report *report, const health_settings *settings,
                              const weiri_topo *topo)
{
    weiri_topo_counts counts;
    weiri_topo_count(topo, &counts);
    const int repeats = settings->level == HEALTH_QUICK ? 32 : 64; /* the first are slow */
    const int ncores = counts.usable_cores < THREADS_MAX ? counts.usable_cores : THREADS_MAX;
    weiri_progress_show(settings->progress, "host copies", 0);
    copies_add(report, "host.copy.core", "host copy by one core", copy_measure_gbs(1, repeats));
    copies_add(report, "host.copy.all", "host copy by all cores",
               copy_measure_gbs(ncores, repeats));
    copies_add_links(report, settings, topo, ncores);
}
