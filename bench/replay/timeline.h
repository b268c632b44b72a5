/* --timeline: a picture of one step, ranks by time, with a colour for each kind of call. */
#ifndef BENCH_REPLAY_TIMELINE_H
#define BENCH_REPLAY_TIMELINE_H

#include "bench/replay/measure.h"

/* Writes the last timed repetition over weir as SVG, above it the recorded calls if their times are
 * known. Collective; agreed; a failure is reported. */
weir_status replay_timeline_write(const replay_measurement *m, const char *path);

#endif
