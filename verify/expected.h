/*
 * What an output should contain, computed by each rank alone: the exact oracle, and a slow
 * combination of selected ranks' inputs, which the forensics use.
 */
#ifndef VERIFY_EXPECTED_H
#define VERIFY_EXPECTED_H

#include "verify/compare.h"
#include "verify/pattern.h"

/* Where elements of an output come from. */
typedef enum weirv_origin {
    WEIRV_FROM_RANK,   /* one rank's input */
    WEIRV_FROM_ALL,    /* the reduction of all */
    WEIRV_FROM_NOWHERE /* must not be written: poison, or for in-place calls the previous content */
} weirv_origin;

typedef struct weirv_source {
    weirv_origin origin;
    int rank;     /* WEIRV_FROM_RANK */
    size_t index; /* in that rank's input; for WEIRV_FROM_ALL in every rank's */
    size_t count; /* elements from here on with the same source */
} weirv_source;

/* Returns the source of element `at` of this rank's output. Local. alltoallv needs c->recv_from. */
weirv_source weirv_source_of(const weirv_case *c, size_t at);

/* Writes what count elements of the output contain before the call: poison, or in place perhaps
 * input of this rank. Returns whether it is input. Local. */
int weirv_before(const weirv_case *c, size_t at, size_t count, void *buffer);

/* Writes what the output should contain from element `at` on: at most `count` elements, those with
 * the same source. Returns their number, at least 1. Fast for exact reductions and for data
 * movement; other reductions combine all ranks' inputs. Local. */
size_t weirv_expected(const weirv_case *c, size_t at, size_t count, void *buffer);

/* Compares all of out with what it should contain, bit for bit, at the speed of memory. c->exact
 * must be set for reductions. Adds to result. Local. */
void weirv_check_exact(const weirv_case *c, const void *out, weirv_result *result);

enum { WEIRV_NO_RANK = -1 };

/* Combines elements [first, first + count) of the ranks' inputs in rank order, leaving out rank
 * `without` and counting rank `twice` twice (or WEIRV_NO_RANK for either). Floats are combined in
 * double and rounded once; avg divides by c->nranks in any case. Slow. Local. */
void weirv_combine(const weirv_case *c, size_t first, size_t count, int without, int twice,
                   void *buffer);

#endif
