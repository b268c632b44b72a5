/*
 * The reduction functions match a model: every type, operation and instruction set of this machine,
 * at every count up to 67 elements and some large ones, at every misalignment, in place, and with
 * streaming stores, with guard bytes on both sides of the destination.
 */
#include "compute/reduce.h"
#include "verify/tests/support/float_environments.h"
#include "verify/tests/support/reduce_model.h"
#include "verify/tests/support/unit_test.h"

enum {
    MAX_COUNT = 4099, /* enough to stream the smallest type */
    MAX_NSRC = MODEL_MAX_NSRC,
    MAX_SHIFT = 8,
    GUARD_BYTES = 64,
    GUARD = 0xa5,
    MAX_BYTES = MAX_COUNT * 8
};

static int guards_intact(const uint8_t *dst, size_t bytes)
{
    for (size_t i = 0; i < GUARD_BYTES; i++)
        if (dst[-1 - (long)i] != GUARD || dst[bytes + i] != GUARD) {
            print_message("# byte %zu outside the destination is overwritten\n", i);
            return 0;
        }
    return 1;
}

/* ----------------------------------------- every type, count and placement */

typedef struct check_data {
    uint8_t source[MAX_NSRC][MAX_BYTES]; /* element-aligned originals */
    uint8_t expected[MAX_BYTES];
    uint8_t shifted[MAX_NSRC][MAX_BYTES + MAX_SHIFT];
    _Alignas(64) uint8_t room[GUARD_BYTES + MAX_SHIFT + MAX_BYTES + GUARD_BYTES];
} check_data;

static check_data data;

/* Half of the elements have random bits; the other half have magnitudes whose sums and products
 * mostly stay finite. */
static void fill_sources(weir_dtype dtype)
{
    format f = {0};
    for (int k = 0; k < MAX_NSRC; k++)
        for (size_t i = 0; i < MAX_COUNT; i++) {
            uint64_t bits = random_bits();
            double mild = ldexp((double)(int64_t)random_bits(), -62);
            float mild_float = (float)mild;
            if (i % 2 && dtype == WEIR_DOUBLE)
                memcpy(&bits, &mild, sizeof mild);
            else if (i % 2 && dtype == WEIR_FLOAT)
                memcpy(&bits, &mild_float, sizeof mild_float);
            else if (i % 2 && format_of(dtype, &f))
                bits = model_encode(f, mild);
            put_bits(dtype, data.source[k], i, bits);
        }
}

static void fill_expected(weir_dtype dtype, weir_op op, int nsrc, uint64_t divisor)
{
    uint64_t values[MAX_NSRC];
    for (size_t i = 0; i < MAX_COUNT; i++) {
        for (int k = 0; k < nsrc; k++)
            values[k] = get_bits(dtype, data.source[k], i);
        put_bits(dtype, data.expected, i, model_element(dtype, op, values, nsrc, divisor));
    }
}

/* One call with dst shifted by `shift` bytes; in_place is the index of the source that is also dst,
 * or -1. Returns 1 if the result is right and the bytes around it are unchanged. */
static int check_call(weiri_reduce_fn reduce, weir_dtype dtype, int nsrc, size_t count,
                      uint64_t divisor, int shift, int in_place, int streaming)
{
    size_t bytes = count * weir_dtype_bytes(dtype);
    uint8_t *dst = data.room + GUARD_BYTES + shift;
    const void *src[MAX_NSRC];
    memset(dst - GUARD_BYTES, GUARD, bytes + 2 * (size_t)GUARD_BYTES);
    for (int k = 0; k < nsrc; k++)
        src[k] = data.shifted[k] + (shift + k) % MAX_SHIFT;
    if (in_place >= 0) {
        memcpy(dst, src[in_place], bytes);
        src[in_place] = dst;
    }
    reduce(dst, src, nsrc, count, divisor, streaming);
    return same_values(dtype, dst, data.expected, count) && guards_intact(dst, bytes);
}

