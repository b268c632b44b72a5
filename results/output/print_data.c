/* A comparison as JSON, and rows as CSV. */
#include "results/output/print.h"

#include "base/json.h"
#include "programs/csv.h"

#include <math.h>

static void put_real(weiri_json_writer *json, const char *key, double value)
{
    weiri_json_key(json, key);
    weiri_json_real_digits(json, value, 9);
}

static void put_side(weiri_json_writer *json, const char *key, const results_side *side)
{
    weiri_json_put_object(json, key);
    weiri_json_put_whole(json, "starts", side->starts);
    put_real(json, "median_us", side->median_us);
    put_real(json, "busbw_gbs", side->busbw_gbs);
    if (side->starts > 0) {
        weiri_json_put_text(json, "contender", side->rows[0]->text[RESULTS_CONTENDER]);
        weiri_json_put_text(json, "algo", side->rows[0]->text[RESULTS_ALGO]);
    }
    weiri_json_put_flag(json, "failed", side->failed != NULL);
    weiri_json_close_object(json);
}

static void put_pair(weiri_json_writer *json, const results_pair *pair)
{
    const results_row *row = pair->example;
    weiri_json_break(json, 4);
    weiri_json_open_object(json);
    weiri_json_put_unsigned(json, "bytes", row->bytes);
    weiri_json_put_text(json, "collective", row->text[RESULTS_COLLECTIVE]);
    weiri_json_put_text(json, "dtype", row->text[RESULTS_DTYPE]);
    weiri_json_put_text(json, "redop", row->text[RESULTS_REDOP]);
    weiri_json_put_whole(json, "nranks", row->nranks);
    weiri_json_put_text(json, "placement", row->text[RESULTS_PLACEMENT]);
    put_side(json, "a", &pair->a);
    put_side(json, "b", &pair->b);
    put_real(json, "ratio", pair->ratio);
    put_real(json, "low", pair->low);
    put_real(json, "high", pair->high);
    put_real(json, "p", pair->p);
    put_real(json, "p_corrected", pair->p_corrected);
    weiri_json_put_whole(json, "pairs", pair->paired);
    weiri_json_put_text(json, "verdict", results_verdict_name(pair->verdict));
    weiri_json_put_text(json, "reason", pair->reason);
    weiri_json_close_object(json);
}

static void put_expectation(weiri_json_writer *json, const results_expectation *one)
{
    char about[1400];
    weiri_json_break(json, 4);
    weiri_json_open_object(json);
    weiri_json_put_whole(json, "line", one->line);
    weiri_json_put_text(json, "text", one->text);
    weiri_json_put_text(json, "outcome", results_outcome_name(one->outcome));
    put_real(json, "got", one->worst ? one->got : NAN);
    results_expect_describe(one, about, sizeof about);
    weiri_json_put_text(json, "about", about);
    weiri_json_close_object(json);
}

/* An array of the top-level object, each value on a separate line; close_section ends it. */
static void open_section(weiri_json_writer *json, const char *key)
{
    weiri_json_break(json, 2);
    weiri_json_put_list(json, key);
}

static void close_section(weiri_json_writer *json)
{
    weiri_json_break(json, 2);
    weiri_json_close_list(json);
}

void results_print_json(FILE *file, const results_report *report)
{
    const results_comparison *c = report->comparison;
    const results_expectations *e = report->expectations;
    size_t problems = report->b->problems + (report->a ? report->a->problems : 0);
    weiri_json_writer json = {.file = file, .layout = WEIRI_JSON_INLINE};
    weiri_json_open_object(&json);
    weiri_json_put_whole(&json, "schema", 1);
    weiri_json_put_whole(&json, "problems", (long long)problems);
    weiri_json_put_text(&json, "a", report->name_a ? report->name_a : "");
    weiri_json_put_text(&json, "b", report->name_b);
    weiri_json_put_text(&json, "verdict", results_verdict_name(c->overall));
    weiri_json_put_whole(&json, "losses", (long long)c->losses);
    put_real(&json, "min_effect", report->rules->min_effect);
    put_real(&json, "alpha", report->rules->alpha);
    put_real(&json, "start_noise", c->noise);
    weiri_json_put_flag(&json, "start_noise_measured", c->noise_freedom > 0);
    open_section(&json, "rows");
    for (size_t i = 0; i < c->count; i++)
        put_pair(&json, &c->pairs[i]);
    close_section(&json);
    open_section(&json, "expected");
    for (size_t i = 0; i < e->count; i++)
        put_expectation(&json, &e->list[i]);
    close_section(&json);
    results_checks checks;
    results_checks_begin(&checks, "weir-compare");
    results_checks_of_report(report, &checks);
    weiri_json_break(&json, 2);
    results_checks_json(&checks, &json);
    results_checks_free(&checks);
    weiri_json_close_object(&json);
    fputc('\n', file);
}

void results_print_csv(FILE *file, const results_set *set)
{
    for (int i = 0; i < RESULTS_COLUMNS; i++)
        fprintf(file, "%s%s", i ? "," : "", results_column_name((results_column)i));
    fputc('\n', file);
    for (size_t i = 0; i < set->count; i++) {
        for (int j = 0; j < RESULTS_COLUMNS; j++) {
            if (j)
                fputc(',', file);
            if (set->rows[i].text[j][0])
                weiri_csv_write_field(file, set->rows[i].text[j]);
        }
        fputc('\n', file);
    }
}
