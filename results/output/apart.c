/*
 * What distinguishes rows of one collective, type, number of ranks and placement: distributions and
 * routings, and the shape of expert parallelism. Only what differs between such rows is named.
 */
#include "results/output/print.h"

#include <stdio.h>
#include <string.h>

/* A thing that can differ: a column, or a part of the distribution that bench_moe writes, which is
 * routing/layout/shape-aALIGNMENT/dispatch type/memory[/graph]. */
typedef struct aspect {
    const char *name; /* before the value */
    results_column column;
    int part;    /* of the distribution; 0: the first, or all of it in other benchmarks */
    int is_size; /* it is what the sizes of a curve follow from */
} aspect;

static const aspect aspects[] = {
    {"", RESULTS_DIST, 0, 0},
    {"layout ", RESULTS_LAYOUT, 0, 0},
    {"tokens ", RESULTS_TOKENS, 0, 1},
    {"hidden ", RESULTS_HIDDEN, 0, 0},
    {"experts ", RESULTS_EXPERTS, 0, 0},
    {"topk ", RESULTS_TOPK, 0, 0},
    {"alignment ", RESULTS_DIST, 2, 0},
    {"dispatch ", RESULTS_DISPATCH_DTYPE, 0, 0},
    {"memory ", RESULTS_DIST, 4, 0},
    {"", RESULTS_DIST, 5, 0},
    {"", RESULTS_BUFFERS, 0, 0},
    {"mode ", RESULTS_MODE, 0, 0},
    {"graph ", RESULTS_GRAPH, 0, 0},
    {"split ", RESULTS_SPLIT, 0, 0},
    {"group ", RESULTS_GROUP, 0, 0},
    {"sms ", RESULTS_SMS_BUDGET, 0, 0},
};
enum { ASPECTS = sizeof aspects / sizeof *aspects };

/* Finds a part of a distribution; returns its length, 0 if there is none. */
static size_t part_of(const char *dist, int part, const char **text)
{
    *text = dist;
    for (; part > 0; part--) {
        const char *slash = strchr(*text, '/');
        *text = slash ? slash + 1 : *text + strlen(*text);
    }
    return strcspn(*text, "/");
}

/* Finds the value of an aspect; returns its length. */
static size_t value_of(const results_row *row, const aspect *a, const char **text)
{
    const int is_moe = row->text[RESULTS_TOKENS][0] != '\0';
    *text = row->text[a->column];
    if (is_moe && (a->column == RESULTS_BUFFERS || a->column == RESULTS_GRAPH)) /* in its dist */
        return 0;
    if (a->column != RESULTS_DIST || (!is_moe && a->part == 0))
        return strlen(*text);
    if (!is_moe)
        return 0;
    size_t length = part_of(row->text[RESULTS_DIST], a->part, text);
    if (a->part != 2)
        return length;
    for (size_t at = length; at > 1; at--) /* the number after the last -a */
        if ((*text)[at - 2] == '-' && (*text)[at - 1] == 'a') {
            *text += at;
            return length - at;
        }
    return 0;
}

static int same_value(const results_row *a, const results_row *b, const aspect *of)
{
    const char *first, *second;
    const size_t length = value_of(a, of, &first);
    return length == value_of(b, of, &second) && memcmp(first, second, length) == 0;
}

int results_same_group(const results_row *a, const results_row *b)
{
    static const int columns[] = {RESULTS_COLLECTIVE, RESULTS_DTYPE, RESULTS_REDOP,
                                  RESULTS_PLACEMENT};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (strcmp(a->text[columns[i]], b->text[columns[i]]) != 0)
            return 0;
    return a->nranks == b->nranks;
}

/* Whether a row of the group that contains pair has another value. Groups are contiguous. */
static int differs(const results_comparison *c, const results_pair *pair, const aspect *of)
{
    const results_row *row = pair->example;
    const results_pair *end = c->pairs + c->count;
    for (const results_pair *at = pair; at > c->pairs && results_same_group(at[-1].example, row);
         at--)
        if (!same_value(at[-1].example, row, of))
            return 1;
    for (const results_pair *at = pair + 1; at < end && results_same_group(at->example, row); at++)
        if (!same_value(at->example, row, of))
            return 1;
    return 0;
}

void results_pair_apart(const results_comparison *c, const results_pair *pair, const char *before,
                        int of_curve, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < ASPECTS && used < bytes; i++) {
        const char *value;
        const size_t length = value_of(pair->example, &aspects[i], &value);
        if (!length || (of_curve && aspects[i].is_size) || !differs(c, pair, &aspects[i]))
            continue;
        used += (size_t)snprintf(text + used, bytes - used, "%s%s%.*s", used ? ", " : before,
                                 aspects[i].name, (int)(length < 200 ? length : 200), value);
    }
}
