/*
 * Validates the structure of a plan: ranges, limits, and which references and channels an
 * operation may have. Each operation is checked by itself; the checker (plan/check) proves
 * properties of the whole plan.
 */
#include "plan/format/layout.h"

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NO_RANK = -1 };
#define NO_OP UINT32_MAX

/* The position of the validation. */
typedef struct position {
    const weir_plan *plan;
    int rank;
    uint32_t block, op;
} position;

__attribute__((format(printf, 2, 3))) static weir_status
plan_validate_reject(const position *at, const char *format, ...)
{
    char where[WEIRI_PLAN_WHERE_BYTES], what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    weiri_plan_where(at->plan, at->rank, at->block, at->op, where);
    return weiri_fail(WEIR_ERR_INVALID, "%s: %s", where, what);
}

/* ------------------------------------------------------------------- the plan */

static weir_status plan_validate_numbers(const position *at)
{
    const weir_plan *plan = at->plan;
    if (plan->nranks < 1 || plan->nranks > WEIRI_PLAN_RANKS_MAX)
        return plan_validate_reject(at, "gpus has %d entries; expected 1 to %d", plan->nranks,
                                    WEIRI_PLAN_RANKS_MAX);
    if (plan->nthreads < 1 || plan->nthreads > WEIRI_PLAN_THREADS_MAX)
        return plan_validate_reject(at, "num_threads_per_block is %u; expected 1 to %d",
                                    plan->nthreads, WEIRI_PLAN_THREADS_MAX);
    if (plan->alignment < 8 || plan->alignment > WEIRI_PLAN_ALIGNMENT_MAX ||
        (plan->alignment & (plan->alignment - 1)))
        return plan_validate_reject(at,
                                    "buffer_alignment is %u; expected a power of two from 8 to %d",
                                    plan->alignment, WEIRI_PLAN_ALIGNMENT_MAX);
    if (plan->min_bytes > plan->max_bytes)
        return plan_validate_reject(at, "min_message_size is more than max_message_size");
    return WEIR_OK;
}

/* Every rank must divide the blocks of its input and output into the same number of chunks. */
static weir_status plan_validate_chunks(position *at)
{
    static const char *const keys[] = {"input_chunks", "output_chunks", "scratch_chunks"};
    const weir_plan *plan = at->plan;
    uint32_t of_block = weiri_plan_block_chunks(plan);
    if (of_block == 0)
        return plan_validate_reject(
            at, "neither input nor output has a chunk for each block of the collective (%s)",
            plan->collective_name);
    for (at->rank = 0; at->rank < plan->nranks; at->rank++) {
        const uint32_t *chunks = plan->gpus[at->rank].chunks;
        for (int buffer = 0; buffer < WEIR_PLAN_BUFFERS; buffer++) {
            uint32_t blocks = weiri_plan_blocks(plan, (weir_plan_buffer)buffer);
            if (chunks[buffer] > WEIRI_PLAN_CHUNKS_MAX)
                return plan_validate_reject(at, "%s is %u; expected at most %d", keys[buffer],
                                            chunks[buffer], WEIRI_PLAN_CHUNKS_MAX);
            if (buffer != WEIR_PLAN_SCRATCH && chunks[buffer] &&
                chunks[buffer] != blocks * of_block)
                return plan_validate_reject(at, "%s is %u; expected %u: %u blocks of %u chunks",
                                            keys[buffer], chunks[buffer], blocks * of_block, blocks,
                                            of_block);
        }
    }
    at->rank = NO_RANK;
    return WEIR_OK;
}

/* -------------------------------------------------------------------- a rank */

static weir_status plan_validate_rank_number(const position *at, const char *what, int64_t rank,
                                             int own_too)
{
    if (rank < 0 || rank >= at->plan->nranks)
        return plan_validate_reject(at, "%s names rank %lld; the plan has ranks 0 to %d", what,
                                    (long long)rank, at->plan->nranks - 1);
    if (!own_too && rank == at->rank)
        return plan_validate_reject(at, "%s names the rank itself; expected a peer", what);
    return WEIR_OK;
}

