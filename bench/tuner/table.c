/* The table of a tuner: see tuner.h. Needs nothing of weir, since the plug-in contains it. */
#include "bench/tuner/tuner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS_LEAST = 8, FIELDS_MOST = 10, LINE_BYTES = 256, ROWS_MOST = 1 << 16 };

const char *const bench_tuner_collectives[TUNER_COLLECTIVES] = {"broadcast", "reduce", "allgather",
                                                                "reducescatter", "allreduce"};
const char *const bench_tuner_algorithms[TUNER_ALGORITHMS] = {
    "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
const char *const bench_tuner_protocols[TUNER_PROTOCOLS] = {"ll", "ll128", "simple"};

/* The index of a word; -1 if it is none of them. */
static int tuner_word(const char *text, const char *const *words, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(words[i], text) == 0)
            return i;
    return -1;
}

static int tuner_bytes(const char *text, unsigned long long *bytes)
{
    char *end;
    errno = 0;
    *bytes = strtoull(text, &end, 10);
    return errno || *end || *text < '0' || *text > '9' ? -1 : 0;
}

static int tuner_number(const char *text, long *number)
{
    char *end;
    errno = 0;
    *number = strtol(text, &end, 10);
    return errno || *end || end == text || *number < -1 || *number > 1 << 30 ? -1 : 0;
}

/* Cuts a line at its commas, and blanks off the fields. Returns their number. */
static int tuner_cut(char *line, char *fields[FIELDS_MOST])
{
    int count = 0;
    for (char *at = line; at && count <= FIELDS_MOST; count++) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma = '\0';
        at += strspn(at, " \t");
        for (size_t n = strlen(at); n && strchr(" \t", at[n - 1]); n--)
            at[n - 1] = '\0';
        if (count < FIELDS_MOST)
            fields[count] = at;
        at = comma ? comma + 1 : NULL;
    }
    return count;
}

int bench_tuner_parse(char *line, tuner_row *row, const char **problem)
{
    char *fields[FIELDS_MOST];
    long channels, numbers[4] = {-1, -1, -1, -1};
    line[strcspn(line, "\r\n")] = '\0';
    if (line[strspn(line, " \t")] == '\0' || *line == '#')
        return 0;
    const int count = tuner_cut(line, fields);
    *problem = "expected collective,min bytes,max bytes,algorithm,protocol,channels,nodes,ranks,"
               "operations,registered; the last two may be left out";
    if (count < FIELDS_LEAST || count > FIELDS_MOST)
        return -1;
    *row = (tuner_row){.collective =
                           tuner_word(fields[0], bench_tuner_collectives, TUNER_COLLECTIVES)};
    row->setting.algorithm = tuner_word(fields[3], bench_tuner_algorithms, TUNER_ALGORITHMS);
    row->setting.protocol = tuner_word(fields[4], bench_tuner_protocols, TUNER_PROTOCOLS);
    *problem = "expected broadcast, reduce, allgather, reducescatter or allreduce";
    if (row->collective < 0)
        return -1;
    *problem =
        "expected tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree or pat, and then "
        "ll, ll128 or simple";
    if (row->setting.algorithm < 0 || row->setting.protocol < 0)
        return -1;
    *problem = "expected two sizes in bytes, the smaller one first";
    if (tuner_bytes(fields[1], &row->min_bytes) || tuner_bytes(fields[2], &row->max_bytes) ||
        row->min_bytes > row->max_bytes)
        return -1;
    *problem = "expected whole numbers from -1 on after the protocol";
    for (int i = 6; i < count; i++)
        if (tuner_number(fields[i], &numbers[i - 6]) != 0)
            return -1;
    if (tuner_number(fields[5], &channels) != 0 || channels == 0 || channels > 1024)
        return -1;
    row->setting.channels = (int)channels;
    row->nodes = numbers[0];
    row->ranks = numbers[1];
    row->operations = numbers[2];
    row->registered = numbers[3];
    return 1;
}

static int tuner_add(tuner_table *table, const tuner_row *row)
{
    if (table->count == ROWS_MOST)
        return -1;
    if ((table->count & (table->count - 1)) == 0) {
        const size_t room = table->count ? 2 * (size_t)table->count : 1;
        tuner_row *more = realloc(table->rows, room * sizeof *more);
        if (!more)
            return -1;
        table->rows = more;
    }
    table->rows[table->count++] = *row;
    return 0;
}

int bench_tuner_read(const char *path, tuner_table *table, char *problem, size_t bytes)
{
    char line[LINE_BYTES];
    const char *reason = NULL;
    int number = 0;
    *table = (tuner_table){0};
    FILE *file = fopen(path, "re");
    if (!file) {
        snprintf(problem, bytes, "%s: %s", path, strerror(errno));
        return -1;
    }
    while (!reason && fgets(line, sizeof line, file)) {
        tuner_row row;
        number++;
        if (!strchr(line, '\n') && strlen(line) == sizeof line - 1) {
            reason = "a line has more than 254 characters";
            break;
        }
        const char *found = NULL;
        const int is_row = bench_tuner_parse(line, &row, &found);
        if (is_row == 1 && tuner_add(table, &row) != 0)
            reason = "more rows than fit";
        if (is_row == -1)
            reason = found;
    }
    if (ferror(file) && !reason)
        reason = "cannot be read";
    fclose(file);
    if (!reason)
        return 0;
    snprintf(problem, bytes, "%s:%d: %s", path, number, reason);
    bench_tuner_free(table);
    return -1;
}

void bench_tuner_free(tuner_table *table)
{
    free(table->rows);
    *table = (tuner_table){0};
}

static int tuner_fits(long wanted, long is)
{
    return wanted < 0 || is < 0 || wanted == is;
}

const tuner_row *bench_tuner_find(const tuner_table *table, int collective,
                                  unsigned long long bytes, long nodes, long ranks, long operations,
                                  long registered)
{
    for (int i = 0; i < table->count; i++) {
        const tuner_row *row = &table->rows[i];
        if (row->collective == collective && bytes >= row->min_bytes && bytes <= row->max_bytes &&
            tuner_fits(row->nodes, nodes) && tuner_fits(row->ranks, ranks) &&
            tuner_fits(row->operations, operations) && tuner_fits(row->registered, registered))
            return row;
    }
    return NULL;
}
