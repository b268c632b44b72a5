/*
 * Ranks that are late at chosen places, the same ones in every run. Between late_begin and late_end
 * one rank of the board runs at a time, until it waits for another one; then the next rank runs.
 * Stores to flags, and loads and waits that see a flag changed, are points. At a point a rank may
 * be late: it goes on only when no other rank can, each having run ahead as far as it may. Or it
 * lets the next rank run first. A wait that is missing or ends too early then shows in the data.
 */
#ifndef VERIFY_TESTS_SUPPORT_LATE_RANKS_H
#define VERIFY_TESTS_SUPPORT_LATE_RANKS_H

#include <stdint.h>

typedef struct late_board late_board;

/* Memory that the ranks share; made before they are forked. NULL: none. */
late_board *late_board_create(int nranks, int streams_to_peers);
void late_board_destroy(late_board *board);

/* Every rank calls them. */
void late_begin(late_board *board, int rank);
void late_end(void);
/* Begins a round in which that rank is late, at places that follow from the seed. */
void late_round(uint64_t seed, int rank);
/* Has all ranks end their processes, as soon as they run. */
void late_fail(void);

/* The next of a series of random numbers. */
static inline uint64_t late_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

#endif
