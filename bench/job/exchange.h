/*
 * Exchanges of small values between the ranks of a job, over weir's bootstrap, whichever launcher
 * started them. All are collective and block without a deadline: the watchdog ends a rank that
 * waits too long. If an exchange fails, because a rank has ended or the launcher's
 * library reports an error, the calls do not return: every rank's state is reported and the
 * process ends with exit code 4.
 */
#ifndef BENCH_JOB_EXCHANGE_H
#define BENCH_JOB_EXCHANGE_H

#include "bench/job/job.h"

typedef enum bench_fold { BENCH_FOLD_MIN, BENCH_FOLD_MAX, BENCH_FOLD_SUM } bench_fold;

/* Gives every rank the bytes of root. */
void bench_exchange_broadcast(const bench_job *job, void *data, size_t bytes, int root);
/* Gathers so many bytes of every rank on rank 0, where all has room for them in rank order; all is
 * not used on other ranks. */
void bench_exchange_gather(const bench_job *job, const void *mine, size_t bytes, void *all);
/* The same into new memory, which the caller frees: NULL on ranks other than 0, and on all ranks,
 * without an exchange of the values, if rank 0 has no memory. */
void *bench_exchange_collect(const bench_job *job, const void *mine, size_t bytes);
/* Gives every rank the blocks of its group: all has group_nranks of them, of which the rank's own
 * is filled. Collective over all ranks. Returns 0, or -1 on all ranks without memory. */
int bench_exchange_group(const bench_job *job, void *all, size_t bytes);
/* Gives every rank the bytes of its group's rank 0. Collective over all ranks. Returns 0, or -1 on
 * all ranks without memory. */
int bench_exchange_share(const bench_job *job, void *data, size_t bytes);
/* Combines one value of every rank; every rank gets the result. Exact for whole numbers below
 * 2^53. */
double bench_exchange_fold(const bench_job *job, bench_fold fold, double mine);
/* Combines the arrays of all ranks, element by element, on rank 0, where result has room for count
 * values and may be mine; it is not used on other ranks. */
void bench_exchange_reduce(const bench_job *job, bench_fold fold, const double *mine, int count,
                           double *result);
/* The same for the arrays of each group's ranks: on rank 0 result has room for ngroups x count
 * values, a row for each group. */
void bench_exchange_reduce_groups(const bench_job *job, bench_fold fold, const double *mine,
                                  int count, double *result);
/* Ends the process because an exchange failed: see above. */
_Noreturn void bench_exchange_fail(const bench_job *job);

#endif
