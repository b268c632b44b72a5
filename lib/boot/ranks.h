/* A list of ranks for error lines: "rank 2 has", "ranks 2, 5 have". */
#ifndef WEIR_BOOT_RANKS_H
#define WEIR_BOOT_RANKS_H

#include <stdio.h>

typedef struct weiri_ranks {
    int count;
    size_t used;
    char list[128]; /* ends in ", ..." when there are more than fit */
} weiri_ranks;

static inline void weiri_ranks_add(weiri_ranks *ranks, int rank)
{
    enum { LONGEST = 32 }; /* one more rank, the dots and the end */
    ranks->count++;
    if (ranks->used + LONGEST > sizeof ranks->list)
        return;
    ranks->used +=
        (size_t)snprintf(ranks->list + ranks->used, LONGEST, "%s%d", ranks->used ? ", " : "", rank);
    if (ranks->used + LONGEST > sizeof ranks->list)
        snprintf(ranks->list + ranks->used, sizeof ranks->list - ranks->used, ", ...");
}

static inline const char *weiri_ranks_noun(const weiri_ranks *ranks)
{
    return ranks->count == 1 ? "rank" : "ranks";
}

static inline const char *weiri_ranks_have(const weiri_ranks *ranks)
{
    return ranks->count == 1 ? "has" : "have";
}

#endif
