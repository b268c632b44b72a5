/*
 * Transfers of many blocks: a call moves the blocks of a list, such as the pages of a KV cache,
 * between two ranks. The conventions of weir.h apply.
 *
 * Each rank contributes a pool, registered memory of any kind, when the object is created. Blocks
 * are named by their offsets from the beginning of the pools. One-sided: put copies from this
 * rank's pool into a peer's, get from a peer's into this rank's, and the peer makes no call.
 *
 *     const uint64_t list[] = {0, 8192, 4096, 0};        two blocks: source, destination
 *     args.list = list, args.count = 2, args.block_bytes = 4096;
 *     args.peer = 1, args.slot = 3, args.tag = 17;
 *     weir_blocks_put(blocks, &args);                    rank 0
 *     weir_blocks_wait(blocks, 0, 3, 17, 1000);          rank 1: the blocks are there
 *
 * Lists. An entry consists of 2 words, its offsets in the source's and in the destination's pool,
 * if block_bytes is set, else of 3, its offsets and its length; all in bytes. Any length and
 * alignment is allowed; an entry of 3 words may be empty. dims repeat the list: entry e is copied
 * once for each combination of indices i[d] < dims[d].count, with i[d] times the strides of each
 * dimension added to its offsets. So a list of pages and one dimension of layers moves those pages
 * of all layers, and one entry with dimensions is a strided block.
 *
 * Tags. Each rank has `slots` words for each source rank, which begin at 0. If tag is not 0, the
 * call stores it in the peer's slot after all blocks have been copied, so a rank that has seen
 * the tag reads the data of a put; after a get, the peer may write its blocks again. A slot holds
 * the latest tag only, and waits are for a tag or a larger one: use increasing tags in a slot, and
 * a slot for each stream of transfers that completes on its own.
 *
 * Errors name the entry. All entries are checked before the first byte is copied: if one exceeds a
 * pool, or two have destinations that overlap, the call fails with WEIR_ERR_INVALID and changes
 * nothing. Where peer is the calling rank, a destination that overlaps a source has undefined
 * contents. A failed call stores no tag, and does not abort the communicator.
 *
 * Host memory. On the host backend, pools of weir_mem_alloc on one node are copied directly. Pools
 * of other memory (weir_mem_register) are copied by the kernel, where the system permits
 * process_vm_readv between the ranks. Between nodes the blocks of a call are gathered into messages
 * and scattered by the peer, in any call of the peer that waits for the network, or by a thread of
 * the object. A call whose messages the peer does not accept within the communicator's timeout
 * aborts the communicator.
 *
 * GPUs of one node. Pools, lists and tags are GPU memory. A call enqueues one kernel on its stream
 * and returns; its cost on the host does not depend on the list, which the kernel reads and checks,
 * so it must not change before the stream has passed the call. An entry that exceeds a pool is not
 * copied, other entries may be, and the tag is not stored; weir_blocks_check then returns the
 * error. Overlapping destinations are not found, and have undefined contents. Calls can be captured
 * in a graph; with tag_word each replay stores the tag that is then in memory. Calls with the same
 * slot and peer must be ordered, by one stream or by events; all others may overlap.
 */
#ifndef WEIR_BLOCKS_H
#define WEIR_BLOCKS_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    WEIR_BLOCKS_DIMS_MAX = 4,
    WEIR_BLOCKS_SLOTS_MAX = 1 << 20,
};

typedef struct weir_blocks weir_blocks;

/* Configuration, equal on all ranks. Initialise it with WEIR_BLOCKS_CONFIG_INIT; size works as in
 * weir_comm_config. */
typedef struct weir_blocks_config {
    size_t size; /* sizeof(weir_blocks_config), set by WEIR_BLOCKS_CONFIG_INIT */
    int slots;   /* for each source rank, 8 bytes each; 1 to WEIR_BLOCKS_SLOTS_MAX; 0: 64 */
} weir_blocks_config;

#define WEIR_BLOCKS_CONFIG_INIT                                                                    \
    {                                                                                              \
        sizeof(weir_blocks_config), 0                                                              \
    }

/* Creates the object for the ranks of comm. Collective; all ranks get the same status. pool is
 * memory that this rank has allocated or registered; its size may differ between ranks. config may
 * be NULL for the defaults. Release with weir_blocks_free before pool and comm. WEIR_ERR_MISMATCH
 * if slots differ between ranks; WEIR_ERR_UNSUPPORTED for GPUs of several nodes. Between nodes it
 * registers memory for messages, 4 MiB for each rank of another node, and starts a thread. */
