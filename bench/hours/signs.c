/* Readings of /proc, of the cgroup and of the GPU's driver: see signs.h. */
#define _GNU_SOURCE /* RUSAGE_THREAD */
#include "bench/hours/signs.h"

#include "bench/job/groups.h"

#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PATH_BYTES = 512, LINE_BYTES = 512 };

#define SIGN(name, kind, column, during)                                                           \
    [BENCH_SIGN_##name] = {BENCH_SIGN_##kind, column, "rank %d" during}

const bench_sign_info bench_sign_infos[BENCH_SIGNS] = {
    SIGN(STOPPED, EVENT, "stopped", " was stopped (SIGSTOP)"),
    SIGN(XID, EVENT, "xid", "'s GPU reported an Xid"),
    SIGN(ECC, EVENT, "ecc", "'s GPU had uncorrected ECC errors"),
    SIGN(NVLINK, EVENT, "nvlink_errors", "'s GPU had NVLink errors"),
    SIGN(PCIE, EVENT, "pcie_replays", "'s GPU had PCIe replays"),
    SIGN(POWER, LEVEL, "power_capped", "'s GPU was power-capped"),
    SIGN(HEAT, LEVEL, "too_hot", "'s GPU was too hot"),
    SIGN(HARDWARE, LEVEL, "hw_slowed", "'s GPU was slowed down by its board"),
    SIGN(SLOW_CLOCK, LEVEL, "slow_clock", "'s GPU had a lower clock"),
    SIGN(QUOTA, TIME, "quota_us", "'s cgroup was out of its CPU quota"),
    SIGN(STOLEN, TIME, "stolen_us", "'s node lost cores to other virtual machines"),
    SIGN(NEIGHBOUR, TIME, "neighbour_us", "'s core ran another task"),
    SIGN(MAJOR_FAULT, EVENT, "major_faults", " read pages from a disk"),
    SIGN(MINOR_FAULT, RATE, "minor_faults", " had page faults"),
    SIGN(SWITCH, RATE, "context_switches", " lost its core"),
    SIGN(NIC, RATE, "nic_errors", "'s node had network errors"),
};

/* -------------------------------------------------------------- the process's stops */

static volatile sig_atomic_t signs_continued;

static void signs_count_stop(int number)
{
    (void)number;
    signs_continued++;
}

/* ----------------------------------------------------------------------- the system */

/* Reads the nth number of a text, 1 first. Returns 1, or 0 if there are fewer. */
static int signs_nth(const char *text, int nth, double *number)
{
    char *end;
    for (int i = 0; i < nth; i++, text = end) {
        *number = strtod(text, &end);
        if (end == text)
            return 0;
    }
    return 1;
}

/* The nth number after a word that begins a line; 0 if it is not there. */
static double signs_number(const char *root, const char *path, const char *word, int nth)
{
    char whole[PATH_BYTES], line[LINE_BYTES];
    double number = 0;
    int found = 0;
    snprintf(whole, sizeof whole, "%s%s", root, path);
    FILE *file = fopen(whole, "re");
    while (file && !found && fgets(line, sizeof line, file))
        found =
            strncmp(line, word, strlen(word)) == 0 && signs_nth(line + strlen(word), nth, &number);
    if (file)
        fclose(file);
    return found ? number : 0;
}

/* Keeps the longest time for which a group, of either version, was stopped. */
static void signs_read_group(const char *folder, void *most_us)
{
    const double us = signs_number(folder, "/cpu.stat", "throttled_usec ", 1) +
                      signs_number(folder, "/cpu.stat", "throttled_time ", 1) * 1e-3;
    if (us > *(double *)most_us)
        *(double *)most_us = us;
}

static double signs_nic_errors(const char *root)
{
    static const char *const patterns[] = {"/sys/class/net/*/statistics/[rt]x_errors",
                                           "/sys/class/net/*/statistics/rx_dropped",
                                           "/sys/class/infiniband/*/ports/*/counters/*error*"};
    enum { RETRANSMISSIONS = 12 };
    double sum = signs_number(root, "/proc/net/snmp", "Tcp: ", RETRANSMISSIONS);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        char pattern[PATH_BYTES];
        glob_t found;
        snprintf(pattern, sizeof pattern, "%s%s", root, patterns[i]);
        if (glob(pattern, 0, NULL, &found) != 0)
            continue;
        for (size_t at = 0; at < found.gl_pathc; at++)
            sum += signs_number("", found.gl_pathv[at], "", 1);
        globfree(&found);
    }
    return sum;
}

