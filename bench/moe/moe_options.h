/*
 * The options of bench_moe as plain data. Those that other benchmarks have as well are in `common`,
 * which the job's set-up reads.
 */
#ifndef BENCH_MOE_OPTIONS_H
#define BENCH_MOE_OPTIONS_H

#include "bench/options/options.h"
#include "programs/options.h"
#include "verify/moe.h"

#include <stdio.h>

enum { BENCH_MOE_TOKENS_MAX = 32 };

/* The faults of --inject. */
typedef enum bench_moe_fault {
    BENCH_MOE_NO_FAULT,
    BENCH_MOE_DROP_TOKEN,   /* a received row is not written */
    BENCH_MOE_WRONG_EXPERT, /* a token's row is in another place */
    BENCH_MOE_STALE_ROW,    /* a row holds the data of the previous call */
    BENCH_MOE_FLIP_BIT,     /* one bit of a received row */
    BENCH_MOE_LOSE_COUNT,   /* a count is one too small */
    BENCH_MOE_OVERFLOW,     /* a row is written after the last one */
    BENCH_MOE_WRONG_WEIGHT, /* combine uses another weight for one choice */
    BENCH_MOE_SWAP_OUTPUTS, /* combine gets the outputs of two rows exchanged */
    BENCH_MOE_FAULTS
} bench_moe_fault;

const char *bench_moe_fault_name(bench_moe_fault fault);

typedef struct bench_moe_options {
    bench_options common;                      /* what other benchmarks have as well */
    int tokens[BENCH_MOE_TOKENS_MAX], ntokens; /* per rank, one row of the table each */
    int hidden, experts, topk; /* experts 0: a number for each rank, see bench_moe_experts */
    int fp8;                   /* --dispatch-dtype fp8 */
    int layout;                /* weir_moe_layout */
    int alignment;
    int chain;        /* pairs timed together; 0: none */
    int spread;       /* weirv_moe_spread */
    double parameter; /* of it */
    const char *routing_text, *trace, *model;
    int fault, fault_rank; /* bench_moe_fault; of the job, -1: any */
    int max_blocks;
} bench_moe_options;

/* The options; the settings are bench_moe_options. */
extern const weiri_options bench_moe_options_table;

/* Parses the command line. Local. WEIR_ERR_INVALID: problem (BENCH_PROBLEM_BYTES) is one line that
 * names the option and the remedy. options points into argv. */
weir_status bench_moe_options_parse(int argc, char **argv, bench_moe_options *options,
                                    char *problem);
/* Prints --help. Local. */
void bench_moe_options_help(FILE *to);

#endif
