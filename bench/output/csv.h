/*
 * The CSV file (RFC 4180, lines end with a line feed): one row per size, placement and candidate,
 * written and flushed as soon as it is known. Columns are only added at the end. Local; rank 0
 * only.
 */
#ifndef BENCH_OUTPUT_CSV_H
#define BENCH_OUTPUT_CSV_H

#include "bench/output/record.h"

#include <stdio.h>
#include <sys/types.h>

typedef struct bench_csv {
    FILE *file;
    const bench_run *run;
    const char *fault;    /* of the first record that has one */
    int error;            /* errno of the first write that failed; 0: none */
    off_t complete_bytes; /* of the file, up to its last complete row */
} bench_csv;

/* Creates the file and writes the header line. WEIR_ERR_INVALID, noted in the job, if it cannot be
 * written. */
weir_status bench_csv_open(bench_csv *csv, const bench_run *run, const char *path);
/* Writes a line; nothing if there is no file. */
void bench_csv_record(bench_csv *csv, const bench_record *record);
/* Writes what is buffered, and notes where the file is complete, or why it is not. Does nothing if
 * there is no file. */
void bench_csv_flush(bench_csv *csv);
/* WEIR_ERR_SYSTEM, noted in the job, if a row could not be written. Then the file is closed, and
 * ends with the last row that could. */
weir_status bench_csv_check(bench_csv *csv);
/* The same at the end; WEIR_ERR_INTERNAL if a record has a fault. */
weir_status bench_csv_close(bench_csv *csv);

#endif
