/*
 * Comparison of results with a reference: see compare.h. Loops that vectorise compare a block first
 * and only count; a block with a wrong element is then searched for the first one.
 */
#include "verify/compare.h"

#include "verify/number.h"

#include <fenv.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VALUES_STRIP = 512, LANES = 8, BITS_STRIP_BYTES = 4096 };

static int is_signed(weir_dtype dtype)
{
    return dtype == WEIR_INT8 || dtype == WEIR_INT32 || dtype == WEIR_INT64;
}

/* The element's bits, extended to 64 bits by zeros or by the sign. */
static uint64_t element_bits(weir_dtype dtype, const void *element, int extend_sign)
{
    size_t width = weir_dtype_bytes(dtype);
    uint8_t one;
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (width) {
    case 1:
        memcpy(&one, element, 1);
        return extend_sign ? (uint64_t)(int8_t)one : one;
    case 2:
        memcpy(&two, element, 2);
        return two;
    case 4:
        memcpy(&four, element, 4);
        return extend_sign ? (uint64_t)(int32_t)four : four;
    default:
        memcpy(&eight, element, 8);
        return eight;
    }
}

static void print_value(weir_dtype dtype, double value, char *text, size_t bytes)
{
    snprintf(text, bytes, dtype == WEIR_DOUBLE ? "%.17g" : "%.9g", value);
}

void weirv_print_element(weir_dtype dtype, const void *element, char *text, size_t bytes)
{
    uint64_t bits = element_bits(dtype, element, is_signed(dtype));
    if (is_signed(dtype)) {
        snprintf(text, bytes, "%" PRId64, (int64_t)bits);
        return;
    }
    if (!weirv_format_of(dtype)) {
        snprintf(text, bytes, "%" PRIu64, bits);
        return;
    }
    double value;
    fenv_t environment; /* another library may have set the processor to flush subnormal numbers */
    fegetenv(&environment);
    fesetenv(FE_DFL_ENV);
    weirv_decode(dtype, element, 1, &value);
    uint64_t ones = UINT64_MAX >> (64 - 8 * weir_dtype_bytes(dtype));
    if (isnan(value))
        snprintf(text, bytes, "nan (0x%" PRIx64 "%s)", bits, bits == ones ? ", unwritten" : "");
    else
        print_value(dtype, value, text, bytes);
    fesetenv(&environment);
}

/* Records the first mismatch. Returns where its expected text goes, or NULL if an earlier mismatch
 * is recorded. */
static char *note_first(weir_dtype dtype, int rank, size_t index, const void *got,
                        weirv_result *result)
{
    if (result->has_first)
        return NULL;
    result->has_first = 1;
    result->first.rank = rank;
    result->first.index = index;
    weirv_print_element(dtype, got, result->first.got, sizeof result->first.got);
    return result->first.expected;
}

static double relative_steps(double unit, int steps)
{
    return expm1(steps * log1p(unit));
}

static double gamma_of(int terms, double unit)
{
    return terms * unit / (1 - terms * unit);
}

/*
 * With eps the accumulator's roundoff (float for types up to 32 bits) and u the
 * storage type's:
 *
 *   accumulating n values   (n - 1) roundings: gamma(n - 1) A. avg adds two,
 *                           for a reciprocal and a product.
 *   reference               itself a sum in double: gamma(n) of 2^-53
 *   storing between steps   8- and 16-bit types, steps - 1 times:
 *                           ((1 + u)^(steps - 1) - 1) A
 *   the last rounding       u |computed| <= u (|s| + the above)
 *   subnormal results       an absolute error of the tiniest number a step
 *
 * prod: every rounding is relative to the result.
 */
