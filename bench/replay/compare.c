/* What is compared of the recorded and of the replayed times of calls: see measure.h. */
#include "bench/replay/measure.h"

#include "bench/job/exchange.h"

#include <math.h>

/* ---------------------------------------------------------------- the recorded times */

/* A recorded step of this rank; of an exchange, from its first call to the end of its last one. */
static void recorded_times(const replay_work *work, double *start_us, double *end_us)
{
    *start_us = *end_us = NAN;
    for (uint32_t i = 0; i < (work->step->ncalls ? work->step->ncalls : 1); i++) {
        const replay_call *call = &work->call[i];
        const double start = isnan(call->start_s) ? 0 : call->start_s * 1e6;
        const double end = start + (double)call->duration_s * 1e6;
        if (i == 0 || start < *start_us)
            *start_us = start;
        if (i == 0 || isnan(end) || end > *end_us)
            *end_us = end;
    }
}

static int has_starts(const replay_trace *trace)
{
    for (int rank = 0; rank < trace->nranks; rank++)
        for (size_t i = 0; i < trace->ranks[rank].count; i++)
            if (isnan(trace->ranks[rank].calls[i].start_s))
                return 0;
    return 1;
}

/* ------------------------------------------------------------------------- statistics */

double replay_later_us(const replay_plan *plan, const double *starts_us, const double *ends_us)
{
    double sum = 0;
    for (size_t i = 0; i < plan->nworks; i++)
        if (!plan->works[i].is_first)
            sum += ends_us[i] - starts_us[i];
    return sum;
}

weir_status replay_split_waits(const replay_measurement *m, const double *starts_us,
                               const double *ends_us, replay_waits *waits)
{
    const replay_plan *plan = m->plan;
    const int instances = (int)plan->schedule->instances;
    double sums[2] = {0, 0};
    double *last = replay_take(&m->plan->pool, (size_t)instances + 1, sizeof *last);
    weir_status status = bench_job_agree(m->job, last ? WEIR_OK : replay_no_memory(), "times");
    if (status != WEIR_OK)
        return status;
    for (int i = 0; i < instances; i++)
        last[i] = -INFINITY;
    for (size_t i = 0; i < plan->nworks; i++)
        last[plan->works[i].step->instance] = starts_us[i];
    bench_exchange_reduce(m->job, BENCH_FOLD_MAX, last, instances, last);
    bench_exchange_broadcast(m->job, last, (size_t)instances * sizeof *last, 0);
    for (size_t i = 0; i < plan->nworks; i++) {
        const double begin = last[plan->works[i].step->instance];
        const double met = begin < ends_us[i] ? begin : ends_us[i];
        sums[0] += met - starts_us[i];
        sums[1] += ends_us[i] - met;
    }
    bench_exchange_reduce(m->job, BENCH_FOLD_SUM, sums, 2, sums);
    waits->wait_us = sums[0] / m->job->nranks;
    waits->transfer_us = sums[1] / m->job->nranks;
    return WEIR_OK;
}

weir_status replay_collect_recorded(replay_measurement *m)
{
    const replay_plan *plan = m->plan;
    double sums[2] = {0, 0};
    double *starts = replay_take(&m->plan->pool, 2 * plan->nworks + 1, sizeof *starts);
    double *ends = starts ? starts + plan->nworks : NULL;
    weir_status status = bench_job_agree(m->job, starts ? WEIR_OK : replay_no_memory(), "times");
    for (size_t i = 0; i < plan->nworks && status == WEIR_OK; i++) {
        recorded_times(&plan->works[i], &starts[i], &ends[i]);
        sums[0] += ends[i] - starts[i];
    }
    m->recorded = (replay_recorded){.waits = {NAN, NAN}};
    if (status == WEIR_OK) {
        sums[1] = replay_later_us(plan, starts, ends);
        bench_exchange_reduce(m->job, BENCH_FOLD_SUM, sums, 2, sums);
        m->recorded.calls_us = sums[0] / m->job->nranks;
        m->recorded.later_us = sums[1] / m->job->nranks;
        int is_known = !isnan(sums[0]) && has_starts(plan->trace);
        bench_exchange_broadcast(m->job, &is_known, sizeof is_known, 0);
        if (is_known)
            status = replay_split_waits(m, starts, ends, &m->recorded.waits);
    }
    return status;
}
