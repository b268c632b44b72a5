/*
 * Reads result files into a set of rows. The content of a file decides which tool wrote it. Readers
 * modify the text of a file in place (the set owns it), report unusable lines with their number,
 * and continue with the next line. Local.
 */
#ifndef RESULTS_READ_LOAD_H
#define RESULTS_READ_LOAD_H

#include "results/read/rows.h"

/* text: `length` bytes, followed by a NUL. path: for messages; must outlive the set. */
typedef struct results_input {
    const char *path;
    char *text;
    size_t length;
} results_input;

typedef enum results_kind {
    RESULTS_KIND_OWN_CSV,
    RESULTS_KIND_RCCL_CSV,
    RESULTS_KIND_JSON,
    RESULTS_KIND_LOG, /* text, perhaps of a known tool */
} results_kind;

/* Whether a text begins as an object, or a list of objects; a log may begin with a bracket, too. */
int results_is_json_object(const char *text);
results_kind results_kind_of(const results_input *input);

/* Reads a file of any kind. named: the user named this file, so an unknown kind is reported as a
 * problem. */
void results_read_input(results_set *set, results_input *input, int named);

void results_read_csv(results_set *set, results_input *input);
void results_read_rccl_csv(results_set *set, results_input *input);
void results_read_json(results_set *set, results_input *input, int named);
/* Reads a log: text of other tools and of weir's benchmarks, or a CSV or JSON that a log collector
 * has changed (read_log.c). */
void results_read_log(results_set *set, results_input *input, int named);

enum { RESULTS_FILE_BYTES = 1 << 28 }; /* larger files are not read */
/* Opens a regular file for reading without blocking, even if the path is a pipe. Returns NULL with
 * errno set: EFBIG for more than most_bytes, ENOTSUP if it is not a regular file. */
FILE *results_open(const char *path, long long most_bytes);
/* Whether two names are one regular file, or the same name of a file that does not exist. */
int results_same_file(const char *a, const char *b);

/*
 * Reads one source that a user named: a file, a folder (all result files in and below it, in the
 * order of their names), a pattern with * ? [ ], or a run of the store. store: NULL for none.
 * Weir's rows of one run that several files have (CSV, JSON, printed table) are added once. Files
 * of a folder that are no results are skipped.
 * Returns 0, or -1 after reporting that there is no such source.
 */
int results_load(results_set *set, const char *source, const char *store);

/*
 * A store is a folder of run folders, or one file (history.h). `latest` is the run with the last
 * name (names begin with the time); `baseline` is the run whose name is in the store's file
 * `baseline`. Writes its path and returns 0; or writes the reason to path and returns -1.
 */
int results_store_find(const char *store, const char *word, char *path, size_t bytes);
/* If path is a run folder of ci/nightly, appends the subfolder of the candidate's screening. */
void results_store_candidate(char *path, size_t bytes);
/* Makes a run folder of the store its baseline. Returns 0, or -1 with the reason. */
int results_store_accept(const char *store, const char *name, char *reason, size_t bytes);

/* Returns the next line of *at as a string (its line end is overwritten by NUL), or NULL at the
 * end. */
char *results_next_line(char **at, const char *end);
/* Splits a line into words, in place. Returns their number, at most `most`. */
int results_split(char *line, char **words, int most);

#endif
