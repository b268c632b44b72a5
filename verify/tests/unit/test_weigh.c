/*
 * Weighted sums of rows and rows as f8e4m3 with scales: every instruction set gives the bits of a
 * scalar model, for all types, counts and numbers of rows, and writes nothing after the row.
 */
#include "compute/numeric.h"
#include "compute/weigh.h"
#include "verify/tests/support/float_environments.h"
#include "verify/tests/support/unit_test.h"

#include <math.h>

enum { MOST = 300, ROWS = 5, GUARD = 0x5A };

static const char *const isas[] = {"plain", "avx2", "avx512"};
static const weir_dtype dtypes[] = {WEIR_FLOAT, WEIR_HALF, WEIR_BFLOAT16};

static uint32_t random_bits(void)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

static float load(weir_dtype dtype, const uint8_t *row, size_t i)
{
    float value;
    uint16_t small;
    if (dtype == WEIR_FLOAT) {
        memcpy(&value, row + i * 4, 4);
        return value;
    }
    memcpy(&small, row + i * 2, 2);
    return dtype == WEIR_HALF ? weiri_half_to_float(small) : weiri_bf16_to_float(small);
}

static void store(weir_dtype dtype, uint8_t *row, size_t i, float value)
{
    const uint16_t small =
        dtype == WEIR_HALF ? weiri_half_from_float(value) : weiri_bf16_from_float(value);
    if (dtype == WEIR_FLOAT)
        memcpy(row + i * 4, &value, 4);
    else
        memcpy(row + i * 2, &small, 2);
}

/* Finite numbers of all magnitudes that the type has, and zeros. */
static void fill(weir_dtype dtype, uint8_t *row)
{
    for (size_t i = 0; i < MOST; i++) {
        const float sign = random_bits() & 1 ? -1.0f : 1.0f;
        const float mantissa = 1.0f + (float)(random_bits() >> 9) * 0x1p-23f;
        const int exponent = (int)(random_bits() % 24) - 18;
        store(dtype, row, i, random_bits() % 16 ? sign * ldexpf(mantissa, exponent) : 0.0f * sign);
    }
}

/* volatile: each product is rounded. */
static float model_sum(weir_dtype dtype, uint8_t rows[ROWS][MOST * 4], const float *weights,
                       int count, size_t i)
{
    volatile float total = load(dtype, rows[0], i), product;
    if (weights)
        total = total * weights[0];
    for (int k = 1; k < count; k++) {
        product = load(dtype, rows[k], i);
        if (weights)
            product = product * weights[k];
        total = total + product;
    }
    return total;
}

static void check_sums(const weiri_weigh *weigh, uint8_t rows[ROWS][MOST * 4], size_t count)
{
    static const float all_weights[ROWS] = {0.3f, -1.7f, 0.0f, 1e-3f, 41.0f};
    const size_t bytes = weir_dtype_bytes(weigh->dtype);
    const void *sources[ROWS];
    uint8_t out[MOST * 4 + 16], expected[MOST * 4];
    for (int k = 0; k < ROWS; k++)
        sources[k] = rows[k];
    for (int n = 1; n <= ROWS; n++)
        for (int weighted = 0; weighted < 2; weighted++) {
            const float *weights = weighted ? all_weights : NULL;
            memset(out, GUARD, sizeof out);
            weigh->sum(out, sources, weights, n, count);
            for (size_t i = 0; i < count; i++)
                store(weigh->dtype, expected, i, model_sum(weigh->dtype, rows, weights, n, i));
            assert_memory_equal(out, expected, count * bytes);
            for (size_t i = count * bytes; i < sizeof out; i++)
                assert_int_equal(out[i], GUARD);
        }
}

static void check_fp8(const weiri_weigh *weigh, const uint8_t *row, size_t count)
{
    uint8_t out[MOST + 16];
    float scales[MOST / WEIRI_SCALE_BLOCK + 2];
    memset(out, GUARD, sizeof out);
    weigh->to_fp8(out, scales, row, count);
    for (size_t from = 0; from < count; from += WEIRI_SCALE_BLOCK) {
        const size_t end = from + WEIRI_SCALE_BLOCK < count ? from + WEIRI_SCALE_BLOCK : count;
        float largest = 0x1p-100f;
        for (size_t i = from; i < end; i++)
            largest = fmaxf(largest, fabsf(load(weigh->dtype, row, i)));
        assert_true(scales[from / WEIRI_SCALE_BLOCK] == largest / 448.0f);
        for (size_t i = from; i < end; i++) {
            const volatile float product = load(weigh->dtype, row, i) * (448.0f / largest);
            assert_int_equal(out[i], weiri_fp8e4m3_from_float(product));
        }
    }
    for (size_t i = count; i < sizeof out; i++)
        assert_int_equal(out[i], GUARD);
}

