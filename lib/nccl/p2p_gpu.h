/*
 * What the kernel of sends and receives is given: plain data, by value in the
 * launch. All blocks that serve flows must be on the device at once, since they wait for
 * other ranks' blocks; those behind them copy what the rank sends to itself.
 */
#ifndef WEIR_NCCL_P2P_GPU_H
#define WEIR_NCCL_P2P_GPU_H

#include "comm/gpu/gpu_view.h"
#include "nccl/p2p.h"

/* In one launch: a send and a receive with each of the most ranks, and some more; fits
 * into the 4 KiB of arguments. */
enum { WEIRI_P2P_CALLS_MAX = 96 };

/* The most lanes of a block, which has a bit and a thread for each. */
enum { WEIRI_P2P_LANES_EACH_MAX = 32 };

typedef struct weiri_p2p_call {
    char *buffer;
    uint64_t bytes;
    int32_t peer, sends;
} weiri_p2p_call;

/* A message to itself. */
typedef struct weiri_p2p_own {
    char *to;
    const char *from;
    uint64_t bytes;
    int32_t blocks; /* that copy it; 0: there is none */
} weiri_p2p_own;

typedef struct weiri_p2p_args {
    weir_guard guard;
    char *mailbox[WEIRI_GPU_RANKS_MAX]; /* every rank's, mapped here */
    weiri_p2p_lanes lanes;
    int32_t rank;
    int32_t ncalls, nflows;
    int32_t blocks_each; /* of a flow: lanes that its longest message uses, or fewer blocks that
                          * serve several each; one each of a message with packets */
    int32_t first[2 * WEIRI_GPU_RANKS_MAX + 1]; /* a flow's calls, one direction of a pair's */
    weiri_p2p_call call[WEIRI_P2P_CALLS_MAX];
    weiri_p2p_own own;
} weiri_p2p_args;

/* Blocks of a flow of long messages, where there is room for so many in all: one for each lane, or
 * fewer that serve as many lanes each. 0: not even those. */
static inline int weiri_p2p_blocks_for(int lanes, int nflows, int room)
{
    const int blocks = room / nflows;
    if (blocks * WEIRI_P2P_LANES_EACH_MAX < lanes)
        return 0;
    const int lanes_each = (lanes - 1) / blocks + 1;
    return (lanes - 1) / lanes_each + 1;
}

/* Whether all messages of a launch are short. They have a kernel of their own, as what serves long
 * ones, too, takes longer to begin. */
static inline int weiri_p2p_are_short(const weiri_p2p_args *args)
{
    for (int i = 0; i < args->ncalls; i++)
        if (!weiri_p2p_is_short(args->call[i].bytes, args->lanes))
            return 0;
    return 1;
}

#endif
