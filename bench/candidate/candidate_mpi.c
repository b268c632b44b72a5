/*
 * MPI as a candidate: its collective of the same meaning, on the same buffers. Where meanings
 * differ, MPI is called as a user of MPI would:
 *
 *   avg         MPI has none: a sum, then each rank divides its result
 *   broadcast   out of place, root copies in to out; the other ranks receive in out
 *   in place    MPI_IN_PLACE; reduce_scatter then leaves its result at the start of the
 *               buffer instead of the rank's block
 *
 * Types that MPI's standard lacks (half, bfloat16, fp8) move as bytes and are refused for
 * reductions, although some MPIs reduce half or bfloat16 as extensions. Types and operations that
 * MPI_Reduce_local combines wrongly in a trial are refused (sums of 8-bit integers, which Open
 * MPI's AVX operations saturate; max and min of unsigned integers in MPICH 4.0.2), and so are calls
 * that crash in a known version. verify/ maps types differently for its reference, which must be
 * right where this candidate is only fast.
 */
#include "bench/candidate/candidate.h"

#include "base/contract.h"
#include "bench/job/mpi_comm.h"
#include "bench/sizes/shape.h"
#include "verify/reference.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct mpi_state {
    MPI_Datatype type;
    MPI_Op op;
    int count;     /* in elements of type */
    char note[96]; /* the reason why a call is refused */
} mpi_state;

/* Types that MPI does not have move as integers of the same width. */
static MPI_Datatype carrier_type(weir_dtype dtype)
{
    MPI_Datatype type = weirv_mpi_type(dtype);
    if (type != MPI_DATATYPE_NULL)
        return type;
    return weir_dtype_bytes(dtype) == 2 ? MPI_UINT16_T : MPI_UINT8_T;
}

/* What a type and operation that MPI_Reduce_local computes wrongly suffer from. */
static const char *mpi_describe_fault(mpi_state *state, const weir_call *call)
{
    const char *name = weir_dtype_name(call->dtype), *op = weir_op_name(call->op);
    if ((call->op == WEIR_SUM || call->op == WEIR_AVG) && weir_dtype_bytes(call->dtype) == 1)
        return "this MPI saturates sums of 8-bit integers";
    if (weirv_mpi_fault_concerns(WEIRV_MPI_UNSIGNED_ORDER, call->collective, call->dtype, call->op))
        snprintf(state->note, sizeof state->note, "this MPI compares %s as signed in %s", name, op);
    else
        snprintf(state->note, sizeof state->note, "this MPI computes %s of %s wrongly", op, name);
    return state->note;
}

static const char *mpi_refuses(bench_candidate *self, const bench_operation *operation)
{
    mpi_state *state = self->state;
    const weir_call *call = &operation->call;
    if (self->job->gpu)
        return "MPI works on memory of the process here";
    const int reduces = bench_collective_has_op(call->collective);
    if (reduces && weirv_mpi_type(call->dtype) == MPI_DATATYPE_NULL) {
        snprintf(state->note, sizeof state->note, "MPI's standard has no type %s to reduce",
                 weir_dtype_name(call->dtype));
        return state->note;
    }
    const char *fault;
    if (call->collective == WEIR_COLL_REDUCE && operation->in_place && call->root != 0 &&
        weirv_mpi_has(WEIRV_MPI_REDUCE_IN_PLACE, &fault))
        return fault;
    if (bench_collective_has_op(call->collective) &&
        !weirv_mpi_combines(call->dtype, call->op, weirv_mpi_type(call->dtype)))
        return mpi_describe_fault(state, call);
    if (call->count > INT_MAX / (size_t)self->job->group_nranks)
        return "MPI counts elements in an int";
    return NULL;
}

static weir_status mpi_prepare(bench_candidate *self, const bench_operation *operation)
{
    mpi_state *state = self->state;
    self->operation = operation;
    state->type = carrier_type(operation->call.dtype);
    state->op = weirv_mpi_op(operation->call.op);
    state->count = (int)operation->call.count;
    return WEIR_OK;
}

