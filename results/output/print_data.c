/* A comparison as JSON, rows as CSV. */
#include "results/output/print.h"

#include "base/csv.h"

#include <math.h>
#include <string.h>

/* Bytes that are not UTF-8 would make the file none: they are shown as '?'. */
void results_put_json(FILE *file, const char *text)
{
    fputc('"', file);
    while (*text) {
        size_t length = results_utf8_length(text);
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < ' ' || c == 127)
            fprintf(file, "\\u%04x", c);
        else if (length == 0)
            fputc('?', file);
        else
            fwrite(text, 1, length, file);
        text += length ? length : 1;
    }
    fputc('"', file);
}

static void put_text(FILE *file, const char *key, const char *text)
{
    fprintf(file, ", \"%s\": ", key);
    results_put_json(file, text);
}

static void put_real(FILE *file, const char *key, double value)
{
    if (isfinite(value))
        fprintf(file, ", \"%s\": %.9g", key, value);
    else
        fprintf(file, ", \"%s\": null", key);
}

static void put_side(FILE *file, const char *key, const results_side *side)
{
    fprintf(file, ", \"%s\": {\"starts\": %d", key, side->starts);
    put_real(file, "median_us", side->median_us);
    put_real(file, "busbw_gbs", side->busbw_gbs);
    if (side->starts > 0) {
        put_text(file, "contender", side->rows[0]->text[RESULTS_CONTENDER]);
        put_text(file, "algo", side->rows[0]->text[RESULTS_ALGO]);
    }
    fprintf(file, ", \"failed\": %s}", side->failed ? "true" : "false");
}

static void put_pair(FILE *file, const results_pair *pair)
{
    const results_row *row = pair->example;
    fprintf(file, "    {\"bytes\": %llu", row->bytes);
    put_text(file, "collective", row->text[RESULTS_COLLECTIVE]);
    put_text(file, "dtype", row->text[RESULTS_DTYPE]);
    put_text(file, "redop", row->text[RESULTS_REDOP]);
    fprintf(file, ", \"nranks\": %d", row->nranks);
    put_text(file, "placement", row->text[RESULTS_PLACEMENT]);
    put_side(file, "a", &pair->a);
    put_side(file, "b", &pair->b);
    put_real(file, "ratio", pair->ratio);
    put_real(file, "low", pair->low);
    put_real(file, "high", pair->high);
    put_real(file, "p", pair->p);
    put_real(file, "p_corrected", pair->p_corrected);
    fprintf(file, ", \"pairs\": %d", pair->paired);
    put_text(file, "verdict", results_verdict_name(pair->verdict));
    put_text(file, "reason", pair->reason);
    fputc('}', file);
}

static void put_expectation(FILE *file, const results_expectation *one)
{
    char about[1400];
    fprintf(file, "    {\"line\": %d", one->line);
    put_text(file, "text", one->text);
    put_text(file, "outcome", results_outcome_name(one->outcome));
    put_real(file, "got", one->worst ? one->got : NAN);
    results_expect_describe(one, about, sizeof about);
    put_text(file, "about", about);
    fputc('}', file);
}

void results_print_json(FILE *file, const results_report *report)
{
    const results_comparison *c = report->comparison;
    const results_expectations *e = report->expectations;
    fprintf(file, "{\"schema\": 1, \"problems\": %zu",
            report->b->problems + (report->a ? report->a->problems : 0));
    put_text(file, "a", report->name_a ? report->name_a : "");
    put_text(file, "b", report->name_b);
    put_text(file, "verdict", results_verdict_name(c->overall));
    put_real(file, "min_effect", report->rules->min_effect);
    put_real(file, "alpha", report->rules->alpha);
    put_real(file, "start_noise", c->noise);
    fprintf(file, ", \"start_noise_measured\": %s", c->noise_freedom > 0 ? "true" : "false");
    fputs(",\n  \"rows\": [\n", file);
    for (size_t i = 0; i < c->count; i++) {
        put_pair(file, &c->pairs[i]);
        fputs(i + 1 < c->count ? ",\n" : "\n", file);
    }
    fputs("  ],\n  \"expected\": [\n", file);
    for (size_t i = 0; i < e->count; i++) {
        put_expectation(file, &e->list[i]);
        fputs(i + 1 < e->count ? ",\n" : "\n", file);
    }
    fputs("  ]}\n", file);
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
            weiri_csv_write_field(file, set->rows[i].text[j]);
        }
        fputc('\n', file);
    }
}
