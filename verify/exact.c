/*
 * Exact inputs and their results: see exact.h. Loops that vectorise make the elements in pieces of
 * at most PIECE. A piece is passed by value, and elements go to an array of whole words first, so
 * that the compiler sees no store that could change what a loop reads.
 */
#include "verify/exact.h"

#include "verify/hash.h"
#include "verify/number.h"

#include <string.h>

enum { PIECE = 512, GROUP = 16, STEPS_AWAY = 63, SHARED = 0xffff };

/* What the elements of a piece are computed from: the hashes of two positions, whose difference
 * they are, and the hash that all ranks share. */
typedef struct piece {
    weir_dtype dtype;
    weir_op op;
    const weirv_format *format; /* NULL: an integer */
    int nranks;
    int away;        /* distance to the rank that holds the result; -1: the result itself */
    int neighbours;  /* ranks that share a position */
    uint32_t most;   /* the largest hash of a position, for floats */
    uint32_t lane, count;
    weirv_key low, high, shared;
} piece;

/* Chooses the number of neighbours and the largest hash so that the sum of all rises,
 * ceil(positions / 2) * most, stays within limit. */
static void choose_neighbours(piece *p, uint64_t limit, uint32_t most)
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
        choose_neighbours(&p, (uint64_t)1 << (p.format->mantissa_bits + 1), INT32_MAX);
    else if (p.format && op == WEIR_PROD)
        choose_neighbours(&p, (uint64_t)p.format->bias - 1, 3);
    return p;
}

/* Moves p to the piece at index. Returns its length, at most count. */
static size_t move_piece(piece *p, size_t index, size_t count, uint64_t seed)
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

/* The inverse of an odd number modulo 2^64, hence modulo every smaller power of two. Each step
 * doubles the number of correct bits, starting with 5. */
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

/* Divides towards zero, as integers do. Division in double vectorises, and is exact enough, because
 * the quotient of a 32-bit number by less than 2^20 is truncated. */
static inline void average_integers(piece p, uint32_t *bits)
{
    double n = p.nranks;
    for (uint32_t i = 0; i < p.count && p.dtype == WEIR_INT8; i++)
        bits[i] = (uint32_t)(int32_t)((int8_t)bits[i] / n);
    for (uint32_t i = 0; i < p.count && p.dtype == WEIR_UINT8; i++)
        bits[i] = (uint32_t)(int32_t)((uint8_t)bits[i] / n);
    for (uint32_t i = 0; i < p.count && p.dtype == WEIR_INT32; i++)
        bits[i] = (uint32_t)(int32_t)((int32_t)bits[i] / n);
    for (uint32_t i = 0; i < p.count && p.dtype == WEIR_UINT32; i++)
        bits[i] = (uint32_t)(int64_t)(bits[i] / n);
}

static inline void combine_integers(piece p, uint8_t *out)
{
    uint32_t bits[PIECE];
    for (uint32_t i = 0; i < p.count && p.op == WEIR_PROD; i++) {
        uint32_t low = weirv_hash_lane(p.low, p.lane + i);
        uint32_t high = weirv_hash_lane(p.high, p.lane + i);
        bits[i] = (high | 1) * inverse32(low | 1);
    }
    for (uint32_t i = 0; i < p.count && p.op != WEIR_PROD; i++)
        bits[i] = weirv_hash_lane(p.high, p.lane + i) - weirv_hash_lane(p.low, p.lane + i);
    if (p.op == WEIR_AVG && p.away < 0)
        average_integers(p, bits);
    store(out, weir_dtype_bytes(p.dtype), p.count, bits);
}

static inline uint64_t hash_wide(weirv_key key, uint32_t lane)
{
    uint32_t high = weirv_hash_lane(key, lane);
    return (uint64_t)high << 32 | weirv_hash_low(key, high);
}

