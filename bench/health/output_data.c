/* Reports for programs: JSON, CTRF, JUnit and Prometheus. */
#include "bench/health/output.h"

#include "base/json.h"
#include "results/output/print.h"

#include <math.h>
#include <string.h>
#include <time.h>
#include <weir/weir.h>

static const char *relation_word(health_relation relation)
{
    static const char *const words[] = {
        [HEALTH_ANY] = "", [HEALTH_AT_LEAST] = ">=", [HEALTH_AT_MOST] = "<=", [HEALTH_EQUAL] = "="};
    return words[relation];
}

static void put_json_check(weiri_json_writer *json, const health_check *check)
{
    weiri_json_open_object(json);
    weiri_json_put_text(json, "id", check->id);
    weiri_json_put_text(json, "what", check->what);
    weiri_json_put_text(json, "verdict", health_verdict_name(check->verdict));
    weiri_json_put_real(json, "value", check->value); /* null: none */
    weiri_json_put_text(json, "unit", check->unit);
    weiri_json_put_text(json, "relation", relation_word(check->relation));
    weiri_json_put_real(json, "expected", check->expected);
    weiri_json_put_text(json, "source", check->source);
    weiri_json_put_text(json, "detail", check->detail);
    weiri_json_put_text(json, "look_at", check->look);
    weiri_json_put_real(json, "seconds", check->seconds);
    if (check->collective[0]) {
        weiri_json_put_text(json, "collective", check->collective);
        weiri_json_put_unsigned(json, "bytes", check->bytes);
        weiri_json_put_whole(json, "nranks", check->nranks);
    }
    weiri_json_close_object(json);
}

void health_write_json(const health_report *report, FILE *to)
{
    weiri_json_writer json = {.file = to, .layout = WEIRI_JSON_INDENTED};
    int judged, failed;
    health_count(report, &judged, &failed);
    weiri_json_open_object(&json);
    weiri_json_put_text(&json, "tool", "weir-check");
    weiri_json_put_whole(&json, "schema", 1);
    weiri_json_put_text(&json, "version", weir_version_string());
    weiri_json_put_text(&json, "level", report->level);
    weiri_json_put_text(&json, "host", report->host);
    weiri_json_put_text(&json, "utc", report->utc);
    weiri_json_put_text(&json, "hardware", report->hardware);
    weiri_json_put_text(&json, "cpu", report->cpu_model);
    weiri_json_put_text(&json, "gpu", report->gpu_model);
    weiri_json_put_whole(&json, "nodes", report->nodes);
    weiri_json_put_real(&json, "seconds", report->seconds);
    weiri_json_put_text(&json, "busy", report->busy ? report->busy_text : "");
    weiri_json_put_whole(&json, "judged", judged);
    weiri_json_put_whole(&json, "failed", failed);
    weiri_json_put_whole(&json, "exit_code", health_exit_code(report));
    weiri_json_put_list(&json, "checks");
    for (size_t i = 0; i < report->count; i++)
        put_json_check(&json, &report->checks[i]);
    weiri_json_close_list(&json);
    weiri_json_close_object(&json);
    fputc('\n', to);
}

/* What a failed check says in one line. */
static void health_message(const health_check *check, char *text, size_t bytes)
{
    char value[96], expected[96];
    health_value_text(check, value, sizeof value);
    health_expected_text(check, expected, sizeof expected);
    snprintf(text, bytes, "%s%s%s%s%s%s%s", value, expected[0] ? ", expected " : "", expected,
             check->detail[0] && value[0] ? "; " : "", check->detail,
             check->look[0] ? "; look at: " : "", check->look);
}

/* --------------------------------------------------------------------- CTRF */

static const char *ctrf_status(health_verdict verdict)
{
    return health_is_failure(verdict)  ? "failed"
           : verdict == HEALTH_SKIPPED ? "skipped"
           : verdict == HEALTH_NOTED   ? "other"
                                       : "passed";
}

