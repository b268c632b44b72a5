/* The names of the faults, and which run of a candidate each is injected into. */
#include "bench/options/faults.h"

#include <string.h>

static const char *const fault_names[BENCH_FAULT_COUNT] = {
    [BENCH_FAULT_FLIP_BIT] = "flip-bit",         [BENCH_FAULT_DROP_CHUNK] = "drop-chunk",
    [BENCH_FAULT_SWAP_CHUNKS] = "swap-chunks",   [BENCH_FAULT_REPLAY] = "replay",
    [BENCH_FAULT_SKIP_SIGNAL] = "skip-signal",   [BENCH_FAULT_OVERRUN] = "overrun",
    [BENCH_FAULT_MODIFY_INPUT] = "modify-input", [BENCH_FAULT_DROP_RANK] = "drop-rank",
    [BENCH_FAULT_BAD_ROUND] = "bad-round",       [BENCH_FAULT_SWAP_BYTES] = "swap-bytes",
    [BENCH_FAULT_LOSE_NAN] = "lose-nan",         [BENCH_FAULT_LOSE_SUBNORMAL] = "lose-subnormal",
    [BENCH_FAULT_UNSTABLE_BIT] = "unstable-bit", [BENCH_FAULT_RANK_BIT] = "rank-bit",
    [BENCH_FAULT_SIZE_BIT] = "size-bit",
};

bench_fault bench_fault_parse(const char *name)
{
    for (int i = 1; i < BENCH_FAULT_COUNT; i++)
        if (strcmp(fault_names[i], name) == 0)
            return (bench_fault)i;
    return BENCH_FAULT_NONE;
}

const char *bench_fault_name(bench_fault fault)
{
    return fault == BENCH_FAULT_NONE ? "none" : fault_names[fault];
}

bench_fault_run bench_fault_planted_in(bench_fault fault)
{
    switch (fault) {
    case BENCH_FAULT_LOSE_NAN:
    case BENCH_FAULT_LOSE_SUBNORMAL:
        return BENCH_RUN_SPECIAL;
    case BENCH_FAULT_UNSTABLE_BIT:
    case BENCH_FAULT_RANK_BIT:
    case BENCH_FAULT_SIZE_BIT:
        return BENCH_RUN_REPEATED;
    default:
        return BENCH_RUN_CHECKED;
    }
}

int bench_fault_has_time(bench_fault fault)
{
    return fault != BENCH_FAULT_MODIFY_INPUT && bench_fault_planted_in(fault) == BENCH_RUN_CHECKED;
}

void bench_fault_list(FILE *to)
{
    for (int i = 1; i < BENCH_FAULT_COUNT; i++)
        fprintf(to, "%s\n", fault_names[i]);
}
