/*
 * What the kernel of sends and receives is given: plain data, by value in the
 * launch. All blocks that serve flows must be on the device at once, since they wait for
 * other ranks' blocks; those behind them copy what the rank sends to itself.
 */
#ifndef WEIR_NCCL_P2P_GPU_H
#define WEIR_NCCL_P2P_GPU_H

#include "comm/gpu_view.h"
#include "nccl/p2p.h"

/* In one launch: a send and a receive with each of the most ranks, and some more; fits
 * into the 4 KiB of arguments. */
enum { WEIRI_P2P_CALLS_MAX = 96 };

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
    int32_t rank, lanes;
    int32_t ncalls, nflows;
    int32_t blocks_each; /* of a flow: the most lanes that a message of this launch has */
    int32_t first[2 * WEIRI_GPU_RANKS_MAX + 1]; /* a flow's calls, one direction of a pair's */
    weiri_p2p_call call[WEIRI_P2P_CALLS_MAX];
    weiri_p2p_own own;
} weiri_p2p_args;

#endif
