/*
 * What was measured, as plain data. The writers (table, CSV, JSON, ratios) read nothing else.
 * Statistics are on rank 0 only.
 */
#ifndef BENCH_STATISTICS_RESULT_H
#define BENCH_STATISTICS_RESULT_H

#include "bench/gpu/clocks.h"
#include "bench/options/options.h"
#include "bench/sizes/pattern.h"
#include "bench/sizes/shape.h"
#include "bench/statistics/lateness.h"
#include "bench/statistics/stats.h"
#include "verify/verify.h"

enum { BENCH_OUT_OF_PLACE, BENCH_IN_PLACE, BENCH_PLACEMENTS, BENCH_ROUNDS_MAX = 256 };

/* The outcome of a check that not every result has. */
typedef enum bench_outcome { BENCH_OFF, BENCH_PASS, BENCH_FAIL } bench_outcome;

/* What --determinism found for one result. */
typedef struct bench_determinism_outcome {
    int tried, differing_repeats, differing_ranks, differing_sizes;
} bench_determinism_outcome;

/* What the writers show of a result; the report computes it once, when the row is complete. */
typedef struct bench_figures {
    int is_wrong;                /* bench_result_failed */
    int is_usable;               /* timed and not wrong; else the numbers below are NaN */
    unsigned long long wrong;    /* elements; overruns and changed inputs count as well */
    double algbw_gbs, busbw_gbs; /* of the median on the slowest rank */
    double shown_algbw_gbs, shown_busbw_gbs; /* of the table's time */
    double ceiling_pct;                      /* the ceiling divided by the median; NaN: unknown */
} bench_figures;

/* What one of several groups measured (--split), on rank 0. */
typedef struct bench_group_result {
    int nranks;
    bench_shape shape;
    bench_stats stats;        /* of the group's slowest rank's time per iteration, us */
    double time_us;           /* as bench_result.time_us */
    unsigned long long wrong; /* all that is wrong on its ranks */
} bench_group_result;

/* The times of a competing call (--with): this rank's; once collected, on rank 0 the slowest
 * rank's. */
enum {
    BENCH_RIVAL_ALONE,
    BENCH_RIVAL_TOGETHER,
    BENCH_RIVAL_STEP, /* computations: until it and one call have ended that began together */
    BENCH_RIVAL_KINDS
};
typedef struct bench_rival_times {
    const char *text;
    double *us[BENCH_RIVAL_KINDS]; /* owned */
    int count[BENCH_RIVAL_KINDS];
    int blocks, ends[BENCH_RIVAL_KINDS][BENCH_ROUNDS_MAX]; /* as the rounds of bench_sequence */
    bench_stats stats[BENCH_RIVAL_KINDS];
    bench_ratio ratio; /* together divided by alone */
    bench_ratio step;  /* a step divided by alone; computations only */
} bench_rival_times;

/* One candidate at one size in one placement. */
typedef struct bench_result {
    const char *candidate, *transport; /* in the candidate's storage */
    const char *settings;  /* in that storage too: what a peer in a file reports; else empty */
    const char *plan_file; /* in that storage too: the file of a candidate's plan; else NULL */
    char algo[32];
    int sms;          /* thread blocks of the largest kernel launched; 0: unknown */
    int peer;         /* 1: a peer; 0: weir */
    int runs_weir;    /* 1: weir's calls although peer is 1 */
    int is_starved;   /* 1: threads of the peer's library have no core of their own */
    int is_users;     /* 1: a user's kernel */
    int is_quantized; /* 1: --wire: errors are the largest and the mean one of rank 0's output,
                         divided by the root mean square of the exact sums */
    double errors[2];
    int ran;          /* 0: it cannot make this call, or the algorithm does not apply */
    char refusal[96]; /* the reason; else empty. algo then names the algorithm that served the call
                         instead of the one that was asked for, or is empty */
    int checked;      /* 1: check is valid; a result with errors is not timed */
    weirv_result check;
    int sampled;           /* 1: the MPI reference compared windows only */
    bench_outcome special; /* of the run on special values */
    bench_determinism_outcome determinism;
    int timed; /* 1: the members below are valid, on rank 0 */
    int iterations;
    int rounds, round_ends[BENCH_ROUNDS_MAX]; /* as in bench_sequence */
    int warmups;         /* untimed iterations, the largest number in a block */
    int unsteady;        /* 1: times still fell after the warm-ups */
    bench_clocks clocks; /* readings of this rank's GPU; once timed, on rank 0 those of all ranks */
    bench_stats skew;    /* us between the first and the last rank to start; no samples: not
                            measured */
    bench_lateness late; /* on rank 0: the rank that ends last; unknown without a common clock */
    bench_stats stats;   /* of the slowest rank's time per iteration, us */
    bench_stats per_iter;       /* the same without the first -K iterations */
    double time_us;             /* the table's time, a median, as -a says */
    double cpu_us;              /* a mean, the busiest rank's */
    double *slowest_us;         /* iterations numbers; owned */
    double *all_us;             /* nranks x iterations, row r is rank r's; owned */
    uint64_t own_wrong;         /* all that is wrong on this rank */
    bench_group_result *groups; /* one for each group; NULL: there is one group; owned */
    bench_rival_times *rivals;  /* nrivals; owned */
    int nrivals;
    bench_figures figures; /* on rank 0, while the row is reported */
} bench_result;

