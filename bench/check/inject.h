/*
 * Faults that --inject plants in a real run of weir, so that anybody can see
 * the checks catch them. After a call has returned, the victim's output, input
 * or canaries are changed as a broken collective would have left them; of one
 * kind, the victim stays away from the call instead.
 */
#ifndef BENCH_CHECK_INJECT_H
#define BENCH_CHECK_INJECT_H

#include "bench/measure/buffers.h"

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
    BENCH_FAULT_COUNT
} bench_fault;

/* The fault of that name, BENCH_FAULT_NONE if there is none. */
bench_fault bench_fault_parse(const char *name);
const char *bench_fault_name(bench_fault fault);
/* The runs that can show a fault: the first checked one; the one on special values;
 * the repeats of --determinism. */
typedef enum bench_fault_run {
    BENCH_RUN_CHECKED,
    BENCH_RUN_SPECIAL,
    BENCH_RUN_REPEATED
} bench_fault_run;
bench_fault_run bench_fault_planted_in(bench_fault fault);
/* Whether it can be seen in a timed iteration, which has the exact oracle's data
 * (where a changed input may be hidden by new data). */
int bench_fault_has_time(bench_fault fault);
/* One name a line. */
void bench_fault_list(FILE *to);

/* Whether this rank is to stay away from the call. Local. */
int bench_inject_skips_call(bench_fault fault, const weirv_case *c);
/* Changes what the call described by c left in out and layout. The fault lies in
 * the part of out that has element at, where it is not of a whole buffer. Returns
 * 1 if anything on this rank is now different. Local. */
int bench_inject(bench_fault fault, const weirv_case *c, const bench_layout *layout, void *out,
                 size_t at);
/* An element for at: in the part of out that a neighbour of the victim is
 * responsible for. The same on every rank but alltoallv's. Local. */
size_t bench_inject_place(const weirv_case *c);

#endif
