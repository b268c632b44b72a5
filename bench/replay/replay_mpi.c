/*
 * MPI as a candidate of bench_replay. Collectives go through the candidate of the other benchmarks
 * (candidate_mpi.c), one for each communicator; what these do not measure is called here.
 */
#include "bench/candidate/candidate.h"
#include "bench/job/mpi_comm.h"
#include "bench/replay/plan.h"

#include <limits.h>
#include <string.h>

/* A communicator, and a job of its ranks for the candidate. */
typedef struct mpi_set {
    bench_job job;
    bench_mpi mpi;
    bench_candidate *candidate; /* NULL: this rank is not in the set */
    int is_open;
} mpi_set;

typedef struct mpi_state {
    mpi_set *sets;
    MPI_Request *requests; /* of an exchange, for each lane */
    int nrequests;
    int *counts; /* splits as MPI takes them, for each lane */
} mpi_state;

static weir_status mpi_make(replay_candidate *self, int i)
{
    const replay_plan *plan = self->plan;
    mpi_set *set = &((mpi_state *)self->state)->sets[i];
    const int member = replay_comm_rank(plan->sets[i], plan->job->rank);
    if (MPI_Comm_split(plan->job->mpi->comm, member < 0, member, &set->mpi.comm) != MPI_SUCCESS)
        return bench_job_note(plan->job, WEIR_ERR_SYSTEM, "MPI_Comm_split failed");
    set->mpi.group = set->mpi.comm;
    set->is_open = 1;
    if (member < 0)
        return WEIR_OK;
    set->job = (bench_job){.program = plan->job->program,
                           .rank = member,
                           .nranks = plan->sets[i]->nranks,
                           .group_rank = member,
                           .group_nranks = plan->sets[i]->nranks,
                           .comm = plan->job->comm,
                           .gpu = plan->job->gpu,
                           .mpi = &set->mpi};
    weir_status status = bench_candidate_mpi_open(&set->job, &set->candidate);
    if (status == WEIR_OK)
        snprintf(self->name, sizeof self->name, "%s", set->candidate->name);
    return status;
}

static int most_calls(const replay_plan *plan)
{
    uint32_t most = 1;
    for (size_t i = 0; i < plan->nworks; i++)
        if (plan->works[i].step->ncalls > most)
            most = plan->works[i].step->ncalls;
    return (int)most;
}

static weir_status mpi_open(replay_candidate *self)
{
    replay_plan *plan = self->plan;
    replay_pool *pool = &plan->pool;
    mpi_state *state = replay_take(pool, 1, sizeof *state);
    weir_status status = WEIR_OK;
    self->state = state;
    if (!plan->job->mpi)
        status = bench_job_note(plan->job, WEIR_ERR_INVALID,
                                "--peer mpi: MPI must have started the ranks; use mpirun -np %d",
                                plan->job->nranks);
    else if (plan->nlanes > 1 && !bench_mpi_has_threads(plan->job->mpi))
        status = bench_job_note(plan->job, WEIR_ERR_UNSUPPORTED,
                                "--peer mpi: calls of the recording were in flight together, and "
                                "this MPI does not work with several threads; leave it out");
    if (state) {
        state->sets = replay_take(pool, (size_t)plan->schedule->nsets, sizeof *state->sets);
        state->nrequests = most_calls(plan);
        state->requests =
            replay_take(pool, (size_t)state->nrequests * REPLAY_LANES_MAX, sizeof *state->requests);
        state->counts = replay_take(pool, 4 * (size_t)plan->job->nranks * REPLAY_LANES_MAX,
                                    sizeof *state->counts);
    }
    if (status == WEIR_OK && pool->has_failed)
        status = replay_no_memory();
    status = bench_job_agree(plan->job, status, "mpi");
    for (int i = 0; i < plan->schedule->nsets && status == WEIR_OK; i++)
        status = bench_job_agree(plan->job, mpi_make(self, i), "mpi");
    return status;
}

static void mpi_close(replay_candidate *self)
{
    mpi_state *state = self->state;
    for (int i = 0; state && state->sets && i < self->plan->schedule->nsets; i++) {
        mpi_set *set = &state->sets[i];
        if (set->candidate)
            set->candidate->ops->close(set->candidate);
        if (set->is_open)
            MPI_Comm_free(&set->mpi.comm);
    }
    self->state = NULL;
}