weirv_bound weirv_bound_make(weir_dtype dtype, weir_op op, int nranks, int steps)
{
    const weirv_format *format = weirv_format_of(dtype);
    if (!format || op == WEIR_MAX || op == WEIR_MIN)
        return (weirv_bound){0, 0, 0};
    double unit = weirv_format_roundoff(format);
    double accumulator = dtype == WEIR_DOUBLE ? 0x1p-53 : 0x1p-24;
    if (steps < 1)
        steps = 1;
    int stores = weir_dtype_bytes(dtype) <= 2 ? steps : 1;
    double floor = stores * weirv_format_tiniest(format);
    double stored = relative_steps(unit, stores - 1);
    if (op == WEIR_PROD) {
        double computed = relative_steps(accumulator, nranks - 1) + gamma_of(nranks, 0x1p-53);
        double before_last = computed + stored + computed * stored;
        return (weirv_bound){0, before_last + unit + before_last * unit, floor};
    }
    int terms = nranks - 1 + (op == WEIR_AVG ? 2 : 0);
    double computed = gamma_of(terms, accumulator) + gamma_of(nranks, 0x1p-53);
    double before_last = computed + stored + computed * stored;
    return (weirv_bound){before_last * (1 + unit), unit, floor};
}

/* Writes the error of each element divided by its bound. Computes the worst one per vector lane,
 * and counts those above 1 or NaN. */
static uint64_t judge_errors(size_t count, const double *got, const double *values,
                             const double *magnitudes, weirv_bound bound, double worst[LANES])
{
    uint64_t wrong = 0;
    for (size_t i = 0; i < count; i += LANES) {
        for (size_t lane = 0; lane < LANES; lane++) {
            double value = values[i + lane];
            double allowed =
                bound.spread * magnitudes[i + lane] + bound.relative * fabs(value) + bound.floor;
            double ratio = fabs(got[i + lane] - value) / allowed;
            worst[lane] = ratio > worst[lane] ? ratio : worst[lane];
            wrong += !(ratio <= 1);
        }
    }
    return wrong;
}

static uint64_t count_unequal(size_t count, const double *got, const double *values)
{
    uint64_t unequal = 0;
    for (size_t i = 0; i < count; i++)
        unequal += !(got[i] == values[i]);
    return unequal;
}

static int is_wrong(double got, double value, double magnitude, weirv_bound bound)
{
    double allowed = bound.spread * magnitude + bound.relative * fabs(value) + bound.floor;
    return !(fabs(got - value) <= allowed);
}

/* Searches a strip that contains a wrong element: records the first one, and NaN as an infinite
 * error. */
static void search_strip(weir_dtype dtype, int rank, size_t first_index, size_t count,
                         const uint8_t *out, const double *got, const double *values,
                         const double *magnitudes, weirv_bound bound, weirv_result *result)
{
    for (size_t i = 0; i < count; i++) {
        if (!is_wrong(got[i], values[i], magnitudes[i], bound))
            continue;
        if (!(fabs(got[i]) < INFINITY) || bound.floor == 0)
            result->worst_error = INFINITY;
        char *expected =
            note_first(dtype, rank, first_index + i, out + i * weir_dtype_bytes(dtype), result);
        if (expected)
            print_value(dtype, values[i], expected, sizeof result->first.expected);
    }
}

/* Compares one strip, padded with zeros to a multiple of the vector lanes. */
static void compare_strip(weir_dtype dtype, int rank, size_t first_index, size_t count,
                          const uint8_t *out, const double *values, const double *magnitudes,
                          weirv_bound bound, weirv_result *result)
{
    double got[VALUES_STRIP], wanted[VALUES_STRIP], sizes[VALUES_STRIP], worst[LANES] = {0};
    size_t padded = (count + LANES - 1) / LANES * LANES;
    weirv_decode(dtype, out, count, got);
    memcpy(wanted, values, count * sizeof *wanted);
    if (magnitudes)
        memcpy(sizes, magnitudes, count * sizeof *sizes);
    else
        memset(sizes, 0, count * sizeof *sizes);
    for (size_t i = count; i < padded; i++)
        got[i] = wanted[i] = sizes[i] = 0;
    uint64_t wrong = bound.floor > 0 ? judge_errors(padded, got, wanted, sizes, bound, worst)
                                     : count_unequal(padded, got, wanted);
    for (int lane = 0; lane < LANES; lane++)
        if (worst[lane] > result->worst_error)
            result->worst_error = worst[lane];
    result->wrong += wrong;
    if (wrong)
        search_strip(dtype, rank, first_index, count, out, got, wanted, sizes, bound, result);
}

