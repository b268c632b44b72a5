/*
 * Checks of dispatch and combine against the oracle. Each stops to describe only the first
 * difference, and counts all.
 */
#include "verify/moe_data.h"
#include "verify/number.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A check under way. */
typedef struct moe_check {
    weirv_moe *o;
    int version, data, rank;
    uint64_t wrong;
    char *message;
} moe_check;

__attribute__((format(printf, 2, 3))) static void check_report(moe_check *c, const char *format,
                                                               ...)
{
    va_list arguments;
    if (c->wrong++)
        return;
    va_start(arguments, format);
    vsnprintf(c->message, WEIRV_MOE_MESSAGE, format, arguments);
    va_end(arguments);
}

/* The number by which messages name a rank. */
static int named(const moe_check *c, int rank)
{
    return c->o->names ? c->o->names[rank] : rank;
}

/* Describes what a row holds. */
static void describe_row(const moe_check *c, const void *row, const float *scales, char text[120])
{
    moe_origin origin;
    const uint8_t *bytes = row;
    size_t same = 1;
    while (same < c->o->sent_row_bytes && bytes[same] == bytes[0])
        same++;
    if (same == c->o->sent_row_bytes)
        snprintf(text, 120, "only bytes 0x%02x", bytes[0]);
    else if (!moe_identify(c->o, row, scales, &origin))
        snprintf(text, 120, "no row of this run");
    else if (origin.choice >= 0)
        snprintf(text, 120, "the expert output of token %d from rank %d, choice %d", origin.token,
                 named(c, origin.source), origin.choice);
    else
        snprintf(text, 120, "token %d from rank %d%s", origin.token, named(c, origin.source),
                 origin.version == c->data ? "" : " of an earlier call");
}

/* ----------------------------------------------------------------- dispatch */

/* Compares one block as sent; j is its index in the row. */
static int block_equals(const weirv_moe *o, uint64_t number, int j, const char *row,
                        const float *scales)
{
    const uint64_t block = moe_block_of(o, number, j);
    const int is_last = j + 1 == o->row_blocks;
    const size_t length = is_last ? (size_t)o->tail : MOE_BLOCK;
    const size_t at = (size_t)block * MOE_BLOCK, from = (size_t)j * MOE_BLOCK;
    if (!o->fp8)
        return !memcmp(o->elements + at * o->element_bytes, row + from * o->element_bytes,
                       length * o->element_bytes);
    const float *scale = is_last ? &o->scales_tail[block] : &o->scales[block];
    if (!scales || memcmp((is_last ? o->fp8_tail : o->fp8) + at, row + from, length) != 0)
        return 0;
    /* NOLINTNEXTLINE(*-suspicious-memory-comparison): the same bits are expected */
    return memcmp(scale, scales + j, sizeof *scale) == 0;
}

/* Returns the first block that differs; -1: none. */
static int row_difference(const weirv_moe *o, uint64_t number, const char *row, const float *scales,
                          int is_whole)
{
    const int step = is_whole || o->row_blocks < 3 ? 1 : o->row_blocks - 1;
    for (int j = 0; j < o->row_blocks; j += step)
        if (!block_equals(o, number, j, row, scales))
            return j;
    return -1;
}

static void check_row(moe_check *c, const weirv_moe_received_rows *got, const moe_place *place,
                      int is_whole)
{
    const weirv_moe *o = c->o;
    const char *row = (const char *)got->rows + (size_t)place->row * o->sent_row_bytes;
    const float *scales =
        got->row_scales ? got->row_scales + (size_t)place->row * (size_t)o->row_blocks : NULL;
    const uint64_t number =
        moe_row_number(o, (moe_origin){c->data, place->source, place->token, -1});
    const int j = row_difference(o, number, row, scales, is_whole);
    char holds[120];
    if (j < 0)
        return;
    if (c->wrong) {
        c->wrong++;
        return;
    }
    const int expert = moe_token_experts(o, c->version, place->source, place->token)[place->choice];
    describe_row(c, row, scales, holds);
    check_report(
        c,
        "dispatch: token %d from rank %d for expert %d did not arrive on rank %d: row %d differs "
        "from element %d on; the row holds %s",
        place->token, named(c, place->source), expert, named(c, c->rank), place->row, j * MOE_BLOCK,
        holds);
}

