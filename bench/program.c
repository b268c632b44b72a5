/* The flow of a benchmark program: see program.h. */
#include "bench/program.h"

#include "bench/job/exchange.h"
#include "bench/job/load.h"
#include "bench/job/preflight.h"
#include "bench/job/watch.h"
#include "bench/options/environment.h"
#include "programs/program.h"
#include "programs/terminal.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_WRONG = 1 }; /* wrong data, or a missed floor */

/* What main parsed, as the ranks get it. */
typedef struct program {
    const bench_workload *workload;
    bench_run *run;
    const bench_launch *launch;
    const char *problem; /* of the command line; "" */
} program;

static void help_env(void)
{
    char text[8192];
    weir_env_help(text, sizeof text);
    printf("Environment variables that weir reads:\n%s\n", text);
    bench_environment_help(stdout);
}

/* Actions that end the program before it measures anything. Rank 0 prints. */
static void print_information(const program *p)
{
    if (p->run->job->rank != 0)
        return;
    switch ((bench_action)p->run->options->action) {
    case BENCH_ACTION_HELP_ENV:
        help_env();
        break;
    case BENCH_ACTION_VERSION:
        printf("%s\n", weir_version_string());
        break;
    default:
        p->workload->inform(p->run);
    }
}

/* An option takes precedence over its environment variable, which is all that the library reads.
 * Benchmarks compare the ranks' calls, unless the user says otherwise. */
static void export_options(const bench_options *options)
{
    if (options->invariant)
        setenv("WEIR_INVARIANT", "1", 1);
    char blocks[16];
    snprintf(blocks, sizeof blocks, "%d", options->max_blocks);
    if (options->max_blocks)
        setenv("WEIR_MAX_BLOCKS", blocks, 1);
    if (options->max_blocks && options->npeers)
        setenv("NCCL_MAX_CTAS", blocks, 1);
    if (options->transport != WEIR_TRANSPORT_AUTO)
        setenv("WEIR_TRANSPORT", weir_transport_name((weir_transport)options->transport), 1);
    setenv("WEIR_CHECK", "1", 0);
}

static weir_backend backend_of(const bench_options *options)
{
    static const weir_backend backends[] = {[BENCH_BACKEND_AUTO] = WEIR_BACKEND_AUTO,
                                            [BENCH_BACKEND_HOST] = WEIR_BACKEND_HOST,
                                            [BENCH_BACKEND_CUDA] = WEIR_BACKEND_CUDA};
    return backends[options->backend];
}

/* Names the variables that the user has set for other programs, and that change nothing here. */
static void warn_of_environment(bench_job *job)
{
    char names[BENCH_WARNING_BYTES / 2];
    if (bench_environment_foreign(1, names, sizeof names))
        bench_warning_add(job, "nccl-tests", "variables of nccl-tests that weir does not obey: %s",
                          names);
    if (bench_environment_foreign(0, names, sizeof names))
        bench_warning_add(job, "environment",
                          "variables of NCCL that change peers at most, not weir (in brackets: "
                          "what does): %s",
                          names);
}

/* Creates the communicator, and opens workload and report. Collective; agreed. */
static weir_status open_run(const program *p, bench_report *report, void **state)
{
    bench_run *run = p->run;
    export_options(run->options);
    bench_run_stamp(run);
    weir_status status = bench_job_connect(run->job, backend_of(run->options));
    if (status == WEIR_OK)
        status = p->workload->open(run, report, state);
    if (status != WEIR_OK)
        return status;
    bench_preflight(run->job);
    warn_of_environment(run->job);
    status = bench_report_open(report, run);
    if (status != WEIR_OK)
        return status;
    if (run->job->rank == 0)
        p->workload->begin(*state);
    return bench_report_check_output(report);
}

/* Ends a run, which has the status, and returns the exit code. Collective. */
static int close_run(const program *p, bench_report *report, void *state, weir_status status)
{
    if (status == WEIR_OK && p->run->job->rank == 0)
        p->workload->end(state);
    const int misses = status == WEIR_OK && bench_report_misses_floor(report);
    report->is_complete = status == WEIR_OK;
    weir_status closed = bench_report_close(report);
    status = status != WEIR_OK ? status : closed;
    return status == WEIR_OK && (report->failed || misses) ? EXIT_WRONG
                                                           : weir_status_exit_code(status);
}

/* The checks of the command line that involve all ranks, which may find different files: if one
 * rank has a problem, all end with the problem of the lowest such rank. Collective. */
