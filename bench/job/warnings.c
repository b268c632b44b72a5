/* Warnings about results: see warnings.h. */
#include "bench/job/job.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void bench_warning_keep(bench_warnings *warnings, const char *kind, const char *text)
{
    if (warnings->count == BENCH_WARNINGS_MAX)
        return;
    struct bench_warning *kept = &warnings->list[warnings->count++];
    kept->kind = kind;
    snprintf(kept->text, sizeof kept->text, "%s", text);
}

void bench_warning_add(bench_job *job, const char *kind, const char *format, ...)
{
    char text[BENCH_WARNING_BYTES];
    va_list arguments;
    if (job->rank != 0)
        return;
    for (int i = 0; i < job->warnings.count; i++)
        if (strcmp(job->warnings.list[i].kind, kind) == 0)
            return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    bench_job_say(job, "warning: %s", text);
    bench_warning_keep(&job->warnings, kind, text);
}

void bench_warnings_put(weiri_json_writer *json, const bench_warnings *warnings)
{
    weiri_json_put_list(json, "warnings");
    for (int i = 0; i < warnings->count; i++) {
        weiri_json_open_object(json);
        weiri_json_put_text(json, "kind", warnings->list[i].kind);
        weiri_json_put_text(json, "text", warnings->list[i].text);
        weiri_json_close_object(json);
    }
    weiri_json_close_list(json);
}
