/*
 * Proves weir_allreduce_quantized on the host: every element is within the bound that
 * weir/quantized.h states of a sum in double, for all types, formats and operations, 2 to 5 ranks,
 * lengths that end within a group, several chunks, any alignment, in place; all ranks get the same
 * bits, which do not depend on what follows an element's group. NaN and infinities pass. A wrong
 * element and a wrong scale are found. Wrong arguments are refused.
 */
#include "verify/tests/support/comm_ranks.h"
#include "verify/tests/support/unit_test.h"

#include "compute/norm.h"
#include <weir/quantized.h>

#include <stdlib.h>
#include <string.h>

enum { MOST = 150001, GROUP = WEIR_QUANTIZED_GROUP };

/* Numbers whose magnitudes differ from element to element, and by a factor of 1000 from group to
 * group. */
static float value_at(int rank, size_t i)
{
    const uint32_t hash = ((uint32_t)i * 2654435761u) ^ ((uint32_t)(rank + 1) * 2246822519u);
    const float size = i / GROUP % 3 ? 1.0f : 1000.0f;
    return ((float)(hash >> 8) / 8388608.0f - 1.0f) * size;
}

static float largest_in_group(int rank, size_t i, size_t count)
{
    float most = 0;
    for (size_t k = i / GROUP * GROUP; k < count && k < i / GROUP * GROUP + GROUP; k++)
        most = fmaxf(most, fabsf(value_at(rank, k)));
    return most;
}

static double quantum(weir_quantization format, double x, double most)
{
    return format == WEIR_QUANTIZED_FP8 ? fabs(x) / 16 + most / 416 / 1024 : most / 126 / 2;
}

typedef struct expectation {
    double value, slack;
} expectation;

static double rounding(weir_dtype dtype, double x)
{
    return fabs(x) * (dtype == WEIR_FLOAT ? 0x1p-24 : dtype == WEIR_HALF ? 0x1p-11 : 0x1p-8);
}

/* What a group's elements must be close to. Contributions are rounded to the type first. */
static void expect_group(weir_dtype dtype, weir_op op, weir_quantization format, int nranks,
                         size_t at, size_t count, expectation found[GROUP])
{
    const size_t end = at + GROUP < count ? at + GROUP : count;
    double most = 0;
    memset(found, 0, GROUP * sizeof *found);
    for (int rank = 0; rank < nranks; rank++) {
        const double largest = 1.01 * (double)largest_in_group(rank, at, count);
        for (size_t i = at; i < end; i++) {
            char stored[4];
            float x = value_at(rank, i);
            weiri_norm_host_round(dtype, &x, 1, stored);
            weiri_norm_host_load(dtype, stored, 1, &x);
            found[i - at].value += (double)x;
            found[i - at].slack += quantum(format, (double)x, largest);
        }
    }
    for (size_t i = 0; i < end - at; i++) {
        if (op == WEIR_AVG)
            found[i] = (expectation){found[i].value / nranks, found[i].slack / nranks};
        most = fmax(most, fabs(found[i].value) + found[i].slack);
    }
    for (size_t i = 0; i < end - at; i++) {
        if (nranks > 2)
            found[i].slack += quantum(format, fabs(found[i].value) + found[i].slack, most);
        found[i].slack += rounding(dtype, fabs(found[i].value) + found[i].slack);
        found[i].slack *= 1 + 0x1p-18;
    }
}

static int wrong_in(weir_dtype dtype, weir_op op, weir_quantization format, int nranks,
                    const char *out, size_t count)
{
    int wrong = 0;
    for (size_t at = 0; at < count; at += GROUP) {
        expectation expected[GROUP];
        expect_group(dtype, op, format, nranks, at, count, expected);
        for (size_t i = at; i < count && i < at + GROUP; i++) {
            float got;
            weiri_norm_host_load(dtype, out + i * weir_dtype_bytes(dtype), 1, &got);
            wrong += !(fabs((double)got - expected[i - at].value) <= expected[i - at].slack);
        }
    }
    return wrong;
}

/* Whether all ranks have the same bytes. */
static int agrees(weir_comm *comm, const char *bytes, size_t count, int *failures)
{
    char *root = malloc(count ? count : 1);
    memcpy(root, bytes, count);
    EXPECT_OK(failures, weir_broadcast(comm, root, root, count, WEIR_UINT8, 0, NULL));
    const int same = !memcmp(root, bytes, count);
    free(root);
    return same;
}

static void fill(weir_dtype dtype, int rank, char *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const float x = value_at(rank, i);
        weiri_norm_host_round(dtype, &x, 1, to + i * weir_dtype_bytes(dtype));
    }
}

