/* What a run is, for the writers: who measures what with which options. */
#ifndef BENCH_JOB_RUN_H
#define BENCH_JOB_RUN_H

#include "bench/sizes/dist.h"
#include "bench/gpu/gpu.h"
#include "bench/job/job.h"
#include "bench/gpu/nvml.h"
#include "bench/options/options.h"

typedef struct bench_run {
    bench_job *job;
    const bench_options *options;
    weir_collective collective;
    const bench_dist *dist; /* alltoallv's */
    int argc;
    char **argv;
    char id[40];    /* unique to the run */
    char utc[24];   /* its start, "2025-01-31T12:00:00Z" */
    char local[24]; /* the same in local time, "2025-01-31 12:00:00" */
} bench_run;

/* One rank, as the header and JSON show it. */
typedef struct bench_rank_info {
    int rank, pid, device;
    char host[64];
    char place[160];
    int machine_ranks; /* of the first rank of a machine: how many it has; else 0 */
    char machine[160]; /* one line */
    char digest[17];   /* of the machine's structure */
    bench_gpu_info gpu; /* bus "0000:00:00" and no name on the host backend */
    bench_nvml_info nvml; /* where gpu has a name */
} bench_rank_info;

/* Gathers every rank's description on rank 0 (infos there: nranks entries, the
 * caller's; elsewhere unused). Collective. */
void bench_run_gather(const bench_run *run, bench_rank_info *infos);
/* Fills id and times. Local. */
void bench_run_stamp(bench_run *run);
/* The time now, "2025-01-31 12:00:00", local. text has 24 bytes or more. */
void bench_run_now(char *text, size_t bytes);

#endif
