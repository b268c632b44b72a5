/* A judged comparison and its expectations as checks: see print.h. */
#include "results/output/print.h"

#include "base/words.h"

#include <math.h>
#include <string.h>

/* Metrics of a row have these columns as labels, so that no two rows have the same ones. */
static const struct {
    const char *name;
    results_column column;
} labels[] = {{"candidate", RESULTS_CONTENDER}, {"algo", RESULTS_ALGO},
              {"dtype", RESULTS_DTYPE},         {"redop", RESULTS_REDOP},
              {"root", RESULTS_ROOT},           {"placement", RESULTS_PLACEMENT},
              {"backend", RESULTS_BACKEND},     {"nnodes", RESULTS_NNODES},
              {"dist", RESULTS_DIST},           {"host", RESULTS_HOST}};
enum { LABELS = sizeof labels / sizeof *labels };
_Static_assert(sizeof labels / sizeof *labels <= (size_t)RESULTS_LABELS_MAX,
               "a check has room for all labels");

/* B's figures: medians over its runs. */
static void compared_add_figures(const results_pair *pair, results_check *check)
{
    const results_row *row = pair->b.rows[0];
    check->collective = row->text[RESULTS_COLLECTIVE];
    check->bytes = row->bytes;
    check->nranks = row->nranks;
    for (int i = 0; i < LABELS; i++)
        check->labels[i] = (results_label){labels[i].name, row->text[labels[i].column]};
    check->busbw_gbs = pair->b.busbw_gbs;
    check->time_us = pair->b.median_us;
}

/* Whether another check has that id. */
static int compared_has(const results_checks *checks, const char *id)
{
    for (size_t i = 0; i + 1 < checks->count; i++)
        if (strcmp(checks->list[i].id, id) == 0)
            return 1;
    return 0;
}

/* "4096 bytes, float sum, 4 ranks, out, weir", with the collective before it, and what
 * distinguishes it from rows like it; the algorithm or a number follows if that is not unique. */
static const char *compared_id(results_checks *checks, const results_comparison *c,
                               const results_pair *pair)
{
    const results_row *row = pair->example;
    const int cross = c->cross;
    char apart[300];
    results_pair_apart(c, pair, ", ", 0, apart, sizeof apart);
    const char *id =
        results_keep_printed(&checks->memory, "%s, %llu bytes, %s %s, %d rank%s, %s%s%s%s",
                             row->text[RESULTS_COLLECTIVE], row->bytes, row->text[RESULTS_DTYPE],
                             row->text[RESULTS_REDOP], row->nranks,
                             weiri_s((unsigned long long)row->nranks), row->text[RESULTS_PLACEMENT],
                             cross ? "" : ", ", cross ? "" : row->text[RESULTS_CONTENDER], apart);
    const char *longer = id;
    for (int i = 1; compared_has(checks, longer); i++)
        longer = i == 1 && row->text[RESULTS_ALGO][0]
                     ? results_keep_printed(&checks->memory, "%s, %s", id, row->text[RESULTS_ALGO])
                     : results_keep_printed(&checks->memory, "%s, %d", id, i);
    return longer;
}

static results_check_state compared_state(results_verdict verdict, int is_strict)
{
    switch (verdict) {
    case RESULTS_REGRESSED:
        return RESULTS_FAILED;
    case RESULTS_INCONCLUSIVE:
        return is_strict ? RESULTS_FAILED : RESULTS_SKIPPED;
    case RESULTS_MISSING_IN_A:
    case RESULTS_MISSING_IN_B:
        return RESULTS_SKIPPED;
    default:
        return RESULTS_PASSED;
    }
}

static const char *compared_detail(results_checks *checks, const results_pair *pair)
{
    const char *reason = pair->reason;
    if (isnan(pair->ratio))
        return reason;
    return results_keep_printed(
        &checks->memory, "B/A %.3f (%.3f to %.3f); A %.2f us, %.2f GB/s; B %.2f us, %.2f GB/s%s%s",
        pair->ratio, pair->low, pair->high, pair->a.median_us, pair->a.busbw_gbs, pair->b.median_us,
        pair->b.busbw_gbs, reason[0] ? "; " : "", reason);
}

