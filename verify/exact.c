/*
 * Exact inputs and their results: see exact.h. Loops that vectorise make the elements in pieces of
 * at most PIECE. A piece is passed by value, and elements go to an array of whole words first, so
 * that the compiler sees no store that could change what a loop reads.
 */
#include "verify/exact.h"

#include "verify/hash.h"
#include "verify/number.h"

#include <string.h>

enum { PIECE = 512, GROUP = 16, SHARED = 0xffff };

/* What the elements of a piece are computed from: the hashes of two positions, whose difference
 * they are, and the hash that all ranks share. */
typedef struct piece {
    weir_dtype dtype;
    weir_op op;
    const weirv_format *format; /* NULL: an integer */
    int nranks;
    int away;       /* distance to the rank that holds the result; -1: the result itself */
    int neighbours; /* ranks that share a position */
    uint32_t most;  /* the largest hash of a position, for floats */
    uint32_t lane, count;
    weirv_key low, high, shared;
} piece;

/* Chooses the number of neighbours and the largest hash so that the sum of all rises,
 * ceil(positions / 2) * most, stays within limit. */
static void choose_neighbours(piece *p, uint64_t limit, uint32_t most)
{
    uint64_t half = 0;
    for (p->neighbours = 1;; p->neighbours *= 2) {
        uint64_t positions =
            ((uint64_t)p->nranks + (uint64_t)p->neighbours - 1) / (uint64_t)p->neighbours;
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

/*
 * Keys order elements: the rank that holds the result has a key with bit k set; the other ranks'
 * keys agree with it above k, have bit k clear, and are random below. k is the top bit in a quarter
 * of the elements, so that a comparison with the wrong sign is wrong there, one of the lowest eight
 * bits in half of them, and any bit in the others. choice: a hash of the element.
 */
static inline uint32_t deciding_bit(uint32_t choice, uint32_t bits)
{
    uint32_t kind = choice >> 30, any = (choice >> 16 & 0x3fff) * bits >> 14;
    return kind == 3 ? bits - 1 : kind == 2 ? any : any & 7;
}

static inline int holds_result(piece p, uint32_t choice)
{
    int turn = (int)((choice & 0xffff) * (uint32_t)p.nranks >> 16);
    return p.away < 0 || p.away == turn;
}

/* bits: those of a key. second: the second highest exponent bit of a float, or 0. */
static inline uint32_t order_key(piece p, uint32_t lane, uint32_t bits, uint32_t second)
{
    uint32_t h = weirv_hash_lane(p.shared, lane), choice = h * 0xc2b2ae35u;
    uint32_t bit = 1u << deciding_bit(choice, bits), random = weirv_hash_low(p.low, h);
    bit += bit & second;
    uint32_t other = (h & ~(2 * bit - 1)) | (random & (bit - 1));
    uint32_t key = holds_result(p, choice) ? h | bit : other;
    return p.op == WEIR_MIN ? ~key : key;
}

/* A key of 64 bits in two halves, because shifts of 64 bits do not vectorise everywhere. */
static inline uint64_t order_wide_key(piece p, uint32_t lane, uint32_t second)
{
    uint32_t low = weirv_hash_lane(p.shared, lane), high = weirv_hash_low(p.shared, low);
    uint32_t choice = low * 0xc2b2ae35u, k = deciding_bit(choice, 64), bit = 1u << (k & 31);
    uint32_t low_bit = k < 32 ? bit : 0, high_bit = k < 32 ? 0 : bit;
    high_bit += high_bit & second;
    uint32_t low_random = k < 32 ? bit - 1 : UINT32_MAX, high_random = k < 32 ? 0 : high_bit - 1;
    uint32_t random = weirv_hash_low(p.low, low);
    uint32_t other_low = (low & ~(low_random | low_bit)) | (random & low_random);
    uint32_t other_high = (high & ~(high_random | high_bit)) | ((random ^ high) & high_random);
    int holds = holds_result(p, choice);
    low = holds ? low | low_bit : other_low;
    high = holds ? high | high_bit : other_high;
    uint64_t key = (uint64_t)high << 32 | low;
    return p.op == WEIR_MIN ? ~key : key;
}

static inline void order_integers(piece p, uint8_t *out)
{
    uint32_t bits[PIECE], width = 8 * (uint32_t)weir_dtype_bytes(p.dtype);
    int has_sign = p.dtype == WEIR_INT8 || p.dtype == WEIR_INT32;
    uint32_t flip = (uint32_t)has_sign << (width - 1);
    for (uint32_t i = 0; i < p.count; i++)
        bits[i] = order_key(p, p.lane + i, width, 0) ^ flip;
    store(out, width / 8, p.count, bits);
}

static inline void order_wide_integers(piece p, uint8_t *out)
{
    uint64_t bits[PIECE], flip = (uint64_t)(p.dtype == WEIR_INT64) << 63;
    for (uint32_t i = 0; i < p.count; i++)
        bits[i] = order_wide_key(p, p.lane + i, 0) ^ flip;
    memcpy(out, bits, 8 * (size_t)p.count);
}

/* Positive floats have a key with the top bit set before their magnitude, negative ones the
 * complement. The two highest bits of the exponent differ, so that numbers are normal. */
static inline void order_floats(piece p, uint8_t *out)
{
    uint32_t bits[PIECE], body = (uint32_t)(p.format->exponent_bits + p.format->mantissa_bits);
    uint32_t sign = 1u << body, second = sign >> 2;
    for (uint32_t i = 0; i < p.count; i++) {
        uint32_t key = order_key(p, p.lane + i, body + 1, second);
        key = (key & ~second) | (~key >> 1 & second);
        bits[i] = key & sign ? key & (sign - 1) : ~key & (2 * sign - 1);
    }
    store(out, weir_dtype_bytes(p.dtype), p.count, bits);
}

static inline void order_doubles(piece p, uint8_t *out)
{
    uint64_t bits[PIECE], sign = (uint64_t)1 << 63, second = sign >> 2;
    for (uint32_t i = 0; i < p.count; i++) {
        uint64_t key = order_wide_key(p, p.lane + i, (uint32_t)(second >> 32));
        key = (key & ~second) | (~key >> 1 & second);
        bits[i] = key & sign ? key & ~sign : ~key;
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