/* Experts and weights that come with a row. */
static void check_choices(moe_check *c, const weirv_moe_received_rows *got, const moe_place *p)
{
    const weirv_moe *o = c->o;
    const weir_moe_config *config = &o->shape.config;
    const int32_t *experts = moe_token_experts(o, c->version, p->source, p->token);
    const float *weights =
        o->versions[c->version].weights + (experts - o->versions[c->version].experts);
    const int is_expert_major = config->layout == WEIR_MOE_EXPERT_MAJOR;
    for (int choice = 0; choice < config->topk; choice++) {
        const int is_here = experts[choice] >= 0 && experts[choice] / o->local_experts == c->rank;
        if (is_expert_major && choice != p->choice)
            continue;
        const size_t at = is_expert_major ? (size_t)p->row
                                          : (size_t)p->row * (size_t)config->topk + (size_t)choice;
        const float weight = is_here ? weights[choice] : 0;
        const int32_t local = is_here ? experts[choice] % o->local_experts : -1;
        /* NOLINTNEXTLINE(*-suspicious-memory-comparison): the same bits are expected */
        if (got->row_weights && memcmp(&got->row_weights[at], &weight, sizeof weight) != 0)
            check_report(
                c,
                "dispatch: weight of token %d from rank %d for expert %d on rank %d, row %d, is "
                "%g, expected %g",
                p->token, named(c, p->source), experts[choice], named(c, c->rank), p->row,
                (double)got->row_weights[at], (double)weight);
        if (got->row_experts && !is_expert_major && got->row_experts[at] != local)
            check_report(
                c,
                "dispatch: choice %d of token %d from rank %d on rank %d, row %d, is local expert "
                "%d, expected %d",
                choice, p->token, named(c, p->source), named(c, c->rank), p->row,
                got->row_experts[at], local);
    }
}

/* Reports the count of an expert, with the last row that it has. */
static void report_count(moe_check *c, int32_t got, int local, const moe_places *places)
{
    const moe_place *last = NULL;
    char text[80] = "it has no rows";
    for (int i = 0; i < places->count; i++)
        if (places->of[i].bin == local)
            last = &places->of[i];
    if (last)
        snprintf(text, sizeof text, "its last row %d is token %d from rank %d", last->row,
                 last->token, named(c, last->source));
    check_report(c, "dispatch: count of expert %d on rank %d is %d, expected %d; %s",
                 c->rank * c->o->local_experts + local, named(c, c->rank), got,
                 places->counts[local], text);
}

static void check_counts(moe_check *c, const weirv_moe_received_rows *got, const moe_places *places)
{
    for (int local = 0; local < c->o->local_experts; local++) {
        if (got->expert_counts && got->expert_counts[local] != places->counts[local])
            report_count(c, got->expert_counts[local], local, places);
        if (got->expert_offsets && got->expert_offsets[local] != places->offsets[local])
            check_report(c, "dispatch: expert %d on rank %d begins at row %d, expected %d",
                         c->rank * c->o->local_experts + local, named(c, c->rank),
                         got->expert_offsets[local], places->offsets[local]);
    }
    for (int source = 0; got->source_counts && source < c->o->shape.nranks; source++)
        if (got->source_counts[source] != places->sources[source])
            check_report(c, "dispatch: rank %d received %d rows from rank %d, expected %d",
                         named(c, c->rank), got->source_counts[source], named(c, source),
                         places->sources[source]);
}

/* Rows between an expert's last one and the next multiple of the alignment are zero. */
static void check_padding(moe_check *c, const weirv_moe_received_rows *got,
                          const moe_places *places)
{
    const int alignment = c->o->shape.config.alignment;
    for (int local = 0; local < c->o->local_experts; local++)
        for (int row = places->counts[local]; row % alignment; row++) {
            const char *at = (const char *)got->rows +
                             (size_t)(places->offsets[local] + row) * c->o->sent_row_bytes;
            if (*at || memcmp(at, at + 1, c->o->sent_row_bytes - 1) != 0)
                check_report(
                    c, "dispatch: row %d on rank %d, after the %d rows of expert %d, is not zero",
                    places->offsets[local] + row, named(c, c->rank), places->counts[local],
                    c->rank * c->o->local_experts + local);
        }
}

