/*
 * The options of bench_blocks as plain data. Those that other benchmarks have as well are in
 * `common`, which the job's set-up reads.
 */
#ifndef BENCH_BLOCKS_BLOCKS_OPTIONS_H
#define BENCH_BLOCKS_BLOCKS_OPTIONS_H

#include "bench/options/options.h"
#include "programs/options.h"

#include <stdio.h>

enum { BLOCKS_POINTS_MAX = 32 };

/* The faults of --inject. */
typedef enum blocks_fault {
    BLOCKS_NO_FAULT,
    BLOCKS_LOST_BLOCK,   /* the last entry of a list is left out */
    BLOCKS_SWAPPED_PAIR, /* two entries exchange their destinations */
    BLOCKS_EXTRA_PAGE,   /* a page is written that is in no list */
    BLOCKS_EARLY_TAG,    /* put stores its tag before its data */
    BLOCKS_FAULTS
} blocks_fault;

/* What is measured; those after weir's are peers. */
typedef enum blocks_kind {
    BLOCKS_PUT,
    BLOCKS_GET,
    BLOCKS_MEMCPY,
    BLOCKS_READV,
    BLOCKS_MPI,
    BLOCKS_SOCKET, /* a floor: moves bytes, no pages */
    BLOCKS_KINDS
} blocks_kind;

/* How an engine lays out the cache of one rank. A page has 2 bytes for each element of its tokens'
 * keys and values, which are in one block or in two. */
typedef struct blocks_engine {
    const char *name, *version;
    int page_tokens, layers, heads, head_size;
    int vectors;         /* of a head and token: 2, a key and a value, or 1, latent */
    int is_apart;        /* keys and values are in different blocks */
    int is_layer_inside; /* all layers' keys stand before the values; else both within a layer */
} blocks_engine;

typedef struct blocks_options {
    bench_options common;
    blocks_engine engine; /* with the numbers that options replaced */
    int pages[BLOCKS_POINTS_MAX], npages;
    int page_tokens, layers, heads, head_size; /* 0: the engine's */
    int is_sorted, is_both, prefill;
    int has_peer[BLOCKS_KINDS];
    int fault; /* blocks_fault */
} blocks_options;

/* The options; the settings are blocks_options. */
extern const weiri_options blocks_options_table;

/* Returns the name of a fault, other than BLOCKS_NO_FAULT. */
const char *blocks_fault_name(int fault);
/* Parses the command line. Local. WEIR_ERR_INVALID: problem (BENCH_PROBLEM_BYTES) is one line that
 * names the option and the remedy. options points into argv. */
weir_status blocks_options_parse(int argc, char **argv, blocks_options *options, char *problem);
/* Prints --help. Local. */
void blocks_options_help(FILE *to);

#endif
