/*
 * Rows of results of any tool, and the problems of their files. A row keeps its fields as text, so
 * that writing it again is lossless, and the numbers that a comparison needs. A set owns all text
 * of its rows. Names that could do harm in a terminal, a page or a spreadsheet are changed when
 * they are read, which is reported. Nothing that is read is executed. Local; a set belongs to one
 * thread.
 */
#ifndef RESULTS_READ_ROWS_H
#define RESULTS_READ_ROWS_H

#include "programs/columns.h"

#include <stddef.h>
#include <stdio.h>

/* The columns of the newest schema of weir's CSV, in their order: RESULTS_SCHEMA and so on. */
#define RESULTS_COLUMN(enumerator, name, form) RESULTS_##enumerator,
typedef enum results_column { WEIRI_COLUMNS(RESULTS_COLUMN) RESULTS_COLUMNS } results_column;
#undef RESULTS_COLUMN

/* The tool that wrote a file, which decides what its times mean. */
typedef enum results_origin {
    RESULTS_OWN_CSV,    /* medians of the slowest rank, with intervals */
    RESULTS_OWN_OUTPUT, /* weir's table or JSON: medians */
    RESULTS_NCCL_TESTS, /* means over ranks and iterations; rccl-tests too */
    RESULTS_OSU,        /* means */
    RESULTS_IMB,        /* means of the slowest rank */
    RESULTS_MSCCLPP,    /* means */
    RESULTS_OWN_ROWS    /* rows in weir's JSON: as in its CSV */
} results_origin;
/* Stores contain these numbers (history.h), so new origins are added at the end. */
enum { RESULTS_ORIGINS = RESULTS_OWN_ROWS + 1 };

typedef struct results_row {
    const char *text[RESULTS_COLUMNS]; /* never NULL; "" where the file has none */
    const char *path;
    int line;  /* from 1; in JSON, the number of the result */
    int round; /* N of a file named rN-...: measured beside the other side's rN; else 0 */
    results_origin origin;
    int nranks, nnodes, root; /* nranks 0: unknown */
    unsigned long long bytes;
    double median_us;       /* NaN if failed */
    double low_us, high_us; /* 95% interval of the median; both NaN if unknown */
    double resolution;      /* logarithm of what the last printed digit of the time leaves open */
    double algbw_gbs, busbw_gbs; /* NaN if failed */
    int failed;                  /* verification found wrong elements */
    int is_copy;                 /* a more complete file of the same run has the row (load.c) */
} results_row;

typedef struct results_block results_block;
typedef struct results_document results_document; /* write_json.c */

typedef struct results_set {
    results_row *rows;
    size_t count, room;
    size_t problems;  /* lines that could not be used, or only after a change */
    size_t losses;    /* of these: results_lose */
    size_t disproved; /* of these: bandwidths that bytes and median disprove, in rows that are
                         used all the same */
    size_t files;     /* number of files that were read */
    int ranks;        /* for files that do not state it; 0: not given */
    FILE *messages;   /* NULL: none are printed */
    const char *schema_path; /* the file whose unknown schema was reported */
    const char *noted_path;  /* the file of the last message, and its number of messages */
    size_t noted;
    results_block *blocks; /* memory of all texts */
    int keeps_documents;   /* keep what JSON files have in addition to rows (write_json.c) */
    results_document *documents, **last_document;
} results_set;

/* ranks: the number of ranks for files that do not state it, 0 if unknown. messages: where problems
 * are printed, one per line, as `path:line: problem`; NULL for nowhere; borrowed. */
void results_set_init(results_set *set, int ranks, FILE *messages);
void results_set_free(results_set *set);

/* Memory with the lifetime of the set. Ends the program with exit code 3 if there is none. */
void *results_keep(results_set *set, size_t bytes);
/* Ends the program with code 3 and a message. */
_Noreturn void results_no_memory(void);
char *results_keep_text(results_set *set, const char *text, size_t length);
char *results_keep_printed(results_set *set, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Text that a terminal shows as text: control characters, and bytes that are not UTF-8, become '?'.
 * Changes and returns it. */
char *results_plain(char *text);
/* Prints "program: message" to standard error, as plain text. */
void results_complain(const char *program, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Reports a problem; line 0 means the whole file. After 20 problems of one file the rest is only
 * counted. Control characters in the message are printed as '?'. */
void results_note(results_set *set, const char *path, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The same for what may hide a result: a row or line that is not used, a file that is cut off, a
 * failure that a tool reports without saying in which row. A side with losses cannot pass. */
void results_lose(results_set *set, const char *path, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* An empty row with its origin. */
results_row results_row_make(const char *path, int line, results_origin origin);
/* Validates the row's texts, changes harmful names, reads its numbers, computes missing bandwidths,
 * and adds the row. Returns 0, or -1 after reporting that it was not added. */
int results_add(results_set *set, results_row *row);

/* Parts of results_add, for a row whose counts are read: report fields that contradict each other,
 * and a schema that is not known (sense.c). The first returns whether the results are wrong; the
 * last is for a row with a time. */
int results_sense_failed(results_set *set, const results_row *row);
void results_sense_words(results_set *set, const results_row *row);
void results_sense_numbers(results_set *set, const results_row *row);

/* Whether the rows were measured by weir, not by another tool. */
int results_is_own(results_origin origin);

/* Read a decimal number that is the whole text: no blanks, hexadecimal numbers, nan or inf. Return
 * 0, or -1 with value unchanged. */
int results_real(const char *text, double *value);
int results_whole(const char *text, unsigned long long *value);

const char *results_column_name(results_column column);
/* Returns the column with that name, or -1. */
int results_column_find(const char *name);

/* A number as weir's CSV writes it in that column, with all its digits if the column is not one of
 * decimal numbers. Memory of the set. */
const char *results_number_text(results_set *set, results_column column, double value);
/* Whether text is exactly what weir's CSV would write for its number in that column of numbers. */
int results_is_number_text(results_column column, const char *text);
/* Whether that column contains numbers; whether they have decimals. */
int results_is_number_column(results_column column);
int results_is_decimal_column(results_column column);

/* weir's name of a collective that other tools call AllReduce, all_reduce_perf, ...; static
 * storage, or NULL. */
const char *results_collective(const char *name);
/* weir's name of a data type of nccl-tests, rccl-tests or MPI; text itself if unknown. */
const char *results_dtype(const char *text);
/* The one collective that a text names in any spelling, between other words: "all_reduce_perf_mpi",
 * "node7-AllReduce.log"; static storage, or NULL for none or several. */
const char *results_collective_in(const char *text);
/* A candidate whose times are the processor's, or of several groups of ranks that ran at the same
 * time: a detail of its name, so that such rows are compared with each other only. Memory of the
 * set. */
const char *results_contender_detail(results_set *set, const char *contender, int is_cpu_time,
                                     int groups);
/* Whether the name of a GPU is one of AMD's. */
int results_is_amd(const char *device);
/* Makes a row one whose results are wrong. */
void results_row_fail(results_row *row);
/* busbw divided by algbw. */
double results_bus_factor(const char *collective, int nranks);

#endif
