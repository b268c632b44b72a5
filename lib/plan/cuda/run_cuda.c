/*
 * Plans on GPUs, the host side of a call: finds out which of the caller's buffers can be used as
 * they are, completes the context's arguments with the call's, and launches one kernel. Copies from
 * and to staging buffers and the division of an average go into the same stream, so calls can be
 * captured in graphs once their context exists.
 */
#include "plan/cuda/device.h"

#include "base/error.h"
#include "coll/cuda/launch/run_cuda.h"
#include "comm/gpu/gpu_cuda.h"

#include <stdlib.h>

/* ------------------------------------------------------------------- buffers */

uint64_t weiri_device_staging_bytes(const weiri_plan_context *context, int which)
{
    const weiri_plan_layout *layout = &context->layout;
    if (!context->in_place)
        return which ? layout->out_bytes : layout->in_bytes;
    if (which)
        return 0;
    return layout->in_bytes > layout->out_bytes ? layout->in_bytes : layout->out_bytes;
}

/* Describes the caller's memory for peers; PLAIN if they cannot address it. */
static weir_status describe_buffer(weir_comm *comm, const void *pointer, uint64_t bytes,
                                   weiri_gpu_desc *described)
{
    const weiri_desc desc = weiri_region_describe(comm, pointer, bytes);
    *described = WEIRI_GPU_UNMAPPED;
    if (!desc.generation)
        return weiri_cuda_check_buffer(comm, pointer, bytes);
    if (comm->regions[desc.region].symmetric || weiri_region_known(comm, desc))
        *described = weiri_cuda_desc(desc);
    return WEIR_OK;
}

weir_status weiri_device_check_buffer(weir_executor *executor, const weiri_plan_context *context,
                                      int which, const char *pointer, weiri_gpu_desc *desc,
                                      int *can)
{
    *can = 0;
    *desc = WEIRI_GPU_UNMAPPED;
    const uint64_t bytes = weiri_device_staging_bytes(context, which);
    if (!pointer && bytes)
        return WEIR_OK;
    *can = 1;
    if (!bytes)
        return WEIR_OK;
    weir_status status = describe_buffer(executor->comm, pointer, bytes, desc);
    *can = !context->reached[which] || *desc != WEIRI_GPU_UNMAPPED;
    return status;
}

const char *weiri_device_requested(const weiri_placement *placement, int which)
{
    if (placement->one_region)
        return which ? NULL : placement->region;
    return which ? placement->out : placement->in;
}

static int is_captured(weir_stream stream)
{
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing((cudaStream_t)stream, &capture) == cudaSuccess &&
           capture != cudaStreamCaptureStatusNone;
}

/* Allocates a staging buffer for a buffer that peers do not reach. */
static weir_status allocate_staging(weir_executor *executor, const weiri_plan_context *context,
                                    int which, weir_stream stream)
{
    weiri_device_context *own = context->own;
    weiri_staging *made = &own->staging[which];
    if (context->reached[which]) {
        weir_comm_abort(executor->comm); /* peers would wait for this rank */
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s: peers access rank %d's %s, which they have not mapped: pass memory "
                          "from weir_mem_alloc or weir_mem_register, and call weir_comm_barrier "
                          "before the plan runs",
                          context->name, context->program->rank, which ? "output" : "input");
    }
    if (is_captured(stream))
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s: a graph is being captured, but the plan has not run with such "
                          "buffers before; call it once outside of the capture",
                          context->name);
    weir_status status =
        weir_mem_alloc(executor->comm, weiri_device_staging_bytes(context, which), &made->own);
    if (status == WEIR_OK)
        made->at = weir_mem_pointer(made->own);
    return status;
}

/* A call's buffers, with their descriptions for peers. */
typedef struct buffers {
    weiri_placement placement;
    weiri_gpu_desc in, out;
} buffers;

static weir_status find_buffers(weir_executor *executor, const weiri_plan_context *context,
                                const weir_call *call, buffers *found)
{
    weiri_device_context *own = context->own;
    weiri_placement *placement = &found->placement;
    *placement = weiri_executor_place(context, context->program->rank, call);
    weiri_gpu_desc desc[2] = {WEIRI_GPU_UNMAPPED, WEIRI_GPU_UNMAPPED};
    const int nbuffers = placement->one_region ? 1 : 2;
    const char *at[2];
    for (int which = 0; which < nbuffers; which++) {
        int can;
        at[which] = weiri_device_requested(placement, which);
        weir_status status =
            weiri_device_check_buffer(executor, context, which, at[which], &desc[which], &can);
        if (status == WEIR_OK && !can && !own->staging[which].at)
            status = allocate_staging(executor, context, which, call->stream);
        if (status != WEIR_OK)
            return status;
        if (can)
            continue;
        at[which] = own->staging[which].at;
        desc[which] = own->staging[which].desc;
        placement->copies_in |= which == 0;
        placement->copies_out |= placement->one_region || which == 1;
    }
    found->in = desc[0];
    found->out = desc[1];
    placement->in = (char *)at[0] + (placement->one_region ? placement->in_offset : 0);
    if (placement->one_region) {
        placement->out = (char *)at[0] + placement->out_offset;
        const int mapped = desc[0] != WEIRI_GPU_UNMAPPED;
        found->in = mapped ? desc[0] + placement->in_offset : WEIRI_GPU_UNMAPPED;
        found->out = mapped ? desc[0] + placement->out_offset : WEIRI_GPU_UNMAPPED;
    } else {
        placement->out = (char *)at[1];
    }
    return WEIR_OK;
}

