/*
 * Cores for the threads that a peer's library has: a rank's own thread keeps to one core on the
 * host backend, and new threads and processes would inherit that.
 */
#ifndef BENCH_JOB_CORES_H
#define BENCH_JOB_CORES_H

#include "bench/job/job.h"

/* Lets this thread use all cores of its process, so that threads and processes that it starts may,
 * and returns the cores that it had; bench_cores_restore lets it use only these again. Local. */
bench_cores bench_cores_widen(const bench_job *job);
void bench_cores_restore(const bench_cores *cores);
/* Warns, and marks the job, if a rank's process may use one core only: the threads of the peer's
 * library then wait for the rank. peer: static storage or the candidate's. Collective. */
void bench_cores_check(bench_job *job, const char *peer);

#endif
