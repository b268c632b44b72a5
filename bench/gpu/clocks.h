/*
 * The state of a GPU while it was measured, as plain data: one reading, and the summary of many
 * readings of one rank or of all. A reading counts as throttled if power, temperature or the
 * board's protection lowers the clocks; an idle GPU, or a clock set by an administrator, does not
 * count. The functions of this part are pure; the part that reads the state through NVML follows.
 */
#ifndef BENCH_GPU_CLOCKS_H
#define BENCH_GPU_CLOCKS_H

#include <stddef.h>
#include <stdint.h>

/* Bits of bench_reading.reasons, as NVML defines them. */
enum {
    BENCH_HELD_BY_POWER_CAP = 0x4,
    BENCH_HELD_BY_HARDWARE = 0x8,
    BENCH_HELD_BY_HEAT = 0x20,
    BENCH_HELD_BY_HARDWARE_HEAT = 0x40,
    BENCH_HELD_BY_POWER_BRAKE = 0x80
};

/* Numbers are -1 if the GPU does not report them. */
typedef struct bench_reading {
    int sm_mhz, memory_mhz, power_w, temperature_c, knows_reasons;
    uint64_t reasons; /* everything that limits the clocks */
} bench_reading;

/* Numbers are -1 if no reading had them. */
typedef struct bench_clocks {
    int samples, throttled;     /* number of readings; number of throttled ones */
    int silent;                 /* readings without information about throttling */
    int sm_mhz, memory_mhz;     /* the lowest */
    int power_w, temperature_c; /* the highest */
    uint64_t reasons;           /* of all throttled readings */
} bench_clocks;

enum { BENCH_REASONS_BYTES = 96 };

void bench_clocks_clear(bench_clocks *clocks);
void bench_clocks_add(bench_clocks *clocks, const bench_reading *reading);
void bench_clocks_merge(bench_clocks *clocks, const bench_clocks *other);
/* The reasons for throttling, joined: "power-cap+heat"; "none"; "unknown" if no reading had them.
 * text has BENCH_REASONS_BYTES. */
void bench_clocks_reasons(const bench_clocks *clocks, char *text);
/* "SM 1980 MHz, memory 3201 MHz, 412 W, 51 C", as far as known. */
void bench_clocks_describe(const bench_clocks *clocks, char *text, size_t bytes);

/*
 * The driver's view of a GPU (NVML, libnvidia-ml.so.1), opened at run time: the build needs no
 * header of it, and a machine need not have the library. What is missing costs a line in the
 * report, never the run. All functions are local and blocking; a reading takes ten microseconds to
 * a few milliseconds and must not be inside a timed region.
 */

typedef struct bench_nvml bench_nvml;

/* What does not change during a run, and the state at its start. Numbers are -1 if not reported. */
typedef struct bench_nvml_info {
    char driver[32];   /* "580.159.03" */
    char problem[128]; /* what cannot be read, and why; empty: everything can be read */
    int sm_mhz_most, memory_mhz_most, power_w_most;
    int is_lost;   /* the driver works and does not find the GPU */
    int has_start; /* start is valid */
    bench_reading start;
} bench_nvml_info;

/* Opens the library and finds the GPU at bus ("0000:1b:00"). NULL only if out of memory; other
 * failures are described by bench_nvml_describe. */
bench_nvml *bench_nvml_open(const char *bus);
/* nvml may be NULL, here and below. */
void bench_nvml_close(bench_nvml *nvml);
void bench_nvml_describe(bench_nvml *nvml, bench_nvml_info *info);
/* Reads the GPU's state. Returns 0, or -1 if it cannot be read. */
int bench_nvml_read(bench_nvml *nvml, bench_reading *reading);
/* What a GPU and its NVLinks have counted since the driver was loaded; -1 where not reported. */
typedef struct bench_counters {
    long long corrected, uncorrected; /* ECC errors */
    long long link_errors;            /* replays, recoveries and CRC errors of all links */
    int links_active, links;
    long long pcie_replays; /* of the GPU's PCIe link */
    long long xids;         /* errors that the driver has reported since bench_nvml_watch_xids */
} bench_counters;
/* Reads the counters. Returns 0, or -1 if the GPU cannot be read at all. */
int bench_nvml_count(bench_nvml *nvml, bench_counters *counters);
/* Counts the driver's errors (Xid) from now on, if it reports them. */
void bench_nvml_watch_xids(bench_nvml *nvml);
/* The seconds that all readings took. */
double bench_nvml_spent_s(const bench_nvml *nvml);

#endif
