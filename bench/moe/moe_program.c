/* The flow of bench_moe: see moe_program.h. */
#include "bench/moe/moe_program.h"

#include "bench/job/exchange.h"
#include "bench/job/preflight.h"
#include "bench/job/watch.h"
#include "bench/moe/moe_measure.h"
#include "bench/output/manifest.h"
#include "programs/program.h"
#include "programs/terminal.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_WRONG = 1, EXPERTS_EACH = 4 };

typedef struct moe_start {
    bench_run *run;
    bench_moe_options *options;
    const bench_launch *launch;
    const char *problem;
} moe_start;

static void print_information(const bench_moe_options *o)
{
    if (o->common.action == BENCH_ACTION_LIST_FAULTS)
        for (int i = 1; i < BENCH_MOE_FAULTS; i++)
            printf("%s\n", bench_moe_fault_name((bench_moe_fault)i));
    else if (o->common.action == BENCH_ACTION_VERSION)
        printf("%s\n", weir_version_string());
    else
        bench_moe_options_help(stdout);
}

/* Checks before the table begins that the peer can be measured. Collective; agreed. */
static weir_status check_peer(const bench_moe_trial *trial)
{
    const moe_candidate_ops *peer = bench_moe_peer(trial->options);
    return peer && peer->check ? bench_job_agree(trial->job, peer->check(trial), peer->name)
                               : WEIR_OK;
}

/* The memory of the group with most tokens. Collective. */
static weir_status largest_group(bench_run *run, const bench_moe_options *o, size_t *bytes)
{
    bench_moe_trial trial;
    moe_candidate candidate;
    int most = o->tokens[0];
    for (int i = 1; i < o->ntokens; i++)
        most = o->tokens[i] > most ? o->tokens[i] : most;
    weir_status status = bench_moe_trial_open(&trial, run->job, o, most);
    if (status != WEIR_OK)
        return status;
    status = check_peer(&trial);
    if (status == WEIR_OK)
        status = bench_moe_candidate_open(&candidate, &bench_moe_weir, &trial);
    if (status == WEIR_OK) {
        *bytes = candidate.info.memory_bytes;
        bench_moe_candidate_close(&candidate);
    }
    bench_moe_trial_close(&trial);
    return status;
}

/* A fault of --inject that changed nothing in any row is an error. Collective; agreed. */
static weir_status check_planted(const bench_run *run, const bench_moe_options *o, int planted)
{
    weir_status status = WEIR_OK;
    if (!o->fault)
        return WEIR_OK;
    if (bench_exchange_fold(run->job, BENCH_FOLD_SUM, planted) == 0)
        status = bench_job_note(run->job, WEIR_ERR_INVALID,
                                "--inject %s changed nothing: no rank has tokens that it could "
                                "change; give more --tokens or another --routing",
                                bench_moe_fault_name((bench_moe_fault)o->fault));
    return bench_job_agree(run->job, status, "injection");
}

/* All rows of the table. Collective; agreed. */
static weir_status run_rows(bench_run *run, const bench_moe_options *o, moe_output *out,
                            uint64_t *wrong)
{
    weir_status status = WEIR_OK;
    int planted = 0;
    for (int i = 0; status == WEIR_OK && i < o->ntokens; i++) {
        bench_moe_trial trial;
        status = bench_moe_trial_open(&trial, run->job, o, o->tokens[i]);
        if (status != WEIR_OK)
            break;
        status = bench_moe_measure(&trial, out, wrong);
        planted += trial.planted;
        bench_moe_trial_close(&trial);
    }
    return status == WEIR_OK ? check_planted(run, o, planted) : status;
}

/* Gathers what the manifest says about the ranks; *infos is NULL on ranks other than 0. Collective;
 * agreed. */
