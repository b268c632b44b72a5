/*
 * The run header. nccl-tests' lines keep their wording and order, because
 * parsers match them; what they have no place for follows as comment lines.
 */
#include "bench/output/table.h"

#include "base/mpi_open.h"
#include "base/words.h"
#include "bench/check/checks.h"
#include "bench/check/reference.h"
#include "bench/options/environment.h"
#include "bench/statistics/bootstrap.h"
#include "bench/job/cache.h"

#include <string.h>

enum {
    DEVICE_LINES = 64, /* of more ranks, those of a host share a line */
    HOST_LINES = 32,
    NODE_LINES = 8, /* of more nodes, those of a kind share a line */
};

/* Returns the end of the ranks from first on that are on the same host, with the same devices, and
 * in the same group. */
static int host_end(const bench_rank_info *infos, int nranks, int first)
{
    int end = first + 1;
    while (end < nranks && strcmp(infos[end].host, infos[first].host) == 0 &&
           strcmp(infos[end].gpu.name, infos[first].gpu.name) == 0 &&
           infos[end].group == infos[first].group)
        end++;
    return end;
}

/* A line for each host with the ranges of its ranks, processes and devices. */
static void write_folded_devices(FILE *out, const bench_rank_info *infos, int nranks)
{
    int lines = 0, hosts = 0, left = 0;
    for (int first = 0, end; first < nranks; first = end, hosts++) {
        end = host_end(infos, nranks, first);
        if (lines == HOST_LINES) {
            left += end - first;
            continue;
        }
        lines++;
        int pids[2] = {infos[first].pid, infos[first].pid};
        int devices[2] = {infos[first].device, infos[first].device};
        for (int i = first; i < end; i++) {
            pids[0] = infos[i].pid < pids[0] ? infos[i].pid : pids[0];
            pids[1] = infos[i].pid > pids[1] ? infos[i].pid : pids[1];
            devices[0] = infos[i].device < devices[0] ? infos[i].device : devices[0];
            devices[1] = infos[i].device > devices[1] ? infos[i].device : devices[1];
        }
        fprintf(out, "#  Ranks %d-%d Group %2d Pids %d-%d on %10s devices %d-%d%s%s\n", first,
                end - 1, infos[first].group, pids[0], pids[1], infos[first].host, devices[0],
                devices[1], infos[first].gpu.name[0] ? " " : "", infos[first].gpu.name);
    }
    if (left)
        fprintf(out, "#  %d more ranks on %d more hosts\n", left, hosts - lines);
}

static void write_devices(FILE *out, const bench_rank_info *infos, int nranks)
{
    fprintf(out, "#\n# Using devices\n");
    if (nranks > DEVICE_LINES) {
        write_folded_devices(out, infos, nranks);
        return;
    }
    for (int i = 0; i < nranks; i++)
        fprintf(out, "#  Rank %2d Group %2d Pid %6d on %10s device %2d [%s] %s%s%s\n",
                infos[i].rank, infos[i].group, infos[i].pid, infos[i].host, infos[i].device,
                infos[i].gpu.bus, infos[i].gpu.name, infos[i].gpu.name[0] ? ", " : "",
                infos[i].place);
}

static void write_nccl_lines(FILE *out, const bench_run *run, const bench_rank_info *infos)
{
    const bench_options *o = run->options;
    int by_factor = o->step_factor > 1;
    fprintf(out, "# weir version %s nccl-headers=0 nccl-library=0\n", WEIR_VERSION);
    fprintf(out, "# Collective test starting: %s\n", run->job->program);
    fprintf(out,
            "# nThread %d nGpus %d minBytes %zu maxBytes %zu step: %zu(%s) warmup iters: %d "
            "iters: %d agg iters: %d validation: %d graph: %d unalign: %d\n",
            o->nthreads, o->ngpus, o->min_bytes, o->max_bytes,
            by_factor ? o->step_factor : o->step_bytes, by_factor ? "factor" : "bytes",
            o->warmups < 0 ? 0 : o->warmups, o->iterations, o->aggregate,
            bench_options_verifies(o) ? o->checks : 0, o->graph, o->unalign_elements);
    write_devices(out, infos, run->job->nranks);
}

