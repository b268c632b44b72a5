/*
 * The parts that verification rests on: data patterns depend only on the index and differ by rank
 * and seed; number formats decode and encode by their definition; canaries detect every changed
 * byte; each description of wrong elements fits its fault and no other.
 */
#include "verify/forensics.h"
#include "verify/tests/support/verify_inputs.h"

#include <math.h>

enum { ELEMENTS = 5003, RANKS = 5, MOST_RANKS = 64, SEED = 77 };

/* ----------------------------------------------------------------- pattern */

TEST(fill_depends_only_on_the_index)
{
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++) {
        size_t width = weir_dtype_bytes((weir_dtype)t);
        char *whole = new_input((weir_dtype)t, WEIR_PROD, 3, SEED, ELEMENTS);
        char *pieces = malloc(ELEMENTS * width + 1), *odd = pieces + 1;
        for (size_t at = 0, part = 1; at < ELEMENTS; at += part, part = part * 3 + 1) {
            part = part < ELEMENTS - at ? part : ELEMENTS - at;
            weirv_fill(odd + at * width, at, part, (weir_dtype)t, WEIR_PROD, 3, SEED);
        }
        assert_memory_equal(odd, whole, ELEMENTS * width);
        free(pieces);
        free(whole);
    }
}

/* How many of ELEMENTS may be equal by chance: 8-bit data has at least 14 different values, 16-bit
 * data at least 32, wider data a million. */
static size_t equal_by_chance(weir_dtype dtype)
{
    size_t width = weir_dtype_bytes(dtype);
    return width == 1 ? ELEMENTS / 4 : width == 2 ? ELEMENTS / 8 : 8;
}

TEST(fill_differs_by_rank_seed_and_index)
{
    enum { SHIFTS = 4 };
    static const size_t shifts[SHIFTS] = {1, 2, 1024, 4096};
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++) {
        for (int o = 0; o < WEIR_OP_COUNT; o++) {
            weir_dtype dtype = (weir_dtype)t;
            size_t chance = equal_by_chance(dtype);
            char *base = new_input(dtype, (weir_op)o, 2, SEED, ELEMENTS + 4096);
            char *rank = new_input(dtype, (weir_op)o, 4, SEED, ELEMENTS);
            char *seed = new_input(dtype, (weir_op)o, 2, SEED + 1, ELEMENTS);
            assert_true(count_equal(dtype, base, rank, ELEMENTS) <= chance);
            assert_true(count_equal(dtype, base, seed, ELEMENTS) <= chance);
            for (int s = 0; s < SHIFTS; s++) {
                const char *moved = base + shifts[s] * weir_dtype_bytes(dtype);
                assert_true(count_equal(dtype, base, moved, ELEMENTS) <= chance);
            }
            free(seed);
            free(rank);
            free(base);
        }
    }
}

TEST(fill_does_not_repeat_after_4g_elements)
{
    enum { COUNT = 256 };
    uint32_t low[COUNT], high[COUNT];
    weirv_fill(low, 0, COUNT, WEIR_UINT32, WEIR_MAX, 0, SEED);
    weirv_fill(high, (size_t)1 << 32, COUNT, WEIR_UINT32, WEIR_MAX, 0, SEED);
    assert_int_equal(count_equal(WEIR_UINT32, low, high, COUNT), 0);
}

/* Checks that every element is in range and that the result over 64 ranks fits. For small types the
 * sum is also computed in float: both are equal if sums are exact. */
