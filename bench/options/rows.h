/*
 * Rows that the option tables of several programs have. AT(member) is the offset of a member of
 * bench_options in the program's settings.
 */
#ifndef BENCH_OPTIONS_ROWS_H
#define BENCH_OPTIONS_ROWS_H

#include "bench/options/options.h"
#include "programs/options.h"

#include <limits.h>

#define BENCH_ROW_ITERS(AT)                                                                        \
    {                                                                                              \
        'n', "iters", "N", &weiri_option_int, AT(iterations), 0, INT_MAX, "0",                     \
            .flags = WEIRI_OPTION_SAME | WEIRI_OPTION_EXPLAINED,                                   \
            .help = "timed iterations (default: 0, as many as fit a time budget, from 10 to 400)"  \
    }
#define BENCH_ROW_NGPUS(AT)                                                                        \
    {                                                                                              \
        'g', "ngpus", "N", &weiri_option_int, AT(ngpus), 1, WEIR_RANKS_MAX, "1",                   \
            .help = "start N ranks on this node, without a launcher"                               \
    }
#define BENCH_ROW_TIMEOUT(AT)                                                                      \
    {                                                                                              \
        'T', "timeout", "SECONDS", &weiri_option_int, AT(timeout_s), 0, 86400, "0",                \
            .flags = WEIRI_OPTION_EXPLAINED,                                                       \
            .help = "deadline of set-up and every wait (default: 0, which means WEIR_TIMEOUT_MS, " \
                    "else 30 s)"                                                                   \
    }
#define BENCH_ROW_SPLIT(AT)                                                                        \
    {                                                                                              \
        0, "split", "RULE", &weiri_option_text, AT(split_text),                                    \
            .flags = WEIRI_OPTION_SAME, .manifest = "split",                                       \
            .help = "divide the ranks into groups that run the same calls at the same time, as "   \
                    "NCCL_TESTS_SPLIT does (default: that variable, or NCCL_TESTS_SPLIT_MASK). "   \
                    "RULE is an operator (and, or, mod, div), a colon and a number, such as "      \
                    "mod:2; ranks with the same result form a group"                               \
    }
#define BENCH_ROW_CSV(AT)                                                                          \
    {                                                                                              \
        0, "csv", "FILE", &weiri_option_text, AT(csv_path),                                        \
            .help = "also write CSV, each row as soon as it is known"                              \
    }
#define BENCH_ROW_VERSION(AT)                                                                      \
    {                                                                                              \
        0, "version", NULL, &weiri_option_flags, AT(action), .high = BENCH_ACTION_VERSION,         \
                                                             .help = "print the version and exit"  \
    }
#define BENCH_ROW_HELP(AT)                                                                         \
    {                                                                                              \
        'h', "help", NULL, &weiri_option_flags, AT(action), .high = BENCH_ACTION_HELP,             \
                                                            .help = "print this help and exit"     \
    }

#endif