static const char *timing_mode(const bench_options *options)
{
    if (options->asleep)
        return "asleep: ranks start each operation together after a pause of 100 ms";
    if (options->mode == BENCH_MODE_LATENCY)
        return "latency: ranks start each operation together; waiting is not timed";
    if (options->batched && options->graph)
        return "an iteration is one replay of a graph of operations; times are per operation; a "
               "replay before it is not timed";
    if (options->batched)
        return "an iteration is a batch of operations enqueued together; times are per operation; "
               "some operations before it are not timed";
    switch (options->blocking) {
    case 1:
        return "isolated: a barrier after each operation, not timed";
    case 3:
        return "isolated: a barrier after each iteration, not timed";
    default:
        return "back to back; a barrier before each block of iterations";
    }
}

static const char *rank_time(const bench_options *options)
{
    static const char *const words[] = {"rank 0's time", "mean over ranks", "minimum over ranks",
                                        "maximum over ranks"};
    return words[options->rank_time];
}

static void write_mpi(FILE *out, const bench_job *job)
{
    char version[256];
    const char *reason = job->no_mpi ? job->no_mpi : "";
    bench_mpi_version(job->mpi, version, sizeof version);
    if (job->mpi)
        fprintf(out, "# MPI: %.*s (%s ABI, %s)\n", (int)strcspn(version, ",\n"), version,
                weiri_mpi_abi(), weiri_mpi_file());
    else
        fprintf(out, "# Launcher: %s; no MPI%s%s\n", bench_launcher_name(job->launcher),
                *reason ? ": " : "", reason);
}

/* CUDA's version 13010 is 13.1. */
static void write_gpu(FILE *out, const bench_gpu_info *gpu)
{
    if (gpu->name[0])
        fprintf(out, "# GPUs: %s of %.0f GiB; CUDA runtime %d.%d, the driver's %d.%d\n", gpu->name,
                (double)gpu->memory_bytes / (1 << 30), gpu->runtime / 1000,
                gpu->runtime % 1000 / 10, gpu->driver / 1000, gpu->driver % 1000 / 10);
}

/* What the driver reports of the GPUs' state, and what it cannot report. */
static void write_nvml(FILE *out, const bench_rank_info *infos, int nranks)
{
    char state[96];
    bench_clocks start;
    int silent = 0;
    bench_clocks_clear(&start);
    for (int i = 0; i < nranks; i++)
        if (infos[i].nvml.has_start)
            bench_clocks_add(&start, &infos[i].nvml.start);
    bench_clocks_describe(&start, state, sizeof state);
    if (start.samples)
        fprintf(out,
                "# State of the GPUs (NVML, driver %s), lowest clocks, most power and heat: "
                "%s%s\n",
                infos[0].nvml.driver, state, start.throttled ? "; throttled before the run" : "");
    while (silent < nranks && !infos[silent].nvml.problem[0])
        silent++;
    if (silent < nranks)
        fprintf(out, "# State of the GPUs: rank %d: %s\n", infos[silent].rank,
                infos[silent].nvml.problem);
}

static int is_same_kind(const bench_rank_info *a, const bench_rank_info *b)
{
    return a->node_ranks == b->node_ranks && strcmp(a->machine, b->machine) == 0 &&
           strcmp(a->digest, b->digest) == 0;
}

/* A line for each kind of nodes, with their number. */
static void write_kinds_of_nodes(FILE *out, const bench_rank_info *infos, int nranks)
{
    for (int i = 0; i < nranks; i++) {
        int count = 0, earlier = 0;
        for (int j = 0; j < nranks && infos[i].node_ranks; j++) {
            count += is_same_kind(&infos[j], &infos[i]);
            earlier |= j < i && is_same_kind(&infos[j], &infos[i]);
        }
        if (!infos[i].node_ranks || earlier)
            continue;
        fprintf(out, "# %d node%s with %d rank%s%s: %s (topology %s); first: %s, rank %d\n", count,
                weiri_s(count), infos[i].node_ranks, weiri_s(infos[i].node_ranks),
                count > 1 ? " each" : "", infos[i].machine, infos[i].digest, infos[i].host, i);
    }
}

/* One line a machine. */
static void write_nodes(FILE *out, const bench_rank_info *infos, const bench_job *job)
{
    if (job->nnodes > NODE_LINES) {
        write_kinds_of_nodes(out, infos, job->nranks);
        return;
    }
    for (int i = 0; i < job->nranks; i++) {
        const bench_rank_info *info = &infos[i];
        if (!info->node_ranks)
            continue;
        fprintf(out, "# Node of rank %d: %s (topology %s)", i, info->machine, info->digest);
        if (job->nnodes > 1)
            fprintf(out, "; %s, %d rank%s", info->host, info->node_ranks,
                    weiri_s(info->node_ranks));
        fputc('\n', out);
    }
}