/* A call; `shift` elements after an aligned address. Returns how many elements are wrong. */
static int call(weir_comm *comm, weir_dtype dtype, weir_op op, weir_quantization format,
                size_t count, size_t shift, int in_place, char **kept, int *failures)
{
    const size_t element = weir_dtype_bytes(dtype), bytes = (count + shift) * element;
    char *in = calloc(1, bytes + 1), *out = calloc(1, bytes + 64), *from = in + shift * element;
    char *to = in_place ? from : out + shift * element;
    fill(dtype, weir_comm_rank(comm), from, count);
    memset(out + bytes, 0x5a, 64);
    EXPECT_OK(failures, weir_allreduce_quantized(comm, from, to, count, dtype, op, format, NULL));
    const int wrong = wrong_in(dtype, op, format, weir_comm_nranks(comm), to, count);
    EXPECT(failures, agrees(comm, to, count * element, failures));
    for (int i = 0; i < 64; i++)
        EXPECT(failures, out[bytes + (size_t)i] == 0x5a);
    if (kept) {
        *kept = malloc(count * element);
        memcpy(*kept, to, count * element);
    }
    free(in);
    free(out);
    return wrong;
}

static void variants_body(weir_comm *comm, int *failures)
{
    static const weir_dtype dtypes[] = {WEIR_BFLOAT16, WEIR_HALF, WEIR_FLOAT};
    static const size_t counts[] = {1, 127, 128, 1000, 5000};
    for (int i = 0; i < 3 * WEIR_QUANTIZATIONS * 2 * 5; i++) {
        const weir_op op = i / 6 % 2 ? WEIR_AVG : WEIR_SUM;
        EXPECT(failures, call(comm, dtypes[i % 3], op, (weir_quantization)(i / 3 % 2),
                              counts[i / 12], (size_t)i % 4, i % 5 == 0, NULL, failures) == 0);
    }
}

/* Several chunks; the same elements have the same bits in shorter calls. */
static void long_body(weir_comm *comm, int *failures)
{
    char *all = NULL, *some = NULL;
    for (int format = 0; format < WEIR_QUANTIZATIONS; format++) {
        EXPECT(failures, call(comm, WEIR_BFLOAT16, WEIR_SUM, (weir_quantization)format, MOST, 0, 0,
                              &all, failures) == 0);
        EXPECT(failures, call(comm, WEIR_BFLOAT16, WEIR_SUM, (weir_quantization)format, 70 * GROUP,
                              1, 1, &some, failures) == 0);
        EXPECT(failures, !memcmp(all, some, (size_t)(70 * GROUP) * 2));
        free(all);
        free(some);
    }
}

/* Elements that are not finite, zeros, and groups of tiny numbers. */
static void special_body(weir_comm *comm, int *failures)
{
    const float nan = weiri_float_from_bits(0x7fc00000), inf = weiri_float_from_bits(0x7f800000);
    for (int format = 0; format < WEIR_QUANTIZATIONS; format++) {
        float x[3 * GROUP] = {0}, out[3 * GROUP];
        const int last = weir_comm_rank(comm) == weir_comm_nranks(comm) - 1;
        x[0] = last ? nan : 1;
        x[1] = last ? inf : -1;
        x[2] = last ? -inf : 2;
        x[3] = last ? -inf : inf;
        x[4] = 8;
        for (int i = GROUP; i < 2 * GROUP; i++)
            x[i] = 0x1p-110f;
        EXPECT_OK(failures, weir_allreduce_quantized(comm, x, out, 3 * GROUP, WEIR_FLOAT, WEIR_SUM,
                                                     (weir_quantization)format, NULL));
        EXPECT(failures, out[0] != out[0] && out[1] == inf && out[2] == -inf && out[3] != out[3]);
        EXPECT(failures, fabsf(out[4] - 8.0f * (float)weir_comm_nranks(comm)) < 4);
        for (int i = 5; i < 3 * GROUP; i++)
            EXPECT(failures, out[i] == 0);
    }
}

/* The comparison of these tests is not blind. */
static void faults_body(weir_comm *comm, int *failures)
{
    for (int format = 0; format < WEIR_QUANTIZATIONS; format++) {
        char *out = NULL;
        const int nranks = weir_comm_nranks(comm);
        call(comm, WEIR_FLOAT, WEIR_SUM, (weir_quantization)format, 1000, 0, 0, &out, failures);
        float *x = (float *)out;
        x[500] += format == WEIR_QUANTIZED_FP8 ? fabsf(x[500]) / 2 + 50 : 60;
        EXPECT(failures,
               wrong_in(WEIR_FLOAT, WEIR_SUM, (weir_quantization)format, nranks, out, 1000) == 1);
        for (int i = GROUP; i < 2 * GROUP; i++)
            x[i] *= 2;
        EXPECT(failures,
               wrong_in(WEIR_FLOAT, WEIR_SUM, (weir_quantization)format, nranks, out, 1000) > 64);
        free(out);
    }
}

/* Normal data: the root mean square error stays below 3% of that of the sums if data are quantised
 * once, below 4.5% if twice; for int8, below 0.8%
 * and 1.2%. */
