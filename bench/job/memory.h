/* How much memory the ranks of a node can use. */
#ifndef BENCH_JOB_MEMORY_H
#define BENCH_JOB_MEMORY_H

#include "bench/job/job.h"
#include "bench/options/options.h"

/* Lowers options->max_bytes to what fits the node with the least memory, with a warning on standard
 * error. Collective; the outcome is the same on every rank. WEIR_ERR_NO_MEMORY, reported: not even
 * min_bytes fits. */
weir_status bench_memory_limit(bench_job *job, bench_options *options);

#endif
