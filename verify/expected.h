/*
 * What an output should hold, computed by each rank alone: the exact oracle,
 * and the slow combination of chosen ranks' inputs that forensics try.
 */
#ifndef VERIFY_EXPECTED_H
#define VERIFY_EXPECTED_H

#include "verify/compare.h"
#include "verify/pattern.h"

/* Where elements of an output come from. */
typedef enum weirv_origin {
    WEIRV_FROM_RANK,   /* one rank's input */
    WEIRV_FROM_ALL,    /* the reduction of all */
    WEIRV_FROM_NOWHERE /* must not be written: poison, or what in place was there */
} weirv_origin;

typedef struct weirv_source {
    weirv_origin origin;
    int rank;     /* WEIRV_FROM_RANK */
    size_t index; /* in that rank's in; of WEIRV_FROM_ALL: in every rank's */
    size_t count; /* elements from here on that have the same source */
} weirv_source;

/* The source of element at of this rank's out. Local. alltoallv needs
 * c->recv_from. */
weirv_source weirv_source_of(const weirv_case *c, size_t at);

/* Writes at most count elements of what out should hold from element at on;
 * returns how many, 1 or more: those with the same source. Fast for exact
 * reductions and for movement; other reductions combine all ranks' inputs.
 * Local. */
size_t weirv_expected(const weirv_case *c, size_t at, size_t count, void *buffer);

/* Compares all of out with what it should hold, bit for bit, at the speed of
 * memory. c->exact must be set for reductions. Adds to result. Local. */
void weirv_check_exact(const weirv_case *c, const void *out, weirv_result *result);

enum { WEIRV_NO_RANK = -1 };

/* Combines elements [first, first + count) of the ranks' inputs in rank order
 * without rank without and with rank twice counted twice (or WEIRV_NO_RANK),
 * floats in double and rounded once; avg divides by c->nranks all the same.
 * Slow. Local. */
void weirv_combine(const weirv_case *c, size_t first, size_t count, int without, int twice,
                   void *buffer);

#endif