static weir_status gather_ranks(const bench_run *run, bench_rank_info **infos)
{
    weir_status status = WEIR_OK;
    *infos = NULL;
    if (run->job->rank == 0)
        *infos = calloc((size_t)run->job->nranks, sizeof **infos);
    if (run->job->rank == 0 && !*infos)
        status = bench_job_note(run->job, WEIR_ERR_NO_MEMORY, "no memory for the manifest");
    status = bench_job_agree(run->job, status, "manifest");
    if (status == WEIR_OK)
        bench_run_gather(run, *infos);
    return status;
}

static weir_backend backend_of(const bench_moe_options *o)
{
    return o->common.backend == BENCH_BACKEND_HOST   ? WEIR_BACKEND_HOST
           : o->common.backend == BENCH_BACKEND_CUDA ? WEIR_BACKEND_CUDA
                                                     : WEIR_BACKEND_AUTO;
}

/* Notes why the options need another backend, if they do. */
static weir_status check_backend(bench_job *job, const bench_moe_options *o)
{
    const moe_candidate_ops *const peer = bench_moe_peer(o);
    if (job->gpu && peer && !peer->store)
        return bench_job_note(job, WEIR_ERR_INVALID,
                              "--peer %s: it is measured on the host only; add --backend host",
                              peer->name);
    if (job->gpu && job->nnodes > 1 && o->common.graph)
        return bench_job_note(job, WEIR_ERR_INVALID,
                              "--cudagraph 1: with GPUs of several nodes the host takes part in "
                              "calls, which a graph cannot repeat; leave it out");
    if (!job->gpu && o->common.graph)
        return bench_job_note(job, WEIR_ERR_INVALID,
                              "--cudagraph 1: only calls on GPU memory can be captured in a graph; "
                              "leave it out, or use GPUs (--backend cuda)");
    return WEIR_OK;
}

/* Creates the communicator and measures the memory of groups. Collective; agreed. */
static weir_status set_up(bench_run *run, const bench_moe_options *o, size_t *memory_bytes)
{
    weir_status status = bench_job_connect(run->job, backend_of(o));
    if (status == WEIR_OK)
        status = bench_job_agree(run->job, check_backend(run->job, o), "backend");
    if (status == WEIR_OK)
        status = largest_group(run, o, memory_bytes);
    if (status == WEIR_OK)
        bench_preflight(run->job);
    return status;
}

/* Writes all output. The manifest is written again at the end, with the warnings of the run. */
static weir_status run_table(bench_run *run, const bench_moe_options *o, size_t memory_bytes,
                             const bench_rank_info *infos, uint64_t *wrong, int *misses_floor)
{
    moe_output out = {.run = run};
    weir_status status = WEIR_OK;
    if (run->job->rank == 0) {
        status = bench_moe_output_open(&out, run, o, memory_bytes);
        if (status == WEIR_OK)
            status = bench_manifest_write(run, infos);
    }
    status = bench_job_agree(run->job, status, "output");
    if (status != WEIR_OK)
        return status;
    status = run_rows(run, o, &out, wrong);
    if (status != WEIR_OK)
        return status;
    if (run->job->rank == 0) {
        status = bench_moe_output_close(&out, *wrong, misses_floor);
        if (status == WEIR_OK)
            status = bench_manifest_write(run, infos);
    }
    if (status == WEIR_OK)
        status = bench_job_check_output(run->job);
    status = bench_job_agree(run->job, status, "output");
    bench_exchange_broadcast(run->job, misses_floor, sizeof *misses_floor, 0);
    return status;
}

static int run_benchmark(bench_run *run, bench_moe_options *o)
{
    uint64_t wrong = 0;
    int misses_floor = 0;
    size_t memory_bytes = 0;
    bench_rank_info *infos = NULL;
    bench_run_stamp(run);
    weir_status status = set_up(run, o, &memory_bytes);
    if (status == WEIR_OK)
        status = gather_ranks(run, &infos);
    if (status == WEIR_OK)
        status = run_table(run, o, memory_bytes, infos, &wrong, &misses_floor);
    free(infos);
    return status == WEIR_OK && (wrong || misses_floor) ? EXIT_WRONG
                                                        : weir_status_exit_code(status);
}

