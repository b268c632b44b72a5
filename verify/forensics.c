/* Runs of wrong elements and tested hypotheses: see forensics.h. */
#include "verify/forensics.h"

#include "verify/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The number of runs that are reported; the number of right elements that do not end a run, because
 * wrong data may be right by chance; the most chunks that are tried. */
enum { RUNS_REPORTED = 4, RUN_GAP = 16, MOST_CHUNKS = 64 };
enum { TESTED_ELEMENTS = 256, TESTED_BYTES = 8 * TESTED_ELEMENTS };

typedef struct run {
    size_t first, last, wrong;
    weirv_source source;
} run;

/* The first elements of a run, as they are and as they should be. */
typedef struct suspect {
    const weirv_case *c;
    const run *run;
    uint64_t previous_seed;
    size_t count, width;
    const uint8_t *got;
    uint8_t expected[TESTED_BYTES], other[TESTED_BYTES];
} suspect;

static int is_other(const suspect *s)
{
    return memcmp(s->got, s->other, s->count * s->width) == 0;
}

static uint64_t bits_at(const suspect *s, const uint8_t *elements, size_t i)
{
    uint64_t bits = 0;
    memcpy(&bits, elements + i * s->width, s->width);
    return bits;
}

/* Each guess_ function tests one hypothesis. If it holds, it writes its description and returns
 * 1. */

static int guess_unwritten(suspect *s, char *text, size_t bytes)
{
    const weirv_case *c = s->c;
    weirv_poison(s->other, sizeof s->other);
    if (is_other(s)) {
        snprintf(text, bytes, "never written (poison)");
        return 1;
    }
    if (!weirv_before(c, s->run->first, s->count, s->other))
        return 0;
    snprintf(text, bytes, "never written (still this rank's input)");
    return is_other(s);
}

static int guess_stale(suspect *s, char *text, size_t bytes)
{
    weirv_case before = *s->c;
    before.seed = s->previous_seed;
    weirv_expected(&before, s->run->first, s->count, s->other);
    snprintf(text, bytes, "equals the previous iteration");
    return is_other(s);
}

static int guess_swapped_bytes(suspect *s, char *text, size_t bytes)
{
    for (size_t i = 0; i < s->count * s->width; i++)
        s->other[i] = s->expected[i / s->width * s->width + s->width - 1 - i % s->width];
    snprintf(text, bytes, "byte-swapped");
    return s->width > 1 && is_other(s);
}

/* The elements of a chunk: a block if the collective has blocks, else the part of the buffer that a
 * rank is responsible for. */
static size_t chunk_elements(const weirv_case *c)
{
    size_t share = c->count / (size_t)c->nranks;
    return c->collective == WEIR_COLL_ALLTOALL ? c->count : share ? share : 1;
}

/* The elements that one source has in chunk k, at the position of the run. */
static int guess_chunk(suspect *s, char *text, size_t bytes)
{
    const weirv_case *c = s->c;
    const weirv_source *source = &s->run->source;
    size_t chunk = chunk_elements(c), domain = weirv_send_elements(c);
    size_t within = source->index % chunk;
    int reduced = source->origin == WEIRV_FROM_ALL;
    for (size_t k = 0; k * chunk + within + s->count <= domain; k++) {
        size_t index = c->collective == WEIR_COLL_ALLTOALLV ? source->index : k * chunk + within;
        if (reduced) {
            weirv_case whole = *c; /* any part of the result, as in an allreduce */
            whole.collective = WEIR_COLL_ALLREDUCE;
            whole.count = domain;
            weirv_expected(&whole, index, s->count, s->other);
            snprintf(text, bytes, "equals chunk %zu of the result (element %zu on)", k, index);
            if (is_other(s))
                return 1;
        }
        for (int r = 0; r < c->nranks && k < MOST_CHUNKS; r++) {
            size_t at = c->collective == WEIR_COLL_ALLTOALLV
                            ? c->recv_from[r] + index - c->recv_from[source->rank]
                            : index;
            weirv_fill_part(c, s->other, at, s->count, r);
            snprintf(text, bytes, "equals rank %d's chunk %zu", r,
                     c->collective == WEIR_COLL_ALLTOALLV ? (size_t)c->rank : k);
            if (is_other(s))
                return 1;
        }
    }
    return 0;
}

static int guess_ranks(suspect *s, char *text, size_t bytes)
{
    const weirv_case *c = s->c;
    const weirv_source *source = &s->run->source;
    for (int r = 0; r < c->nranks && source->origin == WEIRV_FROM_ALL; r++) {
        weirv_combine(c, source->index, s->count, r, WEIRV_NO_RANK, s->other);
        snprintf(text, bytes, "%s lacks rank %d", weir_op_name(c->op), r);
        if (c->nranks > 1 && is_other(s))
            return 1;
        weirv_combine(c, source->index, s->count, WEIRV_NO_RANK, r, s->other);
        snprintf(text, bytes, "%s has rank %d twice", weir_op_name(c->op), r);
        if (is_other(s))
            return 1;
    }
    return 0;
}

/* Neighbouring values have neighbouring bits, unless the sign changes. */
static int guess_last_place(suspect *s, char *text, size_t bytes)
{
    int is_float = weirv_format_of(s->c->dtype) != NULL;
    uint64_t all = UINT64_MAX >> (64 - 8 * s->width);
    for (size_t i = 0; i < s->count; i++) {
        uint64_t off = (bits_at(s, s->got, i) - bits_at(s, s->expected, i)) & all;
        if (off != 0 && off != 1 && off != all)
            return 0;
    }
    snprintf(text, bytes, is_float ? "rounded wrongly (1 ulp)" : "rounded wrongly (off by one)");
    return 1;
}

