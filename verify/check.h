/*
 * Internals of the MPI oracle: the state of one check in progress, and what its parts share.
 * check.c prepares the state; check_reduce.c and check_move.c process the blocks. All ranks process
 * the same blocks, whatever they find, because each block is an MPI collective.
 */
#ifndef VERIFY_CHECK_H
#define VERIFY_CHECK_H

#include "verify/reference.h"

/* One check. A block has up to `block` elements in each of `slots` slots: one slot per rank if the
 * collective treats the data of each rank separately, else 1. Floating-point reductions store a
 * second plane, the magnitudes, after the values of each slot. */
typedef struct weirv_work {
    MPI_Comm mpi;
    const weirv_case *c;
    const unsigned char *out;
    weirv_result *result;
    weirv_bound bound;
    size_t width;                     /* bytes of an element */
    size_t slots;                     /* parts of a block */
    size_t planes;                    /* numbers an element has in a floating reduction */
    size_t block;                     /* elements of a slot */
    int sampled;                      /* check some blocks only, see weirv_work_next */
    size_t largest;                   /* alltoallv: the largest count of any pair of ranks */
    unsigned char *input, *reference; /* this rank's input of a block, and MPI's result */
} weirv_work;

/* Writes elements of the input of a rank. Local. */
void weirv_work_fill(const weirv_work *w, void *buffer, size_t first, size_t count, int rank);
/* Compares elements of out, from index on, bit for bit. Local. */
void weirv_work_compare(const weirv_work *w, size_t index, size_t count, const void *expected);

/* Returns the start of the block that follows the one at `first` in an array of `count` elements
 * per slot, or `count` if there is none. A sampled check has the first two blocks, the last two,
 * and two that the seed chooses. The same on every rank. Local. */
size_t weirv_work_next(const weirv_work *w, size_t first, size_t count);

static inline size_t weirv_work_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The MPI reference of each kind of collective. Collective, blocking. Each adds its findings to w's
 * result and returns MPI_SUCCESS or MPI's error. */
int weirv_check_reduction(const weirv_work *w);
int weirv_check_movement(const weirv_work *w);
int weirv_check_alltoallv(const weirv_work *w);
/* Before an alltoallv: sets *matched to whether both ranks of every pair have the same count, with
 * the same answer on all ranks, and w->largest. Collective, blocking. Returns MPI's error. */
int weirv_work_exchange_counts(weirv_work *w, int *matched);

#endif
