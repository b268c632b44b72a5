/*
 * Contexts and launches of the host backend; run_host.h says how memory is shared.
 *
 * A launch: input is copied to where the plan wants it, buffers are posted, the blocks run,
 * the output is divided (avg) and copied to where the caller wants it. Nothing is awaited
 * at the end: what a plan's last steps do is what the plan is responsible for.
 */
#include "plan/run_host.h"

#include "base/error.h"
#include "coll/copy.h"

#include <stdlib.h>
#include <string.h>

static uint64_t line_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* --------------------------------------------------------------- preparing */

/* A rank whose memory a step addresses, but this rank cannot map; -1: there is none. */
static int find_unmapped(const weir_executor *executor, const weiri_program *program,
                         const weiri_step *step)
{
    const weiri_operand *operands = weiri_program_operands(program) + step->first_operand;
    const weiri_channel *channels = weiri_program_channels(program);
    const uint32_t *ids = weiri_program_ids(program) + step->first_id;
    if (step->kind == WEIRI_STEP_PORT_PUT)
        return -1;
    for (uint32_t i = 0; i < step->nsrcs + step->ndsts; i++) {
        const int owner = operands[i].base / WEIR_PLAN_BUFFERS;
        if (owner != program->rank && !weiri_comm_maps(executor->comm, owner))
            return owner;
    }
    if (step->kind != WEIRI_STEP_SIGNAL && step->kind != WEIRI_STEP_WAIT)
        return -1;
    for (uint32_t i = 0; i < step->nids; i++)
        if (!channels[ids[i]].is_port && !weiri_comm_maps(executor->comm, channels[ids[i]].peer))
            return channels[ids[i]].peer;
    return -1;
}

static weir_status check_mapped(const weir_executor *executor, const weiri_context *context)
{
    const weiri_program *program = context->program;
    const weiri_program_block *blocks = weiri_program_blocks(program);
    const weiri_step *steps = weiri_program_steps(program);
    char where[WEIRI_PLAN_WHERE_BYTES];
    for (uint32_t i = 0; i < program->nblocks; i++)
        for (uint32_t s = 0; s < blocks[i].nsteps; s++) {
            const weiri_step *step = &steps[blocks[i].first_step + s];
            const int rank = find_unmapped(executor, program, step);
            if (rank >= 0)
                return weiri_fail(WEIR_ERR_UNSUPPORTED,
                                  "%s: a memory or switch channel to rank %d, which is on another "
                                  "machine; between machines plans use port channels",
                                  weiri_step_where(context, &blocks[i], step, where), rank);
        }
    return WEIR_OK;
}

static void lay_out_arena(const weir_executor *executor, const weiri_context *context,
                          weiri_host_context *own)
{
    const weiri_plan_layout *layout = &context->layout;
    const int reached = context->reached[0] | context->reached[1];
    uint64_t at = line_up(context->program->ncounters * sizeof(weiri_word), 4096);
    own->scratch_at = at;
    at = line_up(at + layout->scratch_bytes, 4096);
    own->in_at = own->out_at = at;
    own->is_fixed = (reached & WEIRI_REACHED_BY_PORTS) ||
                    ((reached & WEIRI_REACHED_BY_PEERS) && executor->comm->net);
    if (own->is_fixed && context->in_place) {
        at += layout->in_bytes > layout->out_bytes ? layout->in_bytes : layout->out_bytes;
    } else if (own->is_fixed) {
        own->out_at = line_up(at + layout->in_bytes, 4096);
        at = own->out_at + layout->out_bytes;
    }
    own->arena_bytes = at;
}

static weir_status allocate(const weiri_context *context, weiri_host_context *own)
{
    const weiri_program *program = context->program;
    const size_t unpacked = (size_t)program->sources_most * WEIRI_HOST_PACKET_BLOCK +
                            WEIRI_BLOCK_BYTES + WEIRI_HOST_PACKET_BLOCK;
    const size_t chunks = context->layout.slot_bytes
                              ? context->layout.half_bytes / context->layout.slot_bytes
                              : 0;
    own->arenas = calloc((size_t)program->nranks, sizeof *own->arenas);
    own->bases = calloc((size_t)program->nranks * WEIR_PLAN_BUFFERS, sizeof *own->bases);
    own->channels = calloc(program->nchannels + 1u, sizeof *own->channels);
    own->semaphores = calloc(program->nsemaphores + 1u, sizeof *own->semaphores);
    own->meetings = calloc(program->nbarriers + 1u, sizeof *own->meetings);
    own->blocks = calloc(program->nblocks + 1u, sizeof *own->blocks);
    own->sources = calloc(program->sources_most + 1u, sizeof *own->sources);
    own->unpacked = malloc(unpacked);
    own->senders = malloc(chunks + 1);
    if (!own->arenas || !own->bases || !own->channels || !own->semaphores || !own->meetings ||
        !own->blocks || !own->sources || !own->unpacked || !own->senders)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory to run it", context->name);
    memset(own->senders, -1, chunks + 1);
    return WEIR_OK;
}

