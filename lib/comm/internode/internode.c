/*
 * Making and ending the part of a communicator that crosses machines: who sits where,
 * the wire, and the connections, one after another in an order that all ranks share.
 */
#include "comm/internode/internode.h"

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE = 10 /* times the deadline: a peer that computes is not gone */ };

/* ---------------------------------------------------------------- who is where */

static void count_machines(weiri_net *net, const weiri_berth *berths)
{
    int n = net->whole->nranks;
    for (int rank = 0; rank < n; rank++) {
        int first = 0;
        while (berths[first].host != berths[rank].host)
            first++;
        int machine = first == rank ? net->nmachines++ : net->machine_of[first];
        net->machine_of[rank] = machine;
        net->place_of[rank] = net->machines[machine].count++;
        net->pids[rank] = berths[rank].pid;
    }
}

static weir_status place_ranks(weiri_net *net, const weiri_berth *berths)
{
    size_t n = (size_t)net->whole->nranks;
    net->machines = calloc(n, sizeof *net->machines);
    net->machine_of = calloc(n, sizeof *net->machine_of);
    net->place_of = calloc(n, sizeof *net->place_of);
    net->pids = calloc(n, sizeof *net->pids);
    net->peers = calloc(n, sizeof *net->peers);
    if (!net->machines || !net->machine_of || !net->place_of || !net->pids || !net->peers)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the tables of %zu ranks", n);
    count_machines(net, berths);
    net->machine = net->machine_of[net->whole->rank];
    net->fewest = net->whole->nranks;
    for (int m = 0; m < net->nmachines; m++) {
        weiri_machine *machine = &net->machines[m];
        net->fewest = machine->count < net->fewest ? machine->count : net->fewest;
        net->most = machine->count > net->most ? machine->count : net->most;
        machine->ranks = calloc((size_t)machine->count, sizeof *machine->ranks);
        if (!machine->ranks)
            return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a machine's ranks");
    }
    for (int rank = 0; rank < net->whole->nranks; rank++)
        net->machines[net->machine_of[rank]].ranks[net->place_of[rank]] = rank;
    net->nremote = net->whole->nranks - net->machines[net->machine].count;
    return WEIR_OK;
}

/* ------------------------------------------------------------------- the wire */

/* The wire that is asked for, or the first that serves, the best one first. */
static weir_status open_wire(weiri_net *net)
{
    static const weir_transport order[] = {WEIR_TRANSPORT_IB, WEIR_TRANSPORT_TCP,
                                           WEIR_TRANSPORT_SHM};
    const char *wanted = weiri_env(WEIRI_ENV_TRANSPORT);
    const weir_comm *whole = net->whole;
    int timeout_ms = (int)(whole->guard.timeout_ns / 1000000u);
    int any = !wanted || strcmp(wanted, weir_transport_name(WEIR_TRANSPORT_AUTO)) == 0;
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < sizeof order / sizeof *order && !net->wire; i++) {
        const weiri_wire_ops *ops = weiri_wire_of(order[i]);
        int named = !any && strcmp(wanted, weir_transport_name(order[i])) == 0;
        if (!ops || (any ? order[i] == WEIR_TRANSPORT_SHM : !named))
            continue;
        status = ops->open(whole->rank, whole->nranks, timeout_ms, &net->wire);
        if (status != WEIR_OK && any)
            weiri_log(WEIRI_LOG_INFO, "transport %s: %s", weir_transport_name(order[i]),
                      weir_last_error());
    }
    if (!net->wire && status == WEIR_OK)
        status = weiri_fail(WEIR_ERR_UNSUPPORTED,
                            "transport '%s' does not join machines in this build; use tcp or auto",
                            any ? "auto" : wanted);
    return status;
}

/* Ranks of unlike machines may have found unlike wires; then all take what all have. */
static weir_status agree_on_wire(weiri_net *net, weir_status mine)
{
    weir_comm *whole = net->whole;
    int *all = calloc((size_t)whole->nranks, sizeof *all);
    weir_status status = all ? mine : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to agree");
    status = weir_boot_agree(whole->boot, status);
    if (status == WEIR_OK) {
        all[whole->rank] = (int)net->wire->ops->transport;
        status = weir_boot_allgather(whole->boot, all, sizeof *all);
    }
    int worst = WEIR_TRANSPORT_AUTO;
    for (int rank = 0; status == WEIR_OK && rank < whole->nranks; rank++)
        worst = all[rank] > worst ? all[rank] : worst;
    free(all);
    if (status != WEIR_OK || worst == (int)net->wire->ops->transport)
        return status == WEIR_OK ? weir_boot_agree(whole->boot, WEIR_OK) : status;
    const weiri_wire_ops *ops = weiri_wire_of((weir_transport)worst);
    int timeout_ms = net->wire->timeout_ms;
    net->wire->ops->close(net->wire);
    net->wire = NULL;
    status = ops ? ops->open(whole->rank, whole->nranks, timeout_ms, &net->wire)
                 : weiri_fail(WEIR_ERR_UNSUPPORTED, "rank %d has no transport %s", whole->rank,
                              weir_transport_name((weir_transport)worst));
    return weir_boot_agree(whole->boot, status);
}

