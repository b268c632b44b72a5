/* Readings of a GPU's state, and their summary: see clocks.h. */
#include "bench/gpu/clocks.h"

#include <stdio.h>
#include <string.h>

static const struct {
    uint64_t bit;
    const char *name;
} throttles[] = {
    {BENCH_HELD_BY_POWER_CAP, "power-cap"},
    {BENCH_HELD_BY_HARDWARE, "hardware"},
    {BENCH_HELD_BY_HEAT, "heat"},
    {BENCH_HELD_BY_HARDWARE_HEAT, "hardware-heat"},
    {BENCH_HELD_BY_POWER_BRAKE, "power-brake"},
};
enum { THROTTLES = sizeof throttles / sizeof *throttles };

static uint64_t throttling(uint64_t reasons)
{
    uint64_t mask = 0;
    for (int i = 0; i < THROTTLES; i++)
        mask |= throttles[i].bit;
    return reasons & mask;
}

static void keep_least(int *lowest, int value)
{
    if (value >= 0 && (*lowest < 0 || value < *lowest))
        *lowest = value;
}

static void keep_most(int *highest, int value)
{
    if (value > *highest)
        *highest = value;
}

void bench_clocks_clear(bench_clocks *clocks)
{
    *clocks = (bench_clocks){.sm_mhz = -1, .memory_mhz = -1, .power_w = -1, .temperature_c = -1};
}

void bench_clocks_add(bench_clocks *clocks, const bench_reading *reading)
{
    uint64_t reasons = reading->knows_reasons ? throttling(reading->reasons) : 0;
    bench_clocks one = {.samples = 1,
                        .throttled = reasons != 0,
                        .silent = !reading->knows_reasons,
                        .sm_mhz = reading->sm_mhz,
                        .memory_mhz = reading->memory_mhz,
                        .power_w = reading->power_w,
                        .temperature_c = reading->temperature_c,
                        .reasons = reasons};
    bench_clocks_merge(clocks, &one);
}

void bench_clocks_merge(bench_clocks *clocks, const bench_clocks *other)
{
    if (!other->samples)
        return;
    clocks->samples += other->samples;
    clocks->throttled += other->throttled;
    clocks->silent += other->silent;
    clocks->reasons |= other->reasons;
    keep_least(&clocks->sm_mhz, other->sm_mhz);
    keep_least(&clocks->memory_mhz, other->memory_mhz);
    keep_most(&clocks->power_w, other->power_w);
    keep_most(&clocks->temperature_c, other->temperature_c);
}

void bench_clocks_reasons(const bench_clocks *clocks, char *text)
{
    size_t used = 0;
    snprintf(text, BENCH_REASONS_BYTES, clocks->silent == clocks->samples ? "unknown" : "none");
    for (int i = 0; i < THROTTLES; i++)
        if (clocks->reasons & throttles[i].bit)
            used += (size_t)snprintf(text + used, BENCH_REASONS_BYTES - used, "%s%s",
                                     used ? "+" : "", throttles[i].name);
}

static void append_number(char *text, size_t bytes, const char *before, int value, const char *unit)
{
    size_t used = strlen(text);
    if (value >= 0)
        snprintf(text + used, bytes - used, "%s%s%d %s", used ? ", " : "", before, value, unit);
}

void bench_clocks_describe(const bench_clocks *clocks, char *text, size_t bytes)
{
    text[0] = '\0';
    append_number(text, bytes, "SM ", clocks->sm_mhz, "MHz");
    append_number(text, bytes, "memory ", clocks->memory_mhz, "MHz");
    append_number(text, bytes, "", clocks->power_w, "W");
    append_number(text, bytes, "", clocks->temperature_c, "C");
}
