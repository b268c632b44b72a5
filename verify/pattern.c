/* Input data: see pattern.h. An element is a hash (hash.h), masked into a valid number. */
#include "verify/pattern.h"

#include "base/contract.h"
#include "verify/exact.h"
#include "verify/hash.h"
#include "verify/number.h"
#include "verify/special.h"

#include <string.h>

enum { CHECK_ELEMENTS = 2048 };

/* How hash bits become an element: ((base + (hash & mask)) | (hash & sign)) | set. */
typedef struct shape {
    uint64_t base, mask, sign, set;
} shape;

static shape integer_shape(weir_dtype dtype, weir_op op)
{
    size_t bits = 8 * weir_dtype_bytes(dtype);
    uint64_t all = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    return (shape){0, all, 0, op == WEIR_PROD};
}

/* Fields below the sign are contiguous, so one addition of random low bits to a
 * base covers a range of exponents. */
static shape float_shape(const weirv_format *format, weir_op op, int rank)
{
    int mantissa = format->mantissa_bits;
    uint64_t one = (uint64_t)format->bias << mantissa;
    uint64_t binade = (uint64_t)1 << mantissa;
    uint64_t sign = (uint64_t)1 << (format->exponent_bits + mantissa);
    if (op == WEIR_SUM || op == WEIR_AVG) /* [2^-2, 2^2) */
        return (shape){one - 2 * binade, 4 * binade - 1, sign, 0};
    if (op == WEIR_PROD && rank % 2) /* [1, 1 + 1/8) */
        return (shape){one, binade / 8 - 1, sign, 0};
    if (op == WEIR_PROD) /* [1 - 1/8, 1) */
        return (shape){one - binade / 4, binade / 4 - 1, sign, 0};
    uint64_t exponents = (uint64_t)1 << (format->exponent_bits - 1); /* half of them */
    return (shape){one + binade - exponents / 2 * binade, exponents * binade - 1, sign, 0};
}

static inline uint64_t shaped(shape s, uint64_t h)
{
    return (s.base + (h & s.mask)) | (h & s.sign) | s.set;
}

static inline void fill8(uint8_t *out, uint32_t lane, uint32_t count, weirv_key key, shape s)
{
    uint8_t base = (uint8_t)s.base, mask = (uint8_t)s.mask, sign = (uint8_t)s.sign;
    uint8_t set = (uint8_t)s.set;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t h = (uint8_t)weirv_hash_lane(key, lane + i);
        out[i] = (uint8_t)((uint8_t)(base + (h & mask)) | (h & sign) | set);
    }
}

static inline void fill16(uint8_t *out, uint32_t lane, uint32_t count, weirv_key key, shape s)
{
    uint16_t base = (uint16_t)s.base, mask = (uint16_t)s.mask, sign = (uint16_t)s.sign;
    for (uint32_t i = 0; i < count; i++) {
        uint16_t h = (uint16_t)weirv_hash_lane(key, lane + i);
        uint16_t element = (uint16_t)((uint16_t)(base + (h & mask)) | (h & sign));
        memcpy(out + 2 * i, &element, sizeof element);
    }
}

static inline void fill32(uint8_t *out, uint32_t lane, uint32_t count, weirv_key key, shape s)
{
    uint32_t base = (uint32_t)s.base, mask = (uint32_t)s.mask, sign = (uint32_t)s.sign;
    uint32_t set = (uint32_t)s.set;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t h = weirv_hash_lane(key, lane + i);
        uint32_t element = (base + (h & mask)) | (h & sign) | set;
        memcpy(out + 4 * i, &element, sizeof element);
    }
}

static inline void fill64(uint8_t *out, uint32_t lane, uint32_t count, weirv_key key, shape s)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t high = weirv_hash_lane(key, lane + i);
        uint32_t low = weirv_hash_low(key, high);
        uint64_t element = shaped(s, (uint64_t)high << 32 | low);
        memcpy(out + 8 * (size_t)i, &element, sizeof element);
    }
}

/* prod in fp8, where even numbers near 1 are too coarse for many ranks: rank r has +-2^(d(r + 1) -
 * d(r)) with d in 0..3 shared between neighbours, so that products over ranks telescope and stay
 * exact. */
