/*
 * Special values (NaN, infinities, zeros, subnormals, overflow): the accepted answers are exactly
 * those that an independent model gives for any order of combination and those that weir/weir.h
 * defines; results of a broken reduction are rejected, and the message names the kind of value.
 */
#include "verify/tests/support/reduce_model.h"
#include "verify/tests/support/unit_test.h"

#include "verify/expected.h"
#include "verify/special.h"

enum { COUNT = 300, SEED = 5 };

static weirv_case case_of(weir_dtype dtype, weir_op op, int nranks)
{
    return (weirv_case){.collective = WEIR_COLL_ALLREDUCE,
                        .dtype = dtype,
                        .op = op,
                        .rank = 0,
                        .nranks = nranks,
                        .count = COUNT,
                        .seed = SEED,
                        .special = 1};
}

static void for_all(void (*test)(const weirv_case *c))
{
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++)
        for (int o = 0; o < WEIR_OP_COUNT; o++)
            for (int n = 1; n <= MODEL_MAX_NSRC; n++) {
                weirv_case c = case_of((weir_dtype)t, (weir_op)o, n);
                test(&c);
            }
}

/* The inputs of every rank. */
static uint8_t inputs[MODEL_MAX_NSRC][COUNT * 8];

static void fill(const weirv_case *c)
{
    for (int r = 0; r < c->nranks; r++)
        weirv_fill_part(c, inputs[r], 0, COUNT, r);
}

/* The values of element i by rank, rotated by `shift` ranks; from nranks on, in reverse. */
static void ordered(const weirv_case *c, size_t i, int shift, uint64_t *values)
{
    for (int k = 0; k < c->nranks; k++) {
        int rank = (k + shift) % c->nranks;
        if (shift >= c->nranks)
            rank = c->nranks - 1 - rank;
        values[k] = get_bits(c->dtype, inputs[rank], i);
    }
}

/* Combines all values at once, or one at a time with the result stored in between. */
static uint64_t combined(const weirv_case *c, const uint64_t *values, int stores)
{
    uint64_t n = (uint64_t)c->nranks, pair[2] = {values[0], 0};
    if (!stores || c->nranks == 1)
        return model_element(c->dtype, c->op, values, c->nranks, n);
    for (int k = 1; k < c->nranks; k++) {
        int averages_later = c->op == WEIR_AVG && k + 1 < c->nranks;
        pair[1] = values[k];
        pair[0] = model_element(c->dtype, averages_later ? WEIR_SUM : c->op, pair, 2, n);
    }
    return pair[0];
}

static void any_order_passes(const weirv_case *c)
{
    uint8_t out[COUNT * 8];
    fill(c);
    for (int order = 0; order < 2 * c->nranks; order++)
        for (int stores = 0; stores < 2; stores++) {
            weirv_case now = *c;
            weirv_result result = {0};
            char text[1024];
            now.stores = stores;
            for (size_t i = 0; i < COUNT; i++) {
                uint64_t values[MODEL_MAX_NSRC] = {0};
                ordered(c, i, order, values);
                put_bits(c->dtype, out, i, combined(c, values, stores));
            }
            weirv_check_special(&now, out, &result);
            if (result.wrong) {
                weirv_explain_special(&now, out, text, sizeof text);
                fail_msg("%s %s, %d ranks, order %d%s: %s", weir_dtype_name(c->dtype),
                         weir_op_name(c->op), c->nranks, order, stores ? ", stored" : "", text);
            }
        }
}

TEST(results_of_any_order_are_accepted)
{
    for_all(any_order_passes);
}

/* Each rank is the first holder of each row somewhere, and rows fit their arrays. */
static void covers(const weirv_case *c)
{
    weirv_special special;
    char seen[WEIRV_SPECIAL_ROWS_MAX][MODEL_MAX_NSRC] = {{0}};
    weirv_special_make(c->dtype, c->op, c->nranks, &special);
    weirv_special_answer(&special, 1);
    assert_in_range(special.nrows, 3, WEIRV_SPECIAL_ROWS_MAX);
    for (size_t i = 0; i < COUNT; i++) {
        weirv_special_place place =
            weirv_special_place_of(&special, i + 12345, weirv_special_start(c));
        seen[place.row][place.first_rank] = 1;
    }
    for (int row = 0; row < special.nrows; row++) {
        assert_in_range(special.rows[row].nanswers, 1, WEIRV_SPECIAL_ANSWERS_MAX - 1);
        for (int rank = 0; rank < c->nranks; rank++)
            assert_true(seen[row][rank]);
    }
}

