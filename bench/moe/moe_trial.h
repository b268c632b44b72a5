/*
 * One row of bench_moe's table: a number of tokens per rank, its oracle, and the candidates that
 * dispatch and combine these tokens, each with its own buffers.
 */
#ifndef BENCH_MOE_TRIAL_H
#define BENCH_MOE_TRIAL_H

#include "bench/job/job.h"
#include "bench/moe/moe_options.h"
#include "verify/moe.h"

/* What is timed. */
typedef enum moe_phase {
    MOE_PHASE_DISPATCH,
    MOE_PHASE_COMBINE,
    MOE_PHASE_PAIR, /* the sum of both */
    MOE_PHASE_CHAIN,
    MOE_PHASES
} moe_phase;

typedef struct moe_candidate moe_candidate;
typedef struct bench_moe_trial bench_moe_trial;

/* What a candidate does. Functions return a status and describe failures by weir_last_error or a
 * note in the job. version chooses the routing and the data, 0 to WEIRV_MOE_VERSIONS - 1. A slot is
 * where a call reads them, 0 to WEIRV_MOE_VERSIONS - 1; unless calls are captured, a slot has the
 * version of its number. */
typedef struct moe_candidate_ops {
    const char *name;  /* in the table, and in column contender */
    const char *title; /* of a library, in sentences */
    const char *algo;  /* in column algo; NULL: weir's */
    /* Whether it can measure a trial, as far as that is known before open; NULL: always. Local. */
    weir_status (*check)(const bench_moe_trial *trial);
    /* Collective; agreed, and failures are reported. */
    weir_status (*open)(moe_candidate *self);
    void (*close)(moe_candidate *self);
    /* Collective; complete on return. */
    weir_status (*dispatch)(moe_candidate *self, int slot);
    weir_status (*combine)(moe_candidate *self, int slot);
    /* Candidates that work on a GPU (else NULL): dispatch and combine are enqueued on its stream.
     * Copy parts of the candidate's buffers to the GPU, and back after the stream is idle; fetch
     * also returns failures of the calls before. */
    weir_status (*store)(moe_candidate *self, int version, int parts);
    weir_status (*fetch)(moe_candidate *self, int parts);
    /* Candidates whose calls can be captured (else NULL): enqueues copies of parts of a version, as
     * they were stored, to a slot. */
    weir_status (*place)(moe_candidate *self, int slot, int version, int parts);
} moe_candidate_ops;

enum {
    MOE_PART_RECEIVED = 1, /* rows, scales, weights, experts, counts, offsets */
    MOE_PART_GUARD = 2,
    MOE_PART_OUTPUTS = 4,
    MOE_PART_OUT = 8,
    MOE_PART_WEIGHTS = 16,
    MOE_PART_TOKENS = 32, /* and their experts */
};

struct bench_moe_trial {
    bench_job *job;
    const bench_moe_options *options;
    int tokens;
    int rank, nranks; /* this rank's place in its group, whose ranks exchange tokens */
    weir_moe_config config;
    weirv_moe *oracle; /* of the group */
    int *names;        /* [nranks]: the job's ranks that form the group */
    int planted;       /* faults that have changed something on this rank */
};

struct moe_candidate {
    const moe_candidate_ops *ops;
    const bench_moe_trial *trial;
    weir_moe_info info;
    weir_mem *memory[WEIRV_MOE_VERSIONS + 3]; /* NULL entries: the buffers are malloc'd, or
                                                 page-locked mirrors of GPU buffers */
    size_t mirror_rows;                       /* rows that the buffers have room for */
    int holds_outputs[WEIRV_MOE_VERSIONS];    /* the GPU's memory has the experts' outputs */
    char *x[WEIRV_MOE_VERSIONS];              /* tokens of each version */
    char *rows;                               /* received; one row more, which is the guard */
    char *outputs;                            /* of the experts */
    char *out;
    float *scales;
    float *weights[WEIRV_MOE_VERSIONS]; /* a copy of the oracle's, which a fault changes */
    float *row_weights;                 /* layouts other than expert: with the rows */
    int32_t *row_experts, *counts, *offsets;
    int adds_rows;    /* combine adds the received rows: chains */
    double tolerance; /* of combine; 0: bit for bit */
    char *kept;       /* a row of the dispatch before, with its scales, for a fault */
    float kept_weight;
    void *state; /* of the ops */
};

extern const moe_candidate_ops bench_moe_weir;
/* Measures how long the GPU of weir's candidate takes to copy memory, with so many bytes read and
 * written in all. */
weir_status bench_moe_weir_copy_us(moe_candidate *candidate, double bytes, double *us);
extern const moe_candidate_ops bench_moe_nccl_ep;
extern const moe_candidate_ops bench_moe_mpi;
/* The candidate of --peer; NULL: none is given. */
const moe_candidate_ops *bench_moe_peer(const bench_moe_options *options);

/* The experts of a group of so many ranks: --experts, or some for each rank. Pure. */
int bench_moe_experts(const bench_moe_options *options, int nranks);
/* Opens the oracle of this rank's group. Collective; agreed. */
weir_status bench_moe_trial_open(bench_moe_trial *trial, bench_job *job,
                                 const bench_moe_options *options, int tokens);
void bench_moe_trial_close(bench_moe_trial *trial);
/* Allocates buffers and opens a candidate. Collective; agreed. */
weir_status bench_moe_candidate_open(moe_candidate *candidate, const moe_candidate_ops *ops,
                                     const bench_moe_trial *trial);
void bench_moe_candidate_close(moe_candidate *candidate);

/* Bytes of the rank that receives most, the mean over versions. */
typedef struct moe_volume {
    double rows_bytes;   /* rows that it receives in the layout expert, one for each choice */
    double link_bytes;   /* rows that it receives from other ranks, one for each token */
    double expert_bytes; /* the same, one for each choice */
} moe_volume;
moe_volume bench_moe_volume(const bench_moe_trial *trial, size_t row_bytes);

/* Where the fault of --inject is planted: in the second timed iteration, on the lowest rank of the
 * job whose data have a place for it, or on the rank that the option names, else in the next
 * iteration that has a place. */
typedef struct moe_target {
    int iteration, rank; /* rank: of the job; -1: there is no fault, or no place */
} moe_target;
/* Equal on all ranks. Collective over all ranks. */
moe_target bench_moe_inject_target(const bench_moe_trial *trial, int iterations);
/* Keeps a row after each dispatch, for a fault in the next one. */
void bench_moe_inject_keep(moe_candidate *candidate, int version);
/* Inject the fault, in these steps of an iteration: after a dispatch, between filling the outputs
 * and a combine, and after that, when weights are restored. whole is the index of a received row
 * that is compared as a whole. Return whether a byte has changed, of a row, its scales, a weight or
 * a count. */
int bench_moe_inject_received(moe_candidate *candidate, int version, int whole);
int bench_moe_inject_outputs(moe_candidate *candidate, int version);
void bench_moe_inject_undo(moe_candidate *candidate, int version);

#endif
