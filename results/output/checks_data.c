/* Checks for programs: JSON, CTRF and Prometheus: see checks.h. */
#include "results/output/checks.h"

#include <math.h>
#include <string.h>
#include <time.h>
#include <weir/weir.h>

static void put_json_check(weiri_json_writer *json, const results_check *check)
{
    weiri_json_open_object(json);
    weiri_json_put_text(json, "id", check->id);
    weiri_json_put_text(json, "what", check->what);
    weiri_json_put_text(json, "verdict", check->verdict);
    weiri_json_put_real(json, "value", check->value); /* null: none */
    weiri_json_put_text(json, "unit", check->unit);
    weiri_json_put_text(json, "relation", check->relation);
    weiri_json_put_real(json, "expected", check->expected);
    weiri_json_put_text(json, "source", check->source);
    weiri_json_put_text(json, "detail", check->detail);
    weiri_json_put_text(json, "look_at", check->look);
    if (check->action[0])
        weiri_json_put_text(json, "action", check->action);
    weiri_json_put_real(json, "seconds", check->seconds);
    if (check->collective) {
        weiri_json_put_text(json, "collective", check->collective);
        weiri_json_put_unsigned(json, "bytes", check->bytes);
        weiri_json_put_whole(json, "nranks", check->nranks);
    }
    weiri_json_close_object(json);
}

void results_checks_json(const results_checks *checks, weiri_json_writer *json)
{
    weiri_json_put_list(json, "checks");
    for (size_t i = 0; i < checks->count; i++)
        put_json_check(json, &checks->list[i]);
    weiri_json_close_list(json);
}

/* --------------------------------------------------------------------- CTRF */

static const char *ctrf_status(results_check_state state)
{
    static const char *const words[] = {[RESULTS_PASSED] = "passed",
                                        [RESULTS_FAILED] = "failed",
                                        [RESULTS_SKIPPED] = "skipped",
                                        [RESULTS_NOTED] = "other"};
    return words[state];
}

static void put_ctrf_test(weiri_json_writer *json, const results_check *check)
{
    char message[2048];
    weiri_json_open_object(json);
    weiri_json_put_text(json, "name", check->id);
    weiri_json_put_text(json, "status", ctrf_status(check->state));
    weiri_json_put_whole(json, "duration", (long long)(check->seconds * 1e3));
    weiri_json_put_list(json, "suite"); /* a list of names, from the outermost */
    weiri_json_add_text(json, check->group);
    weiri_json_close_list(json);
    if (check->state == RESULTS_FAILED || check->state == RESULTS_SKIPPED) {
        results_check_message(check, message, sizeof message);
        weiri_json_put_text(json, "message", message);
    }
    weiri_json_put_object(json, "extra");
    weiri_json_put_text(json, "what", check->what);
    weiri_json_put_real(json, "value", check->value);
    weiri_json_put_text(json, "unit", check->unit);
    weiri_json_put_real(json, "expected", check->expected);
    weiri_json_put_text(json, "verdict", check->verdict);
    weiri_json_close_object(json);
    weiri_json_close_object(json);
}

static void put_ctrf_summary(weiri_json_writer *json, const results_checks *checks)
{
    const long long stop_ms = (long long)time(NULL) * 1000;
    weiri_json_put_object(json, "summary");
    weiri_json_put_whole(json, "tests", (long long)checks->count);
    for (results_check_state state = 0; state < RESULTS_CHECK_STATES; state++)
        weiri_json_put_whole(json, ctrf_status(state),
                             (long long)results_checks_count(checks, state));
    weiri_json_put_whole(json, "pending", 0);
    weiri_json_put_whole(json, "start", stop_ms - (long long)(checks->seconds * 1e3));
    weiri_json_put_whole(json, "stop", stop_ms);
    weiri_json_close_object(json);
}

void results_checks_ctrf(const results_checks *checks, FILE *to)
{
    weiri_json_writer json = {.file = to, .layout = WEIRI_JSON_INDENTED};
    weiri_json_open_object(&json);
    weiri_json_put_text(&json, "reportFormat", "CTRF");
    weiri_json_put_text(&json, "specVersion", "0.0.0");
    weiri_json_put_object(&json, "results");
    weiri_json_put_object(&json, "tool");
    weiri_json_put_text(&json, "name", checks->tool);
    weiri_json_put_text(&json, "version", WEIR_VERSION);
    weiri_json_close_object(&json);
    put_ctrf_summary(&json, checks);
    weiri_json_put_list(&json, "tests");
    for (size_t i = 0; i < checks->count; i++)
        put_ctrf_test(&json, &checks->list[i]);
    weiri_json_close_list(&json);
    weiri_json_close_object(&json);
    weiri_json_close_object(&json);
    fputc('\n', to);
}