static void check_range(weir_dtype dtype, weir_op op, double least, double most)
{
    double total[ELEMENTS], value[ELEMENTS];
    float single[ELEMENTS];
    for (int rank = 0; rank < MOST_RANKS; rank++) {
        void *input = new_input(dtype, op, rank, SEED, ELEMENTS);
        weirv_decode(dtype, input, ELEMENTS, value);
        for (int i = 0; i < ELEMENTS; i++) {
            assert_true(fabs(value[i]) >= least && fabs(value[i]) < most);
            total[i] = rank == 0         ? value[i]
                       : op == WEIR_PROD ? total[i] * value[i]
                                         : total[i] + value[i];
            single[i] = rank == 0 ? (float)value[i] : single[i] + (float)value[i];
            if (op != WEIR_PROD && is_small_float(dtype))
                assert_true(total[i] == (double)single[i]);
        }
        free(input);
    }
    double largest = dtype == WEIR_FP8_E4M3 ? 448 : 57344;
    for (int i = 0; i < ELEMENTS; i++) {
        assert_true(fabs(total[i]) < largest);
        assert_true(op != WEIR_PROD || fabs(total[i]) >= 0x1p-6);
    }
}

TEST(floats_of_64_ranks_stay_in_range)
{
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++) {
        if (!is_float((weir_dtype)t))
            continue;
        int fp8 = weir_dtype_bytes((weir_dtype)t) == 1;
        check_range((weir_dtype)t, WEIR_SUM, 0.25, 4);
        check_range((weir_dtype)t, WEIR_AVG, 0.25, 4);
        check_range((weir_dtype)t, WEIR_PROD, fp8 ? 0.125 : 0.875, fp8 ? 8.5 : 1.125);
    }
}

TEST(inputs_of_integer_products_are_odd)
{
    for (int t = 0; t <= WEIR_UINT64; t++) {
        size_t width = weir_dtype_bytes((weir_dtype)t);
        unsigned char *input = new_input((weir_dtype)t, WEIR_PROD, 1, SEED, ELEMENTS);
        for (size_t i = 0; i < ELEMENTS; i++)
            assert_int_equal(input[i * width] & 1, 1);
        free(input);
    }
}

static weirv_case case_of(weir_collective collective, int rank)
{
    static const size_t counts[RANKS] = {3, 0, 200, 7, 1}, displs[RANKS] = {1, 9, 10, 300, 310};
    return (weirv_case){.collective = collective,
                        .dtype = WEIR_HALF,
                        .op = WEIR_SUM,
                        .root = 1,
                        .rank = rank,
                        .nranks = RANKS,
                        .count = 101,
                        .seed = SEED,
                        .send_counts = counts,
                        .send_displs = displs,
                        .recv_counts = counts,
                        .recv_displs = displs};
}

TEST(lengths_follow_the_collective)
{
    static const size_t sent[] = {101, 505, 101, 101, 101, 505, 311, 101};
    static const size_t received[] = {101, 101, 505, 101, 101, 505, 311, 101};
    for (int k = 0; k < WEIR_COLL_COUNT; k++) {
        weirv_case c = case_of((weir_collective)k, 0);
        assert_int_equal(weirv_send_elements(&c), sent[k]);
        assert_int_equal(weirv_recv_elements(&c), received[k]);
    }
}

TEST(changed_inputs_are_counted)
{
    for (int k = 0; k < WEIR_COLL_COUNT; k++) {
        weirv_case c = case_of((weir_collective)k, 2);
        uint16_t in[505];
        weirv_fill_input(&c, in);
        assert_int_equal(weirv_input_changed(&c, in), 0);
        in[0] ^= 1;
        in[weirv_send_elements(&c) - 1] ^= 0x8000;
        assert_int_equal(weirv_input_changed(&c, in), 2);
    }
}

static uint64_t changed_in_place(weir_collective collective, int rank, size_t element)
{
    weirv_case c = case_of(collective, rank);
    uint16_t in[505];
    c.in_place = 1;
    weirv_fill_input(&c, in);
    in[element] ^= 1;
    return weirv_input_changed(&c, in);
}

