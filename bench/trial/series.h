/*
 * The times of a trial as rounds add to them: first the planned rounds, then extensions of more
 * rounds until the intervals of all medians are narrow enough (--until) or time is up. Numbers are
 * kept per member: a candidate that took part in the first round.
 */
#ifndef BENCH_TRIAL_SERIES_H
#define BENCH_TRIAL_SERIES_H

#include "bench/job/job.h"
#include "bench/options/options.h"
#include "bench/statistics/result.h"

typedef struct bench_series {
    int nmembers, members[BENCH_CANDIDATES_MAX]; /* indices of the row's candidates */
    int count;                                   /* iterations that every member has */
    int planned;                                 /* rounds before any extension */
    int iterations;                              /* of all planned rounds together */
    int rounds, ends[BENCH_ROUNDS_MAX];          /* as in bench_sequence */
    int extension_rounds, extension_iterations;  /* of the current extension: rounds left,
                                                    iterations per round */
    double *times_us[BENCH_CANDIDATES_MAX];      /* this rank's; owned */
    double *starts_us[BENCH_CANDIDATES_MAX];     /* the same for the start of each iteration, if
                                                    wants_starts */
    int wants_starts;
    double *ends_us[BENCH_CANDIDATES_MAX]; /* the same for the end, if wants_ends */
    int wants_ends;
    double cpu_us[BENCH_CANDIDATES_MAX];  /* this rank's sum over iterations */
    int warmups[BENCH_CANDIDATES_MAX];    /* the largest number in a block */
    int unsteady[BENCH_CANDIDATES_MAX];   /* 1: a block's warm-ups ended too early */
    double warm_us[BENCH_CANDIDATES_MAX]; /* the shortest warm-up */
    double until;                         /* the option; 0: no extensions */
    double resolution_us;                 /* of the clock */
    int batch;                            /* operations per batch, on a GPU; the same on every
                                             rank */
    int batch_is_long;                    /* 1: launch latency is negligible beside a batch;
                                             the same on every rank */
    double spent_s, limit_s;              /* wall time of all rounds, and its limit */
} bench_series;

/* Makes room for more iterations of every member. Collective; agreed. */
weir_status bench_series_reserve(bench_job *job, bench_series *series, int more);
/* Discards all iterations, and sets the number of iterations of the planned rounds. resolution_us:
 * the smallest difference that the clock shows. Local. */
void bench_series_restart(bench_series *series, const bench_options *options, int iterations,
                          double resolution_us);
/* The number of iterations of the next round. Pure. */
int bench_series_next_iterations(const bench_series *series);
/* Records that a round has added so many iterations. Local. */
void bench_series_end_round(bench_series *series, int iterations);
/* Plans an extension if intervals are still too wide: as many iterations as there are, or fewer if
 * time runs out. extension_rounds stays 0 if none is needed or possible. Collective; agreed; the
 * same on every rank. */
weir_status bench_series_extend_until(bench_job *job, bench_series *series);
/* Notes in the job that there is no memory. Local. Returns the status. */
weir_status bench_series_no_memory(bench_job *job, int iterations);
void bench_series_free(bench_series *series);

#endif
