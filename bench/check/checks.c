/* The checked runs of a trial: see checks.h. */
#include "bench/check/checks.h"

#include "base/text.h"
#include "bench/job/exchange.h"
#include "bench/trial/data.h"

#include "verify/hash.h"
#include "verify/number.h"
#include "verify/special.h"

#include <stdio.h>
#include <string.h>

/* Up to this size special values are tried too. */
enum { SPECIAL_UP_TO_BYTES = 256 << 10 };

/* Runs the candidate once on new data. Collective; agreed. */
static weir_status run_once(bench_trial *trial, bench_candidate *candidate)
{
    bench_fault fault =
        trial->injects && !candidate->peer ? (bench_fault)trial->options->inject : BENCH_FAULT_NONE;
    weir_status status = bench_trial_reset(trial, candidate);
    if (status == WEIR_OK)
        status = candidate->ops->prepare(candidate, &trial->operation);
    bench_job_barrier(trial->job);
    bench_job_phase(trial->job, "run to be checked", 0);
    if (status == WEIR_OK && !bench_inject_skips_call(fault, &trial->data))
        status = candidate->ops->run(candidate);
    if (status == WEIR_OK)
        status = bench_trial_wait(trial, candidate);
    if (status == WEIR_OK)
        status = bench_inject_trial(trial, candidate, fault, &trial->data,
                                    bench_inject_place(&trial->data));
    return bench_job_agree(trial->job, status, weir_collective_name(trial->row->collective));
}

static void report_failure(const bench_trial *trial, const bench_result *result)
{
    char text[256], which[256];
    weirv_describe(&result->check, text, sizeof text);
    bench_row_describe(trial->row, trial->in_place, result, which, sizeof which);
    bench_job_say(trial->job, "wrong data: %s: %s", which, text);
}

/* Exact data of a reduction is not rounded, so with both oracles floating types also run once on
 * numbers of full precision. */
static weir_status try_full_precision(bench_trial *trial, bench_candidate *candidate,
                                      bench_result *result)
{
    const weirv_case *data = &trial->data;
    int rounds = weirv_is_reduction(data->collective) && weirv_format_of(data->dtype);
    if (!data->exact || !(trial->row->oracles & BENCH_ORACLE_MPI) || !rounds)
        return WEIR_OK;
    trial->data.exact = 0;
    weir_status status = run_once(trial, candidate);
    if (status == WEIR_OK)
        status = bench_compare_output(trial, candidate, result);
    trial->data.exact = 1;
    return status;
}

static int injects_in(const bench_trial *trial, bench_fault_run run)
{
    return bench_fault_planted_in((bench_fault)trial->options->inject) == run;
}

static weir_status run_special(bench_trial *trial, bench_candidate *candidate, bench_result *result)
{
    trial->injects = injects_in(trial, BENCH_RUN_SPECIAL);
    weir_status status = run_once(trial, candidate);
    trial->injects = 0;
    trial->data.stores = bench_rounding_steps(trial, candidate) > 1;
    if (status == WEIR_OK)
        status = bench_compare_output(trial, candidate, result);
    return status;
}

/* Special values: NaN, infinities, signed zeros, subnormal numbers, overflow. A short message is
 * run again until each kind of value was tried. Only weir's own algorithms are tried: MPI and
 * kernels of users promise nothing about them. */
