/* The forms in which a report is written. Names from the system are escaped for each form. Write
 * errors stay in the file's error flag, except where a status is returned. Local. */
#ifndef BENCH_HEALTH_OUTPUT_H
#define BENCH_HEALTH_OUTPUT_H

#include "bench/health/health.h"

#include <weir/weir.h>

/* A table of all checks, what to look at after each failure, and a last line that begins with PASS
 * or FAIL. */
void health_write_text(const health_report *report, FILE *to);
/* The last line alone, without a line break. */
void health_write_verdict(const health_report *report, FILE *to);
/* One JSON object, as docs/user/checking.md describes it; --baseline reads it. */
void health_write_json(const health_report *report, FILE *to);
void health_write_junit(const health_report *report, FILE *to);
/* The Common Test Report Format (ctrf.io). */
void health_write_ctrf(const health_report *report, FILE *to);
/* Metrics for the textfile collector of Prometheus' node exporter. */
void health_write_prometheus(const health_report *report, FILE *to);
void health_write_markdown(const health_report *report, FILE *to);

/* Writes a form to a file at once: readers see the old file or the new one. WEIR_ERR_SYSTEM. */
weir_status health_write_file(const health_report *report, const char *path,
                              void (*form)(const health_report *report, FILE *to));

/* The value and the expectation of a check as text: "12.5 GB/s", ">= 10 GB/s"; empty if there is
 * none. */
void health_value_text(const health_check *check, char *text, size_t bytes);
void health_expected_text(const health_check *check, char *text, size_t bytes);

#endif