/* ------------------------------------------------------------------- kernels */

/* How many blocks of a kernel are resident on the device at once. */
static int resident_blocks(const weir_comm *comm, const void *kernel, int threads)
{
    int each = 0;
    if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, 0) != cudaSuccess)
        cudaGetLastError();
    return each * weiri_cuda_of(comm)->processors;
}

const void *weiri_device_kernel(const weiri_plan_context *context, const weir_call *call)
{
    const weiri_device_context *own = context->own;
    const uint32_t ops = call->op == WEIR_SUM || call->op == WEIR_AVG ? 0 : WEIRI_IMAGE_DOES_OPS;
    return weiri_image_kernel(call->dtype, own->image.does | ops);
}

/* Loads the kernels of a type and finds the highest number of threads, at most the plan's, with
 * which all blocks are resident. */
static cudaError_t find_thread_count(const weir_comm *comm, weiri_device_context *own,
                                     const void *kernel, weir_dtype dtype)
{
    struct cudaFuncAttributes limits;
    cudaError_t error = cudaFuncGetAttributes(&limits, kernel);
    if (error == cudaSuccess)
        error = cudaFuncGetAttributes(&limits, weiri_divide_kernel(dtype));
    while (error == cudaSuccess && own->threads > WEIRI_DEVICE_THREADS_LEAST &&
           (uint32_t)resident_blocks(comm, kernel, own->threads) < own->image.nblocks)
        own->threads = own->threads / 64 * 32;
    return error;
}

weir_status weiri_device_check_fit(const weir_executor *executor, const weiri_plan_context *context,
                                   const void *kernel, weir_dtype dtype)
{
    const weir_comm *comm = executor->comm;
    weiri_device_context *own = context->own;
    if (own->fits[dtype] == kernel)
        return WEIR_OK;
    enum cudaStreamCaptureMode mode = weiri_cuda_relax();
    const cudaError_t error = find_thread_count(comm, own, kernel, dtype);
    const int room = resident_blocks(comm, kernel, own->threads);
    weiri_cuda_restore(mode);
    if (error != cudaSuccess)
        return weiri_cuda_fail_launch(comm, error);
    if ((uint32_t)room < own->image.nblocks)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "%s: rank %d has %u thread blocks, but GPU %d can run only %d of them at "
                          "once, of %d threads each: use a plan with fewer thread blocks",
                          context->name, context->program->rank, own->image.nblocks,
                          comm->gpu->device, room, own->threads);
    own->fits[dtype] = kernel;
    return WEIR_OK;
}

/* ------------------------------------------------------------------- launching */

/* Adds to an error the position at which a wait of an earlier launch failed, if one has. */
static weir_status explain_failure(const weir_executor *executor, const weiri_plan_context *context,
                                   weir_status status)
{
    const weiri_device_context *own = context->own;
    const weiri_program *program = context->program;
    uint64_t at = 0;
    if (executor->comm->gpu->ops->copy(executor->comm, &at, own->args.failed_at, sizeof at) ||
        at >> 32 == 0 || at >> 32 > program->nblocks)
        return status;
    const weiri_program_block *block = &weiri_program_blocks(program)[(at >> 32) - 1];
    const weiri_step *steps = weiri_program_steps(program) + block->first_step;
    char where[WEIRI_PLAN_WHERE_BYTES];
    for (uint32_t i = 0; i < block->nsteps; i++)
        if (steps[i].op == (uint32_t)at)
            return weiri_fail_context(status, "%s waited",
                                      weiri_step_where(context, block, &steps[i], where));
    return weiri_fail_context(status, "%s: rank %d waited for its peers to begin", context->name,
                              program->rank);
}

static weir_status launch_kernel(weir_comm *comm, const void *kernel, uint32_t blocks, int threads,
                                 void *args, weir_stream stream)
{
    comm->last_blocks = (int)blocks > comm->last_blocks ? (int)blocks : comm->last_blocks;
    void *arguments[] = {args};
    const cudaError_t error =
        cudaLaunchKernel(kernel, (dim3){blocks, 1, 1}, (dim3){(unsigned)threads, 1, 1}, arguments,
                         0, (cudaStream_t)stream);
    return error == cudaSuccess ? WEIR_OK : weiri_cuda_fail_launch(comm, error);
}

