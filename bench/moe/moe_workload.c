/* The workload of bench_moe: numbers of tokens, each with all candidates: see bench/workload.h. */
#include "bench/workload.h"

#include "base/words.h"
#include "bench/job/exchange.h"
#include "bench/moe/moe_measure.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct moe_run {
    bench_job *job;
    bench_report *report;
    moe_output output;
    size_t memory_bytes; /* of the group with most tokens */
    int rows;            /* of the options' tokens, that have begun */
    int planted;         /* faults that have changed something on this rank */
    moe_point point;
} moe_run;

static bench_moe_options options;

static weir_status moe_parse(weir_collective collective, int argc, char **argv, char *problem)
{
    (void)collective;
    return bench_moe_options_parse(argc, argv, &options, problem);
}

static void moe_inform(const bench_run *run)
{
    (void)run;
    if (options.common.action != BENCH_ACTION_LIST_FAULTS)
        bench_moe_options_help(stdout);
    else
        for (int i = 1; i < BENCH_MOE_FAULTS; i++)
            printf("%s\n", bench_moe_fault_name((bench_moe_fault)i));
}

/* The least number that all groups divide evenly among their ranks. */
static long common_multiple(const bench_job *job)
{
    long multiple = 1;
    for (int i = 0; i < job->ngroups; i++) {
        const long step = multiple;
        while (multiple % job->groups[i].nranks)
            multiple += step;
    }
    return multiple;
}

static void moe_check(bench_run *run, char *problem)
{
    const bench_job *job = run->job;
    const int nranks = job->nranks;
    int odd = 0; /* the first group that cannot divide the experts */
    while (odd < job->ngroups && options.experts % job->groups[odd].nranks == 0)
        odd++;
    if (odd < job->ngroups && job->ngroups == 1)
        snprintf(problem, BENCH_PROBLEM_BYTES,
                 "--experts %d: they cannot be divided evenly among %d ranks; use a multiple of %d",
                 options.experts, nranks, nranks);
    else if (odd < job->ngroups)
        snprintf(problem, BENCH_PROBLEM_BYTES,
                 "--experts %d: they cannot be divided evenly among the %d ranks of group %d (%s "
                 "%s); use a multiple of %ld",
                 options.experts, job->groups[odd].nranks, job->groups[odd].color,
                 options.common.split_from, options.common.split_name, common_multiple(job));
    else if (options.common.inject_slow_rank > nranks)
        snprintf(problem, BENCH_PROBLEM_BYTES,
                 "--inject slow-rank:%d: there %s %d rank%s; give a rank from 0 to %d",
                 options.common.inject_slow_rank - 1, nranks == 1 ? "is" : "are", nranks,
                 weiri_s(nranks), nranks - 1);
    else if (options.fault && options.fault_rank >= nranks)
        snprintf(problem, BENCH_PROBLEM_BYTES,
                 "--inject %s:%d: there %s %d rank%s; give a rank from 0 to %d",
                 bench_moe_fault_name((bench_moe_fault)options.fault), options.fault_rank,
                 nranks == 1 ? "is" : "are", nranks, weiri_s(nranks), nranks - 1);
}

/* --------------------------------------------------------------------- set-up */

/* Notes why the options need another backend, if they do. */
static weir_status check_backend(bench_job *job)
{
    const moe_candidate_ops *const peer = bench_moe_peer(&options);
    if (job->gpu && peer && !peer->store)
        return bench_job_note(job, WEIR_ERR_INVALID,
                              "--peer %s: it is measured on the host only; add --backend host",
                              peer->name);
    if (job->gpu && options.common.inject_slow)
        return bench_job_note(job, WEIR_ERR_INVALID,
                              "--inject slow: bench_moe makes calls slower on the host only; add "
                              "--backend host");
    if (job->gpu && bench_job_most_nodes(job) > 1 && options.common.graph)
        return bench_job_note(job, WEIR_ERR_INVALID,
                              "--cudagraph 1: with GPUs of several nodes the host takes part in "
                              "calls, which a graph cannot repeat; leave it out");
    if (!job->gpu && options.common.graph)
        return bench_job_note(job, WEIR_ERR_INVALID,
                              "--cudagraph 1: only calls on GPU memory can be captured in a graph; "
                              "leave it out, or use GPUs (--backend cuda)");
    return WEIR_OK;
}