static inline void fill_fp8_prod(uint8_t *out, uint32_t lane, uint32_t count, weirv_key own,
                                 weirv_key next, int mantissa_bits, int bias)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t low = weirv_hash_lane(own, lane + i), high = weirv_hash_lane(next, lane + i);
        uint32_t exponent = (uint32_t)bias + (high & 3) - (low & 3);
        out[i] = (uint8_t)(exponent << mantissa_bits | (low & 0x80));
    }
}

/* Writes elements of one strip, from index `lane` of the strip on. */
static inline void fill_strip(uint8_t *out, uint64_t strip, uint32_t lane, uint32_t count,
                              weir_dtype dtype, weir_op op, int rank, uint64_t seed)
{
    const weirv_format *format = weirv_format_of(dtype);
    uint64_t kind = (uint64_t)dtype << 8 | (uint64_t)op;
    weirv_key key = weirv_key_of(kind, (uint64_t)rank, seed, strip);
    size_t width = weir_dtype_bytes(dtype);
    if (op == WEIR_PROD && format && width == 1) {
        weirv_key next = weirv_key_of(kind, (uint64_t)rank + 1, seed, strip);
        fill_fp8_prod(out, lane, count, key, next, format->mantissa_bits, format->bias);
        return;
    }
    shape s = format ? float_shape(format, op, rank) : integer_shape(dtype, op);
    if (width == 1)
        fill8(out, lane, count, key, s);
    else if (width == 2)
        fill16(out, lane, count, key, s);
    else if (width == 4)
        fill32(out, lane, count, key, s);
    else
        fill64(out, lane, count, key, s);
}

static inline void fill(void *buffer, size_t first, size_t count, weir_dtype dtype, weir_op op,
                        int rank, uint64_t seed)
{
    uint8_t *out = buffer;
    size_t width = weir_dtype_bytes(dtype), done = 0;
    while (done < count) {
        size_t index = first + done;
        uint32_t lane = (uint32_t)(index % WEIRV_STRIP_ELEMENTS);
        size_t rest = WEIRV_STRIP_ELEMENTS - lane;
        size_t part = rest < count - done ? rest : count - done;
        fill_strip(out + done * width, index / WEIRV_STRIP_ELEMENTS, lane, (uint32_t)part, dtype,
                   op, rank, seed);
        done += part;
    }
}

#ifdef __x86_64__
__attribute__((target(WEIRV_AVX2), flatten)) static void fill_avx2(void *buffer, size_t first,
                                                                   size_t count, weir_dtype dtype,
                                                                   weir_op op, int rank,
                                                                   uint64_t seed)
{
    fill(buffer, first, count, dtype, op, rank, seed);
}

__attribute__((target(WEIRV_AVX512), flatten)) static void fill_avx512(void *buffer, size_t first,
                                                                       size_t count,
                                                                       weir_dtype dtype, weir_op op,
                                                                       int rank, uint64_t seed)
{
    fill(buffer, first, count, dtype, op, rank, seed);
}

void weirv_fill(void *buffer, size_t first, size_t count, weir_dtype dtype, weir_op op, int rank,
                uint64_t seed)
{
    if (weirv_has_avx512())
        fill_avx512(buffer, first, count, dtype, op, rank, seed);
    else if (weirv_has_avx2())
        fill_avx2(buffer, first, count, dtype, op, rank, seed);
    else
        fill(buffer, first, count, dtype, op, rank, seed);
}
#else
void weirv_fill(void *buffer, size_t first, size_t count, weir_dtype dtype, weir_op op, int rank,
                uint64_t seed)
{
    fill(buffer, first, count, dtype, op, rank, seed);
}
#endif

int weirv_is_reduction(weir_collective collective)
{
    return collective == WEIR_COLL_ALLREDUCE || collective == WEIR_COLL_REDUCE_SCATTER ||
           collective == WEIR_COLL_REDUCE;
}

static size_t furthest(int nranks, const size_t *counts, const size_t *displs)
{
    size_t end = 0;
    for (int r = 0; r < nranks; r++)
        if (counts[r] && displs[r] + counts[r] > end)
            end = displs[r] + counts[r];
    return end;
}