static weir_status launch_divide(const weir_executor *executor, const weiri_plan_context *context,
                                 const weir_call *call, char *out)
{
    enum { THREADS = 256 };
    weiri_divide_args args = {out, context->layout.out_bytes, executor->comm->nranks,
                              (int32_t)call->dtype};
    const uint64_t words = (args.bytes + 7) / 8, most = 1024;
    const uint64_t blocks = (words + THREADS - 1) / THREADS;
    if (call->op != WEIR_AVG || !context->reduces || !weiri_plan_has_result(context) || !blocks)
        return WEIR_OK;
    return launch_kernel(executor->comm, weiri_divide_kernel(call->dtype),
                         (uint32_t)(blocks < most ? blocks : most), THREADS, &args, call->stream);
}

static weir_status cuda_plan_launch(weir_executor *executor, weiri_plan_context *context,
                                    const weir_call *call)
{
    weir_comm *comm = executor->comm;
    const weiri_device *device = executor->own;
    const weiri_device_context *own = context->own;
    weiri_image_args args = own->args;
    buffers found;
    const void *kernel = weiri_device_kernel(context, call);
    weir_status status = weiri_device_check_fit(executor, context, kernel, call->dtype);
    if (status == WEIR_OK)
        status = find_buffers(executor, context, call, &found);
    if (status != WEIR_OK)
        return status;
    const weiri_placement *placement = &found.placement;
    if (placement->copies_in && call->in)
        status = comm->gpu->ops->copy_on(comm, placement->in, call->in, context->layout.in_bytes,
                                         call->stream);
    if (status != WEIR_OK)
        return status;
    args.in = placement->in;
    args.out = placement->out;
    args.in_desc = found.in;
    args.out_desc = found.out;
    args.op = call->op == WEIR_AVG ? WEIR_SUM : call->op;
    args.dtype = (int32_t)call->dtype;
    context->is_captured |= is_captured(call->stream);
    if (context->has_ports)
        weir_proxy_wake(device->ports.proxy);
    status = launch_kernel(comm, kernel, own->image.nblocks, own->threads, &args, call->stream);
    if (status == WEIR_OK)
        status = launch_divide(executor, context, call, placement->out);
    if (status == WEIR_OK && placement->copies_out && call->out && weiri_plan_has_result(context))
        status = comm->gpu->ops->copy_on(comm, call->out, placement->out, context->layout.out_bytes,
                                         call->stream);
    return status;
}

static weir_status cuda_plan_run(weir_executor *executor, weiri_plan_context *context,
                                 const weir_call *call)
{
    int before;
    weir_status status = weiri_cuda_ready(executor->comm, call->stream, &before);
    if (status != WEIR_OK)
        return weir_load_relaxed(executor->comm->guard.abort_word)
                   ? explain_failure(executor, context, status)
                   : status;
    status = cuda_plan_launch(executor, context, call);
    weiri_cuda_leave(executor->comm, before);
    return status;
}

/* -------------------------------------------------------------------- executor */

static weir_status cuda_plan_open(weir_executor *executor)
{
    weir_comm *comm = executor->comm;
    if (comm->nnodes > 1)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "plans on GPUs need all ranks on one node; these are on %d",
                          comm->nnodes);
    executor->own = calloc(1, sizeof(weiri_device));
    return executor->own ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for an executor");
}

static weir_status cuda_plan_settle(weir_executor *executor)
{
    executor->comm->gpu->ops->quiesce(executor->comm);
    return WEIR_OK;
}

static weir_status cuda_plan_fit(weir_executor *executor, const weiri_plan_context *context,
                                 const weir_call *call)
{
    int before;
    weir_status status = weiri_cuda_enter(executor->comm, &before);
    if (status != WEIR_OK)
        return status;
    status =
        weiri_device_check_fit(executor, context, weiri_device_kernel(context, call), call->dtype);
    weiri_cuda_leave(executor->comm, before);
    return status;
}

static void cuda_plan_close(weir_executor *executor)
{
    weiri_device *device = executor->own;
    weiri_plan_ports_close(executor, &device->ports);
    free(device);
}

static const weiri_executor_ops ops = {
    .open = cuda_plan_open,
    .admit = weiri_device_admit,
    .prepare = weiri_device_prepare,
    .run = cuda_plan_run,
    .fit = cuda_plan_fit,
    .settle = cuda_plan_settle,
    .release = weiri_device_release,
    .close = cuda_plan_close,
};

const weiri_executor_ops *weiri_executor_cuda(void)
{
    return &ops;
}