static inline void combine_wide_integers(piece p, uint8_t *out)
{
    uint64_t bits[PIECE];
    for (uint32_t i = 0; i < p.count && p.op == WEIR_PROD; i++) {
        uint64_t low = hash_wide(p.low, p.lane + i), high = hash_wide(p.high, p.lane + i);
        bits[i] = (high | 1) * inverse64(low | 1);
    }
    for (uint32_t i = 0; i < p.count && p.op != WEIR_PROD; i++)
        bits[i] = hash_wide(p.high, p.lane + i) - hash_wide(p.low, p.lane + i);
    int averages = p.op == WEIR_AVG && p.away < 0;
    for (uint32_t i = 0; i < p.count && averages; i++)
        bits[i] = p.dtype == WEIR_INT64 ? (uint64_t)((int64_t)bits[i] / p.nranks)
                                        : bits[i] / (uint64_t)p.nranks;
    memcpy(out, bits, 8 * (size_t)p.count);
}

/* ---------------------------------------------------------------- floats */

/* The bits of a normal float in a smaller format, rounded to nearest, ties to even. */
static inline uint32_t narrow_float(float value, int mantissa_bits, int bias, uint32_t sign_shift)
{
    uint32_t wide, cut = 23 - (uint32_t)mantissa_bits;
    memcpy(&wide, &value, sizeof wide);
    uint32_t body = wide & 0x7fffffffu;
    uint32_t rounded = (body + (1u << (cut - 1)) - 1 + (body >> cut & 1)) >> cut;
    uint32_t small = rounded - ((uint32_t)(127 - bias) << mantissa_bits);
    return (body ? small : 0) | (wide >> 31) << sign_shift;
}

static inline int32_t difference(piece p, uint32_t lane, uint32_t values)
{
    uint32_t low = weirv_hash_below(weirv_hash_lane(p.low, lane), values);
    uint32_t high = weirv_hash_below(weirv_hash_lane(p.high, lane), values);
    return (int32_t)(high - low);
}

static inline void add_doubles(piece p, uint8_t *out)
{
    double values[PIECE], divisor = p.nranks;
    for (uint32_t i = 0; i < p.count; i++)
        values[i] = difference(p, p.lane + i, p.most + 1);
    for (uint32_t i = 0; i < p.count && p.op == WEIR_AVG && p.away < 0; i++)
        values[i] /= divisor;
    memcpy(out, values, 8 * (size_t)p.count);
}

static inline void add_floats(piece p, uint8_t *out)
{
    double divisor = p.nranks;
    size_t width = weir_dtype_bytes(p.dtype);
    int averages = p.op == WEIR_AVG && p.away < 0;
    int mantissa = p.format->mantissa_bits, bias = p.format->bias;
    uint32_t bits[PIECE], sign_shift = 8 * (uint32_t)width - 1;
    float values[PIECE];
    for (uint32_t i = 0; i < p.count && averages; i++)
        values[i] = (float)(difference(p, p.lane + i, p.most + 1) / divisor);
    for (uint32_t i = 0; i < p.count && !averages; i++)
        values[i] = (float)difference(p, p.lane + i, p.most + 1);
    if (p.dtype == WEIR_FLOAT) {
        memcpy(out, values, 4 * (size_t)p.count);
        return;
    }
    for (uint32_t i = 0; i < p.count; i++)
        bits[i] = narrow_float(values[i], mantissa, bias, sign_shift);
    store(out, width, p.count, bits);
}

/* Exponent, sign and, on the rank that contributes it, the significand. */
static inline void multiply_doubles(piece p, uint8_t *out)
{
    uint64_t bits[PIECE];
    int bias = p.format->bias, mantissa = p.format->mantissa_bits;
    for (uint32_t i = 0; i < p.count; i++) {
        uint32_t lane = p.lane + i, h = weirv_hash_lane(p.shared, lane);
        uint32_t signs = weirv_hash_lane(p.low, lane) ^ weirv_hash_lane(p.high, lane);
        int turn = (int)weirv_hash_below(h, (uint32_t)p.nranks);
        uint64_t significand = (uint64_t)weirv_hash_low(p.shared, h) << 32 | h * 0x85ebca6bu;
        uint64_t exponent = (uint64_t)(bias + difference(p, lane, p.most + 1));
        significand = p.away < 0 || p.away == turn ? significand >> (64 - mantissa) : 0;
        bits[i] = exponent << mantissa | significand | (uint64_t)signs << 63;
    }
    memcpy(out, bits, 8 * (size_t)p.count);
}

