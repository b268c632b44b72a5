/* Connections and semaphores inside: what channels stand on. */
#ifndef WEIR_CHAN_CHAN_H
#define WEIR_CHAN_CHAN_H

#include "comm/comm.h"

struct weir_conn {
    weir_comm *comm;
    int peer, tag;
    weir_transport transport;
};

/* The words of one end, in one slot of the communicator's slab. Peers write
 * inbound only. */
typedef struct weiri_sem_words {
    weiri_word inbound;
    _Alignas(WEIR_LINE_BYTES) uint64_t outbound;
    uint64_t expected;
} weiri_sem_words;

struct weir_sem {
    weir_conn *conn;
    weir_mem *local;  /* the own words, registered */
    weir_mem *remote; /* the peer's words, mapped */
    weir_sem_dev device;
};

#endif
