/*
 * Plans: collectives described as data, in the JSON form of MSCCL++'s DSL. A plan is read or
 * built, checked, and run by an executor, on the host and on GPUs.
 *
 * Functions follow weir.h: status codes, weir_last_error(), out-parameters on success only.
 * All are local and do not block, but where the comment says otherwise.
 */
#ifndef WEIR_PLAN_H
#define WEIR_PLAN_H

#include "weir.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------------- plans */

typedef struct weir_plan weir_plan;

/* Where a chunk lies: the caller's input, the caller's output, or the executor's scratch. */
typedef enum weir_plan_buffer {
    WEIR_PLAN_INPUT,
    WEIR_PLAN_OUTPUT,
    WEIR_PLAN_SCRATCH,
    WEIR_PLAN_BUFFERS
} weir_plan_buffer;

/* Reads a plan from a file, or from text of so many bytes, which name stands for in
 * messages; its structure is validated (ids, ranges, limits), its meaning is not: see
 * weir_plan_check. The plan is the caller's. WEIR_ERR_INVALID: the message has the position,
 * what was expected and what to do; WEIR_ERR_SYSTEM: the file cannot be read;
 * WEIR_ERR_UNSUPPORTED: this build has no JSON reader. */
WEIR_API weir_status weir_plan_read(const char *file, weir_plan **plan);
WEIR_API weir_status weir_plan_parse(const char *text, size_t bytes, const char *name,
                                     weir_plan **plan);
/* NULL is allowed. Executors that ran it keep nothing of it. */
WEIR_API void weir_plan_free(weir_plan *plan);

/* Its name, and its collective as the plan has it. They live as long as the plan. */
WEIR_API const char *weir_plan_name(const weir_plan *plan);
WEIR_API const char *weir_plan_collective(const weir_plan *plan);
WEIR_API int weir_plan_nranks(const weir_plan *plan);
/* 1: input and output are meant to be the same memory, as weir.h says for the collective. */
WEIR_API int weir_plan_in_place(const weir_plan *plan);
/* The bytes of a message that it serves: those of the input, of an allgather the output. */
WEIR_API void weir_plan_range(const weir_plan *plan, uint64_t *min_bytes, uint64_t *max_bytes);

/* ------------------------------------------------------------------- writing */

/* Writes a plan as JSON, as MSCCL++'s DSL does: to a file, which is replaced, or to memory:
 * text is the caller's to free(), of so many bytes without its NUL. Reading it gives the same
 * plan. WEIR_ERR_SYSTEM: the file cannot be written; WEIR_ERR_NO_MEMORY. */
WEIR_API weir_status weir_plan_write(const weir_plan *plan, const char *file);
WEIR_API weir_status weir_plan_print(const weir_plan *plan, char **text, size_t *bytes);

#ifdef __cplusplus
}
#endif

#endif
