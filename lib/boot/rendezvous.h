/*
 * The rendezvous server of a unique id: a thread of the process that created the id, which listens
 * at the id's address. Rank 0 connects to it from any node and registers its own listening address;
 * every other rank connects before or after that and receives this address. Connections are
 * authenticated with the id's secret; others are rejected.
 *
 * Rank 0 keeps its connection open as long as ranks may still arrive. When it closes the
 * connection, or ends, the server closes all connections and ends.
 */
#ifndef WEIR_BOOT_RENDEZVOUS_H
#define WEIR_BOOT_RENDEZVOUS_H

#include "boot/handshake.h"

/* Where and how to reach the rendezvous: the contents of a unique id. */
typedef struct weiri_rendezvous_point {
    weiri_address address;
    uint8_t key[WEIRI_KEY_BYTES];
} weiri_rendezvous_point;

/* Starts the server, which owns the listener unless this fails. Local, non-blocking.
 * WEIR_ERR_NO_MEMORY; WEIR_ERR_SYSTEM if the thread cannot start. */
weir_status weiri_rendezvous_start(const weiri_rendezvous_point *point, int listener);

/* Asks the server for rank 0's listening address, on a new connection to the server's address
 * *root, and stores the answer in *root. For ranks other than 0. Blocks until rank 0 has registered
 * or the deadline has passed. Errors as in weiri_handshake_call(). */
weir_status weiri_rendezvous_ask(const weiri_job *job, int fd, const weiri_deadline *deadline,
                                 weiri_address *root);

#endif