static void signs_read_system(const char *root, double now[BENCH_SIGNS])
{
    enum { STEAL = 8, WAITED = 2 };
    struct rusage used;
    getrusage(RUSAGE_THREAD, &used);
    now[BENCH_SIGN_STOPPED] = (double)signs_continued;
    bench_groups_read(root, "cpu", signs_read_group, &now[BENCH_SIGN_QUOTA]);
    now[BENCH_SIGN_STOLEN] =
        signs_number(root, "/proc/stat", "cpu ", STEAL) * 1e6 / (double)sysconf(_SC_CLK_TCK);
    now[BENCH_SIGN_NEIGHBOUR] =
        signs_number(root, "/proc/thread-self/schedstat", "", WAITED) * 1e-3;
    now[BENCH_SIGN_MAJOR_FAULT] = (double)used.ru_majflt;
    now[BENCH_SIGN_MINOR_FAULT] = (double)used.ru_minflt;
    now[BENCH_SIGN_SWITCH] = (double)used.ru_nivcsw;
    now[BENCH_SIGN_NIC] = signs_nic_errors(root);
}

/* -------------------------------------------------------------------------- the GPU */

static double signs_known(long long count)
{
    return count < 0 ? 0 : (double)count;
}

static void signs_read_gpu(bench_signs *signs, double now[BENCH_SIGNS])
{
    const uint64_t heat = BENCH_HELD_BY_HEAT | BENCH_HELD_BY_HARDWARE_HEAT,
                   board = BENCH_HELD_BY_HARDWARE | BENCH_HELD_BY_POWER_BRAKE;
    bench_counters counters;
    bench_reading reading;
    if (bench_nvml_count(signs->nvml, &counters) == 0) {
        now[BENCH_SIGN_XID] = signs_known(counters.xids);
        now[BENCH_SIGN_ECC] = signs_known(counters.uncorrected);
        now[BENCH_SIGN_NVLINK] = signs_known(counters.link_errors);
        now[BENCH_SIGN_PCIE] = signs_known(counters.pcie_replays);
    }
    if (bench_nvml_read(signs->nvml, &reading) != 0)
        return;
    now[BENCH_SIGN_POWER] = (reading.reasons & BENCH_HELD_BY_POWER_CAP) != 0;
    now[BENCH_SIGN_HEAT] = (reading.reasons & heat) != 0;
    now[BENCH_SIGN_HARDWARE] = (reading.reasons & board) != 0;
    signs->highest_mhz = reading.sm_mhz > signs->highest_mhz ? reading.sm_mhz : signs->highest_mhz;
    now[BENCH_SIGN_SLOW_CLOCK] = reading.sm_mhz >= 0 && reading.sm_mhz < 0.95 * signs->highest_mhz;
}

/* ------------------------------------------------------------------------- readings */

void bench_signs_read(bench_signs *signs, double changes[BENCH_SIGNS])
{
    double now[BENCH_SIGNS] = {0};
    signs_read_system(signs->root, now);
    signs_read_gpu(signs, now);
    for (int i = 0; i < BENCH_SIGNS; i++) {
        const int is_level = bench_sign_infos[i].kind == BENCH_SIGN_LEVEL;
        changes[i] = now[i] - (is_level ? 0 : signs->last[i]);
        changes[i] = changes[i] > 0 ? changes[i] : 0;
        signs->last[i] = now[i];
    }
}

void bench_signs_open(bench_signs *signs, const char *root, bench_nvml *nvml)
{
    const struct sigaction action = {.sa_handler = signs_count_stop, .sa_flags = SA_RESTART};
    double ignored[BENCH_SIGNS];
    *signs = (bench_signs){.root = root, .nvml = nvml};
    sigaction(SIGCONT, &action, NULL);
    bench_nvml_watch_xids(nvml);
    bench_signs_read(signs, ignored);
}

void bench_signs_close(void)
{
    signal(SIGCONT, SIG_DFL);
}