static void write_ranks(FILE *out, const bench_job *job)
{
    int several = job->nnodes > 1;
    fprintf(out,
            "# Ranks: %d on %d node%s; set-up of weir %.1f ms; library memory %.1f MiB per rank"
            "%s%s\n",
            job->nranks, job->nnodes, several ? "s" : "", job->setup_ms,
            (double)weir_comm_scratch_bytes(job->comm) / 1048576,
            several ? "; nodes joined by " : "",
            several ? weir_transport_name(weir_comm_transport(job->comm)) : "");
}

static void write_buffers(FILE *out, const bench_run *run, const bench_gpu_info *gpu)
{
    const bench_options *o = run->options;
    size_t cache_bytes = run->job->gpu ? gpu->cache_bytes : o->cold ? bench_cache_bytes() : 0;
    fprintf(out, "# Buffers: %s memory, ",
            o->buffers == BENCH_BUFFERS_PLAIN ? "unregistered" : "registered");
    if (o->cold)
        fprintf(out,
                "cold: operations cycle through copies, twice the last-level cache of %.0f MiB",
                (double)cache_bytes / 1048576);
    else
        fprintf(out, "warm");
    fprintf(out, "; algorithm: %s\n", o->algo);
}

/* The number of iterations, or how the run finds it. */
static void write_iterations(FILE *out, const bench_options *o)
{
    int given = o->batched ? o->graph : o->iterations;
    if (o->batched && o->iterations)
        fprintf(out, "%d operation%s each, ", o->iterations, weiri_s(o->iterations));
    if (given)
        fprintf(out, "%d iteration%s", given, weiri_s(given));
    else if (o->until > 0)
        fprintf(out, "iterations until the median's interval is +- %g%%, at most %d s per size",
                o->until * 100, bench_options_until_s(o));
    else
        fprintf(out, "20 to %d iterations by time budget", o->batched ? 100 : 2000);
    if (o->warmups < 0)
        fprintf(out, "; warm-ups until times no longer fall");
}

/* How peers are measured, and with which settings: those of the user's environment and of the files
 * that NCCL reads. */
static void write_peers(FILE *out, const bench_job *job)
{
    char settings[1024];
    fprintf(out, "# Peers are interleaved with weir (A B B A); [low, high] is the interval of "
                 "a ratio of medians; without 1 in it, one of the two takes longer\n");
    if (bench_environment_of_peers(settings, sizeof settings))
        fprintf(out, "# Peers' settings, from the environment and NCCL's files: %s\n", settings);
    else
        fprintf(out, "# Peers' settings: their defaults; the environment has none\n");
    if (*job->peer_settings)
        fprintf(out, "# Settings that peers report:%s\n", job->peer_settings);
}

static void write_our_lines(FILE *out, const bench_run *run, const bench_rank_info *infos)
{
    const bench_job *job = run->job;
    const bench_options *o = run->options;
    int rounds = bench_options_rounds(o);
    fprintf(out, "#\n# %s, run %s, %s\n", weir_version_string(), run->id, run->utc);
    write_nodes(out, infos, job);
    write_mpi(out, job);
    bench_reference_write_faults(out, run);
    bench_checks_write_limits(out, o);
    write_gpu(out, &infos[0].gpu);
    write_nvml(out, infos, job->nranks);
    write_ranks(out, job);
    write_buffers(out, run, &infos[0].gpu);
    fprintf(out, "# Timing: %s; ", timing_mode(o));
    write_iterations(out, o);
    fprintf(out, "; time is the median of each iteration's %s%s\n", rank_time(o),
            o->cpu_time ? "; cputime is the mean processor time of an operation" : "");
    if (job->ngroups > 1)
        fprintf(out,
                "# Groups: %d (%s, %s), all at the same time; a time is that of the slowest "
                "rank of all, a bandwidth that of one group, the first\n",
                job->ngroups, o->split_from, o->split_name);
    if (o->npeers)
        write_peers(out, job);
    if (rounds > 1)
        fprintf(out,
                "# Rounds: the iterations of a size are divided into %d rounds, each on other "
                "pages, with other sizes in between\n",
                rounds);
    fprintf(out, "# Intervals: 95%%, %s%s\n", bench_bootstrap_method(),
            rounds > 1 ? "" : "; order statistics for fewer than 20 iterations");
}

void bench_header_write(FILE *out, const bench_run *run, const bench_rank_info *infos)
{
    write_nccl_lines(out, run, infos);
    write_our_lines(out, run, infos);
    fflush(out);
}
