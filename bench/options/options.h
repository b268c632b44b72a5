/*
 * The options of a run as plain data. parse.c fills the struct by the option table (table.c), which
 * also writes options for the manifest and for the comparison between ranks; afterwards no option
 * is compared as a string.
 */
#ifndef BENCH_OPTIONS_OPTIONS_H
#define BENCH_OPTIONS_OPTIONS_H

#include "bench/options/split.h"
#include <weir/weir.h>

enum {
    BENCH_ALL = -1,             /* "all" of -d, -o and -r */
    BENCH_FEW_ROUNDS = 4,       /* a size is not divided into fewer rounds, unless asked to */
    BENCH_ROUND_ITERATIONS = 3, /* iterations that a round must have */
    BENCH_PEERS_MAX = 8,
    BENCH_CANDIDATES_MAX = 192, /* of one run, peers included */
    BENCH_PROBLEM_BYTES = 1024  /* a line that describes a usage error */
};

typedef enum bench_action {
    BENCH_ACTION_RUN,
    BENCH_ACTION_HELP,
    BENCH_ACTION_HELP_ENV,
    BENCH_ACTION_VERSION,
    BENCH_ACTION_LIST_ALGOS,
    BENCH_ACTION_LIST_FAULTS
} bench_action;

/* The references that outputs are compared with, as bits: see bench_options_oracles. */
enum { BENCH_ORACLE_MPI = 1, BENCH_ORACLE_EXACT = 2 };

/* -a: which of the ranks' times of one iteration the table shows. */
typedef enum bench_rank_time {
    BENCH_RANK_ZERO,
    BENCH_RANK_MEAN,
    BENCH_RANK_MIN,
    BENCH_RANK_MAX
} bench_rank_time;

/* -z */
typedef enum bench_blocking {
    BENCH_BLOCKING_NONE,
    BENCH_BLOCKING_OPERATION, /* a barrier after each operation */
    BENCH_BLOCKING_NONE_TOO,  /* nccl-tests has two names for it */
    BENCH_BLOCKING_ITERATION  /* a barrier after each iteration */
} bench_blocking;

/* Options whose value is one word: the enumerators are in the order of the words in the option
 * table. */
typedef enum bench_backend_word {
    BENCH_BACKEND_AUTO,
    BENCH_BACKEND_HOST,
    BENCH_BACKEND_CUDA
} bench_backend_word;

typedef enum bench_mode { BENCH_MODE_THROUGHPUT, BENCH_MODE_LATENCY } bench_mode;

typedef enum bench_verify {
    BENCH_VERIFY_MPI,
    BENCH_VERIFY_EXACT,
    BENCH_VERIFY_BOTH,
    BENCH_VERIFY_OFF
} bench_verify;

typedef enum bench_buffers_word { BENCH_BUFFERS_WEIR, BENCH_BUFFERS_PLAIN } bench_buffers_word;

typedef enum bench_counts_word { BENCH_COUNTS_HOST, BENCH_COUNTS_DEVICE } bench_counts_word;
typedef enum bench_wire_word { BENCH_WIRE_OFF, BENCH_WIRE_FP8, BENCH_WIRE_INT8 } bench_wire_word;
typedef enum bench_fuse_word {
    BENCH_FUSE_OFF,
    BENCH_FUSE_NORM,
    BENCH_FUSE_NORM_FP8
} bench_fuse_word;

/* How a vendor's library is used: see bench/candidate/candidate_nccl.c. */
typedef enum bench_nccl_mode {
    BENCH_NCCL_DEFAULT,
    BENCH_NCCL_SYMMETRIC,
    BENCH_NCCL_ZERO_CTA,
    BENCH_NCCL_MODES
} bench_nccl_mode;

typedef enum bench_peer_kind {
    BENCH_PEER_UNKNOWN, /* the text names no peer */
    BENCH_PEER_MPI,
    BENCH_PEER_VENDOR,  /* a vendor's library in some of its modes */
    BENCH_PEER_NCCL_EP, /* bench_moe only */
    BENCH_PEER_COPIES,  /* sendrecv only: into the receiver's memory */
    BENCH_PEER_PYTHON,  /* a Python file */
    BENCH_PEER_FILE,    /* a library that implements weir/peer.h */
} bench_peer_kind;

/* What a peer cannot do without. */
enum {
    BENCH_PEER_NEEDS_MPI = 1, /* ranks that MPI started */
    BENCH_PEER_NEEDS_GPU = 2, /* a build with CUDA */
};

