/*
 * The rows of the option table, and the parsers of option values. A parser reads the text of one
 * value and stores the value at the row's offset in bench_options. All parsers are local.
 */
#ifndef BENCH_OPTIONS_OPTION_VALUES_H
#define BENCH_OPTIONS_OPTION_VALUES_H

#include "bench/options/options.h"

typedef struct bench_option bench_option;

enum { BENCH_EXPECTED_BYTES = 256 };

/* Stores a value and returns 0; or writes what was expected (at most BENCH_EXPECTED_BYTES) and
 * returns a negative number. text belongs to the caller and must outlive options. */
typedef int bench_option_parser(const bench_option *row, const char *text, bench_options *options,
                                char *expected);

struct bench_option {
    char letter; /* 0: none */
    const char *name;
    const char *argument; /* NULL: the option takes no value */
    bench_option_parser *parse;
    size_t offset;  /* of the value's member in bench_options */
    long low, high; /* bounds of a number; a flag stores high; for a word, low is the offset of
                       its text */
    const char *help;
};

/* Reads a size with a "K", "M", "G" or "T" suffix; decimals are allowed ("1.5G"). Pure. */
weir_status bench_parse_bytes(const char *text, size_t *bytes);

/* In this order: an int in [low, high]; a size_t in [low, high]; a size_t of at least low, with
 * suffixes; a const char *. */
bench_option_parser bench_parse_int, bench_parse_whole, bench_parse_size, bench_parse_text;
/* -b, -e and the two steps: a size or factor, and a note that it was given. */
bench_option_parser bench_parse_min, bench_parse_max, bench_parse_step, bench_parse_factor;
/* One of the words in row->argument, "a|b|c". */
bench_option_parser bench_parse_word;
/* Returns the bench_buffers_word of a word of --buffers; -1 if it is none. weir and plain are its
 * former words. Pure. */
int bench_buffers_find(const char *text);
bench_option_parser bench_parse_buffers;
/* -d, -o, -r: "all" or a name; for -r "all" or a number. */
bench_option_parser bench_parse_dtype, bench_parse_op, bench_parse_root;
/* Adds a peer to options->peers. */
bench_option_parser bench_parse_peer;
/* "2%" or "2" stores the double 0.02; above 0, at most 100. */
bench_option_parser bench_parse_percent;
/* A number of GB/s of at least 0, as a double, and that it was given (floor_name). */
bench_option_parser bench_parse_floor;
/* Takes the floor from NCCL_TESTS_MIN_BW, unless one was given. Returns 0, or -1 with a usage
 * error. */
int bench_floor_of_environment(bench_options *options, char *problem);
/* The name of a fault, "@timed" after it, or "list". */
bench_option_parser bench_parse_inject;
/* An option without a value. */
bench_option_parser bench_parse_flag;

#endif
