/*
 * Which wrong reductions each kind of data reveals: a model of each wrong implementation combines
 * the inputs of 2, 3 and 8 ranks in every type and operation that can have the fault, and the
 * oracle must reject at least one element of 16, or the share that the table of verify/reveals.md
 * states. The right implementation must pass everywhere. WEIR_TEST_SHARES=1 prints all shares.
 */
#include "verify/tests/support/unit_test.h"
#include "verify/tests/support/wrong_reductions.h"

#include "verify/compare.h"
#include "verify/exact.h"
#include "verify/expected.h"
#include "verify/special.h"

#include <stdio.h>

enum { SOME = -1, COUNT = 1024, MOST_RANKS = 8, SEED = 21, USUAL = 16 };
enum {
    SUM = 1 << WEIR_SUM,
    PROD = 1 << WEIR_PROD,
    MAX = 1 << WEIR_MAX,
    MIN = 1 << WEIR_MIN,
    AVG = 1 << WEIR_AVG,
    ADDS = SUM | AVG,
    ORDERS = MAX | MIN,
    ALL = ADDS | PROD | ORDERS
};
enum { SIGNED = 1, UNSIGNED = 2, INTEGERS = 3, FLOATS = 4, WIDE = 8, BYTES = 16 };

/* A fault, and the types and operations that can have it. */
typedef struct row {
    const char *name;
    fault fault;
    int types, ops;
} row;

static const row rows[] = {
    {"compares or divides with the other signedness", WRONG_SIGN, INTEGERS, ORDERS | AVG},
    {"treats an element as two of half its width", LANES, INTEGERS, ALL},
    {"compares the low half only", LOW_HALF, INTEGERS, ORDERS},
    {"compares the high half only", HIGH_HALF, INTEGERS, ORDERS},
    {"computes in float or double", AS_FLOAT, INTEGERS | WIDE, ADDS | ORDERS},
    {"saturates instead of wrapping", SATURATES, INTEGERS, ADDS | PROD},
    {"starts with 0, of max", ZERO_START, SIGNED, MAX},
    {"starts with 0, of min and prod", ZERO_START, INTEGERS, MIN | PROD},
    {"starts with 1", ONE_START, INTEGERS, ADDS},
    {"ignores the last rank", LOSES_RANK, INTEGERS, ALL},
    {"takes the last rank twice", TWICE, INTEGERS, ADDS | PROD},
    {"another operation (avg: no division)", OTHER_OP, INTEGERS, ALL},
    {"divides before adding", DIVIDES_FIRST, INTEGERS, AVG},
    {"divides rounding down", DIVIDES_DOWN, SIGNED, AVG},
    {"divides by one less", DIVIDES_BY_LESS, INTEGERS, AVG},
    {"one element further", SHIFTED, INTEGERS, ALL},
    {"ignores the last rank", LOSES_RANK, FLOATS, ALL},
    {"takes the last rank twice", TWICE, FLOATS, ADDS | PROD},
    {"another operation (avg: no division)", OTHER_OP, FLOATS, ALL},
    {"divides by one less", DIVIDES_BY_LESS, FLOATS, AVG},
    {"one element further", SHIFTED, FLOATS, ALL},
    {"computes with half the significand", NARROW, FLOATS | WIDE, ALL},
    {"computes with half the significand", NARROW, FLOATS | BYTES, ALL},
    {"divides before adding, rounded", DIVIDES_FIRST, FLOATS | BYTES, AVG},
    {"rounds towards zero", TRUNCATES, FLOATS, ADDS | PROD},
    {"rounds ties away from zero", TIES_AWAY, FLOATS, ADDS},
    {"takes subnormal inputs as 0", FLUSHES_IN, FLOATS, ALL},
    {"writes subnormal results as 0", FLUSHES_OUT, FLOATS, ALL},
    {"drops NaN", DROPS_NAN, FLOATS, ORDERS},
    {"keeps NaN from one side only", NAN_BY_SIDE, FLOATS, ORDERS},
    {"compares bits as signed integers", AS_BITS, FLOATS, ORDERS},
    {"compares magnitudes", AS_MAGNITUDE, FLOATS, ORDERS},
    {"saturates at the largest number", FINITE, FLOATS | WIDE, SUM | PROD},
    {"fp8 overflows instead of saturating", INFINITE, FLOATS | BYTES, SUM | PROD},
    {"loses the sign of zero", LOSES_ZERO_SIGN, FLOATS, ALL},
    {"starts with +0, of sum", ZERO_START, FLOATS, ADDS},
    {"starts with 0", ZERO_START, FLOATS, ORDERS | PROD},
    {"starts with the largest finite number", LARGEST_START, FLOATS | WIDE, ORDERS},
    {"starts with the smallest normal number", SMALLEST_START, FLOATS, ORDERS},
};

