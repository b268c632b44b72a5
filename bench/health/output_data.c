/* A report as the checks that all programs that judge write (results/output/checks.h), and the
 * forms that are written from them alone. */
#include "bench/health/output.h"

#include "base/error.h"
#include "base/json.h"
#include "base/write_file.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <weir/weir.h>

static const char *health_relation_word(health_relation relation)
{
    static const char *const words[] = {
        [HEALTH_ANY] = "", [HEALTH_AT_LEAST] = ">=", [HEALTH_AT_MOST] = "<=", [HEALTH_EQUAL] = "="};
    return words[relation];
}

static results_check_state health_state(health_verdict verdict)
{
    return health_is_failure(verdict)  ? RESULTS_FAILED
           : verdict == HEALTH_SKIPPED ? RESULTS_SKIPPED
           : verdict == HEALTH_NOTED   ? RESULTS_NOTED
                                       : RESULTS_PASSED;
}

/* The figures of a collective; the candidate is the last part of the check's id. */
static void health_add_figures(const health_check *from, results_check *check)
{
    const char *candidate = strrchr(from->id, '.');
    check->collective = from->collective;
    check->bytes = from->bytes;
    check->nranks = from->nranks;
    check->labels[0] = (results_label){"candidate", candidate ? candidate + 1 : ""};
    if (strcmp(from->unit, "us") == 0)
        check->time_us = from->value;
    else
        check->busbw_gbs = from->value;
}

void health_checks_begin(const health_report *report, results_checks *checks)
{
    results_checks_begin(checks, "weir-check");
    checks->level = report->level;
    checks->host = report->host;
    checks->seconds = report->seconds;
    checks->exit_code = health_exit_code(report);
    for (size_t i = 0; i < report->count; i++) {
        const health_check *from = &report->checks[i];
        results_check *check = results_checks_add(checks);
        check->group = "weir.check";
        check->id = from->id;
        check->what = from->what;
        check->verdict = health_verdict_name(from->verdict);
        check->state = health_state(from->verdict);
        check->value = from->value;
        check->unit = from->unit;
        check->decimals = from->decimals;
        check->relation = health_relation_word(from->relation);
        check->expected = from->expected;
        check->source = from->source;
        check->detail = from->detail;
        check->look = from->look;
        check->action = health_action_name(health_action_of(from));
        check->seconds = from->seconds;
        if (from->collective[0])
            health_add_figures(from, check);
    }
}

void health_write_json(const health_report *report, FILE *to)
{
    weiri_json_writer json = {.file = to, .layout = WEIRI_JSON_INDENTED};
    results_checks checks;
    int judged, failed;
    health_count(report, &judged, &failed);
    health_checks_begin(report, &checks);
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
    weiri_json_put_text(&json, "action", health_action_name(health_action_of_all(report)));
    results_checks_json(&checks, &json);
    weiri_json_close_object(&json);
    fputc('\n', to);
    results_checks_free(&checks);
}

/* Writes a form that needs the checks alone. */
static void health_write_by(const health_report *report, FILE *to,
                            void (*form)(const results_checks *checks, FILE *to))
{
    results_checks checks;
    health_checks_begin(report, &checks);
    form(&checks, to);
    results_checks_free(&checks);
}

void health_write_junit(const health_report *report, FILE *to)
{
    health_write_by(report, to, results_checks_junit);
}

void health_write_ctrf(const health_report *report, FILE *to)
{
    health_write_by(report, to, results_checks_ctrf);
}

void health_write_prometheus(const health_report *report, FILE *to)
{
    health_write_by(report, to, results_checks_prometheus);
}

/* What weiri_write_file passes on. */
typedef struct health_form {
    const health_report *report;
    void (*form)(const health_report *report, FILE *to);
} health_form;

static void health_write_form(const void *context, FILE *to)
{
    const health_form *chosen = context;
    chosen->form(chosen->report, to);
}

weir_status health_write_file(const health_report *report, const char *path,
                              void (*form)(const health_report *report, FILE *to))
{
    const health_form chosen = {report, form};
    if (weiri_write_file(path, health_write_form, &chosen) != 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot write %s", path);
    return WEIR_OK;
}