size_t weirv_send_elements(const weirv_case *c)
{
    switch ((int)c->collective) {
    case WEIR_COLL_REDUCE_SCATTER:
    case WEIR_COLL_ALLTOALL:
    case WEIRI_COLL_SCATTER:
        return (size_t)c->nranks * c->count;
    case WEIR_COLL_ALLTOALLV:
        return furthest(c->nranks, c->send_counts, c->send_displs);
    default:
        return c->count;
    }
}

size_t weirv_recv_elements(const weirv_case *c)
{
    switch ((int)c->collective) {
    case WEIR_COLL_ALLGATHER:
    case WEIR_COLL_ALLTOALL:
    case WEIRI_COLL_GATHER:
        return (size_t)c->nranks * c->count;
    case WEIR_COLL_ALLTOALLV:
        return furthest(c->nranks, c->recv_counts, c->recv_displs);
    default:
        return c->count;
    }
}

weir_op weirv_pattern_op(const weirv_case *c)
{
    return weirv_is_reduction(c->collective) ? c->op : WEIR_MAX;
}

/* Writes the first elements over and over. */
static void fill_repeated(const weirv_case *c, unsigned char *out, size_t first, size_t count,
                          int rank)
{
    const size_t width = weir_dtype_bytes(c->dtype);
    for (size_t i = 0; i < count; i++) {
        const size_t place = (first + i) % c->period;
        if (i < c->period)
            weirv_fill(out + i * width, place, 1, c->dtype, weirv_pattern_op(c), rank, c->seed);
        else
            memcpy(out + i * width, out + (i - c->period) * width, width);
    }
}

void weirv_fill_part(const weirv_case *c, void *buffer, size_t first, size_t count, int rank)
{
    if (c->exact && weirv_is_reduction(c->collective))
        weirv_exact_fill(buffer, first, count, c->dtype, c->op, rank, c->nranks, c->seed);
    else if (c->special && weirv_is_reduction(c->collective))
        weirv_special_fill(buffer, first, count, c->dtype, c->op, rank, c->nranks,
                           weirv_special_start(c));
    else if (c->period)
        fill_repeated(c, buffer, first, count, rank);
    else
        weirv_fill(buffer, first, count, c->dtype, weirv_pattern_op(c), rank, c->seed);
}

void weirv_fill_input(const weirv_case *c, void *in)
{
    weirv_fill_part(c, in, 0, weirv_send_elements(c), c->rank);
}

/* Counts the elements [first, first + count) of in that differ from the pattern. */
static uint64_t count_changed_elements(const weirv_case *c, const void *in, size_t first,
                                       size_t count)
{
    uint64_t expected[CHECK_ELEMENTS]; /* of at most 8 bytes each */
    size_t width = weir_dtype_bytes(c->dtype);
    uint64_t changed = 0;
    for (size_t done = 0; done < count; done += CHECK_ELEMENTS) {
        size_t part = count - done < CHECK_ELEMENTS ? count - done : CHECK_ELEMENTS;
        const uint8_t *seen = (const uint8_t *)in + (first + done) * width;
        weirv_fill_part(c, expected, first + done, part, c->rank);
        if (memcmp(seen, expected, part * width) == 0)
            continue;
        for (size_t i = 0; i < part; i++)
            changed += memcmp(seen + i * width, (uint8_t *)expected + i * width, width) != 0;
    }
    return changed;
}

uint64_t weirv_input_changed(const weirv_case *c, const void *in)
{
    const weiri_contract *contract = weiri_contract_of((int)c->collective);
    weiri_role role = weiri_contract_role(contract, c->rank, c->root);
    if (c->in_place && contract->in_place_in[role] != WEIRI_AFTER_KEPT)
        return 0;
    const size_t all = weirv_send_elements(c), own = (size_t)c->rank * c->count;
    if (!c->in_place || !weiri_contract_out_block(contract, 1))
        return count_changed_elements(c, in, 0, all);
    /* The output lies in this rank's block. */
    return count_changed_elements(c, in, 0, own) +
           count_changed_elements(c, in, own + c->count, all - own - c->count);
}

void weirv_poison(void *buffer, size_t bytes)
{
    if (bytes)
        memset(buffer, 0xff, bytes);
}
