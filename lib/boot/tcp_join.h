/*
 * How a rank joins a job over TCP: rank 0 is reached at a known address, and passes on where the
 * others listen (tcp_join.c). tcp.c finds out the address.
 */
#ifndef WEIR_BOOT_TCP_JOIN_H
#define WEIR_BOOT_TCP_JOIN_H

#include "boot/handshake.h"

/* Ranks that have joined wait longer than rank 0, so that they receive its list of missing ranks.
 * Rank 0 waits as long for the end of the rendezvous server. */
enum { WEIRI_TCP_GRACE_MS = 500 };

/* How a rank joins its job. */
typedef struct weiri_tcp_joiner {
    weiri_job job;
    weiri_address root;
    weiri_address source; /* local address of connections, if has_source */
    int has_source;
    int patient; /* retry while rank 0 does not listen yet */
} weiri_tcp_joiner;

/* Connects to an address, as rank 0's or `peer`'s. Blocks until the deadline. */
weir_status weiri_tcp_call(const weiri_tcp_joiner *self, int peer, const weiri_address *to,
                           int patient, const weiri_deadline *deadline, int *fd);
/* Connects to rank 0 or the rendezvous server, and listens at the local address of that
 * connection. */
weir_status weiri_tcp_join(const weiri_tcp_joiner *self, int *fd, int *listener);
/* Creates the bootstrap. Collective. Takes over rank 0's listener, which is -1 on other ranks. */
weir_status weiri_tcp_connect_all(const weiri_tcp_joiner *self, int listener, weir_boot **boot);

#endif