TEST(all_instruction_sets_equal_the_model)
{
    static uint8_t rows[ROWS][MOST * 4];
    for (size_t set = 0; set < sizeof isas / sizeof *isas; set++)
        for (size_t type = 0; type < sizeof dtypes / sizeof *dtypes; type++) {
            const weiri_weigh *weigh = weiri_weigh_get_isa(isas[set], dtypes[type]);
            if (!weigh)
                continue; /* the processor lacks it */
            for (int k = 0; k < ROWS; k++)
                fill(dtypes[type], rows[k]);
            for (size_t count = 1; count <= MOST; count += count < 70 ? 1 : 23) {
                check_sums(weigh, rows, count);
                check_fp8(weigh, rows[0], count);
            }
        }
    assert_non_null(weiri_weigh_get_isa("plain", WEIR_FLOAT));
}

/* Rows with subnormal numbers, products that are rounded, underflow and overflow. */
static void check_environment(const weiri_weigh *weigh, const float_environment *environment,
                              uint8_t rows[ROWS][MOST * 4], size_t count)
{
    static const float weights[ROWS] = {0.3f, -1.7f, 1e-41f, 1e-3f, 3e38f};
    const size_t bytes = count * weir_dtype_bytes(weigh->dtype);
    const void *sources[ROWS];
    uint8_t expected[MOST * 4], out[MOST * 4], expected_fp8[MOST], fp8[MOST];
    float expected_scales[MOST], scales[MOST];
    for (int k = 0; k < ROWS; k++)
        sources[k] = rows[k];
    for (int weighted = 0; weighted < 2; weighted++) {
        weigh->sum(expected, sources, weighted ? weights : NULL, ROWS, count);
        float_environment_enter(environment);
        weigh->sum(out, sources, weighted ? weights : NULL, ROWS, count);
        assert_true(float_environment_leave(environment));
        assert_memory_equal(out, expected, bytes);
    }
    weigh->to_fp8(expected_fp8, expected_scales, rows[0], count);
    float_environment_enter(environment);
    weigh->to_fp8(fp8, scales, rows[0], count);
    assert_true(float_environment_leave(environment));
    assert_memory_equal(fp8, expected_fp8, count);
    assert_memory_equal(scales, expected_scales,
                        (count + WEIRI_SCALE_BLOCK - 1) / WEIRI_SCALE_BLOCK * sizeof *scales);
}

TEST(results_do_not_depend_on_the_floating_point_environment)
{
    static uint8_t rows[ROWS][MOST * 4];
    for (size_t set = 0; set < sizeof isas / sizeof *isas; set++)
        for (size_t type = 0; type < sizeof dtypes / sizeof *dtypes; type++) {
            const weiri_weigh *weigh = weiri_weigh_get_isa(isas[set], dtypes[type]);
            if (!weigh)
                continue; /* the processor lacks it */
            for (int k = 0; k < ROWS; k++) {
                fill(dtypes[type], rows[k]);
                for (size_t i = 0; i < MOST; i += 7)
                    store(dtypes[type], rows[k], i, ldexpf(1.0f + (float)i, -148));
            }
            for (size_t i = 0; i < FLOAT_ENVIRONMENTS; i++) {
                check_environment(weigh, &float_environments[i], rows, 5);
                check_environment(weigh, &float_environments[i], rows, MOST);
            }
        }
}

TEST(nan_and_infinity)
{
    float row[WEIRI_SCALE_BLOCK] = {0}, out[WEIRI_SCALE_BLOCK], scale;
    uint8_t fp8[WEIRI_SCALE_BLOCK];
    const void *source = row;
    const float weight = 2.0f;
    const weiri_weigh *weigh = weiri_weigh_get(WEIR_FLOAT);
    row[1] = NAN;
    row[2] = 3.0f;
    weigh->sum(out, &source, &weight, 1, WEIRI_SCALE_BLOCK);
    assert_true(isnan(out[1]) && out[2] == 6.0f && out[0] == 0.0f);
    weigh->to_fp8(fp8, &scale, row, WEIRI_SCALE_BLOCK); /* NaN does not change the scale */
    assert_true(scale == 3.0f / 448.0f && fp8[1] == 0x7f && fp8[2] == 0x7e && fp8[0] == 0);
    row[3] = INFINITY;
    weigh->sum(out, &source, &weight, 1, WEIRI_SCALE_BLOCK);
    assert_true(isinf(out[3]));
    weigh->to_fp8(fp8, &scale, row, WEIRI_SCALE_BLOCK);
    assert_true(isinf(scale) && isnan(weiri_fp8e4m3_to_float(fp8[3]) * scale));
}

int main(void)
{
    return run_all_tests("weigh");
}
