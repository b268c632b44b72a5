/* Sets of ranks of a plan, as bits. Operators of integers combine sets; `set &= set - 1` removes
 * the lowest rank. */
#ifndef WEIR_PLAN_FORMAT_RANK_SET_H
#define WEIR_PLAN_FORMAT_RANK_SET_H

#include <stdint.h>

/* WEIRI_PLAN_RANKS_MAX bits */
__extension__ typedef unsigned __int128 weiri_rank_set;

static inline weiri_rank_set weiri_rank_set_of(uint32_t rank)
{
    return (weiri_rank_set)1 << rank;
}

static inline int weiri_rank_set_has(weiri_rank_set set, uint32_t rank)
{
    return (int)(set >> rank & 1);
}

/* The lowest rank of a set that is not empty. */
static inline uint32_t weiri_rank_set_lowest(weiri_rank_set set)
{
    const uint64_t low = (uint64_t)set;
    return (uint32_t)(low ? __builtin_ctzll(low) : 64 + __builtin_ctzll((uint64_t)(set >> 64)));
}

static inline uint32_t weiri_rank_set_count(weiri_rank_set set)
{
    return (uint32_t)(__builtin_popcountll((uint64_t)set) +
                      __builtin_popcountll((uint64_t)(set >> 64)));
}

#endif
