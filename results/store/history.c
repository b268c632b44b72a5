/* From the nights of a store to series of times, and from series to changes of level. */
#include "results/store/history.h"

#include "results/read/load.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NIGHTS_LEAST = 5 };
static const double least_t = 6, least_change = 0.02;

/* Prefix sums of the logarithms and of their squares; NaNs are skipped. */
typedef struct sums {
    double *value, *square, *number;
} sums;

static double t_of_cut(const sums *s, size_t from, size_t cut, size_t to)
{
    double n1 = s->number[cut] - s->number[from], n2 = s->number[to] - s->number[cut];
    if (n1 < NIGHTS_LEAST || n2 < NIGHTS_LEAST)
        return 0;
    double mean1 = (s->value[cut] - s->value[from]) / n1;
    double mean2 = (s->value[to] - s->value[cut]) / n2;
    double within = s->square[to] - s->square[from] - n1 * mean1 * mean1 - n2 * mean2 * mean2;
    double variance = fmax(within / (n1 + n2 - 2), 1e-8);
    if (fabs(mean2 - mean1) < least_change)
        return 0;
    return fabs(mean2 - mean1) / sqrt(variance * (1 / n1 + 1 / n2));
}

static void segment(const sums *s, size_t from, size_t to, char *is_change, size_t *left)
{
    double best = least_t;
    size_t at = 0;
    for (size_t cut = from + 1; cut<to && * left> 0; cut++) {
        double t = t_of_cut(s, from, cut, to);
        if (t > best) {
            best = t;
            at = cut;
        }
    }
    if (at == 0)
        return;
    is_change[at] = 1;
    --*left;
    segment(s, from, at, is_change, left);
    segment(s, at, to, is_change, left);
}

size_t results_change_points(const double *times, size_t count, size_t *changes, size_t most)
{
    double *memory = calloc(3 * (count + 1), sizeof *memory);
    char *is_change = calloc(count + 1, 1);
    size_t found = 0, left = most;
    if (memory && is_change) {
        sums s = {memory, memory + count + 1, memory + 2 * (count + 1)};
        for (size_t i = 0; i < count; i++) {
            double value = times[i] > 0 ? log(times[i]) : 0;
            s.value[i + 1] = s.value[i] + value;
            s.square[i + 1] = s.square[i] + value * value;
            s.number[i + 1] = s.number[i] + (times[i] > 0);
        }
        segment(&s, 0, count, is_change, &left);
        for (size_t i = 0; i < count; i++)
            if (is_change[i])
                changes[found++] = i;
    }
    free(memory);
    free(is_change);
    return found;
}

/* The night of a row: the first folder below the store in its path. */
static size_t night_of(const results_history *made, size_t skip, const results_row *row)
{
    const char *name = row->path + skip;
    size_t length = strcspn(name, "/"), low = 0, high = made->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strncmp(made->nights[middle], name, length);
        if (order == 0 && made->nights[middle][length])
            order = 1;
        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return made->count;
}

typedef struct line {
    const char *group; /* the key without the size */
    const results_row *row;
    size_t night;
} line;

static int by_group(const void *first, const void *second)
{
    const line *a = first, *b = second;
    int order = strcmp(a->group, b->group);
    if (order == 0)
        order = (a->row->bytes > b->row->bytes) - (a->row->bytes < b->row->bytes);
    return order ? order : (a->night > b->night) - (a->night < b->night);
}

static size_t end_of_size(const line *lines, size_t from, size_t to)
{
    size_t at = from;
    while (at < to && lines[at].row->bytes == lines[from].row->bytes)
        at++;
    return at;
}

/* Adds a series. For several runs in a night, the mean of their logarithms counts. */
static void add_series(results_set *set, results_history *made, const line *lines, size_t count)
{
    double *times = results_keep(set, made->count * sizeof *times);
    double *number = results_keep(set, made->count * sizeof *number);
    for (size_t i = 0; i < made->count; i++)
        times[i] = number[i] = 0;
    for (size_t i = 0; i < count; i++) {
        times[lines[i].night] += log(lines[i].row->median_us);
        number[lines[i].night]++;
    }
    for (size_t i = 0; i < made->count; i++)
        times[i] = number[i] > 0 ? exp(times[i] / number[i]) : NAN;
    results_series *one = &made->series[made->nseries++];
    *one = (results_series){.row = lines[0].row, .times_us = times, .nights = made->count};
    one->nchanges = results_change_points(times, made->count, one->changes, RESULTS_CHANGES);
}

/* Turns the smallest, middle and largest size of the group in lines [0, count) into series. */
static void add_group(results_set *set, results_history *made, const line *lines, size_t count)
{
    size_t sizes = 0;
    for (size_t at = 0; at < count; at = end_of_size(lines, at, count))
        sizes++;
    size_t wanted[] = {0, sizes / 2, sizes - 1}, size = 0;
    for (size_t at = 0, end; at < count; at = end, size++) {
        end = end_of_size(lines, at, count);
        if (size == wanted[0] || size == wanted[1] || size == wanted[2])
            add_series(set, made, lines + at, end - at);
    }
}

static size_t make_lines(results_set *set, const results_history *made, size_t skip, line *lines)
{
    size_t count = 0;
    for (size_t i = 0; i < set->count; i++) {
        const results_row *row = &set->rows[i];
        size_t night = night_of(made, skip, row);
        if (row->failed || night >= made->count ||
            strcmp(row->text[RESULTS_CONTENDER], "weir") != 0)
            continue;
        const char *group = results_keep_printed(
            set, "%s|%s|%s|%06d|%s", row->text[RESULTS_COLLECTIVE], row->text[RESULTS_DTYPE],
            row->text[RESULTS_REDOP], row->nranks, row->text[RESULTS_PLACEMENT]);
        lines[count++] = (line){group, row, night};
    }
    return count;
}

static void make_series(results_set *set, results_history *made, size_t skip)
{
    line *lines = malloc((set->count + 1) * sizeof *lines);
    if (!lines)
        return;
    size_t count = make_lines(set, made, skip, lines);
    qsort(lines, count, sizeof *lines, by_group);
    made->series = results_keep(set, (count + 1) * sizeof *made->series);
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from; to < count && strcmp(lines[to].group, lines[from].group) == 0;)
            to++;
        add_group(set, made, lines + from, to - from);
    }
    free(lines);
}

static int read_sqlite(results_set *set, const char *store, results_history *made)
{
    *made = (results_history){.count = 0};
    if (results_sqlite_runs(set, store, &made->nights, &made->count) != 0 ||
        results_sqlite_read(set, store, NULL) != 0)
        return -1;
    make_series(set, made, strlen(store) + 1);
    return 0;
}

int results_history_read(results_set *set, const char *store, results_history *made)
{
    if (results_sqlite_is(store))
        return read_sqlite(set, store, made);
    struct dirent **entries = NULL;
    int count = scandir(store, &entries, NULL, alphasort);
    *made = (results_history){.count = 0};
    if (count < 0) {
        results_note(set, store, 0, "%s", strerror(errno));
        return -1;
    }
    made->nights = results_keep(set, ((size_t)count + 1) * sizeof *made->nights);
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];
        struct stat about;
        const char *name = entries[i]->d_name;
        if (name[0] != '.' &&
            snprintf(path, sizeof path, "%s/%s", store, name) < (int)sizeof path &&
            stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
            made->nights[made->count++] = results_keep_text(set, name, strlen(name));
            results_store_candidate(path, sizeof path);
            results_load(set, path, NULL);
        }
        free(entries[i]);
    }
    free(entries);
    make_series(set, made, strlen(store) + 1);
    return 0;
}
