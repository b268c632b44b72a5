/*
 * Runs the steps with each candidate: checked repetitions, in which every element of every call is
 * compared, and timed ones, in rounds in which candidates take turns.
 */
#ifndef BENCH_REPLAY_MEASURE_H
#define BENCH_REPLAY_MEASURE_H

#include "bench/replay/crew.h"
#include "bench/replay/plan.h"
#include "bench/statistics/stats.h"

enum { REPLAY_ROUNDS_MAX = 256, REPLAY_CANDIDATES_MAX = 1 + BENCH_PEERS_MAX };

/* Means of ranks: how long they waited for the last one of each call, and how long calls took from
 * then on; NAN: unknown. */
typedef struct replay_waits {
    double wait_us, transfer_us;
} replay_waits;

/* The recorded times of steps, as those of a repetition; means of ranks, on rank 0; NAN: unknown.
 */
typedef struct replay_recorded {
    double calls_us, later_us;
    replay_waits waits;
} replay_recorded;

/* What one candidate took. Arrays have an entry for each repetition; on rank 0 those of all ranks
 * together, after replay_measure. */
typedef struct replay_subject {
    replay_candidate candidate;
    double *step_us;     /* the slowest rank's */
    double *calls_us;    /* in calls, a mean of ranks */
    double *later_us;    /* the same without first calls; host only */
    double *class_us;    /* of each class, then each repetition: of one call on the slowest rank */
    double *instance_us; /* of each instance: a mean, of the slowest rank */
    uint64_t wrong[REPLAY_CLASSES_MAX]; /* elements */
    replay_waits waits;                 /* of the last repetition */
    char message[200];                  /* the first error on this rank; "" */
    double begin_us;                    /* of the last repetition, on this rank's clock */
    double *starts_us, *ends_us;        /* of each step, in the last repetition */
} replay_subject;

typedef struct replay_measurement {
    bench_job *job;
    const replay_options *options;
    replay_plan *plan;
    replay_subject subjects[REPLAY_CANDIDATES_MAX];
    int count;
    int repetitions, rounds, round_ends[REPLAY_ROUNDS_MAX];
    size_t fault_at;   /* the step that --inject changes on this rank; SIZE_MAX: none */
    double compute_us; /* a step's computation without its calls, on the slowest rank */
    replay_crew *crew; /* host: a thread for each lane */
    replay_recorded recorded;
} replay_measurement;

/* Opens weir and the peers of the options. Collective; agreed; a failure is reported. Release with
 * replay_measure_close. */
weir_status replay_measure_open(replay_measurement *m, const replay_options *options,
                                replay_plan *plan);
/* Runs everything. Collective; agreed; a failure is reported. Wrong data is no failure. */
weir_status replay_measure(replay_measurement *m);
/* Collective. */
void replay_measure_close(replay_measurement *m);

/* The time of all calls of this rank but the first ones, which set something up, or find nothing in
 * caches. Pure. */
double replay_later_us(const replay_plan *plan, const double *starts_us, const double *ends_us);
/* Divides the times of steps on a clock that ranks share. Collective; agreed; a failure is
 * reported. */
weir_status replay_split_waits(const replay_measurement *m, const double *starts_us,
                               const double *ends_us, replay_waits *waits);
/* Fills in m->recorded. Collective; agreed; a failure is reported. */
weir_status replay_collect_recorded(replay_measurement *m);

/* Writes the input of a step, and poison into its output. The data depend on the step. Local. */
weir_status replay_data_fill(const replay_plan *plan, const replay_work *work, size_t seed);
/* Compares the result, where it is, after flipping a bit of it if `flips`. Adds to *wrong, and
 * describes the first error in message (bytes) unless it has one. Local. */
weir_status replay_data_check(const replay_plan *plan, const replay_work *work, size_t seed,
                              char *result_at, int flips, uint64_t *wrong, char *message,
                              size_t bytes);

#endif
