/*
 * Special values in reductions: NaN, infinities, signed zeros, subnormal numbers,
 * sums and products that leave the type's range, integers that wrap. A kind of
 * special value is a row of up to three elements; which three ranks hold them
 * changes from element to element, and the other ranks hold numbers that change
 * nothing (sum: -0, prod: 1, max and min: the same three again).
 *
 * What a row may give comes from a model of weir/weir.h's rules in C's own float and
 * double arithmetic and number.c's formats: the row combined in every order, in
 * which a NaN may have any sign and payload. Most rows have one answer in every
 * order. The others (the sum of two largest numbers and a smallest one) have one
 * for each order, and an algorithm that stores partial results in the type itself,
 * like a ring (c->stores), overflows or saturates there too.
 * max and min of both zeros may be either; an average may divide, or multiply by
 * a reciprocal.
 *
 * A NaN is accepted where nothing was written, since poison is one; the rows
 * beside it are not, so an unwritten part shows.
 */
#ifndef VERIFY_SPECIAL_H
#define VERIFY_SPECIAL_H

#include "verify/compare.h"
#include "verify/pattern.h"

enum { WEIRV_SPECIAL_HELD = 3, WEIRV_SPECIAL_ROWS_MAX = 32, WEIRV_SPECIAL_ANSWERS_MAX = 12 };

/* Elements as bits in the low end of 64. */
typedef struct weirv_special_row {
    const char *name; /* "subnormal result"; static storage */
    uint64_t held[WEIRV_SPECIAL_HELD], rest, answers[WEIRV_SPECIAL_ANSWERS_MAX];
    int nanswers;
} weirv_special_row;

/* The rows of a type and operation for so many ranks. */
typedef struct weirv_special {
    weir_dtype dtype;
    weir_op op;
    int nranks, held; /* ranks that hold an element of the row: 3, or all */
    int nrows;
    weirv_special_row rows[WEIRV_SPECIAL_ROWS_MAX];
} weirv_special;

/* The rows that the type has, without answers. Local. */
void weirv_special_make(weir_dtype dtype, weir_op op, int nranks, weirv_special *special);
/* Adds the answers. stored: partial results may be stored in the type. Local. */
void weirv_special_answer(weirv_special *special, int stored);
/* Whether an element is one of a row's answers. Local. */
int weirv_special_accepts(const weirv_special *special, const weirv_special_row *row,
                          uint64_t element);

/* The row of an element, and the rank that holds its first element: the next
 * ranks, around, hold the others. Local. */
typedef struct weirv_special_place {
    int row, first_rank;
} weirv_special_place;
weirv_special_place weirv_special_place_of(const weirv_special *special, size_t index,
                                           uint64_t start);
/* The start of a case's data: chosen by its seed, unless the case states it. Pure. */
uint64_t weirv_special_start(const weirv_case *c);
/* The number of calls with the case's count, each started where the previous one ended, that try
 * every row. At least 1. Pure. */
int weirv_special_runs(const weirv_case *c);

/* Elements [first, first + count) of a rank's input. buffer needs no alignment.
 * Local. */
void weirv_special_fill(void *buffer, size_t first, size_t count, weir_dtype dtype, weir_op op,
                        int rank, int nranks, uint64_t start);
/* Compares all of out; c->special must be set. Adds to result. Local. */
void weirv_check_special(const weirv_case *c, const void *out, weirv_result *result);
/* Writes a line, ended by a newline and all terminated, of at most bytes, about
 * each of the first four rows that have a wrong element; nothing where all is
 * right. Local.
 *
 *   element 17, special value (NaN), 3 wrong: got 448, expected nan: rank 1 holds nan (0x7f), ...
 */
void weirv_explain_special(const weirv_case *c, const void *out, char *text, size_t bytes);

#endif