TEST(in_place_results_do_not_count_as_changed_inputs)
{
    assert_int_equal(changed_in_place(WEIR_COLL_ALLREDUCE, 1, 5), 0);
    assert_int_equal(changed_in_place(WEIR_COLL_REDUCE, 1, 5), 0);
    assert_int_equal(changed_in_place(WEIR_COLL_REDUCE, 2, 5), 1);
    assert_int_equal(changed_in_place(WEIR_COLL_BROADCAST, 1, 5), 1);
    assert_int_equal(changed_in_place(WEIR_COLL_BROADCAST, 2, 5), 0);
    assert_int_equal(changed_in_place(WEIR_COLL_ALLGATHER, 2, 5), 1);
    assert_int_equal(changed_in_place(WEIR_COLL_ALLTOALL, 2, 5), 0);
    /* undefined, except the output: docs/user/buffers.md */
    assert_int_equal(changed_in_place(WEIR_COLL_REDUCE_SCATTER, 2, 201), 0);
    assert_int_equal(changed_in_place(WEIR_COLL_REDUCE_SCATTER, 2, 202), 0);
}

/* ----------------------------------------------------------------- numbers */

/* The value of a code by the definition of its format: (-1)^s 2^(e - bias) 1.m. */
static double defined_value(weir_dtype dtype, uint32_t bits)
{
    const weirv_format *f = weirv_format_of(dtype);
    int exponent = (int)(bits >> f->mantissa_bits) & ((1 << f->exponent_bits) - 1);
    int mantissa = (int)bits & ((1 << f->mantissa_bits) - 1);
    double sign = bits >> (f->exponent_bits + f->mantissa_bits) ? -1 : 1;
    if (dtype == WEIR_FP8_E4M3 && exponent == 15 && mantissa == 7)
        return NAN;
    if (dtype != WEIR_FP8_E4M3 && exponent == (1 << f->exponent_bits) - 1)
        return mantissa ? NAN : sign * INFINITY;
    double fraction = mantissa / ldexp(1, f->mantissa_bits);
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - f->bias);
    return sign * ldexp(1 + fraction, exponent - f->bias);
}

static double decode_bits(weir_dtype dtype, uint32_t bits)
{
    uint8_t one = (uint8_t)bits;
    uint16_t two = (uint16_t)bits;
    double value;
    weirv_decode(dtype, weir_dtype_bytes(dtype) == 1 ? (void *)&one : (void *)&two, 1, &value);
    return value;
}

static uint32_t encode_bits(weir_dtype dtype, double value)
{
    uint8_t one = 0;
    uint16_t two = 0;
    weirv_encode(dtype, value, weir_dtype_bytes(dtype) == 1 ? (void *)&one : (void *)&two);
    return weir_dtype_bytes(dtype) == 1 ? one : two;
}

TEST(every_small_float_decodes_and_encodes)
{
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++) {
        weir_dtype dtype = (weir_dtype)t;
        for (uint32_t bits = 0; is_small_float(dtype) && bits >> weir_dtype_bytes(dtype) * 8 == 0;
             bits++) {
            double value = decode_bits(dtype, bits), defined = defined_value(dtype, bits);
            int fp8_infinity = dtype == WEIR_FP8_E5M2 && isinf(defined);
            if (isnan(defined)) {
                assert_true(isnan(value));
                assert_true(isnan(decode_bits(dtype, encode_bits(dtype, value))));
                continue;
            }
            assert_true(value == defined && signbit(value) == signbit(defined));
            if (!fp8_infinity)
                assert_int_equal(encode_bits(dtype, value), bits);
        }
    }
}

/* The midpoint of two consecutive numbers is rounded to the even one. */
TEST(encoding_rounds_to_nearest_even)
{
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++) {
        weir_dtype dtype = (weir_dtype)t;
        for (uint32_t low = 0; is_small_float(dtype) && isfinite(defined_value(dtype, low + 1));
             low++) {
            double a = defined_value(dtype, low), b = defined_value(dtype, low + 1);
            double middle = (a + b) / 2;
            assert_int_equal(encode_bits(dtype, middle), low + (low & 1));
            assert_int_equal(encode_bits(dtype, nextafter(middle, 0)), low);
            assert_int_equal(encode_bits(dtype, nextafter(middle, INFINITY)), low + 1);
        }
    }
}

