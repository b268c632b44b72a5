/*
 * Who sends to whom in sendrecv. The option --pattern is a list of kinds, each of which stands for
 * one or several patterns:
 *
 *   ring        rank r sends to r + 1, cyclic: all ranks at once
 *   pingpong    each pair of ranks alone: one sends, then the other; a time is that of one message
 *   oneway      each ordered pair alone: the first sends
 *   bothways    each pair alone: both send at the same time
 *   shift       for each K from 1: rank r sends to r + K, cyclic: all ranks at once
 *   bisection   ranks r and r + nranks / 2 send to each other: all ranks at once (but the last, if
 *               their number is odd)
 *
 * All functions are pure.
 */
#ifndef BENCH_SIZES_PATTERN_H
#define BENCH_SIZES_PATTERN_H

#define BENCH_PATTERN_WORDS "ring, pingpong, oneway, bothways, shift and bisection"

typedef enum bench_pattern_kind {
    BENCH_PATTERN_RING,
    BENCH_PATTERN_PINGPONG,
    BENCH_PATTERN_ONEWAY,
    BENCH_PATTERN_BOTHWAYS,
    BENCH_PATTERN_SHIFT,
    BENCH_PATTERN_BISECTION,
    BENCH_PATTERNS
} bench_pattern_kind;

typedef struct bench_pattern {
    bench_pattern_kind kind;
    int first, second; /* the pair, or K */
    char name[40];     /* "ring", "oneway:0-3", "shift:2", "bisection" */
} bench_pattern;

/* Whether every word of a list, with commas between them, is a kind. */
int bench_patterns_are_known(const char *list);
/* The number of patterns of a list for so many ranks: 0 if each needs more ranks. */
int bench_patterns_count(const char *list, int nranks);
/* One of them, index from 0 to their number - 1. */
bench_pattern bench_pattern_at(const char *list, int nranks, int index);

/* The rank that a rank receives from, or sends to; -1: none. Of pingpong both directions. */
int bench_pattern_source(const bench_pattern *pattern, int rank, int nranks);
int bench_pattern_destination(const bench_pattern *pattern, int rank, int nranks);
/* Whether every rank sends and receives. */
int bench_pattern_has_all(const bench_pattern *pattern, int nranks);

const char *bench_pattern_kind_name(bench_pattern_kind kind);

#endif
