/*
 * Host side of sends and receives: what a communicator has for them, and how the host moves a piece
 * of a message to or from another rank.
 *
 * Calls go one way: p2p.c runs a group through p2p_move.c (host memory), p2p_launch.c (one node's
 * GPUs) or p2p_staged.c (GPUs across nodes), which use p2p_calls.c and p2p_transports.c. The layout
 * of mailboxes is in p2p.h, which host and kernels share; the kernel's argument is in p2p_gpu.h.
 */
#ifndef WEIR_NCCL_P2P_HOST_H
#define WEIR_NCCL_P2P_HOST_H

#include "comm/comm.h"
#include "comm/internode/internode.h"
#include "nccl/abi.h"
#include "nccl/p2p/p2p.h"

typedef struct weiri_nccl_p2p {
    weir_comm *node;      /* of this node's ranks */
    int node_rank, count; /* this rank's in node, and the number of ranks */
    weiri_p2p_lanes lanes;
    weir_mem *own;
    weir_mem **all;         /* count */
    char **mailbox;         /* count, mapped here */
    weiri_internode *pairs; /* messages to ranks of other nodes; NULL: there are none */
    uint64_t lent;          /* messages whose receivers have copied from this rank's buffers */
} weiri_nccl_p2p;

/* Whether a rank is on another node, reached by messages instead of mailboxes. */
static inline int weiri_p2p_is_remote(const weiri_nccl_comm *comm, int rank)
{
    const weiri_internode *pairs = comm->p2p->pairs;
    return pairs && weiri_internode_is_remote(pairs, rank);
}

/* Whether the host moves what is sent between this rank and another one. */
static inline int weiri_p2p_is_moved_by_host(const weiri_nccl_comm *comm, int rank)
{
    return rank != comm->rank && (comm->device < 0 || weiri_p2p_is_remote(comm, rank));
}

static inline uint64_t weiri_p2p_bytes_of(const weiri_nccl_call *call)
{
    return weiri_nccl_count(call) * weir_dtype_bytes(call->call.dtype);
}

/* The next send to, or receive from, a peer, from *from on, which is advanced; NULL: none. */
const weiri_nccl_call *weiri_p2p_next_call(const weiri_nccl_call *calls, size_t count, int sends,
                                           int peer, size_t *from);

/* A message of a rank to itself: sends and receives are paired in order. */
typedef struct weiri_p2p_self {
    const weiri_nccl_call *send, *recv; /* NULL: there are no more */
    size_t sends, recvs;                /* how far the calls have been searched */
} weiri_p2p_self;

/* Finds the next pair. WEIR_ERR_UNSUPPORTED if one half is missing, WEIR_ERR_INVALID if the lengths
 * differ: nothing was moved, and the communicator stays usable. */
weir_status weiri_p2p_next_self(const weiri_nccl_comm *comm, const weiri_nccl_call *calls,
                                size_t count, weiri_p2p_self *self);

/* ---------------------------------------------------------------------- ways */

/* A word that is waited for, and the value it must reach. */
typedef struct weiri_p2p_awaited {
    const uint64_t *word;
    uint64_t target;
} weiri_p2p_awaited;

/* What each piece has of its message. */
typedef struct weiri_p2p_head {
    uint64_t message_bytes;
    weiri_desc lent; /* its place in the sender's memory; generation 0: the pieces have the data */
} weiri_p2p_head;

/* How pieces of messages travel between this rank and a peer, in order. Nothing blocks. */
typedef struct weiri_p2p_transport {
    /* The longest piece with data; both ends divide messages by it. */
    uint64_t (*piece_bytes)(const weiri_nccl_comm *comm);
    /* Whether the next piece may be written; where to; and that it has been written, with `bytes`
     * bytes of the message. After an error the communicator is aborted. */
    int (*has_room)(const weiri_nccl_comm *comm, int peer);
    char *(*outgoing)(const weiri_nccl_comm *comm, int peer);
    weir_status (*post)(const weiri_nccl_comm *comm, int peer, uint64_t bytes, weiri_p2p_head head);
    /* Whether the peer's next piece has arrived; where it is; and that it has been read.
     * Likewise. */
    int (*has_arrived)(const weiri_nccl_comm *comm, int peer);
    const char *(*incoming)(const weiri_nccl_comm *comm, int peer, weiri_p2p_head *head);
    weir_status (*take)(const weiri_nccl_comm *comm, int peer);
    /* The words that show that there is room, or that something has arrived. */
    weiri_p2p_awaited (*room)(const weiri_nccl_comm *comm, int peer);
    weiri_p2p_awaited (*arrival)(const weiri_nccl_comm *comm, int peer);
    /* The word that shows that all posted pieces have been read. NULL: messages cannot be lent. */
    weiri_p2p_awaited (*all_taken)(const weiri_nccl_comm *comm, int peer);
} weiri_p2p_transport;

/* The transport to a rank: mailboxes in host memory, or messages. */
const weiri_p2p_transport *weiri_p2p_transport_to(const weiri_nccl_comm *comm, int rank);

/* --------------------------------------------------------------------- moves */

/* Executes the calls that the host moves (weiri_p2p_is_moved_by_host), all at once; buffers are
 * host memory. Blocks until they have completed. */
weir_status weiri_p2p_run_on_host(weiri_nccl_comm *comm, const weiri_nccl_call *calls,
                                  size_t count);
/* GPUs: launches the calls that stay on this node, including this rank's to itself. */
weir_status weiri_p2p_run_on_gpu(weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count);
/* GPUs across nodes: launches what stays on this node, and moves the rest through pinned host
 * memory. Blocks until that has completed. */
weir_status weiri_p2p_run_staged(weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count);

#endif