static void check_guard(moe_check *c, const weirv_moe_received_rows *got, const moe_places *places)
{
    const uint8_t *guard = got->guard;
    char holds[120];
    size_t at = 0;
    while (guard && at < c->o->sent_row_bytes && guard[at] == WEIRV_MOE_GUARD)
        at++;
    if (!guard || at == c->o->sent_row_bytes)
        return;
    describe_row(c, guard, got->guard_scales, holds);
    check_report(c,
                 "dispatch: row %d on rank %d was written, after the last row of expert %d; the "
                 "row holds %s",
                 places->end_row, named(c, c->rank), (c->rank + 1) * c->o->local_experts - 1,
                 holds);
}

uint64_t weirv_moe_check_dispatch(weirv_moe *o, int version, int data, int rank,
                                  const weirv_moe_received_rows *got, weirv_moe_sample sample,
                                  char message[WEIRV_MOE_MESSAGE])
{
    moe_check c = {o, version, data, rank, 0, message};
    const moe_places *places = moe_places_of(o, version, rank);
    if (!places) {
        check_report(&c, "dispatch: no memory to check rank %d", named(&c, rank));
        return c.wrong;
    }
    check_counts(&c, got, places);
    for (int i = 0; i < places->count; i++) {
        check_row(&c, got, &places->of[i], i % sample.every == sample.phase);
        if (got->row_weights || got->row_experts)
            check_choices(&c, got, &places->of[i]);
    }
    if (o->shape.config.layout == WEIR_MOE_EXPERT_MAJOR)
        check_padding(&c, got, places);
    check_guard(&c, got, places);
    return c.wrong;
}

/* ------------------------------------------------------------------ combine */

/* The rows that make up one token's result. */
typedef struct moe_terms {
    int count;
    int choice[WEIR_MOE_TOPK_MAX];
    uint64_t number[WEIR_MOE_TOPK_MAX];
    float weight[WEIR_MOE_TOPK_MAX];
} moe_terms;

static void terms_find(const moe_check *c, int token, weirv_moe_added added, int weighted,
                       moe_terms *terms)
{
    const weirv_moe *o = c->o;
    const weir_moe_config *config = &o->shape.config;
    const int32_t *experts = moe_token_experts(o, c->version, c->rank, token);
    const float *weights =
        o->versions[c->version].weights + (experts - o->versions[c->version].experts);
    terms->count = 0;
    for (int choice = 0; choice < config->topk; choice++) {
        int is_repeated = experts[choice] < 0;
        for (int i = 0; config->layout != WEIR_MOE_EXPERT_MAJOR && i < choice; i++)
            is_repeated |= experts[i] >= 0 &&
                           experts[i] / o->local_experts == experts[choice] / o->local_experts;
        if (is_repeated)
            continue;
        const int n = terms->count++;
        terms->choice[n] = choice;
        terms->weight[n] = weighted ? weights[choice] : 1;
        terms->number[n] = moe_row_number(
            o, (moe_origin){c->version, c->rank, token, added == WEIRV_MOE_TOKENS ? -1 : choice});
    }
}

/* The float sum of one block, in order, each product and sum rounded. */
static int sum_block(const weirv_moe *o, const moe_terms *terms, int j, float *sum)
{
    const int length = j + 1 == o->row_blocks ? o->tail : MOE_BLOCK;
    for (int i = 0; i < length; i++)
        sum[i] = 0;
    for (int n = 0; n < terms->count; n++) {
        const float *values = o->values + moe_block_of(o, terms->number[n], j) * MOE_BLOCK;
        const float weight = terms->weight[n];
        for (int i = 0; i < length; i++)
            sum[i] = n ? sum[i] + values[i] * weight : values[i] * weight;
    }
    return length;
}

static double element_value(const weirv_moe *o, const char *at)
{
    double value;
    weirv_decode(o->shape.config.dtype, at, 1, &value);
    return value;
}

/* Returns the first element of a block that is wrong; -1: none. */
static int block_difference(const weirv_moe *o, const float *sum, int length, const char *out,
                            double tolerance)
{
    for (int i = 0; i < length; i++) {
        const char *at = out + (size_t)i * o->element_bytes;
        char expected[8];
        if (tolerance > 0) {
            const double least = fabs((double)sum[i]) > 0.02 ? fabs((double)sum[i]) : 0.02;
            if (!(fabs(element_value(o, at) - (double)sum[i]) <= tolerance * least))
                return i;
            continue;
        }
        moe_to_element(o->shape.config.dtype, sum[i], expected);
        if (memcmp(expected, at, o->element_bytes) != 0)
            return i;
    }
    return -1;
}

