/*
 * One trial: one size of one type and operation in one placement, in several
 * visits. All contenders run on the same buffers; each is checked in the first visit,
 * and only those whose results are right are timed, interleaved, in all of them; weir
 * is checked again after its last timed loop.
 */
#ifndef BENCH_MEASURE_TRIAL_H
#define BENCH_MEASURE_TRIAL_H

#include "bench/measure/buffers.h"
#include "bench/measure/cold.h"
#include "bench/candidate/candidate.h"
#include "bench/check/inject.h"
#include "bench/output/result.h"
#include "bench/measure/series.h"
#include "bench/sizes/splits.h"

typedef struct bench_determinism bench_determinism;

typedef struct bench_trial {
    bench_job *job;
    const bench_options *options;
    const bench_buffers *buffers;
    const bench_home *home; /* the current contender's */
    bench_candidate *const *contenders;
    bench_row *row;
    bench_series *series; /* the row's, in this placement */
    int in_place, visit;
    bench_layout layout;
    bench_rotation rotation;
    bench_operation operation; /* with addresses at home; layout and rotation have the mirror's */
    weirv_case data;
    int injects;     /* the next run is to have the fault of --inject */
    long planted;    /* faults that changed something on this rank */
    uint64_t *next_seed; /* the run's counter: no two fills have the same data */
    bench_determinism *determinism; /* the run's findings; NULL: not asked for */
    bench_splits *splits; /* the run's; alltoallv */
} bench_trial;

/* One of the planned visits of row in one placement, 0 first: measures every
 * contender; the last one fills row's results. Collective. Agreed on every rank; a
 * failure is told on standard error. Wrong data is not a failure here: see bench_result_failed. */
weir_status bench_trial_visit(bench_trial *trial);

/* The parts, for bench_trial_visit. Writes new input and poisons the output, where the
 * contender works. Local. */
weir_status bench_trial_reset(bench_trial *trial, const bench_candidate *contender);
/* The same with the data of the last reset. Local. */
weir_status bench_trial_fill(bench_trial *trial, const bench_candidate *contender);
/* alltoallv: makes a step of the distribution the current one. Local. */
void bench_trial_take_step(bench_trial *trial, int step);
/* Before an operation of a loop: other buffers with --cold, the next step. Local. */
void bench_trial_next(bench_trial *trial);
/* Where the contender's result can be read, once it was pulled. Local. */
void *bench_trial_result(const bench_trial *trial, bench_candidate *contender);
/* Makes what the process has of the buffers what they hold at home, and what they hold
 * at home what the process has. Local, blocking; nothing on the host backend. */
weir_status bench_trial_pull(const bench_trial *trial, bench_candidate *contender);
weir_status bench_trial_push(const bench_trial *trial);
/* Waits until what the contender has enqueued is done, and asks weir whether all
 * went well. Local, blocking; nothing on the host backend. */
weir_status bench_trial_wait(const bench_trial *trial, const bench_candidate *contender);
/* Plants a fault in the buffers, see bench_inject. Returns what went wrong. Local. */
weir_status bench_trial_inject(bench_trial *trial, bench_candidate *contender, bench_fault fault,
                               const weirv_case *c, size_t at);
/* Compares the current output and adds the findings to check. Collective. */
weir_status bench_trial_compare(bench_trial *trial, bench_candidate *contender,
                                weirv_result *check);
/* Tells what is wrong with the current output, canaries and input, by rank, on
 * standard error. Collective. */
void bench_trial_explain(const bench_trial *trial, bench_candidate *contender);
/* Times a visit's share of iterations of the contenders whose results have run set
 * in visit 0 and did not fail since. Collective. */
weir_status bench_trial_time(bench_trial *trial);
/* Fills the timing results of those. Collective. */
weir_status bench_trial_collect(bench_trial *trial);

#endif
