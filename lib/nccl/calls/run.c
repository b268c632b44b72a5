/*
 * Running a collective: on GPUs in the order of the communicator's calls, and on a copy of the
 * input if that is scaled or would be overwritten.
 */
#include "nccl/gpu/gpu.h"
#include "nccl/gpu/nvtx.h"
#include "nccl/calls/scale.h"
#include "nccl/vendor/vendor.h"

#include "base/contract.h"
#include "base/error.h"
#include "base/float_env.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

const char *weiri_nccl_function_of(const weiri_nccl_call *call)
{
    if (weiri_nccl_is_p2p(call))
        return weiri_nccl_sends(call) ? "ncclSend" : "ncclRecv";
    return weiri_contract_of((int)call->call.collective)->nccl_function;
}

/* The elements of a call's input. */
static size_t copy_elements(const weiri_nccl_comm *comm, const weir_call *call)
{
    const int has_blocks = weiri_contract_of((int)call->collective)->in_has_blocks;
    return has_blocks ? call->count * (size_t)comm->nranks : call->count;
}

/* Copies the call's input, and multiplies it if scale is not NULL. Release with copy_free. */
static weir_status copy_create(const weiri_nccl_comm *comm, const weir_call *call,
                               const weiri_nccl_scale *scale, void **made)
{
    size_t count = copy_elements(comm, call), width = weir_dtype_bytes(call->dtype);
    size_t bytes = count * width;
    if (comm->device >= 0)
        return weiri_nccl_gpu_copy_of(comm, scale, call->in, bytes, call->stream, made);
    void *copy = malloc(bytes + 1);
    if (!copy)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a copy of %zu elements", count);
    memcpy(copy, call->in, bytes); /* neither the input nor the scalar need be aligned */
    if (scale) {
        uint64_t scalar = 0;
        const weiri_float_env environment = weiri_float_begin();
        memcpy(&scalar, scale->residence == ncclScalarDevice ? scale->there : scale->scalar, width);
        weiri_nccl_scale_span(copy, copy, &scalar, (int)call->dtype, 0, 1, count);
        weiri_float_end(environment);
    }
    *made = copy;
    return WEIR_OK;
}

static void copy_free(const weiri_nccl_comm *comm, const weir_call *call, void *copy)
{
    if (comm->device >= 0)
        weiri_nccl_gpu_drop(copy, call->stream);
    else
        free(copy);
}

/* Runs the call on a copy of its input. */
static weir_status run_copied(weiri_nccl_comm *comm, const weiri_nccl_call *call)
{
    void *copy = NULL;
    weir_call copied = call->call;
    if (!copied.count)
        return WEIR_OK;
    weir_status status = copy_create(comm, &copied, call->scale.used ? &call->scale : NULL, &copy);
    if (status != WEIR_OK)
        return status;
    copied.in = copy;
    status = weir_run(comm->comm, &copied);
    copy_free(comm, &copied, copy);
    return status;
}

/* Whether received blocks would overwrite blocks that have not been sent yet. */
static int is_in_place_alltoall(const weir_call *call)
{
    return call->collective == WEIR_COLL_ALLTOALL && call->in == call->out;
}

ncclResult_t weiri_nccl_run(weiri_nccl_comm *comm, const weiri_nccl_call *call)
{
    const weir_call *own = &call->call;
    const int on_gpu = comm->device >= 0;
    weir_status status = WEIR_OK;
    if (comm->vendor)
        return weiri_nccl_vendor_run(comm, call);
    if (on_gpu) {
        weiri_nccl_nvtx_push(weiri_nccl_function_of(call),
                             own->count * weir_dtype_bytes(own->dtype));
        status = weiri_nccl_gpu_order(comm, own->stream);
    }
    if (status == WEIR_OK && call->event)
        status = weiri_nccl_gpu_record(comm, call->event, own->stream);
    if (status == WEIR_OK)
        status = call->scale.used || is_in_place_alltoall(own) ? run_copied(comm, call)
                                                               : weir_run(comm->comm, own);
    if (status == WEIR_OK && on_gpu)
        status = weiri_nccl_gpu_ordered(comm, own->stream);
    if (on_gpu)
        weiri_nccl_nvtx_pop();
    if (status == WEIR_OK && weiri_log_enabled(WEIRI_LOG_INFO))
        weiri_log(WEIRI_LOG_INFO, "%s, rank %d of %d: %zu x %s by %s", weiri_nccl_function_of(call),
                  comm->rank, comm->nranks, own->count, weir_dtype_name(own->dtype),
                  weir_comm_last_algo(comm->comm));
    return weiri_nccl_result_of(comm, status);
}
