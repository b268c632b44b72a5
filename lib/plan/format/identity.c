/*
 * The identity of a plan: a hash of its content, equal on every rank. It is computed field by
 * field because structures have padding. File names are left out.
 */
#include "plan/format/plan.h"

static uint64_t plan_identity_mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static uint64_t plan_identity_mix_words(uint64_t hash, const uint32_t *words, uint32_t count)
{
    hash = plan_identity_mix(hash, count);
    for (uint32_t i = 0; i < count; i++)
        hash = plan_identity_mix(hash, words[i]);
    return hash;
}

static uint64_t plan_identity_mix_op(uint64_t hash, const weiri_plan_op *op)
{
    const uint32_t words[] = {op->kind,      op->channel,    (uint32_t)op->reduce_op,
                              op->first_src, op->nsrcs,      op->first_dst,
                              op->ndsts,     op->first_id,   op->nids,
                              op->barrier,   op->nblocks,    op->part,
                              op->nparts,    op->num_chunks, op->nops,
                              op->in_body};
    return plan_identity_mix(plan_identity_mix_words(hash, words, sizeof words / sizeof *words),
                             op->unit_bytes);
}

static uint64_t plan_identity_mix_ref(uint64_t hash, const weiri_plan_ref *ref)
{
    hash = plan_identity_mix(hash, (uint64_t)ref->place << 16 | (uint64_t)ref->buffer << 8 |
                                       ref->is_packets);
    hash = plan_identity_mix(hash, (uint64_t)(uint32_t)ref->rank << 32 | ref->index);
    return plan_identity_mix(hash, ref->size);
}

static uint64_t plan_identity_mix_channels(uint64_t hash, const weiri_plan_gpu *gpu)
{
    for (int type = WEIRI_PLAN_MEMORY; type <= WEIRI_PLAN_PORT; type++) {
        hash = plan_identity_mix(hash, gpu->nlinks[type]);
        for (uint32_t i = 0; i < gpu->nlinks[type]; i++)
            hash = plan_identity_mix(hash, (uint64_t)(uint32_t)gpu->links[type][i].peer);
    }
    for (uint32_t i = 0; i < gpu->nswitches; i++) {
        const weiri_plan_switch *group = &gpu->switches[i];
        hash = plan_identity_mix_words(plan_identity_mix(hash, group->buffer),
                                       gpu->ids + group->first_rank, group->nranks);
    }
    return plan_identity_mix_words(hash, gpu->semaphores, gpu->nsemaphores);
}

static uint64_t plan_identity_mix_gpu(uint64_t hash, const weiri_plan_gpu *gpu)
{
    hash = plan_identity_mix_channels(plan_identity_mix_words(hash, gpu->chunks, WEIR_PLAN_BUFFERS),
                                      gpu);
    hash = plan_identity_mix_words(hash, gpu->ids, gpu->nids);
    for (uint32_t i = 0; i < gpu->nblocks; i++) {
        const uint32_t words[] = {gpu->blocks[i].id, gpu->blocks[i].first_op, gpu->blocks[i].nops};
        hash = plan_identity_mix_words(hash, words, 3);
    }
    for (uint32_t i = 0; i < gpu->nops; i++)
        hash = plan_identity_mix_op(hash, &gpu->ops[i]);
    for (uint32_t i = 0; i < gpu->nrefs; i++)
        hash = plan_identity_mix_ref(hash, &gpu->refs[i]);
    return hash;
}

uint64_t weiri_plan_identity(const weir_plan *plan)
{
    uint64_t hash = plan_identity_mix(0, (uint64_t)plan->nranks);
    for (const char *c = plan->name; *c; c++)
        hash = plan_identity_mix(hash, (unsigned char)*c);
    for (const char *c = plan->collective_name; *c; c++)
        hash = plan_identity_mix(hash, (unsigned char)*c);
    hash = plan_identity_mix(hash, (uint64_t)plan->in_place << 2 |
                                       (uint64_t)plan->double_scratch << 1 |
                                       (uint64_t)plan->has_packets);
    hash = plan_identity_mix(hash, plan->nthreads);
    hash = plan_identity_mix(hash, plan->alignment);
    hash = plan_identity_mix(plan_identity_mix(hash, plan->min_bytes), plan->max_bytes);
    for (int rank = 0; rank < plan->nranks; rank++)
        hash = plan_identity_mix_gpu(hash, &plan->gpus[rank]);
    return hash ? hash : 1;
}
