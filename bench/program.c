/* The flow of a benchmark program: see program.h. */
#include "bench/program.h"

#include "base/words.h"
#include "bench/candidate/candidates.h"
#include "bench/job/exchange.h"
#include "bench/job/load.h"
#include "bench/job/memory.h"
#include "bench/job/preflight.h"
#include "bench/job/watch.h"
#include "bench/measure/sweep.h"
#include "bench/options/faults.h"
#include "bench/options/parse.h"
#include "programs/program.h"
#include "programs/terminal.h"

#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EXIT_WRONG = 1 }; /* wrong data, or a missed floor */

static void help_env(void)
{
    char text[8192];
    weir_env_help(text, sizeof text);
    printf("Environment variables that weir reads:\n%s", text);
}

/* Actions that end the program before it measures anything. Rank 0 prints. */
static void print_information(const bench_run *run)
{
    if (run->job->rank != 0)
        return;
    switch ((bench_action)run->options->action) {
    case BENCH_ACTION_HELP: bench_options_help(stdout, run->job->program); break;
    case BENCH_ACTION_HELP_ENV: help_env(); break;
    case BENCH_ACTION_VERSION: printf("%s\n", weir_version_string()); break;
    case BENCH_ACTION_LIST_ALGOS: bench_listing_print(stdout, run->options, run->collective); break;
    case BENCH_ACTION_LIST_FAULTS: bench_fault_list(stdout); break;
    case BENCH_ACTION_RUN:
        break;
    }
}

/* An option takes precedence over its environment variable, which is all that the library reads. */
static void export_options(const bench_options *options)
{
    static const char *const words[] = {[BENCH_TRANSPORT_SHM] = "shm",
                                        [BENCH_TRANSPORT_CUDA_IPC] = "cuda_ipc",
                                        [BENCH_TRANSPORT_IB] = "ib",
                                        [BENCH_TRANSPORT_TCP] = "tcp"};
    if (options->transport != BENCH_TRANSPORT_AUTO)
        setenv("WEIR_TRANSPORT", words[options->transport], 1);
}

static weir_backend backend_of(const bench_options *options)
{
    static const weir_backend backends[] = {[BENCH_BACKEND_AUTO] = WEIR_BACKEND_AUTO,
                                            [BENCH_BACKEND_HOST] = WEIR_BACKEND_HOST,
                                            [BENCH_BACKEND_CUDA] = WEIR_BACKEND_CUDA};
    return backends[options->backend];
}

/* The data of a run with --inject slow are right, so that only this marks its results. Collective;
 * agreed. */
static weir_status announce_slow(bench_job *job, const bench_options *options)
{
    weir_status status = WEIR_OK;
    if (options->batched)
        status = bench_job_note(job, WEIR_ERR_INVALID,
                                "--inject slow: needs --mode latency on GPUs, where batches are "
                                "timed by events");
    else
        bench_warning_add(job, "inject", "--inject slow:%d: operations of weir were made slower",
                          options->inject_slow);
    return bench_job_agree(job, status, "--inject");
}

/* Creates the communicator, and sets the options that depend on it. Collective; agreed. */
static weir_status connect_job(bench_run *run, bench_options *options)
{
    export_options(options);
    bench_run_stamp(run);
    weir_status status = bench_job_connect(run->job, backend_of(options));
    options->batched =
        run->job->gpu && options->mode != BENCH_MODE_LATENCY && options->blocking % 2 == 0;
    if (status == WEIR_OK && options->inject_slow)
        status = announce_slow(run->job, options);
    return status == WEIR_OK
               ? bench_memory_check(run->job, options, run->collective, run->dist)
               : status;
}

/* Opens what the sweep needs: buffers, candidates and the header. Collective; agreed. */
static weir_status open_sweep(const bench_run *run, bench_buffers *buffers,
                              bench_candidates *candidates, bench_report *report)
{
    weir_status status =
        bench_buffers_open(run->job, run->options, run->collective, run->dist, buffers);
    if (status == WEIR_OK)
        status =
            bench_candidates_open(run->job, run->options, run->collective, buffers, candidates);
    if (status == WEIR_OK) {
        bench_preflight(run->job);
        status = bench_report_begin(report);
    }
    return status;
}

/* Runs the benchmark of a started job and returns the exit code. Collective. */
static int run_benchmark(bench_run *run, bench_options *options)
{
    bench_candidates candidates = {.count = 0};
    bench_buffers buffers;
    bench_report report;
    bench_load_sample load;
    long failed = 0;
    weir_status status = connect_job(run, options);
    if (status != WEIR_OK)
        return weir_status_exit_code(status);
    status = bench_report_open(&report, run);
    if (status == WEIR_OK) {
        status = open_sweep(run, &buffers, &candidates, &report);
        bench_load_read("", &load);
        if (status == WEIR_OK)
            status = bench_sweep(run, &buffers, &candidates, &report, &failed);
        if (status == WEIR_OK)
            bench_load_end(run->job, &load);
        if (status == WEIR_OK && run->job->rank == 0)
            bench_report_end(&report);
        bench_candidates_close(&candidates);
        bench_buffers_close(run->job, &buffers);
    }
    const int misses = status == WEIR_OK && bench_report_misses_floor(&report);
    weir_status closed = bench_report_close(&report);
    status = status != WEIR_OK ? status : closed;
    return status == WEIR_OK && (failed || misses) ? EXIT_WRONG : weir_status_exit_code(status);
}

/* Checks that need the number of ranks: the root, the plan, and the weights of alltoallv. Ranks on
 * different nodes may find different files: if one rank has a problem, all end with the problem of
 * the lowest such rank. Collective. */
