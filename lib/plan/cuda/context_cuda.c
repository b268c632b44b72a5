/*
 * A plan's context on GPUs: its image, its segment and its counters.
 *
 * Each rank has one segment of the library's memory, which all ranks map when the context is
 * created: announcements of buffers, counters, scratch and, where needed, staging buffers. State
 * that changes from launch to launch lies in device memory that only this rank uses.
 */
#include "plan/cuda/device.h"

#include "base/error.h"
#include "coll/cuda/launch/run_cuda.h"
#include "comm/gpu/gpu_cuda.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)WEIR_PLAN_BUFFERS == (int)WEIRI_IMAGE_BUFFERS,
               "images number the buffers as plans do");

static uint64_t align_up(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* The bytes of the longest step that a block's threads move. */
static uint64_t longest_step(const weiri_program *program)
{
    uint64_t longest = 0;
    for (uint32_t i = 0; i < program->nsteps; i++) {
        const weiri_step *step = &weiri_program_steps(program)[i];
        const weiri_line_part span = weiri_step_span(step, 0); /* the longest of a loop's
                                                                * iterations */
        if (step->kind != WEIRI_STEP_COPY && step->kind != WEIRI_STEP_REDUCE)
            continue;
        longest = span.end - span.first > longest ? span.end - span.first : longest;
    }
    return longest;
}

/* The plan's number of threads, unless fewer suffice to handle 8 bytes of the longest step each and
 * to load a page at once: threads without work make every barrier of the block slower. */
static int threads_of(const weiri_program *program, const weiri_image *image)
{
    const uint32_t most = WEIRI_IMAGE_THREADS_MAX;
    const uint32_t threads = program->nthreads < most ? program->nthreads : most;
    const uint64_t words = (longest_step(program) + 7) / 8, vectors = image->page_bytes / 16;
    uint64_t useful = words > vectors ? words : vectors;
    useful = useful > WEIRI_DEVICE_THREADS_LEAST ? useful : WEIRI_DEVICE_THREADS_LEAST;
    return (int)(((useful < threads ? (uint32_t)useful : threads) + 31) / 32 * 32);
}

/* ------------------------------------------------------------- a context's memory */

/* Whether a staging buffer goes into the segment, where peers can reach it. If only the root's
 * calls may be in place, which can differ from call to call, the input always gets one. A context
 * for any buffers has all that a call may need. */
static int needs_shared_staging(weir_executor *executor, const weiri_plan_context *context,
                                int which)
{
    const weiri_placement placement =
        weiri_executor_place(context, context->program->rank, context->call);
    const uint64_t bytes = weiri_device_staging_bytes(context, which);
    weiri_gpu_desc desc;
    int can = 0;
    if (context->any_buffers && bytes)
        return context->reached[which] || weiri_plan_may_stage(context, which);
    if (!context->reached[which] || !bytes)
        return 0;
    if (bytes <= WEIRI_STAGING_ALWAYS_BYTES || (context->has_root && !which))
        return 1;
    const weir_status status = weiri_device_check_buffer(
        executor, context, which, weiri_device_requested(&placement, which), &desc, &can);
    return status != WEIR_OK || !can;
}

/* Makes regions that are new on any rank known to all ranks. Collective. */
static weir_status share_new_regions(weir_executor *executor)
{
    weir_status status = weiri_comm_barrier(executor->comm);
    return status == WEIR_OK ? weiri_comm_barrier(executor->comm) : status;
}

static weir_status allocate_segment(weir_executor *executor, weiri_plan_context *context)
{
    weiri_device_context *own = context->own;
    const weiri_program *program = context->program;
    uint64_t at[2] = {0, 0};
    uint64_t end = align_up(weiri_image_scratch_at(program->ncounters) + program->scratch_bytes);
    for (int which = 0; which < 2; which++)
        if (needs_shared_staging(executor, context, which)) {
            at[which] = end;
            end += align_up(weiri_device_staging_bytes(context, which));
        }
    weir_status status = weir_mem_alloc(executor->comm, end, &own->segment);
    if (status != WEIR_OK)
        return weiri_fail_context(status, "%s: %llu bytes for its scratch", context->name,
                                  (unsigned long long)end);
    char *base = weir_mem_pointer(own->segment);
    status = executor->comm->gpu->ops->clear(executor->comm, base, end);
    const weiri_desc desc = weiri_region_describe(executor->comm, base, end);
    for (int which = 0; which < 2; which++)
        if (at[which]) {
            own->staging[which].at = base + at[which];
            own->staging[which].desc = weiri_cuda_desc(desc) + at[which];
        }
    return status;
}

static weir_status allocate_lists(const weiri_plan_context *context, weiri_device_context *own)
{
    const size_t nchannels = context->program->nchannels + 1u;
    own->segments = calloc((size_t)context->program->nranks, sizeof *own->segments);
    own->sems = calloc(nchannels, sizeof *own->sems);
    own->ports = calloc(nchannels, sizeof *own->ports);
    own->port_views = calloc(nchannels, sizeof *own->port_views);
    if (!own->segments || !own->sems || !own->ports || !own->port_views)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory to run it", context->name);
    return WEIR_OK;
}

/* Offsets in the device memory that only this rank's kernels use, one allocation. */
typedef struct local_layout {
    uint64_t state, failed_at, semaphores, barriers, initial, channels, ports, pages, bytes;
} local_layout;

static uint64_t reserve_bytes(uint64_t *end, uint64_t bytes)
{
    const uint64_t at = *end;
    *end = align_up(at + bytes);
    return at;
}

static local_layout local_lay_out(const weiri_program *program, const weiri_image *image)
{
    local_layout made = {0};
    uint64_t *end = &made.bytes;
    made.state = reserve_bytes(end, sizeof(weiri_gpu_state));
    made.failed_at = reserve_bytes(end, sizeof(uint64_t));
    made.semaphores = reserve_bytes(end, 2 * sizeof(uint64_t) * program->nsemaphores);
    made.barriers = reserve_bytes(end, 2 * sizeof(uint64_t) * program->nbarriers);
    made.initial = reserve_bytes(end, sizeof(uint32_t) * program->nsemaphores);
    made.channels = reserve_bytes(end, sizeof(weiri_image_channel) * program->nchannels);
    made.ports = reserve_bytes(end, sizeof(struct weir_portchan_dev *) * program->nchannels);
    made.pages = reserve_bytes(end, (uint64_t)image->npages * image->page_bytes);
    return made;
}

static void local_fill(const weiri_plan_context *context, const local_layout *at, char *memory)
{
    const weiri_device_context *own = context->own;
    const weiri_program *program = context->program;
    const uint32_t *initial = weiri_program_semaphores(program);
    uint64_t *semaphores = (uint64_t *)(void *)(memory + at->semaphores);
    const weiri_gpu_state first = {.turns = (uint64_t)1 << WEIRI_GPU_EPOCH_SHIFT};
    memcpy(memory + at->state, &first, sizeof first);
    for (uint32_t i = 0; i < 2 * program->nsemaphores; i++)
        semaphores[i] = initial[i % program->nsemaphores];
    if (program->nsemaphores)
        memcpy(memory + at->initial, initial, program->nsemaphores * sizeof *initial);
    weiri_image_fill_channels(program, own->args.segment,
                              (weiri_image_channel *)(void *)(memory + at->channels));
    memcpy(memory + at->ports, own->port_views, program->nchannels * sizeof *own->port_views);
    memcpy(memory + at->pages, own->image.pages, (size_t)own->image.npages * own->image.page_bytes);
}

static void local_set_args(weiri_image_args *args, const local_layout *at, char *kept)
{
    args->view.state = (weiri_gpu_state *)(void *)(kept + at->state);
    args->failed_at = (uint64_t *)(void *)(kept + at->failed_at);
    args->semaphores = (uint64_t *)(void *)(kept + at->semaphores);
    args->barriers = (uint64_t *)(void *)(kept + at->barriers);
    args->initial = (const uint32_t *)(const void *)(kept + at->initial);
    args->channels = (weiri_image_channel *)(void *)(kept + at->channels);
    args->ports = (struct weir_portchan_dev *const *)(void *)(kept + at->ports);
    args->pages = kept + at->pages;
}

/* Uploads the rank's local memory and sets the arguments of launches, except those of a call. */
static weir_status context_upload(weir_executor *executor, weiri_plan_context *context)
{
    weiri_device_context *own = context->own;
    const weiri_program *program = context->program;
    const local_layout at = local_lay_out(program, &own->image);
    char *memory = calloc(1, at.bytes);
    if (!memory)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory to run it", context->name);
    local_fill(context, &at, memory);
    weir_status status =
        executor->comm->gpu->ops->keep(executor->comm, memory, at.bytes, &own->kept);
    free(memory);
    if (status != WEIR_OK)
        return status;
    local_set_args(&own->args, &at, own->kept);
    own->args.page_bytes = own->image.page_bytes;
    own->args.nsemaphores = program->nsemaphores;
    own->args.nbarriers = program->nbarriers;
    own->args.scratch_at = weiri_image_scratch_at(program->ncounters);
    own->args.half_bytes = program->geometry.half_bytes;
    free(own->image.pages);
    own->image.pages = NULL;
    return WEIR_OK;
}

/* -------------------------------------------------------------------- contexts */

/* Local. Creating a context allocates memory, which would invalidate a capture. */
weir_status weiri_device_admit(const weir_executor *executor, const weir_plan *plan,
                               const weir_call *call)
{
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    int before;
    weir_status status = weiri_cuda_enter(executor->comm, &before);
    if (status == WEIR_OK)
        cudaStreamIsCapturing((cudaStream_t)call->stream, &capture);
    weiri_cuda_leave(executor->comm, before);
    if (status == WEIR_OK && capture != cudaStreamCaptureStatusNone)
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s: a graph is being captured, but the plan has not run with these "
                          "lengths before; call it once outside of the capture",
                          plan->file);
    return status;
}