static void check_command_line(const program *p, char *problem)
{
    bench_run *run = p->run;
    bench_job_phase(run->job, "set-up: comparison of options", 0);
    bench_consistency_share(run->job, problem);
    if (!*problem)
        bench_consistency_check(run, problem);
    if (!*problem && run->options->action == BENCH_ACTION_RUN) {
        if (bench_job_divide(run->job, &run->options->split) != WEIR_OK)
            snprintf(problem, BENCH_PROBLEM_BYTES, "the ranks cannot be divided into groups");
        else
            p->workload->check(run, problem);
        bench_consistency_share(run->job, problem);
    }
}

/* Ends on every rank after a usage error or a request for information. Returns the exit code.
 * Collective if the job has started. */
static int end_early(const program *p, const char *problem)
{
    bench_run *run = p->run;
    if (*problem) {
        bench_job_say(run->job, "%s", problem);
        return weir_status_exit_code(WEIR_ERR_INVALID);
    }
    print_information(p);
    weir_status status = bench_job_check_output(run->job);
    if (status != WEIR_OK)
        bench_job_say(run->job, "%s", run->job->note.text);
    int code = weir_status_exit_code(status);
    if (run->job->nranks)
        bench_exchange_broadcast(run->job, &code, sizeof code, 0);
    return code;
}

/* One rank, from its start to its exit code. Collective. */
static int run_rank(const program *p, const bench_launch *launch)
{
    bench_run *run = p->run;
    const bench_workload *workload = p->workload;
    static bench_report report; /* these two are larger than small stacks */
    static bench_load_sample load;
    char problem[BENCH_PROBLEM_BYTES];
    void *state = NULL, *point = NULL;
    int code;
    snprintf(problem, sizeof problem, "%s", p->problem);
    weir_status status =
        bench_job_start(run->job, run->job->program, run->options->timeout_s, launch);
    if (status != WEIR_OK)
        return weir_status_exit_code(status);
    check_command_line(p, problem);
    if (*problem || run->options->action != BENCH_ACTION_RUN) {
        code = end_early(p, problem);
    } else {
        status = open_run(p, &report, &state);
        bench_load_read("", &load);
        while (status == WEIR_OK && (status = workload->next(state, &point)) == WEIR_OK && point) {
            status = workload->point(point);
            if (status == WEIR_OK)
                workload->row(state);
        }
        if (status == WEIR_OK)
            bench_load_end(run->job, &load);
        code = close_run(p, &report, state, status);
    }
    workload->close(run, state);
    bench_job_end(run->job);
    return code;
}

static int run_forked_rank(weir_boot *boot, void *argument)
{
    const program *p = argument;
    const bench_launch launch = bench_launch_of_fork(p->launch, boot);
    bench_launch_note_child(launch.rank);
    return run_rank(p, &launch);
}

/* No job can start. Rank 0 prints the line, if it has the problem, else the first other rank of
 * each node that has it. */
static int end_without_job(const program *p, const char *problem)
{
    const bench_launch *launch = p->launch;
    int first = !launch->variable || bench_setup_claim_refusal(launch->rank == 0);
    p->run->job->rank = first ? 0 : launch->rank;
    int code = end_early(p, problem);
    if (launch->is_refused)
        code = weir_status_exit_code(WEIR_ERR_SYSTEM);
    if (launch->variable)
        bench_setup_hold_refusal();
    return code;
}

int bench_program_main(const bench_workload *workload, weir_collective collective, const char *name,
                       int argc, char **argv)
{
    bench_options *options = workload->options;
    bench_job job = {.program = name};
    bench_run run = {.job = &job,
                     .options = options,
                     .table = workload->table,
                     .collective = collective,
                     .argc = argc,
                     .argv = argv};
    bench_launch launch;
    char problem[BENCH_PROBLEM_BYTES] = "", refusal[BENCH_PROBLEM_BYTES] = "";
    const program p = {workload, &run, &launch, problem};
    weiri_program_begin();
    weiri_terminal_detect();
    workload->parse(collective, argc, argv, problem);
    const int informs = !*problem && options->action != BENCH_ACTION_RUN;
    const int refused = bench_launch_find(&launch, refusal) != 0 ||
                        (!informs && bench_launch_check_ngpus(&launch, options, refusal) != 0);
    if (refused && !informs)
        return end_without_job(&p, *problem ? problem : refusal);
    if (!*problem && !informs)
        bench_launch_check(&launch, options, problem);
    /* A single process reports without starting a job. Ranks of a job start it first: a rank that
     * ended at once could make the launcher kill rank 0 before it has reported. */
    if ((*problem || informs) && (!launch.variable || *refusal))
        return end_early(&p, problem);
    if (launch.launcher == BENCH_LAUNCHER_FORK && options->for_s > 0)
        bench_launch_pass_term(options->ngpus);
    if (launch.launcher == BENCH_LAUNCHER_FORK)
        return bench_launch_fork(name, options->ngpus, run_forked_rank, (void *)(uintptr_t)&p);
    return run_rank(&p, &launch);
}
