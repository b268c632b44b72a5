/*
 * The table of collectives: names, lengths of the buffers, the root, the bus factor, and what a
 * caller may rely on after a call, for each placement. The library, the plans, the NCCL interface,
 * the benchmarks, their validation and the readers of results take these facts from here. The
 * promises are NCCL's. MPI (MPI_IN_PLACE) also allows alltoall and alltoallv in place, and leaves
 * the result of a reduce_scatter in place at the start of the buffer. docs/user/buffers.md prints
 * the promises for users.
 *
 * A buffer holds one block of `count` elements, or one for each rank. In place, the shorter of the
 * two buffers is the rank's own block of the longer one; buffers of equal length are the same
 * memory.
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

/* The bus factor of n ranks, busbw / algbw: the bytes that the busiest link carries in one
 * direction for each byte of the larger buffer, as nccl-tests' doc/PERFORMANCE.md defines it. */
typedef enum weiri_bus {
    WEIRI_BUS_ONE,          /* 1 */
    WEIRI_BUS_OTHERS,       /* (n-1)/n */
    WEIRI_BUS_TWICE_OTHERS, /* 2(n-1)/n */
} weiri_bus;

/* A row: one collective. Out of place, the input is kept on every rank. */
typedef struct weiri_contract {
    const char *name;                  /* "reduce_scatter" */
    const char *label;                 /* "ReduceScatter": in metrics and status reports */
    const char *nccl_function;         /* "ncclReduceScatter"; NULL: NCCL has none */
    const char *mpi_function;          /* "MPI_Reduce_scatter_block" */
    int reduces;                       /* the call has an operation */
    int in_has_blocks, out_has_blocks; /* the buffer holds a block for each rank */
    int has_root;
    int only_root_reads; /* the input of the other ranks is not used */
    int is_uneven;       /* each rank, or pair of ranks, has separate counts */
    weiri_bus bus;
    weiri_in_place in_place;
    const char *place;                    /* "in == out": in place; NULL: it cannot be */
    weiri_after out[WEIRI_ROLES];         /* the output, in either placement */
    weiri_after in_place_in[WEIRI_ROLES]; /* in place: the input, except where the output is */
} weiri_contract;

/* Collectives without a call of their own: alltoallv performs them, with counts of 0 between ranks
 * other than the root. Benchmarks measure them, and readers of results know them. */
enum { WEIRI_COLL_GATHER = WEIR_COLL_COUNT + 1, WEIRI_COLL_SCATTER, WEIRI_COLL_ROWS };

/* The row of a collective; for a value that is none, a row without names, blocks, root, operation
 * and promises of placement, whose output is the result on all ranks. */
extern const weiri_contract weiri_contracts[WEIRI_COLL_ROWS];

static inline const weiri_contract *weiri_contract_of(int collective)
{
    return &weiri_contracts[(unsigned)collective < WEIRI_COLL_ROWS ? collective : WEIR_COLL_COUNT];
}

static inline weiri_role weiri_contract_role(const weiri_contract *contract, int rank, int root)
{
    return contract->has_root && rank != root ? WEIRI_ROLE_OTHER : WEIRI_ROLE_ROOT;
}

/* Whether a rank's input is read, and whether its output is written. */
static inline int weiri_contract_reads(const weiri_contract *contract, int rank, int root)
{
    return !contract->only_root_reads || rank == root;
}

static inline int weiri_contract_writes(const weiri_contract *contract, int rank, int root)
{
    return contract->out[weiri_contract_role(contract, rank, root)] == WEIRI_AFTER_RESULT;
}

/* Blocks of the longer buffer. */
static inline int weiri_contract_blocks(const weiri_contract *contract, int nranks)
{
    return contract->in_has_blocks || contract->out_has_blocks ? nranks : 1;
}

/* The bus factor of nranks ranks. */
static inline double weiri_contract_bus_factor(const weiri_contract *contract, int nranks)
{
    return contract->bus == WEIRI_BUS_ONE ? 1 : contract->bus * (double)(nranks - 1) / nranks;
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

/* The buffers of a rank's call. */
typedef struct weiri_buffers {
    const char *in, *out;
    size_t in_bytes, out_bytes; /* that are read, and written */
    size_t block_bytes;
} weiri_buffers;

/* Whether buffers of at most so many bytes may overlap: 0 if they do not. */
static inline int weiri_buffers_may_overlap(const void *in, const void *out, size_t bytes)
{
    return bytes && (uintptr_t)out - (uintptr_t)in + bytes - 1 < 2 * bytes - 1;
}

/* Whether they are placed as for a call in place. */
static inline int weiri_contract_is_in_place(const weiri_contract *contract, int rank,
                                             const weiri_buffers *of)
{
    return (uintptr_t)of->in + of->block_bytes * (size_t)weiri_contract_out_block(contract, rank) ==
           (uintptr_t)of->out + of->block_bytes * (size_t)weiri_contract_in_block(contract, rank);
}

/* Fails, in the name of kind and name, if the buffers overlap; unless they are in place, and that
 * is possible in calls (WEIRI_IN_PLACE_CALLS), or in plans at least. Collectives that weir does not
 * know are not checked. */
weir_status weiri_contract_check_buffers(const weiri_contract *contract, const char *kind,
                                         const char *name, weiri_in_place possible, int rank,
                                         const weiri_buffers *of);

/* Fails if the blocks of an alltoallv overlap. Gaps between them may hold blocks of the other
 * buffer. */
weir_status weiri_contract_check_splits(const weir_splits *splits, const char *kind,
                                        const char *name, size_t element_bytes, int nranks,
                                        const weiri_buffers *of);

#endif