static void note_sender(const weir_plan *plan, int from, const weiri_plan_ref *ref, int to,
                        int8_t *senders)
{
    const weiri_plan_gpu *gpu = &plan->gpus[from];
    int there = ref->rank == to;
    if (ref->place == WEIRI_PLAN_GROUP) {
        const weiri_plan_switch *group = &gpu->switches[ref->rank];
        there = 0;
        for (uint32_t i = 0; i < group->nranks; i++)
            there |= gpu->ids[group->first_rank + i] == (uint32_t)to;
    }
    if (ref->place == WEIRI_PLAN_LOCAL || !ref->is_packets || !there)
        return;
    for (uint32_t i = 0; i < ref->size; i++)
        senders[ref->index + i] = (int8_t)from;
}

/* Who puts packets into which chunk of the own scratch, for messages. */
static void find_senders(const weir_plan *plan, int rank, int8_t *senders)
{
    for (int from = 0; from < plan->nranks; from++) {
        const weiri_plan_gpu *gpu = &plan->gpus[from];
        for (uint32_t i = 0; i < gpu->nops; i++)
            for (uint32_t r = 0; r < gpu->ops[i].ndsts; r++)
                note_sender(plan, from, &gpu->refs[gpu->ops[i].first_dst + r], rank, senders);
    }
}

/* Everybody's arena, of those whose memory this rank uses. Collective, agreed. */
static weir_status exchange_arenas(weir_executor *executor, weiri_context *context,
                                   weiri_host_context *own, weir_status status)
{
    weir_comm *comm = executor->comm;
    const size_t n = (size_t)comm->nranks;
    weir_mem_handle *handles = calloc(n, sizeof *handles);
    if (!handles && status == WEIR_OK)
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory to run it", context->name);
    if (status == WEIR_OK)
        status = weir_mem_export(own->arena, &handles[comm->rank]);
    status = weir_boot_agree(comm->boot, status);
    if (status == WEIR_OK)
        status = weir_boot_allgather(comm->boot, handles, sizeof *handles);
    for (int rank = 0; rank < comm->nranks && status == WEIR_OK; rank++)
        if (rank != comm->rank &&
            (weiri_comm_maps(comm, rank) || weiri_host_has_port(context, rank)))
            status = weir_mem_import(comm, &handles[rank], &own->arenas[rank]);
    free(handles);
    return status;
}

/* The counters of memory channels; no step uses those to ranks that are not mapped. */
static void join_counters(const weiri_context *context, weiri_host_context *own)
{
    const weiri_channel *channels = weiri_program_channels(context->program);
    weiri_word *counters = weir_mem_pointer(own->arena);
    for (uint32_t i = 0; i < context->program->nchannels; i++) {
        const weir_mem *arena = own->arenas[channels[i].peer];
        weiri_word *theirs = arena ? weir_mem_pointer(arena) : NULL;
        if (channels[i].is_port || !theirs)
            continue;
        own->channels[i].inbound = &counters[channels[i].inbound].value;
        own->channels[i].outbound = &theirs[channels[i].outbound].value;
    }
}

static weir_status prepare(weir_executor *executor, const weir_plan *plan, weiri_context *context)
{
    weir_comm *comm = executor->comm;
    weiri_host_context *own = calloc(1, sizeof *own);
    weir_status status =
        own ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory to run it", context->name);
    context->own = own;
    if (status == WEIR_OK)
        status = check_mapped(executor, context);
    if (status == WEIR_OK)
        status = allocate(context, own);
    status = weir_boot_agree(comm->boot, status);
    if (status != WEIR_OK)
        return status;
    find_senders(plan, comm->rank, own->senders);
    lay_out_arena(executor, context, own);
    context->shared_bytes = own->arena_bytes;
    status = weiri_host_ports_connect(executor, context);
    if (status == WEIR_OK)
        status = weir_mem_alloc(comm, own->arena_bytes, &own->arena);
    status = exchange_arenas(executor, context, own, status);
    if (status == WEIR_OK)
        status = weiri_host_ports_create(executor, context);
    status = weir_boot_agree(comm->boot, status);
    if (status == WEIR_OK)
        join_counters(context, own);
    return status;
}

static void release(weir_executor *executor, weiri_context *context)
{
    weiri_host_context *own = context->own;
    if (!own)
        return;
    weiri_host_ports_free(context);
    for (int rank = 0; own->arenas && rank < executor->comm->nranks; rank++)
        weir_mem_free(own->arenas[rank]);
    weir_mem_free(own->stages[0]);
    weir_mem_free(own->stages[1]);
    weir_mem_free(own->arena);
    free(own->arenas);
    free(own->bases);
    free(own->channels);
    free(own->semaphores);
    free(own->meetings);
    free(own->blocks);
    free(own->sources);
    free(own->unpacked);
    free(own->senders);
    free(own);
}

