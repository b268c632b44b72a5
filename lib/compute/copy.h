/*
 * Bulk copies between buffers that do not overlap. All local, no errors, any
 * alignment, any number of bytes including 0.
 */
#ifndef WEIR_COMPUTE_COPY_H
#define WEIR_COMPUTE_COPY_H

#include <stddef.h>

/* Through the caches: for data that somebody reads soon. */
void weiri_copy(void *dst, const void *src, size_t bytes);

/* Around the caches where the processor can: for a destination that is not
 * read soon. When it returns, its stores come before any later store. */
void weiri_copy_streaming(void *dst, const void *src, size_t bytes);

/* The working set (bytes that all sharers of the last-level cache read and
 * write in one operation) from which streaming beats storing through the
 * caches. Constant while the process lives; any thread. */
size_t weiri_streaming_threshold_bytes(void);

#endif
