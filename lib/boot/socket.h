/* TCP sockets of the bootstrap: listening, and connecting with a deadline. All sockets are
 * non-blocking, closed on exec, and send small writes without delay. */
#ifndef WEIR_BOOT_SOCKET_H
#define WEIR_BOOT_SOCKET_H

#include "boot/address.h"
#include "boot/deadline.h"

/* Listens at an address; port 0 selects a free port. WEIR_ERR_SYSTEM. */
weir_status weiri_socket_listen(const weiri_address *address, int *fd);
/* Returns the local address of a socket, with its port. */
weir_status weiri_socket_address(int fd, weiri_address *address);

typedef struct weiri_socket_call {
    int rank, peer; /* for error lines */
    const weiri_address *to;
    const weiri_address *source; /* local address to connect from, or NULL */
    int patient;                 /* retry until the peer listens */
} weiri_socket_call;

/* Connects. Blocks until the deadline. WEIR_ERR_TIMEOUT; WEIR_ERR_PEER if nothing listens and the
 * call is not patient; WEIR_ERR_SYSTEM. */
weir_status weiri_socket_connect(const weiri_socket_call *call, const weiri_deadline *deadline,
                                 int *fd);
/* The same in steps, without blocking and without retries. begin returns EINPROGRESS and *fd, which
 * poll(2) reports as writable when the attempt has ended, or an errno. finish returns 0 if fd is
 * connected, EINPROGRESS if the attempt has not ended, or an errno. */
int weiri_socket_begin(const weiri_socket_call *call, int *fd);
int weiri_socket_finish(int fd);
/* Whether an error may disappear when the listener, its node or the route to it becomes available.
 */
int weiri_socket_error_may_pass(int error_number);
/* Sets TCP_NODELAY, which accept4 does not do for accepted sockets. */
void weiri_socket_no_delay(int fd);

#endif
