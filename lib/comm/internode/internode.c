/*
 * Creating and destroying the paths between nodes: the tables of nodes and ranks, the choice of a
 * network, and the connections.
 */
#include "comm/internode/internode.h"

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "base/open_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* After set-up the network waits this many times longer for a peer, which may be computing. */
enum { PATIENCE = 10 };

/* ---------------------------------------------------------------- placement */

static void internode_count_nodes(weiri_internode *internode, const weiri_placement *placements)
{
    int n = internode->parent->nranks;
    for (int rank = 0; rank < n; rank++) {
        int first = 0;
        while (placements[first].host != placements[rank].host)
            first++;
        int node = first == rank ? internode->nnodes++ : internode->node_of[first];
        internode->node_of[rank] = node;
        internode->place_of[rank] = internode->nodes[node].count++;
        internode->pids[rank] = placements[rank].pid;
        internode->peers[rank].shares_kernel =
            placements[rank].kernel == placements[internode->parent->rank].kernel;
    }
}

static weir_status internode_place_ranks(weiri_internode *internode,
                                         const weiri_placement *placements)
{
    size_t n = (size_t)internode->parent->nranks;
    internode->nodes = calloc(n, sizeof *internode->nodes);
    internode->node_of = calloc(n, sizeof *internode->node_of);
    internode->place_of = calloc(n, sizeof *internode->place_of);
    internode->pids = calloc(n, sizeof *internode->pids);
    internode->peers = calloc(n, sizeof *internode->peers);
    if (!internode->nodes || !internode->node_of || !internode->place_of || !internode->pids ||
        !internode->peers)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the tables of %zu ranks", n);
    internode_count_nodes(internode, placements);
    internode->node = internode->node_of[internode->parent->rank];
    internode->fewest = internode->parent->nranks;
    for (int m = 0; m < internode->nnodes; m++) {
        weiri_node *node = &internode->nodes[m];
        internode->fewest = node->count < internode->fewest ? node->count : internode->fewest;
        internode->most = node->count > internode->most ? node->count : internode->most;
        node->ranks = calloc((size_t)node->count, sizeof *node->ranks);
        if (!node->ranks)
            return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a node's ranks");
    }
    for (int rank = 0; rank < internode->parent->nranks; rank++)
        internode->nodes[internode->node_of[rank]].ranks[internode->place_of[rank]] = rank;
    internode->nremote = internode->parent->nranks - internode->nodes[internode->node].count;
    internode->passed = calloc(n, 1);
    internode->links =
        calloc(1, sizeof *internode->links + (size_t)internode->nremote * sizeof(int));
    return internode->passed && internode->links
               ? WEIR_OK
               : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the links to %d ranks",
                            internode->nremote);
}

/* ------------------------------------------------------------------ network */

/* Opens the requested network, or the best one that works. */
static weir_status internode_open_net(weiri_internode *internode)
{
    const char *wanted = weiri_env(WEIRI_ENV_TRANSPORT);
    const weir_comm *parent = internode->parent;
    int timeout_ms = (int)(parent->guard.timeout_ns / 1000000u);
    const int named = wanted ? weiri_transport_find(wanted) : WEIR_TRANSPORT_AUTO;
    const int any = named == WEIR_TRANSPORT_AUTO;
    weir_status status = WEIR_OK;
    for (int i = 0; i < WEIRI_NETWORKS && !internode->net; i++) {
        const weir_transport transport = weiri_transport_at(i);
        const weiri_net_ops *ops = weiri_net_ops_of(transport);
        if (!ops || (any ? !weiri_network_joins_nodes(i) : (int)transport != named))
            continue;
        status = ops->open(parent->rank, parent->nranks, timeout_ms, &internode->net);
        if (status != WEIR_OK && any)
            weiri_log(WEIRI_LOG_INFO, "transport %s: %s", weir_transport_name(transport),
                      weir_last_error());
    }
    if (!internode->net && status == WEIR_OK)
        status = weiri_fail(WEIR_ERR_UNSUPPORTED,
                            "rank %d: transport '%s' does not connect nodes in this build; use "
                            "tcp or auto",
                            parent->rank, any ? "auto" : wanted);
    return status;
}

/* What a rank has opened, and its WEIR_CONNECT. */
typedef struct net_choice {
    int32_t transport, connect;
} net_choice;

/* Returns the transport of the ranks that have the worst. */
static int internode_worst_net(const weir_comm *parent, const net_choice *all)
{
    int worst = all[0].transport;
    for (int rank = 1; rank < parent->nranks; rank++)
        if (weiri_network_of((weir_transport)all[rank].transport) >
            weiri_network_of((weir_transport)worst))
            worst = all[rank].transport;
    return worst;
}

