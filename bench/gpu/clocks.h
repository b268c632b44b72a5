/*
 * What state a GPU was in while it was measured, as plain data: one reading, and the
 * summary of many, of one rank or of all. A reading is throttled where power,
 * temperature or the board's protection holds the clocks down; being idle and a clock
 * that an administrator has set are no throttling. All functions are pure but for
 * the writer.
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

/* Numbers are -1 where the GPU does not tell. */
typedef struct bench_reading {
    int sm_mhz, memory_mhz, power_w, temperature_c;
    int knows_reasons;
    uint64_t reasons; /* all that hold the clocks where they are */
} bench_reading;

/* -1 where no reading told. */
typedef struct bench_clocks {
    int samples, throttled;            /* readings; those of them that were throttled */
    int silent;                        /* those that tell nothing of throttling */
    int sm_mhz, memory_mhz;            /* the lowest */
    int power_w, temperature_c;        /* the highest */
    uint64_t reasons;                  /* for throttling, of all readings together */
} bench_clocks;

enum { BENCH_REASONS_BYTES = 96 };

void bench_clocks_clear(bench_clocks *clocks);
void bench_clocks_add(bench_clocks *clocks, const bench_reading *reading);
void bench_clocks_merge(bench_clocks *clocks, const bench_clocks *other);
/* The reasons for throttling, joined: "power-cap+heat"; "none"; "unknown" where no reading
 * told. text has BENCH_REASONS_BYTES. */
void bench_clocks_reasons(const bench_clocks *clocks, char *text);
/* "SM 1980 MHz, memory 3201 MHz, 412 W, 51 C", of what is known; text is terminated. */
void bench_clocks_describe(const bench_clocks *clocks, char *text, size_t bytes);

#endif
