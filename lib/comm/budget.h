/*
 * The budget of thread blocks: how many a kernel of a collective may have, so that other kernels
 * keep the remaining multiprocessors. A communicator has one (weir_comm_config), and a call may
 * narrow it (weir_call). Equal on all ranks, because grids must be.
 */
#ifndef WEIR_COMM_BUDGET_H
#define WEIR_COMM_BUDGET_H

#include <weir/weir.h>

/* With WEIR_BLOCKS_EFFICIENCY and WEIR_BLOCKS_ZERO, the most blocks of a kernel. */
enum { WEIRI_BLOCKS_EFFICIENT = 16 };

typedef struct weiri_budget {
    int least, most; /* blocks; 0: no limit */
    weir_block_policy policy;
} weiri_budget;

static inline weiri_budget weiri_budget_of_config(const weir_comm_config *config)
{
    const weiri_budget budget = {config->min_blocks, config->max_blocks, config->block_policy};
    return budget;
}

/* The budget of a call: the smaller maximum counts, the call's minimum and policy if it has any. */
static inline weiri_budget weiri_budget_of_call(weiri_budget comm, const weir_call *call)
{
    weiri_budget own = comm;
    if (call->max_blocks > 0 && (!own.most || call->max_blocks < own.most))
        own.most = call->max_blocks;
    if (call->min_blocks > 0)
        own.least = call->min_blocks;
    if (call->block_policy != WEIR_BLOCKS_AUTO)
        own.policy = call->block_policy;
    return own;
}

/* A number of blocks within the budget. The maximum precedes the minimum, and both the policy. */
static inline int weiri_budget_limit(weiri_budget budget, int blocks)
{
    const int is_frugal =
        budget.policy == WEIR_BLOCKS_EFFICIENCY || budget.policy == WEIR_BLOCKS_ZERO;
    if (is_frugal && blocks > WEIRI_BLOCKS_EFFICIENT)
        blocks = WEIRI_BLOCKS_EFFICIENT;
    if (blocks < budget.least)
        blocks = budget.least;
    return budget.most > 0 && blocks > budget.most ? budget.most : blocks;
}

#endif
