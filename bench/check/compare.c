/* Comparison of outputs with the references, and the explanation of errors: see checks.h. */
#include "bench/check/checks.h"

#include "bench/candidate/quantized.h"
#include "bench/check/fused.h"
#include "bench/check/quantized.h"
#include "bench/check/reference.h"
#include "bench/job/exchange.h"
#include "bench/trial/data.h"

#include <stdlib.h>
#include <string.h>

/* Above this size the MPI reference covers windows; the exact oracle still covers everything. */
enum { SAMPLED_ABOVE_BYTES = 4 << 20 };

int bench_compare_is_sampled(size_t bytes)
{
    return bytes > SAMPLED_ABOVE_BYTES;
}

int bench_rounding_steps(const bench_trial *trial, bench_candidate *candidate)
{
    const weir_algo_info *info = bench_candidate_info(candidate, candidate->ops->algo(candidate));
    const bench_job *job = trial->job;
    if (job->group_nranks == 1 || !info || info->rounding == WEIR_ROUNDING_PER_RANK)
        return job->group_nranks;
    return info->rounding == WEIR_ROUNDING_PER_NODE ? job->groups[job->group].nnodes + 1 : 1;
}

/* Applies each oracle that fits the data. The exact oracle has its own result, so that no element
 * is counted twice. */
static weir_status consult_oracles(bench_trial *trial, bench_candidate *candidate,
                                   weirv_result *found)
{
    const weirv_case *data = &trial->data;
    const void *out = bench_trial_result(trial, candidate);
    weirv_result exact = {0};
    if (trial->options->fuse)
        return bench_fused_check(trial, candidate, out, found);
    if (bench_candidate_is_quantized(candidate)) {
        bench_quantized_check(trial, candidate, out, found);
        return WEIR_OK;
    }
    if (data->special) {
        weirv_check_special(data, out, found);
        return WEIR_OK;
    }
    const int knows = data->exact || !weirv_is_reduction(data->collective);
    weir_status status = WEIR_OK;
    int steps = bench_rounding_steps(trial, candidate);
    if (trial->row->oracles & BENCH_ORACLE_EXACT && knows)
        weirv_check_exact(data, out, &exact);
    if (!(trial->row->oracles & BENCH_ORACLE_MPI))
        *found = exact;
    else
        status = bench_reference_check(trial->job, data, out, steps,
                                       trial->row->oracles & BENCH_ORACLE_EXACT &&
                                           bench_compare_is_sampled(trial->row->shape.bytes),
                                       found);
    if (exact.wrong >= found->wrong) {
        exact.worst_error = found->worst_error;
        *found = exact;
    }
    return status;
}

/* --------------------------------------------------------------- explanation */

enum { FINDINGS_BYTES = 1024, RANKS_SHOWN = 8 };

/* Writes this rank's lines. */
static void find_errors(const bench_trial *trial, bench_candidate *candidate, char *text)
{
    const weirv_case *data = &trial->data;
    const void *out = bench_trial_result(trial, candidate);
    size_t used = 0;
    if (trial->options->fuse || bench_candidate_is_quantized(candidate))
        *text = '\0';
    else if (data->special)
        weirv_explain_special(data, out, text, FINDINGS_BYTES);
    else
        weirv_explain(data, out, data->seed - 1, text, FINDINGS_BYTES);
    used = strlen(text);
    if (candidate->ops->result(candidate) == trial->operation.call.out)
        weirv_explain_input(data, trial->layout.in, text + used, FINDINGS_BYTES - used);
    for (int i = 0; i < trial->layout.nguards; i++) {
        used += strlen(text + used);
        weirv_explain_guard(&trial->layout.guards[i],
                            i == 0 && trial->layout.nguards == 2 ? "the input" : "the output",
                            text + used, FINDINGS_BYTES - used);
    }
}

static void print_findings(const bench_job *job, int rank, char *text)
{
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        bench_job_say(job, "rank %d: %s", rank, line);
    }
}

static void explain_output(const bench_trial *trial, bench_candidate *candidate)
{
    const bench_job *job = trial->job;
    char mine[FINDINGS_BYTES];
    char *all = job->rank == 0 ? malloc((size_t)job->nranks * FINDINGS_BYTES) : NULL;
    find_errors(trial, candidate, mine);
    if (job->rank == 0 && !all)
        bench_exchange_fail(job); /* rank 0 lacks memory, and the other ranks wait for it */
    bench_exchange_gather(job, mine, FINDINGS_BYTES, all);
    int shown = 0, more = 0;
    for (int rank = 0; all && rank < job->nranks; rank++) {
        char *text = all + (size_t)rank * FINDINGS_BYTES;
        if (*text && shown < RANKS_SHOWN)
            print_findings(job, rank, text);
        more += *text && shown >= RANKS_SHOWN;
        shown += *text != '\0';
    }
    if (more)
        bench_job_say(job, "and %d more ranks with wrong data", more);
    free(all);
}

weir_status bench_compare_output(bench_trial *trial, bench_candidate *candidate,
                                 bench_result *result)
{
    weirv_result found = {0}, *check = &result->check;
    weir_status status = WEIR_OK;
    bench_job_phase_bytes(trial->job, "verification",
                          trial->row->shape.bytes * (size_t)trial->job->nranks);
    status = bench_job_agree(trial->job, bench_trial_pull(trial, candidate), "copy of the result");
    if (status != WEIR_OK)
        return status;
    status = consult_oracles(trial, candidate, &found);
    if (bench_candidate_is_quantized(candidate)) {
        const bench_quantized *own = candidate->state;
        result->is_quantized = 1;
        result->errors[0] = own->err_max;
        result->errors[1] = own->err_rms;
    }
    for (int i = 0; i < trial->layout.nguards; i++)
        found.overruns += weirv_guard_check(&trial->layout.guards[i]);
    /* A candidate that puts its result elsewhere may overwrite its input. */
    if (candidate->ops->result(candidate) == trial->operation.call.out)
        found.inputs_changed += weirv_input_changed(&trial->data, trial->layout.in);
    found.first.rank = trial->job->rank; /* not that of the group */
    result->own_wrong += found.wrong + found.overruns + found.inputs_changed;
    if (status == WEIR_OK)
        status = weirv_reduce_result(trial->job->boot, &found);
    if (status == WEIR_OK && (found.wrong || found.overruns || found.inputs_changed))
        explain_output(trial, candidate);
    if (!check->has_first && found.has_first) {
        check->has_first = 1;
        check->first = found.first;
    }
    check->wrong += found.wrong;
    check->overruns += found.overruns;
    check->inputs_changed += found.inputs_changed;
    if (found.worst_error > check->worst_error)
        check->worst_error = found.worst_error;
    return bench_job_agree(trial->job, status, "verification");
}
