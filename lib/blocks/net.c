/* Transfers between nodes: set-up, and calls that wait. See net.h. */
#define _GNU_SOURCE
#include "blocks/net.h"

#include "base/error.h"
#include <weir/device.h>

#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE_BYTES = 4096 };

static size_t round_up(size_t bytes)
{
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* ------------------------------------------------------------------ set-up */

/* Equal on all ranks, as is the place of the inboxes. */
static size_t net_slot_bytes(const weir_comm *comm)
{
    const size_t most = BLOCKS_NET_MOST_BYTES / (2 * BLOCKS_NET_SLOTS) / (size_t)comm->nranks;
    return most >= BLOCKS_NET_SLOT_BYTES   ? BLOCKS_NET_SLOT_BYTES
           : most <= BLOCKS_NET_SLOT_LEAST ? BLOCKS_NET_SLOT_LEAST
                                           : most / PAGE_BYTES * PAGE_BYTES;
}

static void net_lay_out(struct blocks_net *n)
{
    const weir_comm *comm = n->blocks->comm;
    const weiri_internode *internode = n->internode;
    const size_t inboxes = round_up((size_t)comm->nranks * sizeof(blocks_net_words));
    const size_t inbox = BLOCKS_NET_SLOTS * n->slot_bytes;
    const size_t outboxes = inboxes + (size_t)internode->nremote * inbox;
    for (int rank = 0; rank < comm->nranks; rank++) {
        const weiri_internode_peer *path = &internode->peers[rank];
        const size_t here = (size_t)path->here, there = (size_t)path->there;
        if (!path->endpoint)
            continue;
        n->peers[rank] = (blocks_net_peer){.rank = rank,
                                           .endpoint = path->endpoint,
                                           .words = (blocks_net_words *)(void *)n->memory + rank,
                                           .inbox = n->memory + inboxes + here * inbox,
                                           .outbox = n->memory + outboxes +
                                                     here * BLOCKS_NET_SLOTS * blocks_net_stride(n),
                                           .inbox_there = inboxes + there * inbox};
    }
}

static weir_status net_allocate(struct blocks_net *n)
{
    weir_comm *comm = n->blocks->comm;
    weiri_net *net = n->internode->net;
    const size_t each = BLOCKS_NET_SLOTS * (n->slot_bytes + blocks_net_stride(n));
    n->bytes = round_up((size_t)comm->nranks * sizeof(blocks_net_words)) +
               (size_t)n->internode->nremote * each;
    void *memory = mmap(NULL, n->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    n->peers = calloc((size_t)comm->nranks, sizeof *n->peers);
    n->memory = memory == MAP_FAILED ? NULL : memory;
    if (!n->memory || !n->peers)
        return weiri_fail(WEIR_ERR_NO_MEMORY,
                          "weir_blocks_create: no memory for messages to %d ranks of other nodes",
                          n->internode->nremote);
    net_lay_out(n);
    weiri_net_lock(net);
    const weir_status status =
        net->ops->mem_register(net, n->memory, n->bytes, WEIRI_NET_HOST, &n->mem);
    weiri_net_unlock(net);
    return status;
}

/* Collective; agreed. */
static weir_status net_exchange_keys(struct blocks_net *n)
{
    const weir_comm *comm = n->blocks->comm;
    weiri_net_key *keys = calloc((size_t)comm->nranks, sizeof *keys);
    weir_status status =
        keys ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "weir_blocks_create: no memory for keys");
    status = weir_boot_agree(comm->boot, status);
    if (status == WEIR_OK) {
        keys[comm->rank] = n->mem->key;
        status = weir_boot_allgather(comm->boot, keys, sizeof *keys);
    }
    for (int rank = 0; status == WEIR_OK && rank < comm->nranks; rank++)
        n->peers[rank].key = keys[rank];
    free(keys);
    return status;
}

weir_status weiri_blocks_net_open(weir_blocks *blocks)
{
    weir_comm *comm = blocks->comm;
    struct blocks_net *n;
    if (!comm->internode)
        return WEIR_OK;
    n = blocks->net = calloc(1, sizeof *n);
    weir_status status =
        n ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "weir_blocks_create: no memory");
    if (status == WEIR_OK) {
        *n = (struct blocks_net){.blocks = blocks,
                                 .internode = comm->internode,
                                 .service = {weiri_blocks_net_serve, n, NULL},
                                 .slot_bytes = net_slot_bytes(comm)};
        status = net_allocate(n);
    }
    status = weir_boot_agree(comm->boot, status);
    if (status == WEIR_OK)
        status = net_exchange_keys(n);
    if (status != WEIR_OK)
        return status;
    weiri_internode_service_add(n->internode, &n->service);
    return weir_boot_agree(comm->boot, weiri_internode_progress_start(n->internode, &n->progress));
}

void weiri_blocks_net_settle(weir_blocks *blocks)
{
    const struct blocks_net *n = blocks->net;
    weir_comm *host = n->internode->local;
    weir_status status = WEIR_OK;
    for (int rank = 0; status == WEIR_OK && rank < blocks->comm->nranks; rank++) {
        const weiri_endpoint *end = n->peers[rank].endpoint;
        weiri_waiter waiter = {.is_for_one = 1};
        while (status == WEIR_OK && end && end->completed < end->posted)
            status = weiri_comm_idle_for(host, &waiter, &end->completed, end->posted, rank,
                                         "weir_blocks_free");
        weiri_comm_idle_end(host, &waiter);
    }
}

