/*
 * The comparison of results: injected faults are found, correct results and roundings pass, and the
 * bounds are tight. The references are computed here, from the patterns of all ranks.
 */
#include "verify/compare.h"
#include "verify/tests/support/verify_inputs.h"

#include <math.h>

enum { ELEMENTS = 5003, RANKS = 5, SEED = 77 };

/* The reference of a floating-point reduction over ranks [0, RANKS), and a correct result, rounded
 * once to the type. */
typedef struct reference {
    weir_dtype dtype;
    weir_op op;
    double values[ELEMENTS], magnitudes[ELEMENTS];
    unsigned char out[ELEMENTS * 8];
    weirv_bound bound;
} reference;

static double apply(weir_op op, double a, double x)
{
    switch (op) {
    case WEIR_PROD:
        return a * x;
    case WEIR_MAX:
        return fmax(a, x);
    case WEIR_MIN:
        return fmin(a, x);
    default:
        return a + x;
    }
}

/* Reduces the patterns of ranks [0, nranks) with a seed; an average divides by RANKS. */
static void sum_up(weir_dtype dtype, weir_op op, int nranks, uint64_t seed, double *values,
                   double *magnitudes)
{
    double scale_by = op == WEIR_AVG ? RANKS : 1;
    double *value = malloc(ELEMENTS * sizeof *value);
    for (int rank = 0; rank < nranks; rank++) {
        void *input = new_input(dtype, op, rank, seed, ELEMENTS);
        weirv_decode(dtype, input, ELEMENTS, value);
        for (int i = 0; i < ELEMENTS; i++) {
            values[i] = rank ? apply(op, values[i], value[i]) : value[i];
            magnitudes[i] = (rank ? magnitudes[i] : 0) + fabs(value[i]) / scale_by;
        }
        free(input);
    }
    for (int i = 0; i < ELEMENTS; i++)
        values[i] /= scale_by;
    free(value);
}

static void encode_all(weir_dtype dtype, const double *values, unsigned char *out)
{
    for (int i = 0; i < ELEMENTS; i++)
        weirv_encode(dtype, values[i], out + (size_t)i * weir_dtype_bytes(dtype));
}

static reference *new_reference(weir_dtype dtype, weir_op op)
{
    reference *r = malloc(sizeof *r);
    assert_non_null(r);
    r->dtype = dtype;
    r->op = op;
    r->bound = weirv_bound_make(dtype, op, RANKS, 1);
    sum_up(dtype, op, RANKS, SEED, r->values, r->magnitudes);
    encode_all(dtype, r->values, r->out);
    return r;
}

static weirv_result judge_out(const reference *r)
{
    weirv_result result = {0};
    weirv_compare_values(r->dtype, 3, 1000, ELEMENTS, r->out, r->values, r->magnitudes, r->bound,
                         &result);
    return result;
}

/* Calls check for every floating-point type and operation. */
static void for_each_float(void (*check)(reference *r))
{
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++) {
        for (int o = 0; is_float((weir_dtype)t) && o < WEIR_OP_COUNT; o++) {
            reference *r = new_reference((weir_dtype)t, (weir_op)o);
            check(r);
            free(r);
        }
    }
}

static void expect_right(reference *r)
{
    weirv_result result = judge_out(r);
    assert_int_equal(result.wrong, 0);
    assert_false(result.has_first);
    assert_true(result.worst_error <= 1);
}

TEST(correct_results_pass)
{
    for_each_float(expect_right);
}

/* Flips the highest exponent bit of the first, some middle and the last element. */
static void expect_single(reference *r)
{
    static const size_t places[] = {0, 511, 512, 2049, ELEMENTS - 1};
    size_t width = weir_dtype_bytes(r->dtype);
    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
        unsigned char *top = r->out + (places[k] + 1) * width - 1;
        *top ^= 0x40;
        weirv_result result = judge_out(r);
        *top ^= 0x40;
        assert_int_equal(result.wrong, 1);
        assert_true(result.has_first && result.first.rank == 3);
        assert_int_equal(result.first.index, 1000 + places[k]);
        assert_true(result.worst_error > 1);
    }
}

TEST(a_single_wrong_float_is_found)
{
    for_each_float(expect_single);
}

TEST(a_single_wrong_bit_is_found)
{
    static const size_t places[] = {0, 511, 4096, ELEMENTS - 1};
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++) {
        weir_dtype dtype = (weir_dtype)t;
        unsigned char *wanted = new_input(dtype, WEIR_MAX, 0, SEED, ELEMENTS);
        unsigned char *got = new_input(dtype, WEIR_MAX, 0, SEED, ELEMENTS);
        for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
            weirv_result result = {0};
            got[places[k] * weir_dtype_bytes(dtype)] ^= 1;
            weirv_compare_bits(dtype, 2, 0, ELEMENTS, got, wanted, &result);
            got[places[k] * weir_dtype_bytes(dtype)] ^= 1;
            assert_int_equal(result.wrong, 1);
            assert_int_equal(result.first.index, places[k]);
            assert_string_not_equal(result.first.got, result.first.expected);
        }
        free(got);
        free(wanted);
    }
}

