/*
 * The exact oracle: for every type and operation and many numbers of ranks, results do not depend
 * on the order in which ranks are combined, partial results are exact in the type, and the closed
 * form equals the combination of all inputs.
 */

#include "verify/exact.h"
#include "verify/expected.h"
#include "verify/tests/support/verify_inputs.h"

#include <math.h>

enum { COUNT = 700, SEED = 77, MOST_RANKS = 64 };

static const int rank_counts[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 33, 63, 64};

static weirv_case case_of(weir_dtype dtype, weir_op op, int nranks)
{
    return (weirv_case){.collective = WEIR_COLL_ALLREDUCE,
                        .dtype = dtype,
                        .op = op,
                        .nranks = nranks,
                        .count = COUNT,
                        .seed = SEED,
                        .exact = 1};
}

/* Calls test for every type, operation and number of ranks. */
static void for_all(void (*test)(const weirv_case *c))
{
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++)
        for (int o = 0; o < WEIR_OP_COUNT; o++)
            for (size_t i = 0; i < sizeof rank_counts / sizeof *rank_counts; i++) {
                weirv_case c = case_of((weir_dtype)t, (weir_op)o, rank_counts[i]);
                test(&c);
            }
}

static void is_the_combination(const weirv_case *c)
{
    uint8_t slow[COUNT * 8], fast[COUNT * 8];
    size_t bytes = COUNT * weir_dtype_bytes(c->dtype);
    weirv_combine(c, 0, COUNT, WEIRV_NO_RANK, WEIRV_NO_RANK, slow);
    weirv_exact_result(fast, 0, COUNT, c->dtype, c->op, c->nranks, c->seed);
    if (memcmp(slow, fast, bytes) != 0)
        fail_msg("%s %s, %d ranks", weir_dtype_name(c->dtype), weir_op_name(c->op), c->nranks);
}

TEST(the_closed_form_equals_the_combination_of_inputs)
{
    for_all(is_the_combination);
}

/* Whether the type represents value exactly. */
static int is_exact(weir_dtype dtype, double value)
{
    double back;
    uint64_t element = 0;
    weirv_encode(dtype, value, &element);
    weirv_decode(dtype, &element, 1, &back);
    return back == value;
}

/* Checks the partial results of the elements that increase the result alone, of those that decrease
 * it alone (the extremes that any order can reach), and of all in descending order of ranks. */
static void sums_are_exact(const weirv_case *c)
{
    static double inputs[MOST_RANKS][COUNT];
    uint8_t elements[COUNT * 8];
    if (!weirv_format_of(c->dtype) || (c->op != WEIR_SUM && c->op != WEIR_PROD))
        return;
    for (int r = 0; r < c->nranks; r++) {
        weirv_fill_part(c, elements, 0, COUNT, r);
        weirv_decode(c->dtype, elements, COUNT, inputs[r]);
    }
    int adds = c->op == WEIR_SUM;
    for (int i = 0; i < COUNT; i++) {
        double start = adds ? 0 : 1, up = start, down = start, back = start;
        for (int r = 0; r < c->nranks; r++) {
            double x = inputs[r][i], y = inputs[c->nranks - 1 - r][i];
            int rises = adds ? x > 0 : fabs(x) > 1;
            double *side = rises ? &up : &down;
            *side = adds ? *side + x : *side * x;
            back = adds ? back + y : back * y;
            if (!is_exact(c->dtype, up) || !is_exact(c->dtype, down) || !is_exact(c->dtype, back))
                fail_msg("%s %s, %d ranks: element %d is rounded at rank %d",
                         weir_dtype_name(c->dtype), weir_op_name(c->op), c->nranks, i, r);
        }
    }
}

TEST(partial_results_are_exact_in_every_order)
{
    for_all(sums_are_exact);
}

