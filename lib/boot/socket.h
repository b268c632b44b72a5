/* TCP sockets of the bootstrap: listening, and connecting with a deadline.
 * All sockets are non-blocking, close on exec and do not delay small writes. */
#ifndef WEIR_BOOT_SOCKET_H
#define WEIR_BOOT_SOCKET_H

#include "boot/address.h"
#include "boot/deadline.h"

/* Listens at address; port 0 takes a free one. WEIR_ERR_SYSTEM says why not. */
weir_status weiri_socket_listen(const weiri_address *address, int *fd);
/* The address of this end, with its port. */
weir_status weiri_socket_address(int fd, weiri_address *address);

typedef struct weiri_call {
    int rank, peer;                 /* for messages */
    const weiri_address *to;
    const weiri_address *source;    /* address to leave by, or NULL */
    int patient;                    /* wait until somebody listens there */
} weiri_call;

/* Connects. Blocks until the deadline. WEIR_ERR_TIMEOUT; WEIR_ERR_PEER: nobody
 * listens and the call is not patient; WEIR_ERR_SYSTEM. */
weir_status weiri_socket_connect(const weiri_call *call, const weiri_deadline *deadline, int *fd);
/* What an accepted socket needs that accept4 does not give. */
void weiri_socket_no_delay(int fd);

#endif
