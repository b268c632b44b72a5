/*
 * Bulk copies between buffers that do not overlap, of any alignment and length, 0 included. All
 * functions are local, thread-safe and cannot fail.
 */
#ifndef WEIR_COMPUTE_COPY_H
#define WEIR_COMPUTE_COPY_H

#include <stddef.h>

/* Copies through the caches: for data that will be read soon. */
void weiri_copy(void *dst, const void *src, size_t bytes);

/* Copies with stores that bypass the caches, if the processor has them: for a destination that will
 * not be read soon. Its stores are ordered before any later store. */
void weiri_copy_streaming(void *dst, const void *src, size_t bytes);

/* Returns the working set (bytes that all ranks on one last-level cache read and write in one
 * operation) from which on streaming stores are faster. Constant for the life of the process. */
size_t weiri_streaming_threshold_bytes(void);

#endif