typedef enum data_kind { EXACT, FULL, SPECIAL, KINDS } data_kind;

static uint8_t inputs[MOST_RANKS][(COUNT + 1) * 8], right[COUNT * 8];

static uint64_t get(weir_dtype dtype, const uint8_t *elements, size_t i)
{
    uint64_t element = 0;
    memcpy(&element, elements + i * weir_dtype_bytes(dtype), weir_dtype_bytes(dtype));
    return element;
}

/* Whether the MPI oracle rejects an element; magnitudes are exact in double or nearly. */
static int full_rejects(const weirv_case *c, const uint64_t *values, uint64_t got)
{
    double total = c->op == WEIR_PROD, magnitude = 0;
    weirv_result result = {0};
    for (int k = 0; k < c->nranks; k++) {
        double next = decoded(c->dtype, values[k]);
        magnitude += fabs(next);
        if (c->op == WEIR_MAX || c->op == WEIR_MIN)
            total = k == 0 ? next : c->op == WEIR_MAX ? fmax(total, next) : fmin(total, next);
        else
            total = c->op == WEIR_PROD ? total * next : total + next;
    }
    total /= c->op == WEIR_AVG ? c->nranks : 1;
    magnitude /= c->op == WEIR_AVG ? c->nranks : 1;
    weirv_bound bound = weirv_bound_make(c->dtype, c->op, c->nranks, 1);
    weirv_compare_values(c->dtype, 0, 0, 1, &got, &total, &magnitude, bound, &result);
    return result.wrong != 0;
}

/* The number of elements that the oracle rejects, of *tried. */
static int rejected(const weirv_case *c, data_kind kind, fault f, int *tried)
{
    weirv_special special;
    int wrong = 0;
    size_t count = COUNT;
    weirv_special_make(c->dtype, c->op, c->nranks, &special);
    weirv_special_answer(&special, 0);
    if (kind == SPECIAL)
        count = (size_t)special.nrows * (size_t)c->nranks;
    for (int k = 0; k < c->nranks; k++)
        weirv_fill_part(c, inputs[k], 0, count + 1, k);
    weirv_exact_result(right, 0, COUNT, c->dtype, c->op, c->nranks, c->seed);
    for (size_t i = 0; i < count; i++) {
        uint64_t values[MOST_RANKS], others[MOST_RANKS];
        for (int k = 0; k < c->nranks; k++) {
            values[k] = get(c->dtype, inputs[k], i);
            others[k] = get(c->dtype, inputs[k], f == SHIFTED ? i + 1 : i);
        }
        uint64_t got = combined(c->dtype, c->op, others, c->nranks, f);
        weirv_special_place place = weirv_special_place_of(&special, i, weirv_special_start(c));
        wrong += kind == EXACT  ? got != get(c->dtype, right, i)
                 : kind == FULL ? full_rejects(c, values, got)
                                : !weirv_special_accepts(&special, &special.rows[place.row], got);
    }
    *tried = (int)count;
    return wrong;
}

static int concerns(const row *r, weir_dtype dtype, weir_op op)
{
    int class = weirv_format_of(dtype) ? FLOATS : is_signed(dtype) ? SIGNED : UNSIGNED;
    size_t width = weir_dtype_bytes(dtype);
    return (r->types & class) && (r->ops >> op & 1) && !(r->types & WIDE && width < 2) &&
           !(r->types & BYTES && width > 1);
}

/* One element of how many is rejected in the worst type, operation and number of ranks; SOME: none
 * in some of them; 0: none at all. */
static int one_of(const row *r, data_kind kind)
{
    static const int rank_counts[] = {2, 3, 8};
    double worst = 1, most = 0;
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++)
        for (int o = 0; o < WEIR_OP_COUNT; o++)
            for (int i = 0; i < 3 && concerns(r, (weir_dtype)t, (weir_op)o); i++) {
                int tried = 1;
                weirv_case c = {.collective = WEIR_COLL_ALLREDUCE,
                                .dtype = (weir_dtype)t,
                                .op = (weir_op)o,
                                .nranks = rank_counts[i],
                                .count = COUNT,
                                .seed = SEED,
                                .exact = kind == EXACT,
                                .special = kind == SPECIAL};
                if (kind == FULL && !weirv_format_of(c.dtype))
                    continue;
                double share = rejected(&c, kind, r->fault, &tried);
                share /= tried;
                if (getenv("WEIR_TEST_SHARES"))
                    printf("# %s, %s %s, %d ranks, data %d: %g\n", r->name,
                           weir_dtype_name(c.dtype), weir_op_name(c.op), c.nranks, (int)kind,
                           share);
                worst = share < worst ? share : worst;
                most = share > most ? share : most;
            }
    if (r->fault == NONE)
        return most > 0;
    int of = 1;
    while (of * worst < 1 && of < COUNT && worst > 0)
        of *= 2;
    return worst > 0 ? of : most > 0 ? SOME : 0;
}

