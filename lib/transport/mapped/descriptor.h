/*
 * Descriptors of segments for peers that may not open /proc/PID/fd of this process. The kernel
 * forbids that if the process is not dumpable: it has called prctl(PR_SET_DUMPABLE, 0), or its
 * program is setuid or cannot be read by its user. Or there is no /proc, or it is that of another
 * pid namespace.
 *
 * Such a process listens at an abstract Unix socket, and a thread passes descriptors (SCM_RIGHTS)
 * to processes of the same user that send the secret of the segment's key. The name of the socket
 * can be read by any process of the node; the secret travels over the bootstrap only. The thread
 * exists as long as there are offered descriptors.
 */
#ifndef WEIR_TRANSPORT_MAPPED_DESCRIPTOR_H
#define WEIR_TRANSPORT_MAPPED_DESCRIPTOR_H

#include "transport/transport.h"

/* Returns 1 if peers need descriptors of this process to be passed. Local. */
int weiri_descriptor_needs_passing(void);

/* Offers key->fd until weiri_descriptor_withdraw, and writes into key->handle where and by which
 * secret peers get it. The caller owns the descriptor. Thread-safe. WEIR_ERR_SYSTEM,
 * WEIR_ERR_NO_MEMORY. */
weir_status weiri_descriptor_offer(weiri_segment_key *key);

/* Ends the offer of a descriptor, before it is closed. Has no effect on one that is not offered. */
void weiri_descriptor_withdraw(int fd);

/* Returns 1 if the owner passes the descriptor of this key. */
static inline int weiri_descriptor_is_passed(const weiri_segment_key *key)
{
    return key->handle[0] != 0;
}

/* Gets the descriptor of a key from its owner; the caller owns it. Blocks until the owner answers,
 * at most for WEIR_TIMEOUT_MS. Returns -1 with errno on failure: ENOENT if the owner has withdrawn
 * it, ECONNREFUSED if the owner has ended or is in another network namespace, ETIMEDOUT. */
int weiri_descriptor_take(const weiri_segment_key *key);

#endif