static int guess_bit(suspect *s, char *text, size_t bytes)
{
    uint64_t flipped = 0;
    for (size_t i = 0; i < s->count; i++) {
        uint64_t off = bits_at(s, s->got, i) ^ bits_at(s, s->expected, i);
        if (off && flipped && off != flipped)
            return 0;
        flipped |= off;
    }
    if (!flipped || flipped & (flipped - 1))
        return 0;
    int bit = 0;
    while (flipped >> bit != 1)
        bit++;
    snprintf(text, bytes, "one bit differs (bit %d)", bit);
    return 1;
}

static void guess(suspect *s, char *text, size_t bytes)
{
    if (s->run->source.origin == WEIRV_FROM_NOWHERE) {
        snprintf(text, bytes, "nothing may be written here");
        return;
    }
    if (!guess_unwritten(s, text, bytes) && !guess_stale(s, text, bytes) &&
        !guess_last_place(s, text, bytes) && !guess_bit(s, text, bytes) &&
        !guess_ranks(s, text, bytes) && !guess_swapped_bytes(s, text, bytes) &&
        !guess_chunk(s, text, bytes))
        snprintf(text, bytes, "no guess fits");
}

static void tell_run(const weirv_case *c, const uint8_t *out, const run *found,
                     uint64_t previous_seed, char *text, size_t bytes)
{
    suspect s = {.c = c, .run = found, .previous_seed = previous_seed};
    char words[80], origin[48] = "";
    weirv_result first = {0};
    s.width = weir_dtype_bytes(c->dtype);
    s.count = found->last - found->first + 1;
    s.count = s.count < TESTED_ELEMENTS ? s.count : TESTED_ELEMENTS;
    size_t rest = chunk_elements(c) - found->source.index % chunk_elements(c);
    s.count = s.count < rest ? s.count : rest; /* each swapped chunk is a run */
    s.got = out + found->first * s.width;
    weirv_expected(c, found->first, s.count, s.expected);
    guess(&s, words, sizeof words);
    weirv_compare_bits(c->dtype, c->rank, found->first, 1, s.got, s.expected, &first);
    if (found->source.origin == WEIRV_FROM_RANK)
        snprintf(origin, sizeof origin, " (rank %d's data)", found->source.rank);
    snprintf(text, bytes, "elements %zu..%zu%s, %zu wrong: got %s, expected %s: %s\n", found->first,
             found->last, origin, found->wrong, first.first.got, first.first.expected, words);
}

/* Finds the next run from *at on, and sets *at to its end. */
static int find_run(const weirv_case *c, const uint8_t *out, size_t *at, run *found)
{
    size_t width = weir_dtype_bytes(c->dtype), all = weirv_recv_elements(c);
    uint8_t expected[TESTED_BYTES];
    *found = (run){.wrong = 0};
    while (*at < all) {
        size_t left = all - *at < TESTED_ELEMENTS ? all - *at : TESTED_ELEMENTS;
        weirv_source source = weirv_source_of(c, *at);
        size_t count = weirv_expected(c, *at, left, expected);
        if (found->wrong &&
            (source.origin != found->source.origin || source.rank != found->source.rank))
            return 1;
        for (size_t i = 0; i < count; i++) {
            if (found->wrong && *at + i > found->last + RUN_GAP) {
                *at += i;
                return 1;
            }
            if (memcmp(out + (*at + i) * width, expected + i * width, width) == 0)
                continue;
            if (found->wrong++ == 0) {
                found->first = *at + i;
                found->source = weirv_source_of(c, found->first);
            }
            found->last = *at + i;
        }
        *at += count;
    }
    return found->wrong > 0;
}

void weirv_explain(const weirv_case *c, const void *out, uint64_t previous_seed, char *text,
                   size_t bytes)
{
    size_t at = 0, used = 0, more = 0;
    run found;
    *text = '\0';
    if (weirv_is_reduction(c->collective) && !c->exact)
        return;
    for (int i = 0; find_run(c, out, &at, &found); i++) {
        if (i >= RUNS_REPORTED) {
            more++;
            continue;
        }
        tell_run(c, out, &found, previous_seed, text + used, bytes - used);
        used += strlen(text + used);
    }
    if (more)
        snprintf(text + used, bytes - used, "and %zu more runs of wrong elements\n", more);
}

void weirv_explain_input(const weirv_case *c, const void *in, char *text, size_t bytes)
{
    size_t width = weir_dtype_bytes(c->dtype), all = weirv_send_elements(c), changed = 0;
    size_t first = 0, last = 0;
    uint64_t expected;
    *text = '\0';
    if (weirv_input_changed(c, in) == 0)
        return;
    for (size_t i = 0; i < all; i++) {
        weirv_fill_part(c, &expected, i, 1, c->rank);
        if (memcmp((const uint8_t *)in + i * width, &expected, width) == 0)
            continue;
        first = changed++ ? first : i;
        last = i;
    }
    snprintf(text, bytes, "input elements %zu..%zu, %zu changed\n", first, last, changed);
}

void weirv_explain_guard(const weirv_guard *guard, const char *name, char *text, size_t bytes)
{
    size_t before = 0, behind = 0;
    *text = '\0';
    if (weirv_guard_check(guard) == 0)
        return;
    weirv_guard_reach(guard, &before, &behind);
    snprintf(text, bytes,
             "written outside %s: up to %zu bytes before its start, %zu past its end\n", name,
             before, behind);
}