static void put_ctrf_test(weiri_json_writer *json, const health_check *check)
{
    char message[1024];
    weiri_json_open_object(json);
    weiri_json_put_text(json, "name", check->id);
    weiri_json_put_text(json, "status", ctrf_status(check->verdict));
    weiri_json_put_whole(json, "duration", (long long)(check->seconds * 1e3));
    if (health_is_failure(check->verdict) || check->verdict == HEALTH_SKIPPED) {
        health_message(check, message, sizeof message);
        weiri_json_put_text(json, "message", message);
    }
    weiri_json_put_object(json, "extra");
    weiri_json_put_text(json, "what", check->what);
    weiri_json_put_real(json, "value", check->value);
    weiri_json_put_text(json, "unit", check->unit);
    weiri_json_put_real(json, "expected", check->expected);
    weiri_json_put_text(json, "verdict", health_verdict_name(check->verdict));
    weiri_json_close_object(json);
    weiri_json_close_object(json);
}

void health_write_ctrf(const health_report *report, FILE *to)
{
    weiri_json_writer json = {.file = to, .layout = WEIRI_JSON_INDENTED};
    const long long stop_ms = (long long)time(NULL) * 1000;
    int counts[HEALTH_VERDICTS] = {0}, judged, failed;
    for (size_t i = 0; i < report->count; i++)
        counts[report->checks[i].verdict]++;
    health_count(report, &judged, &failed);
    weiri_json_open_object(&json);
    weiri_json_put_text(&json, "reportFormat", "CTRF");
    weiri_json_put_text(&json, "specVersion", "0.0.0");
    weiri_json_put_object(&json, "results");
    weiri_json_put_object(&json, "tool");
    weiri_json_put_text(&json, "name", "weir-check");
    weiri_json_put_text(&json, "version", WEIR_VERSION);
    weiri_json_close_object(&json);
    weiri_json_put_object(&json, "summary");
    weiri_json_put_whole(&json, "tests", (long long)report->count);
    weiri_json_put_whole(&json, "passed", counts[HEALTH_PASS]);
    weiri_json_put_whole(&json, "failed", failed);
    weiri_json_put_whole(&json, "pending", 0);
    weiri_json_put_whole(&json, "skipped", counts[HEALTH_SKIPPED]);
    weiri_json_put_whole(&json, "other", counts[HEALTH_NOTED]);
    weiri_json_put_whole(&json, "start", stop_ms - (long long)(report->seconds * 1e3));
    weiri_json_put_whole(&json, "stop", stop_ms);
    weiri_json_close_object(&json);
    weiri_json_put_list(&json, "tests");
    for (size_t i = 0; i < report->count; i++)
        put_ctrf_test(&json, &report->checks[i]);
    weiri_json_close_list(&json);
    weiri_json_close_object(&json);
    weiri_json_close_object(&json);
    fputc('\n', to);
}

/* -------------------------------------------------------------------- JUnit */

static void put_xml_attribute(FILE *to, const char *name, const char *text)
{
    fprintf(to, " %s=\"", name);
    results_put_xml(to, text);
    fputc('"', to);
}

static void put_junit_case(const health_check *check, FILE *to)
{
    char message[1024], value[96];
    health_message(check, message, sizeof message);
    health_value_text(check, value, sizeof value);
    fputs("  <testcase classname=\"weir.check\"", to);
    put_xml_attribute(to, "name", check->id);
    fprintf(to, " time=\"%.3f\">\n", check->seconds);
    if (health_is_failure(check->verdict)) {
        fputs("    <failure", to);
        put_xml_attribute(to, "type", health_verdict_name(check->verdict));
        put_xml_attribute(to, "message", message);
        fputs("/>\n", to);
    } else if (check->verdict == HEALTH_SKIPPED) {
        fputs("    <skipped", to);
        put_xml_attribute(to, "message", check->detail);
        fputs("/>\n", to);
    }
    fputs("    <system-out>", to);
    results_put_xml(to, check->what);
    fputs(value[0] ? ": " : "", to);
    results_put_xml(to, value);
    fputs("</system-out>\n  </testcase>\n", to);
}