/* "1 of 4", "some" types, or "no". */
static void put_cell(int of, char *cell, size_t bytes)
{
    if (of == SOME)
        snprintf(cell, bytes, "some");
    else if (of)
        snprintf(cell, bytes, "1 of %d", of);
    else
        snprintf(cell, bytes, "no");
}

/* The row of the table in verify/reveals.md. */
static void put_row(const row *r, char *text, size_t bytes)
{
    char cells[KINDS][16], ops[40] = "";
    for (data_kind k = EXACT; k < KINDS; k++)
        put_cell(one_of(r, k), cells[k], sizeof cells[k]);
    for (int o = 0; o < WEIR_OP_COUNT && r->ops != ALL; o++)
        if (r->ops >> o & 1)
            snprintf(ops + strlen(ops), sizeof ops - strlen(ops), "%s%s", *ops ? ", " : "",
                     weir_op_name((weir_op)o));
    const char *types = !(r->types & FLOATS) ? r->types & WIDE       ? "integers of 32 and 64 bits"
                                               : r->types & UNSIGNED ? "integers"
                                                                     : "signed integers"
                        : r->types & BYTES   ? "fp8"
                        : r->types & WIDE    ? "half to double"
                                             : "floats";
    snprintf(text, bytes, "| %s | %s | %s | %s | %s | %s |\n", r->name, types, *ops ? ops : "all",
             cells[EXACT], r->types & FLOATS ? cells[FULL] : "-", cells[SPECIAL]);
}

TEST(data_reveal_what_the_documented_table_states)
{
    enum { DOCUMENT_BYTES = 1 << 17 };
    static char document[DOCUMENT_BYTES];
    FILE *file = fopen("verify/reveals.md", "re");
    assert_non_null(file);
    document[fread(document, 1, sizeof document - 1, file)] = '\0';
    fclose(file);
    int missing = 0, documented = 0, lines = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256];
        const int exact = one_of(&rows[i], EXACT);
        if (exact > 0 && exact <= USUAL)
            continue; /* as the page says of all faults that its table does not have */
        documented++;
        put_row(&rows[i], text, sizeof text);
        if (!strstr(document, text)) {
            printf("# verify/reveals.md lacks: %s", text);
            missing++;
        }
    }
    assert_int_equal(missing, 0);
    for (const char *line = document; (line = strstr(line, "\n| ")) != NULL; line++)
        lines++;
    assert_int_equal(lines, documented + 1); /* and the headings */
}

static const row none = {"no fault", NONE, INTEGERS | FLOATS, ALL};

/* The runs of short messages try each row, whichever of them comes first. */
TEST(short_messages_try_every_kind_of_special_value)
{
    static const size_t counts[] = {1, 2, 3, 5, 16, 700};
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++)
        for (int o = 0; o < WEIR_OP_COUNT; o++)
            for (int n = 0; n < 6; n++) {
                weirv_case c = {.collective = n % 2 ? WEIR_COLL_REDUCE_SCATTER : WEIR_COLL_REDUCE,
                                .dtype = (weir_dtype)t,
                                .op = (weir_op)o,
                                .nranks = 3,
                                .count = counts[n],
                                .special = 1};
                const size_t elements = weirv_send_elements(&c);
                weirv_special special;
                uint64_t seen = 0;
                int runs = weirv_special_runs(&c);
                weirv_special_make(c.dtype, c.op, c.nranks, &special);
                for (int r = 0; r < runs; r++) {
                    c.special_start = 77 + (uint64_t)r * elements;
                    for (size_t i = 0; i < elements; i++)
                        seen |= (uint64_t)1
                                << weirv_special_place_of(&special, i, weirv_special_start(&c)).row;
                }
                assert_true(seen == ((uint64_t)1 << special.nrows) - 1);
                assert_true((size_t)(runs - 1) * elements < (size_t)special.nrows);
            }
}

TEST(the_right_implementation_passes)
{
    for (data_kind k = EXACT; k < KINDS; k++)
        assert_int_equal(one_of(&none, k), 0);
}

int main(void)
{
    return run_all_tests("verify_reveals");
}