static inline void multiply_floats(piece p, uint8_t *out)
{
    uint32_t bits[PIECE];
    size_t width = weir_dtype_bytes(p.dtype);
    int bias = p.format->bias, mantissa = p.format->mantissa_bits;
    uint32_t sign_shift = 8 * (uint32_t)width - 1;
    for (uint32_t i = 0; i < p.count; i++) {
        uint32_t lane = p.lane + i, h = weirv_hash_lane(p.shared, lane);
        uint32_t signs = weirv_hash_lane(p.low, lane) ^ weirv_hash_lane(p.high, lane);
        int turn = (int)weirv_hash_below(h, (uint32_t)p.nranks);
        uint32_t exponent = (uint32_t)(bias + difference(p, lane, p.most + 1));
        uint32_t significand = weirv_hash_low(p.shared, h) >> (32 - mantissa);
        significand = p.away < 0 || p.away == turn ? significand : 0;
        bits[i] = exponent << mantissa | significand | (signs & 1) << sign_shift;
    }
    store(out, width, p.count, bits);
}

/* ---------------------------------------------------- the largest, least */

/* Steps from the result: 0 on the rank that holds it. */
static inline uint32_t steps_away(piece p, uint32_t h)
{
    uint32_t n = (uint32_t)p.nranks;
    uint32_t steps = (uint32_t)p.away + weirv_hash_below(h * 0x85ebca6bu, n);
    steps -= steps >= n ? n : 0;
    steps = steps < STEPS_AWAY ? steps : STEPS_AWAY;
    return p.away < 0 ? 0 : steps;
}

static inline void order_integers(piece p, uint8_t *out)
{
    uint32_t bits[PIECE];
    size_t width = weir_dtype_bytes(p.dtype);
    int has_sign = p.dtype == WEIR_INT8 || p.dtype == WEIR_INT32;
    uint32_t flip = (uint32_t)has_sign << (8 * width - 1);
    for (uint32_t i = 0; i < p.count; i++) {
        uint32_t h = weirv_hash_lane(p.shared, p.lane + i), steps = steps_away(p, h);
        bits[i] = (p.op == WEIR_MAX ? (h | 64) - steps : (h & ~64u) + steps) ^ flip;
    }
    store(out, width, p.count, bits);
}

static inline void order_wide_integers(piece p, uint8_t *out)
{
    uint64_t bits[PIECE], flip = (uint64_t)(p.dtype == WEIR_INT64) << 63;
    for (uint32_t i = 0; i < p.count; i++) {
        uint32_t h = weirv_hash_lane(p.shared, p.lane + i), steps = steps_away(p, h);
        uint64_t wide = (uint64_t)weirv_hash_low(p.shared, h) << 32 | h;
        bits[i] = (p.op == WEIR_MAX ? (wide | 64) - steps : (wide & ~(uint64_t)64) + steps) ^ flip;
    }
    memcpy(out, bits, 8 * (size_t)p.count);
}

/* Normal numbers of either sign; the magnitudes are consecutive bit patterns from the smallest
 * normal number on. */