static weir_status try_special(bench_trial *trial, bench_candidate *candidate, bench_result *result)
{
    weirv_case *data = &trial->data;
    if (candidate->divides_last && data->op == WEIR_AVG)
        return WEIR_OK; /* the sum may overflow */
    if (!data->exact || trial->options->fuse || trial->options->wire || candidate->peer ||
        candidate->is_users || !weirv_is_reduction(data->collective) ||
        trial->row->shape.bytes > SPECIAL_UP_TO_BYTES || bench_result_failed(result))
        return WEIR_OK;
    weir_status status = WEIR_OK;
    const int runs = weirv_special_runs(data);
    const uint64_t start = 1 + weirv_mix64(data->seed) % (1 << 20);
    data->exact = 0;
    data->special = 1;
    for (int i = 0; i < runs && status == WEIR_OK && !bench_result_failed(result); i++) {
        data->special_start = start + (uint64_t)i * weirv_send_elements(data);
        status = run_special(trial, candidate, result);
    }
    result->special = bench_result_failed(result) ? BENCH_FAIL : BENCH_PASS;
    data->special_start = 0;
    data->special = 0;
    data->exact = 1;
    return status;
}

/* Describes the candidate in its result. Returns 0 if it is not measured at this size, or cannot
 * make this call. */
static int begin_result(const bench_trial *trial, bench_candidate *candidate, bench_result *result)
{
    const size_t bytes = trial->row->shape.bytes;
    result->candidate = candidate->name;
    result->settings = candidate->settings;
    result->plan_file = candidate->plan_file;
    result->transport = candidate->transport;
    result->peer = candidate->peer;
    result->runs_weir = candidate->runs_weir;
    result->is_starved = candidate->has_threads && candidate->job->starves_peers;
    result->is_users = candidate->is_users;
    if (bytes < candidate->least_bytes || (candidate->most_bytes && bytes > candidate->most_bytes))
        return 0;
    const char *refusal = candidate->ops->refuses(candidate, &trial->operation);
    /* Groups of other sizes, or on other nodes, may be refused. */
    if (trial->job->ngroups > 1 &&
        bench_exchange_fold(trial->job, BENCH_FOLD_MAX, refusal != NULL) > 0 && !refusal)
        refusal = "it cannot make this call in another group";
    if (refusal)
        weiri_text_shown(refusal, result->refusal, sizeof result->refusal);
    return refusal == NULL;
}

/* Says which memory an algorithm needs that weir did not use for a call though it was asked for. */
static void explain_other_algo(const bench_candidate *candidate, bench_result *result)
{
    const bench_job *job = candidate->job;
    const weir_algo_info *info = bench_candidate_info(candidate, candidate->forced);
    const char *needs = "does not serve this call";
    if (strcmp(candidate->forced, "cma") == 0)
        needs = "needs unregistered memory and process_vm_readv";
    else if (info && info->needs_mapped && job->groups[job->group].nnodes == 1)
        needs = "needs registered memory";
    snprintf(result->refusal, sizeof result->refusal, "%.20s %s; %.20s ran", candidate->forced,
             needs, result->algo);
}

/* Runs one candidate and checks it, -c times. */
static weir_status try_candidate(bench_trial *trial, bench_candidate *candidate,
                                 bench_result *result)
{
    int checks = bench_options_verifies(trial->options) ? trial->options->checks : 0;
    if (!begin_result(trial, candidate, result))
        return WEIR_OK;
    result->checked = checks > 0;
    for (int i = 0; i < checks || i == 0; i++) {
        trial->injects =
            i == 0 && !trial->options->inject_timed && injects_in(trial, BENCH_RUN_CHECKED);
        if (bench_trial_has_steps(trial))
            bench_trial_set_step(trial, i % trial->splits->dist->nsteps);
        weir_status status = run_once(trial, candidate);
        trial->injects = 0;
        snprintf(result->algo, sizeof result->algo, "%s", candidate->ops->algo(candidate));
        result->sms =
            candidate->peer && !candidate->runs_weir ? 0 : weir_comm_last_blocks(trial->job->comm);
        /* With different counts, ranks may select different algorithms. */
        if (bench_trial_has_splits(trial) || trial->job->ngroups > 1)
            bench_exchange_broadcast(trial->job, result->algo, sizeof result->algo, 0);
        if (status == WEIR_OK && i < checks)
            status = bench_compare_output(trial, candidate, result);
        if (status == WEIR_OK && i < checks && !bench_result_failed(result))
            status = try_full_precision(trial, candidate, result);
        if (status == WEIR_OK && i == 0 && checks)
            status = try_special(trial, candidate, result);
        if (status != WEIR_OK)
            return status;
    }
    result->ran = !*candidate->forced || strcmp(candidate->forced, result->algo) == 0;
    if (!result->ran && bench_options_names_algos(trial->options) && *result->algo &&
        strcmp(result->algo, "none") != 0)
        explain_other_algo(candidate, result);
    result->sampled = bench_compare_is_sampled(trial->row->shape.bytes);
    if (bench_result_failed(result))
        report_failure(trial, result);
    return WEIR_OK;
}

