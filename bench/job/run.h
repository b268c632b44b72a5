/* The description of a run and of its ranks, for the sweep and for the writers of results. */
#ifndef BENCH_JOB_RUN_H
#define BENCH_JOB_RUN_H

#include "bench/sizes/dist.h"
#include "bench/gpu/gpu.h"
#include "bench/job/job.h"
#include "bench/gpu/clocks.h"
#include "bench/options/options.h"
#include "programs/options.h"

typedef struct bench_run {
    bench_job *job;
    const bench_options *options; /* may begin a larger structure */
    const weiri_options *table;   /* of the options; offsets are from the structure's begin */
    weir_collective collective;
    const bench_dist *dist; /* of alltoallv */
    int argc;
    char **argv;
    char id[40];    /* unique to the run */
    char utc[24];   /* start time, "2025-01-31T12:00:00Z" */
    char local[24]; /* the same in local time, "2025-01-31 12:00:00" */
} bench_run;

/* One rank, as the header and the manifest show it. */
typedef struct bench_rank_info {
    int rank, group, pid, device;
    char host[64], place[160], binding[12];
    double cores;         /* 0: unknown */
    int node_ranks;       /* on a node's first rank the number of its ranks; else 0 */
    char machine[160];    /* one line */
    char digest[17];      /* of the node's topology */
    bench_gpu_info gpu;   /* on the host backend the bus is "0000:00:00" and the name empty */
    bench_nvml_info nvml; /* valid if gpu has a name */
} bench_rank_info;

/* Gathers every rank's description on rank 0, where infos has nranks entries, and where the job's
 * cores and binding become those of all ranks; it is not used on other ranks. Collective. */
void bench_run_gather(const bench_run *run, bench_rank_info *infos);
/* Fills id and times. Local. */
void bench_run_stamp(bench_run *run);
/* The time now, "2025-01-31 12:00:00", local. text has 24 bytes or more. */
void bench_run_now(char *text, size_t bytes);

#endif