static inline void order_floats(piece p, uint8_t *out)
{
    uint32_t bits[PIECE];
    int mantissa = p.format->mantissa_bits, body = p.format->exponent_bits + mantissa;
    uint32_t least = 1u << mantissa, infinity = (1u << body) - least;
    uint32_t largest = p.dtype == WEIR_FP8_E4M3 ? 0x7e : infinity - 1;
    uint32_t span = largest - least - STEPS_AWAY + 1;
    for (uint32_t i = 0; i < p.count; i++) {
        uint32_t h = weirv_hash_lane(p.shared, p.lane + i), steps = steps_away(p, h);
        uint32_t negative = weirv_hash_low(p.shared, h) & 1;
        uint32_t downwards = (uint32_t)(p.op == WEIR_MAX) ^ negative;
        uint32_t magnitude = weirv_hash_below(h, span) + least;
        magnitude += downwards ? STEPS_AWAY - steps : steps;
        bits[i] = magnitude | negative << body;
    }
    store(out, weir_dtype_bytes(p.dtype), p.count, bits);
}

static inline void order_doubles(piece p, uint8_t *out)
{
    uint64_t bits[PIECE];
    int mantissa = p.format->mantissa_bits, body = p.format->exponent_bits + mantissa;
    uint64_t least = (uint64_t)1 << mantissa, infinity = ((uint64_t)1 << body) - least;
    uint32_t span = (uint32_t)((infinity - least - STEPS_AWAY) >> 32);
    for (uint32_t i = 0; i < p.count; i++) {
        uint32_t h = weirv_hash_lane(p.shared, p.lane + i), steps = steps_away(p, h);
        uint32_t low = weirv_hash_low(p.shared, h), negative = low & 1;
        uint32_t downwards = (uint32_t)(p.op == WEIR_MAX) ^ negative;
        uint64_t magnitude = ((uint64_t)weirv_hash_below(h, span) << 32 | low) + least;
        magnitude += downwards ? STEPS_AWAY - steps : steps;
        bits[i] = magnitude | (uint64_t)negative << body;
    }
    memcpy(out, bits, 8 * (size_t)p.count);
}

static inline void make(piece p, uint8_t *out)
{
    int orders = p.op == WEIR_MAX || p.op == WEIR_MIN, is_wide = weir_dtype_bytes(p.dtype) == 8;
    if (orders && p.format)
        is_wide ? order_doubles(p, out) : order_floats(p, out);
    else if (orders)
        is_wide ? order_wide_integers(p, out) : order_integers(p, out);
    else if (p.format && p.op == WEIR_PROD)
        is_wide ? multiply_doubles(p, out) : multiply_floats(p, out);
    else if (p.format)
        is_wide ? add_doubles(p, out) : add_floats(p, out);
    else
        is_wide ? combine_wide_integers(p, out) : combine_integers(p, out);
}

/* ----------------------------------------------- for what the processor has */

#ifdef __x86_64__
__attribute__((target(WEIRV_AVX2), flatten)) static void make_avx2(piece p, uint8_t *out)
{
    make(p, out);
}

__attribute__((target(WEIRV_AVX512), flatten)) static void make_avx512(piece p, uint8_t *out)
{
    make(p, out);
}

static void make_best(piece p, uint8_t *out)
{
    if (weirv_has_avx512())
        make_avx512(p, out);
    else if (weirv_has_avx2())
        make_avx2(p, out);
    else
        make(p, out);
}
#else
static void make_best(piece p, uint8_t *out)
{
    make(p, out);
}
#endif

void weirv_exact_fill(void *buffer, size_t first, size_t count, weir_dtype dtype, weir_op op,
                      int rank, int nranks, uint64_t seed)
{
    piece p = describe(dtype, op, rank, nranks);
    uint8_t *out = buffer;
    size_t width = weir_dtype_bytes(dtype);
    for (size_t done = 0; done < count;) {
        size_t length = move_piece(&p, first + done, count - done, seed);
        make_best(p, out + done * width);
        done += length;
    }
}

void weirv_exact_result(void *buffer, size_t first, size_t count, weir_dtype dtype, weir_op op,
                        int nranks, uint64_t seed)
{
    weirv_exact_fill(buffer, first, count, dtype, op, -1, nranks, seed);
}
