/*
 * The argument of the kernel of sends and receives: plain data, passed by value. A flow is one
 * direction of a pair of ranks. All blocks that serve flows must be resident at the same time,
 * because they wait for other ranks' blocks; the blocks after those copy what the rank sends to
 * itself.
 */
#ifndef WEIR_NCCL_P2P_GPU_H
#define WEIR_NCCL_P2P_GPU_H

#include "comm/gpu/gpu_view.h"
#include "nccl/p2p/p2p.h"

/* Calls in one launch: a send and a receive with each of the most ranks, and some more. The
 * argument must fit into 4 KiB. */
enum { WEIRI_P2P_CALLS_MAX = 96 };

/* The most lanes of a block, which needs a bit and a thread for each. */
enum { WEIRI_P2P_LANES_EACH_MAX = 32 };

typedef struct weiri_p2p_call {
    char *buffer;
    uint64_t bytes;
    int32_t peer, sends;
} weiri_p2p_call;

/* A message of the rank to itself. */
typedef struct weiri_p2p_self_copy {
    char *to;
    const char *from;
    uint64_t bytes;
    int32_t blocks; /* blocks that copy it; 0: there is none */
} weiri_p2p_self_copy;

typedef struct weiri_p2p_args {
    weir_guard guard;
    char *mailbox[WEIRI_GPU_RANKS_MAX]; /* every rank's, mapped here */
    weiri_p2p_lanes lanes;
    int32_t rank;
    int32_t ncalls, nflows;
    int32_t blocks_each; /* blocks of a flow: as many as the lanes of its longest message, or fewer
                          * that serve several lanes each; one per lane for messages by packets */
    int32_t first[2 * WEIRI_GPU_RANKS_MAX + 1]; /* the first call of each flow */
    weiri_p2p_call call[WEIRI_P2P_CALLS_MAX];
    weiri_p2p_self_copy own;
} weiri_p2p_args;

enum {
    /* Blocks of the kernel for which every multiprocessor has room. While one of them waits until a
     * counter has been released, the other one moves data. */
    WEIRI_P2P_BLOCKS_PER_PROCESSOR = 2,
    /* Blocks of a flow of long messages, two lanes each, that keep a link busy; more are slower. */
    WEIRI_P2P_BLOCKS_EACH_MAX = 64,
};

/* Blocks per flow of long messages if `room` blocks fit in all: one per lane, or fewer that serve
 * an equal number of lanes each. 0: not even one per flow fits. */
static inline int weiri_p2p_blocks_for(int lanes, int nflows, int room)
{
    const int blocks = room / nflows;
    if (blocks * WEIRI_P2P_LANES_EACH_MAX < lanes)
        return 0;
    const int lanes_each = (lanes - 1) / blocks + 1;
    return (lanes - 1) / lanes_each + 1;
}

/* Whether all messages of a launch are short. They have their own kernel, because the kernel that
 * also serves long ones takes longer to start. */
static inline int weiri_p2p_are_short(const weiri_p2p_args *args)
{
    for (int i = 0; i < args->ncalls; i++)
        if (!weiri_p2p_is_short(args->call[i].bytes, args->lanes))
            return 0;
    return 1;
}

#endif
