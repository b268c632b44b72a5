/*
 * The host's side of sends and receives: what a communicator has for them, and how the
 * host moves a piece of a message to or from another rank.
 */
#ifndef WEIR_NCCL_P2P_HOST_H
#define WEIR_NCCL_P2P_HOST_H

#include "comm/internode/internode.h"
#include "nccl/abi.h"
#include "nccl/p2p.h"

typedef struct weiri_nccl_p2p {
    weir_comm *here;  /* of this machine's ranks, who know each other by their places */
    int place, count; /* this rank's, and how many there are */
    weiri_p2p_lanes lanes;
    weir_mem *own;
    weir_mem **all;   /* count */
    char **mailbox;   /* count, mapped here */
    weiri_internode *pairs; /* messages to ranks of other machines; NULL: there are none */
} weiri_nccl_p2p;

/* Whether a rank is reached by messages, else by mailboxes. */
static inline int weiri_p2p_is_remote(const weiri_nccl_comm *comm, int rank)
{
    const weiri_internode *pairs = comm->p2p->pairs;
    return pairs && weiri_internode_is_remote(pairs, rank);
}

/* Whether the host moves what is sent between this rank and another one. */
static inline int weiri_p2p_by_host(const weiri_nccl_comm *comm, int rank)
{
    return rank != comm->rank && (comm->device < 0 || weiri_p2p_is_remote(comm, rank));
}

static inline uint64_t weiri_p2p_bytes_of(const weiri_nccl_call *call)
{
    return weiri_nccl_count(call) * weir_dtype_bytes(call->call.dtype);
}

/* The next send to, or receive from, a peer, from a place on; NULL: none. */
const weiri_nccl_call *weiri_p2p_next_of(const weiri_nccl_call *calls, size_t count,
                                         int sends, int peer, size_t *from);

/* A message of a rank to itself: the first send goes to the first receive. */
typedef struct weiri_p2p_self {
    const weiri_nccl_call *send, *recv; /* NULL: there are no more */
    size_t sends, recvs;                /* how far calls have been looked through */
} weiri_p2p_self;

/* The next one. WEIR_ERR_UNSUPPORTED if one half is missing, WEIR_ERR_INVALID if lengths differ:
 * nothing was moved, and the communicator serves the next call. */
weir_status weiri_p2p_next_self(const weiri_nccl_comm *comm, const weiri_nccl_call *calls,
                                size_t count, weiri_p2p_self *self);

/* ---------------------------------------------------------------------- ways */

/* A word that is waited for. */
typedef struct weiri_p2p_awaited {
    const uint64_t *word;
    uint64_t target;
} weiri_p2p_awaited;

/* How pieces of messages travel between this rank and a peer, in order. Nothing blocks. */
typedef struct weiri_p2p_way {
    /* The longest piece; both ends divide messages by it. */
    uint64_t (*piece_bytes)(const weiri_nccl_comm *comm);
    /* Whether the next piece may be written, where to, and that it was: it has so many bytes,
     * and its message message_bytes. An error means that the communicator is aborted. */
    int (*has_room)(const weiri_nccl_comm *comm, int peer);
    char *(*outgoing)(const weiri_nccl_comm *comm, int peer);
    weir_status (*post)(const weiri_nccl_comm *comm, int peer, uint64_t bytes,
                        uint64_t message_bytes);
    /* Whether the peer's next piece is there, where, and that it was read; likewise. */
    int (*has_arrived)(const weiri_nccl_comm *comm, int peer);
    const char *(*incoming)(const weiri_nccl_comm *comm, int peer, uint64_t *message_bytes);
    weir_status (*take)(const weiri_nccl_comm *comm, int peer);
    /* What says that there is room, or that something has arrived. */
    weiri_p2p_awaited (*room)(const weiri_nccl_comm *comm, int peer);
    weiri_p2p_awaited (*arrival)(const weiri_nccl_comm *comm, int peer);
} weiri_p2p_way;

/* The way to a rank: mailboxes in memory of the process, or messages. */
const weiri_p2p_way *weiri_p2p_way_to(const weiri_nccl_comm *comm, int rank);

/* --------------------------------------------------------------------- moves */

/* Those of the calls that the host moves (weiri_p2p_by_host), all at once; buffers are
 * memory of the process. Blocks until they are through. */
weir_status weiri_p2p_move(weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count);
/* On GPUs: launches those of the calls that stay on this machine, this rank's to itself too. */
weir_status weiri_p2p_launch(weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count);
/* On GPUs, across machines: launches what stays here, and moves the rest by way of pinned
 * host memory. Blocks until that is through. */
weir_status weiri_p2p_staged(weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count);

#endif