/* What --beside computes. */
typedef enum bench_computes {
    BENCH_COMPUTE_NONE, /* it is a call of --with */
    BENCH_COMPUTE_GEMM,
    BENCH_COMPUTE_STREAM,
    BENCH_COMPUTE_FLOPS
} bench_computes;

/* One --with or --beside: a call or a computation that competes with the measured call. */
enum { BENCH_WITH_MAX = 4 };
typedef struct bench_with {
    const char *text;
    weir_collective collective;
    size_t bytes; /* stream: read and written */
    bench_split split;
    bench_computes computes;
    size_t m, n, k; /* gemm */
    weir_dtype dtype;
} bench_with;

/* One --peer. */
typedef struct bench_peer {
    const char *text; /* as the user wrote it */
    const char *path; /* the library's file; NULL: found by its usual name */
    bench_peer_kind kind;
    unsigned needs; /* bits BENCH_PEER_NEEDS_MPI, ... */
    unsigned modes; /* of a vendor's library: bits 1 << bench_nccl_mode */
} bench_peer;

/* The option table stores members by their offset. */
typedef struct bench_options {
    int action; /* bench_action */
    size_t min_bytes, max_bytes, step_bytes, step_factor;
    int min_given, max_given, step_given;
    int iterations; /* 0: as many as fit the time budget */
    int rounds;     /* --visits */
    int rounds_given;
    int batched; /* set by the program: operations are enqueued on the stream in batches; then
                    -G is the number of batches and -n the number of operations per batch */
    double for_s, window_s; /* --for, 0: not given; --window */
    int window_given;
    double until;           /* --until as a fraction of the median; 0: not given */
    double floor_gbs;       /* least average bus bandwidth, if floor_name is set */
    int floor_given;        /* --min-bw */
    const char *floor_name; /* where it comes from; NULL: there is none */
    int warmups;            /* -1: until times no longer fall */
    int aggregate, cycles, checks;
    int dtype, op, root; /* or BENCH_ALL */
    int blocking;        /* bench_blocking */
    int timeout_s;       /* 0: weir's default */
    int graph, cpu_time, timestamps, rank_time, registration, memory_report, unalign_elements;
    int per_iteration, skip, cold, determinism, invariant, unproved, nthreads, ngpus, quiet,
        ignored;
    int asleep;     /* a pause before each operation, in which links fall asleep */
    int max_blocks; /* of a collective's GPU kernel; 0: no limit */
    int inject;     /* bench_fault */
    int inject_timed;
    int inject_slow;      /* percent by which weir's timed operations are made slower; 0: not */
    int inject_slow_rank; /* 1 + the only rank that is slowed down; 0: all are */
    int backend, transport, mode, verify, buffers, counts, fuse, wire; /* the enums above */
    int hidden; /* elements of a row; --fuse */
    const char *json_path, *csv_path, *tune_path, *tune_nccl_path, *verify_nccl_path, *ceiling_path,
        *algo, *dist, *plan, *plan_dir;
    const char *pattern;    /* of sendrecv */
    const char *split_text; /* the rule in one spelling, `split_name`; NULL: there is none */
    bench_split split;
    char split_name[24];
    const char *split_from; /* "--split", or the variable */
    size_t seed;
    bench_peer peers[BENCH_PEERS_MAX];
    int npeers;
    bench_with rivals[BENCH_WITH_MAX];
    int nrivals;
} bench_options;

/* All functions are pure. */

/* 1 if outputs are checked at all. */
int bench_options_verifies(const bench_options *options);
/* The references that outputs are compared with, BENCH_ORACLE_* bits; 0: none. */
unsigned bench_options_oracles(const bench_options *options);
/* The number of rounds into which the iterations of a size are divided: --visits, or fewer if -n
 * is small; 1 if rounds would be too few or too short to compare, and for a fault that is injected
 * into a timed iteration. */
int bench_options_rounds(const bench_options *options);
/* The seconds after which --until gives up on a size. */
int bench_options_until_s(const bench_options *options);
/* 1 if --plan is measured and no algorithm beside it. */
int bench_options_plan_only(const bench_options *options);
/* 1 if the user has named the algorithms to measure; 0 for "all" and --tune, which try them. */
int bench_options_names_algos(const bench_options *options);

/* Writes into problem (BENCH_PROBLEM_BYTES) why a run is refused. Returns -1. */
int bench_refuse(char *problem, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
