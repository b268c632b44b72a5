/* Layout, checks and their order. */
#include "bench/measure/trial.h"

#include "bench/check/determinism.h"

#include "verify/number.h"

#include <stdio.h>
#include <string.h>

/* Above it the MPI reference covers windows, because the exact oracle covers all. */
enum { SAMPLED_ABOVE_BYTES = 4 << 20 };
/* Up to it special values are tried too. */
enum { SPECIAL_UP_TO_BYTES = 256 << 10 };

static void describe_data(bench_trial *trial)
{
    const bench_row *row = trial->row;
    trial->data = (weirv_case){
        .collective = row->collective,
        .dtype = row->dtype,
        .op = row->op,
        .root = row->root < 0 ? 0 : row->root,
        .rank = trial->job->rank,
        .nranks = trial->job->nranks,
        .count = row->shape.count,
        .in_place = trial->in_place,
        .exact = (trial->row->oracles & BENCH_ORACLE_EXACT) != 0,
    };
}

static int takes_steps(const bench_trial *trial)
{
    return trial->row->collective == WEIR_COLL_ALLTOALLV && trial->splits->dist->nsteps > 1;
}

static void describe_operation(bench_trial *trial)
{
    const weirv_case *data = &trial->data;
    const bench_shape *shape = &trial->row->shape;
    size_t element_bytes = weir_dtype_bytes(data->dtype);
    const int rank = trial->job->rank, nranks = trial->job->nranks;
    trial->operation = (bench_operation){.call = WEIR_CALL_INIT, .in_place = data->in_place};
    weir_call *call = &trial->operation.call;
    call->collective = data->collective;
    call->dtype = data->dtype;
    call->op = data->op;
    call->root = data->root;
    call->destination = (rank + 1) % nranks; /* sendrecv: around a ring */
    call->source = (rank + nranks - 1) % nranks;
    call->in = trial->layout.in;
    call->out = trial->layout.out;
    call->count = data->count;
    call->recv_count = data->collective == WEIR_COLL_SENDRECV ? data->count : 0;
    call->stream = bench_gpu_stream(trial->job->gpu);
    call->in_bytes = shape->send_elements * element_bytes;
    call->out_bytes = shape->recv_elements * element_bytes;
}

void bench_trial_take_step(bench_trial *trial, int step)
{
    if (trial->row->collective != WEIR_COLL_ALLTOALLV)
        return;
    trial->splits->step = step;
    bench_splits_point(trial->splits, step, &trial->data, &trial->operation);
}

void bench_trial_next(bench_trial *trial)
{
    bench_cold_next(trial);
    if (takes_steps(trial))
        bench_trial_take_step(trial, bench_splits_after(trial->splits, trial->splits->step, 1));
}

static weir_status lay_out(bench_trial *trial)
{
    size_t element_bytes = weir_dtype_bytes(trial->row->dtype);
    int has_splits = trial->row->collective == WEIR_COLL_ALLTOALLV;
    weir_status status = WEIR_OK;
    bench_buffers_place(trial->buffers, &trial->row->shape, element_bytes,
                        (size_t)trial->options->unalign_elements, trial->job->rank,
                        trial->in_place, trial->visit, &trial->layout);
    trial->home = &trial->buffers->home;
    describe_data(trial);
    describe_operation(trial);
    if (has_splits)
        status = bench_splits_fill(trial->splits, trial->row->shape.count, element_bytes);
    bench_trial_take_step(trial, 0);
    bench_cold_place(trial);
    return bench_job_agree(trial->job, status, "counts");
}

weir_status bench_trial_fill(bench_trial *trial, const bench_candidate *contender)
{
    size_t element_bytes = weir_dtype_bytes(trial->row->dtype);
    bench_job_phase_bytes(trial->job, "new data", trial->row->shape.bytes);
    trial->home = contender->home ? contender->home : &trial->buffers->home;
    bench_cold_home(trial);
    if (trial->in_place)
        weirv_poison(trial->layout.whole, trial->layout.whole_bytes);
    else
        weirv_poison(trial->layout.out, trial->row->shape.recv_elements * element_bytes);
    if (trial->row->collective == WEIR_COLL_ALLTOALLV) /* for all steps */
        weirv_fill_part(&trial->data, trial->layout.in, 0, trial->row->shape.send_elements,
                        trial->job->rank);
    else
        weirv_fill_input(&trial->data, trial->layout.in);
    return bench_trial_push(trial);
}