TEST(encoding_saturates_or_overflows)
{
    assert_true(decode_bits(WEIR_FP8_E4M3, encode_bits(WEIR_FP8_E4M3, 1e9)) == 448);
    assert_true(decode_bits(WEIR_FP8_E4M3, encode_bits(WEIR_FP8_E4M3, -INFINITY)) == -448);
    assert_true(decode_bits(WEIR_FP8_E5M2, encode_bits(WEIR_FP8_E5M2, 61440)) == 57344);
    assert_true(decode_bits(WEIR_FP8_E5M2, encode_bits(WEIR_FP8_E5M2, -1e9)) == -57344);
    assert_true(decode_bits(WEIR_HALF, encode_bits(WEIR_HALF, 65519)) == 65504);
    assert_true(isinf(decode_bits(WEIR_HALF, encode_bits(WEIR_HALF, 65520))));
    assert_true(isinf(decode_bits(WEIR_BFLOAT16, encode_bits(WEIR_BFLOAT16, 1e39))));
}

/* ------------------------------------------------------------------ guards */

static void check_flip(weirv_guard *guard, size_t at)
{
    unsigned char *byte = (unsigned char *)guard->base + at;
    *byte ^= 0x10;
    assert_int_equal(weirv_guard_check(guard), 1);
    *byte ^= 0x10;
    assert_int_equal(weirv_guard_check(guard), 0);
}

TEST(canaries_detect_changes_on_each_side)
{
    static const size_t lengths[] = {0, 1, 4097, 100000};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        for (size_t misalign = 0; misalign < 8; misalign += 3) {
            void *base = malloc(weirv_guard_bytes(lengths[k], misalign));
            weirv_guard guard;
            unsigned char *user = weirv_guard_place(&guard, base, lengths[k], misalign);
            size_t before = (size_t)(user - (unsigned char *)base);
            assert_int_equal(((uintptr_t)user - misalign) % 4096, 0);
            assert_true(before >= 16384);
            assert_true(guard.total_bytes - before - lengths[k] >= 16384);
            weirv_poison(user, lengths[k]);
            assert_int_equal(weirv_guard_check(&guard), 0);
            check_flip(&guard, 0);
            check_flip(&guard, before - 1);
            check_flip(&guard, before + lengths[k]);
            check_flip(&guard, guard.total_bytes - 1);
            free(base);
        }
    }
}

TEST(canaries_detect_constants_and_moved_canaries)
{
    void *base = malloc(weirv_guard_bytes(64, 0));
    weirv_guard guard;
    unsigned char *user = weirv_guard_place(&guard, base, 64, 0);
    memset(user + 64, user[64], 256);
    assert_true(weirv_guard_check(&guard) >= 250);
    user = weirv_guard_place(&guard, base, 64, 0);
    memmove(user + 64, user + 64 + 128, 256);
    assert_true(weirv_guard_check(&guard) >= 250);
    free(base);
}

/* --------------------------------------------------------------- forensics */

enum { BLOCK = 300, WRONG_RANKS = 3 };

/* The output of rank 1 of three, in which a test plants faults. */
typedef struct wrong_output {
    weirv_case c;
    size_t width;
    uint8_t out[8 * BLOCK * WRONG_RANKS];
} wrong_output;

static wrong_output output_of(weir_collective collective, weir_dtype dtype)
{
    wrong_output w = {.c = {.collective = collective,
                            .dtype = dtype,
                            .op = WEIR_SUM,
                            .rank = 1,
                            .nranks = WRONG_RANKS,
                            .count = BLOCK,
                            .seed = SEED,
                            .exact = 1}};
    w.width = weir_dtype_bytes(dtype);
    for (size_t at = 0, all = weirv_recv_elements(&w.c); at < all;)
        at += weirv_expected(&w.c, at, all - at, w.out + at * w.width);
    return w;
}

static void add_to(wrong_output *w, size_t at, uint64_t bits)
{
    uint64_t element = 0;
    memcpy(&element, w->out + at * w->width, w->width);
    element += bits;
    memcpy(w->out + at * w->width, &element, w->width);
}