/* Checks that the peer can be measured. Collective; agreed. */
static weir_status check_peer(const bench_moe_trial *trial)
{
    const moe_candidate_ops *peer = bench_moe_peer(trial->options);
    return peer && peer->check ? bench_job_agree(trial->job, peer->check(trial), peer->name)
                               : WEIR_OK;
}

/* Finds the memory of the group with most tokens, and whether the peer can be measured. Collective;
 * agreed. */
static weir_status try_largest(bench_job *job, size_t *bytes)
{
    bench_moe_trial trial;
    moe_candidate candidate;
    int most = options.tokens[0];
    for (int i = 1; i < options.ntokens; i++)
        most = options.tokens[i] > most ? options.tokens[i] : most;
    weir_status status = bench_moe_trial_open(&trial, job, &options, most);
    if (status != WEIR_OK)
        return status;
    status = check_peer(&trial);
    if (status == WEIR_OK)
        status = bench_moe_candidate_open(&candidate, &bench_moe_weir, &trial);
    if (status == WEIR_OK) {
        *bytes =
            (size_t)bench_exchange_fold(job, BENCH_FOLD_MAX, (double)candidate.info.memory_bytes);
        bench_moe_candidate_close(&candidate);
    }
    bench_moe_trial_close(&trial);
    return status;
}

static weir_status moe_open(bench_run *run, bench_report *report, void **state)
{
    bench_job *job = run->job;
    weir_status status = bench_job_agree(job, check_backend(job), "backend");
    if (status != WEIR_OK)
        return status;
    moe_run *moe = calloc(1, sizeof *moe);
    if (!moe)
        status = bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for results");
    status = bench_job_agree(job, status, "results");
    if (status != WEIR_OK) {
        free(moe);
        return status;
    }
    *state = moe;
    moe->job = job;
    moe->report = report;
    if (options.common.inject_slow)
        bench_warning_add(job, "inject", "--inject slow: operations of weir were made slower");
    return try_largest(job, &moe->memory_bytes);
}

/* --------------------------------------------------------------------- points */

static void moe_begin(void *state)
{
    moe_run *moe = state;
    bench_moe_output_begin(&moe->output, moe->report, &options, moe->memory_bytes);
}

/* A fault of --inject that changed nothing in any row is an error. Collective; agreed. */
static weir_status check_planted(const moe_run *moe)
{
    weir_status status = WEIR_OK;
    if (!options.fault)
        return WEIR_OK;
    if (bench_exchange_fold(moe->job, BENCH_FOLD_SUM, moe->planted) == 0)
        status = bench_job_note(moe->job, WEIR_ERR_INVALID,
                                "--inject %s changed nothing: no rank has tokens that it could "
                                "change; give more --tokens or another --routing",
                                bench_moe_fault_name((bench_moe_fault)options.fault));
    return bench_job_agree(moe->job, status, "injection");
}

static weir_status moe_next(void *state, void **point)
{
    moe_run *moe = state;
    *point = NULL;
    weir_status status = moe->job->rank == 0 ? bench_report_check(moe->report) : WEIR_OK;
    status = bench_job_agree(moe->job, status, "output");
    if (status != WEIR_OK)
        return status;
    if (moe->rows == options.ntokens)
        return check_planted(moe);
    *point = &moe->point;
    return bench_moe_trial_open(&moe->point.trial, moe->job, &options, options.tokens[moe->rows++]);
}

static void moe_row(void *state)
{
    moe_run *moe = state;
    if (moe->job->rank == 0)
        bench_moe_output_point(&moe->output, &moe->point);
    for (int i = 0; i < moe->point.count; i++)
        moe->report->failed += (long)moe->point.results[i].wrong;
    moe->planted += moe->point.trial.planted;
    bench_moe_point_clear(&moe->point);
    bench_moe_trial_close(&moe->point.trial);
}

static void moe_end(void *state)
{
    bench_moe_output_end(&((moe_run *)state)->output);
}

static void moe_close(bench_run *run, void *state)
{
    moe_run *moe = state;
    (void)run;
    if (moe) {
        bench_moe_point_clear(&moe->point);
        bench_moe_trial_close(&moe->point.trial);
    }
    free(moe);
}

const bench_workload bench_moe = {
    .table = &bench_moe_options_table,
    .options = &options.common,
    .parse = moe_parse,
    .inform = moe_inform,
    .check = moe_check,
    .open = moe_open,
    .begin = moe_begin,
    .next = moe_next,
    .point = bench_moe_measure,
    .row = moe_row,
    .end = moe_end,
    .close = moe_close,
};