weir_status bench_trial_reset(bench_trial *trial, const bench_candidate *contender)
{
    trial->data.seed = (*trial->next_seed)++;
    return bench_trial_fill(trial, contender);
}

/* How often an 8- or 16-bit value is rounded at most. What is not in weir's table, a peer or the
 * user's algorithm, may round as often as there are ranks. */
static int rounding_steps(const bench_trial *trial, bench_candidate *contender)
{
    const weir_algo_info *info = bench_candidate_info(contender, contender->ops->algo(contender));
    if (trial->job->nranks == 1 || !info || info->rounding == WEIR_ROUNDING_PER_RANK)
        return trial->job->nranks;
    return info->rounding == WEIR_ROUNDING_PER_NODE ? trial->job->nnodes + 1 : 1;
}

/* Each oracle that applies to the data: the exact one has a result of its own,
 * so that no element is counted twice. */
static int consult_oracles(bench_trial *trial, bench_candidate *contender, weirv_result *found)
{
    const weirv_case *data = &trial->data;
    const void *out = bench_trial_result(trial, contender);
    weirv_result exact = {0};
    if (data->special) {
        weirv_check_special(data, out, found);
        return MPI_SUCCESS;
    }
    int knows = data->exact || !weirv_is_reduction(data->collective);
    int error = MPI_SUCCESS, steps = rounding_steps(trial, contender);
    if (trial->row->oracles & BENCH_ORACLE_EXACT && knows)
        weirv_check_exact(data, out, &exact);
    else
        knows = 0;
    if (!(trial->row->oracles & BENCH_ORACLE_MPI))
        *found = exact;
    else if (trial->row->oracles & BENCH_ORACLE_EXACT &&
             trial->row->shape.bytes > SAMPLED_ABOVE_BYTES)
        error = weirv_check_sampled(trial->job->mpi, data, out, steps, found);
    else
        error = weirv_check(trial->job->mpi, data, out, steps, found);
    if (exact.wrong >= found->wrong) {
        exact.worst_error = found->worst_error;
        *found = exact;
    }
    return error;
}

