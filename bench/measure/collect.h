/* Statistics of a trial's times. */
#ifndef BENCH_MEASURE_COLLECT_H
#define BENCH_MEASURE_COLLECT_H

#include "bench/trial/trial.h"

/* Gathers the times of every member of trial->series that no check found wrong, and fills in the
 * results of the row; statistics are on rank 0 only. The series' times are overwritten. Collective;
 * agreed. */
weir_status bench_collect(bench_trial *trial);

#endif
