/*
 * Bulk copies between buffers that do not overlap, of any alignment and length, 0 included. All
 * functions are local, thread-safe and cannot fail.
 */
#ifndef WEIR_COMPUTE_COPY_H
#define WEIR_COMPUTE_COPY_H

#include <stddef.h>

enum {
    WEIRI_PEER_STREAMING_BYTES = 2048, /* below this size a fence costs more than streaming saves */
    WEIRI_PREFETCH_BYTES = 1024,       /* requested at once, before the block ahead is copied */
};

/* Copies through the caches: for data that will be read soon. */
void weiri_copy(void *dst, const void *src, size_t bytes);

/* Copies with stores that bypass the caches, if the processor has them: for a destination that will
 * not be read soon. Its stores are ordered before any later store. */
void weiri_copy_streaming(void *dst, const void *src, size_t bytes);

/* Copies into memory that another core reads next: from WEIRI_PEER_STREAMING_BYTES on with stores
 * that bypass the caches, if that is faster on this processor (weiri_copy_streams_to_peers). They
 * are ordered before any later store. */
void weiri_copy_to_peer(void *dst, const void *src, size_t bytes);

/* Copies from memory that another core has written: requests cache lines ahead of their use. */
void weiri_copy_from_peer(void *dst, const void *src, size_t bytes);

/* Requests the cache lines of a block that will be read next. */
void weiri_prefetch(const void *src, size_t bytes);

/* Whether weiri_copy_to_peer bypasses the caches: a store to a line that another core has cached
 * waits until that core has given it up, which takes much longer than storing to memory on some
 * processors (AMD's). Constant for the life of the process. */
int weiri_copy_streams_to_peers(void);

/* Returns the working set (bytes that all ranks on one last-level cache read and write in one
 * operation) from which on streaming stores are faster. Constant for the life of the process. */
size_t weiri_streaming_threshold_bytes(void);

#endif