static weir_status plan_validate_switch(const position *at, const weiri_plan_switch *group)
{
    const weiri_plan_gpu *gpu = &at->plan->gpus[at->rank];
    weiri_rank_set seen = 0;
    weir_status status = WEIR_OK;
    for (uint32_t i = 0; i < group->nranks && status == WEIR_OK; i++) {
        uint32_t rank = gpu->ids[group->first_rank + i];
        status = plan_validate_rank_number(at, "a switch channel", rank, 1);
        if (status == WEIR_OK && weiri_rank_set_has(seen, rank))
            return plan_validate_reject(at, "a switch channel names rank %u twice", rank);
        seen |= status == WEIR_OK ? weiri_rank_set_of(rank) : 0;
    }
    if (status == WEIR_OK && !weiri_rank_set_has(seen, (uint32_t)at->rank))
        return plan_validate_reject(at,
                                    "the ranks of a switch channel do not include the rank itself");
    return status;
}

static weir_status plan_validate_resources(const position *at)
{
    const weiri_plan_gpu *gpu = &at->plan->gpus[at->rank];
    weir_status status = WEIR_OK;
    for (int type = WEIRI_PLAN_MEMORY; type <= WEIRI_PLAN_PORT && status == WEIR_OK; type++) {
        if (gpu->nlinks[type] > WEIRI_PLAN_CHANNELS_MAX)
            return plan_validate_reject(at, "%u channels; expected at most %d", gpu->nlinks[type],
                                        WEIRI_PLAN_CHANNELS_MAX);
        for (uint32_t i = 0; i < gpu->nlinks[type] && status == WEIR_OK; i++)
            status = plan_validate_rank_number(at, "connected_to", gpu->links[type][i].peer, 0);
    }
    for (uint32_t i = 0; i < gpu->nremotes && status == WEIR_OK; i++)
        status = plan_validate_rank_number(at, "remote_buffers", gpu->remotes[i].rank, 0);
    for (uint32_t i = 0; i < gpu->nswitches && status == WEIR_OK; i++)
        status = plan_validate_switch(at, &gpu->switches[i]);
    if (status == WEIR_OK &&
        (gpu->nblocks > WEIRI_PLAN_BLOCKS_MAX || gpu->nops > WEIRI_PLAN_OPS_MAX))
        return plan_validate_reject(
            at, "%u thread blocks with %u operations; expected at most %d with %d", gpu->nblocks,
            gpu->nops, WEIRI_PLAN_BLOCKS_MAX, WEIRI_PLAN_OPS_MAX);
    return status;
}

/* Numbers the channels of each type to each peer in the order in which the rank lists them. */
static void plan_validate_number_links(weiri_plan_gpu *gpu)
{
    for (int type = WEIRI_PLAN_MEMORY; type <= WEIRI_PLAN_PORT; type++) {
        int32_t next[WEIRI_PLAN_RANKS_MAX] = {0};
        for (uint32_t i = 0; i < gpu->nlinks[type]; i++)
            gpu->links[type][i].ordinal = next[gpu->links[type][i].peer]++;
    }
}

/* --------------------------------------------------------------- an operation */

/* The letter of `places` for source or destination i. */
static char plan_validate_place_letter(const char *places, int is_dst, uint32_t i)
{
    if (!is_dst)
        return places[i ? 1 : 0];
    return places[2 + (i > 2 ? 2 : i)];
}

static int plan_validate_is_packet_ref(int packets, int is_dst, uint32_t i)
{
    if (!is_dst)
        return packets & (i ? WEIRI_PLAN_PACKETS_REST : WEIRI_PLAN_PACKETS_SRC0);
    return packets & (i ? WEIRI_PLAN_PACKETS_DSTS : WEIRI_PLAN_PACKETS_DST0);
}

