/*
 * A new file that takes the place of another one at once. It has no name until then, so that
 * nothing is left of it if the process is killed; where a file system has no such files it has a
 * random name next to the other one, which no process of any container uses.
 */
#ifndef WEIR_BASE_NEW_FILE_H
#define WEIR_BASE_NEW_FILE_H

#include <limits.h>
#include <stdio.h>

typedef struct weiri_new_file {
    FILE
        *stream; /* the caller writes to it, flushes it and closes it; NULL: it could not be made */
    char temporary[PATH_MAX]; /* its name; "": it has none */
} weiri_new_file;

/* Makes a private folder NAME-XXXXXX, with random letters, in TMPDIR, or in /tmp if TMPDIR is not
 * set or cannot be used. Returns 0, or -1 with errno. */
int weiri_temporary_folder(char *path, size_t bytes, const char *name);
/* Makes a file that is to replace path; others may not write it, whatever the umask. Returns its
 * stream, or NULL with errno. */
FILE *weiri_new_file_open(weiri_new_file *made, const char *path);
/* Replaces path by the file, whose stream is open and flushed. Returns 0, or -1 with errno. */
int weiri_new_file_place(weiri_new_file *made, const char *path);
/* Removes the name that a file still has. The caller has closed its stream, or does. */
void weiri_new_file_drop(weiri_new_file *made);

#endif