/* If the algorithm that weir selects is also measured by name, it is not timed twice. If weir's
 * selection is the first candidate, the table shows the named one instead. */
static void choose_primary(bench_trial *trial, bench_result *results)
{
    int own = 0, same = -1, count = trial->row->ncandidates;
    trial->row->primary[trial->in_place] = 0;
    while (own < count && (*trial->candidates[own]->forced || trial->candidates[own]->peer))
        own++;
    for (int i = 0; own < count && i < count && same < 0; i++)
        if (*trial->candidates[i]->forced && results[i].ran &&
            strcmp(results[i].algo, results[own].algo) == 0)
            same = i;
    if (same >= 0 && own == 0)
        trial->row->primary[trial->in_place] = same;
    if (same >= 0 && !bench_result_failed(&results[own]))
        results[own].ran = 0;
}

static weir_status try_determinism(bench_trial *trial, bench_result *results)
{
    weir_status status = WEIR_OK;
    for (int i = 0; i < trial->row->ncandidates && status == WEIR_OK; i++) {
        if (!trial->determinism || !results[i].ran || bench_result_failed(&results[i]))
            continue;
        status = bench_determinism_try(trial, trial->candidates[i], &results[i]);
        if (status == WEIR_OK && bench_result_failed(&results[i]))
            report_failure(trial, &results[i]);
    }
    return status;
}

weir_status bench_checks_first(bench_trial *trial)
{
    bench_result *results = trial->row->results[trial->in_place];
    for (int i = 0; i < trial->row->ncandidates; i++) {
        weir_status status = try_candidate(trial, trial->candidates[i], &results[i]);
        if (status != WEIR_OK)
            return status;
    }
    choose_primary(trial, results);
    return try_determinism(trial, results);
}

weir_status bench_checks_last(bench_trial *trial)
{
    bench_result *results = trial->row->results[trial->in_place];
    int first = 1;
    for (int i = 0; i < trial->row->ncandidates; i++) {
        bench_candidate *candidate = trial->candidates[i];
        weir_status status = WEIR_OK;
        if (!results[i].ran || bench_result_failed(&results[i]))
            continue;
        if (!first || trial->in_place || trial->options->fuse)
            status = results[i].peer ? WEIR_OK : run_once(trial, candidate);
        first = 0;
        if (status == WEIR_OK && !results[i].peer)
            status = bench_compare_output(trial, candidate, &results[i]);
        if (status != WEIR_OK)
            return status;
        if (bench_result_failed(&results[i]))
            report_failure(trial, &results[i]);
    }
    return WEIR_OK;
}

void bench_checks_write_limits(FILE *out, const bench_options *options)
{
    if (!bench_options_verifies(options))
        return;
    if (options->cold)
        fprintf(out, "# Unchecked: timed iterations, because --cold gives each its own buffers "
                     "(checked: the runs before and after)\n");
    else if (options->aggregate > 1)
        fprintf(out,
                "# Unchecked: of the %d operations of a timed iteration (-m) all but the last, and "
                "whether the last does anything; in place all\n",
                options->aggregate);
    else if (options->batched)
        fputs("# Unchecked: of the operations of a timed batch all but the last; in place all\n",
              out);
}
