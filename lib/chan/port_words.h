/*
 * The words of port channels: of each semaphore a set at both ends, in host memory,
 * where a proxy's plain stores, a peer's, a network and kernels all reach them. All
 * sets of a rank lie in one segment, which a peer of the same machine maps once.
 */
#ifndef WEIR_CHAN_PORT_WORDS_H
#define WEIR_CHAN_PORT_WORDS_H

#include "comm/internode/networks.h"

typedef struct weiri_port_words {
    weiri_word inbound; /* the peer's proxy stores how often it has signalled */
    weiri_word flushed; /* the own proxy: 1 + the ticket of the last flush that is done */
    weiri_word reached; /* the own copy engine: how many of its marks it has reached */
} weiri_port_words;

/* One end of a semaphore as its port channels use it. */
typedef struct weiri_port_end {
    weiri_port_words *own, *own_there;       /* here, and as this rank's kernels see it */
    weiri_port_words *remote, *remote_there; /* the peer's, mapped; NULL over a network */
    weiri_net_key remote_key;               /* over a network */
    uint64_t remote_at;                      /* where in that memory the peer's words are */
    uint64_t sent, marks;                    /* signals, and reached's; the proxy's */
    int channels;                            /* that use it */
} weiri_port_end;

/* What a peer needs of an end; plain bytes. */
typedef struct weiri_port_card {
    weiri_segment_key segment;
    weiri_net_key key; /* for the connection's network */
    uint64_t at;
} weiri_port_card;

typedef struct weiri_port_slab weiri_port_slab;

/* Room for so many ends. Local. */
weir_status weiri_port_slab_create(weir_comm *comm, int ends, weiri_port_slab **slab);
/* NULL is allowed. The wires are still open. */
void weiri_port_slab_destroy(weiri_port_slab *slab);
/* Clears an end for a new semaphore; wire is its connection's or NULL. */
weir_status weiri_port_slab_open(weiri_port_slab *slab, int end, weiri_net *net,
                                 weiri_port_end *own, weiri_port_card *card);
/* Takes the peer's end by its card. */
weir_status weiri_port_slab_join(weiri_port_slab *slab, int peer, weiri_net *net,
                                 const weiri_port_card *card, weiri_port_end *own);

#endif
