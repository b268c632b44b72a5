/*
 * Messages between any two ranks, over connections that are made when the first message is sent.
 * Each direction of a pair has a connection, made by the sender, which begins with a greeting: who
 * calls whom, and a MAC over this with the job's key. Ranks listen at
 *
 *   one node       abstract Unix sockets, whose names follow from the key and the rank's number;
 *                  only processes of the same user are accepted
 *   several nodes  TCP sockets in a table of addresses
 *
 * Connections that send no greeting, or a wrong one, are dropped without delaying the others. A
 * greeting is valid once and in its job only, because the key is new for every job.
 *
 * A message that fits into the buffer of the socket is sent without the receiver; a longer one
 * waits until the receiver takes it. A receive that fails in the middle of a message ends the
 * connection from that rank: later receives return WEIR_ERR_PEER.
 */
#ifndef WEIR_BOOT_DIRECT_H
#define WEIR_BOOT_DIRECT_H

#include "base/mac.h"
#include "boot/address.h"
#include <weir/weir.h>

typedef struct weiri_direct weiri_direct;

/* The number of a rank, and the key that all ranks of the job share. */
typedef struct weiri_direct_job {
    int rank, nranks, timeout_ms;
    uint8_t key[WEIRI_KEY_BYTES];
} weiri_direct_job;

/* Listens at a Unix socket. Local. */
weir_status weiri_direct_create(const weiri_direct_job *job, weiri_direct **direct);
/* Uses a listening TCP socket, which belongs to the result on success; table has the addresses of
 * all ranks' listeners and is copied; source is the local address of connections, or NULL.
 * Local. */
weir_status weiri_direct_create_tcp(const weiri_direct_job *job, int listener,
                                    const weiri_address *table, const weiri_address *source,
                                    weiri_direct **direct);
void weiri_direct_set_timeout(weiri_direct *direct, int timeout_ms);
/* As the operations of a bootstrap. All ranks must be listening. WEIR_ERR_PEER if the peer has
 * ended. */
weir_status weiri_direct_send(weiri_direct *direct, const void *data, size_t bytes, int peer,
                              int tag);
weir_status weiri_direct_recv(weiri_direct *direct, void *data, size_t bytes, int peer, int tag);
/* Ends all waits, with WEIR_ERR_PEER, and allows no more. Thread-safe until the destruction. */
void weiri_direct_shut(weiri_direct *direct);
/* NULL is allowed. */
void weiri_direct_destroy(weiri_direct *direct);

#endif
