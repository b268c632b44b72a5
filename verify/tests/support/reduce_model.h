/*
 * A model of the library's reductions that shares no code with them: small floats are decoded with
 * ldexp and encoded by rounding to a multiple of their unit; integers are computed in 64 bits.
 */
#ifndef VERIFY_TESTS_SUPPORT_REDUCE_MODEL_H
#define VERIFY_TESTS_SUPPORT_REDUCE_MODEL_H

#include <weir/target.h>
#include <weir/weir.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { MODEL_MAX_NSRC = 8 };

static const char *const isa_names[] = {"plain", "avx2", "avx512"};
enum { NISA = sizeof isa_names / sizeof isa_names[0] };

/* ----------------------------------------------------------- pseudo-random */

static uint64_t random_state = 1;

WEIR_FN uint64_t random_bits(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* ---------------------------------------------------------- model: formats */

typedef struct format {
    int exponent_bits;
    int mantissa_bits;
    int has_infinity; /* else the highest exponent is used for numbers too */
    int saturates;
} format;

WEIR_FN int format_of(weir_dtype dtype, format *found)
{
    switch (dtype) {
    case WEIR_HALF:
        *found = (format){5, 10, 1, 0};
        return 1;
    case WEIR_BFLOAT16:
        *found = (format){8, 7, 1, 0};
        return 1;
    case WEIR_FP8_E5M2:
        *found = (format){5, 2, 1, 1};
        return 1;
    case WEIR_FP8_E4M3:
        *found = (format){4, 3, 0, 1};
        return 1;
    default:
        return 0;
    }
}

WEIR_FN double model_decode(format f, unsigned code)
{
    unsigned exponent = code >> f.mantissa_bits & ((1u << f.exponent_bits) - 1);
    unsigned mantissa = code & ((1u << f.mantissa_bits) - 1);
    unsigned top = (1u << f.exponent_bits) - 1;
    int bias = (1 << (f.exponent_bits - 1)) - 1;
    double sign = code >> (f.exponent_bits + f.mantissa_bits) & 1 ? -1 : 1;
    if (f.has_infinity && exponent == top)
        return mantissa ? NAN : sign * INFINITY;
    if (!f.has_infinity && exponent == top && mantissa == (1u << f.mantissa_bits) - 1)
        return NAN;
    if (exponent == 0)
        return sign * ldexp(mantissa, 1 - bias - f.mantissa_bits);
    return sign * ldexp(mantissa + (1u << f.mantissa_bits), (int)exponent - bias - f.mantissa_bits);
}

/* Before the codes of infinity and NaN; NaN alone is one code. */
WEIR_FN double model_largest(format f)
{
    unsigned not_finite = f.has_infinity ? 1u << f.mantissa_bits : 1;
    return model_decode(f, (1u << (f.exponent_bits + f.mantissa_bits)) - not_finite - 1);
}

/* Not for NaN. Rounds to the unit that value's exponent has, in double, where
 * both the division and the multiplication by a power of two are exact. */
WEIR_FN unsigned model_encode(format f, double value)
{
    int bias = (1 << (f.exponent_bits - 1)) - 1;
    unsigned sign = signbit(value) ? 1u << (f.exponent_bits + f.mantissa_bits) : 0;
    unsigned infinity = ((1u << f.exponent_bits) - 1) << f.mantissa_bits;
    double largest = model_largest(f);
    int exponent = 1 - bias;
    if (isfinite(value) && value != 0 && ilogb(value) > exponent)
        exponent = ilogb(value);
    double steps =
        isinf(value) ? INFINITY : nearbyint(ldexp(fabs(value), f.mantissa_bits - exponent));
    if (ldexp(steps, exponent - f.mantissa_bits) > largest) {
        if (!f.saturates)
            return sign | infinity;
        steps = ldexp(largest, f.mantissa_bits - ilogb(largest));
        exponent = ilogb(largest);
    }
    return sign | ((unsigned)steps + ((unsigned)(exponent - 1 + bias) << f.mantissa_bits));
}

/* -------------------------------------------------------- model: reduction */

WEIR_FN int is_signed(weir_dtype dtype)
{
    return dtype == WEIR_INT8 || dtype == WEIR_INT32 || dtype == WEIR_INT64;
}

/* An integer as 64 bits, sign or zero extended. */
WEIR_FN uint64_t extend(weir_dtype dtype, uint64_t bits)
{
    int unused = 64 - 8 * (int)weir_dtype_bytes(dtype);
    if (is_signed(dtype))
        return (uint64_t)((int64_t)(bits << unused) >> unused);
    return bits << unused >> unused;
}

WEIR_FN uint64_t model_integer(weir_dtype dtype, weir_op op, const uint64_t *values, int nsrc,
                               uint64_t divisor)
{
    uint64_t total = extend(dtype, values[0]);
    for (int k = 1; k < nsrc; k++) {
        uint64_t next = extend(dtype, values[k]);
        int less = is_signed(dtype) ? (int64_t)total < (int64_t)next : total < next;
        if (op == WEIR_PROD)
            total = extend(dtype, total * next);
        else if (op == WEIR_MAX)
            total = less ? next : total;
        else if (op == WEIR_MIN)
            total = less ? total : next;
        else
            total = extend(dtype, total + next);
    }
    if (op != WEIR_AVG)
        return total;
    if (is_signed(dtype) && total >> 63)
        return 0 - (0 - total) / divisor;
    return total / divisor;
}

#define MODEL_FLOATING(name, type)                                                                 \
    WEIR_FN type name(weir_op op, const type *values, int nsrc, uint64_t divisor)                  \
    {                                                                                              \
        type total = values[0];                                                                    \
        for (int k = 1; k < nsrc; k++) {                                                           \
            type next = values[k];                                                                 \
            if (op == WEIR_PROD)                                                                   \
                total = total * next;                                                              \
            else if (op == WEIR_SUM || op == WEIR_AVG)                                             \
                total = total + next;                                                              \
            else if (isnan(total) || isnan(next))                                                  \
                total = NAN;                                                                       \
            else if (op == WEIR_MAX ? !(total > next) : !(total < next))                           \
                total = next;                                                                      \
        }                                                                                          \
        return op == WEIR_AVG ? total / (type)divisor : total;                                     \
    }

MODEL_FLOATING(model_float, float)
MODEL_FLOATING(model_double, double)

/* One element: values are its bits in every source, the result its bits. */
WEIR_FN uint64_t model_element(weir_dtype dtype, weir_op op, const uint64_t *values, int nsrc,
                               uint64_t divisor)
{
    float floats[MODEL_MAX_NSRC] = {0};
    double doubles[MODEL_MAX_NSRC] = {0};
    format f = {0, 0, 0, 0};
    int small = format_of(dtype, &f);
    for (int k = 0; k < nsrc; k++) {
        uint32_t low = (uint32_t)values[k];
        if (small)
            floats[k] = (float)model_decode(f, low);
        else
            memcpy(&floats[k], &low, sizeof low);
        memcpy(&doubles[k], &values[k], sizeof doubles[k]);
    }
    if (dtype == WEIR_DOUBLE) {
        double total = model_double(op, doubles, nsrc, divisor);
        uint64_t bits;
        memcpy(&bits, &total, sizeof bits);
        return bits;
    }
    if (!small && dtype != WEIR_FLOAT)
        return model_integer(dtype, op, values, nsrc, divisor);
    float total = model_float(op, floats, nsrc, divisor);
    if (small)
        return isnan(total) ? (1u << (f.exponent_bits + f.mantissa_bits)) - 1
                            : model_encode(f, (double)total);
    uint32_t bits;
    memcpy(&bits, &total, sizeof bits);
    return bits;
}

/* ------------------------------------------------------------- comparison */

WEIR_FN uint64_t get_bits(weir_dtype dtype, const uint8_t *data, size_t i)
{
    uint64_t bits = 0;
    size_t bytes = weir_dtype_bytes(dtype);
    memcpy(&bits, data + i * bytes, bytes);
    return bits;
}

WEIR_FN void put_bits(weir_dtype dtype, uint8_t *data, size_t i, uint64_t bits)
{
    size_t bytes = weir_dtype_bytes(dtype);
    memcpy(data + i * bytes, &bits, bytes);
}

WEIR_FN int is_nan_bits(weir_dtype dtype, uint64_t bits)
{
    format f = {0, 0, 0, 0};
    if (dtype == WEIR_DOUBLE)
        return (bits & INT64_MAX) > 0x7ff0000000000000;
    if (dtype == WEIR_FLOAT)
        return (bits & 0x7fffffff) > 0x7f800000;
    return format_of(dtype, &f) && isnan(model_decode(f, (unsigned)bits));
}

/* Whether data holds expected, any NaN for a NaN. */
WEIR_FN int same_values(weir_dtype dtype, const uint8_t *data, const uint8_t *expected,
                        size_t count)
{
    size_t bytes = weir_dtype_bytes(dtype);
    if (memcmp(data, expected, count * bytes) == 0)
        return 1;
    for (size_t i = 0; i < count; i++) {
        uint64_t got = get_bits(dtype, data, i), want = get_bits(dtype, expected, i);
        if (got == want || (is_nan_bits(dtype, got) && is_nan_bits(dtype, want)))
            continue;
        print_message("# element %zu: %#llx, expected %#llx\n", i, (unsigned long long)got,
                      (unsigned long long)want);
        return 0;
    }
    return 1;
}

#endif
