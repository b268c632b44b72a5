/* What bench_replay writes: a row for each class of calls, candidate by candidate, and what the
 * whole recording takes. Rank 0 only, but for the time line. */
#ifndef BENCH_REPLAY_OUTPUT_H
#define BENCH_REPLAY_OUTPUT_H

#include "bench/output/report.h"
#include "bench/replay/measure.h"

/* Writes what is run, and the head of the table. */
void replay_output_begin(const replay_plan *plan, const replay_options *options);
/* Writes the rows and the lines after them; counts wrong elements in the report. */
void replay_output_rows(bench_report *report, const replay_measurement *m);
void replay_output_end(const bench_report *report);

/* --timeline: writes the last timed repetition over weir as SVG, above it the recorded calls if
 * their times are known. Collective; agreed; a failure is reported. */
weir_status replay_timeline_write(const replay_measurement *m, const char *path);

#endif