/* The ratio of B's time to A's, which may be 1 + min_effect. */
static void compared_add_pair(results_checks *checks, const results_report *report,
                              const results_pair *pair)
{
    results_check *check = results_checks_add(checks);
    check->group =
        results_keep_printed(&checks->memory, "weir.%s", pair->example->text[RESULTS_COLLECTIVE]);
    check->id = compared_id(checks, report->comparison, pair);
    check->what = report->name_a ? "time of B divided by the time of A" : "results of B";
    check->verdict = results_pair_word(pair, report->comparison->cross || !report->name_a);
    check->state = compared_state(pair->verdict, report->rules->is_strict);
    check->value = pair->ratio;
    check->decimals = 3;
    if (!isnan(pair->ratio)) {
        check->relation = "<=";
        check->expected = 1 + report->rules->min_effect;
        check->source = report->name_a;
    }
    check->detail = report->name_a ? compared_detail(checks, pair) : "wrong results";
    if (pair->b.starts > 0)
        compared_add_figures(pair, check);
}

/* Whether the row's figures belong to an expectation: two with the same labels would be an error.
 * */
static int compared_is_new_row(const results_expectations *all, const results_expectation *one)
{
    for (const results_expectation *other = all->list; other < one; other++)
        if (other->worst == one->worst)
            return 0;
    return one->worst && one->worst->b.starts > 0;
}

static void compared_add_expectation(results_checks *checks, const results_report *report,
                                     const results_expectation *one)
{
    char about[1400];
    results_check *check = results_checks_add(checks);
    check->group = "weir.expected";
    check->id = one->text;
    for (int i = 2; compared_has(checks, check->id); i++)
        check->id = results_keep_printed(&checks->memory, "%s (%d)", one->text, i);
    check->what = one->is_time ? "time" : one->is_algbw ? "algorithm bandwidth" : "bus bandwidth";
    check->verdict = results_outcome_name(one->outcome);
    check->state = one->outcome == RESULTS_MET                                 ? RESULTS_PASSED
                   : one->outcome == RESULTS_UNMET || report->rules->is_strict ? RESULTS_FAILED
                                                                               : RESULTS_SKIPPED;
    check->value = one->worst ? one->got : NAN;
    check->unit = one->is_time ? "us" : "GB/s";
    check->decimals = 2;
    check->relation = one->is_time ? "<=" : ">=";
    check->expected = one->value;
    check->source = one->path;
    results_expect_describe(one, about, sizeof about);
    check->detail = results_keep_text(&checks->memory, about, strlen(about));
    if (!report->name_a && compared_is_new_row(report->expectations, one))
        compared_add_figures(one->worst, check);
}

/* Lines of B that may hide a result. */
static void compared_add_losses(results_checks *checks, const results_report *report)
{
    results_check *check = results_checks_add(checks);
    check->group = "weir.files";
    check->id = "lines of B that cannot be used";
    check->what = "lines or files, or reports of a failure";
    check->verdict = "incomplete";
    check->state = RESULTS_FAILED;
    check->value = (double)report->comparison->losses;
    check->relation = "<=";
    check->expected = 0;
    check->detail = "standard error names them";
}

void results_checks_of_expectations(const results_report *report, results_checks *checks)
{
    const results_expectations *e = report->expectations;
    for (size_t i = 0; e && i < e->count; i++)
        compared_add_expectation(checks, report, &e->list[i]);
}

void results_checks_of_report(const results_report *report, results_checks *checks)
{
    const results_comparison *c = report->comparison;
    checks->host = c->hosts_b;
    checks->exit_code = report->exit_code;
    for (size_t i = 0; i < c->count; i++)
        if (report->name_a || c->pairs[i].b.failed)
            compared_add_pair(checks, report, &c->pairs[i]);
    if (c->losses > 0)
        compared_add_losses(checks, report);
    results_checks_of_expectations(report, checks);
}
