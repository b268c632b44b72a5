/*
 * Internal structs of connections and semaphores, which channels are built on. A connection belongs
 * to one thread during set-up; a port channel's proxy reads it afterwards.
 */
#ifndef WEIR_CHAN_CHAN_H
#define WEIR_CHAN_CHAN_H

#include "chan/port_counters.h"
#include "comm/comm.h"
#include "comm/internode/networks.h"

/* A completion mark: everything up to some moment has arrived once *word >= value. If word is NULL,
 * it has arrived already. */
typedef struct weiri_port_mark {
    const uint64_t *word;
    uint64_t value;
} weiri_port_mark;

/* The copy engine of a connection between GPUs. */
typedef struct weiri_stream {
    struct weiri_copy_engine *engine; /* created with the first port channel */
    int copying;                      /* copies were enqueued after the last store */
    weiri_port_mark last;             /* the last store */
} weiri_stream;

struct weir_conn {
    weir_comm *comm;
    int peer, tag;
    weir_transport transport;
    weiri_endpoint *endpoint; /* NULL if the peer's memory is mapped */
    const weir_proxy *proxy;  /* of its port channels */
    int port_channels;
    weiri_stream stream;
};

/* The counters of one end of a semaphore, in one slot of the communicator's slab. The peer writes
 * inbound; all others are written by the owner. */
typedef struct weiri_sem_words {
    weiri_word inbound;
    _Alignas(WEIR_LINE_BYTES) uint64_t outbound;
    uint64_t expected;
    uint64_t port_expected; /* of the signals that the peer's proxy sends */
} weiri_sem_words;

struct weir_sem {
    weir_conn *conn;
    weir_mem *local;  /* this end's counters, registered memory */
    weir_mem *remote; /* the peer's counters, mapped; NULL over a network */
    weir_sem_dev device;
    weiri_port_end port;
};

#endif
