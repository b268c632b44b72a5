/*
 * Compares a block of results with a block of reference values, locally, and defines the record of
 * what checks found. The reference values come from check.c (MPI) or expected.c (exact).
 */
#ifndef VERIFY_COMPARE_H
#define VERIFY_COMPARE_H

#include <weir/weir.h>

typedef struct weirv_mismatch {
    int rank;
    size_t index; /* of the element in the rank's out */
    char got[40], expected[40];
} weirv_mismatch;

/* The findings of checks. Initialise it to zero, let checks add to it, then make it global with
 * weirv_reduce_result. */
typedef struct weirv_result {
    uint64_t wrong;          /* elements of out */
    uint64_t overruns;       /* changed canary bytes; the caller adds weirv_guard_check() */
    uint64_t inputs_changed; /* elements; the caller adds weirv_input_changed() */
    double worst_error;      /* largest error / allowed error, floats only; NaN counts as inf */
    int has_first;
    weirv_mismatch first; /* valid if has_first */
} weirv_result;

/* Writes one line of at most `bytes` bytes including the terminator: "rank 3, element 17: got 4.5,
 * expected 5 (12 wrong elements in all)", with overruns and changed inputs if there are any; "no
 * error" if nothing is wrong. Local. */
void weirv_describe(const weirv_result *result, char *text, size_t bytes);

/* Writes an element as text of at most `bytes` bytes including the terminator. For a NaN the text
 * shows its bits; if all bits are set (the poison), it adds that the element may not have been
 * written. Local. */
void weirv_print_element(weir_dtype dtype, const void *element, char *text, size_t bytes);

/*
 * The error that a floating result may have. For a sum s of magnitude sum
 * A = sum |x_i| the computed value may be off by
 *
 *   spread * A + relative * |s| + floor
 *
 * (Higham, Accuracy and Stability of Numerical Algorithms, ch. 3 and 4; see
 * weirv_bound_make for the terms.) All zero demands equality, as for max, min.
 */
typedef struct weirv_bound {
    double spread, relative, floor;
} weirv_bound;

/* steps: how often a value is rounded to an 8- or 16-bit storage type on its way into the result: 1
 * for algorithms that reduce all ranks at once, nranks for a ring. Values below 1 count as 1.
 * Local. */
weirv_bound weirv_bound_make(weir_dtype dtype, weir_op op, int nranks, int steps);

/* Compares `count` elements of out (any alignment) with the values. magnitudes (the A of each
 * element) may be NULL if bound.spread is 0. first_index is the index of out[0] in the rank's whole
 * output. Adds to result. Local. */
void weirv_compare_values(weir_dtype dtype, int rank, size_t first_index, size_t count,
                          const void *out, const double *values, const double *magnitudes,
                          weirv_bound bound, weirv_result *result);
/* The same, demanding equal bits. Local. */
void weirv_compare_bits(weir_dtype dtype, int rank, size_t first_index, size_t count,
                        const void *out, const void *expected, weirv_result *result);
/* Demands that out still contains the bytes of weirv_poison(). Local. */
void weirv_compare_poison(weir_dtype dtype, int rank, size_t first_index, size_t count,
                          const void *out, weirv_result *result);

#endif
