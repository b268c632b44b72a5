/*
 * Reads what a process can find out about itself: cores, frequency governor, and the processor
 * time that its control groups (version 2 or 1) allow. What cannot be read counts as harmless.
 */
#define _GNU_SOURCE /* sets of cpus */
#include "bench/job/groups.h"
#include "bench/job/preflight.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads the first line of a file. Returns 0, or -1 if there is none. */
static int read_first_line(char *line, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int read_first_line(char *line, size_t bytes, const char *format, ...)
{
    char path[PATH_MAX];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(path, sizeof path, format, arguments);
    va_end(arguments);
    FILE *file = length < (int)sizeof path ? fopen(path, "r") : NULL;
    if (!file)
        return -1;
    char *read = fgets(line, (int)bytes, file);
    fclose(file);
    if (!read)
        return -1;
    line[strcspn(line, "\n")] = '\0';
    return 0;
}

/* The lowest hardware thread of the cpu's core. */
static int core_of(const char *root, int cpu)
{
    char line[256];
    if (read_first_line(line, sizeof line,
                        "%s/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", root,
                        cpu) != 0)
        return cpu;
    int lowest = atoi(line);
    return lowest >= 0 && lowest < CPU_SETSIZE ? lowest : cpu;
}

static void read_cpus(const char *root, const cpu_set_t *cpus, bench_preflight_facts *facts)
{
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char line[32];
        if (!CPU_ISSET(cpu, cpus))
            continue;
        CPU_SET(core_of(root, cpu), &facts->cores);
        if (facts->governor[0] ||
            read_first_line(line, sizeof line,
                            "%s/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", root,
                            cpu) != 0 ||
            strcmp(line, "performance") == 0)
            continue;
        snprintf(facts->governor, sizeof facts->governor, "%s", line);
        facts->governor_cpu = cpu;
    }
}

/* Keeps the tightest limit. quota has the unit of period; "max" and -1 mean no limit. */
static void keep_tightest_quota(const char *quota, const char *period, double *cores)
{
    double allowed = strtod(quota, NULL), whole = strtod(period, NULL);
    if (allowed > 0 && whole > 0 && (*cores == 0 || allowed / whole < *cores))
        *cores = allowed / whole;
}

/* Reads the limit of one control group, of either version, and keeps the tightest. */
static void read_group(const char *folder, void *cores)
{
    char line[64], period[64];
    if (read_first_line(line, sizeof line, "%s/cpu.max", folder) == 0) {
        char *blank = strchr(line, ' ');
        if (blank)
            keep_tightest_quota(line, blank, cores);
        return;
    }
    if (read_first_line(line, sizeof line, "%s/cpu.cfs_quota_us", folder) == 0 &&
        read_first_line(period, sizeof period, "%s/cpu.cfs_period_us", folder) == 0)
        keep_tightest_quota(line, period, cores);
}

/* Counts the device files of NVIDIA's GPUs. A container has those of its own GPUs. */
static int count_gpus(const char *root)
{
    enum { GPUS_MAX = 64 };
    char path[PATH_MAX];
    int count = 0;
    for (int i = 0; i < GPUS_MAX; i++) {
        const int length = snprintf(path, sizeof path, "%s/dev/nvidia%d", root, i);
        count += length < (int)sizeof path && access(path, F_OK) == 0;
    }
    return count;
}

void bench_preflight_read(const char *root, const cpu_set_t *cpus, bench_preflight_facts *facts)
{
    CPU_ZERO(&facts->cores);
    facts->governor[0] = '\0';
    facts->governor_cpu = 0;
    facts->quota_cores = 0;
    facts->idle_gpus = count_gpus(root);
    read_cpus(root, cpus, facts);
    bench_groups_read(root, "cpu", read_group, &facts->quota_cores);
}