/* Wall time of rank 0 in seconds. Timing: blocks of iterations of all candidates with their
 * warm-ups. Verification: everything that -c 0 would leave out (new data, checked runs, comparison,
 * checks between timed iterations). */
typedef struct bench_cost {
    double timing_s, verification_s;
} bench_cost;

/* One line of the table. */
typedef struct bench_row {
    weir_collective collective;
    weir_dtype dtype;
    weir_op op;
    int root;                     /* -1: the collective has none */
    const bench_pattern *pattern; /* of sendrecv; else NULL */
    int nranks;
    bench_shape shape;  /* of this rank's group */
    size_t asked_bytes; /* the size that the shape was made for */
    int placements;     /* 2; 1 if the collective has no in-place form */
    int ncandidates;
    int oracles;                   /* BENCH_ORACLE_* bits: what results are compared with */
    int primary[BENCH_PLACEMENTS]; /* index of the candidate that the table shows */
    bench_cost cost[BENCH_PLACEMENTS];
    bench_result results[BENCH_PLACEMENTS][BENCH_CANDIDATES_MAX];
} bench_row;

enum { BENCH_REPEATS = 10, BENCH_DETERMINISM_ROWS = 80 };

/* The findings for one algorithm of weir, or a peer. results counts sizes, types, operations and
 * placements. */
typedef struct bench_determinism_row {
    char name[64];
    long results, differing_repeats, differing_ranks, differing_sizes;
    char first[256]; /* the first difference; empty: none */
} bench_determinism_row;

/* What the elements that every message has become; the same on every rank. */
enum { BENCH_EMBEDDED_ELEMENTS = 61 };
typedef struct bench_embedded_values {
    unsigned char bits[BENCH_EMBEDDED_ELEMENTS][sizeof(uint64_t)], known[BENCH_EMBEDDED_ELEMENTS];
} bench_embedded_values;

typedef struct bench_embedded {
    struct bench_embedded *next;
    weir_dtype dtype;
    weir_op op;
    char group[64]; /* of algorithms that must agree */
    bench_embedded_values values;
} bench_embedded;

/* The findings of --determinism in a run; the same on every rank. */
typedef struct bench_determinism {
    int nranks; /* the ranks whose outputs were compared with rank 0's; 0: the outputs differ by
                   definition */
    int embeds; /* 1: reductions, whose elements were compared at every size */
    int nrows;
    bench_determinism_row rows[BENCH_DETERMINISM_ROWS];
    bench_embedded *embedded; /* bench_embedded_free */
} bench_determinism;

/* All that is wrong with the result, as the table, the CSV and the JSON count it: wrong elements,
 * elements written outside the output, and changed elements of the input; 0 if it was not
 * checked. */
uint64_t bench_result_wrong(const bench_result *result);
/* 1 if the result is known to be wrong. */
int bench_result_failed(const bench_result *result);
/* The result as one of its groups measured it: with the group's times, errors and figures. Its
 * lateness is unknown; what it points to stays the result's. Pure. */
bench_result bench_result_of_group(const bench_row *row, const bench_result *result, int group);
/* Computes the figures of a result of a row, but for the ceiling. Pure. */
bench_figures bench_result_figures(const bench_row *row, const bench_result *result);
/* The times of a timed result on the slowest rank; the result owns them. */
bench_sequence bench_result_sequence(const bench_result *result);
/* The median of other divided by the median of shown, with a 95% interval: from the bootstrap, or
 * else from both medians' order statistics. Both must be timed. */
bench_ratio bench_result_ratio(const bench_result *other, const bench_result *shown);

/* The cost of both placements together. */
bench_cost bench_row_cost(const bench_row *row);
/* What a result was compared with: "exact+mpi", "exact+mpi-windows", "exact", "mpi" or "none". */
const char *bench_row_oracle(const bench_row *row, const bench_result *result);
/* "pass", "fail", or "off". Static. */
const char *bench_outcome_name(bench_outcome outcome);
/* "same"; "unlike-repeats" (bits differ from the first repeat), "unlike-ranks" (bits differ from
 * rank 0) or "unlike-both"; "unlike-sizes" if none of these, but an element has other bits at
 * another size or place; "off" if not tried. Static. */
const char *bench_determinism_name(const bench_determinism_outcome *outcome);
/* Releases what a run has remembered of embedded elements. */
void bench_embedded_free(bench_determinism *found);
/* "sum"; "none" if the collective does not reduce. */
const char *bench_row_op_name(const bench_row *row);
/* Describes a result of a row: "weir packet, float sum, 64 bytes, in place". */
void bench_row_describe(const bench_row *row, int placement, const bench_result *result, char *text,
                        size_t bytes);
/* Forgets the times of competing calls. */
void bench_result_clear_rivals(bench_result *result);
/* Frees what the results own. */
void bench_row_clear(bench_row *row);

#endif