static int check_shift(weiri_reduce_fn reduce, weir_dtype dtype, int nsrc, uint64_t divisor,
                       int shift)
{
    static const size_t large[] = {127, 128, 129, 259, 1037, MAX_COUNT};
    const int step = nsrc > 3 ? 4 : 1;
    int right = 1;
    for (int k = 0; k < nsrc; k++)
        memcpy(data.shifted[k] + (shift + k) % MAX_SHIFT, data.source[k],
               MAX_COUNT * weir_dtype_bytes(dtype));
    for (size_t count = 0; count <= 67; count++)
        right &= check_call(reduce, dtype, nsrc, count, divisor, shift,
                            (int)(count % (size_t)(nsrc + 1)) - 1, 0);
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++)
        for (int in_place = -1; in_place < nsrc; in_place += step)
            for (int streaming = 0; streaming < 2; streaming++)
                right &=
                    check_call(reduce, dtype, nsrc, large[i], divisor, shift, in_place, streaming);
    return right;
}

static void reductions_match_the_model(void **state)
{
    static const int nsrcs[] = {1, 2, 3, 8};
    weir_dtype dtype = *(const weir_dtype *)*state;
    random_state = (uint64_t)dtype + 1;
    fill_sources(dtype);
    for (int op = 0; op < WEIR_OP_COUNT; op++)
        for (size_t n = 0; n < sizeof nsrcs / sizeof nsrcs[0]; n++) {
            uint64_t divisor = (uint64_t)nsrcs[n] + (nsrcs[n] == 3 ? 4 : 0);
            fill_expected(dtype, (weir_op)op, nsrcs[n], divisor);
            for (int i = 0; i < NISA; i++) {
                weiri_reduce_fn reduce = weiri_reduce_get_isa(isa_names[i], dtype, (weir_op)op);
                for (int shift = 0; reduce && shift < MAX_SHIFT; shift++)
                    if (!check_shift(reduce, dtype, nsrcs[n], divisor, shift))
                        fail_msg("%s %s, %s, %d sources, shifted by %d", weir_dtype_name(dtype),
                                 weir_op_name((weir_op)op), isa_names[i], nsrcs[n], shift);
            }
        }
}

static weir_dtype dtypes[] = {WEIR_INT8,   WEIR_UINT8,    WEIR_INT32,    WEIR_UINT32,
                              WEIR_INT64,  WEIR_UINT64,   WEIR_HALF,     WEIR_FLOAT,
                              WEIR_DOUBLE, WEIR_BFLOAT16, WEIR_FP8_E4M3, WEIR_FP8_E5M2};
_Static_assert(sizeof dtypes / sizeof *dtypes == WEIR_DTYPE_COUNT, "every data type is tested");
#define DTYPE_CASE(name, dtype)                                                                    \
    TEST_CASE(name "_reductions_match_the_model", reductions_match_the_model, &dtypes[dtype])
DTYPE_CASE("int8", WEIR_INT8)
DTYPE_CASE("uint8", WEIR_UINT8)
DTYPE_CASE("int32", WEIR_INT32)
DTYPE_CASE("uint32", WEIR_UINT32)
DTYPE_CASE("int64", WEIR_INT64)
DTYPE_CASE("uint64", WEIR_UINT64)
DTYPE_CASE("half", WEIR_HALF)
DTYPE_CASE("float", WEIR_FLOAT)
DTYPE_CASE("double", WEIR_DOUBLE)
DTYPE_CASE("bfloat16", WEIR_BFLOAT16)
DTYPE_CASE("f8e4m3", WEIR_FP8_E4M3)
DTYPE_CASE("f8e5m2", WEIR_FP8_E5M2)

/* --------------------------------------------------------- injected faults */

static void corrupt_last(void *dst, const void *const *src, int nsrc, size_t count,
                         uint64_t divisor, int streaming)
{
    weiri_reduce(dst, src, nsrc, count, WEIR_HALF, WEIR_SUM, divisor, streaming);
    ((uint8_t *)dst)[2 * count - 2] ^= 1;
}

static void overrun_by_one(void *dst, const void *const *src, int nsrc, size_t count,
                           uint64_t divisor, int streaming)
{
    weiri_reduce(dst, src, nsrc, count, WEIR_HALF, WEIR_SUM, divisor, streaming);
    ((uint8_t *)dst)[2 * count] = 0;
}

