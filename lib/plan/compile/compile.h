/* Compiles a plan to a program (program.h). Apart from program.h because kernels include that one,
 * and must not see the plan format. */
#ifndef WEIR_PLAN_COMPILE_COMPILE_H
#define WEIR_PLAN_COMPILE_COMPILE_H

#include "plan/format/layout.h"
#include "plan/compile/program.h"

/* Compiles the program of one rank for one layout. All ranks number the counters of channels
 * consistently. Local. The caller owns the program and releases it with free().
 * WEIR_ERR_NO_MEMORY. */
weir_status weiri_program_compile(const weir_plan *plan, int rank, const weiri_plan_layout *layout,
                                  weiri_program **program);

/*
 * Internals of the compiler. compile.c compiles channels, calls compile_steps.c for the thread
 * blocks, and assembles the program; compile_steps.c does not call back.
 */

/* A barrier of the plan. Its number in the program is its position in the compiler's list. */
typedef struct weiri_compile_barrier {
    uint32_t barrier, nblocks;
} weiri_compile_barrier;

typedef struct weiri_compiler {
    const weir_plan *plan;
    const weiri_plan_gpu *gpu;
    const weiri_plan_layout *layout;
    int rank;
    int failed; /* 1: out of memory; later calls do nothing */
    weiri_program head;
    weiri_program_block *blocks;
    weiri_step *steps;
    weiri_operand *operands;
    uint32_t *ids;
    weiri_channel *channels;
    weiri_compile_barrier *barriers;
} weiri_compiler;

/* Appends a zeroed element to a list; NULL if the compiler has failed, or fails now. */
void *weiri_compile_append(weiri_compiler *to, void *list, uint32_t *count, size_t element_bytes);

/* Compiles a thread block of the rank and appends it, with its steps and operands. */
void weiri_compile_block(weiri_compiler *to, const weiri_plan_block *block);

#endif
