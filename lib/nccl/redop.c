/*
 * Custom reductions: a sum whose inputs are multiplied by a scalar first. The
 * scaled input is a copy, since the caller's must stay as it is. An operation's
 * value is ncclNumOps and its place in the communicator's list.
 */
#include "nccl/gpu.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_SCALES = 8 };

const weiri_nccl_scale *weiri_nccl_scale_of(const weiri_nccl_comm *comm, ncclRedOp_t op)
{
    const unsigned place = (unsigned)op - ncclNumOps;
    if (place >= (unsigned)comm->nscales || !comm->scales[place].used)
        return NULL;
    return &comm->scales[place];
}

static ncclResult_t grow(weiri_nccl_comm *comm)
{
    const int more = comm->nscales ? 2 * comm->nscales : FIRST_SCALES;
    weiri_nccl_scale *longer = realloc(comm->scales, (size_t)more * sizeof *longer);
    if (!longer)
        return weiri_nccl_fail(ncclSystemError, "no memory for a custom operation");
    memset(longer + comm->nscales, 0, (size_t)(more - comm->nscales) * sizeof *longer);
    comm->scales = longer;
    comm->nscales = more;
    return ncclSuccess;
}

static ncclResult_t create(weiri_nccl_comm *comm, ncclRedOp_t *op, const weiri_nccl_scale *scale)
{
    int place = 0;
    while (place < comm->nscales && comm->scales[place].used)
        place++;
    ncclResult_t result = place < comm->nscales ? ncclSuccess : grow(comm);
    if (result != ncclSuccess)
        return result;
    comm->scales[place] = *scale;
    *op = (ncclRedOp_t)(ncclNumOps + place);
    return ncclSuccess;
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm)
{
    if (!op || !scalar || (unsigned)datatype >= ncclNumTypes ||
        (residence != ncclScalarDevice && residence != ncclScalarHostImmediate))
        return weiri_nccl_fail(ncclInvalidArgument, "ncclRedOpCreatePreMulSum: op and scalar are "
                                                    "required, a known type and a residence");
    weiri_nccl_comm *own = weiri_nccl_enter(comm);
    if (!own)
        return ncclInvalidArgument;
    weiri_nccl_scale scale = {
        .used = 1, .datatype = datatype, .residence = residence, .there = scalar};
    if (residence == ncclScalarHostImmediate)
        memcpy(scale.scalar, scalar, weir_dtype_bytes((weir_dtype)datatype));
    ncclResult_t result = create(own, op, &scale);
    weiri_nccl_leave(own);
    return result;
}
WEIRI_NCCL_ALIAS(RedOpCreatePreMulSum);

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    weiri_nccl_comm *own = weiri_nccl_enter(comm);
    if (!own)
        return ncclInvalidArgument;
    ncclResult_t result = ncclSuccess;
    if (weiri_nccl_scale_of(own, op))
        own->scales[(int)op - ncclNumOps].used = 0;
    else
        result = weiri_nccl_fail(ncclInvalidArgument,
                                 "ncclRedOpDestroy: operation %d is not one of this communicator's",
                                 (int)op);
    weiri_nccl_leave(own);
    return result;
}
WEIRI_NCCL_ALIAS(RedOpDestroy);
