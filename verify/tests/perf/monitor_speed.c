/*
 * Prints what monitoring costs an allreduce of 8 bytes between two processes of this node. Run by
 * hand, usually by monitor-cost; needs a core for each rank.
 *
 *   monitor_speed [FOLDER]      for the metrics; /tmp by default
 *
 * Each process has a communicator with the RAS service, and one with that and all metrics. Blocks
 * of calls with and without monitoring alternate on the same communicator, as two of them differ by
 * more than monitoring costs. Columns: microseconds of a call without and with monitoring in the
 * fastest blocks, and the ratio of neighbouring blocks: its median and the median's 95% interval.
 * Ends with 1 if there are no figures. Takes some seconds.
 */
#define _GNU_SOURCE
#include "verify/tests/perf/times.h"
#include "comm/monitor/monitor.h"
#include <weir/device.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS = 2000, CALLS = 4000, WHOLE_MS = 100000 };
enum { RAS, ALL, KINDS };

static const char *const names[KINDS] = {"RAS", "RAS, metrics"};

typedef struct end {
    weir_comm *comms[KINDS];
    weir_mem *mems[KINDS];
    int kind; /* that is measured */
} end;

static int fails(weir_status status)
{
    if (status != WEIR_OK)
        fprintf(stderr, "%s\n", weir_last_error());
    return status != WEIR_OK;
}

static void set_kind(int kind, const char *folder)
{
    setenv("WEIR_RAS", "localhost:0", 1);
    if (kind == RAS)
        return;
    setenv("WEIR_METRICS", "prom,json", 1);
    setenv("WEIR_METRICS_MIN_BYTES", "0", 1);
    setenv("WEIR_METRICS_DIR", folder, 1);
    setenv("WEIR_METRICS_INTERVAL_MS", "100", 1);
}

static int open_all(end *e, weir_boot *boot, const char *folder)
{
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_HOST;
    for (int kind = 0; kind < KINDS; kind++) {
        set_kind(kind, folder);
        if (fails(weir_comm_create(boot, &config, &e->comms[kind])) ||
            fails(weir_mem_alloc(e->comms[kind], 8, &e->mems[kind])))
            return 1;
        if (!e->comms[kind]->monitor) {
            fprintf(stderr, "%s: monitoring is off\n", names[kind]);
            return 1;
        }
    }
    return 0;
}

/* Microseconds of a call, with monitoring (way 0) or without; negative: it failed. */
static double time_block(void *context, int way)
{
    const end *e = context;
    weir_comm *comm = e->comms[e->kind];
    float *data = weir_mem_pointer(e->mems[e->kind]);
    if (way == 0)
        weiri_monitor_count_calls(comm->monitor);
    else
        weiri_comm_count_nothing(comm);
    if (fails(weir_comm_barrier(comm)))
        return -1;
    const uint64_t begin_ns = weir_clock_ns();
    for (int i = 0; i < CALLS; i++)
        if (fails(weir_allreduce(comm, data, data, 2, WEIR_FLOAT, WEIR_MAX, NULL)))
            return -1;
    return (double)(weir_clock_ns() - begin_ns) / 1e3 / CALLS;
}

static int measure(end *e, int kind, int prints)
{
    double fastest_us[2];
    times_ratio ratio;
    e->kind = kind;
    if (times_pair(time_block, e, PAIRS, fastest_us, &ratio))
        return 1;
    if (prints)
        printf("%-14s %8.4f %8.4f   %.4f [%.4f, %.4f]\n", names[kind], fastest_us[1], fastest_us[0],
               ratio.median, ratio.low, ratio.high);
    fflush(stdout);
    return 0;
}

static int body(weir_boot *boot, void *folder)
{
    static end e;
    times_bind(weir_boot_rank(boot));
    int failed = open_all(&e, boot, folder);
    for (int kind = 0; kind < KINDS && !failed; kind++)
        failed = measure(&e, kind, weir_boot_rank(boot) == 0);
    for (int kind = 0; kind < KINDS && !failed; kind++) {
        weir_mem_free(e.mems[kind]);
        failed = fails(weir_comm_destroy(e.comms[kind]));
    }
    return failed;
}

int main(int argc, char **argv)
{
    static char by_default[] = "/tmp";
    int codes[2] = {1, 1};
    printf("%-14s %8s %8s   %s\n", "monitoring", "off, us", "on, us", "on by off");
    fflush(stdout);
    if (weir_boot_fork_run(2, body, argc > 1 ? argv[1] : by_default, WHOLE_MS, codes) != WEIR_OK)
        fprintf(stderr, "%s\n", weir_last_error());
    return codes[0] || codes[1];
}
