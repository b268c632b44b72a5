/* The data of a trial: see data.h. */
#include "bench/trial/data.h"

#include "bench/gpu/gpu.h"

static void describe_data(bench_trial *trial)
{
    const bench_row *row = trial->row;
    trial->data = (weirv_case){
        .collective = row->collective,
        .dtype = row->dtype,
        .op = row->op,
        .root = row->root < 0 ? 0 : row->root,
        .rank = trial->job->group_rank,
        .nranks = trial->job->group_nranks,
        .count = row->shape.count,
        .in_place = trial->in_place,
        .exact = (trial->row->oracles & BENCH_ORACLE_EXACT) != 0,
        .sources = trial->sources,
    };
}

int bench_trial_has_splits(const bench_trial *trial)
{
    return bench_collective_call(trial->row->collective) == WEIR_COLL_ALLTOALLV;
}

int bench_trial_has_steps(const bench_trial *trial)
{
    return trial->row->collective == WEIR_COLL_ALLTOALLV && trial->splits->dist->nsteps > 1;
}

/* The peers of sendrecv. */
static void aim(bench_trial *trial)
{
    const int rank = trial->job->group_rank, nranks = trial->job->group_nranks;
    weir_call *call = &trial->operation.call;
    if (trial->row->collective != WEIR_COLL_SENDRECV)
        return;
    call->destination = bench_pattern_destination(trial->pattern, rank, nranks);
    call->source = bench_pattern_source(trial->pattern, rank, nranks);
    trial->turns = 0;
}

static void describe_operation(bench_trial *trial)
{
    const weirv_case *data = &trial->data;
    const bench_shape *shape = &trial->row->shape;
    size_t element_bytes = weir_dtype_bytes(data->dtype);
    trial->operation = (bench_operation){.call = WEIR_CALL_INIT, .in_place = data->in_place};
    weir_call *call = &trial->operation.call;
    trial->operation.collective = data->collective;
    call->collective = bench_collective_call(data->collective);
    call->dtype = data->dtype;
    call->op = data->op;
    call->root = data->root;
    aim(trial);
    call->in = trial->layout.in;
    call->out = trial->layout.out;
    call->count = data->count;
    call->recv_count = data->collective == WEIR_COLL_SENDRECV ? data->count : 0;
    call->stream = bench_gpu_stream(trial->job->gpu);
    call->in_bytes = shape->send_elements * element_bytes;
    call->out_bytes = shape->recv_elements * element_bytes;
}

void bench_trial_set_step(bench_trial *trial, int step)
{
    if (!bench_trial_has_splits(trial))
        return;
    trial->splits->step = step;
    bench_splits_point(trial->splits, step, &trial->data, &trial->operation);
}

/* In a ping-pong, the ranks of the pair send in turn; both send in a checked call. */
static void take_turn(bench_trial *trial)
{
    const bench_pattern *pattern = trial->pattern;
    weir_call *call = &trial->operation.call;
    const int sender = trial->turns++ % 2 ? pattern->second : pattern->first;
    const int peer =
        bench_pattern_source(pattern, trial->job->group_rank, trial->job->group_nranks);
    call->destination = trial->job->group_rank == sender ? peer : -1;
    call->source = trial->job->group_rank == sender ? -1 : peer;
}

void bench_trial_next(bench_trial *trial)
{
    bench_cold_next(trial);
    if (trial->pattern && trial->pattern->kind == BENCH_PATTERN_PINGPONG)
        take_turn(trial);
    if (bench_trial_has_steps(trial))
        bench_trial_set_step(trial, bench_splits_after(trial->splits, trial->splits->step, 1));
}

weir_status bench_trial_lay_out(bench_trial *trial)
{
    size_t element_bytes = weir_dtype_bytes(trial->row->dtype);
    const int is_rooted = bench_collective_has_root(trial->row->collective);
    weir_status status = WEIR_OK;
    bench_buffers_place(trial->buffers, &trial->row->shape, element_bytes,
                        (size_t)trial->options->unalign_elements, trial->job->group_rank,
                        trial->in_place, trial->round, &trial->layout);
    trial->operands = &trial->buffers->operands;
    describe_data(trial);
    describe_operation(trial);
    if (bench_trial_has_splits(trial))
        status = is_rooted
                     ? bench_splits_fill_rooted(trial->splits, &trial->data)
                     : bench_splits_fill(trial->splits, trial->row->shape.count, element_bytes);
    bench_trial_set_step(trial, 0);
    bench_cold_place(trial);
    return bench_job_agree(trial->job, status, "counts");
}

weir_status bench_trial_fill(bench_trial *trial, const bench_candidate *candidate)
{
    size_t element_bytes = weir_dtype_bytes(trial->row->dtype);
    bench_job_phase_bytes(trial->job, "new data", trial->row->shape.bytes);
    aim(trial);
    trial->operands = candidate->operands ? candidate->operands : &trial->buffers->operands;
    bench_cold_reset(trial);
    if (trial->in_place)
        weirv_poison(trial->layout.whole, trial->layout.whole_bytes);
    else
        weirv_poison(trial->layout.out, trial->row->shape.recv_elements * element_bytes);
    if (trial->row->collective == WEIR_COLL_ALLTOALLV) /* for all steps */
        weirv_fill_part(&trial->data, trial->layout.in, 0, trial->row->shape.send_elements,
                        trial->job->group_rank);
    else
        weirv_fill_input(&trial->data, trial->layout.in);
    return bench_trial_push(trial);
}

weir_status bench_trial_reset(bench_trial *trial, const bench_candidate *candidate)
{
    /* Each group has its own data, so that it is noticed if one gets another's. */
    enum { APART = 48 };
    trial->data.seed = (*trial->next_seed)++ + ((uint64_t)trial->job->group << APART);
    return bench_trial_fill(trial, candidate);
}

/* ----------------------------------------------- between host memory and operands */

void *bench_trial_result(const bench_trial *trial, bench_candidate *candidate)
{
    return bench_buffers_mirror(trial->buffers, trial->operands, candidate->ops->result(candidate));
}

weir_status bench_trial_push(const bench_trial *trial)
{
    return bench_layout_push(trial->buffers, trial->operands, &trial->layout);
}

weir_status bench_trial_pull(const bench_trial *trial, bench_candidate *candidate)
{
    size_t bytes = trial->row->shape.recv_elements * weir_dtype_bytes(trial->row->dtype);
    weir_status status = bench_layout_pull(trial->buffers, trial->operands, &trial->layout);
    if (status == WEIR_OK && trial->rotation.count) /* the copy that the last operation used */
        status = bench_buffers_pull(trial->buffers, trial->operands,
                                    bench_trial_result(trial, candidate), bytes);
    return status;
}

weir_status bench_trial_wait(const bench_trial *trial, const bench_candidate *candidate)
{
    if (!trial->job->gpu)
        return WEIR_OK;
    weir_status status = bench_gpu_sync(trial->job->gpu);
    weir_status seen = candidate->peer ? WEIR_OK : weir_comm_check(trial->job->comm);
    return seen != WEIR_OK ? seen : status;
}
