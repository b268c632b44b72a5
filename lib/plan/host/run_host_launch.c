/*
 * A launch in the host backend: finds or stages the buffers, posts their addresses, runs the
 * blocks, divides the output (avg), and copies staged output to the caller's buffer. A launch does
 * not synchronize ranks at its end; the plan's last operations do so as far as necessary.
 */
#include "plan/host/run_host.h"

#include "compute/copy.h"

/* A staging buffer that peers can map. No peer still uses it for an earlier call, because it was
 * input or output of that call, which has completed. */
static weir_status plan_host_stage(weiri_host_launch *launch, int which, uint64_t bytes,
                                   char **buffer)
{
    weir_mem **stage = &launch->host->stages[which];
    weir_status status = WEIR_OK;
    if (*stage && weir_mem_bytes(*stage) < bytes) {
        weir_mem_free(*stage);
        *stage = NULL;
    }
    if (!*stage)
        status = weir_mem_alloc(launch->executor->comm, bytes, stage);
    if (status == WEIR_OK)
        *buffer = weir_mem_pointer(*stage);
    return status;
}

/* 1 if peers reach the input (0) or output (1) through a post. */
static int plan_host_is_posted(const weiri_host_launch *launch, int which)
{
    return launch->context->reached[which] && !launch->own->is_fixed;
}

/* Sets *buffer to the memory for the plan's input or output: the caller's, the arena, or a staging
 * buffer. */
static weir_status plan_host_find_buffer(weiri_host_launch *launch, int which, uint64_t bytes,
                                         char **buffer)
{
    const weiri_host *host = launch->host;
    weiri_host_context *own = launch->own;
    if (own->is_fixed) {
        *buffer = (char *)weir_mem_pointer(own->arena) + (which ? own->out_at : own->in_at);
        return WEIR_OK;
    }
    if (*buffer && (!plan_host_is_posted(launch, which) ||
                    weiri_region_describe(host->node, *buffer, bytes).generation))
        return WEIR_OK;
    return plan_host_stage(launch, which, bytes, buffer);
}

/* Changes a placement by weiri_executor_place to memory that this backend can use. */
static weir_status plan_host_find_buffers(weiri_host_launch *launch, weiri_placement *placement)
{
    const weiri_plan_layout *layout = &launch->context->layout;
    const char *const in = placement->in, *const out = placement->out;
    weir_status status;
    if (placement->one_region) {
        status = plan_host_find_buffer(launch, 0, placement->region_bytes, &placement->region);
        if (status != WEIR_OK)
            return status;
        placement->in = placement->region + placement->in_offset;
        placement->out = placement->region + placement->out_offset;
    } else {
        status = plan_host_find_buffer(launch, 0, layout->in_bytes, &placement->in);
        if (status == WEIR_OK)
            status = plan_host_find_buffer(launch, 1, layout->out_bytes, &placement->out);
    }
    placement->copies_in |= placement->in != in;
    placement->copies_out |= placement->out != out;
    return status;
}

/* Begins an epoch of the collectives' areas (coll/coll.h), and posts this rank's buffers. */
static weir_status plan_host_post_buffers(weiri_host_launch *launch,
                                          const weiri_placement *placement)
{
    const weiri_plan_layout *layout = &launch->context->layout;
    weiri_coll *coll = launch->host->coll;
    const int *reached = launch->context->reached;
    weir_status status = weiri_coll_begin(coll);
    if (status != WEIR_OK)
        return status;
    weiri_post *own = weiri_post_of(coll, coll->rank);
    const weiri_desc none = {0, 0, 0};
    if (placement->one_region) {
        own->in = none;
        own->out = weiri_region_describe(coll->comm, placement->region, placement->region_bytes);
    } else {
        own->in =
            reached[0] ? weiri_region_describe(coll->comm, placement->in, layout->in_bytes) : none;
        own->out = reached[1] ? weiri_region_describe(coll->comm, placement->out, layout->out_bytes)
                              : none;
    }
    weiri_flag_publish(coll, &own->flag, coll->epoch);
    for (int rank = 0; rank < coll->nranks; rank++)
        launch->unread |= rank != coll->rank ? weiri_rank_set_of((uint32_t)rank) : 0;
    return WEIR_OK;
}

/* After all blocks have ended: this rank reads no more posts in this epoch. */
static void plan_host_end_posts(const weiri_host_launch *launch)
{
    if (!plan_host_is_posted(launch, 0) && !plan_host_is_posted(launch, 1))
        return;
    if (launch->unread)
        weiri_coll_end(launch->host->coll);
    else
        weiri_coll_end_all_heard(launch->host->coll);
}