static void drop_last_source(void *dst, const void *const *src, int nsrc, size_t count,
                             uint64_t divisor, int streaming)
{
    weiri_reduce(dst, src, nsrc - 1, count, WEIR_HALF, WEIR_SUM, divisor, streaming);
}

TEST(injected_faults_are_detected)
{
    random_state = 77;
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < MAX_COUNT; i++)
            put_bits(WEIR_HALF, data.source[k], i, 0x3c00 + random_bits() % 1024);
    fill_expected(WEIR_HALF, WEIR_SUM, 3, 1);
    weiri_reduce_fn sound = weiri_reduce_get(WEIR_HALF, WEIR_SUM);
    assert_true(check_shift(sound, WEIR_HALF, 3, 1, 1));
    assert_true(check_call(sound, WEIR_HALF, 3, 100, 1, 1, -1, 0));
    assert_false(check_call(corrupt_last, WEIR_HALF, 3, 100, 1, 1, -1, 0));
    assert_false(check_call(overrun_by_one, WEIR_HALF, 3, 100, 1, 1, -1, 0));
    assert_false(check_call(drop_last_source, WEIR_HALF, 3, 100, 1, 1, -1, 0));
}

/* ----------------------------------------------------- documented semantics */

/* Reduces the same element in every position of a long vector, and alone. */
static void check_everywhere(weir_dtype dtype, weir_op op, const uint64_t *values, int nsrc,
                             uint64_t divisor, uint64_t expected)
{
    enum { COUNT = 77 };
    uint8_t in[MAX_NSRC][COUNT * 8], out[COUNT * 8];
    const void *src[MAX_NSRC];
    for (int k = 0; k < nsrc; k++) {
        for (size_t i = 0; i < COUNT; i++)
            put_bits(dtype, in[k], i, values[k]);
        src[k] = in[k];
    }
    for (int i = 0; i < NISA; i++) {
        weiri_reduce_fn reduce = weiri_reduce_get_isa(isa_names[i], dtype, op);
        if (!reduce)
            continue;
        for (size_t count = 1; count <= COUNT; count += COUNT - 1) {
            reduce(out, src, nsrc, count, divisor, 0);
            for (size_t at = 0; at < count; at++)
                assert_int_equal(get_bits(dtype, out, at), expected);
        }
    }
}

#define VALUES(...) (const uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / 8

TEST(fp8_saturates_and_keeps_nan)
{
    check_everywhere(WEIR_FP8_E4M3, WEIR_SUM, VALUES(0x7e, 0x7e), 1, 0x7e);
    check_everywhere(WEIR_FP8_E4M3, WEIR_SUM, VALUES(0xfe, 0xfe), 1, 0xfe);
    check_everywhere(WEIR_FP8_E4M3, WEIR_SUM, VALUES(0x7e, 0x7e, 0xfe), 1, 0x7e);
    check_everywhere(WEIR_FP8_E4M3, WEIR_SUM, VALUES(0x38, 0xff), 1, 0x7f);
    check_everywhere(WEIR_FP8_E4M3, WEIR_SUM, VALUES(0x01, 0x01), 1, 0x02);
    check_everywhere(WEIR_FP8_E5M2, WEIR_SUM, VALUES(0x7b, 0x7b), 1, 0x7b);
    check_everywhere(WEIR_FP8_E5M2, WEIR_SUM, VALUES(0x7c, 0x3c), 1, 0x7b);
    check_everywhere(WEIR_FP8_E5M2, WEIR_SUM, VALUES(0x7c, 0xfc), 1, 0x7f);
    check_everywhere(WEIR_FP8_E5M2, WEIR_SUM, VALUES(0x01, 0x01), 1, 0x02);
}