/* --------------------------------------------------------------- Prometheus */

/* A label with a comma before it, unless it is the first. Backslash, quote and line break are
 * escaped. */
static void put_label(FILE *to, int is_first, const char *name, const char *text)
{
    fprintf(to, "%s%s=\"", is_first ? "" : ",", name);
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

/* The tool's name in metrics: "weir_check". */
static void put_prefix(const results_checks *checks, FILE *to)
{
    for (const char *at = checks->tool; *at; at++)
        fputc(*at == '-' ? '_' : *at, to);
}

/* The head of a metric of the tool. */
static void put_head(const results_checks *checks, const char *name, const char *help, FILE *to)
{
    fputs("# HELP ", to);
    put_prefix(checks, to);
    fprintf(to, "_%s %s\n# TYPE ", name, help);
    put_prefix(checks, to);
    fprintf(to, "_%s gauge\n", name);
}

/* The labels that all samples of a run have, so that files of several runs in one folder do not
 * replace each other's samples: the level, and the name of the file. */
static void put_run(const results_checks *checks, int is_first, FILE *to)
{
    if (checks->level[0])
        put_label(to, is_first, "level", checks->level);
    if (checks->output[0])
        put_label(to, is_first && !checks->level[0], "output", checks->output);
}

/* A metric of the whole run. */
static void put_total(const results_checks *checks, const char *name, const char *help,
                      double value, FILE *to)
{
    put_head(checks, name, help, to);
    put_prefix(checks, to);
    fprintf(to, "_%s", name);
    if (checks->level[0] || checks->output[0]) {
        fputc('{', to);
        put_run(checks, 1, to);
        fputc('}', to);
    }
    fprintf(to, " %.15g\n", value);
}

static void put_outcomes(const results_checks *checks, FILE *to)
{
    put_head(checks, "ok", "1 if a check passed, 0 if it failed.", to);
    for (size_t i = 0; i < checks->count; i++) {
        const results_check *check = &checks->list[i];
        if (check->state != RESULTS_PASSED && check->state != RESULTS_FAILED)
            continue;
        put_prefix(checks, to);
        fputs("_ok{", to);
        put_label(to, 1, "check", check->id);
        put_run(checks, 0, to);
        fprintf(to, "} %d\n", check->state == RESULTS_PASSED);
    }
}

static void put_values(const results_checks *checks, FILE *to)
{
    put_head(checks, "value", "Value of a check, in the unit of its label.", to);
    for (size_t i = 0; i < checks->count; i++) {
        const results_check *check = &checks->list[i];
        if (isnan(check->value))
            continue;
        put_prefix(checks, to);
        fputs("_value{", to);
        put_label(to, 1, "check", check->id);
        put_label(to, 0, "unit", check->unit);
        put_run(checks, 0, to);
        fprintf(to, "} %.9g\n", check->value);
    }
}

/* A figure of a collective with its labels; NaN: none. */
static void put_figure(const results_checks *checks, const results_check *check, const char *name,
                       double value, FILE *to)
{
    if (!check->collective || isnan(value))
        return;
    fprintf(to, "%s{", name);
    put_label(to, 1, "collective", check->collective);
    fprintf(to, ",bytes=\"%llu\",nranks=\"%d\"", check->bytes, check->nranks);
    for (int i = 0; i < RESULTS_LABELS_MAX && check->labels[i].name; i++)
        put_label(to, 0, check->labels[i].name, check->labels[i].value);
    put_run(checks, 0, to);
    fprintf(to, "} %.9g\n", value);
}

void results_checks_prometheus(const results_checks *checks, FILE *to)
{
    put_total(checks, "failed", "Failed checks of the last run.",
              (double)results_checks_count(checks, RESULTS_FAILED), to);
    put_total(checks, "exit_code", "Exit code of the last run.", checks->exit_code, to);
    put_total(checks, "time_seconds", "End of the last run, as Unix time.", (double)time(NULL), to);
    put_total(checks, "duration_seconds", "Duration of the last run.", checks->seconds, to);
    put_outcomes(checks, to);
    put_values(checks, to);
    fputs("# HELP weir_busbw_gbs Bus bandwidth of a collective, in 1e9 bytes per second.\n"
          "# TYPE weir_busbw_gbs gauge\n",
          to);
    for (size_t i = 0; i < checks->count; i++)
        put_figure(checks, &checks->list[i], "weir_busbw_gbs", checks->list[i].busbw_gbs, to);
    fputs("# HELP weir_latency_seconds Median time of a collective.\n"
          "# TYPE weir_latency_seconds gauge\n",
          to);
    for (size_t i = 0; i < checks->count; i++)
        put_figure(checks, &checks->list[i], "weir_latency_seconds", checks->list[i].time_us * 1e-6,
                   to);
}