/* Checks that need the number of ranks. */
static void check_with_ranks(const bench_job *job, bench_moe_options *o, char *problem)
{
    if (!o->experts)
        o->experts = EXPERTS_EACH * job->nranks;
    if (o->experts % job->nranks)
        snprintf(problem, BENCH_PROBLEM_BYTES,
                 "--experts %d: they cannot be divided evenly among %d ranks; use a multiple of %d",
                 o->experts, job->nranks, job->nranks);
}

/* Ends after a usage error or a request for information; rank 0 prints. Returns the exit code.
 * Collective if the job has started. */
static int end_early(const bench_run *run, const bench_moe_options *o, const char *problem)
{
    int code = weir_status_exit_code(WEIR_ERR_INVALID);
    if (*problem) {
        bench_job_say(run->job, "%s", problem);
        return code;
    }
    if (run->job->rank == 0)
        print_information(o);
    code = weir_status_exit_code(bench_job_check_output(run->job));
    if (run->job->nranks)
        bench_exchange_broadcast(run->job, &code, sizeof code, 0);
    return code;
}

/* The checks of the command line that involve all ranks. Collective. */
static void check_command_line(const bench_run *run, bench_moe_options *o, char *problem)
{
    bench_job_phase(run->job, "set-up: comparison of options", 0);
    bench_consistency_share(run->job, problem);
    if (!*problem)
        bench_consistency_check(run, problem);
    if (!*problem && o->common.action == BENCH_ACTION_RUN)
        check_with_ranks(run->job, o, problem);
}

/* One rank, from its start to its exit code. Collective. */
static int run_rank(const moe_start *p, const bench_launch *launch)
{
    bench_run *run = p->run;
    char problem[BENCH_PROBLEM_BYTES];
    snprintf(problem, sizeof problem, "%s", p->problem);
    weir_status status =
        bench_job_start(run->job, run->job->program, p->options->common.timeout_s, launch);
    if (status != WEIR_OK)
        return weir_status_exit_code(status);
    check_command_line(run, p->options, problem);
    const int early = *problem || p->options->common.action != BENCH_ACTION_RUN;
    const int code =
        early ? end_early(run, p->options, problem) : run_benchmark(run, p->options);
    bench_job_end(run->job);
    return code;
}

static int run_forked_rank(weir_boot *boot, void *argument)
{
    const moe_start *p = argument;
    const bench_launch launch = bench_launch_of_fork(p->launch, boot);
    return run_rank(p, &launch);
}

int bench_moe_main(int argc, char **argv)
{
    bench_moe_options options;
    bench_job job = {.program = "bench_moe"};
    bench_run run = {.job = &job, .options = &options.common, .table = &bench_moe_options_table,
                     .argc = argc, .argv = argv};
    bench_launch launch = {.nranks = 1};
    char problem[BENCH_PROBLEM_BYTES] = "";
    const moe_start p = {&run, &options, &launch, problem};
    weiri_program_begin();
    weiri_terminal_detect();
    bench_moe_options_parse(argc, argv, &options, problem);
    const int informs = !*problem && options.common.action != BENCH_ACTION_RUN;
    char refusal[BENCH_PROBLEM_BYTES] = "";
    int refused = bench_launch_find(&options.common, &launch, refusal) != 0;
    if (!refused && !informs)
        refused = bench_launch_check_ngpus(&launch, &options.common, refusal) != 0 ||
                  bench_launch_check(&launch, &options.common, refusal) != 0;
    if (!informs && !*problem && refused)
        memcpy(problem, refusal, sizeof problem);
    /* A single process reports without starting a job; ranks of a job compare their options. */
    if ((*problem || informs) && (!launch.variable || *refusal))
        return end_early(&run, &options, problem);
    if (launch.launcher == BENCH_LAUNCHER_FORK)
        return bench_launch_fork(job.program, options.common.ngpus, run_forked_rank,
                                 (void *)(uintptr_t)&p);
    return run_rank(&p, &launch);
}
