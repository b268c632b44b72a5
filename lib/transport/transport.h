/*
 * Mapped transports: memory that other ranks of the node can map. The ops table serves set-up
 * only; kernels and collectives see pointers and plain data.
 *
 * A segment is one allocation. Its owner creates it and sends its key (plain bytes) to peers; a
 * peer maps it once and unmaps it after the last use. If outlives_owner is set, the owner may
 * destroy a segment that others have mapped: the memory then lives until the last of them unmaps
 * it. All functions are local and may be called by any thread, for different segments.
 */
#ifndef WEIR_TRANSPORT_TRANSPORT_H
#define WEIR_TRANSPORT_TRANSPORT_H

#include <weir/weir.h>

enum { WEIRI_KEY_HANDLE_BYTES = 64 };

/* The kind of a key, which determines the table that maps it. */
enum { WEIRI_SEGMENT_MEMFD, WEIRI_SEGMENT_CUDA_FD, WEIRI_SEGMENT_CUDA_IPC };

/* What another process needs to map a segment. */
typedef struct weiri_segment_key {
    uint32_t kind; /* WEIRI_SEGMENT_* */
    int32_t pid;
    int32_t fd;         /* -1 if the handle identifies the segment */
    int32_t huge_pages; /* 1: the owner wants them for this memory */
    uint64_t inode;
    uint64_t bytes;                               /* of the mapping */
    uint64_t offset;                              /* of the segment in the mapping */
    unsigned char handle[WEIRI_KEY_HANDLE_BYTES]; /* defined by the transport */
} weiri_segment_key;

/* A segment in this process: the owner's allocation, or a mapping of a peer's. */
typedef struct weiri_segment {
    const struct weiri_transport_ops *ops; /* NULL if empty */
    void *base;
    size_t bytes;    /* of the mapping, a multiple of the page size */
    int fd;          /* of the owner; else -1 */
    uint64_t handle; /* defined by the transport */
    void *mapping;   /* start of the mapping if it is not base */
} weiri_segment;

typedef struct weiri_transport_ops {
    weir_transport transport;
    /* Allocates at least bytes (> 0), zeroed, page-aligned, and backed by memory at once. The
     * caller owns *segment until segment_destroy. WEIR_ERR_NO_MEMORY. */
    weir_status (*segment_create)(size_t bytes, weiri_segment *segment, weiri_segment_key *key);
    /* Maps a peer's segment; the caller owns the mapping. WEIR_ERR_PEER if the owner has ended or
     * has destroyed it; WEIR_ERR_UNSUPPORTED if the transport cannot reach the owner. */
    weir_status (*segment_map)(const weiri_segment_key *key, weiri_segment *segment);
    /* Undoes segment_create, segment_adopt or segment_map; *segment becomes empty. */
    void (*segment_destroy)(weiri_segment *segment);
    /* Makes the caller's memory a segment; the caller still owns the memory. The slot is NULL if
     * the transport cannot do that. WEIR_ERR_UNSUPPORTED if the memory is not of its kind. */
    weir_status (*segment_adopt)(void *pointer, size_t bytes, weiri_segment *segment,
                                 weiri_segment_key *key);
    /* Like segment_create for a segment that parts ranks share, each part with part_bytes (a
     * multiple of the page size). No memory backs a part until segment_back was called for it,
     * which the rank does that uses it most, so that the memory is near it. The slots are NULL if
     * the transport cannot do that. */
    weir_status (*segment_reserve)(size_t part_bytes, int parts, weiri_segment *segment,
                                   weiri_segment_key *key);
    /* Backs bytes from offset on (both multiples of the page size) with memory, in the owner's
     * segment or a mapping of it. WEIR_ERR_NO_MEMORY. */
    weir_status (*segment_back)(const weiri_segment *segment, size_t offset, size_t bytes);
    /* Whether an owner may destroy a segment that others have mapped. */
    int outlives_owner;
} weiri_transport_ops;

/* Host memory of one node. */
extern const weiri_transport_ops weiri_transport_shm;

/* GPU memory of one node, shared as a file descriptor or as a legacy IPC handle; only in builds
 * with CUDA. Both use the thread's current device. */
extern const weiri_transport_ops weiri_transport_cuda_fd;
extern const weiri_transport_ops weiri_transport_cuda_ipc;

/* Maps a peer's segment with the table that its key names. */
weir_status weiri_segment_map(const weiri_segment_key *key, weiri_segment *segment);
/* Undoes a creation, an adoption or a mapping; segment may be empty. */
void weiri_segment_destroy(weiri_segment *segment);

/* The transport that WEIR_TRANSPORT asks for, or the default. Local.
 * WEIR_ERR_INVALID for an unknown name, WEIR_ERR_UNSUPPORTED for one that this
 * build or node lacks. */
weir_status weiri_transport_select(const weiri_transport_ops **ops);

#endif
