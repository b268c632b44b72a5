/* Exact inputs and their results: see exact.h. */
#include "verify/exact.h"

#include "verify/hash.h"
#include "verify/number.h"

#include <string.h>

enum { PIECE = 512, GROUP = 16, STEPS_AWAY = 63, SHARED = 0xffff };

/* What a piece of at most PIECE elements is made of: the difference of two
 * positions, and the hash that all ranks share. */
typedef struct piece {
    weir_dtype dtype;
    weir_op op;
    const weirv_format *format; /* NULL: an integer */
    int nranks;
    int away;        /* rank whose input it is; -1: the result */
    int neighbours;  /* ranks that share a position */
    uint32_t most;   /* of a position's hash, floats */
    uint32_t lane, count;
    weirv_key low, high, shared;
} piece;

/* The neighbours and the largest hash with which rises over all positions,
 * ceil(positions / 2) * most, stay within limit. */
static void fit(piece *p, uint64_t limit, uint32_t most)
{
    uint64_t half = 0;
    for (p->neighbours = 1;; p->neighbours *= 2) {
        uint64_t positions = ((uint64_t)p->nranks + (uint64_t)p->neighbours - 1) /
                             (uint64_t)p->neighbours;
        half = (positions + 1) / 2;
        if (half <= limit)
            break;
    }
    p->most = limit / half < most ? (uint32_t)(limit / half) : most;
}

static piece describe(weir_dtype dtype, weir_op op, int rank, int nranks)
{
    piece p = {.dtype = dtype, .op = op, .nranks = nranks, .away = rank, .neighbours = 1};
    p.format = weirv_format_of(dtype);
    if (p.format && (op == WEIR_SUM || op == WEIR_AVG))
        fit(&p, (uint64_t)1 << (p.format->mantissa_bits + 1), INT32_MAX);
    else if (p.format && op == WEIR_PROD)
        fit(&p, (uint64_t)p.format->bias - 1, 3);
    return p;
}

/* Moves p to the piece at index; returns its length, at most count. */
static size_t place(piece *p, size_t index, size_t count, uint64_t seed)
{
    uint64_t strip = index / WEIRV_STRIP_ELEMENTS;
    uint64_t kind = 0x8000u | (uint64_t)p->dtype << 8 | (uint64_t)p->op;
    size_t length = p->neighbours > 1 ? GROUP : PIECE, group = (size_t)p->neighbours;
    size_t shift = (index / GROUP + (size_t)weirv_mix64(seed)) % group;
    size_t low = (size_t)(p->away < 0 ? 0 : p->away) + shift;
    size_t high = (size_t)(p->away < 0 ? p->nranks : p->away + 1) + shift;
    p->lane = (uint32_t)(index % WEIRV_STRIP_ELEMENTS);
    length -= index % length;
    p->count = (uint32_t)(length < count ? length : count);
    p->low = weirv_key_of(kind, low / group, seed, strip);
    p->high = weirv_key_of(kind, high / group, seed, strip);
    p->shared = weirv_key_of(kind, SHARED, seed, strip);
    return p->count;
}

static void store(uint8_t *out, size_t width, uint32_t count, const uint32_t *bits)
{
    if (width == 4) {
        memcpy(out, bits, 4 * (size_t)count);
        return;
    }
    for (uint32_t i = 0; i < count && width == 1; i++)
        out[i] = (uint8_t)bits[i];
    for (uint32_t i = 0; i < count && width == 2; i++) {
        uint16_t two = (uint16_t)bits[i];
        memcpy(out + 2 * (size_t)i, &two, sizeof two);
    }
}

/* -------------------------------------------------------------- integers */

/* Of an odd number modulo 2^64, hence of every power of two below: each step
 * doubles the right bits, from 5. */
static inline uint64_t inverse64(uint64_t odd)
{
    uint64_t x = odd * 3 ^ 2;
    for (int i = 0; i < 4; i++)
        x *= 2 - odd * x;
    return x;
}

static inline uint32_t inverse32(uint32_t odd)
{
    uint32_t x = odd * 3 ^ 2;
    for (int i = 0; i < 3; i++)
        x *= 2 - odd * x;
    return x;
}