/* Loads the kernels of all data types and operations with which later calls may run the plan. */
static void context_load_kernels(const weiri_device_context *own)
{
    for (int dtype = 0; dtype < WEIR_DTYPE_COUNT; dtype++) {
        weiri_cuda_load(weiri_image_kernel((weir_dtype)dtype, own->image.does));
        weiri_cuda_load(
            weiri_image_kernel((weir_dtype)dtype, own->image.does | WEIRI_IMAGE_DOES_OPS));
        weiri_cuda_load(weiri_divide_kernel((weir_dtype)dtype));
    }
}

/* Prepares what needs no peer. */
static weir_status context_prepare_local(weir_executor *executor, const weir_plan *plan,
                                         weiri_plan_context *context)
{
    weir_comm *comm = executor->comm;
    weiri_device_context *own = calloc(1, sizeof *own);
    int before = -1;
    context->own = own;
    if (!own)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory to run it", context->name);
    weir_status status = weiri_image_encode(plan, context->program, WEIRI_IMAGE_PAGE_BYTES,
                                            comm->gpu->nvlink, &own->image);
    if (status == WEIR_OK)
        status = allocate_lists(context, own);
    own->threads = threads_of(context->program, &own->image);
    own->args.view = weiri_cuda_of(comm)->view;
    own->args.announces = (uint32_t)own->image.announces;
    if (status == WEIR_OK)
        status = weiri_cuda_enter(comm, &before);
    if (status == WEIR_OK)
        context_load_kernels(own);
    if (status == WEIR_OK)
        status = weiri_device_check_fit(
            executor, context, weiri_device_kernel(context, context->call), context->call->dtype);
    weiri_cuda_leave(comm, before);
    return status;
}

