/*
 * Messages between any two ranks of one node, over Unix sockets that are connected when the first
 * message is sent. Every rank listens at a name that follows from the job's random key and its
 * number; each direction of a pair has a connection, made by the sender, which begins with the
 * sender's number. Only processes of the same user are accepted.
 *
 * A message that fits into the buffer of the socket is sent without the receiver; a longer one
 * waits until the receiver takes it.
 */
#ifndef WEIR_BOOT_DIRECT_H
#define WEIR_BOOT_DIRECT_H

#include "base/mac.h"
#include <weir/weir.h>

typedef struct weiri_direct weiri_direct;

/* Listens. Local; key is the same random bytes on all ranks. */
weir_status weiri_direct_create(int rank, int nranks, int timeout_ms,
                                const uint8_t key[WEIRI_KEY_BYTES], weiri_direct **direct);
void weiri_direct_set_timeout(weiri_direct *direct, int timeout_ms);
/* As the operations of a bootstrap. All ranks must be listening. WEIR_ERR_PEER if the peer has
 * ended. */
weir_status weiri_direct_send(weiri_direct *direct, const void *data, size_t bytes, int peer,
                              int tag);
weir_status weiri_direct_recv(weiri_direct *direct, void *data, size_t bytes, int peer, int tag);
/* NULL is allowed. */
void weiri_direct_destroy(weiri_direct *direct);

#endif
