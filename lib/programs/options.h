/*
 * The options of a program as a table, which both parses the command line and makes --help. Values
 * are stored as texts; the program converts them when all have been read. The benchmarks, whose
 * options are nccl-tests', have their own table (bench/options). Local.
 */
#ifndef WEIR_PROGRAMS_OPTIONS_H
#define WEIR_PROGRAMS_OPTIONS_H

#include <stddef.h>
#include <stdio.h>
#include <weir/weir.h>

typedef struct weiri_option {
    const char *name;     /* "--ranks" */
    const char *value;    /* what --help calls the value: "N"; NULL: a flag */
    size_t offset;        /* in the program's settings: of an int, which a flag sets to 1, or of a
                             const char *, which becomes the value's text */
    const char *help;     /* lines are separated by line breaks */
    const char *letter;   /* "-n"; NULL: none */
    const char *commands; /* that accept it: "show cost"; NULL: it needs no command */
} weiri_option;

#define WEIRI_OPTION(name, value, settings, member, help)                                          \
    {                                                                                              \
        name, value, offsetof(settings, member), help, NULL, NULL                                  \
    }

/* Stores the option argv[*i], which may be "--name=value", in settings; *i moves to a value that is
 * the next argument. command: the one that was named; NULL: none. WEIR_ERR_INVALID: the option is
 * unknown, does not belong to the command, or lacks a value. */
weir_status weiri_option_take(const weiri_option *options, int count, const char *command, int argc,
                              char **argv, int *i, void *settings);
/* Stores all arguments of a program that takes options only. */
weir_status weiri_options_take_all(const weiri_option *options, int count, int argc, char **argv,
                                   void *settings);
/* Reads a whole number of digits alone, least of which is 0; number is unchanged if text is NULL.
 * WEIR_ERR_INVALID names the option. */
weir_status weiri_option_number(const char *name, const char *text, int least, int most,
                                int *number);

typedef enum weiri_percent_kind {
    WEIRI_PERCENT,         /* above 0; "2" is 2%, as "2%" is */
    WEIRI_PERCENT_OR_PART, /* 0 or more; "0.02" is 2%, and "2", which may mean 2%, is refused */
} weiri_percent_kind;

/* Reads a percentage, which may be written with an exponent but without a sign, as a fraction of at
 * most `most`. WEIR_ERR_INVALID: expected says what is; the error line is not set. */
weir_status weiri_percent_read(const char *text, weiri_percent_kind kind, double most,
                               double *fraction, char *expected, size_t bytes);
/* The same of an option; fraction is unchanged if text is NULL. WEIR_ERR_INVALID names the
 * option. */
weir_status weiri_option_percent(const char *name, const char *text, weiri_percent_kind kind,
                                 double most, double *fraction);
/* Prints the table, one option per line, as --help shows it. */
void weiri_options_print(const weiri_option *options, int count, FILE *to);

#endif
