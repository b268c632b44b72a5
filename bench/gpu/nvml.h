/*
 * The driver's own view of a GPU (NVML, libnvidia-ml.so.1), opened at run time: a
 * build needs no header of it, and a machine no library. What is missing costs a
 * line in the report, never the run. Everything is local and blocking; a reading
 * takes some ten microseconds to a few milliseconds and is not for timed regions.
 */
#ifndef BENCH_GPU_NVML_H
#define BENCH_GPU_NVML_H

#include "bench/gpu/clocks.h"

typedef struct bench_nvml bench_nvml;

/* What does not change during a run, and how it began. Numbers are -1 where they are
 * not told. */
typedef struct bench_nvml_info {
    char driver[32];             /* "580.159.03" */
    char problem[128];           /* what cannot be read, and why; empty: all can */
    int sm_mhz_most, memory_mhz_most, power_w_most;
    int has_start;               /* start is valid */
    bench_reading start;
} bench_nvml_info;

/* Opens the library and finds the GPU at bus ("0000:1b:00"). NULL only where memory is
 * out; else describe tells what went wrong. */
bench_nvml *bench_nvml_open(const char *bus);
/* NULL is allowed, here and below. */
void bench_nvml_close(bench_nvml *nvml);
void bench_nvml_describe(bench_nvml *nvml, bench_nvml_info *info);
/* Reads the GPU's state. Returns 0, or -1 where there is nothing to read it from. */
int bench_nvml_read(bench_nvml *nvml, bench_reading *reading);
/* Seconds that all readings took. */
double bench_nvml_spent_s(const bench_nvml *nvml);

#endif
