/* A trial's data on their way between the process's memory and where the contender works. */
#include "bench/measure/trial.h"

void *bench_trial_result(const bench_trial *trial, bench_candidate *contender)
{
    return bench_buffers_mirror(trial->buffers, trial->home, contender->ops->result(contender));
}

weir_status bench_trial_push(const bench_trial *trial)
{
    return bench_layout_push(trial->buffers, trial->home, &trial->layout);
}

weir_status bench_trial_pull(const bench_trial *trial, bench_candidate *contender)
{
    size_t bytes = trial->row->shape.recv_elements * weir_dtype_bytes(trial->row->dtype);
    weir_status status = bench_layout_pull(trial->buffers, trial->home, &trial->layout);
    if (status == WEIR_OK && trial->rotation.count) /* the copy that was used last */
        status = bench_buffers_pull(trial->buffers, trial->home,
                                    bench_trial_result(trial, contender), bytes);
    return status;
}

weir_status bench_trial_wait(const bench_trial *trial, const bench_candidate *contender)
{
    if (!trial->job->gpu)
        return WEIR_OK;
    weir_status status = bench_gpu_sync(trial->job->gpu);
    weir_status seen = contender->peer ? WEIR_OK : weir_comm_check(trial->job->comm);
    return seen != WEIR_OK ? seen : status;
}

weir_status bench_trial_inject(bench_trial *trial, bench_candidate *contender, bench_fault fault,
                               const weirv_case *c, size_t at)
{
    if (fault == BENCH_FAULT_NONE)
        return WEIR_OK;
    weir_status status = bench_trial_pull(trial, contender);
    if (status != WEIR_OK)
        return status;
    void *out = bench_buffers_mirror(trial->buffers, trial->home, trial->operation.call.out);
    trial->planted += bench_inject(fault, c, &trial->layout, out, at);
    return bench_trial_push(trial);
}
