/*
 * Making and ending the part of a communicator that crosses machines: who sits where,
 * the wire, the window's layout, and the connections, one after another in an order
 * that all ranks share.
 */
#include "comm/net.h"

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BOXES_BYTES = 8 << 20, /* all boxes of a rank, if slots get the size that they may */
    SLOT_LEAST_BYTES = 8 << 10,
    SLOT_MOST_BYTES = 128 << 10,
    PATIENCE = 10, /* times the deadline: a peer that computes is not gone */
};

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

/* ------------------------------------------------------------------- the window */

/* Which of rank's remote peers another one is. */
static int place_at(const weiri_net *net, int rank, int peer)
{
    int place = 0;
    for (int other = 0; other < peer; other++)
        place += net->machine_of[other] != net->machine_of[rank];
    return place;
}

static int remote_count_of(const weiri_net *net, int rank)
{
    return net->whole->nranks - net->machines[net->machine_of[rank]].count;
}

/* Slots have one size everywhere: what the rank with most remote peers can have. */
static void size_slots(weiri_net *net)
{
    size_t most = (size_t)(net->whole->nranks - net->fewest);
    size_t bytes = BOXES_BYTES / 2 / WEIRI_NET_SLOTS / most / 4096 * 4096;
    bytes = bytes > SLOT_LEAST_BYTES ? bytes : SLOT_LEAST_BYTES;
    net->slot_bytes = bytes < SLOT_MOST_BYTES ? bytes : SLOT_MOST_BYTES;
}

static uint64_t mirrors_at(const weiri_net *net, int rank)
{
    return (uint64_t)remote_count_of(net, rank) * sizeof(weiri_net_words);
}

/* Behind the mirrors is one more, which the own record is copied to. */
static uint64_t boxes_at(const weiri_net *net, int rank)
{
    return mirrors_at(net, rank) + (uint64_t)(remote_count_of(net, rank) + 1) * sizeof(weiri_where);
}

static void lay_out(weiri_net *net)
{
    int own = net->whole->rank;
    size_t ring = WEIRI_NET_SLOTS * weiri_net_stride(net);
    net->told_from = (weiri_where *)(void *)(net->window + mirrors_at(net, own)) + net->nremote;
    for (int rank = 0; rank < net->whole->nranks; rank++) {
        weiri_net_peer *peer = &net->peers[rank];
        if (net->machine_of[rank] == net->machine)
            continue;
        peer->here = place_at(net, own, rank);
        peer->there = place_at(net, rank, own);
        size_t here = (size_t)peer->here, there = (size_t)peer->there;
        peer->words = (weiri_net_words *)(void *)net->window + here;
        peer->mirror = (weiri_where *)(void *)(net->window + mirrors_at(net, own)) + here;
        peer->inbox = net->window + boxes_at(net, own) + here * 2 * ring;
        peer->outbox = peer->inbox + ring;
        peer->words_there = there * sizeof(weiri_net_words);
        peer->mirror_there = mirrors_at(net, rank) + there * sizeof(weiri_where);
        peer->inbox_there = boxes_at(net, rank) + there * 2 * ring;
    }
}

static weir_status make_window(weiri_net *net)
{
    size_t ring = WEIRI_NET_SLOTS * weiri_net_stride(net);
    net->window_bytes = boxes_at(net, net->whole->rank) + (size_t)net->nremote * 2 * ring;
    weir_status status = weir_mem_alloc(net->local, net->window_bytes, &net->memory);
    if (status != WEIR_OK)
        return status;
    net->window = weir_mem_pointer(net->memory);
    lay_out(net);
    weiri_wire_lock(net->wire);
    status = net->wire->ops->mem_register(net->wire, net->window, net->window_bytes,
                                          WEIRI_WIRE_HOST, &net->mem);
    weiri_wire_unlock(net->wire);
    return status;
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

static weir_status exchange_keys(weiri_net *net)
{
    const weir_comm *whole = net->whole;
    weiri_wire_key *keys = calloc((size_t)whole->nranks, sizeof *keys);
    if (keys)
        keys[whole->rank] = net->mem->key;
    weir_status status = weir_boot_agree(
        whole->boot, keys ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for keys"));
    if (status == WEIR_OK)
        status = weir_boot_allgather(whole->boot, keys, sizeof *keys);
    for (int rank = 0; status == WEIR_OK && rank < whole->nranks; rank++)
        net->peers[rank].key = keys[rank];
    free(keys);
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
    if (status == WEIR_OK) {
        size_slots(made);
        status = weir_boot_agree(whole->boot, make_window(made));
    }
    if (status == WEIR_OK)
        status = exchange_keys(made);
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

void weiri_net_destroy(weiri_net *net)
{
    if (!net)
        return;
    for (int rank = 0; net->peers && rank < net->whole->nranks; rank++)
        if (net->peers[rank].endpoint)
            net->wire->ops->endpoint_destroy(net->peers[rank].endpoint);
    if (net->mem)
        net->wire->ops->mem_deregister(net->mem);
    if (net->wire)
        net->wire->ops->close(net->wire);
    weir_mem_free(net->memory);
    for (int m = 0; net->machines && m < net->nmachines; m++)
        free(net->machines[m].ranks);
    free(net->machines);
    free(net->machine_of);
    free(net->place_of);
    free(net->pids);
    free(net->peers);
    free(net);
}
