/*
 * The state of a GPU while it was measured, as plain data: one reading, and the summary of many
 * readings of one rank or of all. A reading counts as throttled if power, temperature or the
 * board's protection lowers the clocks; an idle GPU, or a clock set by an administrator, does not
 * count. All functions are pure.
 */
#ifndef BENCH_GPU_CLOCKS_H
#define BENCH_GPU_CLOCKS_H

#include <stddef.h>
#include <stdint.h>

/* Bits of bench_reading.reasons, as NVML defines them. */
enum {
    BENCH_HELD_BY_POWER_CAP = 0x4, BENCH_HELD_BY_HARDWARE = 0x8, BENCH_HELD_BY_HEAT = 0x20,
    BENCH_HELD_BY_HARDWARE_HEAT = 0x40, BENCH_HELD_BY_POWER_BRAKE = 0x80
};

/* Numbers are -1 if the GPU does not report them. */
typedef struct bench_reading {
    int sm_mhz, memory_mhz, power_w, temperature_c;
    int knows_reasons;
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

#endif
