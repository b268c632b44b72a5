/*
 * The counters of port channels. Each semaphore has one set at either end, in host memory, which is
 * reachable by the proxies' plain stores, by the peer, by a network and by kernels. All sets of a
 * rank lie in one segment (the slab), which a peer on the same node maps once.
 */
#ifndef WEIR_CHAN_PORT_COUNTERS_H
#define WEIR_CHAN_PORT_COUNTERS_H

#include "comm/internode/networks.h"

typedef struct weiri_port_counters {
    weiri_word inbound; /* signals received; stored by the peer's proxy */
    weiri_word
        flushed; /* 1 + the ticket of the last completed flush; stored by this rank's proxy */
    weiri_word reached; /* marks reached; stored by this rank's copy engine */
} weiri_port_counters;

/* One end of a semaphore as its port channels use it. The proxy's thread writes sent and marks. */
typedef struct weiri_port_end {
    weiri_port_counters *own, *own_on_device; /* this end's: host address, address for kernels */
    weiri_port_counters *remote, *remote_on_device; /* the peer's, mapped; NULL over a network */
    weiri_net_key remote_key;                       /* over a network: the peer's slab */
    uint64_t remote_at;                             /* offset of the peer's counters in its slab */
    uint64_t sent, marks; /* signals sent; marks given to the copy engine */
    int channels;         /* number of channels that use this end */
} weiri_port_end;

/* The address of an end, sent to the peer. Plain bytes. */
typedef struct weiri_port_address {
    weiri_segment_key segment;
    weiri_net_key key; /* of the slab, for the connection's network */
    uint64_t at;       /* offset of the counters in the slab */
} weiri_port_address;

typedef struct weiri_port_slab weiri_port_slab;

/* Allocates counters for the given number of ends. Local. */
weir_status weiri_port_slab_create(weir_comm *comm, int ends, weiri_port_slab **slab);
/* Call it while the communicator's networks are still open. NULL is allowed. */
void weiri_port_slab_destroy(weiri_port_slab *slab);
/* Clears an end for a new semaphore and fills its address; net is the connection's network, or NULL
 * if the peer's memory is mapped. */
weir_status weiri_port_slab_open(weiri_port_slab *slab, int end, weiri_net *net,
                                 weiri_port_end *own, weiri_port_address *address);
/* Stores the peer's end, given by its address, into own; maps the peer's slab if necessary. */
weir_status weiri_port_slab_join(weiri_port_slab *slab, int peer, weiri_net *net,
                                 const weiri_port_address *address, weiri_port_end *own);

#endif
