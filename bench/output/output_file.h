/*
 * Files that a run writes. While a run has one open, no other run can open it: two runs that write
 * one file would damage it. The lock is one of fcntl(2), so it also holds between nodes that share
 * the file system, and ends with the process.
 */
#ifndef BENCH_OUTPUT_OUTPUT_FILE_H
#define BENCH_OUTPUT_OUTPUT_FILE_H

#include "base/new_file.h"
#include "bench/job/run.h"

#include <stdio.h>

enum { BENCH_OUTPUT_REASON_BYTES = 160 };

/* Opens a file for writing and empties it, once no other process can write it. Pipes, devices, and
 * files on systems without locks are opened without one. On failure returns NULL and writes the
 * reason, with what to do: "process 71 (bench_reduce) is writing it; ...". Local. Close with
 * fclose. A process must not open the same file twice. */
FILE *bench_output_open(const char *path, char reason[BENCH_OUTPUT_REASON_BYTES]);
/* The same for a file that is to be replaced at once, by bench_output_place: until then the old one
 * stays. Pipes, devices and links are written as they are. */
FILE *bench_output_open_new(weiri_new_file *made, const char *path,
                            char reason[BENCH_OUTPUT_REASON_BYTES]);
/* Puts the file, which is flushed, in its place. Returns 0, or -1 with errno. Only the first call
 * has an effect, and none if there is nothing to replace. */
int bench_output_place(weiri_new_file *made, const char *path);
/* Returns 0 if the file could be opened so, or does not exist; else -1, with the reason. Changes
 * nothing. The process must not have the file open. */
int bench_output_try(const char *path, char reason[BENCH_OUTPUT_REASON_BYTES]);

#endif