TEST(small_floats_round_once)
{
    /* 2048 + 1 + 1: rounding each step would give 2048. */
    check_everywhere(WEIR_HALF, WEIR_SUM, VALUES(0x6800, 0x3c00, 0x3c00), 1, 0x6801);
    /* 65504 + 65504 - 65504 stays finite in float; 65504 + 65504 overflows at the end. */
    check_everywhere(WEIR_HALF, WEIR_SUM, VALUES(0x7bff, 0x7bff, 0xfbff), 1, 0x7bff);
    check_everywhere(WEIR_HALF, WEIR_SUM, VALUES(0x7bff, 0x7bff), 1, 0x7c00);
    /* 256 + 1 + 1 in bfloat16. */
    check_everywhere(WEIR_BFLOAT16, WEIR_SUM, VALUES(0x4380, 0x3f80, 0x3f80), 1, 0x4381);
    check_everywhere(WEIR_HALF, WEIR_AVG, VALUES(0x7bff, 0x7bff), 2, 0x7bff);
}

TEST(floats_are_combined_in_order)
{
    /* 2^25 + 1 - 2^25 is 0 from left to right, 1 in any other order. */
    check_everywhere(WEIR_FLOAT, WEIR_SUM, VALUES(0x4c000000, 0x3f800000, 0xcc000000), 1, 0);
    check_everywhere(WEIR_FLOAT, WEIR_SUM, VALUES(0x4c000000, 0xcc000000, 0x3f800000), 1,
                     0x3f800000);
    check_everywhere(WEIR_DOUBLE, WEIR_SUM,
                     VALUES(0x4360000000000000, 0x3ff0000000000000, 0xc360000000000000), 1, 0);
}

TEST(max_and_min_propagate_nan)
{
    for (int op = WEIR_MAX; op <= WEIR_MIN; op++) {
        check_everywhere(WEIR_FLOAT, (weir_op)op, VALUES(0x7fc00000, 0x3f800000), 1, 0x7fc00000);
        check_everywhere(WEIR_FLOAT, (weir_op)op, VALUES(0x3f800000, 0x7fc00000), 1, 0x7fc00000);
        check_everywhere(WEIR_FLOAT, (weir_op)op, VALUES(0x3f800000, 0x7fc00000, 0xff800000), 1,
                         0x7fc00000);
        check_everywhere(WEIR_HALF, (weir_op)op, VALUES(0x3c00, 0x7e00, 0xfc00), 1, 0x7e00);
        check_everywhere(WEIR_FP8_E4M3, (weir_op)op, VALUES(0x38, 0x7f, 0x7e), 1, 0x7f);
    }
}

TEST(integer_averages_truncate_like_the_model)
{
    check_everywhere(WEIR_INT32, WEIR_AVG, VALUES((uint32_t)-4, (uint32_t)-3), 2, (uint32_t)-3);
    check_everywhere(WEIR_INT8, WEIR_AVG, VALUES(100, 100), 2, 256 - 28);
    check_everywhere(WEIR_UINT8, WEIR_AVG, VALUES(200, 50), 4, 62);
    check_everywhere(WEIR_INT8, WEIR_AVG, VALUES(0x80), 1, 0x80);
    check_everywhere(WEIR_INT64, WEIR_AVG, VALUES(UINT64_C(1) << 63), 1, UINT64_C(1) << 63);
    for (int d = WEIR_INT8; d <= WEIR_UINT64; d++)
        check_everywhere((weir_dtype)d, WEIR_AVG, VALUES(0x55), UINT64_MAX, 0);
    random_state = 5;
    for (int i = 0; i < 20000; i++) {
        uint64_t value = random_bits() >> random_bits() % 64;
        uint64_t divisor = (random_bits() >> random_bits() % 64) | 1;
        for (int d = WEIR_INT8; d <= WEIR_UINT64; d++) {
            uint64_t quotient = 0;
            const void *src = &value;
            weiri_reduce(&quotient, &src, 1, 1, (weir_dtype)d, WEIR_AVG, divisor, 0);
            uint64_t expected = model_integer((weir_dtype)d, WEIR_AVG, &value, 1, divisor);
            assert_int_equal(extend((weir_dtype)d, quotient), extend((weir_dtype)d, expected));
        }
    }
}