/* Chunks of the buffer that a reference points into; for a group, on the rank with the fewest. */
static uint32_t plan_validate_chunks_there(const weir_plan *plan, int own,
                                           const weiri_plan_ref *ref)
{
    const weiri_plan_gpu *gpu = &plan->gpus[own];
    if (ref->place != WEIRI_PLAN_GROUP)
        return plan->gpus[ref->place == WEIRI_PLAN_LOCAL ? own : ref->rank].chunks[ref->buffer];
    const weiri_plan_switch *group = &gpu->switches[ref->rank];
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < group->nranks; i++) {
        uint32_t there = plan->gpus[gpu->ids[group->first_rank + i]].chunks[ref->buffer];
        least = there < least ? there : least;
    }
    return least;
}

static weir_status plan_validate_ref(const position *at, const weiri_plan_op *op, int is_dst,
                                     uint32_t i)
{
    static const char letters[] = "lrg";
    static const char *const words[] = {"local", "remote", "switch"};
    const weiri_plan_trait *trait = &weiri_plan_traits[op->kind];
    weiri_plan_gpu *gpu = &at->plan->gpus[at->rank];
    weiri_plan_ref *ref = &gpu->refs[(is_dst ? op->first_dst : op->first_src) + i];
    const char *side = is_dst ? "dst_buff" : "src_buff";
    char letter = plan_validate_place_letter(trait->places, is_dst, i);
    if (letter == '-')
        return plan_validate_reject(at, "%s has more than %u references", side, i);
    if (letter != letters[ref->place])
        return plan_validate_reject(at, "%s[%u] is a %s reference; expected a %s one", side, i,
                                    words[ref->place], words[strchr(letters, letter) - letters]);
    uint32_t there = plan_validate_chunks_there(at->plan, at->rank, ref);
    if (ref->size == 0 || ref->size > there || ref->index > there - ref->size)
        return plan_validate_reject(at, "%s[%u] is chunks %u to %llu of buffer '%c'; it has %u",
                                    side, i, ref->index,
                                    (unsigned long long)ref->index + ref->size - 1,
                                    weiri_plan_buffer_letters[ref->buffer], there);
    int port_packets = op->kind == WEIRI_PLAN_PUT_PACKETS_OP && op->channel == WEIRI_PLAN_PORT;
    ref->is_packets = plan_validate_is_packet_ref(trait->packets, is_dst, i) || port_packets;
    if (ref->is_packets && ref->buffer != WEIR_PLAN_SCRATCH)
        return plan_validate_reject(at,
                                    "%s[%u] holds packets in buffer '%c'; expected scratch, 's'",
                                    side, i, weiri_plan_buffer_letters[ref->buffer]);
    return WEIR_OK;
}

/* Checks the number of references, and that their sizes agree. */
static weir_status plan_validate_refs(const position *at, const weiri_plan_op *op)
{
    const weiri_plan_gpu *gpu = &at->plan->gpus[at->rank];
    weiri_plan_mode mode = weiri_plan_traits[op->kind].mode;
    weir_status status = WEIR_OK;
    if (mode == WEIRI_PLAN_SYNC || mode == WEIRI_PLAN_LOOP)
        return op->nsrcs + op->ndsts
                   ? plan_validate_reject(
                         at, "the operation moves no data; expected neither src_buff nor dst_buff")
                   : WEIR_OK;
    if (op->nsrcs == 0 || op->ndsts == 0)
        return plan_validate_reject(at, "src_buff or dst_buff is missing or empty");
    if (op->nsrcs > WEIRI_PLAN_REFS_MAX || op->ndsts > WEIRI_PLAN_REFS_MAX)
        return plan_validate_reject(at, "%u sources and %u destinations; expected at most %d",
                                    op->nsrcs, op->ndsts, WEIRI_PLAN_REFS_MAX);
    if (mode == WEIRI_PLAN_PAIRS && op->nsrcs != op->ndsts)
        return plan_validate_reject(at, "%u sources for %u destinations; expected equal numbers",
                                    op->nsrcs, op->ndsts);
    for (uint32_t i = 0; i < op->nsrcs && status == WEIR_OK; i++)
        status = plan_validate_ref(at, op, 0, i);
    for (uint32_t i = 0; i < op->ndsts && status == WEIR_OK; i++)
        status = plan_validate_ref(at, op, 1, i);
    uint32_t size = gpu->refs[op->first_src].size;
    for (uint32_t i = 0; i < op->nsrcs && status == WEIR_OK; i++)
        if (mode != WEIRI_PLAN_PAIRS && gpu->refs[op->first_src + i].size != size)
            return plan_validate_reject(at, "src_buff[%u] differs in size from src_buff[0]", i);
    for (uint32_t i = 0; i < op->ndsts && status == WEIR_OK; i++) {
        uint32_t expected = mode == WEIRI_PLAN_PAIRS ? gpu->refs[op->first_src + i].size : size;
        if (gpu->refs[op->first_dst + i].size != expected)
            return plan_validate_reject(at, "dst_buff[%u] differs in size from its source", i);
    }
    return status;
}

