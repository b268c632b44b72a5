/*
 * Rows of results, whatever tool wrote them, and what was wrong with their files.
 * A row keeps its fields as the text that its file has, so that writing it again
 * loses nothing, and the numbers that a comparison needs. A set owns all text of
 * its rows. Names that could do harm in a terminal, a page or a spreadsheet are
 * made harmless when they are read, and that is noted. Nothing read is executed.
 * Local; a set belongs to one thread.
 */
#ifndef RESULTS_READ_ROWS_H
#define RESULTS_READ_ROWS_H

#include "base/columns.h"

#include <stddef.h>
#include <stdio.h>

/* The columns of the newest schema of weir's CSV, in their order: RESULTS_SCHEMA and so on. */
#define RESULTS_COLUMN(enumerator, name, form) RESULTS_##enumerator,
typedef enum results_column {
    WEIRI_COLUMNS(RESULTS_COLUMN)
    RESULTS_COLUMNS
} results_column;
#undef RESULTS_COLUMN

/* Where rows of a file come from: what their times mean depends on it. */
typedef enum results_origin {
    RESULTS_OWN_CSV, /* medians of the slowest rank, with intervals */
    RESULTS_OWN_OUTPUT, /* our table or JSON: medians */
    RESULTS_NCCL_TESTS, /* means over iterations, of the mean over ranks; rccl-tests too */
    RESULTS_OSU,        /* means */
    RESULTS_IMB,        /* means of the slowest rank */
    RESULTS_MSCCLPP,    /* means */
    RESULTS_OWN_ROWS    /* rows in our JSON: as our CSV */
} results_origin;
/* Numbers of origins stand in stores (sqlite.h): new ones are added at the end. */
enum { RESULTS_ORIGINS = RESULTS_OWN_ROWS + 1 };

typedef struct results_row {
    const char *text[RESULTS_COLUMNS]; /* never NULL; "" where the file has none */
    const char *path;
    int line;  /* from 1; of JSON, the number of the result */
    int round; /* N of a file named rN-...: measured beside the other side's rN; else 0 */
    results_origin origin;
    int nranks, nnodes, root; /* nranks 0: unknown */
    unsigned long long bytes;
    double median_us;           /* NaN if failed */
    double low_us, high_us;     /* 95% interval of the median; NaN where unknown */
    double algbw_gbs, busbw_gbs; /* NaN if failed */
    int failed;                 /* verification found wrong elements */
} results_row;

typedef struct results_block results_block;
typedef struct results_document results_document; /* write_json.c */

typedef struct results_set {
    results_row *rows;
    size_t count, room;
    size_t problems;        /* lines that could not be used, or not as they stand */
    size_t files;           /* that were read */
    int ranks;              /* of files that do not say; 0: none given */
    FILE *messages;         /* NULL: none are printed */
    const char *noted_path; /* the file of the last message, and how many it had */
    size_t noted;
    results_block *blocks;  /* text */
    int keeps_documents;    /* wanted: what JSON files have beside their rows (write_json.c) */
    results_document *documents, **last_document;
} results_set;

/* ranks: what to take where a file does not tell the number of ranks, 0 if unknown.
 * messages: where problems are told, a line each, `path:line: what`; borrowed. */
void results_set_init(results_set *set, int ranks, FILE *messages);
void results_set_free(results_set *set);

/* Memory that lives as long as the set; ends the program with 3 if there is none. */
void *results_keep(results_set *set, size_t bytes);
char *results_keep_text(results_set *set, const char *text, size_t length);
char *results_keep_printed(results_set *set, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Tells a problem; line 0: of the whole file. After 20 of one file they are only
 * counted. Control characters of the message are shown as '?'. */
void results_note(results_set *set, const char *path, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A row with nothing in it but where it stands. */
results_row results_row_make(const char *path, int line, results_origin origin);
/* Checks the row's texts, makes them harmless, reads the numbers from them, fills in
 * bandwidths that are absent, and adds it. Returns 0, or -1: noted, not added. */
int results_add(results_set *set, results_row *row);

/* Whether the rows are weir's own measurements, not another tool's. */
int results_is_own(results_origin origin);

/* Plain decimal numbers: nothing before, nothing behind, no hex, nan or inf.
 * 0, or -1 and value as it was. */
int results_real(const char *text, double *value);
int results_whole(const char *text, unsigned long long *value);

const char *results_column_name(results_column column);
/* The column of a name, or -1. */
int results_column_find(const char *name);

/* A number as our CSV writes it in that column of decimal numbers; kept by the set. In any
 * other column, with all its digits. */
const char *results_number_text(results_set *set, results_column column, double value);
/* Whether text is exactly what our CSV writes for its number in that column of numbers. */
int results_is_number_text(results_column column, const char *text);
/* Whether that column holds numbers; such with decimals. */
int results_is_number_column(results_column column);
int results_is_decimal_column(results_column column);

/* Our name of a collective that another tool calls AllReduce, all_reduce_perf, ...;
 * static, or NULL. */
const char *results_collective(const char *name);
/* Our name of nccl-tests', rccl-tests' or MPI's data type; text itself if unknown. */
const char *results_dtype(const char *text);
/* busbw divided by algbw. */
double results_bus_factor(const char *collective, int nranks);

#endif
