/*
 * Plans into programs (program.h): operations into steps, references into operands, channels
 * and barriers into numbers. Everything is resolved for one rank and one call's lengths, so
 * that executors look nothing up. Here are channels, and the program as one piece of memory.
 */
#include "plan/compile/compiler.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

void *weiri_compile_append(weiri_compiler *to, void *list, uint32_t *count, size_t element_bytes)
{
    void *made = to->failed ? NULL : weiri_plan_append(list, count, element_bytes);
    to->failed |= !made;
    return made;
}

/* ----------------------------------------------------------------- channels */

static uint32_t count_links(const weir_plan *plan, weiri_plan_channel type, int from, int to)
{
    const weiri_plan_gpu *gpu = &plan->gpus[from];
    uint32_t count = 0;
    for (uint32_t i = 0; i < gpu->nlinks[type]; i++)
        count += gpu->links[type][i].peer == to;
    return count;
}

/* Channels between two ranks: as many as the end that lists more of them. */
static uint32_t count_channels(const weir_plan *plan, weiri_plan_channel type, int a, int b)
{
    const uint32_t of_a = count_links(plan, type, a, b), of_b = count_links(plan, type, b, a);
    return of_a > of_b ? of_a : of_b;
}

/* The first counter at a rank of the signals that another one sends it; with `from` behind
 * the last rank, the number of its counters. */
static uint32_t first_counter(const weir_plan *plan, int at, int from)
{
    uint32_t first = 0;
    for (int rank = 0; rank < from; rank++)
        if (rank != at)
            first += count_channels(plan, WEIRI_PLAN_MEMORY, at, rank);
    return first;
}

static void add_channel(weiri_compiler *to, weiri_plan_channel type, int peer, int ordinal)
{
    weiri_channel *made =
        weiri_compile_append(to, &to->channels, &to->head.nchannels, sizeof *made);
    if (!made)
        return;
    *made = (weiri_channel){
        .peer = peer, .ordinal = ordinal, .is_port = type == WEIRI_PLAN_PORT};
    if (type == WEIRI_PLAN_PORT)
        return;
    made->inbound = first_counter(to->plan, to->rank, peer) + (uint32_t)ordinal;
    made->outbound = first_counter(to->plan, peer, to->rank) + (uint32_t)ordinal;
}

static void add_channels(weiri_compiler *to)
{
    const weir_plan *plan = to->plan;
    for (int type = WEIRI_PLAN_MEMORY; type <= WEIRI_PLAN_PORT; type++)
        for (uint32_t i = 0; i < to->gpu->nlinks[type]; i++)
            add_channel(to, (weiri_plan_channel)type, to->gpu->links[type][i].peer,
                        to->gpu->links[type][i].ordinal);
    for (int peer = 0; peer < plan->nranks; peer++) {
        const uint32_t counters = first_counter(plan, peer, plan->nranks);
        if (counters > to->head.ncounters)
            to->head.ncounters = counters;
        if (peer == to->rank)
            continue;
        uint32_t ordinal = count_links(plan, WEIRI_PLAN_PORT, to->rank, peer);
        for (; ordinal < count_channels(plan, WEIRI_PLAN_PORT, to->rank, peer); ordinal++)
            add_channel(to, WEIRI_PLAN_PORT, peer, (int)ordinal);
    }
}

/* ---------------------------------------------------------------- the whole */

static void begin(weiri_compiler *to)
{
    const weiri_plan_layout *layout = to->layout;
    to->head.rank = to->rank;
    to->head.nranks = to->plan->nranks;
    to->head.nthreads = to->plan->nthreads;
    to->head.scratch_bytes = layout->scratch_bytes;
    to->head.nsemaphores = to->gpu->nsemaphores;
    to->head.geometry = (weiri_geometry){
        .block_bytes = layout->block_bytes,
        .block_chunks = layout->block_chunks,
        .chunk_bytes = layout->chunk_bytes,
        .slot_bytes = layout->slot_bytes,
        .half_bytes = to->plan->double_scratch ? layout->half_bytes : 0,
        .is_even = layout->block_bytes == layout->block_chunks * layout->chunk_bytes,
    };
}

/* Where a part of so many bytes begins, each on a line of its own. */
static uint64_t place(uint64_t *end, uint64_t bytes)
{
    const uint64_t at = *end;
    *end = (at + bytes + WEIR_LINE_BYTES - 1) / WEIR_LINE_BYTES * WEIR_LINE_BYTES;
    return at;
}

static void put(weiri_program *program, uint64_t at, const void *from, size_t bytes)
{
    if (bytes)
        memcpy((char *)program + at, from, bytes);
}

static weiri_program *assemble(weiri_compiler *from)
{
    weiri_program *head = &from->head;
    uint64_t end = 0;
    place(&end, sizeof *head);
    head->blocks_at = place(&end, head->nblocks * sizeof *from->blocks);
    head->steps_at = place(&end, head->nsteps * sizeof *from->steps);
    head->operands_at = place(&end, head->noperands * sizeof *from->operands);
    head->ids_at = place(&end, head->nids * sizeof *from->ids);
    head->channels_at = place(&end, head->nchannels * sizeof *from->channels);
    head->semaphores_at = place(&end, head->nsemaphores * sizeof *from->gpu->semaphores);
    head->bytes = end;
    weiri_program *made = from->failed ? NULL : calloc(1, end);
    if (!made)
        return NULL;
    *made = *head;
    put(made, head->blocks_at, from->blocks, head->nblocks * sizeof *from->blocks);
    put(made, head->steps_at, from->steps, head->nsteps * sizeof *from->steps);
    put(made, head->operands_at, from->operands, head->noperands * sizeof *from->operands);
    put(made, head->ids_at, from->ids, head->nids * sizeof *from->ids);
    put(made, head->channels_at, from->channels, head->nchannels * sizeof *from->channels);
    put(made, head->semaphores_at, from->gpu->semaphores,
        head->nsemaphores * sizeof *from->gpu->semaphores);
    return made;
}

weir_status weiri_program_compile(const weir_plan *plan, int rank,
                                  const weiri_plan_layout *layout, weiri_program **program)
{
    weiri_compiler to = {.plan = plan, .gpu = &plan->gpus[rank], .layout = layout, .rank = rank};
    begin(&to);
    add_channels(&to);
    for (uint32_t i = 0; i < to.gpu->nblocks; i++)
        weiri_compile_block(&to, &to.gpu->blocks[i]);
    weiri_program *made = assemble(&to);
    free(to.blocks);
    free(to.steps);
    free(to.operands);
    free(to.ids);
    free(to.channels);
    free(to.meetings);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory for the program of rank %d",
                          plan->file, rank);
    *program = made;
    return WEIR_OK;
}
