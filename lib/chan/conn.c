/*
 * Connections: a path to one peer over one transport, which both ends agree on before either
 * continues. Over a network a connection owns an endpoint of the communicator's network; otherwise
 * the peer's memory is mapped, and the connection owns nothing.
 */
#include "base/error.h"
#include "chan/chan.h"
#include "chan/copy_engine.h"
#include "comm/internode/internode.h"

#include <stdlib.h>
#include <string.h>

/* The first message of a set-up, from each end to the other. */
typedef struct greeting {
    int32_t status, transport;
    weiri_net_address address; /* of its endpoint; zero if the memory is mapped */
} greeting;

static weir_status conn_exchange(weir_comm *comm, int peer, int tag, const void *mine, void *theirs,
                                 size_t bytes)
{
    weir_status status = weir_boot_send(comm->boot, mine, bytes, peer, tag);
    return status == WEIR_OK ? weir_boot_recv(comm->boot, theirs, bytes, peer, tag) : status;
}

/* Chooses the transport to a peer; opens it if it is a network. */
static weir_status conn_choose_transport(weir_comm *comm, int peer, weir_transport wanted,
                                         weir_transport *chosen, weiri_net **net)
{
    weir_transport mapped = comm->memory->transport;
    const char *name = weir_transport_name(wanted);
    int maps = weiri_comm_maps(comm, peer);
    if (maps && (wanted == WEIR_TRANSPORT_AUTO || wanted == mapped)) {
        *chosen = mapped;
        return WEIR_OK;
    }
    *chosen = wanted;
    if (wanted == WEIR_TRANSPORT_AUTO && comm->internode) {
        *chosen = comm->internode->net->ops->transport;
    } else if (wanted == WEIR_TRANSPORT_AUTO) {
        for (int i = 0; i < WEIRI_NETWORKS && weiri_network_joins_nodes(i); i++) {
            *chosen = weiri_transport_at(i); /* the last one's failure is reported below */
            if (weiri_comm_net(comm, *chosen, net) == WEIR_OK)
                return WEIR_OK;
        }
    }
    if (weiri_network_of(*chosen) < 0 || (maps && wanted == WEIR_TRANSPORT_SHM))
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "rank %d cannot reach rank %d over %s; use %s",
                          comm->rank, peer, name ? name : "an unknown transport",
                          maps ? weir_transport_name(mapped) : "a network (ib, tcp)");
    weir_status status = weiri_comm_net(comm, *chosen, net);
    if (status != WEIR_OK)
        weiri_fail_context(status, "rank %d cannot reach rank %d over %s%s%s", comm->rank, peer,
                           weir_transport_name(*chosen), maps ? "; use " : "",
                           maps ? weir_transport_name(mapped) : "");
    return status;
}

static weir_status conn_create_endpoint(weir_conn *conn, weiri_net *net, weiri_net_address *address)
{
    if (!net)
        return WEIR_OK;
    weiri_net_lock(net);
    weir_status status = net->ops->endpoint_create(net, conn->peer, &conn->endpoint, address);
    weiri_net_unlock(net);
    return status;
}

static weir_status peer_failed(const weir_conn *conn, int32_t status)
{
    return weiri_fail((weir_status)status, "rank %d could not connect to rank %d", conn->peer,
                      conn->comm->rank);
}

/* Connects this end's endpoint to the peer's; then both ends exchange how that went. */
static weir_status conn_connect_endpoint(weir_conn *conn, const weiri_net_address *address)
{
    weiri_net *net = conn->endpoint->net;
    weiri_net_lock(net);
    weir_status status = net->ops->endpoint_connect(conn->endpoint, address);
    weiri_net_unlock(net);
    int32_t mine = status, theirs = WEIR_OK;
    weir_status exchanged =
        conn_exchange(conn->comm, conn->peer, conn->tag, &mine, &theirs, sizeof mine);
    if (status == WEIR_OK && exchanged == WEIR_OK && theirs != WEIR_OK)
        status = peer_failed(conn, theirs);
    return status != WEIR_OK ? status : exchanged;
}

/* Exchanges greetings with the peer, also after a failure of this end, which then fails both. */
static weir_status conn_agree(weir_conn *conn, weir_status status, const weiri_net_address *address)
{
    greeting mine = {.status = status, .transport = (int32_t)conn->transport}, theirs;
    mine.address = *address;
    weir_status exchanged =
        conn_exchange(conn->comm, conn->peer, conn->tag, &mine, &theirs, sizeof mine);
    if (status != WEIR_OK || exchanged != WEIR_OK)
        return status != WEIR_OK ? status : exchanged;
    if (theirs.status != WEIR_OK)
        return peer_failed(conn, theirs.status);
    if (theirs.transport != mine.transport)
        return weiri_fail(WEIR_ERR_MISMATCH, "rank %d and rank %d chose different transports",
                          conn->comm->rank, conn->peer);
    return conn->endpoint ? conn_connect_endpoint(conn, &theirs.address) : WEIR_OK;
}

weir_status weir_connect(weir_comm *comm, int peer, int tag, weir_transport transport,
                         weir_conn **conn)
{
    if (!comm || !conn || peer < 0 || peer >= comm->nranks || peer == comm->rank)
        return weiri_fail(WEIR_ERR_INVALID, "weir_connect: expected a peer of 0..%d, not %d",
                          comm ? comm->nranks - 1 : 0, peer);
    weiri_setup setup;
    weir_status status = weiri_setup_begin(&setup, comm, "weir_connect");
    if (status != WEIR_OK)
        return status;
    weir_conn *made = calloc(1, sizeof *made), none = {0};
    weiri_net *net = NULL;
    weiri_net_address address;
    memset(&address, 0, sizeof address);
    weir_conn *end = made ? made : &none;
    *end = (weir_conn){.comm = comm, .peer = peer, .tag = tag};
    status = made ? conn_choose_transport(comm, peer, transport, &end->transport, &net)
                  : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a connection");
    if (status == WEIR_OK)
        status = conn_create_endpoint(end, net, &address);
    status = weiri_setup_end(&setup, conn_agree(end, status, &address));
    if (status == WEIR_OK)
        *conn = made;
    else
        weir_conn_free(made);
    /* NOLINTNEXTLINE(*-unix.Malloc): only a forked process frees nothing, which was refused */
    return status;
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
    if (!conn || weiri_comm_is_forked(conn->comm))
        return;
    weiri_copy_engine_free(conn->stream.engine);
    if (conn->endpoint) {
        weiri_net *net = conn->endpoint->net;
        weiri_net_lock(net);
        net->ops->endpoint_destroy(conn->endpoint);
        weiri_net_unlock(net);
    }
    free(conn);
}
