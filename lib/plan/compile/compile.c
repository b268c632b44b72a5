/*
 * Compiles a plan to a program (program.h) for one rank and one layout. Operations become steps,
 * references become operands, channels and barriers become numbers, so that executors look nothing
 * up. This file numbers the channels and assembles the program as one block of memory.
 */
#include "plan/compile/compile.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------- channels */

static uint32_t plan_compile_count_links(const weir_plan *plan, weiri_plan_channel type, int from,
                                         int to)
{
    const weiri_plan_gpu *gpu = &plan->gpus[from];
    uint32_t count = 0;
    for (uint32_t i = 0; i < gpu->nlinks[type]; i++)
        count += gpu->links[type][i].peer == to;
    return count;
}

/* The number of channels between two ranks: the larger of the numbers that the two list. */
static uint32_t plan_compile_count_channels(const weir_plan *plan, weiri_plan_channel type, int a,
                                            int b)
{
    const uint32_t of_a = plan_compile_count_links(plan, type, a, b),
                   of_b = plan_compile_count_links(plan, type, b, a);
    return of_a > of_b ? of_a : of_b;
}

/* The first of the counters at rank `at` for signals from rank `from`. With from = nranks, the
 * number of counters of rank `at`. */
static uint32_t plan_compile_first_counter(const weir_plan *plan, int at, int from)
{
    uint32_t first = 0;
    for (int rank = 0; rank < from; rank++)
        if (rank != at)
            first += plan_compile_count_channels(plan, WEIRI_PLAN_MEMORY, at, rank);
    return first;
}

static void plan_compile_add_channel(weiri_compiler *to, weiri_plan_channel type, int peer,
                                     int ordinal)
{
    weiri_channel *made =
        weiri_compile_append(to, &to->channels, &to->head.nchannels, sizeof *made);
    if (!made)
        return;
    *made = (weiri_channel){.peer = peer, .ordinal = ordinal, .is_port = type == WEIRI_PLAN_PORT};
    if (type == WEIRI_PLAN_PORT)
        return;
    made->inbound = plan_compile_first_counter(to->plan, to->rank, peer) + (uint32_t)ordinal;
    made->outbound = plan_compile_first_counter(to->plan, peer, to->rank) + (uint32_t)ordinal;
}

static void plan_compile_add_channels(weiri_compiler *to)
{
    const weir_plan *plan = to->plan;
    for (int type = WEIRI_PLAN_MEMORY; type <= WEIRI_PLAN_PORT; type++)
        for (uint32_t i = 0; i < to->gpu->nlinks[type]; i++)
            plan_compile_add_channel(to, (weiri_plan_channel)type, to->gpu->links[type][i].peer,
                                     to->gpu->links[type][i].ordinal);
    for (int peer = 0; peer < plan->nranks; peer++) {
        const uint32_t counters = plan_compile_first_counter(plan, peer, plan->nranks);
        if (counters > to->head.ncounters)
            to->head.ncounters = counters;
        if (peer == to->rank)
            continue;
        uint32_t ordinal = plan_compile_count_links(plan, WEIRI_PLAN_PORT, to->rank, peer);
        for (; ordinal < plan_compile_count_channels(plan, WEIRI_PLAN_PORT, to->rank, peer);
             ordinal++)
            plan_compile_add_channel(to, WEIRI_PLAN_PORT, peer, (int)ordinal);
    }
}

/* -------------------------------------------------------------- the program */

static void plan_compile_fill_header(weiri_compiler *to)
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

/* Reserves bytes for a part of the program and returns its offset. Each part begins on a separate
 * cache line. */
static uint64_t plan_compile_reserve_part(uint64_t *end, uint64_t bytes)
{
    const uint64_t at = *end;
    *end = (at + bytes + WEIR_LINE_BYTES - 1) / WEIR_LINE_BYTES * WEIR_LINE_BYTES;
    return at;
}

static void plan_compile_copy_part(weiri_program *program, uint64_t at, const void *from,
                                   size_t bytes)
{
    if (bytes)
        memcpy((char *)program + at, from, bytes);
}

static weiri_program *plan_compile_assemble(weiri_compiler *from)
{
    weiri_program *head = &from->head;
    uint64_t end = 0;
    plan_compile_reserve_part(&end, sizeof *head);
    head->blocks_at = plan_compile_reserve_part(&end, head->nblocks * sizeof *from->blocks);
    head->steps_at = plan_compile_reserve_part(&end, head->nsteps * sizeof *from->steps);
    head->operands_at = plan_compile_reserve_part(&end, head->noperands * sizeof *from->operands);
    head->ids_at = plan_compile_reserve_part(&end, head->nids * sizeof *from->ids);
    head->channels_at = plan_compile_reserve_part(&end, head->nchannels * sizeof *from->channels);
    head->semaphores_at =
        plan_compile_reserve_part(&end, head->nsemaphores * sizeof *from->gpu->semaphores);
    head->bytes = end;
    weiri_program *made = from->failed ? NULL : calloc(1, end);
    if (!made)
        return NULL;
    *made = *head;
    plan_compile_copy_part(made, head->blocks_at, from->blocks,
                           head->nblocks * sizeof *from->blocks);
    plan_compile_copy_part(made, head->steps_at, from->steps, head->nsteps * sizeof *from->steps);
    plan_compile_copy_part(made, head->operands_at, from->operands,
                           head->noperands * sizeof *from->operands);
    plan_compile_copy_part(made, head->ids_at, from->ids, head->nids * sizeof *from->ids);
    plan_compile_copy_part(made, head->channels_at, from->channels,
                           head->nchannels * sizeof *from->channels);
    plan_compile_copy_part(made, head->semaphores_at, from->gpu->semaphores,
                           head->nsemaphores * sizeof *from->gpu->semaphores);
    return made;
}

weir_status weiri_program_compile(const weir_plan *plan, int rank, const weiri_plan_layout *layout,
                                  weiri_program **program)
{
    weiri_compiler to = {.plan = plan, .gpu = &plan->gpus[rank], .layout = layout, .rank = rank};
    plan_compile_fill_header(&to);
    plan_compile_add_channels(&to);
    for (uint32_t i = 0; i < to.gpu->nblocks; i++)
        weiri_compile_block(&to, &to.gpu->blocks[i]);
    weiri_program *made = plan_compile_assemble(&to);
    free(to.blocks);
    free(to.steps);
    free(to.operands);
    free(to.ids);
    free(to.channels);
    free(to.barriers);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory for the program of rank %d",
                          plan->file, rank);
    *program = made;
    return WEIR_OK;
}
