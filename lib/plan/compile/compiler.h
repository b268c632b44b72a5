/*
 * The compiler inside: what compile.c (channels, the whole) and compile_steps.c (operations and
 * their references) share.
 */
#ifndef WEIR_PLAN_COMPILE_COMPILER_H
#define WEIR_PLAN_COMPILE_COMPILER_H

#include "plan/compile/compile.h"

/* A barrier of some operations: its number is its place in the list. */
typedef struct weiri_barrier_epoch {
    uint32_t barrier, nblocks;
} weiri_barrier_epoch;

typedef struct weiri_compiler {
    const weir_plan *plan;
    const weiri_plan_gpu *gpu;
    const weiri_plan_layout *layout;
    int rank;
    int failed; /* no memory; what follows does nothing */
    weiri_program head;
    weiri_program_block *blocks;
    weiri_step *steps;
    weiri_operand *operands;
    uint32_t *ids;
    weiri_channel *channels;
    weiri_barrier_epoch *meetings;
} weiri_compiler;

/* One element more at the end of a list of the compiler's; NULL where it has failed, or fails
 * now. */
void *weiri_compile_append(weiri_compiler *to, void *list, uint32_t *count, size_t element_bytes);

/* A thread block of the rank, with its steps. */
void weiri_compile_block(weiri_compiler *to, const weiri_plan_block *block);

#endif
