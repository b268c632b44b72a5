/*
 * A model of wrong reductions: combines the elements of some ranks as an implementation with one
 * fault would, or with NONE as weir/weir.h demands. Integers are computed in 64 bits, floats in C's
 * own arithmetic.
 */
#ifndef VERIFY_TESTS_SUPPORT_WRONG_REDUCTIONS_H
#define VERIFY_TESTS_SUPPORT_WRONG_REDUCTIONS_H

#include "verify/number.h"
#include "verify/tests/support/reduce_model.h"

typedef enum fault {
    NONE,
    WRONG_SIGN,
    LANES,
    LOW_HALF,
    HIGH_HALF,
    AS_FLOAT,
    SATURATES,
    ZERO_START,
    ONE_START,
    LOSES_RANK,
    TWICE,
    OTHER_OP,
    DIVIDES_FIRST,
    DIVIDES_DOWN,
    DIVIDES_BY_LESS,
    SHIFTED,
    NARROW,
    TRUNCATES,
    TIES_AWAY,
    FLUSHES_IN,
    FLUSHES_OUT,
    DROPS_NAN,
    NAN_BY_SIDE,
    AS_BITS,
    AS_MAGNITUDE,
    FINITE,
    INFINITE,
    LOSES_ZERO_SIGN,
    LARGEST_START,
    SMALLEST_START
} fault;

/* ---------------------------------------------------------------- integers */

static uint64_t extend_as(weir_dtype dtype, uint64_t bits, int has_sign)
{
    int unused = 64 - 8 * (int)weir_dtype_bytes(dtype);
    return has_sign ? (uint64_t)((int64_t)(bits << unused) >> unused) : bits << unused >> unused;
}

__extension__ typedef __int128 wide_integer;

/* What a comparison looks at. */
static uint64_t seen(weir_dtype dtype, uint64_t x, fault f)
{
    int half = 4 * (int)weir_dtype_bytes(dtype);
    if (f == LOW_HALF)
        return x & (((uint64_t)1 << half) - 1);
    if (f == HIGH_HALF)
        return is_signed(dtype) ? (uint64_t)((int64_t)x >> half) : x >> half;
    if (f == AS_FLOAT && weir_dtype_bytes(dtype) == 8)
        return is_signed(dtype) ? (uint64_t)(int64_t)((double)(int64_t)x / 4)
                                : (uint64_t)((double)x / 4);
    if (f == AS_FLOAT)
        return (uint64_t)(int64_t)(float)(int64_t)x;
    return x;
}

static uint64_t limited(weir_dtype dtype, wide_integer value)
{
    int bits = 8 * (int)weir_dtype_bytes(dtype);
    wide_integer one = 1, most = (one << (is_signed(dtype) ? bits - 1 : bits)) - 1;
    wide_integer least = is_signed(dtype) ? -most - 1 : 0;
    return (uint64_t)(value > most ? most : value < least ? least : value);
}

static wide_integer wide(weir_dtype dtype, uint64_t x)
{
    return is_signed(dtype) ? (wide_integer)(int64_t)x : (wide_integer)x;
}

static uint64_t integer_pair(weir_dtype dtype, weir_op op, uint64_t a, uint64_t b, fault f)
{
    int sign = is_signed(dtype) ^ (f == WRONG_SIGN);
    uint64_t x = seen(dtype, extend_as(dtype, a, sign), f);
    uint64_t y = seen(dtype, extend_as(dtype, b, sign), f);
    int less = sign ? (int64_t)x < (int64_t)y : x < y;
    if (op == WEIR_MAX)
        return less ? b : a;
    if (op == WEIR_MIN)
        return less ? a : b;
    if (f == SATURATES)
        return limited(dtype, op == WEIR_PROD ? wide(dtype, a) * wide(dtype, b)
                                              : wide(dtype, a) + wide(dtype, b));
    if (f == AS_FLOAT && weir_dtype_bytes(dtype) == 8)
        return 2 * (uint64_t)(int64_t)((double)(int64_t)a / 2 + (double)(int64_t)b / 2);
    if (f == AS_FLOAT)
        return (uint64_t)(int64_t)((float)(int64_t)a + (float)(int64_t)b);
    return op == WEIR_PROD ? a * b : a + b;
}

