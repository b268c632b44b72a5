/*
 * Bytes over one connected, non-blocking stream socket whose far end is a
 * known rank. Everything here takes the peer's rank for its messages only.
 *
 * Errors: WEIR_ERR_PEER, the far end is closed or reset; WEIR_ERR_TIMEOUT;
 * WEIR_ERR_SYSTEM. A write never raises SIGPIPE.
 */
#ifndef WEIR_BOOT_LINK_H
#define WEIR_BOOT_LINK_H

#include "boot/deadline.h"
#include <weir/weir.h>

#include <stdint.h>
#include <sys/uio.h>

/* Moves what can be moved without waiting. *done counts the bytes moved so far,
 * over all calls; the transfer is complete when it reaches bytes (for a write:
 * the bytes of all parts, at most two). Not blocking. */
weir_status weiri_link_read_some(int fd, int peer, void *data, size_t bytes, size_t *done);
weir_status weiri_link_write_some(int fd, int peer, const struct iovec *parts, int nparts,
                                  size_t *done);
/* Reads and forgets. Not blocking. */
weir_status weiri_link_discard_some(int fd, int peer, uint64_t bytes, uint64_t *done);

/* The same until complete or the deadline has passed. *done is updated also
 * when the call fails, so that the caller knows whether the stream is still at
 * the start of a message. */
weir_status weiri_link_read(int fd, int peer, void *data, size_t bytes,
                            const weiri_deadline *deadline, size_t *done);
weir_status weiri_link_write(int fd, int peer, const struct iovec *parts, int nparts,
                             const weiri_deadline *deadline, size_t *done);
weir_status weiri_link_discard(int fd, int peer, uint64_t bytes, const weiri_deadline *deadline);

/* Closes every descriptor that is not negative, and makes it -1. */
void weiri_link_close_all(int *fds, int count);

#endif