/* Collectives reduce as many sources as there are ranks. */
TEST(thousands_of_sources_are_reduced)
{
    enum { SOURCES = WEIR_RANKS_MAX };
    static const void *src[SOURCES];
    static int32_t in[SOURCES][9], out[9];
    for (int k = 0; k < SOURCES; k++) {
        for (int i = 0; i < 9; i++)
            in[k][i] = k + i;
        src[k] = in[k];
    }
    weiri_reduce(out, src, SOURCES, 9, WEIR_INT32, WEIR_SUM, 1, 0);
    for (int i = 0; i < 9; i++)
        assert_int_equal(out[i], SOURCES * (SOURCES - 1) / 2 + SOURCES * i);
}

/* 2048 + 70, of which a half holds the sum, but not 2048 + 63 and the like. */
TEST(small_floats_of_many_sources_are_rounded_once)
{
    enum { SOURCES = 71 };
    const uint16_t first = 0x6800, one = 0x3c00;
    const void *src[SOURCES];
    uint16_t out = 0;
    for (int k = 0; k < SOURCES; k++)
        src[k] = k ? &one : &first;
    weiri_reduce(&out, src, SOURCES, 1, WEIR_HALF, WEIR_SUM, 1, 0);
    assert_int_equal(out, 0x6800 + 35);
}

TEST(lookup_covers_all_types_and_rejects_unknown_ones)
{
    assert_null(weiri_reduce_get(WEIR_DTYPE_COUNT, WEIR_SUM));
    assert_null(weiri_reduce_get(WEIR_FLOAT, WEIR_OP_COUNT));
    assert_null(weiri_reduce_get((weir_dtype)-1, WEIR_SUM));
    assert_null(weiri_reduce_get_isa("abacus", WEIR_FLOAT, WEIR_SUM));
    assert_non_null(weiri_reduce_get_isa("plain", WEIR_FLOAT, WEIR_SUM));
    assert_non_null(weiri_reduce_get_isa(weiri_reduce_isa(), WEIR_FLOAT, WEIR_SUM));
    for (int d = 0; d < WEIR_DTYPE_COUNT; d++)
        for (int op = 0; op < WEIR_OP_COUNT; op++)
            assert_non_null(weiri_reduce_get((weir_dtype)d, (weir_op)op));
}

/* ---------------------------------------- the caller's floating-point environment */

/* Sources of fill_sources have subnormal numbers, NaN, overflow, and sums that are rounded. */
static void check_environments(weiri_reduce_fn reduce, const char *isa, weir_dtype dtype,
                               weir_op op)
{
    const void *src[3] = {data.source[0], data.source[1], data.source[2]};
    static uint8_t out[MAX_BYTES];
    for (size_t count = 3; count <= MAX_COUNT; count += MAX_COUNT - 3)
        for (size_t i = 0; i < FLOAT_ENVIRONMENTS; i++) {
            const float_environment *environment = &float_environments[i];
            memset(out, GUARD, sizeof out);
            reduce(data.expected, src, 3, count, UINT64_C(0x1000003), 0);
            float_environment_enter(environment);
            reduce(out, src, 3, count, UINT64_C(0x1000003), count > 3);
            if (!float_environment_leave(environment))
                fail_msg("%s %s %s: %s is not kept", isa, weir_dtype_name(dtype), weir_op_name(op),
                         environment->name);
            if (!same_values(dtype, out, data.expected, count))
                fail_msg("%s %s %s: other results if %s", isa, weir_dtype_name(dtype),
                         weir_op_name(op), environment->name);
        }
}

TEST(results_do_not_depend_on_the_floating_point_environment)
{
    for (int dtype = 0; dtype < WEIR_DTYPE_COUNT; dtype++) {
        fill_sources((weir_dtype)dtype);
        for (int op = 0; op < WEIR_OP_COUNT; op++)
            for (int i = 0; i < NISA; i++) {
                weiri_reduce_fn reduce =
                    weiri_reduce_get_isa(isa_names[i], (weir_dtype)dtype, (weir_op)op);
                if (reduce)
                    check_environments(reduce, isa_names[i], (weir_dtype)dtype, (weir_op)op);
            }
    }
}

int main(void)
{
    for (int i = 0; i < NISA; i++)
        if (!weiri_reduce_get_isa(isa_names[i], WEIR_FLOAT, WEIR_SUM))
            print_message("# not checked, because this processor lacks it: %s\n", isa_names[i]);
    return run_all_tests("reduce");
}
