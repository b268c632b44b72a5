/*
 * What a benchmark program measures: collectives (bench/collectives.c), the dispatch and combine of
 * expert parallelism (bench/moe), a recorded job (bench/replay), the pages of KV caches
 * (bench/blocks), or calls that move little data or none (bench/control). The functions are called
 * by bench/program.c, in the order in which they stand here. A run measures points, such as a size,
 * one after the other; a point may complete rows of the results.
 */
#ifndef BENCH_WORKLOAD_H
#define BENCH_WORKLOAD_H

#include "bench/job/run.h"
#include "bench/output/report.h"
#include "programs/options.h"

typedef struct bench_workload {
    const weiri_options *table; /* the options of the program */
    bench_options *options;     /* their settings; may begin a larger structure */
    /* Parses the command line, and checks the options against each other. Local. WEIR_ERR_INVALID:
     * problem (BENCH_PROBLEM_BYTES) is one line that names the option and the remedy. */
    weir_status (*parse)(weir_collective collective, int argc, char **argv, char *problem);
    /* Prints what the action of the options asks for. Local; rank 0 only. */
    void (*inform)(const bench_run *run);
    /* Checks what depends on the number of ranks. Local. Writes a problem, or leaves it empty. */
    void (*check)(bench_run *run, char *problem);
    /* Opens what the points need; the communicator exists, the report does not yet. Collective;
     * agreed; a failure is reported, and *state is then what close frees, or NULL. */
    weir_status (*open)(bench_run *run, bench_report *report, void **state);
    /* Prints what stands before the first row. Local; rank 0 only. */
    void (*begin)(void *state);
    /* Selects the next point; *point is NULL after the last one. Collective; agreed; a failure is
     * reported. */
    weir_status (*next)(void *state, void **point);
    /* Measures the point. Collective; agreed; a failure is reported. Wrong data is no failure. */
    weir_status (*point)(void *point);
    /* Writes the rows that the point has completed, on rank 0, and counts wrong results in the
     * report. Runs on every rank. */
    void (*row)(void *state);
    /* Prints what stands after the last row. Local; rank 0 only. */
    void (*end)(void *state);
    /* Frees all; state may be NULL. Collective. */
    void (*close)(bench_run *run, void *state);
} bench_workload;

extern const bench_workload bench_collectives, bench_p2p, bench_moe, bench_replay, bench_barriers,
    bench_init, bench_blocks;

#endif
