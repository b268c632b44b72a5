/* Output files that are written as a whole: they are replaced at once, or stay as they were. */
#ifndef WEIR_BASE_WRITE_FILE_H
#define WEIR_BASE_WRITE_FILE_H

#include <stdio.h>

/* Writes a file by a function. A regular file, or the one that a link leads to, is replaced at once
 * and keeps its permissions: readers see the old one or the new one, and after a failure the old
 * one stays. A file in a folder that may not be written is overwritten. Anything else (a pipe, a
 * device) is written to and stays what it is; /dev/stdout is the stream stdout. Returns 0, or -1
 * with errno. */
int weiri_write_file(const char *path, void (*form)(const void *context, FILE *to),
                     const void *context);
/* Whether an error of weiri_write_file (errno) says that the path cannot be written, and not that
 * the system failed: a usage error. */
int weiri_write_refuses_path(int error);

#endif
