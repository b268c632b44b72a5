/*
 * The description of a checked call (weirv_case), the input data, and the poison of output buffers.
 * Every input element is a function of (type, operation, seed, rank, index), so any rank can
 * compute any part of any rank's input again at any time, and no check keeps a copy of the data.
 * Elements differ between indices, ranks and seeds, so misplaced, stale or missing chunks are
 * visible.
 */
#ifndef VERIFY_PATTERN_H
#define VERIFY_PATTERN_H

#include <weir/weir.h>

/* One call of one collective as one rank sees it. Counts and displacements are
 * in elements and mean what they mean in weir/weir.h. */
typedef struct weirv_case {
    weir_collective collective;
    weir_dtype dtype;
    weir_op op; /* reductions only */
    int root;   /* broadcast and reduce only */
    int rank, nranks;
    size_t count;
    /* sendrecv only: for each rank the one that it receives from, -1: none; nranks entries. NULL:
     * rank - 1, cyclic. */
    const int *sources;
    uint64_t seed;
    /* alltoallv only: nranks entries each */
    const size_t *send_counts, *send_displs, *recv_counts, *recv_displs;
    /* in and out are the parts of one buffer that weir/weir.h defines for in-place calls. If only
     * one of them is used (reduce and broadcast on ranks other than the root), the other is the
     * same memory. */
    int in_place;
    /* 1: the data of a reduction are those of exact.h; 0: those of weirv_fill. */
    int exact;
    /* The input repeats its first elements after so many, with the same seed in every message;
     * exact and special are 0. 0: it does not. */
    size_t period;
    /* 1: the data are those of special.h, and exact is 0. */
    int special;
    /* Special values: the place of element 0 in the sequence of rows; 0: the seed chooses it. */
    uint64_t special_start;
    /* Special values: partial results may have been stored in the type. */
    int stores;
    /* alltoallv, for weirv_expected: for each rank r, the index in r's input at which its block for
     * this rank starts. nranks entries; NULL if not needed. */
    const size_t *recv_from;
} weirv_case;

/* sendrecv: the rank that a rank receives from, or sends to; -1: none. Local. */
int weirv_sendrecv_source(const weirv_case *c, int rank);
int weirv_sendrecv_destination(const weirv_case *c, int rank);

/* The number of elements of the buffers that this rank passes as in and out. On every rank, reduce
 * has an out and broadcast has an in, even where they are not used: they must stay unchanged there.
 * alltoallv: the end of the furthest block. Local. */
size_t weirv_send_elements(const weirv_case *c);
size_t weirv_recv_elements(const weirv_case *c);
/* Whether the collective combines values (op counts). */
int weirv_is_reduction(weir_collective collective);

/*
 * Writes elements [first, first + count) of rank's input to buffer, element
 * first at its start; buffer needs no alignment. Local. Data by operation:
 *
 *   sum, avg   integers: all bits random (sums wrap); floats: +-[0.25, 4), so
 *              64 ranks stay below 448, and partial sums of fp8, half and
 *              bfloat16 data are exact in float
 *   prod       integers: odd, so no factor is lost modulo 2^bits; floats near
 *              1 (even ranks below, odd ranks above), fp8: +-2^k whose product
 *              over ranks 0..n-1 stays within 2^-3..2^3 for any n
 *   max, min   integers: all bits random; floats: either sign, many exponents
 *
 * No element is zero, subnormal, infinite or NaN in a floating type.
 */
void weirv_fill(void *buffer, size_t first, size_t count, weir_dtype dtype, weir_op op, int rank,
                uint64_t seed);
/* The same for the input of any rank of a case, whichever data it uses. Local. */
void weirv_fill_part(const weirv_case *c, void *buffer, size_t first, size_t count, int rank);
/* Writes this rank's whole input (weirv_send_elements). Data movement uses the data of max.
 * Broadcast: ranks other than the root get different data, which no rank may deliver. Local. */
void weirv_fill_input(const weirv_case *c, void *in);
/* The operation whose data the case's input is: op, or max for movement. */
weir_op weirv_pattern_op(const weirv_case *c);
/* The number of elements of the input that are no longer what weirv_fill_input wrote, although the
 * contract (lib/base/contract.h) keeps them. Local. */
uint64_t weirv_input_changed(const weirv_case *c, const void *in);

/* Fills an output buffer before the call: all bits set, which is NaN in every
 * floating type and unlikely in an integer. Local. */
void weirv_poison(void *buffer, size_t bytes);

#endif