static weir_status internode_compare_connect(const weir_comm *parent, const net_choice *all)
{
    for (int rank = 0; rank < parent->nranks; rank++)
        if (all[rank].connect != all[0].connect)
            return weiri_fail(WEIR_ERR_MISMATCH,
                              "%s differs between rank 0 and rank %d; set it to the same value on "
                              "all ranks",
                              weiri_env_name(WEIRI_ENV_CONNECT), rank);
    return WEIR_OK;
}

/* Opens a network of the given transport in place of the present one, unless that has this
 * transport. */
static weir_status internode_reopen_net(weiri_internode *internode, weir_transport transport)
{
    const weir_comm *parent = internode->parent;
    const weiri_net_ops *ops = weiri_net_ops_of(transport);
    int timeout_ms = internode->net->timeout_ms;
    if (internode->net->ops->transport == transport)
        return WEIR_OK;
    internode->net->ops->close(internode->net);
    internode->net = NULL;
    return ops ? ops->open(parent->rank, parent->nranks, timeout_ms, &internode->net)
               : weiri_fail(WEIR_ERR_UNSUPPORTED, "rank %d: this build has no transport %s",
                            parent->rank, weir_transport_name(transport));
}

/* Ranks of different nodes may have opened different networks; all then use one that all have. */
static weir_status internode_agree_on_net(weiri_internode *internode, weir_status mine)
{
    weir_comm *parent = internode->parent;
    weiri_connect connect = WEIRI_CONNECT_AUTO;
    if (mine == WEIR_OK)
        mine = weiri_internode_read_connect(&connect);
    net_choice *all = calloc((size_t)parent->nranks, sizeof *all);
    weir_status status =
        all ? mine : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to agree on a network");
    status = weir_boot_agree(parent->boot, status);
    if (status == WEIR_OK) {
        all[parent->rank] = (net_choice){(int)internode->net->ops->transport, connect};
        status = weir_boot_allgather(parent->boot, all, sizeof *all);
    }
    int worst = status == WEIR_OK ? internode_worst_net(parent, all) : 0;
    if (status == WEIR_OK)
        status = internode_compare_connect(parent, all);
    free(all);
    if (status != WEIR_OK)
        return status; /* the same on all ranks */
    status = internode_reopen_net(internode, (weir_transport)worst);
    internode->is_first_use =
        status == WEIR_OK && weiri_internode_is_for_first_use(internode, connect);
    return weir_boot_agree(parent->boot, status);
}

/* Endpoints need files; a rank that may not open as many fails before any rank connects. */
static weir_status internode_check_descriptors(const weiri_internode *internode)
{
    enum { OTHERS = 16 };
    uint64_t needed = (uint64_t)internode->nremote * (uint64_t)internode->net->descriptors_each;
    char who[80];
    snprintf(who, sizeof who, "connections of rank %d to %d ranks of other nodes",
             internode->parent->rank, internode->nremote);
    return needed ? weiri_open_files_allow(needed + weiri_open_files_count() + OTHERS, who)
                  : WEIR_OK;
}

/* Creates an endpoint to each remote rank. mine gets their addresses. */
static weir_status internode_create_endpoints(weiri_internode *internode, weiri_net_address *mine)
{
    weiri_internode_links *links = internode->links;
    weir_status status = internode_check_descriptors(internode);
    for (int rank = 0; rank < internode->parent->nranks && status == WEIR_OK; rank++)
        if (internode->node_of[rank] != internode->node) {
            weiri_internode_peer *peer = &internode->peers[rank];
            status = internode->net->ops->endpoint_create(internode->net, rank, &peer->endpoint,
                                                          &mine[rank]);
            if (status == WEIR_OK)
                peer->endpoint->shares_kernel = peer->shares_kernel;
            links->ranks[links->count++] = rank;
        }
    if (status != WEIR_OK)
        links->count = 0;
    return status;
}

/* Sends mine[r] to each rank r; theirs[r] becomes what r has sent to this rank. Goes through blocks
 * of receivers, so that no rank holds the addresses of all pairs. Collective; part has room for
 * block addresses of each rank. */
static weir_status internode_exchange_addresses(const weir_comm *parent,
                                                const weiri_net_address *mine,
                                                weiri_net_address *theirs, size_t block,
                                                weiri_net_address *part)
{
    size_t n = (size_t)parent->nranks, own = (size_t)parent->rank;
    weir_status status = WEIR_OK;
    for (size_t first = 0; first < n && status == WEIR_OK; first += block) {
        size_t count = n - first < block ? n - first : block;
        memcpy(part + own * count, mine + first, count * sizeof *mine);
        status = weir_boot_allgather(parent->boot, part, count * sizeof *part);
        for (size_t rank = 0; rank < n && own >= first && own < first + count; rank++)
            theirs[rank] = part[rank * count + own - first];
    }
    return status;
}

/* All ranks connect in the order of their peers' numbers, so that no cycle of ranks can wait for
 * each other. */
