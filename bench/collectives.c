/* The workload of collectives: sizes, each measured with all candidates. See workload.h. */
#include "bench/workload.h"

#include "base/words.h"
#include "bench/candidate/candidates.h"
#include "bench/job/memory.h"
#include "bench/measure/point.h"
#include "bench/measure/sweep.h"
#include "bench/options/faults.h"
#include "bench/options/parse.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct collectives {
    bench_job *job;
    bench_report *report;
    bench_buffers buffers;
    bench_candidates candidates;
    bench_sweep *sweep;
} collectives;

enum { ASLEEP_ITERATIONS = 20 }; /* -n by default with --asleep */
static bench_options options;
static bench_dist dist; /* of alltoallv */

static weir_status collectives_parse(weir_collective collective, int argc, char **argv,
                                     char *problem)
{
    weir_status status = bench_options_parse(argc, argv, collective, &options, problem);
    if (options.action == BENCH_ACTION_LIST_ALGOS && options.plan)
        bench_plan_check(&options, collective, NULL, problem);
    return status;
}

static void collectives_inform(const bench_run *run)
{
    switch ((bench_action)options.action) {
    case BENCH_ACTION_HELP:
        bench_options_help(stdout, run->job->program);
        break;
    case BENCH_ACTION_LIST_ALGOS:
        bench_listing_print(stdout, &options, run->collective);
        break;
    case BENCH_ACTION_LIST_FAULTS:
        bench_fault_list(stdout);
        break;
    default:
        break;
    }
}

/* The root, the patterns, the slowed rank, the plan, and the weights of alltoallv. */
static void collectives_check(bench_run *run, char *problem)
{
    const bench_job *job = run->job;
    const int nranks = job->group_nranks, least = bench_job_least_nranks(job);
    dist = (bench_dist){.nsteps = 1};
    run->dist = &dist;
    if (bench_dist_parse(options.dist, &dist) != WEIR_OK)
        return;
    if (options.root >= least)
        snprintf(problem, BENCH_PROBLEM_BYTES,
                 "-r %d: there %s %d rank%s%s; give a root from 0 to %d", options.root,
                 least == 1 ? "is" : "are", least, weiri_s(least),
                 job->ngroups > 1 ? " in a group" : "", least - 1);
    else if ((options.pattern || options.plan || run->collective == WEIR_COLL_ALLTOALLV) &&
             !bench_job_is_even(job))
        snprintf(problem, BENCH_PROBLEM_BYTES,
                 "%s %s divides %d ranks into groups of different sizes; patterns, plans "
                 "and alltoallv need equal ones",
                 options.split_from, options.split_name, job->nranks);
    else if (options.pattern && !bench_patterns_count(options.pattern, nranks))
        snprintf(problem, BENCH_PROBLEM_BYTES,
                 "--pattern %s: each of these needs two ranks; start more", options.pattern);
    else if (options.inject_slow_rank > job->nranks)
        snprintf(problem, BENCH_PROBLEM_BYTES,
                 "--inject slow-rank:%d: there %s %d rank%s; give a rank from 0 to %d",
                 options.inject_slow_rank - 1, job->nranks == 1 ? "is" : "are", job->nranks,
                 weiri_s(job->nranks), job->nranks - 1);
    else if (options.plan) /* --plan is refused for alltoallv */
        bench_plan_check(&options, run->collective, run->job, problem);
    else if (run->collective == WEIR_COLL_ALLTOALLV)
        bench_dist_open(&dist, nranks, options.seed, problem);
}

/* The data of a run with --inject slow are right, so that only this marks its results. Collective;
 * agreed. */
static weir_status announce_slow(bench_job *job)
{
    weir_status status = WEIR_OK;
    if (options.batched && options.graph)
        status = bench_job_note(job, WEIR_ERR_INVALID,
                                "--inject slow: graphs are captured before it is known how long "
                                "operations take; leave -G out");
    else if (options.inject_slow_rank)
        bench_warning_add(job, "inject",
                          "--inject slow-rank:%d:%d: operations of weir were made slower on rank "
                          "%d",
                          options.inject_slow_rank - 1, options.inject_slow,
                          options.inject_slow_rank - 1);
    else
        bench_warning_add(job, "inject", "--inject slow:%d: operations of weir were made slower",
                          options.inject_slow);
    return bench_job_agree(job, status, "--inject");
}

static weir_status collectives_open(bench_run *run, bench_report *report, void **state)
{
    bench_job *job = run->job;
    const weir_collective collective = run->collective;
    if (options.asleep) {
        options.mode = BENCH_MODE_LATENCY;
        options.iterations = options.iterations ? options.iterations : ASLEEP_ITERATIONS;
    }
    options.batched = job->gpu && options.mode != BENCH_MODE_LATENCY && options.blocking % 2 == 0;
    weir_status status = options.inject_slow ? announce_slow(job) : WEIR_OK;
    if (status == WEIR_OK)
        status = bench_memory_check(job, &options, collective, &dist);
    if (status != WEIR_OK)
        return status;
    collectives *c = calloc(1, sizeof *c);
    if (!c)
        status = bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for the sweep");
    status = bench_job_agree(job, status, "sweep");
    if (status != WEIR_OK) {
        free(c);
        return status;
    }
    *state = c;
    c->job = job;
    c->report = report;
    status = bench_buffers_open(job, &options, collective, &dist, &c->buffers);
    if (status == WEIR_OK)
        status = bench_candidates_open(job, &options, collective, &c->buffers, &c->candidates);
    return status == WEIR_OK ? bench_sweep_open(run, &c->buffers, &c->candidates, report, &c->sweep)
                             : status;
}

static void collectives_begin(void *state)
{
    bench_report_begin(((collectives *)state)->report);
}

static weir_status collectives_next(void *state, void **point)
{
    bench_trial *trial;
    weir_status status = bench_sweep_next(((collectives *)state)->sweep, &trial);
    *point = trial;
    return status;
}

static void collectives_row(void *state)
{
    bench_sweep_row(((collectives *)state)->sweep);
}

static void collectives_end(void *state)
{
    bench_report_end(((collectives *)state)->report);
}

static void collectives_close(bench_run *run, void *state)
{
    collectives *c = state;
    if (c) {
        bench_sweep_close(c->sweep);
        bench_candidates_close(&c->candidates);
        bench_buffers_close(c->job, &c->buffers);
    }
    free(c);
    bench_dist_close(&dist);
    run->dist = NULL;
}

/* bench_p2p: all patterns of sendrecv. */
static weir_status p2p_parse(weir_collective collective, int argc, char **argv, char *problem)
{
    weir_status status = collectives_parse(collective, argc, argv, problem);
    if (!options.pattern)
        options.pattern = "pingpong,oneway,bothways,shift,bisection";
    return status;
}

#define COLLECTIVES                                                                                \
    .table = &bench_options_table, .options = &options, .inform = collectives_inform,              \
    .check = collectives_check, .open = collectives_open, .begin = collectives_begin,              \
    .next = collectives_next, .point = bench_point_round, .row = collectives_row,                  \
    .end = collectives_end, .close = collectives_close

const bench_workload bench_collectives = {COLLECTIVES, .parse = collectives_parse};
const bench_workload bench_p2p = {COLLECTIVES, .parse = p2p_parse};