static void expect_faults(reference *r)
{
    size_t half = ELEMENTS / 2 * weir_dtype_bytes(r->dtype);
    unsigned char *kept = malloc(half);
    memcpy(kept, r->out, half);
    memcpy(r->out, r->out + half, half);
    memcpy(r->out + half, kept, half);
    free(kept);
    assert_true(judge_out(r).wrong > ELEMENTS / 4); /* the halves swapped */

    double *values = malloc(2 * ELEMENTS * sizeof *values);
    sum_up(r->dtype, r->op, RANKS, SEED - 1, values, values + ELEMENTS);
    encode_all(r->dtype, values, r->out);
    assert_true(judge_out(r).wrong > ELEMENTS / 4); /* the result of the previous run */
    sum_up(r->dtype, r->op, RANKS - 1, SEED, values, values + ELEMENTS);
    encode_all(r->dtype, values, r->out);
    assert_true(judge_out(r).wrong > ELEMENTS / 16); /* a rank left out */
    free(values);
}

TEST(swapped_stale_and_incomplete_results_are_found)
{
    for_each_float(expect_faults);
}

static void expect_unwritten(reference *r)
{
    size_t width = weir_dtype_bytes(r->dtype);
    weirv_poison(r->out + (ELEMENTS - 1) * width, width);
    weirv_result result = judge_out(r);
    assert_int_equal(result.wrong, 1);
    assert_true(isinf(result.worst_error));
    assert_non_null(strstr(result.first.got, "unwritten"));
}

TEST(an_unwritten_last_element_is_found)
{
    for_each_float(expect_unwritten);
}

/* An error of four times the bound is rejected, on either side. */
static void expect_tight(reference *r)
{
    if (r->op == WEIR_MAX || r->op == WEIR_MIN)
        return;
    for (int sign = -1; sign <= 1; sign += 2) {
        double moved[ELEMENTS];
        for (int i = 0; i < ELEMENTS; i++)
            moved[i] = r->values[i] + sign * 4 *
                                          (r->bound.spread * r->magnitudes[i] +
                                           r->bound.relative * fabs(r->values[i]) + r->bound.floor);
        encode_all(r->dtype, moved, r->out);
        assert_int_equal(judge_out(r).wrong, ELEMENTS);
    }
}

TEST(four_times_the_bound_is_rejected)
{
    for_each_float(expect_tight);
}

static void expect_near(double value, double wanted)
{
    assert_true(fabs(value - wanted) <= wanted * 1e-3);
}

/* Five ranks need four additions; an average also scales. The expected numbers are computed by hand
 * from the formulas. */
TEST(bounds_have_the_size_of_the_roundings)
{
    weirv_bound b = weirv_bound_make(WEIR_FLOAT, WEIR_SUM, 5, 1);
    expect_near(b.spread, 4 * 0x1p-24);
    expect_near(b.relative, 0x1p-24);
    b = weirv_bound_make(WEIR_FLOAT, WEIR_AVG, 5, 5); /* float is not stored between steps */
    expect_near(b.spread, 6 * 0x1p-24);
    b = weirv_bound_make(WEIR_DOUBLE, WEIR_SUM, 5, 1); /* includes the roundings of the reference */
    expect_near(b.spread, 9 * 0x1p-53);
    expect_near(b.relative, 0x1p-53);
    b = weirv_bound_make(WEIR_HALF, WEIR_SUM, 5, 1);
    expect_near(b.spread, 4 * 0x1p-24);
    expect_near(b.relative, 0x1p-11);
    expect_near(b.floor, 0x1p-24);
    b = weirv_bound_make(WEIR_FP8_E4M3, WEIR_SUM, 5, 3); /* (17/16)^2 - 1, times 17/16 */
    expect_near(b.spread, 0.13696);
    expect_near(b.relative, 0x1p-4);
    b = weirv_bound_make(WEIR_BFLOAT16, WEIR_PROD, 5, 1);
    expect_near(b.spread + 1, 1);
    expect_near(b.relative, 0x1p-8);
    b = weirv_bound_make(WEIR_FLOAT, WEIR_PROD, 5, 1);
    expect_near(b.relative, 5 * 0x1p-24);
}

/* Adds two units in the last place to every element that is not near zero. Near zero a unit is
 * smaller than the roundings of the accumulator. */
static void expect_two_units_refused(reference *r)
{
    if (!is_small_float(r->dtype) || r->op == WEIR_PROD)
        return;
    size_t width = weir_dtype_bytes(r->dtype), moved = 0;
    for (size_t i = 0; i < ELEMENTS; i++) {
        if (fabs(r->values[i]) < 0x1p-4)
            continue;
        moved++;
        uint16_t bits = 0;
        memcpy(&bits, r->out + i * width, width);
        bits = (uint16_t)(bits + 2);
        memcpy(r->out + i * width, &bits, width);
    }
    assert_true(moved > ELEMENTS / 2);
    assert_int_equal(judge_out(r).wrong, moved);
}

