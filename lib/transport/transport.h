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

#include "weir.h"

/* What another process needs to map a segment. */
typedef struct weiri_segment_key {
    int32_t pid;
    int32_t fd;
    uint64_t inode;
    uint64_t bytes;
} weiri_segment_key;

/* A segment in this process: its owner's end (fd >= 0) or a peer's mapping. */
typedef struct weiri_segment {
    void *base;
    size_t bytes; /* of the mapping, a multiple of the page size */
    int fd;
} weiri_segment;

typedef struct weiri_transport_ops {
    weir_transport transport;
    /* Allocates at least bytes (> 0), zeroed, page aligned, backed by memory
     * from the start. WEIR_ERR_NO_MEMORY if the machine cannot hold it. */
    weir_status (*segment_create)(size_t bytes, weiri_segment *segment, weiri_segment_key *key);
    /* Maps a peer's segment. WEIR_ERR_PEER: its owner is gone or has destroyed
     * it; WEIR_ERR_UNSUPPORTED: the transport does not reach the owner. */
    weir_status (*segment_map)(const weiri_segment_key *key, weiri_segment *segment);
    /* Ends a creation or a mapping. segment becomes empty. */
    void (*segment_destroy)(weiri_segment *segment);
} weiri_transport_ops;

/* Host memory of one machine. */
extern const weiri_transport_ops weiri_transport_shm;

/* The transport that WEIR_TRANSPORT asks for, or the default. Local.
 * WEIR_ERR_INVALID for an unknown name, WEIR_ERR_UNSUPPORTED for one that this
 * build or machine lacks. */
weir_status weiri_transport_select(const weiri_transport_ops **ops);

#endif
