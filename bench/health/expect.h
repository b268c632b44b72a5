/*
 * What is expected of a node. In this order: a baseline that was recorded on a good node, figures
 * of its hardware model, and links that were measured a moment ago. Hardware without any of them is
 * reported and never fails.
 */
#ifndef BENCH_HEALTH_EXPECT_H
#define BENCH_HEALTH_EXPECT_H

#include "bench/health/health.h"

#include <weir/weir.h>

typedef struct health_baseline health_baseline;

/* Reads the JSON of an earlier run. WEIR_ERR_INVALID if the file is no such report;
 * WEIR_ERR_SYSTEM if it cannot be read. The caller frees it; NULL is allowed there. */
weir_status health_baseline_read(const char *path, health_baseline **baseline);
void health_baseline_free(health_baseline *baseline);
/* Expects what the baseline has: the same counts, bandwidths of at least (1 - tolerance) and times
 * of at most (1 + 2 tolerance) of its values. Devices that only the baseline has are added as
 * missing if is_complete; that is, once all checks have been made. */
void health_baseline_apply(const health_baseline *baseline, double tolerance, int is_complete,
                           health_report *report);

/* Applies the rules for the report's hardware: the built-in rules (models.txt) or, if path is not
 * NULL, the rules of a file of that format. WEIR_ERR_INVALID names a malformed line;
 * WEIR_ERR_SYSTEM. */
weir_status health_models_apply(const char *path, health_report *report);

/* Expects of collectives and copies what the links and copies of the report allow. */
void health_ceilings_apply(health_report *report);

#endif
