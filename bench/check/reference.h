/* The MPI reference of verification, for jobs that MPI started. */
#ifndef BENCH_CHECK_REFERENCE_H
#define BENCH_CHECK_REFERENCE_H

#include "bench/job/run.h"
#include "verify/verify.h"

#include <stdio.h>

/* Compares out with what MPI computes for the case; sampled: only windows of it. Adds this rank's
 * findings to found. Collective. WEIR_ERR_SYSTEM, noted in the job, if MPI fails. */
weir_status bench_reference_check(bench_job *job, const weirv_case *data, const void *out,
                                  int steps, int sampled, weirv_result *found);

/* Writes a line for each fault of this version of MPI that concerns the run's calls and that the
 * reference avoids. Local. */
void bench_reference_write_faults(FILE *out, const bench_run *run);

#endif
