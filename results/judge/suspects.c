/* Suspects: the criterion, their file, and the selection of rows by it. */
#include "results/judge/compare.h"

#include "results/read/load.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 512 };
static const double by_chance = 0.2;

int results_is_suspect(const results_pair *pair, const results_rules *rules)
{
    if (pair->verdict == RESULTS_REGRESSED ||
        (rules->is_strict && pair->verdict == RESULTS_INCONCLUSIVE))
        return 1;
    return pair->log_ratio >= log1p(rules->min_effect) / 2 && pair->p < by_chance;
}

static void name_row(const results_row *row, char *line)
{
    snprintf(line, LINE_BYTES, "%.60s,%.60s,%.60s,%d,%llu", row->text[RESULTS_COLLECTIVE],
             row->text[RESULTS_DTYPE], row->text[RESULTS_REDOP], row->nranks, row->bytes);
}

/* Pairs of one name are adjacent except for their placement and candidate, of which there are few,
 * so all earlier lines are searched for a name. */
void results_suspects_print(FILE *file, const results_comparison *comparison,
                            const results_rules *rules)
{
    for (size_t i = 0; i < comparison->count; i++) {
        const results_pair *pair = &comparison->pairs[i];
        char line[LINE_BYTES], other[LINE_BYTES];
        int seen = 0;
        if (!results_is_suspect(pair, rules))
            continue;
        name_row(pair->example, line);
        for (size_t j = 0; j < i && !seen; j++) {
            name_row(comparison->pairs[j].example, other);
            seen = results_is_suspect(&comparison->pairs[j], rules) && strcmp(line, other) == 0;
        }
        if (!seen)
            fprintf(file, "%s\n", line);
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void keep_rows(results_set *set, char **lines, size_t count, int keep_wrong)
{
    size_t kept = 0;
    if (count)
        qsort(lines, count, sizeof *lines, by_text);
    for (size_t i = 0; i < set->count; i++) {
        char name[LINE_BYTES], *wanted = name;
        name_row(&set->rows[i], name);
        if ((keep_wrong && set->rows[i].failed) ||
            (count > 0 && bsearch(&wanted, lines, count, sizeof *lines, by_text)))
            set->rows[kept++] = set->rows[i];
    }
    set->count = kept;
}

int results_suspects_keep(results_set *set, const char *path, int keep_wrong)
{
    char line[LINE_BYTES], **lines = NULL;
    size_t count = 0;
    FILE *file = fopen(path, "re");
    if (!file) {
        results_note(set, path, 0, "%s", strerror(errno));
        return -1;
    }
    while (fgets(line, sizeof line, file)) {
        char **more = realloc(lines, (count + 1) * sizeof *more);
        if (!more)
            break;
        lines = more;
        line[strcspn(line, "\r\n")] = '\0';
        lines[count++] = results_keep_text(set, line, strlen(line));
    }
    fclose(file);
    keep_rows(set, lines, count, keep_wrong);
    free(lines);
    return 0;
}