TEST(every_rank_and_row_is_covered)
{
    for_all(covers);
}

TEST(data_do_not_depend_on_how_they_are_divided)
{
    enum { ALL = 500 };
    uint8_t whole[ALL * 8], cut[ALL * 8];
    weirv_special_fill(whole, 40, ALL, WEIR_FLOAT, WEIR_SUM, 2, 5, SEED);
    for (size_t at = 0; at < ALL; at += 10)
        weirv_special_fill(cut + 4 * at, 40 + at, 10, WEIR_FLOAT, WEIR_SUM, 2, 5, SEED);
    assert_memory_equal(whole, cut, 4 * ALL);
}

/* The results that weir/weir.h defines, computed by hand: the only accepted answers of the first
 * row of that name among 3 ranks. */
static const struct {
    weir_dtype dtype;
    weir_op op;
    const char *row;
    int stored;
    uint64_t answers[2];
} definite[] = {
    {WEIR_FP8_E4M3, WEIR_SUM, "overflow", 1, {0x7e, 0x7e}}, /* 448 */
    {WEIR_FP8_E5M2, WEIR_SUM, "overflow", 1, {0x7b, 0x7b}}, /* 57344 */
    {WEIR_FP8_E5M2, WEIR_SUM, "infinity", 1, {0x7b, 0x7b}}, /* saturates too */
    {WEIR_FP8_E5M2, WEIR_MAX, "infinity", 0, {0x7b, 0x7b}},
    {WEIR_FP8_E5M2, WEIR_SUM, "infinity less infinity", 0, {0x7e, 0x7e}},
    {WEIR_FP8_E4M3, WEIR_SUM, "NaN", 1, {0x7f, 0x7f}},
    {WEIR_FP8_E4M3, WEIR_SUM, "overflow of a part", 0, {0x7e, 0x7e}},
    {WEIR_FP8_E4M3, WEIR_SUM, "overflow of a part", 1, {0x7e, 0}}, /* 448 + 448 - 448 */
    {WEIR_FP8_E4M3, WEIR_SUM, "subnormal", 1, {7, 7}},
    {WEIR_HALF, WEIR_SUM, "overflow", 1, {0x7c00, 0x7c00}},
    {WEIR_HALF, WEIR_SUM, "overflow of a part", 0, {0x7bff, 0x7bff}},   /* in float it fits */
    {WEIR_HALF, WEIR_SUM, "overflow by rounding", 1, {0x7c00, 0x7c00}}, /* 65504 + 16 */
    {WEIR_HALF, WEIR_SUM, "no overflow by rounding", 1, {0xfbff, 0xfbff}},
    {WEIR_HALF, WEIR_SUM, "subnormal from normal", 1, {0x0200, 0x0200}},
    {WEIR_HALF, WEIR_SUM, "normal from subnormal", 1, {0x8400, 0x8400}},
    {WEIR_BFLOAT16, WEIR_SUM, "overflow", 1, {0x7f80, 0x7f80}},
    {WEIR_BFLOAT16, WEIR_SUM, "overflow of a part", 0, {0x7f80, 0x7f7f}},
    {WEIR_BFLOAT16, WEIR_PROD, "infinity times zero", 1, {0x7fc0, 0x7fc0}},
    {WEIR_FLOAT, WEIR_SUM, "negative zero", 1, {0x80000000, 0x80000000}},
    {WEIR_FLOAT, WEIR_AVG, "negative zero", 1, {0x80000000, 0x80000000}},
    {WEIR_FLOAT, WEIR_SUM, "zeros of both signs", 1, {0, 0}},
    {WEIR_FLOAT, WEIR_SUM, "zero by cancellation", 1, {0, 0}},
    {WEIR_FLOAT, WEIR_PROD, "negative zero", 1, {0x80000000, 0x80000000}},
    {WEIR_FLOAT, WEIR_PROD, "underflow", 1, {0x80000000, 0x80000000}}, /* a tie, to even */
    {WEIR_FLOAT, WEIR_PROD, "subnormal", 1, {0x80400000, 0x80400000}},
    {WEIR_FLOAT, WEIR_MAX, "zeros of both signs", 1, {0, 0x80000000}},
    {WEIR_FLOAT, WEIR_MIN, "subnormal", 1, {0x80000001, 0x80000001}},
    {WEIR_DOUBLE, WEIR_SUM, "overflow", 1, {0x7ff0000000000000, 0x7ff0000000000000}},
    {WEIR_DOUBLE, WEIR_SUM, "subnormal", 1, {7, 7}},
    {WEIR_DOUBLE, WEIR_MAX, "NaN", 1, {0x7ff8000000000000, 0x7ff8000000000000}},
    {WEIR_INT8, WEIR_SUM, "wrap at the signed end", 0, {0x80, 0x80}},
    {WEIR_INT8, WEIR_AVG, "wrap at the signed end", 0, {0xd6, 0xd6}},    /* -128 / 3 */
    {WEIR_UINT8, WEIR_AVG, "wrap", 0, {0, 0}},                           /* (255 + 2) % 256 / 3 */
    {WEIR_INT32, WEIR_AVG, "negative sum", 0, {0xffffffff, 0xffffffff}}, /* -3 / 3 */
    {WEIR_INT64, WEIR_PROD, "wrap to zero", 0, {0, 0}},
    {WEIR_INT8, WEIR_MAX, "ends of the range", 0, {0x7f, 0x7f}},
    {WEIR_UINT8, WEIR_MAX, "ends of the range", 0, {0x80, 0x80}},
    {WEIR_UINT64, WEIR_MIN, "ends of the range", 0, {0, 0}},
};

