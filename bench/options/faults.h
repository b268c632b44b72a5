/*
 * The faults that --inject knows: their names, and where each can be injected. What they do to
 * the data is in bench/check/inject.c. All functions but bench_fault_list are pure.
 */
#ifndef BENCH_OPTIONS_FAULTS_H
#define BENCH_OPTIONS_FAULTS_H

#include <stdio.h>

typedef enum bench_fault {
    BENCH_FAULT_NONE,
    BENCH_FAULT_FLIP_BIT,
    BENCH_FAULT_DROP_CHUNK,
    BENCH_FAULT_SWAP_CHUNKS,
    BENCH_FAULT_REPLAY,
    BENCH_FAULT_SKIP_SIGNAL,
    BENCH_FAULT_OVERRUN,
    BENCH_FAULT_MODIFY_INPUT,
    BENCH_FAULT_DROP_RANK,
    BENCH_FAULT_BAD_ROUND,
    BENCH_FAULT_SWAP_BYTES,
    BENCH_FAULT_LOSE_NAN,
    BENCH_FAULT_LOSE_SUBNORMAL,
    BENCH_FAULT_UNSTABLE_BIT,
    BENCH_FAULT_RANK_BIT,
    BENCH_FAULT_SIZE_BIT,
    BENCH_FAULT_COUNT
} bench_fault;

/* The fault of that name; BENCH_FAULT_NONE if the name is unknown. */
bench_fault bench_fault_parse(const char *name);
const char *bench_fault_name(bench_fault fault);
/* The run that a fault is injected into: the first checked run, the run on special values, or
 * the repeats of --determinism. */
typedef enum bench_fault_run {
    BENCH_RUN_CHECKED,
    BENCH_RUN_SPECIAL,
    BENCH_RUN_REPEATED
} bench_fault_run;
bench_fault_run bench_fault_planted_in(bench_fault fault);
/* 1 if the fault can be injected into a timed iteration (@timed). A changed input cannot: the
 * data of the next iteration would overwrite it. */
int bench_fault_has_time(bench_fault fault);
/* Prints the names, one per line. */
void bench_fault_list(FILE *to);

#endif