void health_write_junit(const health_report *report, FILE *to)
{
    int judged, failed, skipped = 0;
    health_count(report, &judged, &failed);
    for (size_t i = 0; i < report->count; i++)
        skipped += report->checks[i].verdict == HEALTH_SKIPPED;
    fprintf(to,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<testsuite name=\"weir-check %s\" tests=\"%zu\" failures=\"%d\" skipped=\"%d\" "
            "time=\"%.3f\"",
            report->level, report->count, failed, skipped, report->seconds);
    put_xml_attribute(to, "hostname", report->host);
    fputs(">\n", to);
    for (size_t i = 0; i < report->count; i++)
        put_junit_case(&report->checks[i], to);
    fputs("</testsuite>\n", to);
}

/* --------------------------------------------------------------- Prometheus */

/* A label's value: backslash, quote and line break are escaped. */
static void put_label(FILE *to, const char *name, const char *text)
{
    fprintf(to, "%s=\"", name);
    for (; *text; text++)
        switch (*text) {
        case '\\':
            fputs("\\\\", to);
            break;
        case '"':
            fputs("\\\"", to);
            break;
        case '\n':
            fputs("\\n", to);
            break;
        default:
            fputc((unsigned char)*text < ' ' ? '?' : *text, to);
        }
    fputc('"', to);
}

static void put_metric_head(FILE *to, const char *name, const char *help)
{
    fprintf(to, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
}

/* The collectives' values in a unit, under a metric's name. */
static void put_collectives(const health_report *report, const char *unit, double scale,
                            const char *name, FILE *to)
{
    for (size_t i = 0; i < report->count; i++) {
        const health_check *check = &report->checks[i];
        const char *candidate = strrchr(check->id, '.');
        if (!check->collective[0] || isnan(check->value) || strcmp(check->unit, unit) != 0)
            continue;
        fprintf(to, "%s{", name);
        put_label(to, "collective", check->collective);
        fprintf(to, ",bytes=\"%llu\",nranks=\"%d\",", check->bytes, check->nranks);
        put_label(to, "candidate", candidate ? candidate + 1 : "");
        fprintf(to, "} %.9g\n", check->value * scale);
    }
}

void health_write_prometheus(const health_report *report, FILE *to)
{
    int judged, failed;
    health_count(report, &judged, &failed);
    put_metric_head(to, "weir_check_failed", "Failed checks of the last run of weir-check.");
    fputs("weir_check_failed{", to);
    put_label(to, "level", report->level);
    fprintf(to, "} %d\n", failed);
    put_metric_head(to, "weir_check_exit_code", "Exit code of the last run.");
    fprintf(to, "weir_check_exit_code %d\n", health_exit_code(report));
    put_metric_head(to, "weir_check_time_seconds", "End of the last run, as Unix time.");
    fprintf(to, "weir_check_time_seconds %lld\n", (long long)time(NULL));
    put_metric_head(to, "weir_check_duration_seconds", "Duration of the last run.");
    fprintf(to, "weir_check_duration_seconds %.3f\n", report->seconds);
    put_metric_head(to, "weir_check_ok", "1 if a check passed, 0 if it failed.");
    for (size_t i = 0; i < report->count; i++) {
        const health_check *check = &report->checks[i];
        if (check->verdict != HEALTH_PASS && !health_is_failure(check->verdict))
            continue;
        fputs("weir_check_ok{", to);
        put_label(to, "check", check->id);
        fprintf(to, "} %d\n", check->verdict == HEALTH_PASS);
    }
    put_metric_head(to, "weir_check_value", "Value of a check, in the unit of its label.");
    for (size_t i = 0; i < report->count; i++) {
        const health_check *check = &report->checks[i];
        if (isnan(check->value))
            continue;
        fputs("weir_check_value{", to);
        put_label(to, "check", check->id);
        fputc(',', to);
        put_label(to, "unit", check->unit);
        fprintf(to, "} %.9g\n", check->value);
    }
    put_metric_head(to, "weir_busbw_gbs",
                    "Bus bandwidth of a collective, in 1e9 bytes per second.");
    put_collectives(report, "GB/s", 1, "weir_busbw_gbs", to);
    put_metric_head(to, "weir_latency_seconds", "Median time of a collective of few bytes.");
    put_collectives(report, "us", 1e-6, "weir_latency_seconds", to);
}
