/*
 * Connections that are made when first used (WEIR_CONNECT): prepared endpoints to all remote ranks,
 * the connections between leaders that exist from the start, and what happens when an endpoint is
 * first used. internode.h explains the design.
 *
 * While a leader connects, it drives its network until the leaders at the same distances before its
 * node have connected to it, too; so that no leader that is done is still needed by another one.
 */
#include "comm/internode/internode.h"

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "base/open_files.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RANKS_FEW = 64,   /* remote ranks to which each rank connects at once, by default */
    SPARE_FILES = 64, /* of which connections on first use may take some */
    POLL_MS = 100,
};

weir_status weiri_internode_read_connect(weiri_connect *connect)
{
    static const char *const names[] = {"auto", "all", "first-use"};
    const char *text = weiri_env(WEIRI_ENV_CONNECT);
    for (int i = 0; i < 3; i++)
        if (strcmp(text ? text : "auto", names[i]) == 0) {
            *connect = (weiri_connect)i;
            return WEIR_OK;
        }
    return weiri_fail(WEIR_ERR_INVALID, "%s=%s: expected auto, all or first-use",
                      weiri_env_name(WEIRI_ENV_CONNECT), text);
}

int weiri_internode_is_for_first_use(const weiri_internode *internode, weiri_connect connect)
{
    const weir_comm *parent = internode->parent;
    const int most = parent->nranks - internode->fewest,
              can = !!internode->net->ops->endpoint_prepare;
    const int wanted =
        connect == WEIRI_CONNECT_AUTO ? most > RANKS_FEW : connect == WEIRI_CONNECT_FIRST_USE;
    if (wanted && !can && connect != WEIRI_CONNECT_AUTO)
        weiri_log(WEIRI_LOG_INFO, "rank %d: %s connects all ranks at once; %s applies to tcp",
                  parent->rank, weir_transport_name(internode->net->ops->transport),
                  weiri_env_name(WEIRI_ENV_CONNECT));
    return wanted && can;
}

/* Called with the lock when an endpoint is first used. */
static weir_status links_use(void *context, weiri_endpoint *endpoint)
{
    weiri_internode *internode = context;
    weiri_internode_links *links = internode->links;
    const int rank = endpoint->peer;
    weir_status status = weiri_internode_window_open(internode, rank);
    if (status == WEIR_OK && internode->pairs)
        status = weiri_internode_window_open(internode->pairs, rank);
    __atomic_store_n(&internode->peers[rank].is_used, 1, __ATOMIC_RELAXED);
    links->ranks[links->count] = rank;
    __atomic_store_n(&links->count, links->count + 1, __ATOMIC_RELEASE);
    if (status == WEIR_OK)
        weiri_internode_catch_up(internode, rank);
    return status;
}

static weir_status links_check_descriptors(const weiri_internode *internode)
{
    uint64_t leaders = 0;
    char who[80];
    for (int d = 1; d < internode->nnodes && internode->local->rank == 0; d *= 2)
        leaders += 2;
    snprintf(who, sizeof who, "connections of rank %d to %d other nodes", internode->parent->rank,
             internode->nnodes - 1);
    return weiri_open_files_allow(leaders * (uint64_t)internode->net->descriptors_each +
                                      weiri_open_files_count() + SPARE_FILES,
                                  who);
}

static weir_status links_prepare(weiri_internode *internode, const weiri_net_address *all)
{
    weir_status status = WEIR_OK;
    internode->net->used = links_use;
    internode->net->context = internode;
    for (int rank = 0; rank < internode->parent->nranks && status == WEIR_OK; rank++)
        if (internode->node_of[rank] != internode->node) {
            weiri_internode_peer *peer = &internode->peers[rank];
            status = internode->net->ops->endpoint_prepare(internode->net, rank, &all[rank],
                                                           &peer->endpoint);
            if (status == WEIR_OK)
                peer->endpoint->shares_kernel = peer->shares_kernel;
        }
    return status;
}

/* Returns a leader that must be connected from the start and is not; -1 if there is none. */
static int links_find_missing(const weiri_internode *internode)
{
    for (int d = 1; d < internode->nnodes; d *= 2)
        for (int sign = -1; sign <= 1; sign += 2) {
            const int rank = weiri_internode_leader_at(internode, sign * d);
            const weiri_internode_peer *peer = &internode->peers[rank];
            if (!peer->is_used || peer->endpoint->is_connecting)
                return rank;
        }
    return -1;
}

/* Connects this leader to the leaders at distances 1, 2, 4, ... in both directions. */
static weir_status links_connect_leaders(weiri_internode *internode)
{
    weiri_net *net = internode->net;
    const uint64_t end_ns = weir_clock_ns() + (uint64_t)net->timeout_ms * 1000000u;
    weir_status status = WEIR_OK;
    int missing;
    for (int d = 1; d < internode->nnodes && status == WEIR_OK; d *= 2)
        status = net->ops->endpoint_begin(
            internode->peers[weiri_internode_leader_at(internode, d)].endpoint);
    while (status == WEIR_OK && (missing = links_find_missing(internode)) >= 0) {
        struct pollfd one = {.fd = -1, .events = POLLIN};
        int moved = 0;
        status = net->ops->progress(net, &moved);
        if (status == WEIR_OK && !moved && net->ops->arm(net, &one.fd) == 1)
            poll(&one, 1, POLL_MS);
        if (status == WEIR_OK && weir_clock_ns() > end_ns)
            status = weiri_fail(WEIR_ERR_TIMEOUT,
                                "rank %d: rank %d has not connected within %d ms; is it running, "
                                "does a firewall let the port through, is %s right?",
                                internode->parent->rank, missing, net->timeout_ms,
                                weiri_env_name(WEIRI_ENV_SOCKET_IFNAME));
    }
    return status;
}

weir_status weiri_internode_prepare_all(weiri_internode *internode)
{
    const weir_comm *parent = internode->parent;
    weiri_net_address *all = calloc((size_t)parent->nranks, sizeof *all);
    weir_status status = all ? links_check_descriptors(internode)
                             : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for addresses");
    if (status == WEIR_OK)
        status = internode->net->ops->address(internode->net, &all[parent->rank]);
    status = weir_boot_agree(parent->boot, status);
    if (status == WEIR_OK)
        status = weir_boot_allgather(parent->boot, all, sizeof *all);
    if (status == WEIR_OK)
        status = weir_boot_agree(parent->boot, links_prepare(internode, all));
    free(all);
    if (status != WEIR_OK)
        return status;
    if (internode->local->rank == 0)
        status = links_connect_leaders(internode);
    return weir_boot_agree(parent->boot, status);
}

void weiri_internode_reach(weiri_internode *internode, int rank)
{
    const weiri_internode_peer *peer = &internode->peers[rank];
    if (!internode->is_first_use || !peer->endpoint ||
        __atomic_load_n(&peer->is_used, __ATOMIC_RELAXED))
        return;
    weiri_net_lock(internode->net);
    internode->net->ops->endpoint_begin(peer->endpoint);
    weiri_net_unlock(internode->net);
}
