/*
 * Proves weir_allreduce_norm on the host, element by element: residual is bit by bit what
 * weir_allreduce and an addition give, and out is within the rounding of its type of a
 * normalisation in double; scales are those of the largest magnitudes. A row has the same bits
 * alone and among others. Wrong arguments are refused with what is supported, and a wrong element
 * is found.
 */
#include "verify/tests/support/comm_ranks.h"

#include "compute/norm.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 5, HIDDEN = 1160, ALL = ROWS * HIDDEN };

static float value_at(uint32_t seed, size_t i)
{
    const uint32_t hash = ((uint32_t)i * 2654435761u) ^ (seed * 2246822519u);
    return (float)(hash >> 8) / 4194304.0f - 2.0f;
}

typedef struct buffers {
    _Alignas(16) char in[4 * ALL], residual[4 * ALL], before[4 * ALL], sums[4 * ALL], out[4 * ALL],
        weight[4 * HIDDEN], bias[4 * HIDDEN];
    float scales[ALL];
} buffers;

static void fill(weir_dtype dtype, char *to, size_t count, uint32_t seed)
{
    float values[ALL];
    for (size_t i = 0; i < count; i++)
        values[i] = value_at(seed, i);
    weiri_norm_host_round(dtype, values, count, to);
}

static double get(weir_dtype dtype, const char *from, size_t i)
{
    float value;
    weiri_norm_host_load(dtype, from + i * weir_dtype_bytes(dtype), 1, &value);
    return (double)value;
}

static weir_norm_args args_of(buffers *b, weir_dtype dtype, weir_norm_kind kind,
                              weir_norm_output output)
{
    weir_norm_args args = WEIR_NORM_ARGS_INIT;
    args.kind = kind, args.output = output, args.dtype = dtype;
    args.in = b->in, args.residual = b->residual, args.weight = b->weight, args.out = b->out;
    args.bias = kind == WEIR_NORM_LAYER ? b->bias : NULL;
    args.scales = output == WEIR_NORM_PLAIN ? NULL : b->scales;
    args.rows = ROWS;
    args.hidden = output == WEIR_NORM_FP8_BLOCK ? 1152 : HIDDEN;
    return args;
}

static double root(double value)
{
    double found = value > 1 ? value : 1;
    for (int i = 0; i < 60; i++)
        found = (found + value / found) / 2;
    return found;
}

/* y of a row in double, from the x that the call has stored. */
static void row_in_double(const weir_norm_args *args, const char *x, size_t row, double *y)
{
    const size_t n = args->hidden;
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += get(args->dtype, x, row * n + i);
    const double mean = args->kind == WEIR_NORM_LAYER ? sum / (double)n : 0;
    for (size_t i = 0; i < n; i++) {
        const double distance = get(args->dtype, x, row * n + i) - mean;
        squares += distance * distance;
    }
    for (size_t i = 0; i < n; i++)
        y[i] = (get(args->dtype, x, row * n + i) - mean) /
                   root(squares / (double)n + (double)args->epsilon) *
                   get(args->dtype, args->weight, i) +
               (args->bias ? get(args->dtype, args->bias, i) : 0);
}

/* Counts the elements that are farther from y than their type rounds; floats add 1e-5. */
static int wrong_in_row(const weir_norm_args *args, size_t row, const double *y)
{
    const size_t n = args->hidden;
    const double unit = args->dtype == WEIR_FLOAT  ? 0
                        : args->dtype == WEIR_HALF ? 1.0 / 2048
                                                   : 1.0 / 256;
    int wrong = 0;
    for (size_t i = 0; i < n; i++) {
        double found, slack = 1e-5 * (1 + fabs(y[i]));
        if (args->output == WEIR_NORM_PLAIN) {
            found = get(args->dtype, args->out, row * n + i);
            slack += unit * fabs(y[i]);
        } else {
            const size_t group = args->output == WEIR_NORM_FP8_BLOCK ? 128 : n;
            const double scale =
                (double)
                    args->scales[args->output == WEIR_NORM_FP8_TENSOR ? 0 : (row * n + i) / group];
            found = scale * (double)weiri_fp8e4m3_to_float(((uint8_t *)args->out)[row * n + i]);
            slack += fabs(y[i]) / 16 + scale / 1024;
        }
        wrong += !(fabs(found - y[i]) <= slack);
    }
    return wrong;
}

static int wrong_in_call(const weir_norm_args *args, const buffers *b)
{
    double y[HIDDEN];
    int wrong = 0;
    for (size_t row = 0; row < args->rows; row++) {
        row_in_double(args, b->residual, row, y);
        wrong += wrong_in_row(args, row, y);
    }
    return wrong;
}

static void prepare(const weir_norm_args *args, buffers *b, int rank)
{
    fill(args->dtype, b->in, ALL, (uint32_t)rank + 1);
    fill(args->dtype, b->residual, ALL, 77);
    fill(args->dtype, b->weight, HIDDEN, 78);
    fill(args->dtype, b->bias, HIDDEN, 79);
    memcpy(b->before, b->residual, sizeof b->before);
    b->scales[0] = 0.125f;
}