static void average_integers(const piece *p, uint32_t *bits)
{
    int32_t n = p->nranks;
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->dtype == WEIR_INT8)
            bits[i] = (uint32_t)((int8_t)bits[i] / n);
        else if (p->dtype == WEIR_UINT8)
            bits[i] = (uint8_t)bits[i] / (uint32_t)n;
        else if (p->dtype == WEIR_INT32)
            bits[i] = (uint32_t)((int32_t)bits[i] / n);
        else
            bits[i] /= (uint32_t)n;
    }
}

static void combine_integers(const piece *p, uint8_t *out)
{
    uint32_t bits[PIECE];
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t low = weirv_hash_lane(p->low, p->lane + i);
        uint32_t high = weirv_hash_lane(p->high, p->lane + i);
        bits[i] = p->op == WEIR_PROD ? (high | 1) * inverse32(low | 1) : high - low;
    }
    if (p->op == WEIR_AVG && p->away < 0)
        average_integers(p, bits);
    store(out, weir_dtype_bytes(p->dtype), p->count, bits);
}

static inline uint64_t hash_wide(weirv_key key, uint32_t lane)
{
    uint32_t high = weirv_hash_lane(key, lane);
    return (uint64_t)high << 32 | weirv_hash_low(key, high);
}

static void combine_wide_integers(const piece *p, uint8_t *out)
{
    int averages = p->op == WEIR_AVG && p->away < 0;
    for (uint32_t i = 0; i < p->count; i++) {
        uint64_t low = hash_wide(p->low, p->lane + i), high = hash_wide(p->high, p->lane + i);
        uint64_t bits = p->op == WEIR_PROD ? (high | 1) * inverse64(low | 1) : high - low;
        if (averages && p->dtype == WEIR_INT64)
            bits = (uint64_t)((int64_t)bits / p->nranks);
        else if (averages)
            bits /= (uint64_t)p->nranks;
        memcpy(out + 8 * (size_t)i, &bits, sizeof bits);
    }
}

/* ---------------------------------------------------------------- floats */

/* Bits of a normal float in a smaller format, rounded to nearest even. */
static inline uint32_t narrow(float value, int mantissa_bits, int bias, uint32_t sign_shift)
{
    uint32_t wide, cut = 23 - (uint32_t)mantissa_bits;
    memcpy(&wide, &value, sizeof wide);
    uint32_t body = wide & 0x7fffffffu;
    uint32_t rounded = (body + (1u << (cut - 1)) - 1 + (body >> cut & 1)) >> cut;
    uint32_t small = rounded - ((uint32_t)(127 - bias) << mantissa_bits);
    return (body ? small : 0) | (wide >> 31) << sign_shift;
}

static inline int32_t difference(const piece *p, uint32_t i, uint32_t values)
{
    uint32_t low = weirv_hash_below(weirv_hash_lane(p->low, p->lane + i), values);
    uint32_t high = weirv_hash_below(weirv_hash_lane(p->high, p->lane + i), values);
    return (int32_t)(high - low);
}

static void add_floats(const piece *p, uint8_t *out)
{
    const weirv_format *format = p->format;
    double divisor = p->op == WEIR_AVG && p->away < 0 ? p->nranks : 1;
    size_t width = weir_dtype_bytes(p->dtype);
    uint32_t bits[PIECE];
    if (p->dtype == WEIR_DOUBLE) {
        for (uint32_t i = 0; i < p->count; i++) {
            double value = difference(p, i, p->most + 1) / divisor;
            memcpy(out + 8 * (size_t)i, &value, sizeof value);
        }
        return;
    }
    for (uint32_t i = 0; i < p->count; i++) {
        float value = (float)(difference(p, i, p->most + 1) / divisor);
        if (p->dtype == WEIR_FLOAT)
            memcpy(&bits[i], &value, sizeof value);
        else
            bits[i] = narrow(value, format->mantissa_bits, format->bias, 8 * (uint32_t)width - 1);
    }
    store(out, width, p->count, bits);
}

/* Exponent, sign and, on the rank whose turn it is, significand. */
static void multiply_floats(const piece *p, uint8_t *out)
{
    const weirv_format *format = p->format;
    size_t width = weir_dtype_bytes(p->dtype);
    int mantissa = format->mantissa_bits;
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t lane = p->lane + i, h = weirv_hash_lane(p->shared, lane);
        uint32_t low = weirv_hash_lane(p->low, lane), high = weirv_hash_lane(p->high, lane);
        int turn = (int)weirv_hash_below(h, (uint32_t)p->nranks);
        int64_t exponent = difference(p, i, p->most + 1);
        uint64_t sign = (low ^ high) & 1;
        uint64_t bits = (uint64_t)(format->bias + exponent) << mantissa;
        uint64_t significand = (uint64_t)weirv_hash_low(p->shared, h) << 32 | h * 0x85ebca6bu;
        if (p->away < 0 || p->away == turn)
            bits |= significand >> (64 - mantissa);
        bits |= sign << (8 * width - 1);
        memcpy(out + width * i, &bits, width); /* little-endian */
    }
}