static const weirv_special_row *find_row(const weirv_special *special, const char *name)
{
    for (int i = 0; i < special->nrows; i++)
        if (strcmp(special->rows[i].name, name) == 0)
            return &special->rows[i];
    fail_msg("%s has no row %s", weir_dtype_name(special->dtype), name);
    return NULL;
}

TEST(results_defined_by_weir_h_are_the_only_ones_accepted)
{
    for (size_t i = 0; i < sizeof definite / sizeof *definite; i++) {
        weirv_special special;
        weirv_special_make(definite[i].dtype, definite[i].op, 3, &special);
        weirv_special_answer(&special, definite[i].stored);
        const weirv_special_row *row = find_row(&special, definite[i].row);
        int answers = definite[i].answers[0] == definite[i].answers[1] ? 1 : 2;
        int right = row->nanswers == answers;
        for (int k = 0; k < answers; k++)
            right &= weirv_special_accepts(&special, row, definite[i].answers[k]);
        if (!right)
            fail_msg("%s %s, %s: %d answers, the first %#llx", weir_dtype_name(definite[i].dtype),
                     weir_op_name(definite[i].op), definite[i].row, row->nanswers,
                     (unsigned long long)row->answers[0]);
    }
}

/* Makes each element of the named kind wrong, and expects the message to name the kind. */
static void expect_error(weir_dtype dtype, weir_op op, const char *name, uint64_t wrong,
                         const char *says)
{
    weirv_case c = case_of(dtype, op, 3);
    weirv_special special;
    weirv_result result = {0};
    uint8_t out[COUNT * 8];
    char text[1024], kind[64];
    uint64_t harmed = 0;
    weirv_special_make(dtype, op, 3, &special);
    weirv_special_answer(&special, 0);
    for (size_t i = 0; i < COUNT; i++) {
        weirv_special_place place = weirv_special_place_of(&special, i, weirv_special_start(&c));
        const weirv_special_row *row = &special.rows[place.row];
        int harms = row == find_row(&special, name);
        put_bits(dtype, out, i, harms ? wrong : row->answers[0]);
        harmed += (uint64_t)harms;
    }
    weirv_check_special(&c, out, &result);
    weirv_explain_special(&c, out, text, sizeof text);
    snprintf(kind, sizeof kind, "special value (%s)", name);
    assert_true(harmed > 10 && result.wrong == harmed && result.has_first);
    if (!strstr(text, says) || !strstr(text, kind))
        fail_msg("%s %s: %s lacks \"%s\"", weir_dtype_name(dtype), name, text, says);
}

/* Of results that are all wrong, four rows are explained, a line each, within the text's bytes. */
static void expect_lines(int nranks, int has_others)
{
    weirv_case c = case_of(WEIR_FLOAT, WEIR_SUM, nranks);
    uint8_t out[COUNT * 8];
    char text[2048] = "", *line = text;
    for (size_t i = 0; i < COUNT; i++)
        put_bits(WEIR_FLOAT, out, i, 0x12345678);
    weirv_explain_special(&c, out, text, sizeof text);
    for (int i = 0; i < 4; i++) {
        char *end = strchr(line, '\n');
        assert_true(end && strncmp(line, "element ", 8) == 0);
        *end = '\0';
        assert_int_equal(strstr(line, ", the others ") != NULL, has_others);
        line = end + 1;
    }
    assert_string_equal(line, "");
    for (size_t bytes = 1; bytes < 700; bytes += 3) {
        memset(text, 'z', sizeof text - 1);
        weirv_explain_special(&c, out, text, bytes);
        assert_true(strlen(text) < bytes);
        assert_int_equal(strspn(text + bytes, "z"), sizeof text - 1 - bytes);
    }
}