/* In place: the whole buffer, which starts at rank 0's block. */
static void *mpi_in_place_buffer(const weir_call *call)
{
    return call->collective == WEIR_COLL_REDUCE_SCATTER ? (void *)(uintptr_t)call->in : call->out;
}

static void *mpi_result_place(const bench_candidate *self)
{
    const weir_call *call = &self->operation->call;
    return self->operation->in_place ? mpi_in_place_buffer(call) : call->out;
}

static const void *mpi_result(bench_candidate *self)
{
    return mpi_result_place(self);
}

#define SCALE(type)                                                                                \
    for (size_t i = 0; i < count; i++)                                                             \
        ((type *)values)[i] = (type)(((type *)values)[i] / (type)nranks);

static void mpi_divide(void *values, size_t count, weir_dtype dtype, int nranks)
{
    switch (dtype) {
    case WEIR_INT8:
        for (size_t i = 0; i < count; i++)
            ((int8_t *)values)[i] = (int8_t)(((int8_t *)values)[i] / nranks);
        break;
    case WEIR_UINT8:
        SCALE(uint8_t)
        break;
    case WEIR_INT32:
        SCALE(int32_t)
        break;
    case WEIR_UINT32:
        SCALE(uint32_t)
        break;
    case WEIR_INT64:
        SCALE(int64_t)
        break;
    case WEIR_UINT64:
        SCALE(uint64_t)
        break;
    case WEIR_FLOAT:
        SCALE(float)
        break;
    case WEIR_DOUBLE:
        SCALE(double)
        break;
    default:
        break;
    }
}

static int mpi_run_broadcast(bench_candidate *self)
{
    const weir_call *c = &self->operation->call;
    const mpi_state *state = self->state;
    if (!self->operation->in_place && self->job->group_rank == c->root)
        memcpy(c->out, c->in, c->count * weir_dtype_bytes(c->dtype));
    return MPI_Bcast(c->out, state->count, state->type, c->root, self->job->mpi->group);
}

static int mpi_run_reduce(bench_candidate *self)
{
    const weir_call *c = &self->operation->call;
    const mpi_state *state = self->state;
    const void *in =
        self->operation->in_place && self->job->group_rank == c->root ? MPI_IN_PLACE : c->in;
    return MPI_Reduce(in, c->out, state->count, state->type, state->op, c->root,
                      self->job->mpi->group);
}

static int mpi_run_alltoallv(bench_candidate *self)
{
    const weir_call *c = &self->operation->call;
    const mpi_state *state = self->state;
    const int *counts = self->operation->mpi_counts;
    int n = self->job->group_nranks;
    return MPI_Alltoallv(c->in, counts, counts + n, state->type, c->out, counts + 2 * n,
                         counts + 3 * n, state->type, self->job->mpi->group);
}

/* In place is the root's own block, both of gather and of scatter. */
static int mpi_run_rooted(bench_candidate *self)
{
    const weir_call *c = &self->operation->call;
    const mpi_state *state = self->state;
    const int is_kept = self->operation->in_place && self->job->group_rank == c->root;
    MPI_Comm mpi = self->job->mpi->group;
    if ((int)self->operation->collective == WEIRI_COLL_GATHER)
        return MPI_Gather(is_kept ? MPI_IN_PLACE : c->in, state->count, state->type, c->out,
                          state->count, state->type, c->root, mpi);
    return MPI_Scatter(c->in, state->count, state->type, is_kept ? MPI_IN_PLACE : c->out,
                       state->count, state->type, c->root, mpi);
}

static int mpi_run_sendrecv(bench_candidate *self)
{
    enum { TAG = 7 };
    const weir_call *c = &self->operation->call;
    const mpi_state *state = self->state;
    const int to = c->destination < 0 ? MPI_PROC_NULL : c->destination;
    const int from = c->source < 0 ? MPI_PROC_NULL : c->source;
    return MPI_Sendrecv(c->in, state->count, state->type, to, TAG, c->out, state->count,
                        state->type, from, TAG, self->job->mpi->group, MPI_STATUS_IGNORE);
}

