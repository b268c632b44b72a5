/* Judges the facts that the ranks read about themselves: see preflight.h. */
#define _GNU_SOURCE /* sets of cpus */
#include "bench/job/preflight.h"

#include "base/words.h"
#include "bench/job/exchange.h"

#include <stdlib.h>
#include <string.h>

/* Containers and emulated hosts of one kernel share its cores, whatever their names are. */
static int same_kernel(const bench_preflight_facts *a, const bench_preflight_facts *b)
{
    return a->kernel[0] ? strcmp(a->kernel, b->kernel) == 0 : strcmp(a->host, b->host) == 0;
}

/* A container's control group limits its own ranks. */
static int same_container(const bench_preflight_facts *a, const bench_preflight_facts *b)
{
    return same_kernel(a, b) && strcmp(a->host, b->host) == 0;
}

typedef int (*preflight_same)(const bench_preflight_facts *, const bench_preflight_facts *);

static int is_within(const cpu_set_t *inner, const cpu_set_t *outer)
{
    cpu_set_t common;
    CPU_AND(&common, inner, outer);
    return CPU_EQUAL(&common, inner);
}

static int is_first(const bench_preflight_facts *facts, int rank, preflight_same same)
{
    for (int i = 0; i < rank; i++)
        if (same(&facts[i], &facts[rank]))
            return 0;
    return 1;
}

/* The number of ranks of the kernel that have no core outside this rank's set. */
static int count_confined(const bench_preflight_facts *facts, int nranks, int rank)
{
    int count = 0;
    for (int i = 0; i < nranks; i++)
        count +=
            same_kernel(&facts[i], &facts[rank]) && is_within(&facts[i].cores, &facts[rank].cores);
    return count;
}

/* The number of cores that the ranks of one kernel or container may use together, and the number of
 * those ranks. */
static int cores_of(const bench_preflight_facts *facts, int nranks, int rank, preflight_same same,
                    int *ranks)
{
    cpu_set_t all;
    CPU_ZERO(&all);
    *ranks = 0;
    for (int i = 0; i < nranks; i++) {
        if (!same(&facts[i], &facts[rank]))
            continue;
        CPU_OR(&all, &all, &facts[i].cores);
        ++*ranks;
    }
    return CPU_COUNT(&all);
}

/* Continues a finding with the core of a rank that has only one. */
static void write_shared_core(const bench_preflight_facts *facts, int rank, FILE *to)
{
    int core = 0;
    while (core < CPU_SETSIZE && !CPU_ISSET(core, &facts->cores))
        core++;
    if (CPU_COUNT(&facts->cores) == 1)
        fprintf(to, " (rank %d shares core %d)", rank, core);
    fprintf(to, ": times include waiting for the core; ");
}

/* Ranks that share too few cores: reported once per kernel, for the first such rank. */
static int judge_cores(const bench_preflight_facts *facts, int nranks, int first,
                       const char *program, FILE *to)
{
    int ranks = 0, cores = cores_of(facts, nranks, first, same_kernel, &ranks);
    for (int rank = first; rank < nranks; rank++) {
        int own = CPU_COUNT(&facts[rank].cores);
        int sharers = count_confined(facts, nranks, rank);
        if (!same_kernel(&facts[first], &facts[rank]) || own == 0 || sharers <= own)
            continue;
        if (ranks > cores)
            fprintf(to, "%s: preflight: node %s: %d ranks on %d core%s", program, facts[rank].host,
                    ranks, cores, weiri_s(cores));
        else
            fprintf(to, "%s: preflight: node %s: %d ranks share %d core%s", program,
                    facts[rank].host, sharers, own, weiri_s(own));
        write_shared_core(&facts[rank], rank, to);
        if (ranks > cores)
            fprintf(to, "start at most %d rank%s on this node\n", cores, weiri_s(cores));
        else
            fprintf(to, "let the launcher bind one rank to a core (--bind-to core)\n");
        return 1;
    }
    return 0;
}

static int judge_governor(const bench_preflight_facts *facts, int nranks, int first,
                          const char *program, FILE *to)
{
    for (int rank = first; rank < nranks; rank++) {
        if (!same_kernel(&facts[first], &facts[rank]) || !facts[rank].governor[0])
            continue;
        fprintf(to,
                "%s: preflight: %s: cpu %d's frequency governor is %s: its clock will change "
                "under load; cpupower frequency-set -g performance\n",
                program, facts[rank].host, facts[rank].governor_cpu, facts[rank].governor);
        return 1;
    }
    return 0;
}

static int judge_quota(const bench_preflight_facts *facts, int nranks, int first,
                       const char *program, FILE *to)
{
    int ranks = 0, cores = cores_of(facts, nranks, first, same_container, &ranks);
    int busy = ranks < cores ? ranks : cores;
    double quota = facts[first].quota_cores;
    if (!(quota > 0) || quota >= busy)
        return 0;
    fprintf(to,
            "%s: preflight: %s: the control group allows %.3g cores of processor time, the "
            "ranks use %d: they will be throttled; raise cpu.max or start fewer "
            "ranks\n",
            program, facts[first].host, quota, busy);
    return 1;
}

/* Too few GPUs for the ranks, or a build without CUDA, leave host memory to measure. */
static int judge_gpus(const bench_preflight_facts *facts, const char *program, FILE *to)
{
    if (!facts->idle_gpus)
        return 0;
    fprintf(to,
            "%s: preflight: node %s has %d GPU%s, but this run measures host memory: give "
            "--backend cuda, which prints why the GPUs are not used, or --backend host\n",
            program, facts->host, facts->idle_gpus, weiri_s(facts->idle_gpus));
    return 1;
}

int bench_preflight_judge(const bench_preflight_facts *facts, int nranks, const char *program,
                          FILE *to)
{
    int found = 0;
    for (int rank = 0; rank < nranks; rank++) {
        if (is_first(facts, rank, same_kernel)) {
            found += judge_cores(facts, nranks, rank, program, to);
            found += judge_governor(facts, nranks, rank, program, to);
        }
        if (is_first(facts, rank, same_container)) {
            found += judge_quota(facts, nranks, rank, program, to);
            found += judge_gpus(&facts[rank], program, to);
        }
    }
    return found;
}

/* Prints all findings, and keeps them for the manifest. */
static void report_findings(bench_job *job, const bench_preflight_facts *all)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        return;
    bench_preflight_judge(all, job->nranks, job->program, to);
    fclose(to);
    fputs(text, stderr);
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        const char *finding = strstr(line, "preflight: ");
        bench_warning_keep(&job->warnings, "preflight",
                           finding ? finding + strlen("preflight: ") : line);
    }
    free(text);
}

void bench_preflight(bench_job *job)
{
    bench_preflight_facts mine;
    cpu_set_t cpus;
    memset(&mine, 0, sizeof mine);
    CPU_ZERO(&cpus);
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0)
        CPU_ZERO(&cpus);
    memcpy(mine.host, job->host, sizeof mine.host);
    memcpy(mine.kernel, job->kernel, sizeof mine.kernel);
    bench_preflight_read("", &cpus, &mine);
    if (job->gpu || !job->may_use_gpus)
        mine.idle_gpus = 0;
    bench_preflight_facts *all = bench_exchange_collect(job, &mine, sizeof mine);
    if (all)
        report_findings(job, all);
    free(all);
}
