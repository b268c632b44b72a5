/*
 * Which slot of NCCL EP holds which row. Each expert has a fixed place, in which the order of its
 * rows is the library's, another one in each call: so after a dispatch the contents of each slot
 * are compared with the rows that should arrive, and copied to where weir would place them; the
 * experts' outputs go back to these slots.
 */
#ifndef BENCH_MOE_NCCL_EP_ROWS_H
#define BENCH_MOE_NCCL_EP_ROWS_H

#include "bench/moe/moe_trial.h"

/* A row that this rank should receive. */
typedef struct ep_expected {
    uint64_t hash;
    int expert; /* of this rank */
    int row;    /* in weir's layout */
    int slot;   /* of its expert; -1: has not arrived in the latest dispatch */
} ep_expected;

typedef struct ep_rows {
    ep_expected *expected; /* sorted by expert and hash */
    int count;
    int slots;    /* of an expert */
    int *unknown; /* [slots]: slots with contents that should not be there */
    char *mirror; /* [slots]: rows of one expert */
} ep_rows;

/* Lists the rows of a version. Local. */
weir_status bench_ep_rows_open(moe_candidate *candidate, int version, int slots, ep_rows *rows);
void bench_ep_rows_close(ep_rows *rows);
/* Copies received rows from GPU memory to the candidate's rows, by the candidate's counts, and sets
 * its offsets. Rows with contents that should not be there are put where one is missing, so that
 * the check reports them; other missing rows are zeros. */
weir_status bench_ep_rows_fetch(moe_candidate *candidate, ep_rows *rows, const char *device);
/* Copies the candidate's outputs to the slots of their rows in GPU memory. */
weir_status bench_ep_rows_store(moe_candidate *candidate, ep_rows *rows, char *device);

#endif