/* Two lanes of half the width. */
static uint64_t lanes_pair(weir_dtype dtype, weir_op op, uint64_t a, uint64_t b)
{
    int half = 4 * (int)weir_dtype_bytes(dtype), unused = 64 - half;
    uint64_t low = ((uint64_t)1 << half) - 1;
    int sign = is_signed(dtype);
    uint64_t al = a & low, bl = b & low;
    uint64_t ah = sign ? (uint64_t)((int64_t)a >> half) : a >> half;
    uint64_t bh = sign ? (uint64_t)((int64_t)b >> half) : b >> half;
    if (sign) {
        al = (uint64_t)((int64_t)(al << unused) >> unused);
        bl = (uint64_t)((int64_t)(bl << unused) >> unused);
    }
    return integer_pair(dtype, op, ah, bh, NONE) << half |
           (integer_pair(dtype, op, al, bl, NONE) & low);
}

static uint64_t divided(weir_dtype dtype, uint64_t x, int n, fault f)
{
    int sign = is_signed(dtype) ^ (f == WRONG_SIGN);
    x = extend_as(dtype, x, sign);
    int64_t quotient = (int64_t)x / n;
    if (f == DIVIDES_DOWN && quotient * n > (int64_t)x)
        quotient--;
    return sign ? (uint64_t)quotient : x / (uint64_t)n;
}

static uint64_t combined_integers(weir_dtype dtype, weir_op op, const uint64_t *values, int n,
                                  fault f)
{
    int last = f == LOSES_RANK ? n - 1 : f == TWICE ? n + 1 : n, begun = 1;
    uint64_t total = extend(dtype, values[0]);
    if (f == ZERO_START || f == ONE_START) {
        total = f == ONE_START;
        begun = 0;
    }
    if (op == WEIR_AVG && f == DIVIDES_FIRST)
        total = divided(dtype, total, n, f);
    for (int k = begun; k < last; k++) {
        uint64_t next = extend(dtype, values[k < n ? k : n - 1]);
        if (op == WEIR_AVG && f == DIVIDES_FIRST)
            next = divided(dtype, next, n, f);
        total = f == LANES ? lanes_pair(dtype, op, total, next)
                           : integer_pair(dtype, op, total, next, f);
        total = extend(dtype, total);
    }
    if (op == WEIR_AVG && f != DIVIDES_FIRST)
        total = divided(dtype, total, f == DIVIDES_BY_LESS ? n - 1 : n, f);
    return total;
}

/* ------------------------------------------------------------------ floats */

static double decoded(weir_dtype dtype, uint64_t element)
{
    double value;
    weirv_decode(dtype, &element, 1, &value);
    return value;
}

static uint64_t encoded(weir_dtype dtype, double value)
{
    uint64_t element = 0;
    weirv_encode(dtype, value, &element);
    return element;
}

static uint64_t sign_bit(weir_dtype dtype)
{
    return (uint64_t)1 << (8 * weir_dtype_bytes(dtype) - 1);
}

/* The largest finite number's bits. */
static uint64_t largest(weir_dtype dtype)
{
    const weirv_format *f = weirv_format_of(dtype);
    uint64_t infinity = (((uint64_t)1 << f->exponent_bits) - 1) << f->mantissa_bits;
    return dtype == WEIR_FP8_E4M3 ? 0x7e : infinity - 1;
}

static double smallest_normal(weir_dtype dtype)
{
    return decoded(dtype, (uint64_t)1 << weirv_format_of(dtype)->mantissa_bits);
}

/* Rounds an exact value wrongly: towards zero, or ties away from zero. */
static uint64_t encoded_wrongly(weir_dtype dtype, long double value, fault f)
{
    uint64_t near = encoded(dtype, (double)value), body = near & ~sign_bit(dtype);
    if (isnan(value) || value == 0 || isinf((double)value) || body > largest(dtype) + 1)
        return near;
    long double got = body > largest(dtype) ? HUGE_VALL : fabsl((long double)decoded(dtype, near));
    if (f == TRUNCATES)
        return got > fabsl(value) ? near - 1 : near;
    if (body >= largest(dtype) || got >= fabsl(value))
        return near;
    long double next = fabsl((long double)decoded(dtype, near + 1));
    return fabsl(value) - got == next - fabsl(value) ? near + 1 : near;
}

static double flushed(weir_dtype dtype, double value)
{
    return fabs(value) < smallest_normal(dtype) ? copysign(0, value) : value;
}

static double narrowed(weir_dtype dtype, double value)
{
    int exponent, bits = weirv_format_of(dtype)->mantissa_bits / 2 + 1;
    double fraction = frexp(value, &exponent);
    return isfinite(value) ? ldexp(nearbyint(ldexp(fraction, bits)), exponent - bits) : value;
}

