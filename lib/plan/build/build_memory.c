/*
 * Finds out which memory two operations of a builder share. In place, a rank's input and output
 * are the same memory; in an allgather or reduce_scatter the shorter one is the rank's block of
 * the longer one.
 */
#include "plan/build/build.h"

#include "base/contract.h"

/* Translates a chunk index of a rank's buffer to one of the longer buffer if both are the same
 * memory, and sets *buffer to that buffer. */
static uint32_t plan_build_in_memory(const weir_plan_builder *builder, int rank, int *buffer,
                                     uint32_t index)
{
    const weiri_contract *contract = weiri_contract_of((int)builder->spec.collective);
    if (!builder->spec.in_place || *buffer == WEIR_PLAN_SCRATCH)
        return index;
    int block = *buffer == WEIR_PLAN_INPUT ? weiri_contract_in_block(contract, rank)
                                           : weiri_contract_out_block(contract, rank);
    *buffer = weiri_contract_out_is_input(contract) ? WEIR_PLAN_INPUT : WEIR_PLAN_OUTPUT;
    return index + (uint32_t)(builder->spec.chunk_factor * block);
}

/* The ranks whose memory a reference of a rank points to, one bit each. */
static weiri_rank_set plan_build_ranks_of_ref(const weir_plan_builder *builder, int rank,
                                              const weiri_plan_ref *ref)
{
    if (ref->place != WEIRI_PLAN_GROUP)
        return weiri_rank_set_of((uint32_t)ref->rank);
    return builder->switches[builder->ranks[rank].switches.items[ref->rank]].has;
}

/* 1 if two references share chunks; *apart is then 0 if on every rank the shared chunks have the
 * same position in both. */
static int plan_build_refs_overlap(const weir_plan_builder *builder, int rank,
                                   const weiri_plan_ref *a, const weiri_plan_ref *b, int *apart)
{
    weiri_rank_set both =
        plan_build_ranks_of_ref(builder, rank, a) & plan_build_ranks_of_ref(builder, rank, b);
    int found = 0;
    *apart = 0;
    for (int there = 0; there < builder->spec.nranks && both >> there; there++) {
        int a_buffer = a->buffer, b_buffer = b->buffer;
        uint32_t a_first = plan_build_in_memory(builder, there, &a_buffer, a->index);
        uint32_t b_first = plan_build_in_memory(builder, there, &b_buffer, b->index);
        if (!(both >> there & 1) || a_buffer != b_buffer || a_first >= b_first + b->size ||
            b_first >= a_first + a->size)
            continue;
        found = 1;
        *apart |= a_first != b_first;
    }
    return found;
}

int weiri_build_overlap(const weir_plan_builder *builder, int rank, const weiri_plan_ref *a,
                        const weiri_plan_ref *b)
{
    int apart;
    return plan_build_refs_overlap(builder, rank, a, b, &apart);
}

int weiri_build_same_place(const weir_plan_builder *builder, int rank, const weiri_plan_ref *a,
                           const weiri_plan_ref *b)
{
    int apart;
    return plan_build_refs_overlap(builder, rank, a, b, &apart) && !apart;
}

static int plan_build_any_overlap(const weir_plan_builder *builder, int rank,
                                  const weiri_plan_ref *a, uint32_t na, const weiri_plan_ref *b,
                                  uint32_t nb, int except_packets)
{
    for (uint32_t i = 0; i < na; i++)
        for (uint32_t j = 0; j < nb; j++)
            if (!(except_packets && a[i].is_packets && b[j].is_packets) &&
                weiri_build_overlap(builder, rank, &a[i], &b[j]))
                return 1;
    return 0;
}

int weiri_build_conflict(const weir_plan_builder *builder, int rank, const weiri_build_op *a,
                         const weiri_build_op *b)
{
    int waits = b->channel != WEIRI_PLAN_PORT; /* a port does not wait for packets */
    return plan_build_any_overlap(builder, rank, a->dsts, a->ndsts, b->srcs, b->nsrcs, waits) ||
           plan_build_any_overlap(builder, rank, a->dsts, a->ndsts, b->dsts, b->ndsts, 0) ||
           plan_build_any_overlap(builder, rank, a->srcs, a->nsrcs, b->dsts, b->ndsts, 0);
}