/* A put over ports or with a signal needs, for each destination, a channel to its rank. */
static weir_status plan_validate_put_channels(const position *at, const weiri_plan_op *op)
{
    const weiri_plan_gpu *gpu = &at->plan->gpus[at->rank];
    if (op->nids != op->ndsts)
        return plan_validate_reject(at, "%u channel_ids for %u destinations; expected one each",
                                    op->nids, op->ndsts);
    for (uint32_t i = 0; i < op->ndsts; i++) {
        int peer = gpu->links[op->channel][gpu->ids[op->first_id + i]].peer;
        int there = gpu->refs[op->first_dst + i].rank;
        if (peer != there)
            return plan_validate_reject(
                at, "channel_ids[%u] leads to rank %d, dst_buff[%u] is rank %d's", i, peer, i,
                there);
    }
    return WEIR_OK;
}

static weir_status plan_validate_channels(const position *at, const weiri_plan_op *op)
{
    static const char letters[] = "mps";
    const char *allowed = weiri_plan_traits[op->kind].channels;
    const weiri_plan_gpu *gpu = &at->plan->gpus[at->rank];
    if (op->channel == WEIRI_PLAN_NO_CHANNEL)
        return *allowed ? plan_validate_reject(at, "channel_type is missing") : WEIR_OK;
    if (!*allowed) /* the DSL writes a channel type for some operations that use no channel */
        return WEIR_OK;
    if (!strchr(allowed, letters[op->channel]))
        return plan_validate_reject(at, "the operation does not support channel_type %s",
                                    weiri_plan_channel_name(op->channel));
    if (op->channel == WEIRI_PLAN_SWITCH)
        return WEIR_OK;
    for (uint32_t i = 0; i < op->nids; i++)
        if (gpu->ids[op->first_id + i] >= gpu->nlinks[op->channel])
            return plan_validate_reject(at, "channel_ids[%u] is beyond the rank's %u %s channels",
                                        i, gpu->nlinks[op->channel],
                                        weiri_plan_channel_name(op->channel));
    int signals = weiri_plan_is_put_signal(op->kind);
    if (weiri_plan_traits[op->kind].mode == WEIRI_PLAN_SYNC && op->nids == 0)
        return plan_validate_reject(at, "channel_ids is missing or empty");
    return signals || (op->ndsts && op->channel == WEIRI_PLAN_PORT)
               ? plan_validate_put_channels(at, op)
               : WEIR_OK;
}

