/*
 * The rendezvous server of unique ids: one thread, which listens at one port for all unused ids
 * that a process created for one local address. Rank 0 of a job connects to it from any node and
 * registers its own listening address; every other rank connects before or after that and receives
 * this address. Connections are authenticated with the secret of an id, which also says which job
 * they are for; others are rejected.
 *
 * Rank 0 keeps its connection open as long as ranks may still arrive. When it closes the
 * connection, or ends, the server closes all connections of this id. It ends with the last id.
 */
#ifndef WEIR_BOOT_RENDEZVOUS_H
#define WEIR_BOOT_RENDEZVOUS_H

#include "boot/handshake.h"

/* Where and how to reach the rendezvous: the contents of a unique id. */
typedef struct weiri_rendezvous_point {
    weiri_address address;
    uint8_t key[WEIRI_KEY_BYTES];
} weiri_rendezvous_point;

/* Adds an id with the key point->key to the server at the address point->address, whose port is 0;
 * starts the server if there is none. Stores the port. Local, non-blocking, thread-safe.
 * WEIR_ERR_NO_MEMORY; WEIR_ERR_SYSTEM if there is no port, or the thread cannot start. */
weir_status weiri_rendezvous_start(weiri_rendezvous_point *point);

/* Asks the server for rank 0's listening address, on a new connection to the server's address
 * *root, and stores the answer in *root. For ranks other than 0. Blocks until rank 0 has registered
 * or the deadline has passed. Errors as in weiri_handshake_call(). */
weir_status weiri_rendezvous_ask(const weiri_job *job, int fd, const weiri_deadline *deadline,
                                 weiri_address *root);

#endif