static weir_status internode_connect_endpoints(weiri_internode *internode,
                                               const weiri_net_address *theirs)
{
    weir_status status = WEIR_OK;
    for (int rank = 0; rank < internode->parent->nranks && status == WEIR_OK; rank++)
        if (internode->peers[rank].endpoint)
            status = internode->net->ops->endpoint_connect(internode->peers[rank].endpoint,
                                                           &theirs[rank]);
    return status;
}

static weir_status internode_connect_all(weiri_internode *internode)
{
    enum { BLOCK = 64 };
    const weir_comm *parent = internode->parent;
    size_t n = (size_t)parent->nranks, block = n < BLOCK ? n : BLOCK;
    weiri_net_address *mine = calloc(n * (block + 2), sizeof *mine);
    weiri_net_address *theirs = mine ? mine + n : NULL, *part = mine ? mine + 2 * n : NULL;
    weir_status status = mine ? internode_create_endpoints(internode, mine)
                              : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for addresses");
    status = weir_boot_agree(parent->boot, status);
    if (status == WEIR_OK)
        status = internode_exchange_addresses(parent, mine, theirs, block, part);
    if (status == WEIR_OK)
        status = weir_boot_agree(parent->boot, internode_connect_endpoints(internode, theirs));
    free(mine);
    return status;
}

weir_status weiri_internode_create(weir_comm *parent, const weiri_placement *placements,
                                   weiri_internode **internode)
{
    weiri_internode *made = calloc(1, sizeof *made);
    if (!made)
        return weir_boot_agree(
            parent->boot, weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the paths to other nodes"));
    made->parent = parent;
    made->local = parent->host_comm;
    weir_status status = internode_place_ranks(made, placements);
    if (status == WEIR_OK)
        status = weiri_internode_services_open(made);
    if (status == WEIR_OK)
        status = internode_open_net(made);
    status = internode_agree_on_net(made, status);
    if (status == WEIR_OK)
        status = weiri_internode_window_create(made);
    if (status == WEIR_OK)
        status =
            made->is_first_use ? weiri_internode_prepare_all(made) : internode_connect_all(made);
    if (status != WEIR_OK) {
        weiri_internode_destroy(made);
        return status;
    }
    made->net->timeout_ms *= PATIENCE;
    *internode = made;
    return WEIR_OK;
}

static void internode_destroy_pairs(weiri_internode *pairs)
{
    if (!pairs)
        return;
    weiri_internode_window_destroy(pairs);
    free(pairs->peers);
    free(pairs);
}

/* Gives the boxes of all links of now memory; internode_use does it for later ones. */
static weir_status internode_publish_pairs(weiri_internode *internode, weiri_internode *pairs)
{
    weir_status status = WEIR_OK;
    weiri_net_lock(internode->net);
    for (int i = 0; i < internode->links->count && status == WEIR_OK; i++)
        status = weiri_internode_window_open(pairs, internode->links->ranks[i]);
    internode->pairs = pairs;
    weiri_net_unlock(internode->net);
    return status;
}

weir_status weiri_internode_open_pairs(weiri_internode *internode)
{
    weir_boot *boot = internode->parent->boot;
    size_t n = (size_t)internode->parent->nranks;
    weiri_internode *pairs = malloc(sizeof *pairs);
    weiri_internode_peer *peers = calloc(n, sizeof *peers);
    weir_status status = weir_boot_agree(
        boot, pairs && peers ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for pairs"));
    if (status != WEIR_OK) {
        free(peers);
        free(pairs);
        return status;
    }
    *pairs = *internode;
    pairs->peers = peers;
    for (size_t rank = 0; rank < n; rank++)
        peers[rank].endpoint = internode->peers[rank].endpoint;
    status = weiri_internode_window_create(pairs);
    if (status == WEIR_OK)
        return weir_boot_agree(boot, internode_publish_pairs(internode, pairs));
    internode_destroy_pairs(pairs);
    return status;
}

void weiri_internode_destroy(weiri_internode *internode)
{
    if (!internode)
        return;
    for (int rank = 0; internode->peers && rank < internode->parent->nranks; rank++)
        if (internode->peers[rank].endpoint)
            internode->net->ops->endpoint_destroy(internode->peers[rank].endpoint);
    internode_destroy_pairs(internode->pairs);
    weiri_internode_window_destroy(internode);
    if (internode->net)
        internode->net->ops->close(internode->net);
    weiri_internode_services_close(internode);
    for (int m = 0; internode->nodes && m < internode->nnodes; m++)
        free(internode->nodes[m].ranks);
    free(internode->nodes);
    free(internode->node_of);
    free(internode->place_of);
    free(internode->pids);
    free(internode->peers);
    free(internode->passed);
    free(internode->links);
    free(internode);
}
