/*
 * Reading result files into a set: which tool wrote a file is told from its content.
 * All readers take the text of a file (changed while reading, kept by the set), note
 * what they cannot use with its line, and go on behind it. Local.
 */
#ifndef RESULTS_READ_LOAD_H
#define RESULTS_READ_LOAD_H

#include "results/read/rows.h"

/* text: length bytes and a NUL behind them. path: for messages, kept by the caller. */
typedef struct results_input {
    const char *path;
    char *text;
    size_t length;
} results_input;

typedef enum results_kind {
    RESULTS_KIND_OWN_CSV, RESULTS_KIND_RCCL_CSV, RESULTS_KIND_JSON, RESULTS_KIND_NCCL_TEXT,
    RESULTS_KIND_OSU, RESULTS_KIND_IMB, RESULTS_KIND_UNKNOWN
} results_kind;

results_kind results_kind_of(const results_input *input);

/* Reads a file of any kind; found: told whether it is of a known one. named: the user
 * named this very file, so one without results is a problem. */
void results_read_input(results_set *set, results_input *input, int named);

void results_read_csv(results_set *set, results_input *input);
void results_read_rccl_csv(results_set *set, results_input *input);
void results_read_json(results_set *set, results_input *input, int named);
void results_read_nccl_text(results_set *set, results_input *input);
void results_read_osu(results_set *set, results_input *input);
void results_read_imb(results_set *set, results_input *input);

enum { RESULTS_FILE_BYTES = 1 << 28 }; /* the most that is read of a file */
/* Opens a regular file for reading, and waits for nobody, as a pipe would that stands in its
 * place. NULL with errno, EFBIG for more than most_bytes, ENOTSUP for what is no regular file. */
FILE *results_open(const char *path, long long most_bytes);

/*
 * One source that a user names: a file, a folder (all result files in it and below,
 * in the order of their names), a pattern with * ? [ ], or a word of the store.
 * Returns 0, or -1: noted, there is no such thing. store: folder of run folders, NULL
 * for none.
 */
int results_load(results_set *set, const char *source, const char *store);

/*
 * A store is a folder of run folders, or one file (sqlite.h). `latest` is the one with the
 * last name (they begin with the time); `baseline` is the one whose name stands in the store's file
 * `baseline`. Writes the path; 0, or -1 and path has the reason.
 */
int results_store_find(const char *store, const char *word, char *path, size_t bytes);
/* Of a run folder that ci/nightly made, the part in which the candidate was screened. */
void results_store_candidate(char *path, size_t bytes);
/* Makes a run folder of the store its baseline. 0, or -1 with the reason. */
int results_store_accept(const char *store, const char *name, char *reason, size_t bytes);

/* The next line of *at as a string of its own (the line feed becomes a NUL, a
 * carriage return before it goes), or NULL at the end. */
char *results_next_line(char **at, const char *end);
/* The words of a line, at most so many, which it is cut into; how many. */
int results_split(char *line, char **words, int most);

#endif
