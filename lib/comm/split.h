/*
 * Dividing a group of ranks by colors, as MPI_Comm_split does. weir_comm_split and ncclCommSplit
 * use it.
 */
#ifndef WEIR_COMM_SPLIT_H
#define WEIR_COMM_SPLIT_H

#include <weir/weir.h>

/* The ranks of one color. */
typedef struct weiri_split_group {
    int *members; /* their numbers in the bootstrap, by key, then rank; the caller's array */
    int count;    /* 0 for a rank that passed WEIR_SPLIT_NONE */
    int rank;     /* the calling rank's index in members */
} weiri_split_group;

/* Exchanges colors and keys, and fills group, whose members has room for all ranks of boot.
 * Collective over boot. WEIR_ERR_INVALID on all ranks if any color is below WEIR_SPLIT_NONE. */
weir_status weiri_split_exchange(weir_boot *boot, int color, int key, weiri_split_group *group);

#endif
