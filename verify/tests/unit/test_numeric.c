/*
 * Conversions of 8-bit and 16-bit floats: every code, every rounding decision, and the vector code
 * of each instruction set against the scalar code.
 */
#include "compute/numeric.h"
#include "compute/reduce.h"
#include "verify/tests/support/reduce_model.h"
#include "verify/tests/support/unit_test.h"

static float scalar_decode(weir_dtype dtype, unsigned code)
{
    switch (dtype) {
    case WEIR_HALF:
        return weiri_half_to_float((uint16_t)code);
    case WEIR_BFLOAT16:
        return weiri_bf16_to_float((uint16_t)code);
    case WEIR_FP8_E5M2:
        return weiri_fp8e5m2_to_float((uint8_t)code);
    default:
        return weiri_fp8e4m3_to_float((uint8_t)code);
    }
}

static unsigned scalar_encode(weir_dtype dtype, float value)
{
    switch (dtype) {
    case WEIR_HALF:
        return weiri_half_from_float(value);
    case WEIR_BFLOAT16:
        return weiri_bf16_from_float(value);
    case WEIR_FP8_E5M2:
        return weiri_fp8e5m2_from_float(value);
    default:
        return weiri_fp8e4m3_from_float(value);
    }
}

static const weir_dtype small_dtypes[] = {WEIR_HALF, WEIR_BFLOAT16, WEIR_FP8_E4M3, WEIR_FP8_E5M2};
enum { NSMALL = sizeof small_dtypes / sizeof small_dtypes[0] };

static unsigned ncodes(weir_dtype dtype)
{
    return 1u << 8 * weir_dtype_bytes(dtype);
}

TEST(every_code_decodes_and_encodes_to_itself)
{
    for (int d = 0; d < NSMALL; d++) {
        weir_dtype dtype = small_dtypes[d];
        format f = {0};
        assert_true(format_of(dtype, &f));
        for (unsigned code = 0; code < ncodes(dtype); code++) {
            double value = model_decode(f, code);
            float decoded = scalar_decode(dtype, code);
            unsigned back = scalar_encode(dtype, decoded);
            if (isnan(value)) {
                assert_true(isnan(decoded) && is_nan_bits(dtype, back));
                continue;
            }
            assert_true((double)decoded == value && !signbit(decoded) == !signbit(value));
            /* Infinity of e5m2 saturates; every other value comes back. */
            unsigned expected = f.saturates && isinf(value) ? code - 1 : code;
            assert_int_equal(back, expected);
        }
    }
}

/* Values at, just below and just above the midpoint of neighbouring numbers, with both signs, up to
 * beyond the largest number. */
TEST(encoding_rounds_like_the_model_at_every_midpoint)
{
    for (int d = 0; d < NSMALL; d++) {
        weir_dtype dtype = small_dtypes[d];
        format f = {0};
        assert_true(format_of(dtype, &f));
        for (unsigned code = 0; isfinite(model_decode(f, code)); code++) {
            double low = model_decode(f, code), high = model_decode(f, code + 1);
            if (!isfinite(high))
                high = low + ldexp(1, ilogb(low) - f.mantissa_bits);
            float middle = (float)((low + high) / 2);
            float near[] = {middle, nextafterf(middle, 0), nextafterf(middle, INFINITY)};
            for (int i = 0; i < 3; i++) {
                assert_int_equal(scalar_encode(dtype, near[i]), model_encode(f, (double)near[i]));
                assert_int_equal(scalar_encode(dtype, -near[i]), model_encode(f, -(double)near[i]));
            }
        }
    }
}

TEST(floats_of_every_magnitude_convert_like_the_model)
{
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 65519) {
        float value = weiri_float_from_bits((uint32_t)bits);
        for (int d = 0; d < NSMALL; d++) {
            format f = {0};
            assert_true(format_of(small_dtypes[d], &f));
            unsigned code = scalar_encode(small_dtypes[d], value);
            if (isnan(value))
                assert_true(is_nan_bits(small_dtypes[d], code));
            else
                assert_int_equal(code, model_encode(f, (double)value));
        }
    }
}

/* A reduction of one source decodes and encodes: the vector code of each instruction set must give
 * the bits of the scalar code for all codes, NaN included. */
TEST(vector_conversions_equal_the_scalar_ones)
{
    static uint16_t in[65536], out[65536];
    for (int d = 0; d < NSMALL; d++)
        for (int i = 0; i < NISA; i++) {
            weir_dtype dtype = small_dtypes[d];
            weiri_reduce_fn reduce = weiri_reduce_get_isa(isa_names[i], dtype, WEIR_SUM);
            if (!reduce)
                continue;
            const void *src = in;
            for (unsigned code = 0; code < ncodes(dtype); code++)
                put_bits(dtype, (uint8_t *)in, code, code);
            reduce(out, &src, 1, ncodes(dtype), 1, 0);
            for (unsigned code = 0; code < ncodes(dtype); code++)
                assert_int_equal(get_bits(dtype, (const uint8_t *)out, code),
                                 scalar_encode(dtype, scalar_decode(dtype, code)));
        }
}

/* Every pair of fp8 values under every operation. */
TEST(every_pair_of_fp8_values_reduces_like_the_model)
{
    static uint8_t a[65536], b[65536], got[65536], expected[65536];
    for (unsigned i = 0; i < 65536; i++) {
        a[i] = (uint8_t)(i >> 8);
        b[i] = (uint8_t)i;
    }
    const void *src[] = {a, b};
    for (int d = 0; d < NSMALL; d++)
        for (int op = 0; op < WEIR_OP_COUNT && weir_dtype_bytes(small_dtypes[d]) == 1; op++) {
            for (unsigned i = 0; i < 65536; i++) {
                uint64_t values[] = {a[i], b[i]};
                expected[i] = (uint8_t)model_element(small_dtypes[d], (weir_op)op, values, 2, 3);
            }
            for (int i = 0; i < NISA; i++) {
                weiri_reduce_fn reduce =
                    weiri_reduce_get_isa(isa_names[i], small_dtypes[d], (weir_op)op);
                if (!reduce)
                    continue;
                reduce(got, src, 2, 65536, 3, 0);
                assert_true(same_values(small_dtypes[d], got, expected, 65536));
            }
        }
}

int main(void)
{
    return run_all_tests("numeric");
}