static int wrong_in_residual(const weir_norm_args *args, buffers *b, weir_comm *comm)
{
    const size_t count = args->rows * args->hidden, element = weir_dtype_bytes(args->dtype);
    int wrong = weir_allreduce(comm, b->in, b->sums, count, args->dtype, WEIR_SUM, NULL) != WEIR_OK;
    for (size_t i = 0; i < count; i++) {
        float sum = (float)get(args->dtype, b->sums, i) + (float)get(args->dtype, b->before, i);
        char expected[4];
        weiri_norm_host_round(args->dtype, &sum, 1, expected);
        wrong += memcmp(expected, b->residual + i * element, element) != 0;
    }
    return wrong;
}

static void variants_body(weir_comm *comm, int *failures)
{
    static const weir_dtype dtypes[] = {WEIR_BFLOAT16, WEIR_HALF, WEIR_FLOAT};
    buffers *b = calloc(1, sizeof *b);
    for (int i = 0; i < 3 * 2 * WEIR_NORM_OUTPUTS && b; i++) {
        const weir_norm_args args =
            args_of(b, dtypes[i % 3], (weir_norm_kind)(i / 3 % 2), (weir_norm_output)(i / 6));
        prepare(&args, b, weir_comm_rank(comm));
        EXPECT_OK(failures, weir_allreduce_norm(comm, &args));
        EXPECT(failures, wrong_in_call(&args, b) == 0);
        EXPECT(failures, wrong_in_residual(&args, b, comm) == 0);
        b->out[1] ^= 0x40;
        EXPECT(failures, args.dtype == WEIR_FLOAT || wrong_in_call(&args, b) == 1);
    }
    free(b);
}

/* Without residual and in place, of one row and of all. */
static void alone_body(weir_comm *comm, int *failures)
{
    buffers *b = calloc(1, sizeof *b), *one = calloc(1, sizeof *one);
    weir_norm_args all = args_of(b, WEIR_BFLOAT16, WEIR_NORM_RMS, WEIR_NORM_PLAIN);
    weir_norm_args first = args_of(one, WEIR_BFLOAT16, WEIR_NORM_RMS, WEIR_NORM_PLAIN);
    prepare(&all, b, weir_comm_rank(comm));
    prepare(&first, one, weir_comm_rank(comm));
    all.residual = first.residual = NULL;
    first.out = one->in;
    first.rows = 1;
    EXPECT_OK(failures, weir_allreduce_norm(comm, &all));
    EXPECT_OK(failures, weir_allreduce_norm(comm, &first));
    EXPECT(failures, !memcmp(b->out, one->in, 2 * HIDDEN));
    first.rows = 0;
    EXPECT_OK(failures, weir_allreduce_norm(comm, &first));
    free(b);
    free(one);
}

static void refuse(weir_comm *comm, const weir_norm_args *args, const char *why, int *failures)
{
    EXPECT(failures, weir_allreduce_norm(comm, args) == WEIR_ERR_INVALID);
    if (!strstr(weir_last_error(), why)) {
        fprintf(stderr, "# '%s' is not in: %s\n", why, weir_last_error());
        (*failures)++;
    }
}

static void refusals_body(weir_comm *comm, int *failures)
{
    buffers *b = calloc(1, sizeof *b);
    const weir_norm_args right = args_of(b, WEIR_BFLOAT16, WEIR_NORM_RMS, WEIR_NORM_FP8_BLOCK);
    weir_norm_args args = right;
#define REFUSE(member, value, why)                                                                 \
    (args = right, args.member = (value), refuse(comm, &args, why, failures))
    REFUSE(hidden, 1156, "rows of 1156 bfloat16 elements; supported are");
    REFUSE(hidden, 128 * 129, "of at most 32768 bytes");
    REFUSE(hidden, 0, "supported are");
    REFUSE(dtype, WEIR_DOUBLE, "data of type double; supported are bfloat16, half and float");
    REFUSE(dtype, (weir_dtype)99, "unknown");
    REFUSE(in, NULL, "in is NULL");
    REFUSE(out, NULL, "out is NULL");
    REFUSE(scales, NULL, "scales is NULL");
    REFUSE(in, b->in + 2, "expected a multiple of 16");
    REFUSE(out, b->in, "in and out overlap; only out may be in, if it is not quantised");
    REFUSE(residual, b->in + 16, "in and residual overlap");
    REFUSE(weight, b->out, "weight and out overlap");
    REFUSE(bias, b->bias, "only LayerNorm has a bias");
    REFUSE(epsilon, -1, "epsilon is -1");
    REFUSE(output, (weir_norm_output)9, "output 9");
    REFUSE(size, 3, "size");
    EXPECT(failures, weir_allreduce_norm(comm, NULL) == WEIR_ERR_INVALID);
    EXPECT(failures, weir_allreduce_norm(NULL, &right) == WEIR_ERR_INVALID);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        COMM_TEST("all types, kinds and outputs, 3 ranks", 3, variants_body),
        COMM_TEST("one rank", 1, variants_body),
        COMM_TEST("a row alone and among others", 4, alone_body),
        COMM_TEST("refusals", 1, refusals_body),
    };
    return RUN_TESTS("weir_allreduce_norm", tests);
}
