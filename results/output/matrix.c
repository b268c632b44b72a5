/* Tables of pairs of ranks: see matrix.h. */
#include "results/output/matrix.h"

#include "results/read/machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MOST = 64, MATRICES_MOST = 64 };

/* What is in one table: candidate, kind, size and ranks. */
typedef struct matrix {
    const results_row *row;
    results_pattern pattern;
    int nranks;
    double *values, *times_us; /* nranks x nranks; NaN: not measured */
    double *sorted;            /* for the median */
    char *marks;
} matrix;

int results_pattern_of(const results_row *row, results_pattern *pattern)
{
    static const char *const kinds[] = {"pingpong", "oneway", "bothways"};
    int end = 0;
    if (strcmp(row->text[RESULTS_COLLECTIVE], "sendrecv") != 0 ||
        sscanf(row->text[RESULTS_DIST], "%15[a-z]:%d-%d%n", pattern->kind, &pattern->first,
               &pattern->second, &end) != 3 ||
        row->text[RESULTS_DIST][end])
        return 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(pattern->kind, kinds[i]) == 0)
            return pattern->first >= 0 && pattern->second >= 0 && pattern->first < row->nranks &&
                   pattern->second < row->nranks && row->nranks <= RANKS_MOST;
    return 0;
}

static int is_of(const matrix *m, const results_pair *pair, results_pattern *pattern)
{
    const results_row *row = pair->b.starts ? pair->b.rows[0] : pair->example;
    return results_pattern_of(row, pattern) && strcmp(pattern->kind, m->pattern.kind) == 0 &&
           row->bytes == m->row->bytes && row->nranks == m->nranks &&
           strcmp(row->text[RESULTS_CONTENDER], m->row->text[RESULTS_CONTENDER]) == 0 &&
           strcmp(row->text[RESULTS_BUFFERS], m->row->text[RESULTS_BUFFERS]) == 0;
}

static void set_cell(matrix *m, int from, int to, double median_us)
{
    const size_t at = (size_t)from * (size_t)m->nranks + (size_t)to;
    m->times_us[at] = median_us;
    m->values[at] = strcmp(m->pattern.kind, "pingpong") == 0
                        ? median_us
                        : (double)m->row->bytes / median_us * 1e-3;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Marks the cells that are slower than the median by more than their intervals. */
static void mark_cells(matrix *m, const results_pair *pairs, size_t count)
{
    const size_t n = (size_t)m->nranks * (size_t)m->nranks;
    size_t known = 0;
    for (size_t i = 0; i < n; i++)
        if (!isnan(m->times_us[i]))
            m->sorted[known++] = m->times_us[i];
    qsort(m->sorted, known, sizeof *m->sorted, by_value);
    const double median =
        known ? (m->sorted[(known - 1) / 2] + m->sorted[known / 2]) / 2 : (double)NAN;
    for (size_t i = 0; i < count; i++) {
        results_pattern pattern;
        const results_row *row = pairs[i].b.starts ? pairs[i].b.rows[0] : NULL;
        if (!row || !is_of(m, &pairs[i], &pattern))
            continue;
        const double low = isnan(row->low_us) ? row->median_us : row->low_us;
        const size_t at = (size_t)pattern.first * (size_t)m->nranks + (size_t)pattern.second;
        const size_t back = (size_t)pattern.second * (size_t)m->nranks + (size_t)pattern.first;
        if (low > 1.1 * median)
            m->marks[at] = m->marks[strcmp(m->pattern.kind, "oneway") == 0 ? at : back] = 1;
    }
}

static void fill_matrix(matrix *m, const results_pair *pairs, size_t count)
{
    const size_t n = (size_t)m->nranks * (size_t)m->nranks;
    for (size_t i = 0; i < n; i++)
        m->values[i] = m->times_us[i] = NAN;
    memset(m->marks, 0, n);
    for (size_t i = 0; i < count; i++) {
        results_pattern pattern;
        if (!pairs[i].b.starts || !is_of(m, &pairs[i], &pattern))
            continue;
        set_cell(m, pattern.first, pattern.second, pairs[i].b.median_us);
        if (strcmp(pattern.kind, "oneway") != 0)
            set_cell(m, pattern.second, pattern.first, pairs[i].b.median_us);
    }
    mark_cells(m, pairs, count);
}

static void put_matrix(FILE *page, const matrix *m)
{
    char caption[256];
    const int is_time = strcmp(m->pattern.kind, "pingpong") == 0;
    snprintf(caption, sizeof caption, "%.60s, %s, %llu bytes: %s", m->row->text[RESULTS_CONTENDER],
             m->pattern.kind, m->row->bytes,
             is_time ? "microseconds for one message" : "GB/s in one direction");
    fputs("<div class=\"scroll\" tabindex=\"0\">", page);
    results_heat_put(page, &(results_heat){.values = m->values,
                                           .marks = m->marks,
                                           .count = m->nranks,
                                           .decimals = 2,
                                           .caption = caption});
    fputs("</div>\n", page);
}

/* Whether a pair before this one is in the same table. */
static int was_put(const matrix *m, const results_pair *pairs, size_t before)
{
    results_pattern pattern;
    for (size_t i = 0; i < before; i++)
        if (is_of(m, &pairs[i], &pattern))
            return 1;
    return 0;
}

void results_matrices_put(FILE *page, const results_pair *pairs, size_t count)
{
    const size_t room = (size_t)RANKS_MOST * RANKS_MOST;
    matrix m = {.values = malloc(room * sizeof(double)),
                .times_us = malloc(room * sizeof(double)),
                .sorted = malloc(room * sizeof(double)),
                .marks = malloc(room)};
    int put = 0;
    for (size_t i = 0; m.values && m.times_us && m.sorted && m.marks && i < count; i++) {
        m.row = pairs[i].b.starts ? pairs[i].b.rows[0] : NULL;
        if (!m.row || !results_pattern_of(m.row, &m.pattern) || put == MATRICES_MOST)
            continue;
        m.nranks = m.row->nranks;
        if (was_put(&m, pairs, i))
            continue;
        fill_matrix(&m, pairs, count);
        put_matrix(page, &m);
        put++;
    }
    free(m.values);
    free(m.times_us);
    free(m.sorted);
    free(m.marks);
}
