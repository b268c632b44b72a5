/*
 * What a caller may rely on after a collective, for each placement: the one table that the plan
 * checker, the executors, the plan builder and the benchmarks' validation read. It states what MPI
 * (MPI_IN_PLACE) and NCCL define; docs/user/buffers.md prints it for users.
 *
 * A buffer holds one block, or one for each rank. In place, the shorter of the two buffers is the
 * rank's own block of the longer one; buffers of equal length are the same memory.
 */
#ifndef WEIR_BASE_CONTRACT_H
#define WEIR_BASE_CONTRACT_H

#include <weir/weir.h>

/* What a buffer holds after a call. */
typedef enum weiri_after {
    WEIRI_AFTER_RESULT,    /* the collective's result */
    WEIRI_AFTER_KEPT,      /* what it held before */
    WEIRI_AFTER_UNDEFINED, /* anything */
} weiri_after;

/* What can be called in place. */
typedef enum weiri_in_place {
    WEIRI_IN_PLACE_NONE,
    WEIRI_IN_PLACE_PLANS, /* plans; weir_run needs two buffers */
    WEIRI_IN_PLACE_CALLS, /* every algorithm */
} weiri_in_place;

/* A rank is the root, or any rank of a collective without one; or it is another rank. */
typedef enum weiri_role { WEIRI_ROLE_ROOT, WEIRI_ROLE_OTHER, WEIRI_ROLES } weiri_role;

/* A row: one collective. Out of place, the input is kept on every rank. */
typedef struct weiri_contract {
    int in_has_blocks, out_has_blocks; /* the buffer holds a block for each rank */
    int has_root;
    weiri_in_place in_place;
    weiri_after out[WEIRI_ROLES];         /* the output, in either placement */
    weiri_after in_place_in[WEIRI_ROLES]; /* in place: the input, except where the output is */
} weiri_contract;

/* The row of a collective; for a value that is none, a row without blocks, root and promises of
 * placement, whose output is the result on all ranks. */
const weiri_contract *weiri_contract_of(int collective);

static inline weiri_role weiri_contract_role(const weiri_contract *contract, int rank, int root)
{
    return contract->has_root && rank != root ? WEIRI_ROLE_OTHER : WEIRI_ROLE_ROOT;
}

/* In place: the block of the longer buffer at which this rank's input and output begin. */
static inline int weiri_contract_in_block(const weiri_contract *contract, int rank)
{
    return contract->out_has_blocks && !contract->in_has_blocks ? rank : 0;
}

static inline int weiri_contract_out_block(const weiri_contract *contract, int rank)
{
    return contract->in_has_blocks && !contract->out_has_blocks ? rank : 0;
}

/* Whether an output in place lies within the input, and so holds input before the call. */
static inline int weiri_contract_out_is_input(const weiri_contract *contract)
{
    return contract->in_has_blocks || !contract->out_has_blocks;
}

#endif