void weiri_blocks_net_close(weir_blocks *blocks)
{
    struct blocks_net *n = blocks->net;
    if (!n)
        return;
    weiri_internode_service_remove(n->internode, &n->service);
    weiri_internode_progress_stop(n->progress);
    if (n->mem) {
        weiri_net_lock(n->internode->net);
        n->internode->net->ops->mem_deregister(n->mem);
        weiri_net_unlock(n->internode->net);
    }
    if (n->memory)
        munmap(n->memory, n->bytes);
    free(n->peers);
    free(n);
    blocks->net = NULL;
}

/* ------------------------------------------------------------------- calls */

int weiri_blocks_net_is_gone(const weir_blocks *blocks, int rank)
{
    return weiri_internode_is_gone(blocks->comm->internode, rank);
}

/* Takes a transfer back that may have failed: the peer gets no more of it. */
static void transfer_drop(const struct blocks_net *n, blocks_net_peer *p, const blocks_transfer *t)
{
    weiri_internode_serve_begin(n->internode);
    for (blocks_transfer **at = &p->first; *at; at = &(*at)->next)
        if (*at == t) {
            *at = t->next;
            break;
        }
    weiri_internode_serve_end(n->internode);
}

static weir_status run_fail(const blocks_call *call, uint64_t refused, int step)
{
    const int peer = call->args.peer;
    weir_comm *comm = call->blocks->comm;
    if (refused == BLOCKS_NET_FREED)
        return weiri_blocks_fail_freed(call->function, peer);
    if (refused)
        return weiri_fail(WEIR_ERR_MISMATCH,
                          "%s: rank %d refuses entries outside its pool; do all ranks run the "
                          "same build of weir?",
                          call->function, peer);
    if (step == WEIR_ERR_ABORTED)
        return weiri_comm_fail_ended(comm, call->function);
    if (step == WEIR_ERR_PEER)
        return weiri_fail(WEIR_ERR_PEER, "%s: the process of rank %d has ended", call->function,
                          peer);
    weiri_comm_abort_for(comm->host_comm, WEIRI_ABORT_FAILED);
    return weiri_fail(WEIR_ERR_TIMEOUT,
                      "%s: rank %d has accepted nothing for %llu ms; the communicator is aborted",
                      call->function, peer, (unsigned long long)comm->guard.timeout_ns / 1000000);
}

/* One step of a wait for a transfer. The deadline is for the next message, not for all. */
static int run_step(const blocks_call *call, const blocks_net_peer *p, weir_waiter *waiter,
                    int *idle, uint64_t *seen)
{
    const uint64_t moved = weir_load_acquire(&p->words->taken) + p->taken;
    if (weir_load_acquire(&p->words->refused))
        return WEIR_ERR_INVALID;
    if (moved != *seen)
        waiter->started_ns = 0;
    *seen = moved;
    return weiri_blocks_net_step(call->blocks, p->rank, waiter, idle, &call->blocks->comm->guard);
}

int weiri_blocks_net_step(const weir_blocks *blocks, int rank, weir_waiter *waiter, int *idle,
                          const weir_guard *guard)
{
    enum { EAGER_POLLS = 16, POLLS_PER_CHECK = 64 };
    if (*idle > EAGER_POLLS) /* rather than yielding, which costs much on shared cores */
        weiri_internode_drive_rest(blocks->net->internode);
    *idle = weiri_internode_poll(blocks->net->internode) ? 0 : *idle + 1;
    if (++waiter->polls % POLLS_PER_CHECK)
        return 0;
    if (weir_load_acquire(guard->abort_word))
        return WEIR_ERR_ABORTED;
    if (weiri_blocks_net_is_gone(blocks, rank))
        return WEIR_ERR_PEER;
    const uint64_t now_ns = weir_clock_ns();
    waiter->started_ns = waiter->started_ns ? waiter->started_ns : now_ns;
    return now_ns - waiter->started_ns > guard->timeout_ns ? WEIR_ERR_TIMEOUT : 0;
}

weir_status weiri_blocks_net_run(const blocks_call *call)
{
    struct blocks_net *n = call->blocks->net;
    blocks_net_peer *p = &n->peers[call->args.peer];
    const int is_put = call->source == call->blocks->comm->rank;
    blocks_transfer t = {.kind = is_put ? BLOCKS_TRANSFER_PUT : BLOCKS_TRANSFER_GET,
                         .list = call->list,
                         .slot = (uint64_t)call->args.slot,
                         .tag = call->args.tag_word ? *call->args.tag_word : call->args.tag};
    weir_waiter waiter = {0, 0};
    uint64_t seen = 0;
    int step = 0, idle = 0;
    weiri_blocks_net_append(n, p, &t);
    weiri_internode_drive_begin(n->internode);
    while (!__atomic_load_n(&t.is_done, __ATOMIC_ACQUIRE) && !step)
        step = run_step(call, p, &waiter, &idle, &seen);
    weiri_internode_drive_end(n->internode);
    transfer_drop(n, p, &t);
    const uint64_t refused = weir_load_acquire(&p->words->refused); /* stored before taken */
    if (refused || !__atomic_load_n(&t.is_done, __ATOMIC_ACQUIRE))
        return run_fail(call, refused, step);
    return WEIR_OK;
}
