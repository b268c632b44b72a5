/*
 * The options of a program as a table. One table parses the command line, sets defaults, prints
 * --help, compares the ranks of a job, and records options with results. Each row has a type, which
 * reads and writes the value of a member of the program's settings. Local.
 */
#ifndef WEIR_PROGRAMS_OPTIONS_H
#define WEIR_PROGRAMS_OPTIONS_H

#include "base/json.h"

#include <stddef.h>
#include <stdio.h>
#include <weir/weir.h>

enum { WEIRI_EXPECTED_BYTES = 256 };

typedef enum weiri_option_flag {
    WEIRI_OPTION_SAME = 1,     /* all ranks of a job must have the same value */
    WEIRI_OPTION_SAME_USE = 2, /* all ranks of a job must use it, or none; values may differ, as
                                  paths do on different nodes */
    WEIRI_OPTION_EXPLAINED = 4 /* the help text states the default, so that --help adds none */
} weiri_option_flag;

typedef struct weiri_option weiri_option;

/* How the values of a type are read and written. */
typedef struct weiri_option_type {
    /* Stores the value of the text in the settings and returns 0; or returns -1, after writing into
     * expected (WEIRI_EXPECTED_BYTES) what was expected. The text outlives the settings. */
    int (*read)(const weiri_option *option, const char *text, void *settings, char *expected);
    /* Writes the value as a user gives it, and nothing if the option is not in use. */
    void (*write)(const weiri_option *option, const void *settings, FILE *to);
    /* Adds the value to a JSON object. NULL: it is recorded as the text that `write` writes. */
    void (*put)(const weiri_option *option, const void *settings, weiri_json_writer *json);
} weiri_option_type;

struct weiri_option {
    char letter;       /* 'n'; 0: none */
    const char *name;  /* "ranks", without dashes */
    const char *value; /* what --help calls the value: "N", of words "auto|host|cuda"; NULL: the
                          option takes no value */
    const weiri_option_type *type;
    size_t offset;       /* of the member in the settings */
    long long low, high; /* the range of a number; high: what a flag stores, if it is not 1 */
    const char *initial; /* the default, as a user would give it; NULL: the member stays as it is */
    const char *recorded; /* of words: other words for the same values, in the same order, which are
                             accepted as well and are those that results record: "weir|plain" */
    size_t given;   /* offset of an int, which becomes 1 if a user gives the option; 0: none */
    unsigned flags; /* weiri_option_flag */
    const char *manifest; /* the key under which results record the value; NULL: they do not */
    const char *commands; /* that accept the option: "show cost"; NULL: it needs no command */
    const char *help;     /* one paragraph, which --help wraps; without its default */
};

/* The types, with the members that they store. */
extern const weiri_option_type weiri_option_int, /* int in the range */
    weiri_option_whole,                          /* size_t in the range */
    weiri_option_bytes,   /* size_t of at least low: a number of bytes, which may have a unit */
    weiri_option_text,    /* const char *, not empty */
    weiri_option_words,   /* int: the index of a word in `value` */
    weiri_option_flags,   /* int: an option without a value stores high, or 1 if high is 0 */
    weiri_option_decimal, /* double of at least low */
    weiri_option_percent, /* double: the fraction; above 0, "2" is 2%, as "2%" is; high: percent */
    weiri_option_share;   /* double: the fraction; "0.02" is 2%, and "2", which may mean 2%, is
                             rejected; high: percent */

/* For the `read` of a type: writes what was expected (WEIRI_EXPECTED_BYTES). Returns -1. */
int weiri_expect(char *expected, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Of weiri_option_int, for types that differ in what they read. */
void weiri_int_write(const weiri_option *option, const void *settings, FILE *to);
void weiri_int_put(const weiri_option *option, const void *settings, weiri_json_writer *json);

typedef struct weiri_options {
    const weiri_option *rows;
    int count;
} weiri_options;

/* Stores the defaults of all rows that have one. */
void weiri_options_set_defaults(const weiri_options *table, void *settings);
/* Stores the option argv[*i], which may be "--name=value", "-nVALUE", or several letters of options
 * without a value; *i moves to a value that is the next argument. A beginning of a name will do if
 * no other name begins so. command: the one that was named; NULL: none. WEIR_ERR_INVALID, with the
 * error line set: the option is unknown, does not belong to the command, or its value is wrong. */
weir_status weiri_option_take(const weiri_options *table, const char *command, int argc,
                              char **argv, int *i, void *settings);
/* Stores all arguments of a program that takes options only. */
weir_status weiri_options_take_all(const weiri_options *table, int argc, char **argv,
                                   void *settings);
/* Prints the table as --help shows it. */
void weiri_options_print(const weiri_options *table, FILE *to);
/* Writes one line for each option that must be the same on all ranks, such as "-b 8", "--cold" or
 * "no --plan": equal settings make equal lines. */
void weiri_options_write_same(const weiri_options *table, const void *settings, FILE *to);
/* Adds all recorded options to a JSON object. */
void weiri_options_put(const weiri_options *table, const void *settings, weiri_json_writer *json);

typedef enum weiri_percent_kind { WEIRI_PERCENT, WEIRI_PERCENT_OR_PART } weiri_percent_kind;

/* Reads a percentage, which may be written with an exponent but without a sign, as a fraction of at
 * most `most`: weiri_option_percent and weiri_option_share. Returns 0, or -1 and writes into
 * expected what was expected. Pure. */
int weiri_percent_read(const char *text, weiri_percent_kind kind, double most, double *fraction,
                       char *expected, size_t bytes);

#endif