WEIR_API weir_status weir_blocks_create(weir_comm *comm, weir_mem *pool,
                                        const weir_blocks_config *config, weir_blocks **blocks);
/* Releases the object. Collective; waits until every rank has called it, after which no peer uses
 * the caller's pool. NULL is allowed. */
WEIR_API void weir_blocks_free(weir_blocks *blocks);

/* One dimension by which a list is repeated. Strides are in bytes. */
typedef struct weir_blocks_dim {
    uint64_t count; /* at least 1 */
    uint64_t source_stride, destination_stride;
} weir_blocks_dim;

/* The arguments of a call. Initialise with WEIR_BLOCKS_ARGS_INIT. The list and dims stay the
 * caller's. */
typedef struct weir_blocks_args {
    size_t size;                 /* sizeof(weir_blocks_args), set by the macro */
    int peer;                    /* a rank, which may be the calling one */
    int slot;                    /* 0 to slots - 1; used if tag is not 0 */
    uint64_t tag;                /* 0: none */
    const uint64_t *list;        /* count entries of 2 or 3 words; see "Lists" above */
    size_t count;                /* of entries; 0: the call only stores the tag */
    uint64_t block_bytes;        /* length of every entry; 0: each entry has its own */
    int ndims;                   /* 0 to WEIR_BLOCKS_DIMS_MAX */
    const weir_blocks_dim *dims; /* ndims of them, in host memory; the last one varies fastest */
    const uint64_t *tag_word;    /* where the tag is when the call runs, in memory of the backend's
                                    kind; NULL: it is `tag` */
    weir_stream stream;          /* CUDA backend: a cudaStream_t; host backend: NULL */
} weir_blocks_args;

#define WEIR_BLOCKS_ARGS_INIT                                                                      \
    {                                                                                              \
        sizeof(weir_blocks_args), -1, 0, 0, NULL, 0, 0, 0, NULL, NULL, NULL                        \
    }

/* Copy the blocks of a list from this rank's pool to the peer's (put), or from the peer's to this
 * rank's (get), and then store the tag. Local; on the host backend they block until all bytes are
 * in place. WEIR_ERR_INVALID is also the error if a pool's memory has been freed, or is not mapped
 * over its whole length: only then may blocks before the entry that the error line names have been
 * copied. WEIR_ERR_PEER if
 * the peer's process has ended; WEIR_ERR_UNSUPPORTED if its pool is unregistered memory on this
 * node that the system does not let this rank access; WEIR_ERR_TIMEOUT and WEIR_ERR_ABORTED between
 * nodes. */
WEIR_API weir_status weir_blocks_put(weir_blocks *blocks, const weir_blocks_args *args);
WEIR_API weir_status weir_blocks_get(weir_blocks *blocks, const weir_blocks_args *args);

/* Blocks until this rank's slot of a source rank holds the tag or a larger one. timeout_ms 0: the
 * communicator's. WEIR_ERR_TIMEOUT leaves the communicator usable, and the error line has the tag
 * that the slot holds; WEIR_ERR_PEER if the source's process has ended before; WEIR_ERR_ABORTED.
 * Thread-safe, even during other calls on the object. */
WEIR_API weir_status weir_blocks_wait(weir_blocks *blocks, int source, int slot, uint64_t tag,
                                      int timeout_ms);
/* Makes a stream wait for a tag, up to the communicator's timeout, after which the communicator is
 * aborted (weir_comm_check). Non-blocking; on the host backend, where stream is NULL, the same as
 * weir_blocks_wait with timeout_ms 0. */
WEIR_API weir_status weir_blocks_wait_on(weir_blocks *blocks, int source, int slot, uint64_t tag,
                                         weir_stream stream);
/* Returns the word of a slot in the memory of this rank (on the cuda backend of its GPU), on which
 * threads or kernels wait with weir_wait_at_least of weir/device.h; NULL for a source or slot out
 * of range. Thread-safe. */
WEIR_API const uint64_t *weir_blocks_word(const weir_blocks *blocks, int source, int slot);
/* Returns what a kernel of this rank has found wrong since the last call, and the other errors of
 * weir_comm_check. Local; synchronise the stream before. */
WEIR_API weir_status weir_blocks_check(weir_blocks *blocks);
/* Returns the tag that a slot holds, to be polled; on the cuda backend by a copy. Data of its put
 * may be read. 0 for a source or slot out of range. Thread-safe. */
WEIR_API uint64_t weir_blocks_tag(const weir_blocks *blocks, int source, int slot);

#ifdef __cplusplus
}
#endif

#endif
