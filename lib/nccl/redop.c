/*
 * Custom reductions: a sum whose inputs are multiplied by a scalar first. The
 * scaled input is a copy, since the caller's must stay as it is. An operation's
 * value is ncclNumOps and its place in the communicator's list.
 */
#include "nccl/gpu.h"

#include <string.h>

const weiri_nccl_scale *weiri_nccl_scale_of(const weiri_nccl_comm *comm, ncclRedOp_t op)
{
    int place = (int)op - ncclNumOps;
    if (place < 0 || place >= WEIRI_NCCL_CUSTOM_OPS || !comm->scales[place].used)
        return NULL;
    return &comm->scales[place];
}

int weiri_nccl_op_serves(const weiri_nccl_comm *comm, ncclRedOp_t op, ncclDataType_t datatype)
{
    const weiri_nccl_scale *scale = weiri_nccl_scale_of(comm, op);
    return (unsigned)op < ncclNumOps || (scale && scale->datatype == datatype);
}

static ncclResult_t create(weiri_nccl_comm *comm, ncclRedOp_t *op, const weiri_nccl_scale *scale)
{
    int place = 0;
    while (place < WEIRI_NCCL_CUSTOM_OPS && comm->scales[place].used)
        place++;
    if (place == WEIRI_NCCL_CUSTOM_OPS)
        return weiri_nccl_fail(ncclInvalidUsage,
                               "more than %d custom operations of one communicator; destroy some",
                               WEIRI_NCCL_CUSTOM_OPS);
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
