/* The flow of a benchmark program: see program.h. */
#include "bench/program.h"

#include "base/terminal.h"
#include "base/words.h"
#include "bench/candidate/candidates.h"
#include "bench/job/memory.h"
#include "bench/job/preflight.h"
#include "bench/measure/sweep.h"
#include "bench/options/faults.h"
#include "bench/options/parse.h"

#include <stdio.h>
#include <stdlib.h>

enum { EXIT_WRONG = 1 };

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
    if (options->transport != BENCH_TRANSPORT_AUTO)
        setenv("WEIR_TRANSPORT", options->words.transport, 1);
}

static weir_backend backend_of(const bench_options *options)
{
    static const weir_backend backends[] = {[BENCH_BACKEND_AUTO] = WEIR_BACKEND_AUTO,
                                            [BENCH_BACKEND_HOST] = WEIR_BACKEND_HOST,
                                            [BENCH_BACKEND_CUDA] = WEIR_BACKEND_CUDA};
    return backends[options->backend];
}

/* Creates the communicator, and sets the options that depend on it. Collective; agreed. */
static weir_status connect_job(bench_run *run, bench_options *options)
{
    export_options(options);
    bench_run_stamp(run);
    weir_status status = bench_job_connect(run->job, backend_of(options));
    options->batched =
        run->job->gpu && options->mode != BENCH_MODE_LATENCY && options->blocking % 2 == 0;
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
    long failed = 0;
    weir_status status = connect_job(run, options);
    if (status != WEIR_OK)
        return weir_status_exit_code(status);
    status = bench_report_open(&report, run);
    if (status == WEIR_OK) {
        status = open_sweep(run, &buffers, &candidates, &report);
        if (status == WEIR_OK)
            status = bench_sweep(run, &buffers, &candidates, &report, &failed);
        if (status == WEIR_OK && run->job->rank == 0)
            bench_report_end(&report);
        bench_candidates_close(&candidates);
        bench_buffers_close(run->job, &buffers);
    }
    weir_status closed = bench_report_close(&report);
    status = status != WEIR_OK ? status : closed;
    return status == WEIR_OK && failed ? EXIT_WRONG : weir_status_exit_code(status);
}

/* 1 if a launcher started this process as one of several. */
static int is_launched(void)
{
    static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                        "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++)
        if (getenv(ranks[i]))
            return 1;
    return 0;
}

/* Checks that need the number of ranks: the root, the plan, and the weights of alltoallv. Ranks on
 * different nodes may find different files: if one rank has a problem, all end with the problem of
 * the lowest such rank. Collective. */
static void check_with_ranks(const bench_run *run, bench_dist *dist, char *problem)
{
    const bench_job *job = run->job;
    if (run->options->root >= job->nranks)
        snprintf(problem, BENCH_PROBLEM_BYTES,
                 "-r %d: there %s %d rank%s; give a root from 0 to %d", run->options->root,
                 job->nranks == 1 ? "is" : "are", job->nranks,
                 weiri_s((unsigned long long)job->nranks), job->nranks - 1);
    else if (run->options->plan) /* --plan is refused for alltoallv */
        bench_plan_check(run->options, run->collective, job->nranks, problem);
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
        bench_consistency_check(run->job, run->options, problem);
    if (!*problem && run->options->action == BENCH_ACTION_RUN &&
        bench_dist_parse(run->options->dist, dist) == WEIR_OK)
        check_with_ranks(run, dist, problem);
}

/* Ends on every rank after a usage error or a request for information. Returns the exit code.
 * Collective if MPI has started. */
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
        MPI_Bcast(&code, 1, MPI_INT, 0, run->job->mpi);
    return code;
}

int bench_program_main(weir_collective collective, const char *program, int argc, char **argv)
{
    bench_options options;
    bench_dist dist = {.nsteps = 1};
    bench_job job = {.program = program};
    bench_run run = {.job = &job, .options = &options, .collective = collective, .dist = &dist,
                     .argc = argc, .argv = argv};
    char problem[BENCH_PROBLEM_BYTES] = "";
    bench_job_hold_output();
    weiri_terminal_detect();
    bench_options_parse(argc, argv, collective, &options, problem);
    if (options.action == BENCH_ACTION_LIST_ALGOS && options.plan)
        bench_plan_check(&options, collective, 0, problem);
    int early = *problem || options.action != BENCH_ACTION_RUN;
    /* A single process reports without starting MPI. Ranks of a job start it first: a rank that
     * ended at once could make the launcher kill rank 0 before it has reported. */
    if (early && !is_launched())
        return end_early(&run, problem);
    bench_job_start(&job, program, options.timeout_s);
    check_command_line(&run, &dist, problem);
    early = early || *problem;
    int code = early ? end_early(&run, problem) : run_benchmark(&run, &options);
    bench_dist_close(&dist);
    bench_job_end(&job);
    return code;
}
