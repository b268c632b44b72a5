/* Creates and frees the contexts of the host backend; run_host.h describes their memory. */
#include "plan/host/run_host.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* Shortest chunk for separate flags; the flags of shorter chunks would share cache lines. */
enum { SEPARATE_FLAGS_MIN_BYTES = 128 };

static uint64_t plan_host_round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* ----------------------------------------------------------------- prepare */

/* A rank whose memory a step addresses although this rank cannot map it; -1: none. */
static int plan_host_find_unmapped(const weir_executor *executor, const weiri_program *program,
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

static weir_status plan_host_check_mapped(const weir_executor *executor,
                                          const weiri_plan_context *context)
{
    const weiri_program *program = context->program;
    const weiri_program_block *blocks = weiri_program_blocks(program);
    const weiri_step *steps = weiri_program_steps(program);
    char where[WEIRI_PLAN_WHERE_BYTES];
    for (uint32_t i = 0; i < program->nblocks; i++)
        for (uint32_t s = 0; s < blocks[i].nsteps; s++) {
            const weiri_step *step = &steps[blocks[i].first_step + s];
            const int rank = plan_host_find_unmapped(executor, program, step);
            if (rank >= 0)
                return weiri_fail(WEIR_ERR_UNSUPPORTED,
                                  "%s: a memory or switch channel to rank %d, which is on another "
                                  "node; use port channels between nodes",
                                  weiri_step_where(context, &blocks[i], step, where), rank);
        }
    return WEIR_OK;
}

static void plan_host_lay_out_arena(const weir_executor *executor,
                                    const weiri_plan_context *context, weiri_host_context *own)
{
    const weiri_plan_layout *layout = &context->layout;
    const int reached = context->reached[0] | context->reached[1];
    uint64_t at = plan_host_round_up(context->program->ncounters * sizeof(weiri_word), 4096);
    own->scratch_at = at;
    at = plan_host_round_up(at + layout->scratch_bytes, 4096);
    own->in_at = own->out_at = at;
    own->has_separate_flags = context->only_packets && !context->has_ports &&
                              layout->chunk_bytes >= SEPARATE_FLAGS_MIN_BYTES;
    own->flags_at = layout->half_bytes / 2;
    own->is_fixed = (reached & WEIRI_REACHED_BY_PORTS) ||
                    ((reached & WEIRI_REACHED_BY_PEERS) && executor->comm->internode);
    if (own->is_fixed && context->in_place) {
        at += layout->in_bytes > layout->out_bytes ? layout->in_bytes : layout->out_bytes;
    } else if (own->is_fixed) {
        own->out_at = plan_host_round_up(at + layout->in_bytes, 4096);
        at = own->out_at + layout->out_bytes;
    }
    own->arena_bytes = at;
}

static weir_status plan_host_allocate(const weiri_plan_context *context, weiri_host_context *own)
{
    const weiri_program *program = context->program;
    const size_t unpacked = ((size_t)program->sources_most + 1) * WEIRI_HOST_PACKET_BLOCK;
    const size_t chunks =
        context->layout.slot_bytes ? context->layout.half_bytes / context->layout.slot_bytes : 0;
    own->arenas = calloc((size_t)program->nranks, sizeof *own->arenas);
    own->bases = calloc((size_t)program->nranks * WEIR_PLAN_BUFFERS, sizeof *own->bases);
    own->channels = calloc(program->nchannels + 1u, sizeof *own->channels);
    own->sems = calloc(program->nchannels + 1u, sizeof *own->sems);
    own->semaphores = calloc(program->nsemaphores + 1u, sizeof *own->semaphores);
    own->barriers = calloc(program->nbarriers + 1u, sizeof *own->barriers);
    own->blocks = calloc(program->nblocks + 1u, sizeof *own->blocks);
    own->sources = calloc(program->sources_most + 1u, sizeof *own->sources);
    own->unpacked = malloc(unpacked);
    own->senders = malloc(chunks + 1);
    if (!own->arenas || !own->bases || !own->channels || !own->sems || !own->semaphores ||
        !own->barriers || !own->blocks || !own->sources || !own->unpacked || !own->senders)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory to run the plan", context->name);
    memset(own->senders, -1, chunks + 1);
    return WEIR_OK;
}

static void plan_host_note_sender(const weir_plan *plan, int from, const weiri_plan_ref *ref,
                                  int to, int8_t *senders)
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

/* Finds the rank that puts packets to each chunk of a rank's scratch, for messages. */
static void plan_host_find_senders(const weir_plan *plan, int rank, int8_t *senders)
{
    for (int from = 0; from < plan->nranks; from++) {
        const weiri_plan_gpu *gpu = &plan->gpus[from];
        for (uint32_t i = 0; i < gpu->nops; i++)
            for (uint32_t r = 0; r < gpu->ops[i].ndsts; r++)
                plan_host_note_sender(plan, from, &gpu->refs[gpu->ops[i].first_dst + r], rank,
                                      senders);
    }
}

/* Exchanges handles of the arenas, and imports those that this rank reaches. Collective; the status
 * is agreed up to the exchange. */
static weir_status plan_host_exchange_arenas(weir_executor *executor, weiri_plan_context *context,
                                             weiri_host_context *own, weir_status status)
{
    weir_comm *comm = executor->comm;
    const size_t n = (size_t)comm->nranks;
    weir_mem_handle *handles = calloc(n, sizeof *handles);
    if (!handles && status == WEIR_OK)
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory to run the plan", context->name);
    if (status == WEIR_OK)
        status = weir_mem_export(own->arena, &handles[comm->rank]);
    status = weir_boot_agree(comm->boot, status);
    if (status == WEIR_OK)
        status = weir_boot_allgather(comm->boot, handles, sizeof *handles);
    for (int rank = 0; rank < comm->nranks && status == WEIR_OK; rank++)
        if (rank != comm->rank &&
            (weiri_comm_maps(comm, rank) || weiri_plan_has_port(context, rank)))
            status = weir_mem_import(comm, &handles[rank], &own->arenas[rank]);
    free(handles);
    return status;
}

/* Sets the addresses of the counters of memory channels. Channels to ranks that are not mapped have
 * none; no step uses them. */
static void plan_host_join_counters(const weiri_plan_context *context, weiri_host_context *own)
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

static weir_status plan_host_prepare(weir_executor *executor, const weir_plan *plan,
                                     weiri_plan_context *context)
{
    weir_comm *comm = executor->comm;
    weiri_host_context *own = calloc(1, sizeof *own);
    weir_status status =
        own ? WEIR_OK
            : weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory to run the plan", context->name);
    context->own = own;
    if (status == WEIR_OK)
        status = plan_host_check_mapped(executor, context);
    if (status == WEIR_OK)
        status = plan_host_allocate(context, own);
    status = weir_boot_agree(comm->boot, status);
    if (status != WEIR_OK)
        return status;
    plan_host_find_senders(plan, comm->rank, own->senders);
    plan_host_lay_out_arena(executor, context, own);
    context->shared_bytes = own->arena_bytes;
    status = weiri_host_ports_connect(executor, context);
    if (status == WEIR_OK)
        status = weir_mem_alloc(comm, own->arena_bytes, &own->arena);
    status = plan_host_exchange_arenas(executor, context, own, status);
    if (status == WEIR_OK)
        status = weiri_host_ports_create(executor, context);
    status = weir_boot_agree(comm->boot, status);
    if (status == WEIR_OK)
        plan_host_join_counters(context, own);
    return status;
}

static void plan_host_release(weir_executor *executor, weiri_plan_context *context)
{
    weiri_host_context *own = context->own;
    if (!own)
        return;
    weiri_host_ports_free(context);
    for (int rank = 0; own->arenas && rank < executor->comm->nranks; rank++)
        weir_mem_free(own->arenas[rank]);
    weir_mem_free(own->arena);
    free(own->arenas);
    free(own->bases);
    free(own->channels);
    free(own->sems);
    free(own->semaphores);
    free(own->barriers);
    free(own->blocks);
    free(own->sources);
    free(own->unpacked);
    free(own->senders);
    free(own);
}

/* ----------------------------------------------------------------- executor */

static weir_status plan_host_open(weir_executor *executor)
{
    weiri_host *host = calloc(1, sizeof *host);
    if (!host)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for an executor");
    host->node = weiri_comm_node(executor->comm);
    weir_status status = weiri_coll_get(host->node, &host->coll);
    if (status == WEIR_OK)
        executor->own = host;
    else
        free(host);
    return status;
}

static weir_status plan_host_settle(weir_executor *executor)
{
    weir_status status = WEIR_OK;
    for (int i = 0; i < executor->ncontexts && status == WEIR_OK; i++)
        status = weiri_host_ports_settle(executor, executor->contexts[i]);
    return status;
}

static void plan_host_close(weir_executor *executor)
{
    weiri_host *host = executor->own;
    weiri_plan_ports_close(executor, &host->ports);
    weir_mem_free(host->stages[0]);
    weir_mem_free(host->stages[1]);
    free(host);
}

const weiri_executor_ops weiri_executor_host = {
    .open = plan_host_open,
    .prepare = plan_host_prepare,
    .run = weiri_host_run,
    .settle = plan_host_settle,
    .release = plan_host_release,
    .close = plan_host_close,
};
