/*
 * Connections: a path to one peer over one transport, agreed by both ends
 * before either goes on.
 */
#include "base/error.h"
#include "chan/chan.h"

#include <stdlib.h>

/* What each end tells the other. */
typedef struct greeting {
    int32_t status, transport;
} greeting;

static weir_status choose(const weir_comm *comm, int peer, weir_transport wanted,
                          weir_transport *chosen)
{
    if (wanted == WEIR_TRANSPORT_AUTO || wanted == comm->transport->transport) {
        *chosen = comm->transport->transport;
        return WEIR_OK;
    }
    const char *name = weir_transport_name(wanted);
    return weiri_fail(WEIR_ERR_UNSUPPORTED, "rank %d does not reach rank %d over %s; %s does",
                      comm->rank, peer, name ? name : "an unknown transport",
                      weir_transport_name(comm->transport->transport));
}

weir_status weir_connect(weir_comm *comm, int peer, int tag, weir_transport transport,
                         weir_conn **conn)
{
    if (!comm || !conn || peer < 0 || peer >= comm->nranks || peer == comm->rank)
        return weiri_fail(WEIR_ERR_INVALID, "weir_connect: expected a peer of 0..%d, not %d",
                          comm ? comm->nranks - 1 : 0, peer);
    weir_transport chosen = WEIR_TRANSPORT_AUTO;
    weir_status status = choose(comm, peer, transport, &chosen);
    weir_conn *made = status == WEIR_OK ? calloc(1, sizeof *made) : NULL;
    if (status == WEIR_OK && !made)
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a connection");
    greeting mine = {status, chosen}, theirs;
    weir_status sent = weir_boot_send(comm->boot, &mine, sizeof mine, peer, tag);
    if (sent == WEIR_OK)
        sent = weir_boot_recv(comm->boot, &theirs, sizeof theirs, peer, tag);
    if (status == WEIR_OK && sent == WEIR_OK && theirs.status != WEIR_OK)
        status = weiri_fail((weir_status)theirs.status, "rank %d could not connect to rank %d",
                            peer, comm->rank);
    if (status == WEIR_OK && sent == WEIR_OK && theirs.transport != (int32_t)chosen)
        status = weiri_fail(WEIR_ERR_MISMATCH, "rank %d and rank %d chose different transports",
                            comm->rank, peer);
    if (status == WEIR_OK)
        status = sent;
    if (status != WEIR_OK) {
        free(made);
        return status;
    }
    *made = (weir_conn){.comm = comm, .peer = peer, .tag = tag, .transport = chosen};
    *conn = made;
    return WEIR_OK;
}

weir_transport weir_conn_transport(const weir_conn *conn)
{
    return conn->transport;
}

int weir_conn_peer(const weir_conn *conn)
{
    return conn->peer;
}

void weir_conn_free(weir_conn *conn)
{
    free(conn);
}
