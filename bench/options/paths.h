/* The names of the files that a run writes. */
#ifndef BENCH_OPTIONS_PATHS_H
#define BENCH_OPTIONS_PATHS_H

#include <stddef.h>

/* 1 if both paths name one regular file, or would create one. Reads the file system. */
int bench_paths_same_file(const char *a, const char *b);
/* Writes the path of the manifest that stands beside csv_path: its suffix replaced by .json, or
 * .json added if it has no suffix or that one. Returns 0, or -1 if the path would not fit. Pure. */
int bench_paths_manifest(const char *csv_path, char *path, size_t bytes);

#endif
