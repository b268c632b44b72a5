/*
 * The times of one size in one placement as they grow: rounds append iterations,
 * the planned ones first, then rounds of more until the intervals of all medians are
 * narrow enough (--until) or time is up. Numbers are kept by member: a candidate
 * that took part in the first round.
 */
#ifndef BENCH_TRIAL_SERIES_H
#define BENCH_TRIAL_SERIES_H

#include "bench/job/job.h"
#include "bench/options/options.h"
#include "bench/statistics/result.h"

typedef struct bench_series {
    int nmembers, members[BENCH_CANDIDATES_MAX]; /* indices of the row's candidates */
    int count;                              /* iterations that every member has */
    int planned;                            /* rounds before any of --until */
    int iterations;                         /* of all planned rounds together */
    int rounds, ends[BENCH_ROUNDS_MAX];     /* as in bench_sequence */
    int extension_rounds, extension_iterations;       /* of the round under way: left; of each round */
    double *times_us[BENCH_CANDIDATES_MAX]; /* this rank's; owned */
    double *starts_us[BENCH_CANDIDATES_MAX]; /* likewise, with wants_starts: of each iteration */
    int wants_starts;
    double cpu_us[BENCH_CANDIDATES_MAX];    /* this rank's, the sum over iterations */
    int warmups[BENCH_CANDIDATES_MAX];      /* the most that a block had */
    int unsteady[BENCH_CANDIDATES_MAX];     /* a block's warm-ups ended too early */
    double warm_us[BENCH_CANDIDATES_MAX];   /* the shortest warm-up */
    double until;                           /* as the option; 0: one round */
    double resolution_us;                         /* of the clock */
    int batch;                              /* operations of a batch, where they are enqueued; alike
                                               on every rank, as the next is */
    int batch_is_long;                      /* launches take no time beside it */
    double spent_s, limit_s;                /* wall time of all rounds; how long they may take */
} bench_series;

/* Makes room for more iterations of every member. Collective; agreed. */
weir_status bench_series_reserve(bench_job *job, bench_series *series, int more);
/* Forgets all iterations, and sets how many the planned rounds have; resolution_us: the
 * smallest difference that their clock shows. Local. */
void bench_series_restart(bench_series *series, const bench_options *options, int iterations,
                          double resolution_us);
/* The iterations of the next round. Local. */
int bench_series_next_iterations(const bench_series *series);
/* Notes that a round has appended so many iterations. Local. */
void bench_series_end_round(bench_series *series, int iterations);
/* Plans the next round where intervals are too wide still: as many iterations as
 * there are, fewer where the time ends sooner; extension_rounds stays 0 where there is no
 * need or no time. Collective; agreed and the same on every rank. */
weir_status bench_series_extend_until(bench_job *job, bench_series *series);
/* Notes the failure in the job. Local. */
weir_status bench_series_no_memory(bench_job *job, int iterations);
void bench_series_free(bench_series *series);

#endif
