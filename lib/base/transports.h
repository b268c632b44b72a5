/*
 * What is known of each transport before any is opened: the one table that selection, connections,
 * the cost model and the benchmarks read. A transport's functions are in its ops table
 * (transport/transport.h, transport/net/net.h). A network's index is the same in every build,
 * because ranks exchange arrays in its order.
 */
#ifndef WEIR_BASE_TRANSPORTS_H
#define WEIR_BASE_TRANSPORTS_H

#include <weir/weir.h>

enum {
    WEIRI_TRANSPORTS = WEIR_TRANSPORT_TCP + 1,
    WEIRI_NETWORKS = 3, /* ib, tcp, and shm between emulated nodes */
};

typedef struct weiri_transport_row {
    const char *name;
    int network;        /* its place in the order of preference, best first; -1: it is no network */
    int joins_nodes;    /* "auto" tries it between nodes; 0: no network, or only by its name */
    weir_net_cost cost; /* of a network, as the cost model assumes it (coll/internode/cost.h) */
} weiri_transport_row;

/* The row of a transport; of a value that is none, NULL. */
const weiri_transport_row *weiri_transport_row_of(int transport);
/* The transport of a name; -1: there is none. */
int weiri_transport_find(const char *name);
/* The network transport at a place in the order of preference. */
weir_transport weiri_transport_at(int network);

/* Whether "auto" tries the network at a place between nodes. */
static inline int weiri_network_joins_nodes(int network)
{
    return weiri_transport_row_of((int)weiri_transport_at(network))->joins_nodes;
}

/* Returns the index of a network transport in tables; -1 for other transports. */
static inline int weiri_network_of(weir_transport transport)
{
    const weiri_transport_row *row = weiri_transport_row_of((int)transport);
    return row ? row->network : -1;
}

#endif
