/*
 * The parts that verification rests on: data patterns depend only on the index and differ by rank
 * and seed; number formats decode and encode by their definition; canaries detect every changed
 * byte.
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

int main(void)
{
    return run_all_tests("verify");
}
