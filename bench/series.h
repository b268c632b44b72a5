/*
 * The times of a trial as they grow: rounds of iterations are appended until
 * the intervals of all medians are narrow enough (--until) or time is up.
 */
#ifndef BENCH_SERIES_H
#define BENCH_SERIES_H

#include "bench/job.h"
#include "bench/options.h"
#include "bench/result.h"

typedef struct bench_series {
    int count;                              /* iterations that every subject has */
    double *times_us[BENCH_CONTENDERS_MAX]; /* this rank's; owned */
    double *starts_us[BENCH_CONTENDERS_MAX]; /* likewise, with wants_starts: of each iteration */
    int wants_starts;
    double cpu_us[BENCH_CONTENDERS_MAX];    /* this rank's, the sum over iterations */
    int warmups[BENCH_CONTENDERS_MAX];      /* the most that a block had */
    int unsteady[BENCH_CONTENDERS_MAX];     /* a block's warm-ups ended too early */
    double until;                           /* as the option; 0: one round */
    double step_us;                         /* bench_options_step_us */
    double began_s, limit_s;                /* MPI_Wtime of the start; how long rounds may take */
} bench_series;

/* Makes room for more iterations of the first nsubjects. Collective; agreed. */
weir_status bench_series_extend(bench_job *job, bench_series *series, int nsubjects, int more);
/* Forgets all iterations and starts the clock. Local. */
void bench_series_restart(bench_series *series, const bench_options *options);
/* How many iterations the next round has: as many as there are, fewer where
 * the time ends sooner, 0 where there is no need or no time. Collective; agreed
 * and the same on every rank. */
weir_status bench_series_more(bench_job *job, const bench_series *series, int nsubjects,
                              int *next);
/* Notes the failure in the job. Local. */
weir_status bench_series_no_memory(bench_job *job, int iterations);
void bench_series_free(bench_series *series);

#endif
