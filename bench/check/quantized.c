/* Checks of --wire: see quantized.h. */
#include "bench/check/quantized.h"

#include "bench/candidate/quantized.h"
#include "verify/number.h"

#include <math.h>
#include <stdio.h>

enum { GROUP = WEIR_QUANTIZED_GROUP, ELEMENT_MOST = 8 };

/* What the elements of a group must be: sums, and by how much they may differ. */
typedef struct group_bound {
    double sum[GROUP], slack[GROUP];
} group_bound;

/* The error of quantising x in a group of this largest magnitude. */
static double quantum(weir_quantization format, double x, double most)
{
    return format == WEIR_QUANTIZED_FP8 ? fabs(x) / 16 + most / 416 / 1024 : most / 126 / 2;
}

/* A rank's contributions to a group of `count` elements that begins at `at`. */
static void group_input(const weirv_case *data, const bench_quantized_window *window, size_t at,
                        size_t count, int rank, double x[GROUP])
{
    char stored[GROUP * ELEMENT_MOST];
    const size_t width = weir_dtype_bytes(data->dtype);
    weirv_fill_part(data, stored, at, count, rank);
    const size_t first = window && window->at > at ? window->at : at;
    const size_t end = window ? window->at + window->count : at;
    const size_t last = end < at + count ? end : at + count;
    if (first < last)
        weirv_fill_part(window->data, stored + (first - at) * width, first, last - first, rank);
    for (size_t i = 0; i < count; i++)
        weirv_decode(data->dtype, stored + i * width, 1, &x[i]);
}

static void group_expect(const weirv_case *data, const bench_quantized_window *window,
                         weir_quantization format, size_t at, size_t count, group_bound *bound)
{
    const double unit = weirv_format_roundoff(weirv_format_of(data->dtype));
    const int divisor = data->op == WEIR_AVG ? data->nranks : 1;
    double x[GROUP], most = 0;
    *bound = (group_bound){{0}, {0}};
    for (int rank = 0; rank < data->nranks; rank++) {
        double largest = 0;
        group_input(data, window, at, count, rank, x);
        for (size_t i = 0; i < count; i++)
            largest = fmax(largest, fabs(x[i]));
        for (size_t i = 0; i < count; i++) {
            bound->sum[i] += x[i] / divisor;
            bound->slack[i] += quantum(format, x[i], largest) / divisor;
        }
    }
    for (size_t i = 0; i < count; i++)
        most = fmax(most, fabs(bound->sum[i]) + bound->slack[i]);
    for (size_t i = 0; i < count; i++) {
        const double reach = fabs(bound->sum[i]) + bound->slack[i];
        if (data->nranks > 2)
            bound->slack[i] += quantum(format, reach, most);
        if (data->nranks == 1)
            bound->slack[i] = 0;
        bound->slack[i] += unit * (fabs(bound->sum[i]) + bound->slack[i]);
        bound->slack[i] *= 1 + 0x1p-18;
    }
}

static void note_element(size_t index, double got, double expected, double slack,
                         weirv_result *found)
{
    const double error = fabs(got - expected) / (slack > 0 ? slack : 0x1p-100);
    if (!(error <= found->worst_error))
        found->worst_error = error;
    if (error <= 1)
        return;
    found->wrong++;
    if (found->has_first)
        return;
    found->has_first = 1;
    found->first.index = index;
    snprintf(found->first.got, sizeof found->first.got, "%.9g", got);
    snprintf(found->first.expected, sizeof found->first.expected, "%.9g +- %.3g", expected, slack);
}

void bench_quantized_check(const bench_trial *trial, bench_candidate *candidate, const void *out,
                           weirv_result *found)
{
    const weirv_case *data = &trial->data;
    const size_t width = weir_dtype_bytes(data->dtype);
    bench_quantized *own = candidate->state;
    double errors = 0, sums = 0, largest = 0;
    for (size_t at = 0; at < data->count; at += GROUP) {
        const size_t left = data->count - at, count = left < GROUP ? left : GROUP;
        group_bound bound;
        group_expect(data, NULL, own->format, at, count, &bound);
        for (size_t i = 0; i < count; i++) {
            double got;
            weirv_decode(data->dtype, (const char *)out + (at + i) * width, 1, &got);
            note_element(at + i, got, bound.sum[i], bound.slack[i], found);
            const double error = fabs(got - bound.sum[i]);
            largest = fmax(largest, error);
            errors += error * error;
            sums += bound.sum[i] * bound.sum[i];
        }
    }
    own->err_max = sums > 0 ? largest / sqrt(sums / (double)data->count) : 0;
    own->err_rms = sums > 0 ? sqrt(errors / sums) : 0;
}

void bench_quantized_check_window(const bench_trial *trial, bench_candidate *candidate,
                                  const bench_quantized_window *window, const void *got,
                                  weirv_result *found)
{
    const weirv_case *data = &trial->data;
    const size_t width = weir_dtype_bytes(data->dtype), end = window->at + window->count;
    const bench_quantized *own = candidate->state;
    for (size_t at = window->at / GROUP * GROUP; at < end; at += GROUP) {
        const size_t left = data->count - at, count = left < GROUP ? left : GROUP;
        group_bound bound;
        group_expect(data, window, own->format, at, count, &bound);
        for (size_t i = 0; i < count; i++) {
            double value;
            if (at + i < window->at || at + i >= end)
                continue;
            weirv_decode(data->dtype, (const char *)got + (at + i - window->at) * width, 1, &value);
            note_element(at + i, value, bound.sum[i], bound.slack[i], found);
        }
    }
}
