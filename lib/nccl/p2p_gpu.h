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

/* What messages a launch has: short ones alone; in each flow short ones alone, or long ones; any.
 * Each has a kernel, as what serves more leaves fewer registers for copies. */
typedef enum weiri_p2p_kind { WEIRI_P2P_SHORT, WEIRI_P2P_ALIKE, WEIRI_P2P_MIXED } weiri_p2p_kind;

static inline weiri_p2p_kind weiri_p2p_kind_of(const weiri_p2p_args *args)
{
    weiri_p2p_kind kind = WEIRI_P2P_SHORT;
    for (int flow = 0; flow < args->nflows; flow++) {
        const weiri_p2p_call *first = args->call + args->first[flow];
        const weiri_p2p_call *last = args->call + args->first[flow + 1];
        const int are_short = weiri_p2p_is_short(first->bytes, args->lanes);
        for (const weiri_p2p_call *call = first; call < last; call++)
            if (weiri_p2p_is_short(call->bytes, args->lanes) != are_short)
                return WEIRI_P2P_MIXED;
        kind = are_short ? kind : WEIRI_P2P_ALIKE;
    }
    return kind;
}

#endif
