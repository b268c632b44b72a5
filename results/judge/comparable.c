/*
 * Why rows of two sets have no counterpart: the sides differ in something that makes times
 * incomparable, such as the number of ranks or the memory. Each such property is named with the
 * values of both sides.
 */
#include "results/judge/compare.h"

#include "base/words.h"

#include <stdlib.h>
#include <string.h>

enum { VALUES_MOST = 4, VALUE_BYTES = 48 };

/* The different values that the rows of a side have in one column. */
typedef struct side_values {
    char text[VALUES_MOST][VALUE_BYTES];
    int count, more; /* more: there are others */
} side_values;

typedef struct property {
    results_column column;
    const char *noun; /* counted things: "rank"; NULL: values are words */
} property;

static const property properties[] = {
    {RESULTS_COLLECTIVE, NULL}, {RESULTS_NRANKS, "rank"},   {RESULTS_BACKEND, NULL},
    {RESULTS_NNODES, "node"},   {RESULTS_DTYPE, NULL},      {RESULTS_CONTENDER, NULL},
    {RESULTS_BUFFERS, NULL},    {RESULTS_MODE, NULL},       {RESULTS_GRAPH, NULL},
    {RESULTS_SPLIT, NULL},      {RESULTS_SMS_BUDGET, NULL},
};

static const char *value_word(const property *of, const results_row *row)
{
    const char *text = row->text[of->column];
    if (of->column == RESULTS_CONTENDER) /* what makes its times other times */
        return strstr(text, ":cputime")  ? "times of the processor"
               : strstr(text, "-groups") ? "times of several groups at once"
                                         : "plain times";
    if (of->column == RESULTS_BUFFERS && *text)
        return strcmp(text, "registered") == 0 ? "registered buffers" : "unregistered buffers";
    if (of->column == RESULTS_SPLIT && !*text)
        return "undivided ranks";
    if (of->column == RESULTS_SMS_BUDGET)
        return *text ? text : "any number of blocks";
    if (of->column == RESULTS_GRAPH && *text)
        return strcmp(text, "0") == 0 ? "calls without graphs" : "replays of graphs";
    if (of->column != RESULTS_BACKEND)
        return text;
    return strcmp(text, "cuda") == 0   ? "GPU memory"
           : strcmp(text, "host") == 0 ? "host memory"
                                       : text;
}

static int by_number_or_text(const void *first, const void *second)
{
    const char *a = first, *b = second;
    const long difference = strtol(a, NULL, 10) - strtol(b, NULL, 10);
    return difference ? (difference > 0) - (difference < 0) : strcmp(a, b);
}

static void values_collect(side_values *values, const results_set *set, const char *contender,
                           const property *of)
{
    *values = (side_values){.count = 0};
    for (size_t i = 0; i < set->count; i++) {
        const char *word = value_word(of, &set->rows[i]);
        int k = 0;
        if (!results_is_contender(contender, &set->rows[i]) || !word[0])
            continue;
        while (k < values->count && strncmp(values->text[k], word, VALUE_BYTES - 1) != 0)
            k++;
        if (k == VALUES_MOST)
            values->more = 1;
        else if (k == values->count)
            snprintf(values->text[values->count++], VALUE_BYTES, "%s", word);
    }
    qsort(values->text, (size_t)values->count, VALUE_BYTES, by_number_or_text);
}

/* Whether both sides have values, and not the same ones. A side that states none may fit. */
static int values_differ(const side_values *a, const side_values *b)
{
    if (a->count == 0 || b->count == 0)
        return 0;
    return a->count != b->count || a->more != b->more ||
           memcmp(a->text, b->text, (size_t)a->count * VALUE_BYTES) != 0;
}

/* "4 ranks", "2 and 4 ranks", "GPU memory". */
static void values_write(FILE *to, const side_values *values, const char *noun)
{
    for (int i = 0; i < values->count; i++)
        fprintf(to, "%s%s",
                i == 0                                  ? ""
                : i + 1 < values->count || values->more ? ", "
                                                        : " and ",
                values->text[i]);
    fputs(values->more ? ", ..." : "", to);
    if (noun)
        fprintf(to, " %s%s", noun,
                values->count == 1 ? weiri_s(strtoull(values->text[0], NULL, 10)) : "s");
}

void results_differences_find(const results_set *a, const results_set *b,
                              results_comparison *comparison)
{
    char *text = comparison->differences;
    FILE *to = fmemopen(text, sizeof comparison->differences, "w");
    int found = 0;
    text[0] = '\0';
    for (size_t i = 0; to && i < sizeof properties / sizeof *properties; i++) {
        const property *of = &properties[i];
        side_values of_a, of_b;
        values_collect(&of_a, a, comparison->contender_a, of);
        values_collect(&of_b, b, comparison->contender_b, of);
        if (!values_differ(&of_a, &of_b))
            continue;
        fputs(found++ ? "; A has " : "A has ", to);
        values_write(to, &of_a, of->noun);
        fputs(", B has ", to);
        /* "A has 4 ranks, B has 2" */
        values_write(to, &of_b, of_a.count == 1 && of_b.count == 1 ? NULL : of->noun);
    }
    if (to)
        fclose(to);
    text[sizeof comparison->differences - 1] = '\0';
}
