/*
 * The entry of a launch: decides for which plans ranks announce their buffers there, and which of
 * the plan's own signals this makes redundant; see encode.h and encoder.h.
 */
#include "plan/cuda/encoder.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* Whether a rank's operations access the input or output of another rank. */
static int reaches_peer_buffers(const weiri_plan_gpu *gpu)
{
    for (uint32_t i = 0; i < gpu->nrefs; i++)
        if (gpu->refs[i].place != WEIRI_PLAN_LOCAL && gpu->refs[i].buffer != WEIR_PLAN_SCRATCH)
            return 1;
    return 0;
}

/* Whether a rank loads from another rank's memory. */
static int loads_remotely(const weiri_plan_gpu *gpu)
{
    for (uint32_t i = 0; i < gpu->nops; i++)
        for (uint32_t s = 0; s < gpu->ops[i].nsrcs; s++)
            if (gpu->refs[gpu->ops[i].first_src + s].place != WEIRI_PLAN_LOCAL)
                return 1;
    return 0;
}

/* Marks the chunks of scratch whose packets a rank waits for. */
static void mark_awaited(const weiri_plan_gpu *gpu, unsigned char *awaited)
{
    for (uint32_t i = 0; i < gpu->nops; i++) {
        const weiri_plan_op *op = &gpu->ops[i];
        for (uint32_t s = 0; s < op->nsrcs; s++) {
            const weiri_plan_ref *ref = &gpu->refs[op->first_src + s];
            if (ref->is_packets && ref->place == WEIRI_PLAN_LOCAL && op->channel != WEIRI_PLAN_PORT)
                memset(awaited + ref->index, 1, ref->size);
        }
    }
}

static int is_in_group(const weiri_plan_gpu *gpu, const weiri_plan_ref *ref, int rank)
{
    const weiri_plan_switch *group = &gpu->switches[ref->rank];
    for (uint32_t i = 0; i < group->nranks; i++)
        if (gpu->ids[group->first_rank + i] == (uint32_t)rank)
            return 1;
    return 0;
}

/* Whether another rank awaits some of the packets that a rank sends to it. */
static int sends_awaited_packets(const weiri_plan_gpu *gpu, int at, const unsigned char *awaited)
{
    for (uint32_t i = 0; i < gpu->nops; i++) {
        const weiri_plan_op *op = &gpu->ops[i];
        for (uint32_t d = 0; d < op->ndsts; d++) {
            const weiri_plan_ref *ref = &gpu->refs[op->first_dst + d];
            if (!ref->is_packets || ref->place == WEIRI_PLAN_LOCAL ||
                (ref->place == WEIRI_PLAN_GROUP ? !is_in_group(gpu, ref, at) : ref->rank != at))
                continue;
            if (memchr(awaited + ref->index, 1, ref->size))
                return 1;
        }
    }
    return 0;
}

/* Whether a rank awaits packets of every other rank; no if memory runs out. */
static int awaits_all_peers(const weir_plan *plan, int rank)
{
    unsigned char *awaited = calloc((size_t)plan->gpus[rank].chunks[WEIR_PLAN_SCRATCH] + 1, 1);
    int all = awaited != NULL;
    if (all)
        mark_awaited(&plan->gpus[rank], awaited);
    for (int peer = 0; peer < plan->nranks && all; peer++)
        if (peer != rank)
            all = sends_awaited_packets(&plan->gpus[peer], rank, awaited);
    free(awaited);
    return all;
}

static int plan_announces(const weir_plan *plan)
{
    int safe = !plan->has_packets || plan->double_scratch;
    for (int rank = 0; rank < plan->nranks; rank++)
        if (reaches_peer_buffers(&plan->gpus[rank]))
            return 1;
    for (int rank = 0; rank < plan->nranks && safe && plan->has_packets; rank++)
        safe = awaits_all_peers(plan, rank);
    return !safe;
}

/* ----------------------------------------------------------- redundant signals */

/* How a rank uses its end of a memory channel. */
typedef struct end {
    uint32_t signaller, waiter; /* blocks: weiri_one_more_user */
    int signals_begin; /* the first signal comes before the block has moved or awaited anything */
    int awaits;        /* the first wait is not in a loop */
} end;