static void normal_body(weir_comm *comm, int *failures)
{
    enum { COUNT = 20000, TERMS = 12 };
    float *x = malloc(COUNT * sizeof *x), *exact = malloc(COUNT * sizeof *x);
    float *out = malloc(COUNT * sizeof *x);
    for (int format = 0; format < WEIR_QUANTIZATIONS; format++) {
        double errors = 0, sums = 0;
        uint64_t state = 7 + 100 * (uint64_t)weir_comm_rank(comm);
        for (size_t i = 0; i < COUNT; i++) {
            x[i] = -TERMS / 2; /* a sum of uniform numbers is nearly normal */
            for (int term = 0; term < TERMS; term++)
                x[i] += (float)test_random_fraction(&state);
        }
        EXPECT_OK(failures, weir_allreduce(comm, x, exact, COUNT, WEIR_FLOAT, WEIR_SUM, NULL));
        EXPECT_OK(failures, weir_allreduce_quantized(comm, x, out, COUNT, WEIR_FLOAT, WEIR_SUM,
                                                     (weir_quantization)format, NULL));
        for (size_t i = 0; i < COUNT; i++) {
            const double error = (double)out[i] - (double)exact[i];
            errors += error * error;
            sums += (double)exact[i] * (double)exact[i];
        }
        const double most =
            (weir_comm_nranks(comm) == 2 ? 0.03 : 0.045) / (format == WEIR_QUANTIZED_FP8 ? 1 : 3);
        EXPECT(failures, errors > 0 && errors < most * most * sums);
    }
    free(x);
    free(exact);
    free(out);
}

static void refuse(weir_comm *comm, const float *in, float *out, weir_dtype dtype, weir_op op,
                   weir_quantization format, const char *why, int *failures)
{
    EXPECT(failures, weir_allreduce_quantized(comm, in, out, 256, dtype, op, format, NULL) ==
                         WEIR_ERR_INVALID);
    if (!strstr(weir_last_error(), why)) {
        fprintf(stderr, "# '%s' is not in: %s\n", why, weir_last_error());
        (*failures)++;
    }
}

static void refusals_body(weir_comm *comm, int *failures)
{
    float x[1024] = {0};
    refuse(comm, x, x, WEIR_DOUBLE, WEIR_SUM, WEIR_QUANTIZED_FP8,
           "type double; supported are bfloat16, half and float", failures);
    refuse(comm, x, x, (weir_dtype)99, WEIR_SUM, WEIR_QUANTIZED_FP8, "type unknown", failures);
    refuse(comm, x, x, WEIR_FLOAT, WEIR_MAX, WEIR_QUANTIZED_FP8, "sum and avg", failures);
    refuse(comm, x, x, WEIR_FLOAT, WEIR_SUM, (weir_quantization)2,
           "format 2; supported are fp8 and int8", failures);
    refuse(comm, NULL, x, WEIR_FLOAT, WEIR_SUM, WEIR_QUANTIZED_FP8, "a buffer is NULL", failures);
    refuse(comm, x, x + 1, WEIR_FLOAT, WEIR_SUM, WEIR_QUANTIZED_FP8, "in and out overlap",
           failures);
    refuse(NULL, x, x, WEIR_FLOAT, WEIR_SUM, WEIR_QUANTIZED_FP8, "comm is required", failures);
    EXPECT(failures, !strcmp(weir_quantization_name(WEIR_QUANTIZED_INT8), "int8") &&
                         !weir_quantization_name(WEIR_QUANTIZATIONS));
    EXPECT_OK(failures, weir_allreduce_quantized(comm, x, x, 0, WEIR_FLOAT, WEIR_SUM,
                                                 WEIR_QUANTIZED_FP8, NULL));
}

/* Of one rank: the contribution itself. */
static void alone_body(weir_comm *comm, int *failures)
{
    float x[300], out[300] = {0};
    for (size_t i = 0; i < 300; i++)
        x[i] = value_at(0, i);
    EXPECT_OK(failures, weir_allreduce_quantized(comm, x, out, 300, WEIR_FLOAT, WEIR_SUM,
                                                 WEIR_QUANTIZED_INT8, NULL));
    EXPECT(failures, !memcmp(x, out, sizeof x));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        COMM_TEST("all types, formats and operations, 2 ranks", 2, variants_body),
        COMM_TEST("3 ranks", 3, variants_body),
        COMM_TEST("5 ranks", 5, variants_body),
        COMM_TEST("several chunks, 2 ranks", 2, long_body),
        COMM_TEST("several chunks, 4 ranks", 4, long_body),
        COMM_TEST("normal data, 2 ranks", 2, normal_body),
        COMM_TEST("normal data, 4 ranks", 4, normal_body),
        COMM_TEST("numbers that are not finite, 2 ranks", 2, special_body),
        COMM_TEST("numbers that are not finite, 3 ranks", 3, special_body),
        COMM_TEST("planted faults are found, 2 ranks", 2, faults_body),
        COMM_TEST("planted faults are found, 3 ranks", 3, faults_body),
        COMM_TEST("refusals", 2, refusals_body),
        COMM_TEST("one rank", 1, alone_body),
    };
    return RUN_TESTS("weir_allreduce_quantized", tests);
}
