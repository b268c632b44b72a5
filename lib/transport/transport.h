/*
 * Transports: how a rank makes memory that others can address, and how it
 * addresses theirs. The table serves set-up only; kernels and collectives see
 * mapped pointers and plain data.
 *
 * A segment is one allocation. Its owner creates it and publishes its key
 * (plain bytes) by any means; a peer maps it with that key, once, and unmaps it
 * when the last user is gone. The owner may destroy a segment while others
 * still have it mapped: the memory then lives until the last of them unmaps.
 */
#ifndef WEIR_TRANSPORT_TRANSPORT_H
#define WEIR_TRANSPORT_TRANSPORT_H

#include <weir/weir.h>

enum { WEIRI_KEY_HANDLE_BYTES = 64 };

/* How a segment is handed on: which table maps it. */
enum { WEIRI_SEGMENT_MEMFD, WEIRI_SEGMENT_CUDA_FD, WEIRI_SEGMENT_CUDA_IPC };

/* What another process needs to map a segment. */
typedef struct weiri_segment_key {
    uint32_t kind; /* WEIRI_SEGMENT_* */
    int32_t pid;
    int32_t fd;      /* -1: the handle says it */
    int32_t padding;
    uint64_t inode;
    uint64_t bytes;  /* of the mapping */
    uint64_t offset; /* where the segment begins in the mapping */
    unsigned char handle[WEIRI_KEY_HANDLE_BYTES];
} weiri_segment_key;

/* A segment in this process: its owner's end, or a peer's mapping. */
typedef struct weiri_segment {
    const struct weiri_transport_ops *ops; /* who made it; NULL: empty */
    void *base;
    size_t bytes;    /* of the mapping, a multiple of the page size */
    int fd;          /* the owner's, else -1 */
    uint64_t handle; /* the transport's own */
    void *mapping;   /* where the mapping begins, if not at base */
} weiri_segment;

typedef struct weiri_transport_ops {
    weir_transport transport;
    /* Allocates at least bytes (> 0), zeroed, page aligned, backed by memory
     * from the start. WEIR_ERR_NO_MEMORY if the machine cannot hold it. */
    weir_status (*segment_create)(size_t bytes, weiri_segment *segment, weiri_segment_key *key);
    /* Maps a peer's segment. WEIR_ERR_PEER: its owner is gone or has destroyed
     * it; WEIR_ERR_UNSUPPORTED: the transport does not reach the owner. */
    weir_status (*segment_map)(const weiri_segment_key *key, weiri_segment *segment);
    /* Ends a creation, an adoption or a mapping. segment becomes empty. */
    void (*segment_destroy)(weiri_segment *segment);
    /* Makes a caller's memory a segment; the memory stays the caller's. NULL
     * where that cannot be; WEIR_ERR_UNSUPPORTED where it is not such memory. */
    weir_status (*segment_adopt)(void *pointer, size_t bytes, weiri_segment *segment,
                                 weiri_segment_key *key);
    /* Whether an owner may free a segment that others have mapped. */
    int outlives_owner;
} weiri_transport_ops;

/* Host memory of one machine. */
extern const weiri_transport_ops weiri_transport_shm;

/* Memory of the GPUs of one machine, by two ways to hand it on: as a file
 * descriptor, or as a legacy IPC handle (in a build with CUDA). For the thread's
 * current device. */
extern const weiri_transport_ops weiri_transport_cuda_fd;
extern const weiri_transport_ops weiri_transport_cuda_ipc;

/* The table that maps segments of a kind; NULL where this build has none. */
const weiri_transport_ops *weiri_transport_of(uint32_t kind);

/* Maps a peer's segment by what its key says. */
weir_status weiri_segment_map(const weiri_segment_key *key, weiri_segment *segment);
/* Ends a creation, an adoption or a mapping; an empty segment may be given. */
void weiri_segment_destroy(weiri_segment *segment);

/* The transport that WEIR_TRANSPORT asks for, or the default. Local.
 * WEIR_ERR_INVALID for an unknown name, WEIR_ERR_UNSUPPORTED for one that this
 * build or machine lacks. */
weir_status weiri_transport_select(const weiri_transport_ops **ops);

#endif
