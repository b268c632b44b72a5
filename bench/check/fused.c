/* Checks of --fuse: see fused.h. */
#include "bench/check/fused.h"

#include "bench/candidate/fused.h"
#include "bench/trial/data.h"
#include "verify/hash.h"
#include "verify/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One row: what the call had, and what it gave. */
typedef struct fused_row {
    const bench_trial *trial;
    bench_candidate *candidate;
    size_t hidden, width, row;
    double *x, *y; /* the residual that is expected, and its normalisation */
    char *sums, *residual;
    float scale;
} fused_row;

static fused_row row_make(const bench_trial *trial, bench_candidate *candidate)
{
    fused_row r = {.trial = trial,
                   .candidate = candidate,
                   .hidden = (size_t)trial->options->hidden,
                   .width = weir_dtype_bytes(trial->data.dtype)};
    r.x = malloc(2 * r.hidden * sizeof(double));
    r.sums = malloc(2 * r.hidden * r.width);
    r.y = r.x ? r.x + r.hidden : NULL;
    r.residual = r.sums ? r.sums + r.hidden * r.width : NULL;
    return r;
}

static void row_free(fused_row *r)
{
    free(r->x);
    free(r->sums);
}

/* Computes x and y of a row after so many operations. */
static void row_expect(fused_row *r, size_t row, int operations)
{
    const weirv_case *c = &r->trial->data;
    const size_t at = row * r->hidden;
    double squares = 0;
    r->row = row;
    for (size_t done = 0; done < r->hidden;)
        done += weirv_expected(c, at + done, r->hidden - done, r->sums + done * r->width);
    for (size_t i = 0; i < r->hidden; i++) {
        double sum, x = bench_fused_residual(at + i), before = NAN;
        weirv_decode(c->dtype, r->sums + i * r->width, 1, &sum);
        for (int n = 0; n < operations && !(x == before); n++) {
            uint64_t bits = 0;
            before = x;
            weirv_encode(c->dtype, (double)((float)x + (float)sum), &bits);
            weirv_decode(c->dtype, &bits, 1, &x);
        }
        r->x[i] = x;
        squares += x * x;
    }
    const double factor = 1 / sqrt(squares / (double)r->hidden + (double)BENCH_FUSED_EPSILON);
    for (size_t i = 0; i < r->hidden; i++)
        r->y[i] = r->x[i] * factor * bench_fused_weight(i);
}

static void note_wrong(const fused_row *r, size_t i, const char *what, double got, double expected,
                       weirv_result *found)
{
    found->wrong++;
    if (found->has_first)
        return;
    found->has_first = 1;
    found->first.rank = r->trial->job->rank;
    found->first.index = r->row * r->hidden + i;
    snprintf(found->first.got, sizeof found->first.got, "%s %.9g", what, got);
    snprintf(found->first.expected, sizeof found->first.expected, "%.9g", expected);
}

/* Compares the row's residual, and its output at `out`. */
static void row_compare(const fused_row *r, const char *out, weirv_result *found)
{
    const weir_dtype dtype = r->trial->data.dtype;
    const int is_fp8 = r->trial->options->fuse == BENCH_FUSE_NORM_FP8;
    const double unit = is_fp8 ? 1.0 / 16 : weirv_format_roundoff(weirv_format_of(dtype));
    const double scale = is_fp8 ? (double)r->scale : 1;
    const double least = 0x1p-20 + (is_fp8 ? scale / 512 : 0);
    for (size_t i = 0; i < r->hidden; i++) {
        double x, y;
        weirv_decode(dtype, r->residual + i * r->width, 1, &x);
        weirv_decode(is_fp8 ? WEIR_FP8_E4M3 : dtype, out + (is_fp8 ? i : i * r->width), 1, &y);
        y *= scale;
        const double allowed = fabs(r->y[i]) * (unit + 0x1p-16) + least;
        const double error = fabs(y - r->y[i]) / allowed;
        if (x != r->x[i])
            note_wrong(r, i, "residual", x, r->x[i], found);
        else if (!(error <= 1))
            note_wrong(r, i, "output", y, r->y[i], found);
        if (!(error <= found->worst_error))
            found->worst_error = error;
    }
}

/* Reads the row's residual and scale. */
static weir_status row_read(fused_row *r)
{
    const bench_fused *f = r->candidate->state;
    weir_status status =
        bench_fused_read(r->candidate, r->residual, f->residual + r->row * r->hidden * r->width,
                         r->hidden * r->width);
    if (status == WEIR_OK && r->trial->options->fuse == BENCH_FUSE_NORM_FP8)
        status = bench_fused_read(r->candidate, &r->scale, f->scales + r->row, sizeof r->scale);
    return status;
}

static size_t out_row_bytes(const fused_row *r)
{
    return r->trial->options->fuse == BENCH_FUSE_NORM_FP8 ? r->hidden : r->hidden * r->width;
}

static weir_status no_memory(const bench_trial *trial)
{
    return bench_job_note(trial->job, WEIR_ERR_NO_MEMORY, "no memory for checks of --fuse");
}

weir_status bench_fused_check(const bench_trial *trial, bench_candidate *candidate, const void *out,
                              weirv_result *found)
{
    fused_row r = row_make(trial, candidate);
    weir_status status = r.x && r.sums ? WEIR_OK : no_memory(trial);
    for (size_t row = 0; row < trial->data.count / r.hidden && status == WEIR_OK; row++) {
        row_expect(&r, row, 1);
        status = row_read(&r);
        if (status == WEIR_OK)
            row_compare(&r, (const char *)out + row * out_row_bytes(&r), found);
    }
    row_free(&r);
    return status;
}

weir_status bench_fused_open_iteration(bench_candidate *candidate)
{
    const weir_status status = bench_fused_reset(candidate);
    return status == WEIR_OK && candidate->job->gpu ? bench_gpu_sync(candidate->job->gpu) : status;
}

weir_status bench_fused_close_iteration(const bench_trial *trial, bench_candidate *candidate,
                                        uint64_t iteration, int operations, weirv_result *found)
{
    fused_row r = row_make(trial, candidate);
    char *out = r.x && r.sums ? malloc(r.hidden * r.width) : NULL;
    weir_status status = out ? WEIR_OK : no_memory(trial);
    if (status == WEIR_OK) {
        row_expect(&r, weirv_mix64(iteration) % (trial->data.count / r.hidden), operations);
        status = row_read(&r);
    }
    if (status == WEIR_OK)
        status = bench_fused_read(
            candidate, out, (const char *)trial->operation.call.out + r.row * out_row_bytes(&r),
            out_row_bytes(&r));
    if (status == WEIR_OK)
        row_compare(&r, out, found);
    free(out);
    row_free(&r);
    return status;
}
