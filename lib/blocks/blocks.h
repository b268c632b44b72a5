/*
 * Transfers of blocks: what an object holds, and a call after its arguments have been resolved.
 *
 * Each rank has an array of tags in memory that its peers map: the word of source rank s and slot k
 * is at s * slots + k. Only that source writes it, with release after its copies; the owner reads
 * it with acquire.
 */
#ifndef WEIR_BLOCKS_BLOCKS_H
#define WEIR_BLOCKS_BLOCKS_H

#include "blocks/list.h"
#include "comm/mem.h"
#include <weir/device.h>

/* What a rank knows about the pool and the tags of one rank, itself included. */
typedef struct blocks_peer {
    char *pool;                              /* mapped here; NULL: only the kernel can copy */
    uint64_t *tags;                          /* NULL: the rank is on another node */
    uint64_t bytes;                          /* of the pool */
    uint64_t address;                        /* of the pool in its owner's process */
    weiri_desc desc;                         /* of the pool; generation 0: unregistered memory */
    weir_mem *imported_pool, *imported_tags; /* NULL: none */
} blocks_peer;

struct weir_blocks {
    weir_comm *comm;
    weir_mem *pool, *tags; /* tags is owned */
    int slots;
    blocks_peer *peers;     /* one for each rank */
    struct blocks_gpu *gpu; /* NULL on the host backend */
    struct blocks_net *net; /* NULL on one node */
};

/* One call. Ranks are those of the communicator. */
typedef struct blocks_call {
    const char *function; /* "weir_blocks_put" */
    weir_blocks *blocks;
    weir_blocks_args args;
    blocks_list list;
    blocks_entry reach;      /* by how much the dimensions move an entry at most */
    int source, destination; /* ranks */
} blocks_call;

struct blocks_net;

/* What differs on GPUs. All NULL in a build without CUDA. */
typedef struct blocks_gpu_ops {
    /* After tags were allocated, with room for what close frees. Local. */
    weir_status (*open)(weir_blocks *blocks);
    void (*close)(weir_blocks *blocks);
    /* Enqueue a call whose arguments have been checked, and a wait for a tag. Local. */
    weir_status (*run)(const blocks_call *call);
    weir_status (*wait)(weir_blocks *blocks, int source, const uint64_t *word, uint64_t tag,
                        weir_stream stream);
    /* Returns, once, what a kernel has reported. */
    weir_status (*check)(weir_blocks *blocks);
} blocks_gpu_ops;
extern const blocks_gpu_ops weiri_blocks_gpu;

/* Whether a rank of this node has freed its pool, if it is registered memory. */
int weiri_blocks_pool_is_freed(const weir_blocks *blocks, int rank);
/* Sets the error line about that. Returns WEIR_ERR_INVALID. */
weir_status weiri_blocks_fail_freed(const char *function, int rank);
/* Transfers between nodes (net.h). Set-up; nothing on one node. Collective; agreed. */
weir_status weiri_blocks_net_open(weir_blocks *blocks);
/* Makes a call whose arguments and list have been checked. Blocking. WEIR_ERR_INVALID if the peer
 * has freed its pool, WEIR_ERR_PEER, WEIR_ERR_TIMEOUT, WEIR_ERR_ABORTED. */
weir_status weiri_blocks_net_run(const blocks_call *call);
/* Waits until peers have all that this rank has sent, and releases everything, even if it was set
 * up in part. Local. No rank may release before all have settled, once no rank makes calls. */
void weiri_blocks_net_settle(weir_blocks *blocks);
void weiri_blocks_net_close(weir_blocks *blocks);
/* As weir_waiter_step, in a loop that waits for what a rank of another node does: progresses the
 * network, and rests after *idle polls in which nothing moved. WEIR_ERR_PEER if that rank is gone.
 */
int weiri_blocks_net_step(const weir_blocks *blocks, int rank, weir_waiter *waiter, int *idle,
                          const weir_guard *guard);
/* Whether a rank of another node cannot be reached any more. */
int weiri_blocks_net_is_gone(const weir_blocks *blocks, int rank);
/* Sets the error line about an entry that exceeds a rank's pool. Returns WEIR_ERR_INVALID. */
weir_status weiri_blocks_fail_outside(const char *function, uint64_t e, int is_source, int rank,
                                      uint64_t offset, uint64_t bytes, uint64_t reach,
                                      uint64_t pool_bytes);
/* Checks all entries: bounds, and overlapping destinations. *bytes becomes the number of bytes to
 * copy. WEIR_ERR_INVALID names the entries; WEIR_ERR_NO_MEMORY. Local. */
weir_status weiri_blocks_check(const blocks_call *call, uint64_t *bytes);
/* Copies the blocks of a list from one pool to another, both mapped here; streams: past the caches,
 * blocks for which that is faster. */
void weiri_blocks_copy_list(const blocks_list *list, char *to, const char *from, int streams);
/* Copies all blocks, which have been checked: by stores and loads, if both pools are mapped here,
 * else by the kernel. bytes is their sum, not 0. Blocking. */
weir_status weiri_blocks_copy(const blocks_call *call, uint64_t bytes);

#endif
