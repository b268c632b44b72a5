/* Rows, file and verdict: see hours_output.h. */
#include "bench/hours/hours_output.h"

#include "base/words.h"
#include "bench/output/output_file.h"
#include "programs/csv.h"

#include <errno.h>
#include <string.h>

enum { CAUSES_BYTES = 512, EXTENSION = 4 };

/* "a-windows.csv" for "a.csv". */
static void hours_path(char *path, size_t bytes, const char *csv)
{
    const size_t length = strlen(csv);
    const int has_extension = length > EXTENSION && strcmp(csv + length - EXTENSION, ".csv") == 0;
    snprintf(path, bytes, "%.*s-windows.csv", (int)(length - (has_extension ? EXTENSION : 0)), csv);
}

static weir_status hours_open_csv(bench_hours_output *out, const char *csv)
{
    char reason[BENCH_OUTPUT_REASON_BYTES];
    hours_path(out->path, sizeof out->path, csv);
    out->csv = bench_output_open(out->path, reason);
    if (!out->csv)
        return bench_job_note(out->job, WEIR_ERR_INVALID, "--csv: %s: %s", out->path, reason);
    fprintf(out->csv, "window,from_s,to_s,operations,median_us,p99_us,p999_us,max_us,outliers");
    for (int i = 0; i < BENCH_SIGNS; i++)
        fprintf(out->csv, ",%s", bench_sign_infos[i].column);
    fprintf(out->csv, ",causes\n");
    return WEIR_OK;
}

weir_status bench_hours_open(bench_hours_output *out, bench_job *job, const bench_options *options,
                             const bench_result *result)
{
    out->job = job;
    out->window_s = options->window_s;
    if (bench_causes_open(&out->causes, job->nranks) != 0)
        return bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for --for");
    if (options->csv_path) {
        const weir_status status = hours_open_csv(out, options->csv_path);
        if (status != WEIR_OK)
            return status;
    }
    printf("#\n# %s %s for %.6g s in windows of %.6g s; times in us, on the slowest rank\n",
           result->candidate, result->algo, options->for_s, options->window_s);
    printf("# window      from  operations      median         p99       p99.9         max"
           "  outliers\n");
    fflush(stdout);
    return WEIR_OK;
}

void bench_hours_add_changes(bench_hours_output *out, const double *changes)
{
    for (int i = 0; i < out->causes.nranks * BENCH_SIGNS; i++) {
        double *change = &out->changes[i % BENCH_SIGNS];
        if (bench_sign_infos[i % BENCH_SIGNS].kind != BENCH_SIGN_LEVEL)
            *change += changes[i];
        else if (changes[i] > *change)
            *change = changes[i];
    }
}

static void hours_write_csv(bench_hours_output *out, double from_s, double to_s,
                            const double figures[4], const char *causes)
{
    if (!out->csv)
        return;
    fprintf(out->csv, "%d,%.3f,%.3f,%llu,%.3f,%.3f,%.3f,%.3f,%llu", out->windows, from_s, to_s,
            (unsigned long long)out->window.count, figures[0], figures[1], figures[2], figures[3],
            (unsigned long long)out->causes.window.outliers);
    for (int i = 0; i < BENCH_SIGNS; i++)
        fprintf(out->csv, ",%.0f", out->changes[i]);
    fputc(',', out->csv);
    weiri_csv_write_field(out->csv, causes);
    fputc('\n', out->csv);
    fflush(out->csv);
}

void bench_hours_write_window(bench_hours_output *out, double from_s, double to_s)
{
    char causes[CAUSES_BYTES];
    const double figures[] = {bench_histogram_quantile(&out->window, 0.5),
                              bench_histogram_quantile(&out->window, 0.99),
                              bench_histogram_quantile(&out->window, 0.999), out->window.max_us};
    const int from = (int)from_s;
    out->windows++;
    out->end_s = to_s;
    bench_causes_describe(&out->causes, &out->causes.window, causes, sizeof causes);
    printf("# %6d %3d:%02d:%02d %11llu %11.2f %11.2f %11.2f %11.2f %9llu  %s\n", out->windows,
           from / 3600, from / 60 % 60, from % 60, (unsigned long long)out->window.count,
           figures[0], figures[1], figures[2], figures[3],
           (unsigned long long)out->causes.window.outliers, causes);
    fflush(stdout);
    hours_write_csv(out, from_s, to_s, figures, causes);
    if (to_s - from_s >= out->window_s / 2) /* the median of a shorter one is less precise */
        bench_drift_add(&out->drift, (from_s + to_s) / 2 / 3600, figures[0]);
    bench_causes_end_window(&out->causes);
    memset(&out->window, 0, sizeof out->window);
    memset(out->changes, 0, sizeof out->changes);
}

weir_status bench_hours_close(bench_hours_output *out)
{
    char causes[CAUSES_BYTES];
    double percent, low, high;
    bench_causes_describe(&out->causes, &out->causes.all, causes, sizeof causes);
    printf("# %llu operations in %.0f s%s: median %.2f, p99 %.2f, p99.9 %.2f, maximum %.2f us\n",
           (unsigned long long)out->all.count, out->end_s,
           out->is_stopped ? ", then stopped by SIGTERM" : "",
           bench_histogram_quantile(&out->all, 0.5), bench_histogram_quantile(&out->all, 0.99),
           bench_histogram_quantile(&out->all, 0.999), out->all.max_us);
    if (bench_drift_slope(&out->drift, &percent, &low, &high))
        printf("# drift of the median: %+.2f%% an hour [%+.2f, %+.2f], %s\n", percent, low, high,
               low > 0 || high < 0 ? "more than chance explains" : "none shown");
    printf("# %llu outlier%s above %d times the median%s%s\n",
           (unsigned long long)out->causes.all.outliers,
           weiri_s((unsigned)out->causes.all.outliers), BENCH_OUTLIER_FACTOR, *causes ? "; " : "",
           causes);
    FILE *csv = out->csv;
    out->csv = NULL;
    if (csv && (ferror(csv) | fclose(csv)) != 0)
        return bench_job_note(out->job, WEIR_ERR_SYSTEM, "--csv: %s: not all could be written",
                              out->path);
    return WEIR_OK;
}

void bench_hours_free(bench_hours_output *out)
{
    if (out->csv)
        fclose(out->csv);
    out->csv = NULL;
    bench_causes_close(&out->causes);
}
