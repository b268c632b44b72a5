/*
 * The oracle of expert parallelism: data, routings and expected results of dispatch and combine,
 * which every rank can compute for all ranks.
 *
 * Rows are composed of blocks of 128 elements from one table. A row's number, which states the call
 * (version), the source rank, the token and, for expert outputs, the choice, determines its blocks:
 * so a received row is compared by memcmp, and a row that is wrong is identified.
 *
 * Uses only the public API of weir. Calls are local.
 */
#ifndef VERIFY_MOE_H
#define VERIFY_MOE_H

#include <weir/moe.h>

enum { WEIRV_MOE_MESSAGE = 400, WEIRV_MOE_VERSIONS = 3 };

/* How tokens are routed. */
typedef enum weirv_moe_spread {
    WEIRV_MOE_UNIFORM, /* all experts equally often */
    WEIRV_MOE_ZIPF,    /* expert e in proportion to (e + 1)^-parameter */
    WEIRV_MOE_HOT,     /* the first choice of every token is expert 0, the others are uniform */
    WEIRV_MOE_EMPTY,   /* uniform; ranks with odd numbers have no tokens */
    WEIRV_MOE_MASKED,  /* uniform; each choice is masked with probability `parameter` */
    WEIRV_MOE_RAGGED,  /* uniform; ranks have different numbers of tokens, some none */
    WEIRV_MOE_TRACE,   /* the lines of a file, one token each, in turn */
    WEIRV_MOE_SPREADS
} weirv_moe_spread;

typedef struct weirv_moe_shape {
    int nranks;
    weir_moe_config config; /* of the group; defaults resolved as weir_moe_create does */
    weirv_moe_spread spread;
    double parameter;
    const char *trace; /* file of WEIRV_MOE_TRACE: topk numbers on each line, -1: none */
    uint64_t seed;
} weirv_moe_shape;

typedef struct weirv_moe weirv_moe;

/* Creates an oracle. problem (WEIRV_MOE_MESSAGE bytes) gets one line if it fails: no memory, or a
 * trace that cannot be used. Release with weirv_moe_close. Returns 0, or -1. */
int weirv_moe_open(const weirv_moe_shape *shape, weirv_moe **oracle, char *problem);
void weirv_moe_close(weirv_moe *oracle);
/* Sets the numbers by which messages name the ranks, such as those of a larger job. names:
 * [nranks], borrowed until weirv_moe_close. */
void weirv_moe_name_ranks(weirv_moe *oracle, const int *names);
/* Returns a hash of the trace's choices, which does not depend on the ranks; 0 without a trace. */
uint64_t weirv_moe_trace_hash(const weirv_moe *oracle);

/* The routing of a call: tokens of a rank, their experts and weights ([tokens, topk]). */
int weirv_moe_tokens(const weirv_moe *oracle, int version, int rank);
const int32_t *weirv_moe_experts(const weirv_moe *oracle, int version, int rank);
const float *weirv_moe_weights(const weirv_moe *oracle, int version, int rank);

/* Writes the rows of a rank's tokens; data is the version of their contents. */
void weirv_moe_fill_tokens(const weirv_moe *oracle, int version, int data, int rank, void *x);
/* Writes the outputs of a rank's experts, in the layout of the group. This and the functions below
 * need memory for the rows of one rank, which they keep; without it they do nothing. */
void weirv_moe_fill_outputs(weirv_moe *oracle, int version, int rank, void *rows);
/* Returns the rows that a rank receives. */
int weirv_moe_received(weirv_moe *oracle, int version, int rank);
/* Returns the row after the last one that dispatch may write. */
int weirv_moe_end_row(weirv_moe *oracle, int version, int rank);
/* Finds the index-th received row of a rank: returns the row in its buffer, and whose it is. */
int weirv_moe_row(weirv_moe *oracle, int version, int rank, int index, int *source, int *token,
                  int *choice);

/* What a dispatch wrote. Members that are NULL are not checked. */
typedef struct weirv_moe_received_rows {
    const void *rows;
    const float *row_scales, *row_weights;
    const int32_t *row_experts, *expert_counts, *expert_offsets, *source_counts;
    const void *guard;         /* a row that nothing may write, filled with WEIRV_MOE_GUARD */
    const float *guard_scales; /* its scales, to identify a row that was written there */
} weirv_moe_received_rows;

enum { WEIRV_MOE_GUARD = 0xA5 };

/* Which part of the rows is compared as a whole: every row whose index modulo `every` is `phase`;
 * of the others the first and the last block. {1, 0}: all. */
typedef struct weirv_moe_sample {
    int every, phase;
} weirv_moe_sample;

/* Checks what a rank received. Returns the number of wrong rows and counts, and a message about the
 * first, which names token, source, expert, rank and row. */
uint64_t weirv_moe_check_dispatch(weirv_moe *oracle, int version, int data, int rank,
                                  const weirv_moe_received_rows *got, weirv_moe_sample sample,
                                  char message[WEIRV_MOE_MESSAGE]);

/* What the rows were that combine added. */
typedef enum weirv_moe_added {
    WEIRV_MOE_OUTPUTS, /* those of weirv_moe_fill_outputs */
    WEIRV_MOE_TOKENS,  /* the received rows themselves */
} weirv_moe_added;

/* Checks the result of a combine on a rank bit for bit, or, with tolerance above 0, by relative
 * error with a denominator of at least 0.02. weighted: the weights of the routing were passed. */
uint64_t weirv_moe_check_combine(weirv_moe *oracle, int version, int rank, const void *out,
                                 weirv_moe_added added, int weighted, double tolerance,
                                 weirv_moe_sample sample, char message[WEIRV_MOE_MESSAGE]);

#endif
