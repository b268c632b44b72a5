/* Rows of a tuning table, as text; their meaning is described in select.c. */
#ifndef WEIR_COLL_TUNING_H
#define WEIR_COLL_TUNING_H

#include <stddef.h>

typedef struct weiri_tuning_row {
    char collective[24];
    int max_ranks;
    char cores[16];
    char max_bytes[24];
    char algo[256]; /* or "plan:FILE" */
    char grid[16];  /* "16x64"; empty: the algorithm's default */
} weiri_tuning_row;

/* The built-in rows. */
extern const weiri_tuning_row weiri_tuning_rows[];
extern const size_t weiri_tuning_row_count;

#endif
