/*
 * The oracle of expert parallelism: the table of blocks, rows composed from it, and the origin of a
 * row. The conversion to f8e4m3 with scales is modelled here, by the definition in weir/moe.h.
 */
#include "verify/hash.h"
#include "verify/moe_data.h"
#include "verify/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void moe_to_element(weir_dtype dtype, float value, void *element)
{
    uint32_t bits;
    if (dtype == WEIR_FLOAT) {
        memcpy(element, &value, sizeof value);
    } else if (dtype == WEIR_BFLOAT16 && isfinite(value)) {
        memcpy(&bits, &value, sizeof bits);
        const uint16_t rounded = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        memcpy(element, &rounded, sizeof rounded);
    } else {
        weirv_encode(dtype, value, element);
    }
}

/* ---------------------------------------------------------------- the table */

/* One element: +-(1 + m / 2^bits) * 2^-e with e from 0 to 3. */
static float table_value(weir_dtype dtype, uint32_t hash)
{
    const int bits = dtype == WEIR_FLOAT ? 20 : dtype == WEIR_HALF ? 10 : 7;
    const float mantissa = 1 + ldexpf((float)(hash >> 8 & ((1u << bits) - 1)), -bits);
    return ldexpf(hash & 1 ? -mantissa : mantissa, -(int)(hash >> 1 & 3));
}

static void fp8_block(const float *values, int count, uint8_t *fp8, float *scale)
{
    float largest = 0x1p-100f;
    for (int i = 0; i < count; i++)
        largest = fabsf(values[i]) > largest ? fabsf(values[i]) : largest;
    const float factor = 448.0f / largest;
    *scale = largest / 448.0f;
    for (int i = 0; i < count; i++) {
        const float product = values[i] * factor;
        weirv_encode(WEIR_FP8_E4M3, (double)product, &fp8[i]);
    }
}

static void table_fill(weirv_moe *o)
{
    const weir_dtype dtype = o->shape.config.dtype;
    for (uint64_t block = 0; block < o->blocks; block++) {
        const weirv_key key = weirv_key_of(0x6d6f65, 0, o->shape.seed, block);
        for (uint32_t i = 0; i < MOE_BLOCK; i++) {
            const size_t at = block * MOE_BLOCK + i;
            o->values[at] = table_value(dtype, weirv_hash_lane(key, i));
            weirv_encode(dtype, o->values[at], o->elements + at * o->element_bytes);
        }
        if (!o->fp8)
            continue;
        fp8_block(o->values + block * MOE_BLOCK, MOE_BLOCK, o->fp8 + block * MOE_BLOCK,
                  &o->scales[block]);
        fp8_block(o->values + block * MOE_BLOCK, o->tail, o->fp8_tail + block * MOE_BLOCK,
                  &o->scales_tail[block]);
    }
}

static int is_prime(uint64_t n)
{
    for (uint64_t i = 2; i * i <= n; i++)
        if (n % i == 0)
            return 0;
    return 1;
}

/* As many blocks as row numbers need: a row of several blocks is known by two of them. */
static uint64_t table_blocks(const weirv_moe *o)
{
    enum { LEAST = 61, MOST_SINGLE = 1 << 18 };
    uint64_t blocks = (uint64_t)sqrt((double)o->rows) + 2;
    if (o->row_blocks == 1)
        blocks = o->rows < MOST_SINGLE ? o->rows : MOST_SINGLE;
    blocks = blocks < LEAST ? LEAST : blocks;
    while (!is_prime(blocks))
        blocks++;
    return blocks;
}

/* ------------------------------------------------------------------ opening */

static void *oracle_alloc(size_t count, size_t bytes, int *failed)
{
    void *memory = calloc(count ? count : 1, bytes);
    *failed |= !memory;
    return memory;
}