TEST(two_units_in_the_last_place_are_rejected)
{
    for_each_float(expect_two_units_refused);
}

/* In double, a result can be placed just inside and just outside the bound. */
TEST(errors_just_inside_the_bound_pass_and_just_outside_fail)
{
    double value = 3, magnitude = 7;
    weirv_bound bound = {0x1p-20, 0x1p-30, 0x1p-40};
    double allowed = 0x1p-20 * 7 + 0x1p-30 * 3 + 0x1p-40;
    for (int k = 0; k < 4; k++) {
        double got = value + (k % 2 ? -1 : 1) * allowed * (k < 2 ? 0.999 : 1.001);
        weirv_result result = {0};
        weirv_compare_values(WEIR_DOUBLE, 0, 0, 1, &got, &value, &magnitude, bound, &result);
        assert_int_equal(result.wrong, k < 2 ? 0 : 1);
        assert_true(fabs(result.worst_error - 1) < 0.01);
    }
}

/* A ring stores partial sums in the type. The result exceeds the bound of one rounding, and is
 * within the bound of as many roundings as there are. */
TEST(rounding_at_each_step_is_allowed_for_a_ring)
{
    uint64_t refused = 0;
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++) {
        if (!is_small_float((weir_dtype)t))
            continue;
        reference *r = new_reference((weir_dtype)t, WEIR_SUM);
        size_t width = weir_dtype_bytes(r->dtype);
        memset(r->out, 0, sizeof r->out);
        for (int rank = 0; rank < RANKS; rank++) {
            unsigned char *input = new_input(r->dtype, WEIR_SUM, rank, SEED, ELEMENTS);
            for (size_t i = 0; i < ELEMENTS; i++) {
                double a, x;
                weirv_decode(r->dtype, r->out + i * width, 1, &a);
                weirv_decode(r->dtype, input + i * width, 1, &x);
                weirv_encode(r->dtype, a + x, r->out + i * width);
            }
            free(input);
        }
        refused += judge_out(r).wrong;
        r->bound = weirv_bound_make(r->dtype, WEIR_SUM, RANKS, RANKS - 1);
        assert_int_equal(judge_out(r).wrong, 0);
        free(r);
    }
    assert_true(refused > 0);
}

TEST(infinity_is_never_within_a_bound)
{
    double values[2] = {1, 1}, magnitudes[2] = {1, 1}, got[2] = {-INFINITY, NAN};
    weirv_result result = {0};
    weirv_compare_values(WEIR_DOUBLE, 0, 0, 2, got, values, magnitudes,
                         weirv_bound_make(WEIR_DOUBLE, WEIR_SUM, 64, 64), &result);
    assert_int_equal(result.wrong, 2);
    assert_true(isinf(result.worst_error));
}

TEST(changed_poison_is_found)
{
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++) {
        size_t width = weir_dtype_bytes((weir_dtype)t);
        unsigned char out[ELEMENTS * 8];
        weirv_result result = {0};
        weirv_poison(out, sizeof out);
        weirv_compare_poison((weir_dtype)t, 1, 0, ELEMENTS, out, &result);
        assert_int_equal(result.wrong, 0);
        out[(ELEMENTS - 1) * width] = 0;
        weirv_compare_poison((weir_dtype)t, 1, 10, ELEMENTS, out, &result);
        assert_int_equal(result.wrong, 1);
        assert_int_equal(result.first.index, 10 + ELEMENTS - 1);
        assert_string_equal(result.first.expected, "nothing written");
    }
}

TEST(descriptions_name_rank_element_and_values)
{
    char text[300];
    weirv_result result = {0};
    weirv_describe(&result, text, sizeof text);
    assert_string_equal(text, "no error");
    int8_t got = -3, wanted = 5;
    weirv_compare_bits(WEIR_INT8, 4, 9, 1, &got, &wanted, &result);
    weirv_describe(&result, text, sizeof text);
    assert_string_equal(text, "rank 4, element 9: got -3, expected 5 (1 wrong element in all)");
    result.wrong = 12;
    result.overruns = 2;
    result.inputs_changed = 1;
    weirv_describe(&result, text, sizeof text);
    assert_string_equal(text, "rank 4, element 9: got -3, expected 5 (12 wrong elements in all); "
                              "2 bytes written outside the buffers; 1 input element changed");
}

TEST(the_first_mismatch_is_kept)
{
    float got[2] = {4.5f, 1}, wanted[2] = {5, 2};
    weirv_result result = {0};
    weirv_compare_bits(WEIR_FLOAT, 3, 17, 2, got, wanted, &result);
    assert_int_equal(result.wrong, 2);
    assert_int_equal(result.first.index, 17);
    assert_string_equal(result.first.got, "4.5");
    assert_string_equal(result.first.expected, "5");
}

int main(void)
{
    return run_all_tests("verify_compare");
}
