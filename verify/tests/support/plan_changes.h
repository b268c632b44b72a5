/*
 * Random changes of a plan: operations are dropped, swapped or replaced by similar ones, and
 * chunks, channels and semaphores are replaced by others. change_generator decides. Included by
 * tests.
 */
#ifndef VERIFY_TESTS_SUPPORT_PLAN_CHANGES_H
#define VERIFY_TESTS_SUPPORT_PLAN_CHANGES_H

#include "plan/format/plan.h"

#include <string.h>

static uint64_t change_generator;

static uint64_t change_mix(uint64_t x)
{
    x = (x ^ (x >> 31)) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ (x >> 32);
}

static uint32_t change_below(uint32_t below)
{
    return (uint32_t)(change_mix(++change_generator) % below);
}

static weiri_plan_block *change_block(weir_plan *plan, weiri_plan_gpu **gpu)
{
    *gpu = &plan->gpus[change_below((uint32_t)plan->nranks)];
    return (*gpu)->nblocks ? &(*gpu)->blocks[change_below((*gpu)->nblocks)] : NULL;
}

/* Adds `by` to the length of the pipeline body that contains the operation. */
static void change_fit_pipeline(weiri_plan_gpu *gpu, const weiri_plan_block *block, uint32_t at,
                                int by)
{
    for (uint32_t i = block->first_op; i < at; i++)
        if (gpu->ops[i].kind == WEIRI_PLAN_PIPELINE_OP && at <= i + gpu->ops[i].nops)
            gpu->ops[i].nops = (uint32_t)((int)gpu->ops[i].nops + by);
}

static void change_drop(weiri_plan_gpu *gpu, weiri_plan_block *block, uint32_t at)
{
    if (gpu->ops[at].kind == WEIRI_PLAN_PIPELINE_OP)
        return;
    change_fit_pipeline(gpu, block, at, -1);
    memmove(&gpu->ops[at], &gpu->ops[at + 1], (gpu->nops - at - 1) * sizeof *gpu->ops);
    gpu->nops--;
    block->nops--;
    for (uint32_t i = 0; i < gpu->nblocks; i++)
        if (gpu->blocks[i].first_op > at)
            gpu->blocks[i].first_op--;
}

static void change_swap(weiri_plan_gpu *gpu, weiri_plan_op *a, weiri_plan_op *b)
{
    (void)gpu;
    if (a->kind == WEIRI_PLAN_PIPELINE_OP || b->kind == WEIRI_PLAN_PIPELINE_OP ||
        a->in_body != b->in_body)
        return;
    weiri_plan_op other = *a;
    *a = *b;
    *b = other;
}

/* Makes an operand refer to a different chunk or buffer. */
static void change_redirect(weiri_plan_gpu *gpu, const weiri_plan_op *op)
{
    uint32_t count = op->nsrcs + op->ndsts;
    if (!count)
        return;
    uint32_t i = change_below(count);
    weiri_plan_ref *ref =
        &gpu->refs[i < op->nsrcs ? op->first_src + i : op->first_dst + i - op->nsrcs];
    if (change_below(3) == 0)
        ref->buffer = (uint8_t)change_below(WEIR_PLAN_BUFFERS);
    ref->index = change_below(4);
}

static void change_kind(weiri_plan_op *op)
{
    switch (op->kind) {
    case WEIRI_PLAN_SIGNAL_OP:
        op->kind = WEIRI_PLAN_RELAXED_SIGNAL_OP;
        break;
    case WEIRI_PLAN_WAIT_OP:
        op->kind = WEIRI_PLAN_RELAXED_WAIT_OP;
        break;
    case WEIRI_PLAN_RELAXED_SIGNAL_OP:
        op->kind = WEIRI_PLAN_SIGNAL_OP;
        break;
    case WEIRI_PLAN_RELAXED_WAIT_OP:
        op->kind = WEIRI_PLAN_WAIT_OP;
        break;
    case WEIRI_PLAN_PUT_SIGNAL_FLUSH_OP:
        op->kind = WEIRI_PLAN_PUT_SIGNAL_OP;
        break;
    case WEIRI_PLAN_READ_REDUCE_OP:
        op->kind = WEIRI_PLAN_GET_OP;
        break;
    case WEIRI_PLAN_REDUCE_PACKETS_OP:
        op->kind = WEIRI_PLAN_REDUCE_OP;
        break;
    case WEIRI_PLAN_BARRIER_OP:
        op->kind = WEIRI_PLAN_NOP_OP;
        break;
    default:
        break;
    }
}

static void change_plan(weir_plan *plan)
{
    weiri_plan_gpu *gpu;
    weiri_plan_block *block = change_block(plan, &gpu);
    if (!block || !block->nops)
        return;
    uint32_t at = block->first_op + change_below(block->nops);
    weiri_plan_op *op = &gpu->ops[at];
    switch (change_below(8)) {
    case 0:
    case 1:
    case 2:
        change_drop(gpu, block, at);
        break;
    case 3:
    case 4:
        if (at + 1 < block->first_op + block->nops)
            change_swap(gpu, op, op + 1);
        break;
    case 5:
        change_redirect(gpu, op);
        break;
    case 6:
        change_kind(op);
        break;
    default:
        if (op->nids && op->kind != WEIRI_PLAN_PUT_SIGNAL_OP)
            gpu->ids[op->first_id] = change_below(2);
        else
            plan->double_scratch ^= change_below(4) == 0;
    }
}

#endif
