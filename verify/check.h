/*
 * Shared by the parts of the MPI reference: one check in progress, and what
 * every part does with it. check.c prepares it; check_reduce.c and check_move.c
 * walk through the blocks. All ranks walk through the same blocks, whatever
 * they find.
 */
#ifndef VERIFY_CHECK_H
#define VERIFY_CHECK_H

#include "verify/verify.h"

/* One check. A block has up to block elements for each of the slots (the ranks
 * that the collective tells apart, else 1). Floating reductions carry a second
 * plane, the magnitudes, behind the values of every slot. */
typedef struct weirv_work {
    MPI_Comm mpi;
    const weirv_case *c;
    const unsigned char *out;
    weirv_result *result;
    weirv_bound bound;
    size_t width;   /* bytes of an element */
    size_t slots;   /* parts of a block */
    size_t planes;  /* numbers an element has in a floating reduction */
    size_t block;   /* elements of a slot */
    int sampled;    /* some blocks only, see weirv_work_next */
    size_t largest; /* alltoallv: the largest count of any pair of ranks */
    unsigned char *near, *far; /* this rank's side of a block, and MPI's answer */
} weirv_work;

/* Writes elements of the input of a rank. Local. */
void weirv_work_fill(const weirv_work *w, void *buffer, size_t first, size_t count, int rank);
/* Compares elements of out, from index on, bit for bit. Local. */
void weirv_work_compare(const weirv_work *w, size_t index, size_t count, const void *expected);

/* The block after the one at first, of an array of count elements a slot: where
 * it starts, or count if there is none. Sampled: the first two, the last two,
 * and two that the seed chooses. The same on every rank. Local. */
size_t weirv_work_next(const weirv_work *w, size_t first, size_t count);

static inline size_t weirv_work_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The references, one for each kind of collective. Collective, blocking; each
 * adds to w's result and returns MPI_SUCCESS or MPI's error. */
int weirv_check_reduction(const weirv_work *w);
int weirv_check_movement(const weirv_work *w);
int weirv_check_alltoallv(const weirv_work *w);
/* Before an alltoallv: whether each pair of ranks means the same count, on
 * every rank alike, and w's largest. Collective, blocking; MPI's error. */
int weirv_work_exchange_counts(weirv_work *w, int *matched);

#endif
