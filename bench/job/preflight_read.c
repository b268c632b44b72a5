/*
 * Reads what a process can find out about itself: cores, frequency governor, and the processor
 * time that its control groups (version 2 or 1) allow. What cannot be read counts as harmless.
 */
#define _GNU_SOURCE /* sets of cpus */
#include "bench/job/preflight.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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

/* Reads one control group of either version. mount is where its tree is mounted. */
static void read_group(const char *root, const char *mount, const char *group, double *cores)
{
    char line[64], period[64];
    if (read_first_line(line, sizeof line, "%s%s%s/cpu.max", root, mount, group) == 0) {
        char *blank = strchr(line, ' ');
        if (blank)
            keep_tightest_quota(line, blank, cores);
        return;
    }
    if (read_first_line(line, sizeof line, "%s%s%s/cpu.cfs_quota_us", root, mount, group) == 0 &&
        read_first_line(period, sizeof period, "%s%s%s/cpu.cfs_period_us", root, mount, group) == 0)
        keep_tightest_quota(line, period, cores);
}

/* Reads the group and all groups above it, of which the tightest limit counts. Changes group. */
static void read_groups(const char *root, const char *mount, char *group, double *cores)
{
    for (char *slash = strrchr(group, '/'); slash; slash = strrchr(group, '/')) {
        read_group(root, mount, slash == group && !slash[1] ? "" : group, cores);
        if (slash == group && !slash[1])
            return;
        slash[slash == group] = '\0';
    }
}

/* /proc/self/cgroup has one line per tree, number:controllers:/group. The line of version 2 names
 * no controllers; of version 1, the line that counts names cpu. */
static void read_quota(const char *root, bench_preflight_facts *facts)
{
    char path[PATH_MAX], line[PATH_MAX];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    while (fgets(line, sizeof line, file)) {
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        controllers++;
        group[strcspn(group, "\n")] = '\0';
        if (!*controllers)
            read_groups(root, "/sys/fs/cgroup", group, &facts->quota_cores);
        else if (strcmp(controllers, "cpu") == 0 || strcmp(controllers, "cpu,cpuacct") == 0)
            read_groups(root, "/sys/fs/cgroup/cpu", group, &facts->quota_cores);
    }
    fclose(file);
}

void bench_preflight_read(const char *root, const cpu_set_t *cpus, bench_preflight_facts *facts)
{
    CPU_ZERO(&facts->cores);
    facts->governor[0] = '\0';
    facts->governor_cpu = 0;
    facts->quota_cores = 0;
    read_cpus(root, cpus, facts);
    read_quota(root, facts);
}
