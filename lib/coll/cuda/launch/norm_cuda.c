/*
 * weir_allreduce_norm on the GPUs of a node: selects the protocol, and launches the kernel
 * (cuda/allreduce_norm.cu) for as many rows at a time as fit into its slots.
 */
#include "coll/norm.h"

#include "base/error.h"
#include "coll/cuda/launch/run_cuda.h"
#include "coll/cuda/norm.h"
#include "comm/called.h"
#include "comm/gpu/gpu_cuda.h"

#include <string.h>

/* Calls up to so many bytes travel as packets: where weir_allreduce changes to lines. */
static size_t norm_packet_bytes(int nranks)
{
    return nranks <= 2 ? 96 << 10 : nranks <= 4 ? 48 << 10 : 20 << 10;
}

static weir_status norm_protocol(const weiri_coll *coll, const weir_norm_args *args,
                                 weiri_norm_protocol *protocol)
{
    const size_t bytes = args->rows * args->hidden * weir_dtype_bytes(args->dtype);
    const int nvlink = coll->comm->gpu->nvlink;
    *protocol =
        !nvlink || bytes <= norm_packet_bytes(coll->nranks) ? WEIRI_NORM_PACKET : WEIRI_NORM_LINES;
    if (!args->algo_name || !strcmp(args->algo_name, "auto"))
        return WEIR_OK;
    if (!strcmp(args->algo_name, "packet"))
        *protocol = WEIRI_NORM_PACKET;
    else if (strcmp(args->algo_name, "lines") != 0)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_allreduce_norm: no algorithm '%s'; known are packet, lines and "
                          "auto",
                          args->algo_name);
    else if (!nvlink)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "weir_allreduce_norm: 'lines' needs NVLink between all GPUs; use packet");
    else
        *protocol = WEIRI_NORM_LINES;
    return WEIR_OK;
}

/* The launch of rows [first, first + rows). */
static weiri_norm_launch norm_launch_of(const weiri_coll *coll, const weir_norm_args *args,
                                        size_t first, size_t rows)
{
    const size_t at = first * args->hidden, element = weir_dtype_bytes(args->dtype);
    const size_t out_at = args->output == WEIR_NORM_PLAIN ? at * element : at;
    const size_t scales_at = args->output == WEIR_NORM_FP8_TOKEN   ? first
                             : args->output == WEIR_NORM_FP8_BLOCK ? at / WEIR_NORM_BLOCK
                                                                   : 0;
    return (weiri_norm_launch){.view = weiri_cuda_of(coll->comm)->view,
                               .in = (const char *)args->in + at * element,
                               .weight = args->weight,
                               .bias = args->bias,
                               .residual =
                                   args->residual ? (char *)args->residual + at * element : NULL,
                               .out = (char *)args->out + out_at,
                               .scales = args->scales ? args->scales + scales_at : NULL,
                               .rows = (uint32_t)rows,
                               .hidden = (uint32_t)args->hidden,
                               .epsilon = args->epsilon,
                               .kind = (int32_t)args->kind,
                               .output = (int32_t)args->output};
}

/* With WEIR_CHECK, a call counts as an allreduce of its elements. */
static weir_status norm_compare(weir_comm *comm, const weir_norm_args *args)
{
    weir_call call = WEIR_CALL_INIT;
    call.dtype = args->dtype;
    call.count = args->rows * args->hidden;
    if (comm->checks) {
        weiri_called_enter(comm, &call, call.count);
        if (weiri_called_compare_next(comm) != WEIR_OK)
            return weiri_comm_give_up(comm, WEIR_ERR_MISMATCH);
    }
    weiri_comm_enter(comm, WEIR_COLL_ALLREDUCE);
    return WEIR_OK;
}

weir_status weiri_norm_gpu_run(weiri_coll *coll, const weir_norm_args *args)
{
    weir_comm *comm = coll->comm;
    const size_t row_bytes = args->hidden * weir_dtype_bytes(args->dtype);
    weiri_norm_protocol protocol;
    int before;
    weir_status status = norm_protocol(coll, args, &protocol);
    if (status == WEIR_OK)
        status = norm_compare(comm, args);
    if (status == WEIR_OK)
        status = weiri_cuda_ready(comm, args->stream, &before);
    if (status != WEIR_OK)
        return status;
    const size_t most = weiri_gpu_norm_rows(protocol, row_bytes, coll->nranks);
    const int processors = weiri_cuda_of(comm)->processors;
    const int blocks = weiri_budget_limit(comm->budget, 2 * processors);
    comm->last_blocks = 0;
    for (size_t row = 0; row < args->rows && status == WEIR_OK; row += most) {
        const size_t rows = args->rows - row < most ? args->rows - row : most;
        weiri_norm_launch launch = norm_launch_of(coll, args, row, rows);
        const weiri_gpu_shape shape = weiri_gpu_norm_shape(&launch, processors, blocks);
        status = weiri_cuda_launch(comm, args->stream, "weir_allreduce_norm",
                                   weiri_gpu_norm_kernel(protocol, args->dtype, coll->nranks),
                                   shape, &launch);
    }
    weiri_cuda_leave(comm, before);
    return status;
}