static weir_status plan_validate_sync(const position *at, const weiri_plan_op *op)
{
    const weiri_plan_gpu *gpu = &at->plan->gpus[at->rank];
    if (op->kind == WEIRI_PLAN_BARRIER_OP &&
        (op->nblocks < 1 || op->nblocks > gpu->nblocks || op->barrier >= WEIRI_PLAN_BLOCKS_MAX))
        return plan_validate_reject(
            at, "barrier %u of %u thread blocks; expected an id below %d and 1 to %u", op->barrier,
            op->nblocks, WEIRI_PLAN_BLOCKS_MAX, gpu->nblocks);
    if (op->kind != WEIRI_PLAN_SEM_ACQUIRE_OP && op->kind != WEIRI_PLAN_SEM_RELEASE_OP)
        return WEIR_OK;
    if (op->nids == 0)
        return plan_validate_reject(at, "semaphore_ids is missing or empty");
    for (uint32_t i = 0; i < op->nids; i++)
        if (gpu->ids[op->first_id + i] >= gpu->nsemaphores)
            return plan_validate_reject(at, "semaphore_ids[%u] is beyond the rank's %u semaphores",
                                        i, gpu->nsemaphores);
    return WEIR_OK;
}

static weir_status plan_validate_pipeline(const position *at, const weiri_plan_op *op,
                                          uint32_t ops_left)
{
    if (op->kind != WEIRI_PLAN_PIPELINE_OP)
        return WEIR_OK;
    if (op->in_body)
        return plan_validate_reject(at, "pipelines cannot be nested");
    if (op->unit_bytes == 0 || op->unit_bytes % at->plan->alignment ||
        op->unit_bytes > UINT64_C(1) << 40)
        return plan_validate_reject(
            at, "unit_size is %llu; expected a multiple of buffer_alignment, %u",
            (unsigned long long)op->unit_bytes, at->plan->alignment);
    if (op->num_chunks < 1 || op->num_chunks > WEIRI_PLAN_CHUNKS_MAX)
        return plan_validate_reject(at, "num_chunks is %u; expected 1 to %d", op->num_chunks,
                                    WEIRI_PLAN_CHUNKS_MAX);
    if (op->nops < 1 || op->nops > ops_left)
        return plan_validate_reject(at, "the pipeline has no operations");
    return WEIR_OK;
}

static weir_status plan_validate_op(const position *at)
{
    const weiri_plan_gpu *gpu = &at->plan->gpus[at->rank];
    const weiri_plan_block *block = &gpu->blocks[at->block];
    const weiri_plan_op *op = &gpu->ops[block->first_op + at->op];
    if (op->nparts < 1 || op->part >= op->nparts || op->nparts > WEIRI_PLAN_BLOCKS_MAX)
        return plan_validate_reject(at, "part %u of %u (tbg_info); expected one of 1 to %d",
                                    op->part, op->nparts, WEIRI_PLAN_BLOCKS_MAX);
    weir_status status = plan_validate_channels(at, op);
    if (status == WEIR_OK)
        status = plan_validate_sync(at, op);
    if (status == WEIR_OK)
        status = plan_validate_pipeline(at, op, block->nops - at->op - 1);
    return status == WEIR_OK ? plan_validate_refs(at, op) : status;
}

weir_status weiri_plan_validate(weir_plan *plan)
{
    position at = {plan, NO_RANK, NO_OP, NO_OP};
    weir_status status = plan_validate_numbers(&at);
    if (status == WEIR_OK)
        status = plan_validate_chunks(&at);
    for (at.rank = 0; at.rank < plan->nranks && status == WEIR_OK; at.rank++) {
        status = plan_validate_resources(&at);
        if (status == WEIR_OK)
            plan_validate_number_links(&plan->gpus[at.rank]);
    }
    for (at.rank = 0; at.rank < plan->nranks && status == WEIR_OK; at.rank++) {
        const weiri_plan_gpu *gpu = &plan->gpus[at.rank];
        plan->has_packets |= weiri_plan_gpu_has_packets(gpu);
        for (at.block = 0; at.block < gpu->nblocks && status == WEIR_OK; at.block++)
            for (at.op = 0; at.op < gpu->blocks[at.block].nops && status == WEIR_OK; at.op++)
                status = plan_validate_op(&at);
    }
    if (status == WEIR_OK)
        plan->identity = weiri_plan_identity(plan);
    return status;
}
