/*
 * The driver's view of a GPU (NVML, libnvidia-ml.so.1), opened at run time: the build needs no
 * header of it, and a machine need not have the library. What is missing costs a line in the
 * report, never the run. All functions are local and blocking; a reading takes ten microseconds to
 * a few milliseconds and must not be inside a timed region.
 */
#ifndef BENCH_GPU_NVML_H
#define BENCH_GPU_NVML_H

#include "bench/gpu/clocks.h"

typedef struct bench_nvml bench_nvml;

/* What does not change during a run, and the state at its start. Numbers are -1 if not reported. */
typedef struct bench_nvml_info {
    char driver[32];   /* "580.159.03" */
    char problem[128]; /* what cannot be read, and why; empty: everything can be read */
    int sm_mhz_most, memory_mhz_most, power_w_most;
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
/* The seconds that all readings took. */
double bench_nvml_spent_s(const bench_nvml *nvml);

#endif