void weirv_compare_values(weir_dtype dtype, int rank, size_t first_index, size_t count,
                          const void *out, const double *values, const double *magnitudes,
                          weirv_bound bound, weirv_result *result)
{
    size_t width = weir_dtype_bytes(dtype);
    for (size_t done = 0; done < count; done += VALUES_STRIP) {
        size_t part = count - done < VALUES_STRIP ? count - done : VALUES_STRIP;
        compare_strip(dtype, rank, first_index + done, part, (const uint8_t *)out + done * width,
                      values + done, magnitudes ? magnitudes + done : NULL, bound, result);
    }
}

void weirv_compare_bits(weir_dtype dtype, int rank, size_t first_index, size_t count,
                        const void *out, const void *expected, weirv_result *result)
{
    size_t width = weir_dtype_bytes(dtype), bytes = count * width;
    for (size_t strip = 0; strip < bytes; strip += BITS_STRIP_BYTES) {
        size_t part = bytes - strip < BITS_STRIP_BYTES ? bytes - strip : BITS_STRIP_BYTES;
        const uint8_t *seen = (const uint8_t *)out + strip;
        const uint8_t *wanted = (const uint8_t *)expected + strip;
        if (memcmp(seen, wanted, part) == 0)
            continue;
        for (size_t at = 0; at < part; at += width) {
            if (memcmp(seen + at, wanted + at, width) == 0)
                continue;
            result->wrong++;
            char *text =
                note_first(dtype, rank, first_index + (strip + at) / width, seen + at, result);
            if (text)
                weirv_print_element(dtype, wanted + at, text, sizeof result->first.expected);
        }
    }
}

void weirv_compare_poison(weir_dtype dtype, int rank, size_t first_index, size_t count,
                          const void *out, weirv_result *result)
{
    uint8_t poison[BITS_STRIP_BYTES];
    memset(poison, 0xff, sizeof poison);
    size_t width = weir_dtype_bytes(dtype), strip = BITS_STRIP_BYTES / width;
    for (size_t done = 0; done < count; done += strip) {
        size_t part = count - done < strip ? count - done : strip;
        int had_first = result->has_first;
        weirv_compare_bits(dtype, rank, first_index + done, part,
                           (const uint8_t *)out + done * width, poison, result);
        if (!had_first && result->has_first)
            snprintf(result->first.expected, sizeof result->first.expected, "nothing written");
    }
}

void weirv_describe(const weirv_result *result, char *text, size_t bytes)
{
    char data[200] = "", overruns[80] = "", inputs[80] = "";
    if (result->wrong && result->has_first)
        snprintf(data, sizeof data,
                 "rank %d, element %zu: got %s, expected %s (%" PRIu64 " wrong element%s in all)",
                 result->first.rank, result->first.index, result->first.got, result->first.expected,
                 result->wrong, result->wrong == 1 ? "" : "s");
    if (result->overruns)
        snprintf(overruns, sizeof overruns, "%s%" PRIu64 " byte%s written outside the buffers",
                 data[0] ? "; " : "", result->overruns, result->overruns == 1 ? "" : "s");
    if (result->inputs_changed)
        snprintf(inputs, sizeof inputs, "%s%" PRIu64 " input element%s changed",
                 data[0] || overruns[0] ? "; " : "", result->inputs_changed,
                 result->inputs_changed == 1 ? "" : "s");
    if (data[0] || overruns[0] || inputs[0])
        snprintf(text, bytes, "%s%s%s", data, overruns, inputs);
    else
        snprintf(text, bytes, "no error");
}