/* ---------------------------------------------------------------- launching */

uint64_t weiri_host_arena_offset(const weiri_host_launch *launch, uint32_t base)
{
    const weiri_host_context *own = launch->own;
    const int rank = (int)(base / WEIR_PLAN_BUFFERS);
    const int region = launch->context->in_place;
    if (base % WEIR_PLAN_BUFFERS == WEIR_PLAN_INPUT)
        return own->in_at + (region ? weiri_region_in_offset(launch->context, rank) : 0);
    if (base % WEIR_PLAN_BUFFERS == WEIR_PLAN_OUTPUT)
        return own->out_at + (region ? weiri_region_out_offset(launch->context, rank) : 0);
    return own->scratch_at + (own->launches & 1) * launch->program->geometry.half_bytes;
}

int weiri_host_sender(const weiri_host_launch *launch, const uint64_t *packet)
{
    const weiri_host_context *own = launch->own;
    const char *scratch =
        own->bases[launch->program->rank * WEIR_PLAN_BUFFERS + WEIR_PLAN_SCRATCH];
    return own->senders[(uint64_t)((const char *)packet - scratch) /
                        launch->program->geometry.slot_bytes];
}

static char *stage_of(weir_executor *executor, weiri_host_context *own, int which, uint64_t bytes)
{
    if (!own->stages[which] &&
        weir_mem_alloc(executor->comm, bytes, &own->stages[which]) != WEIR_OK)
        return NULL;
    return weir_mem_pointer(own->stages[which]);
}

/* Whether peers reach a buffer by its post. */
static int is_posted(const weiri_host_launch *launch, int which)
{
    return launch->context->reached[which] && !launch->own->is_fixed;
}

/* Memory for one of the plan's buffers: the caller's, or what has to stand in for it. */
static weir_status find_buffer(weiri_host_launch *launch, int which, uint64_t bytes, char **buffer)
{
    const weiri_host *host = launch->host;
    weiri_host_context *own = launch->own;
    if (own->is_fixed) {
        *buffer = (char *)weir_mem_pointer(own->arena) + (which ? own->out_at : own->in_at);
        return WEIR_OK;
    }
    if (*buffer && (!is_posted(launch, which) ||
                    weiri_region_describe(host->here, *buffer, bytes).generation))
        return WEIR_OK;
    *buffer = stage_of(launch->executor, own, which, bytes);
    return *buffer ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

/* Where a launch's buffers are: `asked` as weiri_executor_place has it, `got` as it is. */
static weir_status find_buffers(weiri_host_launch *launch, weiri_placement *placement)
{
    const weiri_plan_layout *layout = &launch->context->layout;
    const char *const in = placement->in, *const out = placement->out;
    weir_status status;
    if (placement->one_region) {
        status = find_buffer(launch, 0, placement->region_bytes, &placement->region);
        if (status != WEIR_OK)
            return status;
        placement->in = placement->region + placement->in_offset;
        placement->out = placement->region + placement->out_offset;
    } else {
        status = find_buffer(launch, 0, layout->in_bytes, &placement->in);
        if (status == WEIR_OK)
            status = find_buffer(launch, 1, layout->out_bytes, &placement->out);
    }
    placement->copies_in |= placement->in != in;
    placement->copies_out |= placement->out != out;
    return status;
}

int weiri_host_read_post(weiri_host_launch *launch, int rank)
{
    weiri_coll *coll = launch->host->coll;
    const weiri_context *context = launch->context;
    char **base = launch->own->bases + rank * WEIR_PLAN_BUFFERS;
    const char *in = NULL;
    if (weir_load_acquire(&coll->areas[rank].post[coll->epoch & 1]->flag) < coll->epoch)
        return 0;
    if (context->in_place) {
        launch->status = weiri_post_out(coll, rank, NULL, &base[0]);
        base[1] = base[0] + weiri_region_out_offset(context, rank);
        base[0] += weiri_region_in_offset(context, rank);
    } else {
        if (context->reached[0])
            launch->status = weiri_post_in(coll, rank, NULL, &in);
        if (context->reached[1] && launch->status == WEIR_OK)
            launch->status = weiri_post_out(coll, rank, NULL, &base[1]);
        base[0] = (char *)in;
    }
    launch->unread &= ~(UINT64_C(1) << rank);
    return launch->status == WEIR_OK ? 1 : -1;
}

/* Begins an epoch of the collectives' areas, and says where the own buffers are. */
static weir_status post(weiri_host_launch *launch, const weiri_placement *placement)
{
    const weiri_plan_layout *layout = &launch->context->layout;
    weiri_coll *coll = launch->host->coll;
    const int *reached = launch->context->reached;
    weir_status status = weiri_coll_begin(coll);
    if (status != WEIR_OK)
        return status;
    weiri_post *own = coll->areas[coll->rank].post[coll->epoch & 1];
    const weiri_desc none = {0, 0, 0};
    if (placement->one_region) {
        own->in = none;
        own->out =
            weiri_region_describe(coll->comm, placement->region, placement->region_bytes);
    } else {
        own->in = reached[0] ? weiri_region_describe(coll->comm, placement->in, layout->in_bytes)
                             : none;
        own->out = reached[1]
                       ? weiri_region_describe(coll->comm, placement->out, layout->out_bytes)
                       : none;
    }
    weir_store_release(&own->flag, coll->epoch);
    for (int rank = 0; rank < coll->nranks; rank++)
        launch->unread |= rank != coll->rank ? UINT64_C(1) << rank : 0;
    return WEIR_OK;
}

/* After the blocks' ends: this rank reads no posts any more. */
static void end_posts(const weiri_host_launch *launch)
{
    if (!is_posted(launch, 0) && !is_posted(launch, 1))
        return;
    if (launch->unread)
        weiri_coll_end(launch->host->coll);
    else
        weiri_coll_end_all_heard(launch->host->coll);
}

/* The addresses of all ranks' buffers, as far as this rank can reach them. */
static weir_status find_bases(weiri_host_launch *launch, const weiri_placement *placement)
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
    if (!is_posted(launch, 0) && !is_posted(launch, 1))
        return WEIR_OK;
    return post(launch, placement);
}

