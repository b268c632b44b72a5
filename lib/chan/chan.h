/* Connections, semaphores and port channels inside: what channels stand on. */
#ifndef WEIR_CHAN_CHAN_H
#define WEIR_CHAN_CHAN_H

#include "chan/port_words.h"
#include "comm/comm.h"
#include "comm/internode/networks.h"

/* What tells that all up to some moment has arrived: *word has reached value. NULL: it
 * has already. */
typedef struct weiri_port_mark {
    const uint64_t *word;
    uint64_t value;
} weiri_port_mark;

/* The copy engine of a connection between GPUs. */
typedef struct weiri_stream {
    struct weiri_mover *mover; /* made for the first port channel */
    int copying;               /* there are copies behind the last store */
    weiri_port_mark last;      /* the last store */
} weiri_stream;

struct weir_conn {
    weir_comm *comm;
    int peer, tag;
    weir_transport transport;
    weiri_endpoint *endpoint; /* over a network; else NULL: the peer's memory is mapped */
    const weir_proxy *proxy;  /* of its port channels */
    int port_channels;
    weiri_stream stream;
};

/* The words of one end, in one slot of the communicator's slab. Peers write
 * inbound only. */
typedef struct weiri_sem_words {
    weiri_word inbound;
    _Alignas(WEIR_LINE_BYTES) uint64_t outbound;
    uint64_t expected;
    uint64_t port_expected; /* of the signals that proxies send */
} weiri_sem_words;

struct weir_sem {
    weir_conn *conn;
    weir_mem *local;  /* the own words, registered */
    weir_mem *remote; /* the peer's words, mapped; NULL over a network */
    weir_sem_dev device;
    weiri_port_end port;
};

#endif
