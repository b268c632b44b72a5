/*
 * Transfers over one connected, non-blocking stream socket to a known rank. peer is only used in
 * error lines.
 *
 * Errors: WEIR_ERR_PEER if the peer closed or reset the connection; WEIR_ERR_TIMEOUT;
 * WEIR_ERR_SYSTEM. Writes never raise SIGPIPE.
 */
#ifndef WEIR_BOOT_LINK_H
#define WEIR_BOOT_LINK_H

#include "boot/deadline.h"
#include <weir/weir.h>

#include <stdint.h>
#include <sys/uio.h>

/* Transfer what is possible without blocking. *done counts the bytes transferred by all calls for
 * this transfer, which is complete when it reaches bytes (for a write the bytes of all parts, at
 * most two). */
weir_status weiri_link_read_some(int fd, int peer, void *data, size_t bytes, size_t *done);
weir_status weiri_link_write_some(int fd, int peer, const struct iovec *parts, int nparts,
                                  size_t *done);
/* Reads and discards. Non-blocking. */
weir_status weiri_link_discard_some(int fd, int peer, uint64_t bytes, uint64_t *done);

/* The same, blocking until the transfer is complete or the deadline has passed. *done is updated
 * even if the call fails, so that the caller knows whether the stream is still at the start of a
 * message. */
weir_status weiri_link_read(int fd, int peer, void *data, size_t bytes,
                            const weiri_deadline *deadline, size_t *done);
weir_status weiri_link_write(int fd, int peer, const struct iovec *parts, int nparts,
                             const weiri_deadline *deadline, size_t *done);
weir_status weiri_link_discard(int fd, int peer, uint64_t bytes, const weiri_deadline *deadline);

/* Closes all descriptors that are not negative, and sets them to -1. */
void weiri_link_close_all(int *fds, int count);

#endif