static int oracle_alloc_all(weirv_moe *o)
{
    const weir_moe_config *c = &o->shape.config;
    const size_t n = (size_t)o->shape.nranks, elements = (size_t)o->blocks * MOE_BLOCK;
    const size_t choices = n * (size_t)c->max_tokens * (size_t)c->topk;
    int failed = 0;
    o->elements = oracle_alloc(elements, o->element_bytes, &failed);
    o->values = oracle_alloc(elements, sizeof *o->values, &failed);
    o->sum = oracle_alloc((size_t)c->hidden, sizeof *o->sum, &failed);
    o->next = oracle_alloc((size_t)o->local_experts, sizeof *o->next, &failed);
    o->expected = oracle_alloc((size_t)c->hidden, o->element_bytes, &failed);
    if (c->dispatch_dtype == WEIR_FP8_E4M3) {
        o->fp8 = oracle_alloc(elements, 1, &failed);
        o->fp8_tail = oracle_alloc(elements, 1, &failed);
        o->scales = oracle_alloc((size_t)o->blocks, sizeof *o->scales, &failed);
        o->scales_tail = oracle_alloc((size_t)o->blocks, sizeof *o->scales_tail, &failed);
    }
    for (int v = 0; v < WEIRV_MOE_VERSIONS; v++) {
        o->versions[v].tokens = oracle_alloc(n, sizeof(int), &failed);
        o->versions[v].experts = oracle_alloc(choices, sizeof(int32_t), &failed);
        o->versions[v].weights = oracle_alloc(choices, sizeof(float), &failed);
        moe_places *places = &o->versions[v].places;
        places->rank = -1;
        places->counts = oracle_alloc((size_t)o->local_experts, sizeof(int32_t), &failed);
        places->offsets = oracle_alloc((size_t)o->local_experts, sizeof(int32_t), &failed);
        places->sources = oracle_alloc(n, sizeof(int32_t), &failed);
    }
    return failed;
}

int weirv_moe_open(const weirv_moe_shape *shape, weirv_moe **oracle, char *problem)
{
    weirv_moe *o = calloc(1, sizeof *o);
    snprintf(problem, WEIRV_MOE_MESSAGE, "no memory for the expected data");
    if (!o)
        return -1;
    o->shape = *shape;
    weir_moe_config *c = &o->shape.config;
    if (c->dispatch_dtype == WEIR_DTYPE_COUNT)
        c->dispatch_dtype = c->dtype;
    c->alignment = c->alignment > 1 ? c->alignment : 1;
    c->expert_capacity = (c->expert_capacity + c->alignment - 1) / c->alignment * c->alignment;
    o->local_experts = c->experts / shape->nranks;
    o->element_bytes = weir_dtype_bytes(c->dtype);
    o->row_bytes = (size_t)c->hidden * o->element_bytes;
    o->sent_row_bytes = (size_t)c->hidden * weir_dtype_bytes(c->dispatch_dtype);
    o->row_blocks = (c->hidden + MOE_BLOCK - 1) / MOE_BLOCK;
    o->tail = c->hidden - (o->row_blocks - 1) * MOE_BLOCK;
    o->token_rows =
        (uint64_t)WEIRV_MOE_VERSIONS * (uint64_t)shape->nranks * (uint64_t)c->max_tokens;
    o->rows = o->token_rows * (uint64_t)(1 + c->topk);
    o->blocks = table_blocks(o);
    if (oracle_alloc_all(o) || moe_route(o, problem)) {
        weirv_moe_close(o);
        return -1;
    }
    table_fill(o);
    *problem = '\0';
    *oracle = o;
    return 0;
}

void weirv_moe_close(weirv_moe *o)
{
    if (!o)
        return;
    for (int v = 0; v < WEIRV_MOE_VERSIONS; v++) {
        free(o->versions[v].tokens);
        free(o->versions[v].experts);
        free(o->versions[v].weights);
        free(o->versions[v].places.of);
        free(o->versions[v].places.counts);
        free(o->versions[v].places.offsets);
        free(o->versions[v].places.sources);
    }
    free(o->elements);
    free(o->values);
    free(o->fp8);
    free(o->fp8_tail);
    free(o->scales);
    free(o->scales_tail);
    free(o->next);
    free(o->sum);
    free(o->expected);
    free(o);
}

void weirv_moe_name_ranks(weirv_moe *o, const int *names)
{
    o->names = names;
}

uint64_t weirv_moe_trace_hash(const weirv_moe *o)
{
    return o->trace_hash;
}

int weirv_moe_tokens(const weirv_moe *o, int version, int rank)
{
    return o->versions[version].tokens[rank];
}

const int32_t *weirv_moe_experts(const weirv_moe *o, int version, int rank)
{
    return moe_token_experts(o, version, rank, 0);
}

const float *weirv_moe_weights(const weirv_moe *o, int version, int rank)
{
    const weir_moe_config *c = &o->shape.config;
    return o->versions[version].weights + (size_t)rank * (size_t)c->max_tokens * (size_t)c->topk;
}

