/* Data, check and explanation of special values: see special.h. */
#include "verify/special.h"

#include "verify/expected.h"
#include "verify/hash.h"

#include <stdio.h>
#include <string.h>

enum { ROWS_PRINTED = 4 };

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The number of elements after which rows, and the ranks that hold them, repeat. */
static size_t period_of(const weirv_special *special)
{
    return (size_t)special->nrows * (size_t)special->nranks;
}

uint64_t weirv_special_start(const weirv_case *c)
{
    return c->special_start ? c->special_start : weirv_mix64(c->seed);
}

int weirv_special_runs(const weirv_case *c)
{
    weirv_special special;
    size_t elements = weirv_send_elements(c);
    weirv_special_make(c->dtype, c->op, c->nranks, &special);
    return elements ? (int)(((size_t)special.nrows + elements - 1) / elements) : 1;
}

weirv_special_place weirv_special_place_of(const weirv_special *special, size_t index,
                                           uint64_t start)
{
    size_t rows = (size_t)special->nrows, period = period_of(special);
    size_t at = (index % period + (size_t)(start % period)) % period;
    return (weirv_special_place){(int)(at % rows), (int)(at / rows)};
}

/* The element of a rank in a row whose first element another rank holds. */
static uint64_t element_of(const weirv_special *special, weirv_special_place place, int rank)
{
    const weirv_special_row *row = &special->rows[place.row];
    int turn = rank - place.first_rank;
    if (turn < 0)
        turn += special->nranks;
    if (turn < special->held)
        return row->held[turn];
    if (special->op == WEIR_MAX || special->op == WEIR_MIN)
        return row->held[turn % special->held];
    return row->rest;
}

static void advance(const weirv_special *special, weirv_special_place *place)
{
    if (++place->row < special->nrows)
        return;
    place->row = 0;
    if (++place->first_rank == special->nranks)
        place->first_rank = 0;
}

void weirv_special_fill(void *buffer, size_t first, size_t count, weir_dtype dtype, weir_op op,
                        int rank, int nranks, uint64_t start)
{
    weirv_special special;
    uint8_t *out = buffer;
    size_t width = weir_dtype_bytes(dtype);
    weirv_special_make(dtype, op, nranks, &special);
    weirv_special_place place = weirv_special_place_of(&special, first, start);
    size_t done = smaller(period_of(&special), count);
    for (size_t i = 0; i < done; i++) {
        uint64_t element = element_of(&special, place, rank);
        memcpy(out + i * width, &element, width); /* little-endian */
        advance(&special, &place);
    }
    for (size_t part; done < count; done += part) { /* whole periods, doubled each time */
        part = smaller(done, count - done);
        memcpy(out + done * width, out, part * width);
    }
}

/* "448 or inf", in at most bytes. */
static void print_answers(const weirv_special *special, const weirv_special_row *row, char *text,
                          size_t bytes)
{
    *text = '\0';
    for (int i = 0; i < row->nanswers; i++) {
        char answer[40];
        size_t used = strlen(text);
        weirv_print_element(special->dtype, &row->answers[i], answer, sizeof answer);
        answer[strncmp(answer, "nan", 3) == 0 ? 3 : sizeof answer - 1] = '\0';
        snprintf(text + used, bytes - used, "%s%s", i ? " or " : "", answer);
    }
}

static void note(const weirv_case *c, const weirv_special *special, const weirv_special_row *row,
                 size_t at, const uint8_t *got, weirv_result *result)
{
    result->wrong++;
    if (result->has_first)
        return;
    result->has_first = 1;
    result->first.rank = c->rank;
    result->first.index = at;
    weirv_print_element(c->dtype, got, result->first.got, sizeof result->first.got);
    print_answers(special, row, result->first.expected, sizeof result->first.expected);
}

/* Checks elements [at, at + count) of out one by one. */
static void check_each(const weirv_case *c, const weirv_special *special, const uint8_t *out,
                       size_t at, size_t index, size_t count, weirv_result *result)
{
    size_t width = weir_dtype_bytes(c->dtype);
    weirv_special_place place = weirv_special_place_of(special, index, weirv_special_start(c));
    for (size_t i = at; i < at + count; i++) {
        const weirv_special_row *row = &special->rows[place.row];
        uint64_t element = 0;
        memcpy(&element, out + i * width, width);
        if (element != row->answers[0] && !weirv_special_accepts(special, row, element))
            note(c, special, row, i, out + i * width, result);
        advance(special, &place);
    }
}

/* Checks elements [at, at + count) of out, which combine those from `index` on in every rank's
 * input. A period that equals one already found right is right. */
