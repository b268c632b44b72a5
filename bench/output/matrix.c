/* The matrices of pairs: see matrix.h. */
#include "bench/output/matrix.h"

#include "bench/statistics/stats.h"
#include "base/words.h"
#include "programs/terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct bench_matrix_entry {
    bench_pattern pattern;
    char candidate[64];
    weir_dtype dtype;
    size_t bytes;
    double median_us, low_us;
    int is_printed;
};

static int is_pair(const bench_pattern *pattern)
{
    return pattern &&
           (pattern->kind == BENCH_PATTERN_PINGPONG || pattern->kind == BENCH_PATTERN_ONEWAY ||
            pattern->kind == BENCH_PATTERN_BOTHWAYS);
}

static bench_matrix_entry *add_entry(bench_matrix *matrix)
{
    if (matrix->count == matrix->room) {
        const size_t room = matrix->room ? 2 * matrix->room : 64;
        bench_matrix_entry *more = realloc(matrix->entries, room * sizeof *more);
        matrix->lost |= !more;
        if (!more)
            return NULL;
        matrix->entries = more;
        matrix->room = room;
    }
    return &matrix->entries[matrix->count++];
}

void bench_matrix_row(bench_matrix *matrix, const bench_row *row)
{
    if (!is_pair(row->pattern))
        return;
    for (int i = 0; i < row->ncandidates; i++) {
        const bench_result *result = &row->results[BENCH_OUT_OF_PLACE][i];
        bench_matrix_entry *entry = result->figures.is_usable ? add_entry(matrix) : NULL;
        if (!entry)
            continue;
        *entry = (bench_matrix_entry){.pattern = *row->pattern,
                                      .dtype = row->dtype,
                                      .bytes = row->shape.bytes,
                                      .median_us = result->stats.median,
                                      .low_us = result->stats.ci_low};
        snprintf(entry->candidate, sizeof entry->candidate, "%s%s%s", result->candidate,
                 *result->algo && !result->peer ? " " : "", result->peer ? "" : result->algo);
    }
}

/* Whether two entries are cells of one matrix. */
static int is_same_matrix(const bench_matrix_entry *a, const bench_matrix_entry *b)
{
    return a->pattern.kind == b->pattern.kind && a->dtype == b->dtype && a->bytes == b->bytes &&
           strcmp(a->candidate, b->candidate) == 0;
}

/* One matrix: its cells, from x nranks + to; NULL: not measured. Pairs of both directions are one
 * entry in two cells. */
typedef struct cells {
    const bench_matrix_entry **at; /* owned */
    int nranks;
    double median_us; /* of all entries */
} cells;

/* Collects the entries that are in one matrix with this one, and marks them as printed. Returns 0,
 * or -1 without memory. */
static int collect_cells(bench_matrix *matrix, const bench_matrix_entry *of, int nranks,
                         cells *made)
{
    double *times = malloc(matrix->count * sizeof *times);
    const size_t n = (size_t)nranks;
    size_t count = 0;
    *made = (cells){.at = calloc(n * n, sizeof *made->at), .nranks = nranks};
    for (size_t i = 0; times && made->at && i < matrix->count; i++) {
        bench_matrix_entry *entry = &matrix->entries[i];
        const size_t first = (size_t)entry->pattern.first, second = (size_t)entry->pattern.second;
        if (!is_same_matrix(entry, of))
            continue;
        entry->is_printed = 1;
        times[count++] = entry->median_us;
        made->at[first * n + second] = entry;
        if (entry->pattern.kind != BENCH_PATTERN_ONEWAY)
            made->at[second * n + first] = entry;
    }
    const int status = times && made->at ? 0 : -1;
    made->median_us = status == 0 ? bench_stats_make(times, count).median : NAN;
    free(times);
    return status;
}

static int is_slow(const bench_matrix_entry *entry, double median_us)
{
    return entry->low_us > median_us * (1 + BENCH_MATRIX_PERCENT / 100.0);
}

static double value_of(const bench_matrix_entry *entry)
{
    return entry->pattern.kind == BENCH_PATTERN_PINGPONG
               ? entry->median_us
               : (double)entry->bytes / entry->median_us * 1e-3;
}

static void print_cells(FILE *out, const cells *made)
{
    const int nranks = made->nranks;
    fprintf(out, "# %8s", "from\\to");
    for (int to = 0; to < nranks; to++)
        fprintf(out, " %8d ", to);
    fputc('\n', out);
    for (int from = 0; from < nranks; from++) {
        fprintf(out, "# %8d", from);
        for (int to = 0; to < nranks; to++) {
            const bench_matrix_entry *entry = made->at[from * nranks + to];
            const int slow = entry && is_slow(entry, made->median_us);
            if (!entry)
                fprintf(out, " %8s ", "-");
            else
                fprintf(out, "%s %8.2f%c%s",
                        slow ? weiri_terminal_colour(out, WEIRI_COLOUR_BAD) : "", value_of(entry),
                        slow ? '!' : ' ',
                        slow ? weiri_terminal_colour(out, WEIRI_COLOUR_NONE) : "");
        }
        fputc('\n', out);
    }
}

/* A line for each slow cell: which ranks, where they are, and how slow. */
static void print_slow(const bench_matrix *matrix, FILE *out, const bench_matrix_entry *of,
                       const bench_rank_info *infos, double median_us)
{
    for (size_t i = 0; i < matrix->count; i++) {
        const bench_matrix_entry *entry = &matrix->entries[i];
        if (!is_same_matrix(entry, of) || !is_slow(entry, median_us))
            continue;
        const int first = entry->pattern.first, second = entry->pattern.second;
        fprintf(out,
                "# slow: rank %d (%s) %s rank %d (%s): %.2f us, the median of all pairs is "
                "%.2f us\n",
                first, infos ? infos[first].host : "?",
                entry->pattern.kind == BENCH_PATTERN_ONEWAY ? "to" : "and", second,
                infos ? infos[second].host : "?", entry->median_us, median_us);
    }
}

void bench_matrix_end(bench_matrix *matrix, FILE *out, const bench_run *run,
                      const bench_rank_info *infos)
{
    for (size_t i = 0; i < matrix->count; i++) {
        const bench_matrix_entry *entry = &matrix->entries[i];
        cells made;
        if (entry->is_printed)
            continue;
        if (collect_cells(matrix, entry, run->job->group_nranks, &made) == 0) {
            fprintf(out, "#\n# %s, %s, %zu B, %s:\n", entry->candidate,
                    bench_pattern_kind_name(entry->pattern.kind), entry->bytes,
                    entry->pattern.kind == BENCH_PATTERN_PINGPONG ? "us"
                                                                  : "GB/s in each direction");
            if (run->job->group_nranks <= BENCH_MATRIX_RANKS)
                print_cells(out, &made);
            print_slow(matrix, out, entry, run->job->ngroups > 1 ? NULL : infos, made.median_us);
        } else {
            matrix->lost = 1;
        }
        free(made.at);
    }
    if (matrix->lost)
        fprintf(out, "# There was no memory for some pairs; the CSV has all (--csv)\n");
    if (matrix->count)
        fprintf(out, "#\n");
}

void bench_matrix_close(bench_matrix *matrix)
{
    free(matrix->entries);
    memset(matrix, 0, sizeof *matrix);
}
