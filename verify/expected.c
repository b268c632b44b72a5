/* The sources of output elements, and their expected values: see expected.h. */
#include "verify/expected.h"

#include "base/contract.h"
#include "verify/exact.h"
#include "verify/number.h"

#include <string.h>

enum { CHUNK_ELEMENTS = 2048, COMBINE_ELEMENTS = 128 };

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The block of a rank in out, or the gap between blocks. */
static weirv_source alltoallv_source(const weirv_case *c, size_t at)
{
    size_t next = weirv_recv_elements(c);
    for (int r = 0; r < c->nranks; r++) {
        size_t from = c->recv_displs[r], count = c->recv_counts[r];
        if (count && from <= at && at < from + count)
            return (weirv_source){WEIRV_FROM_RANK, r, c->recv_from[r] + at - from,
                                  from + count - at};
        if (count && from > at)
            next = smaller(next, from);
    }
    return (weirv_source){WEIRV_FROM_NOWHERE, c->rank, at, next - at};
}

int weirv_sendrecv_source(const weirv_case *c, int rank)
{
    return c->sources ? c->sources[rank] : (rank + c->nranks - 1) % c->nranks;
}

int weirv_sendrecv_destination(const weirv_case *c, int rank)
{
    for (int to = 0; to < c->nranks; to++)
        if (weirv_sendrecv_source(c, to) == rank)
            return to;
    return -1;
}

/* What a rank receives that receives nothing stays as it was. */
static weirv_source sendrecv_source(const weirv_case *c, size_t at, size_t rest)
{
    const int from = weirv_sendrecv_source(c, c->rank);
    return from < 0 ? (weirv_source){WEIRV_FROM_NOWHERE, c->rank, at, rest}
                    : (weirv_source){WEIRV_FROM_RANK, from, at, rest};
}

weirv_source weirv_source_of(const weirv_case *c, size_t at)
{
    size_t rest = c->count ? c->count - at % c->count : 0, own = (size_t)c->rank * c->count;
    const size_t block = c->count ? c->count : 1; /* without elements nothing is asked */
    int sender = (int)(at / block);
    const weiri_contract *contract = weiri_contract_of((int)c->collective);
    if (c->in_place && (int)c->collective == WEIRI_COLL_GATHER && sender == c->rank)
        return (weirv_source){WEIRV_FROM_RANK, c->rank, at % block, rest}; /* the input lies here */
    if (contract->out[weiri_contract_role(contract, c->rank, c->root)] != WEIRI_AFTER_RESULT)
        return (weirv_source){WEIRV_FROM_NOWHERE, c->rank, at, rest};
    switch ((int)c->collective) {
    case WEIR_COLL_REDUCE_SCATTER:
        return (weirv_source){WEIRV_FROM_ALL, 0, own + at, rest};
    case WEIRI_COLL_SCATTER:
        return (weirv_source){WEIRV_FROM_RANK, c->root, own + at, rest};
    case WEIR_COLL_BROADCAST:
        return (weirv_source){WEIRV_FROM_RANK, c->root, at, rest};
    case WEIR_COLL_SENDRECV:
        return sendrecv_source(c, at, rest);
    case WEIR_COLL_ALLGATHER:
    case WEIRI_COLL_GATHER:
        return (weirv_source){WEIRV_FROM_RANK, sender, at % block, rest};
    case WEIR_COLL_ALLTOALL:
        return (weirv_source){WEIRV_FROM_RANK, sender, own + at % block, rest};
    case WEIR_COLL_ALLTOALLV:
        return alltoallv_source(c, at);
    default:
        return (weirv_source){WEIRV_FROM_ALL, 0, at, rest};
    }
}

int weirv_before(const weirv_case *c, size_t at, size_t count, void *buffer)
{
    const weiri_contract *contract = weiri_contract_of((int)c->collective);
    size_t block = (size_t)weiri_contract_out_block(contract, c->rank);
    int is_input = c->in_place && weiri_contract_out_is_input(contract);
    if (is_input)
        weirv_fill_part(c, buffer, block * c->count + at, count, c->rank);
    else
        weirv_poison(buffer, count * weir_dtype_bytes(c->dtype));
    return is_input;
}

size_t weirv_expected(const weirv_case *c, size_t at, size_t count, void *buffer)
{
    weirv_source source = weirv_source_of(c, at);
    count = smaller(count, source.count);
    if (source.origin == WEIRV_FROM_NOWHERE)
        weirv_before(c, at, count, buffer);
    else if (source.origin == WEIRV_FROM_RANK)
        weirv_fill_part(c, buffer, source.index, count, source.rank);
    else if (c->exact)
        weirv_exact_result(buffer, source.index, count, c->dtype, c->op, c->nranks, c->seed);
    else
        weirv_combine(c, source.index, count, WEIRV_NO_RANK, WEIRV_NO_RANK, buffer);
    return count;
}