static void check_combined(const weirv_case *c, const weirv_special *special, const uint8_t *out,
                           size_t at, size_t index, size_t count, weirv_result *result)
{
    size_t width = weir_dtype_bytes(c->dtype), period = period_of(special);
    int right = 0;
    for (size_t done = 0; done < count; done += period) {
        const uint8_t *part = out + (at + done) * width;
        size_t length = smaller(period, count - done);
        uint64_t before = result->wrong;
        if (right && memcmp(part, part - period * width, length * width) == 0)
            continue;
        check_each(c, special, out, at + done, index + done, length, result);
        right = result->wrong == before;
    }
}

/* Checks the elements that the call must leave unchanged. */
static void check_untouched(const weirv_case *c, const uint8_t *out, size_t at, size_t count,
                            weirv_result *result)
{
    enum { PART = 512 };
    uint64_t expected[PART];
    size_t width = weir_dtype_bytes(c->dtype), part = PART;
    for (size_t end = at + count; at < end; at += part) {
        part = weirv_expected(c, at, smaller(PART, end - at), expected);
        weirv_compare_bits(c->dtype, c->rank, at, part, out + at * width, expected, result);
    }
}

void weirv_check_special(const weirv_case *c, const void *out, weirv_result *result)
{
    weirv_special special;
    size_t all = weirv_recv_elements(c);
    weirv_special_make(c->dtype, c->op, c->nranks, &special);
    weirv_special_answer(&special, c->stores);
    for (size_t at = 0; at < all;) {
        weirv_source source = weirv_source_of(c, at);
        size_t count = smaller(source.count, all - at);
        if (source.origin == WEIRV_FROM_ALL)
            check_combined(c, &special, out, at, source.index, count, result);
        else
            check_untouched(c, out, at, count, result);
        at += count;
    }
}

/* ------------------------------------------------------------- explanation */

/* "rank 2 holds inf, rank 0 holds -1, the others -0". */
static void print_held(const weirv_special *special, weirv_special_place place, char *text,
                       size_t bytes)
{
    const weirv_special_row *row = &special->rows[place.row];
    char element[40];
    size_t used = 0;
    for (int k = 0; k < special->held && used < bytes; k++) {
        weirv_print_element(special->dtype, &row->held[k], element, sizeof element);
        used += (size_t)snprintf(text + used, bytes - used, "%srank %d holds %s", k ? ", " : "",
                                 (place.first_rank + k) % special->nranks, element);
    }
    int orders = special->op == WEIR_MAX || special->op == WEIR_MIN;
    if (used >= bytes || special->nranks == special->held)
        return;
    weirv_print_element(special->dtype, &row->rest, element, sizeof element);
    snprintf(text + used, bytes - used, ", the others %s", orders ? "the same" : element);
}

/* Writes one line about the first wrong element of a row, if there is one. Returns its length. */
static size_t explain_row(const weirv_case *c, const weirv_special *special, int row,
                          const uint8_t *out, char *text, size_t bytes)
{
    size_t width = weir_dtype_bytes(c->dtype), all = weirv_recv_elements(c), first = 0, wrong = 0;
    char got[40], answers[80], held[200];
    weirv_special_place reported = {0, 0};
    for (size_t at = 0; at < all; at++) {
        weirv_source source = weirv_source_of(c, at);
        weirv_special_place place =
            weirv_special_place_of(special, source.index, weirv_special_start(c));
        uint64_t element = 0;
        memcpy(&element, out + at * width, width);
        if (source.origin != WEIRV_FROM_ALL || place.row != row ||
            weirv_special_accepts(special, &special->rows[row], element))
            continue;
        if (wrong++ == 0) {
            first = at;
            reported = place;
        }
    }
    if (!wrong)
        return 0;
    weirv_print_element(c->dtype, out + first * width, got, sizeof got);
    print_answers(special, &special->rows[row], answers, sizeof answers);
    print_held(special, reported, held, sizeof held);
    int length = snprintf(text, bytes,
                          "element %zu, special value (%s), %zu wrong: got %s, expected %s: %s\n",
                          first, special->rows[row].name, wrong, got, answers, held);
    return (size_t)length < bytes ? (size_t)length : bytes - 1;
}

void weirv_explain_special(const weirv_case *c, const void *out, char *text, size_t bytes)
{
    weirv_special special;
    size_t used = 0;
    int printed = 0;
    *text = '\0';
    weirv_special_make(c->dtype, c->op, c->nranks, &special);
    weirv_special_answer(&special, c->stores);
    for (int row = 0; row < special.nrows && printed < ROWS_PRINTED; row++) {
        size_t length = explain_row(c, &special, row, out, text + used, bytes - used);
        printed += length > 0;
        used += length;
    }
}