static void flip_in(wrong_output *w, size_t at, int bit)
{
    w->out[at * w->width + (size_t)bit / 8] ^= (uint8_t)(1 << bit % 8);
}

/* Expects one line for each place, all with these last words. */
static void expect_runs(const wrong_output *w, const char *const *places, int count,
                        const char *words)
{
    char text[2048], *line = text, *rest;
    weirv_explain(&w->c, w->out, SEED - 1, text, sizeof text);
    for (int i = 0; i < count; i++, line = rest + 1) {
        rest = strchr(line, '\n');
        if (!rest || strncmp(line, places[i], strlen(places[i])) != 0 ||
            strncmp(rest - strlen(words), words, strlen(words)) != 0)
            fail_msg("expected '%s ...%s' in '%s'", places[i], words, text);
    }
    assert_string_equal(line, "");
}

static void expect_run(const wrong_output *w, const char *place, const char *words)
{
    expect_runs(w, &place, 1, words);
}

TEST(right_outputs_and_inexact_ones_are_not_explained)
{
    wrong_output w = output_of(WEIR_COLL_ALLREDUCE, WEIR_INT32);
    expect_runs(&w, NULL, 0, "");
    add_to(&w, 5, 1);
    w.c.exact = 0;
    expect_runs(&w, NULL, 0, "");
}

TEST(wrong_rounding_is_one_unit_up_or_down)
{
    static const weir_dtype types[] = {WEIR_UINT8, WEIR_INT32, WEIR_INT64, WEIR_HALF, WEIR_DOUBLE};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        wrong_output w = output_of(WEIR_COLL_ALLREDUCE, types[i]);
        const char *words =
            is_float(types[i]) ? "rounded wrongly (1 ulp)" : "rounded wrongly (off by one)";
        add_to(&w, 5, 1);
        expect_run(&w, "elements 5..5, 1 wrong: got ", words);
        add_to(&w, 9, UINT64_MAX);
        expect_run(&w, "elements 5..9, 2 wrong: got ", words);
        add_to(&w, 8, 43);
        expect_run(&w, "elements 5..9, 3 wrong: got ", "no guess fits");
    }
    size_t at = 0;
    wrong_output w = output_of(WEIR_COLL_ALLREDUCE, WEIR_UINT8);
    while (at < BLOCK && w.out[at] != UINT8_MAX)
        at++;
    assert_in_range(at, 0, BLOCK - 1);
    add_to(&w, at, 1);
    expect_run(&w, "elements ", "rounded wrongly (off by one)");
}

TEST(one_bit_differs_in_each_wrong_element)
{
    wrong_output w = output_of(WEIR_COLL_ALLREDUCE, WEIR_INT32);
    flip_in(&w, 5, 6);
    flip_in(&w, 7, 6);
    expect_run(&w, "elements 5..7, 2 wrong", "one bit differs (bit 6)");
    flip_in(&w, 5, 9);
    expect_run(&w, "elements 5..7, 2 wrong", "no guess fits");
    flip_in(&w, 5, 6);
    expect_run(&w, "elements 5..7, 2 wrong", "no guess fits");
    w = output_of(WEIR_COLL_ALLREDUCE, WEIR_DOUBLE);
    flip_in(&w, 5, 63);
    expect_run(&w, "elements 5..5, 1 wrong", "one bit differs (bit 63)");
}

TEST(swapped_bytes_and_missing_and_repeated_ranks_are_recognised)
{
    wrong_output w = output_of(WEIR_COLL_ALLREDUCE, WEIR_INT32), right = w;
    for (size_t i = 5 * w.width; i < 9 * w.width; i++)
        w.out[i] = right.out[i ^ 3];
    expect_run(&w, "elements 5..8, 4 wrong", "byte-swapped");
    w = right;
    weirv_combine(&w.c, 5, 4, 2, WEIRV_NO_RANK, w.out + 5 * w.width);
    expect_run(&w, "elements 5..8, 4 wrong", "sum lacks rank 2");
    w = right;
    weirv_combine(&w.c, 5, 4, WEIRV_NO_RANK, 2, w.out + 5 * w.width);
    expect_run(&w, "elements 5..8, 4 wrong", "sum has rank 2 twice");
}