void weirv_check_exact(const weirv_case *c, const void *out, weirv_result *result)
{
    uint64_t expected[CHUNK_ELEMENTS]; /* of at most 8 bytes each */
    size_t width = weir_dtype_bytes(c->dtype), all = weirv_recv_elements(c);
    for (size_t at = 0; at < all;) {
        size_t count = weirv_expected(c, at, smaller(CHUNK_ELEMENTS, all - at), expected);
        weirv_compare_bits(c->dtype, c->rank, at, count, (const uint8_t *)out + at * width,
                           expected, result);
        at += count;
    }
}

/* ------------------------------------------------------- chosen ranks only */

static double combine_values(weir_op op, double a, double b)
{
    switch (op) {
    case WEIR_PROD:
        return a * b;
    case WEIR_MAX:
        return a > b ? a : b;
    case WEIR_MIN:
        return a < b ? a : b;
    default:
        return a + b;
    }
}

static uint64_t combine_bits(weir_op op, int has_sign, uint64_t a, uint64_t b)
{
    int above = has_sign ? (int64_t)a > (int64_t)b : a > b;
    switch (op) {
    case WEIR_PROD:
        return a * b;
    case WEIR_MAX:
        return above ? a : b;
    case WEIR_MIN:
        return above ? b : a;
    default:
        return a + b;
    }
}

static uint64_t extend(weir_dtype dtype, const uint8_t *element, int has_sign)
{
    size_t width = weir_dtype_bytes(dtype);
    uint64_t bits = 0;
    memcpy(&bits, element, width); /* little-endian */
    if (has_sign && width < 8 && bits >> (8 * width - 1))
        bits |= UINT64_MAX << (8 * width);
    return bits;
}

static void finish_integer(const weirv_case *c, uint64_t bits, int has_sign, uint8_t *element)
{
    size_t width = weir_dtype_bytes(c->dtype);
    if (c->op == WEIR_AVG) { /* of the wrapped sum */
        memcpy(element, &bits, width);
        bits = extend(c->dtype, element, has_sign);
        bits = has_sign ? (uint64_t)((int64_t)bits / c->nranks) : bits / (uint64_t)c->nranks;
    }
    memcpy(element, &bits, width);
}

/* At most COMBINE_ELEMENTS. */
static void combine_part(const weirv_case *c, size_t first, size_t count, int without, int twice,
                         uint8_t *out)
{
    double values[COMBINE_ELEMENTS], next[COMBINE_ELEMENTS];
    uint64_t bits[COMBINE_ELEMENTS] = {0}, inputs[COMBINE_ELEMENTS];
    size_t width = weir_dtype_bytes(c->dtype);
    int is_float = weirv_format_of(c->dtype) != NULL, begun = 0;
    int has_sign = c->dtype == WEIR_INT8 || c->dtype == WEIR_INT32 || c->dtype == WEIR_INT64;
    memset(values, 0, sizeof values);
    for (int turn = 0; turn < 2 * c->nranks; turn++) {
        int rank = turn / 2;
        if (rank == without || (turn % 2 && rank != twice))
            continue;
        weirv_fill_part(c, inputs, first, count, rank);
        if (is_float)
            weirv_decode(c->dtype, inputs, count, next);
        for (size_t i = 0; i < count; i++) {
            uint64_t own = extend(c->dtype, (const uint8_t *)inputs + i * width, has_sign);
            if (is_float)
                values[i] = begun ? combine_values(c->op, values[i], next[i]) : next[i];
            bits[i] = begun ? combine_bits(c->op, has_sign, bits[i], own) : own;
        }
        begun = 1;
    }
    double divisor = c->op == WEIR_AVG ? c->nranks : 1;
    for (size_t i = 0; i < count; i++)
        if (is_float)
            weirv_encode(c->dtype, values[i] / divisor, out + i * width);
        else
            finish_integer(c, bits[i], has_sign, out + i * width);
}

void weirv_combine(const weirv_case *c, size_t first, size_t count, int without, int twice,
                   void *buffer)
{
    size_t width = weir_dtype_bytes(c->dtype);
    for (size_t done = 0; done < count; done += COMBINE_ELEMENTS)
        combine_part(c, first + done, smaller(COMBINE_ELEMENTS, count - done), without, twice,
                     (uint8_t *)buffer + done * width);
}
