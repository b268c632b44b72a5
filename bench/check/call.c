/* One more call with a candidate, on data that were filled before: see checks.h. */
#include "bench/check/checks.h"

#include "bench/trial/data.h"

#include <time.h>

weir_status bench_determinism_call(bench_trial *trial, bench_candidate *candidate,
                                   weir_status status, int late_rank, int is_planted)
{
    if (status == WEIR_OK)
        status = candidate->ops->prepare(candidate, &trial->operation);
    bench_job_barrier(trial->job);
    const struct timespec late = {.tv_nsec = 100000};
    if (late_rank == trial->job->rank)
        nanosleep(&late, NULL);
    if (status == WEIR_OK)
        status = candidate->ops->run(candidate);
    if (status == WEIR_OK)
        status = bench_trial_wait(trial, candidate);
    if (status == WEIR_OK && is_planted && !candidate->peer)
        status = bench_inject_trial(trial, candidate, (bench_fault)trial->options->inject,
                                    &trial->data, bench_inject_place(&trial->data));
    if (status == WEIR_OK)
        status = bench_trial_pull(trial, candidate);
    return bench_job_agree(trial->job, status, weir_collective_name(trial->row->collective));
}
