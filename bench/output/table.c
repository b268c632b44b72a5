/*
 * The table, column for column as nccl-tests prints it. A half without a number (no in-place form,
 * or a wrong result) has nan in the number columns, which parsers of numbers accept, and N/A or
 * the count under #wrong.
 */
#include "bench/output/table.h"

#include "bench/output/floor.h"
#include "programs/terminal.h"

#include <math.h>
#include <string.h>

enum { TIME_WIDTH = 7, BANDWIDTH_WIDTH = 6, STAMP_WIDTH = 19 };

void bench_table_number(double value, int width, char *text)
{
    char wide[400];
    for (int decimals = 2; decimals >= 0; decimals--)
        if (snprintf(wide, sizeof wide, "%*.*f", width, decimals, value) <= width) {
            memcpy(text, wide, (size_t)width + 1);
            return;
        }
    snprintf(wide, sizeof wide, "%*.*e", width, width >= TIME_WIDTH ? 1 : 0, value);
    memcpy(text, wide, (size_t)width);
    text[width] = '\0';
}

/* One line of headings: the five columns of the size, then both halves. */
static void write_headings(const bench_table *table, const char *const left[5],
                           const char *const half[4], const char *const extra[4], const char *stamp)
{
    FILE *out = table->out;
    fprintf(out, "# %10s  %12s  %8s  %6s  %6s", left[0], left[1], left[2], left[3], left[4]);
    for (int i = 0; i < BENCH_PLACEMENTS; i++) {
        fprintf(out, "  %7s  %6s  %6s  %6s", half[0], half[1], half[2], half[3]);
        if (table->run->options->per_iteration)
            fprintf(out, "  %7s  %7s  %7s  %7s", extra[0], extra[1], extra[2], extra[3]);
    }
    fprintf(out, " %*s\n", table->run->options->timestamps ? STAMP_WIDTH : 0,
            table->run->options->timestamps ? stamp : "");
}

void bench_table_begin(bench_table *table, FILE *out, const bench_run *run)
{
    const char *time = run->options->cpu_time ? "cputime" : "time";
    memset(table, 0, sizeof *table);
    table->out = out;
    table->run = run;
    if (run->options->per_iteration)
        fprintf(out, "#\n# %50s%14sout-of-place (+ per-iteration)%32sin-place (+ per-iteration)\n",
                "", "", "");
    else
        fprintf(out, "#\n# %50s%11sout-of-place%23sin-place          \n", "", "", "");
    write_headings(table, (const char *[]){"size", "count", "type", "redop", "root"},
                   (const char *[]){time, "algbw", "busbw", "#wrong"},
                   (const char *[]){"i_min", "i_max", "i_p99", "i_cv%"}, "timestamp");
    write_headings(table, (const char *[]){"(B)", "(elements)", "", "", ""},
                   (const char *[]){"(us)", "(GB/s)", "(GB/s)", ""},
                   (const char *[]){"(us)", "(us)", "(us)", "(%)"}, "%Y-%m-%d %H:%M:%S");
    fflush(out);
}

static void write_numbers(FILE *out, const double *values, int count, int width)
{
    char text[TIME_WIDTH + 1];
    for (int i = 0; i < count; i++) {
        bench_table_number(values[i], width, text);
        fprintf(out, "  %s", text);
    }
}

static void write_per_iteration(FILE *out, const bench_result *result, int good)
{
    double values[] = {NAN, NAN, NAN, NAN};
    if (good) {
        const bench_stats *stats = &result->per_iter;
        values[0] = stats->min;
        values[1] = stats->max;
        values[2] = stats->p99;
        values[3] = bench_stats_cv_pct(stats);
    }
    write_numbers(out, values, 4, TIME_WIDTH);
}

static void write_half(bench_table *table, const bench_result *result)
{
    const int good = result && result->figures.is_usable;
    double time_us = NAN, bandwidths[] = {NAN, NAN};
    if (good) {
        time_us = table->run->options->cpu_time ? result->cpu_us : result->time_us;
        bandwidths[0] = result->figures.shown_algbw_gbs;
        bandwidths[1] = result->figures.shown_busbw_gbs;
        table->busbw_sum += bandwidths[1];
        table->busbw_count++;
    }
    write_numbers(table->out, &time_us, 1, TIME_WIDTH);
    write_numbers(table->out, bandwidths, 2, BANDWIDTH_WIDTH);
    if (result && result->checked) {
        const double wrong = (double)result->figures.wrong;
        fprintf(table->out, "%s  %6g%s",
                wrong > 0 ? weiri_terminal_colour(table->out, WEIRI_COLOUR_BAD) : "", wrong,
                wrong > 0 ? weiri_terminal_colour(table->out, WEIRI_COLOUR_NONE) : "");
        table->failed += result->figures.is_wrong;
    } else {
        fprintf(table->out, "    N/A");
    }
    if (table->run->options->per_iteration)
        write_per_iteration(table->out, result, good);
}

void bench_table_row(bench_table *table, const bench_row *row)
{
    if (row->pattern && strcmp(row->pattern->name, table->pattern) != 0) {
        snprintf(table->pattern, sizeof table->pattern, "%s", row->pattern->name);
        if (table->run->options->pattern)
            fprintf(table->out, "# Pattern: %s\n", table->pattern);
    }
    fprintf(table->out, "%12zu  %12zu  %8s  %6s  %6d", row->shape.bytes, row->shape.count,
            weir_dtype_name(row->dtype), bench_row_op_name(row), row->root);
    for (int i = 0; i < BENCH_PLACEMENTS; i++)
        write_half(table, i < row->placements ? &row->results[i][row->primary[i]] : NULL);
    if (table->run->options->timestamps) {
        char now[24];
        bench_run_now(now, sizeof now);
        fprintf(table->out, "%21s", now);
    }
    fputc('\n', table->out);
    fflush(table->out);
}

double bench_table_average(const bench_table *table)
{
    return table->busbw_count ? table->busbw_sum / (double)table->busbw_count : 0;
}

void bench_table_end(bench_table *table)
{
    FILE *out = table->out;
    fprintf(out, "# %-20s : %ld %s%s%s\n", "Out of bounds values", table->failed,
            weiri_terminal_colour(out, table->failed ? WEIRI_COLOUR_BAD : WEIRI_COLOUR_GOOD),
            table->failed ? "FAILED" : "OK", weiri_terminal_colour(out, WEIRI_COLOUR_NONE));
    fprintf(table->out, "# %-20s : %g %s\n#\n", "Avg bus bandwidth", bench_table_average(table),
            bench_floor_word(table->run->options, bench_table_average(table)));
    fprintf(table->out, "# Collective test concluded: %s\n#\n", table->run->job->program);
    fflush(table->out);
}