/* ---------------------------------------------------- the largest, least */

/* Steps from the result, 0 on the rank whose turn it is. */
static inline uint32_t steps_away(const piece *p, uint32_t h)
{
    uint32_t n = (uint32_t)p->nranks;
    if (p->away < 0)
        return 0;
    uint32_t steps = (uint32_t)p->away + weirv_hash_below(h * 0x85ebca6bu, n);
    steps -= steps >= n ? n : 0;
    return steps < STEPS_AWAY ? steps : STEPS_AWAY;
}

static void order_integers(const piece *p, uint8_t *out)
{
    size_t width = weir_dtype_bytes(p->dtype);
    int has_sign = p->dtype == WEIR_INT8 || p->dtype == WEIR_INT32 || p->dtype == WEIR_INT64;
    uint64_t flip = (uint64_t)has_sign << (8 * width - 1);
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t h = weirv_hash_lane(p->shared, p->lane + i), steps = steps_away(p, h);
        uint64_t wide = (uint64_t)weirv_hash_low(p->shared, h) << 32 | h;
        uint64_t bits = p->op == WEIR_MAX ? (wide | 64) - steps : (wide & ~(uint64_t)64) + steps;
        bits ^= flip;
        memcpy(out + width * i, &bits, width);
    }
}

/* Normal numbers of either sign; magnitudes are consecutive bit patterns. */
static void order_floats(const piece *p, uint8_t *out)
{
    const weirv_format *format = p->format;
    size_t width = weir_dtype_bytes(p->dtype);
    int mantissa = format->mantissa_bits, body = format->exponent_bits + mantissa;
    uint64_t least = (uint64_t)1 << mantissa;
    uint64_t infinity = ((uint64_t)1 << body) - least;
    uint64_t largest = p->dtype == WEIR_FP8_E4M3 ? 0x7e : infinity - 1;
    uint64_t span = largest - least - STEPS_AWAY + 1;
    int cut = width == 8 ? 32 : 0;
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t h = weirv_hash_lane(p->shared, p->lane + i), steps = steps_away(p, h);
        uint64_t negative = weirv_hash_low(p->shared, h) & 1;
        int downwards = (p->op == WEIR_MAX) != (int)negative;
        uint64_t bits = (uint64_t)weirv_hash_below(h, (uint32_t)(span >> cut)) << cut;
        bits += cut ? weirv_hash_low(p->shared, h) : 0;
        bits += downwards ? least + STEPS_AWAY - steps : least + steps;
        bits |= negative << body;
        memcpy(out + width * i, &bits, width);
    }
}

static void make(const piece *p, uint8_t *out)
{
    int orders = p->op == WEIR_MAX || p->op == WEIR_MIN;
    if (orders && p->format)
        order_floats(p, out);
    else if (orders)
        order_integers(p, out);
    else if (p->format && p->op == WEIR_PROD)
        multiply_floats(p, out);
    else if (p->format)
        add_floats(p, out);
    else if (weir_dtype_bytes(p->dtype) == 8)
        combine_wide_integers(p, out);
    else
        combine_integers(p, out);
}

void weirv_exact_fill(void *buffer, size_t first, size_t count, weir_dtype dtype, weir_op op,
                      int rank, int nranks, uint64_t seed)
{
    piece p = describe(dtype, op, rank, nranks);
    uint8_t *out = buffer;
    size_t width = weir_dtype_bytes(dtype);
    for (size_t done = 0; done < count;) {
        size_t length = place(&p, first + done, count - done, seed);
        make(&p, out + done * width);
        done += length;
    }
}

void weirv_exact_result(void *buffer, size_t first, size_t count, weir_dtype dtype, weir_op op,
                        int nranks, uint64_t seed)
{
    weirv_exact_fill(buffer, first, count, dtype, op, -1, nranks, seed);
}