/* Begins at the initial values, whatever the last launch left. */
static void rewind_program(weiri_host_launch *launch)
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
        launch->own->meetings[i] = 0;
}

/* Of a reduction to one rank, only that one's output is written. */
static int has_result(const weiri_context *context)
{
    return context->collective != WEIR_COLL_REDUCE || context->root < 0 ||
           context->root == context->program->rank;
}

/* The average: what was summed is divided. */
static void divide(const weiri_host_launch *launch, const weiri_plan_call *call, char *out)
{
    const void *sums[] = {out};
    if (call->op != WEIR_AVG || !launch->context->reduces || !has_result(launch->context))
        return;
    weiri_reduce(out, sums, 1, launch->context->layout.out_bytes / call->element_bytes,
                 call->dtype, WEIR_AVG, (uint64_t)launch->program->nranks, 0);
}

static weir_status run(weir_executor *executor, weiri_context *context,
                       const weiri_plan_call *call)
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
        .flag = (uint32_t)(++own->launches % UINT32_MAX) + 1,
        .total_bytes = layout->in_bytes > layout->out_bytes ? layout->in_bytes : layout->out_bytes,
        .element_bytes = call->element_bytes,
        .reduce = weiri_reduce_get(call->dtype, call->op == WEIR_AVG ? WEIR_SUM : call->op),
    };
    weiri_placement placement = weiri_executor_place(context, context->program->rank, call);
    weir_status status = find_buffers(&launch, &placement);
    if (status != WEIR_OK) {
        weir_comm_abort(executor->comm); /* peers would wait for this rank */
        return status;
    }
    if (placement.copies_in && call->in)
        weiri_copy(placement.in, call->in, layout->in_bytes);
    rewind_program(&launch);
    status = find_bases(&launch, &placement);
    if (status == WEIR_OK)
        status = weiri_host_interpret(&launch);
    if (status != WEIR_OK)
        return status;
    end_posts(&launch);
    divide(&launch, call, placement.out);
    if (placement.copies_out && call->out && has_result(context))
        weiri_copy(call->out, placement.out, layout->out_bytes);
    return WEIR_OK;
}

/* ----------------------------------------------------------------- executor */

static weir_status open_host(weir_executor *executor)
{
    weiri_host *host = calloc(1, sizeof *host);
    if (!host)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for an executor");
    host->here = weiri_comm_here(executor->comm);
    weir_status status = weiri_coll_get(host->here, &host->coll);
    if (status == WEIR_OK)
        executor->own = host;
    else
        free(host);
    return status;
}

static weir_status settle(weir_executor *executor)
{
    weir_status status = WEIR_OK;
    for (int i = 0; i < executor->ncontexts && status == WEIR_OK; i++)
        status = weiri_host_ports_settle(executor, executor->contexts[i]);
    return status;
}

static void close_host(weir_executor *executor)
{
    weiri_host_ports_close(executor);
    free(executor->own);
}

const weiri_executor_ops weiri_executor_host = {
    .open = open_host,
    .prepare = prepare,
    .run = run,
    .settle = settle,
    .release = release,
    .close = close_host,
};