/* Sets the addresses of all buffers that are known without posts, and posts this rank's buffers. */
static weir_status plan_host_find_bases(weiri_host_launch *launch, const weiri_placement *placement)
{
    const weiri_host_context *own = launch->own;
    const weir_executor *executor = launch->executor;
    for (int rank = 0; rank < executor->comm->nranks; rank++) {
        weir_mem *arena = rank == executor->comm->rank ? own->arena : own->arenas[rank];
        char *begin = arena ? weir_mem_pointer(arena) : NULL;
        for (int buffer = 0; begin && buffer < WEIR_PLAN_BUFFERS; buffer++) {
            const uint32_t base = (uint32_t)(rank * WEIR_PLAN_BUFFERS + buffer);
            if (buffer == WEIR_PLAN_SCRATCH || own->is_fixed)
                own->bases[base] = begin + weiri_host_arena_offset(launch, base);
        }
    }
    char **mine = own->bases + executor->comm->rank * WEIR_PLAN_BUFFERS;
    mine[WEIR_PLAN_INPUT] = placement->in;
    mine[WEIR_PLAN_OUTPUT] = placement->out;
    if (!plan_host_is_posted(launch, 0) && !plan_host_is_posted(launch, 1))
        return WEIR_OK;
    return plan_host_post_buffers(launch, placement);
}

/* Resets blocks, semaphores and barriers to their initial values. */
static void plan_host_rewind_program(weiri_host_launch *launch)
{
    const weiri_program *program = launch->program;
    const weiri_program_block *blocks = weiri_program_blocks(program);
    const uint32_t *values = weiri_program_semaphores(program);
    for (uint32_t i = 0; i < program->nblocks; i++)
        launch->own->blocks[i] = (weiri_host_block){
            .step = blocks[i].first_step, .loop = WEIRI_HOST_NO_LOOP, .post = -1};
    for (uint32_t i = 0; i < program->nsemaphores; i++)
        launch->own->semaphores[i] = values[i];
    for (uint32_t i = 0; i < program->nbarriers; i++)
        launch->own->barriers[i] = 0;
}

/* For WEIR_AVG: divides the sums in the output by the number of ranks. */
static void plan_host_divide_average(const weiri_host_launch *launch, const weir_call *call,
                                     char *out)
{
    const void *sums[] = {out};
    if (call->op != WEIR_AVG || !launch->context->reduces ||
        !weiri_plan_has_result(launch->context))
        return;
    weiri_reduce(out, sums, 1, launch->context->layout.out_bytes / launch->element_bytes,
                 call->dtype, WEIR_AVG, (uint64_t)launch->program->nranks, 0);
}

weir_status weiri_host_run(weir_executor *executor, weiri_plan_context *context,
                           const weir_call *call)
{
    const weiri_plan_layout *layout = &context->layout;
    weiri_host *host = executor->own;
    weiri_host_context *own = context->own;
    weiri_host_launch launch = {
        .executor = executor,
        .host = host,
        .context = context,
        .own = own,
        .program = context->program,
        .flag =
            (uint32_t)(++own->launches % (own->has_separate_flags ? UINT8_MAX : UINT32_MAX)) + 1,
        .total_bytes = layout->in_bytes > layout->out_bytes ? layout->in_bytes : layout->out_bytes,
        .element_bytes = weir_dtype_bytes(call->dtype),
        .reduce = weiri_reduce_get(call->dtype, call->op == WEIR_AVG ? WEIR_SUM : call->op),
    };
    weiri_placement placement = weiri_executor_place(context, context->program->rank, call);
    weir_status status = plan_host_find_buffers(&launch, &placement);
    if (status != WEIR_OK) {
        weir_comm_abort(executor->comm); /* otherwise peers would wait for this rank */
        return status;
    }
    if (placement.copies_in && call->in)
        weiri_copy(placement.in, call->in, layout->in_bytes);
    plan_host_rewind_program(&launch);
    status = plan_host_find_bases(&launch, &placement);
    if (status == WEIR_OK)
        status = weiri_host_interpret(&launch);
    if (status != WEIR_OK)
        return status;
    plan_host_end_posts(&launch);
    plan_host_divide_average(&launch, call, placement.out);
    if (placement.copies_out && call->out && weiri_plan_has_result(context))
        weiri_copy(call->out, placement.out, layout->out_bytes);
    return WEIR_OK;
}