weir_status bench_trial_compare(bench_trial *trial, bench_candidate *contender,
                                weirv_result *check)
{
    weirv_result found = {0};
    weir_status status = WEIR_OK;
    bench_job_phase_bytes(trial->job, "verification",
                          trial->row->shape.bytes * (size_t)trial->job->nranks);
    status = bench_job_agree(trial->job, bench_trial_pull(trial, contender), "copy of the result");
    if (status != WEIR_OK)
        return status;
    int error = consult_oracles(trial, contender, &found);
    for (int i = 0; i < trial->layout.nguards; i++)
        found.overruns += weirv_guard_check(&trial->layout.guards[i]);
    /* A contender with its own place for results overwrites other inputs too. */
    if (contender->ops->result(contender) == trial->operation.call.out)
        found.inputs_changed += weirv_input_changed(&trial->data, trial->layout.in);
    if (error == MPI_SUCCESS)
        error = weirv_reduce_result(trial->job->mpi, &found);
    if (error != MPI_SUCCESS)
        status = bench_job_note(trial->job, WEIR_ERR_SYSTEM, "MPI error %d", error);
    else if (found.wrong || found.overruns || found.inputs_changed)
        bench_trial_explain(trial, contender);
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

/* A run on new data. */
static weir_status run_once(bench_trial *trial, bench_candidate *contender)
{
    bench_fault fault = trial->injects && !contender->peer ? (bench_fault)trial->options->inject
                                                           : BENCH_FAULT_NONE;
    weir_status status = bench_trial_reset(trial, contender);
    if (status == WEIR_OK)
        status = contender->ops->prepare(contender, &trial->operation);
    bench_job_barrier(trial->job);
    bench_job_phase(trial->job, "run to be checked", 0);
    if (status == WEIR_OK && !bench_inject_stays_away(fault, &trial->data))
        status = contender->ops->run(contender);
    if (status == WEIR_OK)
        status = bench_trial_wait(trial, contender);
    if (status == WEIR_OK)
        status = bench_trial_inject(trial, contender, fault, &trial->data,
                                    bench_inject_place(&trial->data));
    return bench_job_agree(trial->job, status, weir_collective_name(trial->row->collective));
}

static void tell_failure(const bench_trial *trial, const bench_result *result)
{
    char text[256], which[256];
    weirv_describe(&result->check, text, sizeof text);
    bench_row_describe(trial->row, trial->in_place, result, which, sizeof which);
    bench_job_say(trial->job, "wrong data: %s: %s", which, text);
}

/* Data of a reduction that are exact show nothing of roundings: with both
 * oracles floats are also run once on numbers of full precision. */
static weir_status try_full_precision(bench_trial *trial, bench_candidate *contender,
                                      bench_result *result)
{
    const weirv_case *data = &trial->data;
    int rounds = weirv_is_reduction(data->collective) && weirv_format_of(data->dtype);
    if (!data->exact || !(trial->row->oracles & BENCH_ORACLE_MPI) || !rounds)
        return WEIR_OK;
    trial->data.exact = 0;
    weir_status status = run_once(trial, contender);
    if (status == WEIR_OK)
        status = bench_trial_compare(trial, contender, &result->check);
    trial->data.exact = 1;
    return status;
}

static int injects_in(const bench_trial *trial, bench_fault_run run)
{
    return bench_fault_planted_in((bench_fault)trial->options->inject) == run;
}

/* NaN, infinities, signed zeros, subnormal numbers, overflow: of weir alone, since
 * MPI promises nothing about them, and the user's kernels nothing either. */
static weir_status try_special(bench_trial *trial, bench_candidate *contender,
                               bench_result *result)
{
    weirv_case *data = &trial->data;
    if (contender->divides_last && data->op == WEIR_AVG)
        return WEIR_OK; /* the sum may overflow */
    if (!data->exact || contender->peer || contender->is_users ||
        !weirv_is_reduction(data->collective) ||
        trial->row->shape.bytes > SPECIAL_UP_TO_BYTES || bench_result_failed(result))
        return WEIR_OK;
    data->exact = 0;
    data->special = 1;
    trial->injects = injects_in(trial, BENCH_RUN_SPECIAL);
    weir_status status = run_once(trial, contender);
    trial->injects = 0;
    data->stores = rounding_steps(trial, contender) > 1;
    if (status == WEIR_OK)
        status = bench_trial_compare(trial, contender, &result->check);
    result->special = bench_result_failed(result) ? BENCH_FAIL : BENCH_PASS;
    data->special = 0;
    data->exact = 1;
    return status;
}

/* Runs one contender and checks it, -c times. */
static weir_status try_contender(bench_trial *trial, bench_candidate *contender,
                                 bench_result *result)
{
    int checks = bench_options_verifies(trial->options) ? trial->options->checks : 0;
    result->contender = contender->name;
    result->transport = contender->transport;
    result->peer = contender->peer;
    result->is_users = contender->is_users;
    if (trial->row->shape.bytes < contender->least_bytes ||
        (contender->most_bytes && trial->row->shape.bytes > contender->most_bytes))
        return WEIR_OK;
    const char *refusal = contender->ops->refuses(contender, &trial->operation);
    if (refusal) {
        snprintf(result->refusal, sizeof result->refusal, "%s", refusal);
        return WEIR_OK;
    }
    result->checked = checks > 0;
    for (int i = 0; i < checks || i == 0; i++) {
        trial->injects = i == 0 && !trial->options->inject_timed &&
                         injects_in(trial, BENCH_RUN_CHECKED);
        if (takes_steps(trial))
            bench_trial_take_step(trial, i % trial->splits->dist->nsteps);
        weir_status status = run_once(trial, contender);
        trial->injects = 0;
        snprintf(result->algo, sizeof result->algo, "%s", contender->ops->algo(contender));
        if (trial->row->collective == WEIR_COLL_ALLTOALLV) /* ranks may choose differently */
            MPI_Bcast(result->algo, sizeof result->algo, MPI_CHAR, 0, trial->job->mpi);
        if (status == WEIR_OK && i < checks)
            status = bench_trial_compare(trial, contender, &result->check);
        if (status == WEIR_OK && i < checks && !bench_result_failed(result))
            status = try_full_precision(trial, contender, result);
        if (status == WEIR_OK && i == 0 && checks)
            status = try_special(trial, contender, result);
        if (status != WEIR_OK)
            return status;
    }
    result->ran = !*contender->forced || strcmp(contender->forced, result->algo) == 0;
    result->sampled = trial->row->shape.bytes > SAMPLED_ABOVE_BYTES;
    if (bench_result_failed(result))
        tell_failure(trial, result);
    return WEIR_OK;
}

/* What weir chooses itself need not be timed twice where that algorithm is measured by its
 * name, too. If its own choice is the first contender, the table shows that other one. */
static void choose_primary(bench_trial *trial, bench_result *results)
{
    int own = 0, same = -1, count = trial->row->ncontenders;
    trial->row->primary[trial->in_place] = 0;
    while (own < count && (*trial->contenders[own]->forced || trial->contenders[own]->peer))
        own++;
    for (int i = 0; own < count && i < count && same < 0; i++)
        if (*trial->contenders[i]->forced && results[i].ran &&
            strcmp(results[i].algo, results[own].algo) == 0)
            same = i;
    if (same >= 0 && own == 0)
        trial->row->primary[trial->in_place] = same;
    if (same >= 0 && !bench_result_failed(&results[own]))
        results[own].ran = 0;
}

/* After the timed loops. The first contender ran last: out of place its last
 * timed result is still there; the others run once more. */
static weir_status check_again(bench_trial *trial, bench_result *results)
{
    int first = 1;
    for (int i = 0; i < trial->row->ncontenders; i++) {
        bench_candidate *contender = trial->contenders[i];
        weir_status status = WEIR_OK;
        if (!results[i].ran || bench_result_failed(&results[i]))
            continue;
        if (!first || trial->in_place)
            status = results[i].peer ? WEIR_OK : run_once(trial, contender);
        first = 0;
        if (status == WEIR_OK && !results[i].peer)
            status = bench_trial_compare(trial, contender, &results[i].check);
        if (status != WEIR_OK)
            return status;
        if (bench_result_failed(&results[i]))
            tell_failure(trial, &results[i]);
    }
    return WEIR_OK;
}

static weir_status try_determinism(bench_trial *trial, bench_result *results)
{
    weir_status status = WEIR_OK;
    for (int i = 0; i < trial->row->ncontenders && status == WEIR_OK; i++) {
        if (!trial->determinism || !results[i].ran || bench_result_failed(&results[i]))
            continue;
        status = bench_determinism_try(trial, trial->contenders[i], &results[i]);
        if (status == WEIR_OK && bench_result_failed(&results[i]))
            tell_failure(trial, &results[i]);
    }
    return status;
}

/* Adds the time since then to what verification cost. */
static void count_verification(bench_trial *trial, double since_s)
{
    if (bench_options_verifies(trial->options))
        trial->row->cost[trial->in_place].verification_s += MPI_Wtime() - since_s;
}

/* Another visit for --until. */
static weir_status visit_again(bench_trial *trial)
{
    double began_s = MPI_Wtime();
    trial->visit++;
    weir_status status = lay_out(trial);
    count_verification(trial, began_s);
    return status == WEIR_OK ? bench_trial_time(trial) : status;
}

static weir_status finish(bench_trial *trial)
{
    weir_status status = bench_series_more(trial->job, trial->series);
    while (status == WEIR_OK && trial->series->more_visits) {
        status = visit_again(trial);
        if (status == WEIR_OK && trial->series->more_visits == 0)
            status = bench_series_more(trial->job, trial->series);
    }
    if (status == WEIR_OK)
        status = bench_trial_collect(trial);
    double began_s = MPI_Wtime();
    if (status == WEIR_OK && bench_options_verifies(trial->options))
        status = check_again(trial, trial->row->results[trial->in_place]);
    count_verification(trial, began_s);
    return status;
}

/* The checks of the first visit: who takes part, and who does so rightly. */
static weir_status check_all(bench_trial *trial, bench_result *results)
{
    for (int i = 0; i < trial->row->ncontenders; i++) {
        weir_status status = try_contender(trial, trial->contenders[i], &results[i]);
        if (status != WEIR_OK)
            return status;
    }
    choose_primary(trial, results);
    return try_determinism(trial, results);
}

weir_status bench_trial_visit(bench_trial *trial)
{
    double began_s = MPI_Wtime();
    weir_status status = lay_out(trial);
    if (status == WEIR_OK && trial->visit == 0)
        status = check_all(trial, trial->row->results[trial->in_place]);
    count_verification(trial, began_s);
    if (status == WEIR_OK)
        status = bench_trial_time(trial);
    if (status == WEIR_OK && trial->visit == bench_options_visits(trial->options) - 1)
        status = finish(trial);
    return status;
}
