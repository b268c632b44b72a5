/*
 * The answers that a row of special values may have: the row is combined in every order by C's
 * arithmetic, by the rules of weir/weir.h about accumulation types and rounding. See special.h.
 */
#include "verify/special.h"

#include "verify/number.h"

#include <fenv.h>
#include <math.h>

/* One order and manner in which a row may be combined. */
typedef struct way {
    int last;       /* the element that is combined with the result of the others */
    int swaps;      /* the operands are exchanged */
    int stores;     /* bit k: element k was stored in the type on its way; bit HELD: so was the
                     * result of the others */
    int multiplies; /* an average multiplies by a reciprocal */
} way;

/* ------------------------------------------------------------------ floats */

/* All types but double accumulate in float. */
static double round_to_accumulator(weir_dtype dtype, double value)
{
    return dtype == WEIR_DOUBLE ? value : (double)(float)value;
}

static double combine(weir_dtype dtype, weir_op op, double a, double b)
{
    if (op == WEIR_MAX || op == WEIR_MIN) {
        if (isnan(a) || isnan(b))
            return NAN;
        return (op == WEIR_MAX ? a > b : a < b) ? a : b;
    }
    if (dtype == WEIR_DOUBLE)
        return op == WEIR_PROD ? a * b : a + b;
    float product = (float)a * (float)b, sum = (float)a + (float)b;
    return op == WEIR_PROD ? product : sum;
}

static double store(weir_dtype dtype, double value)
{
    uint64_t element = 0;
    weirv_encode(dtype, value, &element);
    weirv_decode(dtype, &element, 1, &value);
    return value;
}

static double average(const weirv_special *special, double value, int multiplies)
{
    double n = special->nranks;
    if (special->op != WEIR_AVG)
        return value;
    if (!multiplies)
        return round_to_accumulator(special->dtype, value / n);
    return round_to_accumulator(special->dtype,
                                value * round_to_accumulator(special->dtype, 1 / n));
}

static double combine_in(const weirv_special *special, way w, double a, double b)
{
    return w.swaps ? combine(special->dtype, special->op, b, a)
                   : combine(special->dtype, special->op, a, b);
}

static uint64_t combine_floats(const weirv_special *special, const weirv_special_row *row, way w)
{
    double values[WEIRV_SPECIAL_HELD], total = 0;
    int begun = 0;
    uint64_t element = 0;
    for (int k = 0; k < special->held; k++) {
        weirv_decode(special->dtype, &row->held[k], 1, &values[k]);
        if (w.stores >> k & 1)
            values[k] = store(special->dtype, values[k]);
        if (k != w.last)
            total = begun ? combine_in(special, w, total, values[k]) : values[k];
        begun |= k != w.last;
    }
    if (w.stores >> WEIRV_SPECIAL_HELD & 1)
        total = store(special->dtype, total);
    total = begun ? combine_in(special, w, total, values[w.last]) : values[w.last];
    weirv_encode(special->dtype, average(special, total, w.multiplies), &element);
    return element;
}

/* ---------------------------------------------------------------- integers */

static uint64_t extend(weir_dtype dtype, uint64_t bits)
{
    int unused = 64 - 8 * (int)weir_dtype_bytes(dtype);
    int has_sign = dtype == WEIR_INT8 || dtype == WEIR_INT32 || dtype == WEIR_INT64;
    bits <<= unused;
    return has_sign ? (uint64_t)((int64_t)bits >> unused) : bits >> unused;
}

static int is_less(weir_dtype dtype, uint64_t a, uint64_t b)
{
    if (dtype == WEIR_INT8 || dtype == WEIR_INT32 || dtype == WEIR_INT64)
        return (int64_t)a < (int64_t)b;
    return a < b;
}

/* Modulo 2^bits the order does not matter. */
static uint64_t combine_integers(const weirv_special *special, const weirv_special_row *row)
{
    weir_dtype dtype = special->dtype;
    uint64_t total = extend(dtype, row->held[0]), all = UINT64_MAX;
    for (int k = 1; k < special->held; k++) {
        uint64_t next = extend(dtype, row->held[k]);
        int less = is_less(dtype, total, next);
        if (special->op == WEIR_PROD)
            total *= next;
        else if (special->op == WEIR_MAX)
            total = less ? next : total;
        else if (special->op == WEIR_MIN)
            total = less ? total : next;
        else
            total += next;
    }
    total = extend(dtype, total);
    if (special->op == WEIR_AVG && is_less(dtype, total, 0))
        total = 0 - (0 - total) / (uint64_t)special->nranks;
    else if (special->op == WEIR_AVG)
        total /= (uint64_t)special->nranks;
    return total & all >> (64 - 8 * weir_dtype_bytes(dtype));
}

/* ----------------------------------------------------------------- answers */

static int is_nan(weir_dtype dtype, uint64_t element)
{
    double value = 0;
    if (weirv_format_of(dtype))
        weirv_decode(dtype, &element, 1, &value);
    return isnan(value);
}

int weirv_special_accepts(const weirv_special *special, const weirv_special_row *row,
                          uint64_t element)
{
    int nan = is_nan(special->dtype, element);
    for (int i = 0; i < row->nanswers; i++)
        if (row->answers[i] == element || (nan && is_nan(special->dtype, row->answers[i])))
            return 1;
    return 0;
}

static void add(const weirv_special *special, weirv_special_row *row, uint64_t answer)
{
    if (!weirv_special_accepts(special, row, answer) && row->nanswers < WEIRV_SPECIAL_ANSWERS_MAX)
        row->answers[row->nanswers++] = answer;
}

static void answer_floats(const weirv_special *special, weirv_special_row *row, int stored)
{
    int swaps = special->op == WEIR_MAX || special->op == WEIR_MIN;
    int averages = special->op == WEIR_AVG, stores = stored ? 2 << WEIRV_SPECIAL_HELD : 1;
    way w;
    for (w.last = 0; w.last < special->held; w.last++)
        for (w.swaps = 0; w.swaps <= swaps; w.swaps++)
            for (w.stores = 0; w.stores < stores; w.stores++)
                for (w.multiplies = 0; w.multiplies <= averages; w.multiplies++)
                    add(special, row, combine_floats(special, row, w));
}

/* Computes in IEEE arithmetic, even if a library has set the processor to flush subnormal
 * numbers. */
void weirv_special_answer(weirv_special *special, int stored)
{
    fenv_t environment;
    fegetenv(&environment);
    fesetenv(FE_DFL_ENV);
    for (int i = 0; i < special->nrows; i++) {
        weirv_special_row *row = &special->rows[i];
        row->nanswers = 0;
        if (!weirv_format_of(special->dtype))
            add(special, row, combine_integers(special, row));
        else
            answer_floats(special, row, stored);
        if (special->nranks == 1) /* nothing is combined, nor rounded */
            add(special, row, row->held[0]);
    }
    fesetenv(&environment);
}
