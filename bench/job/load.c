/* Foreign load: see load.h. */
#define _GNU_SOURCE /* sets of cpus */
#include "bench/job/load.h"

#include "base/words.h"
#include "bench/job/exchange.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

_Static_assert((int)BENCH_LOAD_CPUS == (int)CPU_SETSIZE, "one sample for each cpu of a set");

static const double least_share = 0.10, shortest_s = 1;

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec * 1e-6;
}

/* A line of /proc/stat: "cpu3 user nice system idle iowait irq softirq steal ...", in ticks. */
static void load_read_line(const char *line, double ticks_per_s, bench_load_sample *sample)
{
    unsigned long long user, nice, system, idle, iowait, irq = 0, softirq = 0, steal = 0;
    int cpu = -1;
    if (sscanf(line, "cpu%d %llu %llu %llu %llu %llu %llu %llu %llu", &cpu, &user, &nice, &system,
               &idle, &iowait, &irq, &softirq, &steal) < 6 ||
        cpu < 0 || cpu >= BENCH_LOAD_CPUS)
        return;
    sample->busy_s[cpu] = (float)((double)(user + nice + system + irq + softirq) / ticks_per_s);
    sample->stolen_s[cpu] = (float)((double)steal / ticks_per_s);
}

void bench_load_read(const char *root, bench_load_sample *sample)
{
    char path[PATH_MAX], line[512];
    struct rusage usage;
    const double ticks_per_s = (double)sysconf(_SC_CLK_TCK);
    memset(sample, 0, sizeof *sample);
    snprintf(path, sizeof path, "%s/proc/stat", root);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "cpu", 3) == 0)
            load_read_line(line, ticks_per_s, sample);
    if (file)
        fclose(file);
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        sample->own_s = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
    sample->at_s = weiri_clock_s();
}

void bench_load_subtract(bench_load_sample *spent, const bench_load_sample *start)
{
    for (int cpu = 0; cpu < BENCH_LOAD_CPUS; cpu++) {
        spent->busy_s[cpu] -= start->busy_s[cpu];
        spent->stolen_s[cpu] -= start->stolen_s[cpu];
    }
    spent->own_s -= start->own_s;
    spent->at_s -= start->at_s;
}

/* Of the ranks' cpus of one host: how many there are, and the parts of their time that other
 * processes used, and that the hypervisor gave to other machines. */
typedef struct host_load {
    int cpus;
    double foreign, stolen;
} host_load;

static host_load load_of_host(const bench_load_facts *facts, int nranks, int first)
{
    const bench_load_sample *spent = &facts[first].spent;
    host_load load = {0, 0, 0};
    cpu_set_t cpus;
    double own_s = 0;
    CPU_ZERO(&cpus);
    for (int i = first; i < nranks; i++) {
        if (strcmp(facts[i].host, facts[first].host) != 0)
            continue;
        CPU_OR(&cpus, &cpus, &facts[i].cpus);
        own_s += facts[i].spent.own_s;
    }
    for (int cpu = 0; cpu < BENCH_LOAD_CPUS; cpu++) {
        if (!CPU_ISSET(cpu, &cpus))
            continue;
        load.cpus++;
        load.foreign += (double)spent->busy_s[cpu];
        load.stolen += (double)spent->stolen_s[cpu];
    }
    if (load.cpus == 0 || spent->at_s < shortest_s)
        return (host_load){load.cpus, 0, 0};
    const double all_s = spent->at_s * load.cpus;
    load.foreign = load.foreign > own_s ? (load.foreign - own_s) / all_s : 0;
    load.stolen /= all_s;
    return load;
}

int bench_load_judge(const bench_load_facts *facts, int nranks, char *text, size_t bytes)
{
    host_load most = {0, 0, 0};
    int at = 0;
    for (int rank = 0; rank < nranks; rank++) {
        int before = 0;
        while (before < rank && strcmp(facts[before].host, facts[rank].host) != 0)
            before++;
        if (before < rank) /* judged with the host's first rank */
            continue;
        host_load load = load_of_host(facts, nranks, rank);
        if (load.foreign + load.stolen > most.foreign + most.stolen) {
            most = load;
            at = rank;
        }
    }
    if (most.foreign + most.stolen <= least_share)
        return 0;
    snprintf(text, bytes,
             "%s was busy: %s used %.0f%% of the time of the ranks' %d cpu%s; times include "
             "waiting for them; run again on an idle node",
             facts[at].host,
             most.stolen > most.foreign ? "other virtual machines" : "other processes",
             100 * (most.foreign + most.stolen), most.cpus, weiri_s(most.cpus));
    return 1;
}

void bench_load_end(bench_job *job, const bench_load_sample *start)
{
    bench_load_facts mine;
    char text[BENCH_WARNING_BYTES];
    memset(&mine, 0, sizeof mine);
    memcpy(mine.host, job->host, sizeof mine.host);
    if (sched_getaffinity(0, sizeof mine.cpus, &mine.cpus) != 0)
        CPU_ZERO(&mine.cpus);
    bench_load_read("", &mine.spent);
    bench_load_subtract(&mine.spent, start);
    bench_load_facts *all = bench_exchange_collect(job, &mine, sizeof mine);
    if (all && bench_load_judge(all, job->nranks, text, sizeof text))
        bench_warning_add(job, "load", "%s", text);
    free(all);
}
