/*
 * Custom reductions: a sum whose inputs are first multiplied by a scalar. The scaled input is a
 * copy, because the caller's must not change. The value of an operation is ncclNumOps plus its
 * index in the communicator's list.
 */
#include "nccl/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_SCALES = 8 };

const weiri_nccl_scale *weiri_nccl_scale_of(const weiri_nccl_comm *comm, ncclRedOp_t op)
{
    const unsigned index = (unsigned)op - ncclNumOps;
    if (index >= (unsigned)comm->nscales || !comm->scales[index].used)
        return NULL;
    return &comm->scales[index];
}

static ncclResult_t redop_grow(weiri_nccl_comm *comm)
{
    const int count = comm->nscales ? 2 * comm->nscales : FIRST_SCALES;
    weiri_nccl_scale *longer = realloc(comm->scales, (size_t)count * sizeof *longer);
    if (!longer)
        return weiri_nccl_fail(ncclSystemError, "no memory for a custom operation");
    memset(longer + comm->nscales, 0, (size_t)(count - comm->nscales) * sizeof *longer);
    comm->scales = longer;
    comm->nscales = count;
    return ncclSuccess;
}

static ncclResult_t redop_create(weiri_nccl_comm *comm, ncclRedOp_t *op,
                                 const weiri_nccl_scale *scale)
{
    int index = 0;
    while (index < comm->nscales && comm->scales[index].used)
        index++;
    ncclResult_t result = index < comm->nscales ? ncclSuccess : redop_grow(comm);
    if (result != ncclSuccess)
        return result;
    comm->scales[index] = *scale;
    *op = (ncclRedOp_t)(ncclNumOps + index);
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
        return weiri_nccl_not_entered();
    weiri_nccl_scale scale = {
        .used = 1, .datatype = datatype, .residence = residence, .there = scalar};
    if (residence == ncclScalarHostImmediate)
        memcpy(scale.scalar, scalar, weir_dtype_bytes((weir_dtype)datatype));
    ncclResult_t result = redop_create(own, op, &scale);
    weiri_nccl_leave(own);
    return result;
}
WEIRI_NCCL_ALIAS(RedOpCreatePreMulSum);

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    weiri_nccl_comm *own = weiri_nccl_enter(comm);
    if (!own)
        return weiri_nccl_not_entered();
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