/* The row of a choice in the buffer of its expert's rank. */
static int choice_row(const moe_check *c, int token, int choice, int *rank)
{
    weirv_moe *o = c->o;
    *rank = moe_token_experts(o, c->version, c->rank, token)[choice] / o->local_experts;
    const moe_places *places = moe_places_of(o, c->version, *rank);
    for (int i = 0; places && i < places->count; i++)
        if (places->of[i].source == c->rank && places->of[i].token == token &&
            (places->of[i].choice == choice))
            return places->of[i].row;
    return -1;
}

/* Explains a wrong result by one choice: its weight, or another output in its place. Uses the
 * elements of the first block. Returns the term, or -1. */
static int explain(const moe_check *c, const moe_terms *terms, const char *out, char text[100])
{
    const weirv_moe *o = c->o;
    float sum[MOE_BLOCK], other[MOE_BLOCK];
    const int length = sum_block(o, terms, 0, sum);
    for (int n = 0; n < terms->count; n++) {
        const float *values = o->values + moe_block_of(o, terms->number[n], 0) * MOE_BLOCK;
        double least = INFINITY, most = -INFINITY;
        uint64_t block;
        for (int i = 0; i < length; i++) {
            const double delta =
                element_value(o, out + (size_t)i * o->element_bytes) - (double)sum[i];
            const double weight = (double)terms->weight[n] + delta / (double)values[i];
            least = weight < least ? weight : least;
            most = weight > most ? weight : most;
            other[i] = (float)((double)values[i] + delta / (double)terms->weight[n]);
        }
        if (most - least < 0.25) {
            snprintf(text, 100, "as if its weight were %.3g instead of %.3g", (least + most) / 2,
                     (double)terms->weight[n]);
            return n;
        }
        if (length >= 8 && moe_identify_values(o, other, length, 0.1f / terms->weight[n], &block)) {
            snprintf(text, 100, "as if another row had been added in its place");
            return n;
        }
    }
    snprintf(text, 100, "no single choice explains it");
    return -1;
}

static void report_token(moe_check *c, const moe_terms *terms, int token, const char *out,
                         int element, double got, double expected)
{
    char text[100];
    if (c->wrong) {
        c->wrong++;
        return;
    }
    if (!terms->count) {
        check_report(
            c, "combine: token %d of rank %d, which has no experts, is not zero (element %d: %g)",
            token, named(c, c->rank), element, got);
        return;
    }
    const int n = explain(c, terms, out, text);
    const int choice = terms->choice[n < 0 ? 0 : n];
    int rank;
    const int row = choice_row(c, token, choice, &rank);
    check_report(
        c,
        "combine: token %d from rank %d, element %d, is %g, expected %g; %s: choice %d of %d, "
        "expert %d on rank %d, row %d",
        token, named(c, c->rank), element, got, expected, text, choice, terms->count,
        moe_token_experts(c->o, c->version, c->rank, token)[choice], named(c, rank), row);
}

static void check_token(moe_check *c, int token, const char *out, weirv_moe_added added,
                        int weighted, double tolerance, int is_whole)
{
    const weirv_moe *o = c->o;
    const int step = is_whole || o->row_blocks < 3 ? 1 : o->row_blocks - 1;
    float sum[MOE_BLOCK];
    moe_terms terms;
    terms_find(c, token, added, weighted, &terms);
    for (int j = 0; j < o->row_blocks; j += step) {
        const char *at = out + (size_t)j * MOE_BLOCK * o->element_bytes;
        const int length = sum_block(o, &terms, j, sum);
        const int i = block_difference(o, sum, length, at, tolerance);
        if (i < 0)
            continue;
        report_token(c, &terms, token, out, j * MOE_BLOCK + i,
                     element_value(o, at + (size_t)i * o->element_bytes), (double)sum[i]);
        return;
    }
}

uint64_t weirv_moe_check_combine(weirv_moe *o, int version, int rank, const void *out,
                                 weirv_moe_added added, int weighted, double tolerance,
                                 weirv_moe_sample sample, char message[WEIRV_MOE_MESSAGE])
{
    moe_check c = {o, version, version, rank, 0, message};
    for (int token = 0; token < o->versions[version].tokens[rank]; token++)
        check_token(&c, token, (const char *)out + (size_t)token * o->row_bytes, added, weighted,
                    tolerance, token % sample.every == sample.phase);
    return c.wrong;
}