static int mpi_run_call(bench_candidate *self)
{
    const weir_call *c = &self->operation->call;
    const mpi_state *state = self->state;
    MPI_Comm mpi = self->job->mpi->group;
    const void *in = self->operation->in_place ? MPI_IN_PLACE : c->in;
    switch ((int)self->operation->collective) {
    case WEIR_COLL_ALLREDUCE:
        return MPI_Allreduce(in, c->out, state->count, state->type, state->op, mpi);
    case WEIR_COLL_REDUCE_SCATTER:
        return MPI_Reduce_scatter_block(in, mpi_result_place(self), state->count, state->type,
                                        state->op, mpi);
    case WEIR_COLL_ALLGATHER:
        return MPI_Allgather(in, state->count, state->type, c->out, state->count, state->type, mpi);
    case WEIR_COLL_BROADCAST:
        return mpi_run_broadcast(self);
    case WEIR_COLL_REDUCE:
        return mpi_run_reduce(self);
    case WEIR_COLL_ALLTOALL:
        return MPI_Alltoall(in, state->count, state->type, c->out, state->count, state->type, mpi);
    case WEIR_COLL_ALLTOALLV:
        return mpi_run_alltoallv(self);
    case WEIR_COLL_SENDRECV:
        return mpi_run_sendrecv(self);
    case WEIRI_COLL_GATHER:
    case WEIRI_COLL_SCATTER:
        return mpi_run_rooted(self);
    default:
        break;
    }
    return MPI_ERR_ARG;
}

static weir_status mpi_run(bench_candidate *self)
{
    const weir_call *c = &self->operation->call;
    int error = mpi_run_call(self);
    if (error != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING];
        int length = 0;
        MPI_Error_string(error, text, &length);
        return bench_job_note(self->job, WEIR_ERR_SYSTEM, "MPI's %s failed: %s",
                              weir_collective_name(self->operation->collective), text);
    }
    int has_result = c->collective != WEIR_COLL_REDUCE || self->job->group_rank == c->root;
    if (c->op == WEIR_AVG && bench_collective_has_op(c->collective) && has_result)
        mpi_divide(mpi_result_place(self), c->count, c->dtype, self->job->group_nranks);
    return WEIR_OK;
}

static const char *mpi_algo(bench_candidate *self)
{
    (void)self;
    return "";
}

static const bench_candidate_ops mpi_ops = {mpi_refuses, mpi_prepare, mpi_run,
                                            mpi_result,  mpi_algo,    bench_candidate_free};

/* "mpi:openmpi-4.1.4", from the first line of the library's version. */
static void mpi_name_library(char *name, size_t bytes)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "", number[32] = "";
    const char *word = "mpi";
    int length = 0;
    MPI_Get_library_version(version, &length);
    if (sscanf(version, "Open MPI v%31[0-9.]", number) == 1)
        word = "openmpi";
    else if (sscanf(version, "MPICH Version: %31[0-9.]", number) == 1)
        word = "mpich";
    else if (sscanf(version, "Intel(R) MPI Library %31[0-9.]", number) == 1)
        word = "intelmpi";
    snprintf(name, bytes, "mpi:%s%s%s", word, number[0] ? "-" : "", number);
}

weir_status bench_candidate_mpi_open(bench_job *job, bench_candidate **candidate)
{
    bench_candidate *self = NULL;
    weir_status status = bench_candidate_create(job, &mpi_ops, sizeof(mpi_state), &self);
    if (status != WEIR_OK)
        return status;
    MPI_Comm_set_errhandler(job->mpi->group, MPI_ERRORS_RETURN);
    mpi_name_library(self->name, sizeof self->name);
    self->peer = 1;
    *candidate = self;
    return WEIR_OK;
}