TEST(wrong_rows_are_explained_in_a_line_each)
{
    expect_lines(3, 0);
    expect_lines(5, 1);
}

TEST(wrong_special_values_are_found_and_named)
{
    expect_error(WEIR_FLOAT, WEIR_SUM, "NaN", 0x3f800000, "got 1, expected nan: rank ");
    expect_error(WEIR_FLOAT, WEIR_MAX, "NaN", 0x3f800000, "expected nan");
    expect_error(WEIR_FLOAT, WEIR_SUM, "negative zero", 0, "got 0, expected -0: rank ");
    expect_error(WEIR_DOUBLE, WEIR_SUM, "subnormal", 0, "got 0, expected 3.45");
    expect_error(WEIR_BFLOAT16, WEIR_SUM, "subnormal from normal", 0, "got 0, expected ");
    expect_error(WEIR_HALF, WEIR_SUM, "overflow", 0x7bff, "got 65504, expected inf");
    expect_error(WEIR_HALF, WEIR_SUM, "overflow by rounding", 0x7bff, "got 65504, expected inf");
    expect_error(WEIR_HALF, WEIR_SUM, "infinity less infinity", 0x7c00, "got inf, expected nan");
    expect_error(WEIR_FP8_E5M2, WEIR_SUM, "overflow", 0x7c, "got inf, expected 57344");
    expect_error(WEIR_FP8_E4M3, WEIR_SUM, "overflow", 0x7f, "got nan (0x7f), expected 448");
    expect_error(WEIR_FP8_E4M3, WEIR_PROD, "underflow", 0, "got 0, expected -0");
    expect_error(WEIR_INT8, WEIR_SUM, "wrap", 127, "got 127, expected 1: rank ");
    expect_error(WEIR_UINT32, WEIR_AVG, "wrap more than once", 0x7fffffff, "expected ");
    expect_error(WEIR_INT64, WEIR_MIN, "ends of the range", 0,
                 "got 0, expected -9223372036854775808");
}

/* A single wrong element is counted once and located, at every index. */
TEST(a_single_wrong_element_is_located)
{
    weirv_case c = case_of(WEIR_HALF, WEIR_SUM, 2);
    weirv_special special;
    uint8_t out[COUNT * 2];
    const uint64_t start = weirv_special_start(&c);
    weirv_special_make(c.dtype, c.op, c.nranks, &special);
    weirv_special_answer(&special, 0);
    for (size_t i = 0; i < COUNT; i++)
        put_bits(c.dtype, out, i,
                 special.rows[weirv_special_place_of(&special, i, start).row].answers[0]);
    for (size_t i = 0; i < COUNT; i++) {
        weirv_result result = {0};
        uint64_t right = get_bits(c.dtype, out, i);
        put_bits(c.dtype, out, i, 0x1234);
        weirv_check_special(&c, out, &result);
        assert_int_equal(result.wrong, 1);
        assert_int_equal(result.first.index, i);
        put_bits(c.dtype, out, i, right);
    }
}

/* Ranks other than the root of a reduce must write nothing; changed inputs are counted. */
TEST(writes_off_the_root_and_changed_inputs_are_counted)
{
    weirv_case c = case_of(WEIR_FLOAT, WEIR_SUM, 3);
    uint8_t out[COUNT * 4];
    weirv_result result = {0};
    c.collective = WEIR_COLL_REDUCE;
    c.rank = 1;
    weirv_poison(out, sizeof out);
    weirv_check_special(&c, out, &result);
    assert_int_equal(result.wrong, 0);
    out[4 * 7] = 0;
    weirv_check_special(&c, out, &result);
    assert_int_equal(result.wrong, 1);
    assert_int_equal(result.first.index, 7);
    weirv_fill_input(&c, out);
    assert_int_equal(weirv_input_changed(&c, out), 0);
    out[9] ^= 1;
    assert_int_equal(weirv_input_changed(&c, out), 1);
}

int main(void)
{
    return run_all_tests("verify_special");
}