static double ordered_pair(weir_dtype dtype, weir_op op, double a, double b, fault f)
{
    uint64_t sign = sign_bit(dtype), x = encoded(dtype, a), y = encoded(dtype, b);
    int less = a<b, more = a> b;
    if (f == DROPS_NAN)
        return op == WEIR_MAX ? fmax(a, b) : fmin(a, b);
    if (f == AS_BITS) {
        less = (int64_t)(x ^ sign) < (int64_t)(y ^ sign);
        if (sign >> 63)
            less = (int64_t)x < (int64_t)y;
        more = x != y && !less;
    }
    if (f == AS_MAGNITUDE) {
        less = fabs(a) < fabs(b);
        more = fabs(a) > fabs(b);
    }
    if (f != NAN_BY_SIDE && (isnan(a) || isnan(b)))
        return NAN;
    return (op == WEIR_MAX ? more : less) ? a : b;
}

static double added_pair(weir_dtype dtype, weir_op op, double a, double b, fault f)
{
    if (dtype == WEIR_DOUBLE || dtype == WEIR_FLOAT) {
        long double exact = op == WEIR_PROD ? (long double)a * b : (long double)a + b;
        if (f == TRUNCATES || f == TIES_AWAY)
            return decoded(dtype, encoded_wrongly(dtype, exact, f));
    }
    if (dtype == WEIR_DOUBLE)
        return op == WEIR_PROD ? a * b : a + b;
    return op == WEIR_PROD ? (float)a * (float)b : (float)a + (float)b;
}

static double float_start(weir_dtype dtype, weir_op op, fault f)
{
    double most = decoded(dtype, largest(dtype));
    switch (f) {
    case ONE_START:
        return 1;
    case LARGEST_START:
        return op == WEIR_MAX ? -most : most;
    case SMALLEST_START:
        return op == WEIR_MAX ? smallest_normal(dtype) : -smallest_normal(dtype);
    default:
        return 0;
    }
}

static uint64_t finished_float(weir_dtype dtype, double total, fault f)
{
    int overflows = fabs(total) > decoded(dtype, largest(dtype));
    uint64_t element =
        f == TRUNCATES || f == TIES_AWAY ? encoded_wrongly(dtype, total, f) : encoded(dtype, total);
    if (f == FINITE && (element & ~sign_bit(dtype)) == largest(dtype) + 1)
        element--;
    if (f == INFINITE && overflows)
        element = (element & sign_bit(dtype)) | (largest(dtype) + 1);
    if (f == FLUSHES_OUT && !isnan(total))
        element = encoded(dtype, flushed(dtype, decoded(dtype, element)));
    if (f == LOSES_ZERO_SIGN && decoded(dtype, element) == 0)
        element = 0;
    return element;
}

static uint64_t combined_floats(weir_dtype dtype, weir_op op, const uint64_t *values, int n,
                                fault f)
{
    int starts = f == ZERO_START || f == ONE_START || f == LARGEST_START || f == SMALLEST_START;
    int last = f == LOSES_RANK ? n - 1 : f == TWICE ? n + 1 : n;
    double total = float_start(dtype, op, f);
    for (int k = 0; k < last; k++) {
        double next = decoded(dtype, values[k < n ? k : n - 1]);
        if (f == FLUSHES_IN)
            next = flushed(dtype, next);
        if (f == NARROW)
            next = narrowed(dtype, next);
        if (op == WEIR_AVG && f == DIVIDES_FIRST)
            next = decoded(dtype, encoded(dtype, next / n));
        if (k == 0 && !starts)
            total = next;
        else if (op == WEIR_MAX || op == WEIR_MIN)
            total = ordered_pair(dtype, op, total, next, f);
        else
            total = added_pair(dtype, op, total, next, f);
        if (f == NARROW)
            total = narrowed(dtype, total);
    }
    if (op == WEIR_AVG && f != DIVIDES_FIRST)
        total = total / (f == DIVIDES_BY_LESS ? n - 1 : n);
    return finished_float(dtype, total, f);
}

static weir_op another(weir_op op)
{
    static const weir_op others[] = {[WEIR_SUM] = WEIR_MAX,
                                     [WEIR_PROD] = WEIR_SUM,
                                     [WEIR_MAX] = WEIR_MIN,
                                     [WEIR_MIN] = WEIR_MAX,
                                     [WEIR_AVG] = WEIR_SUM};
    return others[op];
}

static inline uint64_t combined(weir_dtype dtype, weir_op op, const uint64_t *values, int n,
                                fault f)
{
    op = f == OTHER_OP ? another(op) : op;
    uint64_t all = UINT64_MAX >> (64 - 8 * weir_dtype_bytes(dtype));
    return all & (weirv_format_of(dtype) ? combined_floats(dtype, op, values, n, f)
                                         : combined_integers(dtype, op, values, n, f));
}

#endif