/* The call as the candidate takes it. */
static bench_operation mpi_operation(const replay_candidate *self, const replay_work *work)
{
    const replay_plan *plan = self->plan;
    int *counts = ((mpi_state *)self->state)->counts + 4 * (size_t)plan->job->nranks * work->lane;
    weir_splits splits; /* MPI takes its counts from mpi_counts */
    bench_operation operation = {.call = replay_work_call(plan, work, &splits),
                                 .in_place = work->in_place,
                                 .mpi_counts = counts};
    operation.collective = operation.call.collective;
    operation.call.splits = NULL;
    for (int i = 0; work->splits && i < 4 * replay_work_set(plan, work)->nranks; i++)
        counts[i] = (int)work->splits[i];
    return operation;
}

static const char *mpi_refuses(replay_candidate *self, const replay_work *work)
{
    mpi_state *state = self->state;
    bench_candidate *candidate = state->sets[work->step->set].candidate;
    const bench_operation operation = mpi_operation(self, work);
    if (self->plan->job->gpu)
        return "MPI works on memory of the process here";
    if (work->in_elements > INT_MAX || work->out_elements > INT_MAX)
        return "MPI counts elements in an int";
    return work->step->kind == REPLAY_BARRIER ? NULL
                                              : candidate->ops->refuses(candidate, &operation);
}

static int mpi_exchange(replay_candidate *self, const replay_work *work, MPI_Comm comm)
{
    const mpi_state *state = self->state;
    MPI_Request *requests = state->requests + (size_t)state->nrequests * work->lane;
    int error = MPI_SUCCESS, n = 0;
    for (uint32_t i = 0; i < work->step->ncalls && error == MPI_SUCCESS; i++) {
        const replay_message m = replay_message_of(self->plan, work, i);
        error = m.is_send
                    ? MPI_Isend(m.data, (int)m.bytes, MPI_BYTE, m.peer, 0, comm, &requests[n++])
                    : MPI_Irecv(m.data, (int)m.bytes, MPI_BYTE, m.peer, 0, comm, &requests[n++]);
    }
    for (int i = 0; i < n; i++) {
        const int ended = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        error = error == MPI_SUCCESS ? ended : error;
    }
    return error;
}

static weir_status mpi_run(replay_candidate *self, const replay_work *work)
{
    mpi_state *state = self->state;
    mpi_set *set = &state->sets[work->step->set];
    MPI_Comm comm = set->mpi.comm;
    const MPI_Datatype byte = MPI_BYTE;
    const int bytes = (int)(work->call->count * weir_dtype_bytes((weir_dtype)work->dtype));
    const int root = work->call->peer;
    int error = MPI_SUCCESS;
    if (work->step->kind == REPLAY_BARRIER) {
        error = MPI_Barrier(comm);
    } else if (work->step->kind == REPLAY_GATHER) {
        error = MPI_Gather(work->in, bytes, byte, work->out, bytes, byte, root, comm);
    } else if (work->step->kind == REPLAY_SCATTER) {
        error = MPI_Scatter(work->in, bytes, byte, work->out, bytes, byte, root, comm);
    } else if (work->step->kind == REPLAY_EXCHANGE) {
        error = mpi_exchange(self, work, comm);
    } else {
        const bench_operation operation = mpi_operation(self, work);
        weir_status status = set->candidate->ops->prepare(set->candidate, &operation);
        status = status == WEIR_OK ? set->candidate->ops->run(set->candidate) : status;
        if (status != WEIR_OK)
            return bench_job_note(self->plan->job, status, "%s", set->job.note.text);
        return status;
    }
    if (error == MPI_SUCCESS)
        return WEIR_OK;
    return bench_job_note(self->plan->job, WEIR_ERR_SYSTEM, "MPI's %s failed",
                          replay_step_name(work->step->kind));
}

/* A reduce_scatter in place leaves its result at the start of the buffer. */
static char *mpi_result(const replay_work *work)
{
    return work->in_place && work->step->kind == REPLAY_REDUCE_SCATTER ? work->in : work->out;
}

const replay_candidate_ops replay_mpi = {mpi_open, mpi_refuses, mpi_run, mpi_result, mpi_close};