static int is_plain_signal(const weiri_plan_op *op)
{
    return op->kind == WEIRI_PLAN_SIGNAL_OP || op->kind == WEIRI_PLAN_RELAXED_SIGNAL_OP;
}

/* Returns 1 for the first use. */
static int note_user(uint32_t *user, uint32_t block)
{
    const int first = *user == 0;
    *user = weiri_one_more_user(*user, block);
    return first;
}

static void find_ends_of(const weiri_plan_gpu *gpu, uint32_t block, end *ends)
{
    const weiri_plan_op *ops = &gpu->ops[gpu->blocks[block].first_op];
    int begins = 1;
    for (uint32_t i = 0; i < gpu->blocks[block].nops; i++) {
        const weiri_plan_op *op = &ops[i];
        const int signals = op->channel == WEIRI_PLAN_MEMORY && weiri_plan_is_signal(op->kind);
        const int waits = op->channel == WEIRI_PLAN_MEMORY && weiri_plan_is_wait(op->kind);
        for (uint32_t k = 0; k < op->nids && (signals || waits); k++) {
            end *of = &ends[gpu->ids[op->first_id + k]];
            if (signals && note_user(&of->signaller, block))
                of->signals_begin = begins && is_plain_signal(op);
            if (waits && note_user(&of->waiter, block))
                of->awaits = !op->in_body;
        }
        begins = begins && (op->kind == WEIRI_PLAN_NOP_OP || is_plain_signal(op));
    }
}

/* The caller frees the list. NULL: no memory. */
static end *find_ends(const weiri_plan_gpu *gpu)
{
    end *ends = calloc((size_t)gpu->nlinks[WEIRI_PLAN_MEMORY] + 1, sizeof *ends);
    for (uint32_t block = 0; ends && block < gpu->nblocks; block++)
        find_ends_of(gpu, block, ends);
    return ends;
}

/* Whether the first signal from one end to the other only means that the rank's launch has begun.
 * Both ranks come to the same result. */
static int is_begin_signal(const end *from, const end *to)
{
    return from->signals_begin && from->signaller != WEIRI_SEVERAL && to->awaits &&
           to->waiter != WEIRI_SEVERAL;
}

static void compare_ends(const weir_plan *plan, int rank, int peer, const end *own,
                         const end *theirs, unsigned char *redundant)
{
    const weiri_plan_gpu *here = &plan->gpus[rank], *there = &plan->gpus[peer];
    for (uint32_t i = 0; i < here->nlinks[WEIRI_PLAN_MEMORY]; i++) {
        const weiri_plan_link *link = &here->links[WEIRI_PLAN_MEMORY][i];
        for (uint32_t j = 0; link->peer == peer && j < there->nlinks[WEIRI_PLAN_MEMORY]; j++) {
            const weiri_plan_link *back = &there->links[WEIRI_PLAN_MEMORY][j];
            if (back->peer != rank || back->ordinal != link->ordinal)
                continue;
            redundant[2 * i] = (unsigned char)is_begin_signal(&own[i], &theirs[j]);
            redundant[2 * i + 1] = (unsigned char)is_begin_signal(&theirs[j], &own[i]);
        }
    }
}

static weir_status find_redundant(const weir_plan *plan, int rank, unsigned char *redundant)
{
    end *own = find_ends(&plan->gpus[rank]), *theirs = NULL;
    int found = own != NULL;
    for (int peer = 0; peer < plan->nranks && found; peer++) {
        if (peer == rank)
            continue;
        theirs = find_ends(&plan->gpus[peer]);
        found = theirs != NULL;
        if (found)
            compare_ends(plan, rank, peer, own, theirs, redundant);
        free(theirs);
    }
    free(own);
    return found ? WEIR_OK
                 : weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory for its image", plan->file);
}

weir_status weiri_image_plan_entry(const weir_plan *plan, int rank, uint32_t nchannels,
                                   int *must_announce, unsigned char **redundant)
{
    *must_announce = !plan_announces(plan)               ? 0
                     : loads_remotely(&plan->gpus[rank]) ? WEIRI_IMAGE_ANNOUNCES_FOR_LOADS
                                                         : WEIRI_IMAGE_ANNOUNCES;
    *redundant = calloc(2 * (size_t)nchannels + 1, 1);
    if (!*redundant)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory for its image", plan->file);
    return *must_announce ? find_redundant(plan, rank, *redundant) : WEIR_OK;
}