TEST(elements_that_were_not_written_are_recognised)
{
    wrong_output w = output_of(WEIR_COLL_ALLREDUCE, WEIR_INT32), right = w;
    weirv_poison(w.out + 5 * w.width, 4 * w.width);
    expect_run(&w, "elements 5..8, 4 wrong", "never written (poison)");
    w = right;
    weirv_fill_part(&w.c, w.out + 5 * w.width, 5, 4, 1);
    expect_run(&w, "elements 5..8, 4 wrong", "equals rank 1's chunk 0");
    w.c.in_place = 1;
    expect_run(&w, "elements 5..8, 4 wrong", "never written (still this rank's input)");
    w = right;
    w.c.seed--;
    weirv_expected(&w.c, 5, 4, w.out + 5 * w.width);
    w.c.seed++;
    expect_run(&w, "elements 5..8, 4 wrong", "equals the previous iteration");
}

TEST(chunks_at_wrong_places_are_recognised)
{
    wrong_output w = output_of(WEIR_COLL_ALLREDUCE, WEIR_INT32);
    memcpy(w.out + 5 * w.width, w.out + 205 * w.width, 4 * w.width);
    expect_run(&w, "elements 5..8, 4 wrong", "equals chunk 2 of the result (element 205 on)");
    w = output_of(WEIR_COLL_ALLTOALL, WEIR_INT32);
    weirv_fill_part(&w.c, w.out + (BLOCK + 5) * w.width, 2 * BLOCK + 5, 4, 0);
    expect_run(&w, "elements 305..308 (rank 1's data), 4 wrong", "equals rank 0's chunk 2");
}

/* The first elements of a run, up to the end of its chunk, decide. */
TEST(a_long_run_is_explained_by_its_first_chunk)
{
    wrong_output w = output_of(WEIR_COLL_ALLREDUCE, WEIR_INT32);
    for (size_t i = 0; i < BLOCK; i++)
        add_to(&w, i, i < BLOCK / WRONG_RANKS ? 1 : 43);
    expect_run(&w, "elements 0..299, 300 wrong", "rounded wrongly (off by one)");
    add_to(&w, BLOCK / WRONG_RANKS - 1, 42);
    expect_run(&w, "elements 0..299, 300 wrong", "no guess fits");
}

TEST(runs_end_after_16_right_elements_and_at_other_sources)
{
    static const char *const apart[] = {"elements 10..10, 1 wrong", "elements 27..27, 1 wrong"};
    static const char *const blocks[] = {"elements 299..299 (rank 0's data), 1 wrong",
                                         "elements 300..300 (rank 1's data), 1 wrong"};
    wrong_output w = output_of(WEIR_COLL_ALLREDUCE, WEIR_INT32), right = w;
    add_to(&w, 10, 1);
    add_to(&w, 26, 1);
    expect_run(&w, "elements 10..26, 2 wrong", "(off by one)");
    w = right;
    add_to(&w, 10, 1);
    add_to(&w, 27, 1);
    expect_runs(&w, apart, 2, "(off by one)");
    w = output_of(WEIR_COLL_ALLTOALL, WEIR_INT32);
    add_to(&w, 299, 1);
    add_to(&w, 300, 1);
    expect_runs(&w, blocks, 2, "(off by one)");
}