/* One endpoint to each remote rank; all: nranks x nranks addresses. */
static weir_status make_endpoints(weiri_net *net, weiri_wire_address *all)
{
    const weir_comm *whole = net->whole;
    weiri_wire_address *mine = all + (size_t)whole->rank * (size_t)whole->nranks;
    weir_status status = WEIR_OK;
    for (int rank = 0; rank < whole->nranks && status == WEIR_OK; rank++)
        if (net->machine_of[rank] != net->machine)
            status = net->wire->ops->endpoint_create(net->wire, rank, &net->peers[rank].endpoint,
                                                     &mine[rank]);
    return status;
}

/* In the order of peers: so that the pairs of all ranks have one order, and nobody waits
 * for one that waits for another. */
static weir_status connect_endpoints(weiri_net *net, const weiri_wire_address *all)
{
    const weir_comm *whole = net->whole;
    size_t n = (size_t)whole->nranks;
    weir_status status = WEIR_OK;
    for (size_t rank = 0; rank < n && status == WEIR_OK; rank++)
        if (net->peers[rank].endpoint)
            status = net->wire->ops->endpoint_connect(net->peers[rank].endpoint,
                                                      &all[rank * n + (size_t)whole->rank]);
    return status;
}

static weir_status connect_all(weiri_net *net)
{
    weir_boot *boot = net->whole->boot;
    size_t n = (size_t)net->whole->nranks;
    weiri_wire_address *all = calloc(n * n, sizeof *all);
    weir_status status = all ? make_endpoints(net, all)
                             : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for addresses");
    status = weir_boot_agree(boot, status);
    if (status == WEIR_OK)
        status = weir_boot_allgather(boot, all, n * sizeof *all);
    if (status == WEIR_OK)
        status = weir_boot_agree(boot, connect_endpoints(net, all));
    free(all);
    return status;
}

weir_status weiri_net_create(weir_comm *whole, const weiri_berth *berths, weiri_net **net)
{
    weiri_net *made = calloc(1, sizeof *made);
    if (!made)
        return weir_boot_agree(whole->boot, weiri_fail(WEIR_ERR_NO_MEMORY,
                                                       "no memory for paths to other machines"));
    made->whole = whole;
    made->local = whole->local;
    weir_status status = place_ranks(made, berths);
    if (status == WEIR_OK)
        status = open_wire(made);
    status = agree_on_wire(made, status);
    if (status == WEIR_OK)
        status = weiri_net_window_create(made);
    if (status == WEIR_OK)
        status = connect_all(made);
    if (status != WEIR_OK) {
        weiri_net_destroy(made);
        return status;
    }
    made->wire->timeout_ms *= PATIENCE;
    *net = made;
    return WEIR_OK;
}

weir_status weiri_net_open_pairs(weiri_net *net)
{
    weir_boot *boot = net->whole->boot;
    size_t n = (size_t)net->whole->nranks;
    weiri_net *pairs = malloc(sizeof *pairs);
    weiri_net_peer *peers = calloc(n, sizeof *peers);
    weir_status status = weir_boot_agree(
        boot, pairs && peers ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for pairs"));
    if (status != WEIR_OK) {
        free(peers);
        free(pairs);
        return status;
    }
    *pairs = *net;
    pairs->peers = peers;
    for (size_t rank = 0; rank < n; rank++)
        peers[rank].endpoint = net->peers[rank].endpoint;
    net->pairs = pairs;
    return weiri_net_window_create(pairs);
}

static void drop_pairs(weiri_net *pairs)
{
    if (!pairs)
        return;
    weiri_net_window_destroy(pairs);
    free(pairs->peers);
    free(pairs);
}

void weiri_net_destroy(weiri_net *net)
{
    if (!net)
        return;
    for (int rank = 0; net->peers && rank < net->whole->nranks; rank++)
        if (net->peers[rank].endpoint)
            net->wire->ops->endpoint_destroy(net->peers[rank].endpoint);
    drop_pairs(net->pairs);
    weiri_net_window_destroy(net);
    if (net->wire)
        net->wire->ops->close(net->wire);
    for (int m = 0; net->machines && m < net->nmachines; m++)
        free(net->machines[m].ranks);
    free(net->machines);
    free(net->machine_of);
    free(net->place_of);
    free(net->pids);
    free(net->peers);
    free(net);
}
