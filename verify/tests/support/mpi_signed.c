/*
 * A stand-in, preloaded under a benchmark: MPI that compares unsigned integers as signed in MPI_MAX
 * and MPI_MIN, as MPICH 4.0.2 does.
 */
#define _GNU_SOURCE
#include <mpi.h>

static MPI_Datatype signed_type(MPI_Datatype type, MPI_Op op)
{
    if (op != MPI_MAX && op != MPI_MIN)
        return type;
    if (type == MPI_UINT8_T)
        return MPI_INT8_T;
    if (type == MPI_UINT32_T)
        return MPI_INT32_T;
    return type == MPI_UINT64_T ? MPI_INT64_T : type;
}

int MPI_Reduce_local(const void *in, void *result, int count, MPI_Datatype type, MPI_Op op)
{
    return PMPI_Reduce_local(in, result, count, signed_type(type, op), op);
}

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    return PMPI_Allreduce(in, out, count, signed_type(type, op), op, comm);
}