TEST(four_runs_are_described_and_the_others_counted)
{
    static const char *const places[] = {"elements 0..0, 1 wrong", "elements 40..40, 1 wrong",
                                         "elements 80..80, 1 wrong", "elements 120..120, 1 wrong"};
    char text[2048] = "";
    wrong_output w = output_of(WEIR_COLL_ALLREDUCE, WEIR_INT32);
    for (size_t i = 0; i < 4; i++)
        add_to(&w, 40 * i, 1);
    expect_runs(&w, places, 4, "(off by one)");
    add_to(&w, 160, 1);
    add_to(&w, 200, 1);
    weirv_explain(&w.c, w.out, SEED - 1, text, sizeof text);
    assert_non_null(strstr(text, "one)\nand 2 more runs of wrong elements\n"));
    assert_null(strstr(text, "elements 160"));
    for (size_t bytes = 1; bytes < 500; bytes++) {
        memset(text, 'z', sizeof text - 1);
        weirv_explain(&w.c, w.out, SEED - 1, text, bytes);
        assert_true(strlen(text) < bytes);
        assert_int_equal(strspn(text + bytes, "z"), sizeof text - 1 - bytes);
    }
}

TEST(elements_outside_all_blocks_are_recognised)
{
    static const size_t counts[] = {4, 0, 4}, displs[] = {2, 0, 10};
    wrong_output w = {.c = {.collective = WEIR_COLL_ALLTOALLV,
                            .dtype = WEIR_INT32,
                            .rank = 1,
                            .nranks = WRONG_RANKS,
                            .seed = SEED,
                            .send_counts = counts,
                            .send_displs = displs,
                            .recv_counts = counts,
                            .recv_displs = displs,
                            .recv_from = displs},
                      .width = 4};
    /* A part ends with its block, or with the gap. */
    static const size_t ends[] = {2, 2, 6, 6, 6, 6, 10, 10, 10, 10, 14, 14, 14, 14};
    assert_int_equal(weirv_recv_elements(&w.c), 14);
    for (size_t at = 0; at < 14; at++)
        assert_int_equal(weirv_expected(&w.c, at, 14, w.out), ends[at] - at);
    for (size_t at = 0; at < 14;)
        at += weirv_expected(&w.c, at, 14 - at, w.out + 4 * at);
    expect_runs(&w, NULL, 0, "");
    add_to(&w, 6, 1);
    expect_run(&w, "elements 6..6, 1 wrong", "nothing may be written here");
    add_to(&w, 9, 1);
    expect_run(&w, "elements 6..9, 2 wrong", "nothing may be written here");
    add_to(&w, 6, UINT64_MAX);
    add_to(&w, 9, UINT64_MAX);
    weirv_fill_part(&w.c, w.out + 4 * 2, 10, 4, 2);
    expect_run(&w, "elements 2..5 (rank 0's data), 4 wrong", "equals rank 2's chunk 1");
}

TEST(changed_inputs_are_named_from_the_first_to_the_last)
{
    char text[128];
    wrong_output w = output_of(WEIR_COLL_ALLREDUCE, WEIR_INT32);
    weirv_fill_part(&w.c, w.out, 0, BLOCK, 1);
    weirv_explain_input(&w.c, w.out, text, sizeof text);
    assert_string_equal(text, "");
    add_to(&w, 7, 1);
    weirv_explain_input(&w.c, w.out, text, sizeof text);
    assert_string_equal(text, "input elements 7..7, 1 changed\n");
    add_to(&w, 9, 1);
    add_to(&w, BLOCK - 1, 1);
    weirv_explain_input(&w.c, w.out, text, sizeof text);
    assert_string_equal(text, "input elements 7..299, 3 changed\n");
}

TEST(writes_outside_a_buffer_are_named_with_their_reach)
{
    char text[128];
    weirv_guard guard;
    void *base = malloc(weirv_guard_bytes(64, 0));
    unsigned char *user = weirv_guard_place(&guard, base, 64, 0);
    weirv_explain_guard(&guard, "out", text, sizeof text);
    assert_string_equal(text, "");
    user[-3] ^= 1;
    user[-9] ^= 1;
    user[64] ^= 1;
    weirv_explain_guard(&guard, "out", text, sizeof text);
    assert_string_equal(text,
                        "written outside out: up to 9 bytes before its start, 1 past its end\n");
    free(base);
}

int main(void)
{
    return run_all_tests("verify");
}