static void check_with_ranks(const bench_run *run, bench_dist *dist, char *problem)
{
    bench_job *job = run->job;
    if (run->options->root >= job->nranks)
        snprintf(problem, BENCH_PROBLEM_BYTES,
                 "-r %d: there %s %d rank%s; give a root from 0 to %d", run->options->root,
                 job->nranks == 1 ? "is" : "are", job->nranks,
                 weiri_s(job->nranks), job->nranks - 1);
    else if (run->options->plan) /* --plan is refused for alltoallv */
        bench_plan_check(run->options, run->collective, job, problem);
    else if (run->collective == WEIR_COLL_ALLTOALLV)
        bench_dist_open(dist, job->nranks, run->options->seed, problem);
    bench_consistency_share(job, problem);
}

/* The checks of the command line that involve all ranks. Collective. */
static void check_command_line(const bench_run *run, bench_dist *dist, char *problem)
{
    bench_job_phase(run->job, "set-up: comparison of options", 0);
    bench_consistency_share(run->job, problem);
    if (!*problem)
        bench_consistency_check(run, problem);
    if (!*problem && run->options->action == BENCH_ACTION_RUN &&
        bench_dist_parse(run->options->dist, dist) == WEIR_OK)
        check_with_ranks(run, dist, problem);
}

/* Ends on every rank after a usage error or a request for information. Returns the exit code.
 * Collective if the job has started. */
static int end_early(const bench_run *run, const char *problem)
{
    if (*problem) {
        bench_job_say(run->job, "%s", problem);
        return weir_status_exit_code(WEIR_ERR_INVALID);
    }
    print_information(run);
    weir_status status = bench_job_check_output(run->job);
    if (status != WEIR_OK)
        bench_job_say(run->job, "%s", run->job->note.text);
    int code = weir_status_exit_code(status);
    if (run->job->nranks)
        bench_exchange_broadcast(run->job, &code, sizeof code, 0);
    return code;
}

/* What main parsed, as the ranks get it. */
typedef struct program_start {
    bench_run *run;
    bench_options *options;
    const bench_launch *launch;
    const char *problem; /* of the command line; "" */
} program_start;

/* One rank, from its start to its exit code. Collective. */
static int run_rank(const program_start *p, const bench_launch *launch)
{
    bench_run *run = p->run;
    bench_dist dist = {.nsteps = 1};
    char problem[BENCH_PROBLEM_BYTES];
    const char *name = run->job->program;
    snprintf(problem, sizeof problem, "%s", p->problem);
    run->dist = &dist;
    weir_status status = bench_job_start(run->job, name, p->options->timeout_s, launch);
    if (status != WEIR_OK) {
        run->dist = NULL;
        return weir_status_exit_code(status);
    }
    check_command_line(run, &dist, problem);
    int early = *problem || p->options->action != BENCH_ACTION_RUN;
    int code = early ? end_early(run, problem) : run_benchmark(run, p->options);
    bench_dist_close(&dist);
    run->dist = NULL;
    bench_job_end(run->job);
    return code;
}

static int run_forked_rank(weir_boot *boot, void *argument)
{
    const program_start *p = argument;
    const bench_launch launch = bench_launch_of_fork(p->launch, boot);
    return run_rank(p, &launch);
}

/* No job can start. Rank 0 prints the line, if it has the problem, else the first other rank of
 * each node that has it. The launcher may end all ranks when the first ends, so the others give
 * rank 0 time to print, and the rank that has printed keeps its claim until they have seen it: for
 * a second of many sleeps, which last longer where ranks wait for a processor. */
static int end_without_job(const bench_run *run, const bench_launch *launch, const char *problem)
{
    enum { SLEEPS = 20 };
    const struct timespec before = {.tv_nsec = 500000000}, after = {.tv_nsec = 1000000000 / SLEEPS};
    if (launch->rank != 0)
        nanosleep(&before, NULL);
    int first = !launch->variable || bench_setup_claim_refusal();
    run->job->rank = first ? 0 : launch->rank;
    int code = end_early(run, problem);
    for (int i = 0; launch->variable && i < SLEEPS; i++)
        nanosleep(&after, NULL);
    return code;
}

int bench_program_main(weir_collective collective, const char *program_name, int argc, char **argv)
{
    bench_options options;
    bench_job job = {.program = program_name};
    bench_run run = {.job = &job, .options = &options, .table = &bench_options_table,
                     .collective = collective, .argc = argc, .argv = argv};
    bench_launch launch;
    char problem[BENCH_PROBLEM_BYTES] = "";
    const program_start p = {&run, &options, &launch, problem};
    weiri_program_begin();
    weiri_terminal_detect();
    bench_options_parse(argc, argv, collective, &options, problem);
    if (options.action == BENCH_ACTION_LIST_ALGOS && options.plan)
        bench_plan_check(&options, collective, NULL, problem);
    int informs = !*problem && options.action != BENCH_ACTION_RUN;
    char refusal[BENCH_PROBLEM_BYTES] = "";
    int refused = bench_launch_find(&options, &launch, refusal) != 0 ||
                  (!informs && bench_launch_check_ngpus(&launch, &options, refusal) != 0);
    if (refused && !informs)
        return end_without_job(&run, &launch, *problem ? problem : refusal);
    if (!*problem && !informs)
        bench_launch_check(&launch, &options, problem);
    /* A single process reports without starting a job. Ranks of a job start it first: a rank that
     * ended at once could make the launcher kill rank 0 before it has reported. */
    if ((*problem || informs) && (!launch.variable || *refusal))
        return end_early(&run, problem);
    if (launch.launcher == BENCH_LAUNCHER_FORK)
        return bench_launch_fork(program_name, options.ngpus, run_forked_rank,
                                 (void *)(uintptr_t)&p);
    return run_rank(&p, &launch);
}
