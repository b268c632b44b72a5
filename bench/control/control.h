/*
 * Programs whose calls move little data or none, such as bench_barrier: what they share. A program
 * is a table of options and a function that fills rows; the flow and the output are here.
 */
#ifndef BENCH_CONTROL_CONTROL_H
#define BENCH_CONTROL_CONTROL_H

#include "bench/measure/parts.h"
#include "bench/options/option_values.h"
#include "bench/workload.h"

/* One call or phase of one candidate: a line of the table, and a row of the CSV. */
typedef struct control_row {
    const char *phase;     /* the CSV column algo; "": the program has no phases */
    const char *candidate; /* weir's rows stand before those of peers in the same phase */
    int is_peer, is_checked, iterations;
    size_t bytes; /* of an allreduce of floats; 0: the call moves no data */
    uint64_t wrong;
    bench_stats stats;          /* us, of the slowest rank; used if nothing is wrong */
    double first_us;            /* the first one of the process; NaN: unknown */
    const bench_lateness *late; /* NULL: unknown */
    const bench_part *groups;   /* of each group, on rank 0; NULL: the ranks form one */
} control_row;

enum { CONTROL_CANDIDATES = 1 + BENCH_PEERS_MAX, CONTROL_ROWS = 8 * CONTROL_CANDIDATES };

typedef struct control_run {
    bench_job *job;
    bench_report *report;
    control_row rows[CONTROL_ROWS];
    int nrows, has_run;
    const bench_row *remarks; /* a row for bench_remarks_row; NULL: none */
} control_run;

typedef struct control_program {
    const char *name, *collective; /* "bench_init"; the CSV column */
    const char *purpose, *notes;   /* a sentence for --help; comment lines of the header */
    const char *mode;              /* the CSV column */
    const char *const *shared;     /* names of rows of the collectives' table, the last one NULL */
    const weiri_option *own;       /* and other rows */
    int own_count;
    const int *faults;     /* of --inject: bench_fault, the last one BENCH_FAULT_NONE */
    int can_slow;          /* 1: also slow and slow-rank */
    const char *no_vendor; /* why --peer nccl is refused; NULL: it is not */
    /* Measures everything, and fills the rows on every rank; statistics are rank 0's. Collective;
     * agreed; a failure is reported. */
    weir_status (*measure)(control_run *run);
    void (*close)(void);
} control_program;

extern const control_program control_barrier, control_init;
extern bench_options control_options;
/* Writes the rows of a run, and what its peers' rows say of weir's. Rank 0 only. */
void control_write_rows(const control_program *program, const control_run *run);
/* Replaces the number of errors by the sum of all ranks; the lowest rank that has a message prints
 * it. Collective. */
void control_share_wrong(const bench_job *job, const char *candidate, const char *message,
                         uint64_t *wrong);
/* Opens MPI as a peer, whose name has `bytes`. Collective; a failure is noted. */
weir_status control_open_mpi(bench_job *job, char *name, size_t bytes);

#endif