/* --------------------------------------------------------------------- rows */

uint64_t moe_row_number(const weirv_moe *o, moe_origin origin)
{
    const weir_moe_config *c = &o->shape.config;
    const uint64_t token =
        ((uint64_t)origin.version * (uint64_t)o->shape.nranks + (uint64_t)origin.source) *
            (uint64_t)c->max_tokens +
        (uint64_t)origin.token;
    if (origin.choice < 0)
        return token;
    return o->token_rows + token * (uint64_t)c->topk + (uint64_t)origin.choice;
}

static moe_origin origin_of(const weirv_moe *o, uint64_t row)
{
    const weir_moe_config *c = &o->shape.config;
    moe_origin origin = {.choice = -1};
    if (row >= o->token_rows) {
        origin.choice = (int)((row - o->token_rows) % (uint64_t)c->topk);
        row = (row - o->token_rows) / (uint64_t)c->topk;
    }
    origin.token = (int)(row % (uint64_t)c->max_tokens);
    row /= (uint64_t)c->max_tokens;
    origin.source = (int)(row % (uint64_t)o->shape.nranks);
    origin.version = (int)(row / (uint64_t)o->shape.nranks);
    return origin;
}

void moe_fill_row(const weirv_moe *o, uint64_t row, char *to)
{
    const size_t bytes = MOE_BLOCK * o->element_bytes;
    for (int j = 0; j < o->row_blocks; j++) {
        const size_t length = j + 1 < o->row_blocks ? bytes : (size_t)o->tail * o->element_bytes;
        memcpy(to + (size_t)j * bytes, o->elements + moe_block_of(o, row, j) * bytes, length);
    }
}

void weirv_moe_fill_tokens(const weirv_moe *o, int version, int data, int rank, void *x)
{
    for (int token = 0; token < o->versions[version].tokens[rank]; token++)
        moe_fill_row(o, moe_row_number(o, (moe_origin){data, rank, token, -1}),
                     (char *)x + (size_t)token * o->row_bytes);
}

/* ----------------------------------------------------------------- identity */

/* The block of the table that equals a block of a row, which has `length` elements; -1: none. */
static int64_t find_block(const weirv_moe *o, const char *at, const float *scale, int length)
{
    const int is_tail = length < MOE_BLOCK;
    for (uint64_t block = 0; block < o->blocks; block++) {
        if (!o->fp8 || !scale) {
            if (!memcmp(o->elements + block * MOE_BLOCK * o->element_bytes, at,
                        (size_t)length * o->element_bytes))
                return (int64_t)block;
        } else if (!memcmp((is_tail ? o->fp8_tail : o->fp8) + block * MOE_BLOCK, at,
                           (size_t)length) &&
                   /* NOLINTNEXTLINE(*-suspicious-memory-comparison): the same bits */
                   !memcmp((is_tail ? o->scales_tail : o->scales) + block, scale, sizeof *scale)) {
            return (int64_t)block;
        }
    }
    return -1;
}

int moe_identify(const weirv_moe *o, const void *row, const float *scales, moe_origin *origin)
{
    const size_t bytes = MOE_BLOCK * (o->fp8 && scales ? 1 : o->element_bytes);
    const int64_t first = find_block(o, row, scales, o->row_blocks > 1 ? MOE_BLOCK : o->tail);
    if (first < 0)
        return 0;
    uint64_t number = (uint64_t)first;
    if (o->row_blocks > 1) {
        const int64_t second = find_block(o, (const char *)row + bytes, scales ? scales + 1 : NULL,
                                          o->row_blocks > 2 ? MOE_BLOCK : o->tail);
        if (second < 0)
            return 0;
        const uint64_t stride = ((uint64_t)second + o->blocks - (uint64_t)first) % o->blocks;
        if (!stride)
            return 0;
        number += o->blocks * (stride - 1);
    }
    if (number >= o->rows)
        return 0;
    *origin = origin_of(o, number);
    return 1;
}

int moe_identify_values(const weirv_moe *o, const float *values, int count, float error,
                        uint64_t *first_block)
{
    for (uint64_t block = 0; block < o->blocks; block++) {
        int i = 0;
        while (i < count && fabsf(o->values[block * MOE_BLOCK + (uint64_t)i] - values[i]) <= error)
            i++;
        *first_block = block;
        if (i == count)
            return 1;
    }
    return 0;
}