static weir_status exchange_segments(weir_executor *executor, weiri_plan_context *context,
                                     weir_status status)
{
    weir_comm *comm = executor->comm;
    weiri_device_context *own = context->own;
    status = weir_boot_agree(comm->boot, status);
    if (status == WEIR_OK)
        status = weir_mem_exchange(comm, own->segment, own->segments);
    for (int rank = 0; rank < comm->nranks && status == WEIR_OK; rank++)
        own->args.segment[rank] = weir_mem_pointer(own->segments[rank]);
    return status;
}

weir_status weiri_device_prepare(weir_executor *executor, const weir_plan *plan,
                                 weiri_plan_context *context)
{
    weir_comm *comm = executor->comm;
    weir_status status =
        weir_boot_agree(comm->boot, context_prepare_local(executor, plan, context));
    if (status == WEIR_OK)
        status = share_new_regions(executor);
    if (status != WEIR_OK)
        return status;
    status = weiri_device_ports_connect(executor, context);
    if (status == WEIR_OK)
        status = allocate_segment(executor, context);
    status = exchange_segments(executor, context, status);
    if (status == WEIR_OK)
        status = weiri_device_ports_create(executor, context);
    if (status == WEIR_OK)
        status = context_upload(executor, context);
    const weiri_device_context *own = context->own;
    context->shared_bytes = own->segment ? weiri_image_scratch_at(context->program->ncounters) +
                                               context->program->scratch_bytes
                                         : 0;
    return weir_boot_agree(comm->boot, status);
}

void weiri_device_release(weir_executor *executor, weiri_plan_context *context)
{
    weiri_device_context *own = context->own;
    if (!own)
        return;
    weiri_device_ports_free(context);
    for (int rank = 0; own->segments && rank < executor->comm->nranks; rank++)
        if (own->segments[rank] != own->segment)
            weir_mem_free(own->segments[rank]);
    weir_mem_free(own->staging[0].own);
    weir_mem_free(own->staging[1].own);
    weir_mem_free(own->segment);
    executor->comm->gpu->ops->release(executor->comm, own->kept);
    free(own->image.pages);
    free(own->segments);
    free(own->sems);
    free(own->ports);
    free(own->port_views);
    free(own);
}
