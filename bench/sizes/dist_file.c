/*
 * Reads matrices of weights from a file. Each line is a row, with one weight per column separated
 * by blanks or commas; row r is what rank r sends. # starts a comment. In a trace, empty lines
 * separate matrices; otherwise they are ignored.
 *
 *   # 3 ranks
 *   0   10  10
 *   5   0   20   # rank 1 sends 4 times as much to rank 2 as to rank 0
 *   1.5 0   0
 */
#include "bench/sizes/dist.h"

#include "base/words.h"
#include "programs/numbers.h"
#include "bench/options/options.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 1 << 16, WORD_SHOWN = 24 };

typedef struct reader {
    const bench_dist *dist;
    size_t n; /* ranks */
    int line;
    size_t rows, room; /* rows read; rows that weights has room for */
    double *weights;
    char *problem;
} reader;

static weir_status file_error(const reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes "file:line: what"; without the line if the error concerns the whole file. */
static weir_status file_error(const reader *r, const char *format, ...)
{
    char what[BENCH_PROBLEM_BYTES / 2], line[16] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (r->line)
        snprintf(line, sizeof line, ":%d", r->line);
    snprintf(r->problem, BENCH_PROBLEM_BYTES, "--dist: %.400s%s: %s", r->dist->path, line, what);
    return WEIR_ERR_INVALID;
}

static weir_status reserve_row(reader *r)
{
    if (r->rows < r->room)
        return WEIR_OK;
    if (r->rows / r->n >= STEPS_MAX)
        return file_error(r, "more than %d matrices; cut the trace", STEPS_MAX);
    size_t room = r->room ? 2 * r->room : r->n;
    double *larger = realloc(r->weights, room * r->n * sizeof *larger);
    if (!larger) {
        file_error(r, "no memory for so many matrices; cut the trace");
        return WEIR_ERR_NO_MEMORY;
    }
    r->weights = larger;
    r->room = room;
    return WEIR_OK;
}

/* Reads one row: as many numbers as there are ranks. */
static weir_status read_row(reader *r, char *text)
{
    static const char separators[] = " \t\r,";
    size_t columns = 0;
    char *next = NULL;
    if (r->dist->kind == BENCH_DIST_MATRIX && r->rows == r->n)
        return file_error(
            r,
            "a row too many: %zu ranks have %zu rows; start as many ranks as the matrix "
            "has rows, or give several matrices as trace:FILE",
            r->n, r->n);
    weir_status status = reserve_row(r);
    for (char *word = strtok_r(text, separators, &next); word && status == WEIR_OK;
         word = strtok_r(NULL, separators, &next)) {
        double weight;
        if (weiri_decimal_read(word, &weight) != 0)
            return file_error(r, "'%.*s' is no weight; expected a number of 0 or more", WORD_SHOWN,
                              word);
        if (columns < r->n)
            r->weights[r->rows * r->n + columns] = weight;
        columns++;
    }
    if (status == WEIR_OK && columns != r->n)
        return file_error(r,
                          "%zu weight%s, but there %s %zu rank%s; start %zu, or "
                          "give each row %zu weight%s",
                          columns, weiri_s(columns), r->n == 1 ? "is" : "are", r->n, weiri_s(r->n),
                          columns, r->n, weiri_s(r->n));
    r->rows++;
    return status;
}

/* Called at an empty line of a trace and at the end of the file. */
static weir_status end_matrix(const reader *r)
{
    if (r->rows % r->n)
        return file_error(r, "the matrix ends after %zu of %zu rows; give a row for each rank",
                          r->rows % r->n, r->n);
    double sum = 0;
    for (size_t i = r->rows ? (r->rows - r->n) * r->n : 0; i < r->rows * r->n; i++)
        sum += r->weights[i] > 0;
    if (r->rows && sum == 0)
        return file_error(r, "all weights of the matrix are 0; give one that is more");
    return WEIR_OK;
}

/* A line with only a comment does not count as empty. */
static weir_status read_weights_line(reader *r, char *text)
{
    int has_comment = strchr(text, '#') != NULL;
    text[strcspn(text, "#\n")] = '\0';
    if (text[strspn(text, " \t\r,")])
        return read_row(r, text);
    if (!has_comment && r->dist->kind == BENCH_DIST_TRACE)
        return end_matrix(r);
    return WEIR_OK;
}

weir_status bench_dist_read(const bench_dist *dist, int nranks, double **weights, int *nsteps,
                            char *problem)
{
    reader r = {.dist = dist, .n = (size_t)nranks, .problem = problem};
    weir_status status = WEIR_OK;
    size_t bytes = 0;
    char *text = NULL;
    FILE *file = fopen(dist->path, "re");
    if (!file)
        return file_error(&r, "%s; give a readable file", strerror(errno));
    while (status == WEIR_OK && getline(&text, &bytes, file) >= 0) {
        r.line++;
        status = read_weights_line(&r, text);
    }
    if (status == WEIR_OK && ferror(file))
        status = file_error(&r, "%s; give a readable file", strerror(errno));
    if (status == WEIR_OK)
        status = end_matrix(&r);
    r.line = 0;
    if (status == WEIR_OK && r.rows == 0)
        status = file_error(&r, "no weights; give a row of %d for each rank", nranks);
    free(text);
    fclose(file);
    if (status != WEIR_OK) {
        free(r.weights);
        return status;
    }
    *weights = r.weights;
    *nsteps = (int)(r.rows / r.n);
    return WEIR_OK;
}
