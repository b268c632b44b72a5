/* The description of a run and its ranks: see run.h. */
#include "bench/job/run.h"

#include "bench/job/exchange.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void bench_run_now(char *text, size_t bytes)
{
    time_t now = time(NULL);
    struct tm parts;
    localtime_r(&now, &parts);
    strftime(text, bytes, "%Y-%m-%d %H:%M:%S", &parts);
}

void bench_run_stamp(bench_run *run)
{
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(run->utc, sizeof run->utc, "%Y-%m-%dT%H:%M:%SZ", &parts);
    snprintf(run->id, sizeof run->id, "%llx-%06lx-%x", (unsigned long long)now.tv_sec,
             (unsigned long)now.tv_nsec / 1000, (unsigned)getpid());
    bench_run_now(run->local, sizeof run->local);
}

void bench_run_gather(const bench_run *run, bench_rank_info *infos)
{
    bench_rank_info mine;
    memset(&mine, 0, sizeof mine);
    mine.rank = run->job->rank;
    mine.group = run->job->groups[run->job->group].color;
    mine.pid = (int)getpid();
    mine.device = run->job->local_rank;
    memcpy(mine.gpu.bus, "0000:00:00", sizeof "0000:00:00");
    if (run->job->gpu) {
        mine.device = weir_comm_device(run->job->comm);
        bench_gpu_describe(run->job->gpu, &mine.gpu);
        bench_nvml_describe(run->job->nvml, &mine.nvml);
    }
    memcpy(mine.host, run->job->host, sizeof mine.host);
    memcpy(mine.place, run->job->place, sizeof mine.place);
    memcpy(mine.machine, run->job->machine, sizeof mine.machine);
    memcpy(mine.digest, run->job->digest, sizeof mine.digest);
    if (weir_comm_local_rank(run->job->all) == 0)
        mine.node_ranks = weir_comm_local_nranks(run->job->all);
    mine.cores = run->job->cores;
    snprintf(mine.binding, sizeof mine.binding, "%s", run->job->binding);
    bench_exchange_gather(run->job, &mine, sizeof mine, infos);
    for (int rank = 0; run->job->rank == 0 && rank < run->job->nranks; rank++) {
        if (infos[rank].cores < run->job->cores)
            run->job->cores = infos[rank].cores;
        if (strcmp(infos[rank].binding, infos[0].binding) != 0)
            run->job->binding = "mixed";
    }
}
