/*
 * Whether the fields of a row agree with each other, and whether its schema is known. What a row
 * contradicts is reported, and does not count: a gate must not pass because of a field that another
 * one disproves.
 */
#include "results/read/rows.h"

#include <math.h>
#include <string.h>

/* Reports a schema that this program does not know, once a file. */
static void check_schema(results_set *set, const results_row *row)
{
    const char *text = row->text[RESULTS_SCHEMA];
    unsigned long long schema = 0;
    int is_own = row->origin == RESULTS_OWN_CSV || row->origin == RESULTS_OWN_ROWS;
    if (!is_own || !text[0] ||
        (results_whole(text, &schema) == 0 && schema >= 1 && schema <= WEIRI_COLUMNS_SCHEMA))
        return;
    if (set->schema_path && strcmp(set->schema_path, row->path) == 0)
        return;
    set->schema_path = row->path;
    results_note(set, row->path, row->line,
                 "unknown schema '%s': this program knows 1 to %d, and fields may mean something "
                 "else; use the weir that wrote the file, or a newer one",
                 text, WEIRI_COLUMNS_SCHEMA);
}

/* Whether a row counts wrong elements, whatever its verdict says. */
static int counts_wrong(const results_row *row)
{
    double wrong = 0;
    return results_real(row->text[RESULTS_WRONG], &wrong) == 0 && wrong != 0;
}

int results_sense_failed(results_set *set, const results_row *row)
{
    static const results_column parts[] = {RESULTS_SPECIAL, RESULTS_WRONG};
    if (strcmp(row->text[RESULTS_VERIFY], "fail") == 0)
        return 1;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *text = row->text[parts[i]];
        if (parts[i] == RESULTS_WRONG ? !counts_wrong(row) : strcmp(text, "fail") != 0)
            continue;
        results_note(set, row->path, row->line,
                     "verify '%s' contradicts %s '%s'; the results count as wrong",
                     row->text[RESULTS_VERIFY], results_column_name(parts[i]), text);
        return 1;
    }
    return 0;
}

void results_sense_words(results_set *set, const results_row *row)
{
    check_schema(set, row);
    if (row->nnodes > row->nranks)
        results_note(set, row->path, row->line,
                     "nnodes %d contradicts nranks %d: a node has a rank", row->nnodes,
                     row->nranks);
}

/* Reports limits that do not enclose the median. */
static void check_limits(results_set *set, const results_row *row, results_column low_column,
                         results_column high_column)
{
    double low = -INFINITY, high = INFINITY;
    results_real(row->text[low_column], &low);
    results_real(row->text[high_column], &high);
    if (low <= row->median_us && row->median_us <= high)
        return;
    results_lose(
        set, row->path, row->line, "%s '%s' and %s '%s' contradict median_us '%s'; not used",
        results_column_name(low_column), row->text[low_column], results_column_name(high_column),
        row->text[high_column], row->text[RESULTS_MEDIAN_US]);
}

/* Reports a bandwidth above what bytes and median make: an expectation would be met by it. Printed
 * digits are rounded. */
static void check_bandwidth(results_set *set, const results_row *row, results_column column,
                            double made)
{
    double stated = 0;
    const char *text = row->text[column], *dot = strchr(text, '.');
    const double half = strpbrk(text, "eE") ? 0 : 0.5 * pow(10, dot ? -(double)strlen(dot + 1) : 0);
    const double rounding = 1.005 + 0.0005 / row->median_us; /* three decimals of a time */
    if (results_real(text, &stated) != 0 || stated <= rounding * made + half)
        return;
    set->disproved++;
    results_lose(set, row->path, row->line, "%s '%s' contradicts bytes and median_us",
                 results_column_name(column), text);
}

void results_sense_numbers(results_set *set, const results_row *row)
{
    const double made = (double)row->bytes / row->median_us / 1e3;
    const double factor = results_bus_factor(row->text[RESULTS_COLLECTIVE], row->nranks);
    if (results_is_own(row->origin)) { /* others time single iterations apart from the mean */
        check_limits(set, row, RESULTS_MIN_US, RESULTS_MAX_US);
        check_bandwidth(set, row, RESULTS_ALGBW_GBS, made);
        check_bandwidth(set, row, RESULTS_BUSBW_GBS, made * fmax(1, factor));
    }
    check_limits(set, row, RESULTS_CI_LOW_US, RESULTS_CI_HIGH_US);
}