/* Data filled in parts of any length equal data filled in one call. */
TEST(data_do_not_depend_on_how_they_are_divided)
{
    static const size_t lengths[] = {1, 7, 15, 16, 17, 511, 513};
    enum { ALL = 5000 };
    static uint8_t whole[ALL * 8], cut[ALL * 8];
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++) {
        size_t width = weir_dtype_bytes((weir_dtype)t), at = 0;
        weirv_exact_fill(whole, 0, ALL, (weir_dtype)t, WEIR_SUM, 3, 64, SEED);
        for (int i = 0; at < ALL; i++) {
            size_t part = lengths[i % 7] < ALL - at ? lengths[i % 7] : ALL - at;
            weirv_exact_fill(cut + at * width, at, part, (weir_dtype)t, WEIR_SUM, 3, 64, SEED);
            at += part;
        }
        assert_memory_equal(whole, cut, ALL * width);
    }
}

/* Results of the previous seed, of other indices, and without one rank differ from the correct one
 * in many elements; in types with enough values, nearly everywhere. With max and min only the rank
 * that holds the extreme value matters. */
static void data_differ(const weirv_case *c)
{
    static uint8_t now[COUNT * 8], other[COUNT * 8];
    size_t width = weir_dtype_bytes(c->dtype);
    size_t most = width >= 4 && (c->op != WEIR_AVG || c->nranks < 33) ? COUNT / 10 : COUNT * 9 / 10;
    weirv_case before = *c;
    before.seed = SEED - 1;
    weirv_exact_result(now, 0, COUNT, c->dtype, c->op, c->nranks, c->seed);
    weirv_exact_result(other, 0, COUNT, c->dtype, c->op, c->nranks, before.seed);
    if (count_equal(c->dtype, now, other, COUNT) > most)
        fail_msg("%s %s, %d ranks: only %zu of %d elements of stale data differ",
                 weir_dtype_name(c->dtype), weir_op_name(c->op), c->nranks,
                 COUNT - count_equal(c->dtype, now, other, COUNT), COUNT);
    weirv_exact_result(other, 4096, COUNT, c->dtype, c->op, c->nranks, c->seed);
    assert_true(count_equal(c->dtype, now, other, COUNT) <= most);
    if (c->nranks == 1)
        return;
    weirv_combine(c, 0, COUNT, c->nranks / 2, WEIRV_NO_RANK, other);
    assert_true(count_equal(c->dtype, now, other, COUNT) <= COUNT - 3);
}

TEST(stale_misplaced_and_incomplete_results_differ)
{
    for_all(data_differ);
}

/* The output of one rank, as computed from the inputs, passes; a flipped bit is found. */
TEST(correct_outputs_pass_and_one_flipped_bit_is_located)
{
    static const size_t counts[] = {3, 0, 5, 2}, displs[] = {4, 0, 7, 20}, from[] = {9, 0, 1, 2};
    static uint8_t out[4 * COUNT * 8];
    for (int k = 0; k < WEIR_COLL_COUNT; k++)
        for (int in_place = 0; in_place < 2; in_place++) {
            weirv_case c = {.collective = (weir_collective)k,
                            .dtype = WEIR_FLOAT,
                            .op = WEIR_SUM,
                            .root = 1,
                            .rank = 2,
                            .nranks = 4,
                            .count = COUNT,
                            .seed = SEED,
                            .exact = 1,
                            .in_place = in_place,
                            .recv_counts = counts,
                            .recv_displs = displs,
                            .recv_from = from};
            weirv_result result = {0};
            size_t all = weirv_recv_elements(&c);
            for (size_t at = 0; at < all;)
                at += weirv_expected(&c, at, 100, out + 4 * at);
            weirv_check_exact(&c, out, &result);
            assert_int_equal(result.wrong, 0);
            out[4 * (all / 2)] ^= 1;
            weirv_check_exact(&c, out, &result);
            assert_int_equal(result.wrong, 1);
            assert_int_equal(result.first.index, all / 2);
        }
}

int main(void)
{
    return run_all_tests("verify_exact");
}
