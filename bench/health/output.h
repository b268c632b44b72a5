/* The forms in which a report is written, mostly by results/output/checks.h. Names from the system
 * are escaped for each form. Write errors stay in the file's error flag, except where a status is
 * returned. Local. */
#ifndef BENCH_HEALTH_OUTPUT_H
#define BENCH_HEALTH_OUTPUT_H

#include "bench/health/health.h"
#include "results/output/checks.h"

#include <weir/weir.h>

/* A table of all checks, what to look at after each failure, and a last line that begins with PASS
 * or FAIL. */
void health_write_text(const health_report *report, FILE *to);
/* One JSON object, as docs/user/checking.md describes it; --baseline reads it. */
void health_write_json(const health_report *report, FILE *to);
void health_write_junit(const health_report *report, FILE *to);
/* The Common Test Report Format (ctrf.io). */
void health_write_ctrf(const health_report *report, FILE *to);
/* Metrics for the textfile collector of Prometheus' node exporter. */
void health_write_prometheus(const health_report *report, FILE *to);
void health_write_markdown(const health_report *report, FILE *to);

/* Writes a form to a file, as weiri_write_file does. WEIR_ERR_SYSTEM. */
weir_status health_write_file(const health_report *report, const char *path,
                              void (*form)(const health_report *report, FILE *to));

/* The report's checks as results/output/checks.h has them. They borrow the report's texts; the
 * caller frees them with results_checks_free. */
void health_checks_begin(const health_report *report, results_checks *checks);

#endif
