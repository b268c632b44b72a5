/*
 * Test double: a network transport over shared memory. It joins ranks of one node that act as
 * different nodes (WEIR_HOSTID), so that tests of the internode code need neither sockets nor
 * RDMA. It is also the smallest complete network transport, hence the one to read first.
 *
 * Protocol: each endpoint owns a ring of bytes that the peer writes and the endpoint reads. An
 * operation is a header, followed by the data if it is a put. The writer copies as much as there
 * is room for, then stores its position (head) with release. The reader copies what has arrived
 * to the place that the header names, then stores its own position (tail), which acknowledges the
 * operation. The memory that a header names is the reader's, so no rank maps the registered
 * memory of another. Operations are performed in the order of their bytes in the ring.
 *
 * Failures: an endpoint fails with WEIR_ERR_PEER once the peer's process has ended, or once the
 * peer has destroyed its endpoint while operations to it are outstanding. There is no descriptor
 * to sleep on: arm always reports that there is work.
 */
#define _GNU_SOURCE
#include "verify/tests/support/net_shm.h"

#include "base/error.h"
#include "transport/transport.h"
#include <weir/target.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    RING_BYTES = 1 << 18,
    IDLE_POLLS_PER_CHECK = 64, /* of the deadline and of the peer's process */
    MEMORIES_MAX = 4096,
};

typedef struct line_word {
    _Alignas(WEIR_LINE_BYTES) uint64_t value;
} line_word;

typedef struct ring {
    line_word head;   /* total bytes written; stored by the writer */
    line_word tail;   /* total bytes read; stored by the reader */
    line_word closed; /* 1 once the writer has destroyed its endpoint */
    char data[RING_BYTES];
} ring;

/* The contents of an endpoint's address. */
typedef struct shm_address {
    weiri_segment_key key;
    int32_t pid, rank;
} shm_address;
_Static_assert(sizeof(shm_address) <= WEIRI_NET_ADDRESS_BYTES, "the address holds it");

typedef struct shm_key {
    uint32_t memory, padding;
    uint64_t bytes;
} shm_key;
_Static_assert(sizeof(shm_key) <= WEIRI_NET_KEY_BYTES, "the key holds it");

enum { PUT = 1, SIGNAL = 2 };

typedef struct header {
    uint32_t kind, memory;
    uint64_t to, bytes, value; /* a put is followed by its data; a signal has only value */
} header;

/* A posted operation. */
typedef struct operation {
    struct operation *next;
    header head;
    const char *from;
    uint64_t end; /* the ring position after its last byte, once it is written */
} operation;

typedef struct shm_endpoint {
    weiri_endpoint base;
    struct shm_endpoint *next;
    weiri_segment inbound_segment, outbound_segment;
    ring *inbound, *outbound;
    int peer_pid, pidfd;               /* pidfd is -1 if the kernel has no pidfd_open */
    operation *first, *last;           /* not yet written completely */
    operation *written, *written_last; /* written, not yet read by the peer */
    uint64_t written_of_first;         /* bytes of first, including its header */
    header arriving;
    uint64_t arrived;  /* bytes of the arriving operation, including its header */
    unsigned idle;     /* consecutive progress calls without any progress */
    uint64_t stuck_ns; /* time of the first check without progress; 0 after any */
} shm_endpoint;

typedef struct shm_net {
    weiri_net base;
    shm_endpoint *endpoints;
    weiri_net_mem *memories[MEMORIES_MAX];
} shm_net;

static weir_status shm_open(int rank, int nranks, int timeout_ms, weiri_net **net)
{
    shm_net *made = calloc(1, sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a network transport");
    made->base.ops = &net_shm_ops;
    made->base.rank = rank;
    made->base.nranks = nranks;
    made->base.timeout_ms = timeout_ms;
    pthread_mutex_init(&made->base.lock, NULL);
    *net = &made->base;
    return WEIR_OK;
}

static void free_operations(operation *first)
{
    while (first) {
        operation *next = first->next;
        free(first);
        first = next;
    }
}

static void shm_endpoint_destroy(weiri_endpoint *endpoint)
{
    shm_endpoint *gone = (shm_endpoint *)endpoint;
    shm_endpoint **link = &((shm_net *)endpoint->net)->endpoints;
    while (*link && *link != gone)
        link = &(*link)->next;
    if (*link)
        *link = gone->next;
    if (gone->outbound)
        weir_store_release(&gone->outbound->closed.value, 1);
    if (gone->pidfd >= 0)
        close(gone->pidfd);
    weiri_segment_destroy(&gone->outbound_segment);
    weiri_segment_destroy(&gone->inbound_segment);
    free_operations(gone->first);
    free_operations(gone->written);
    free(gone);
}

static void shm_close(weiri_net *net)
{
    shm_net *closing = (shm_net *)net;
    if (!net)
        return;
    while (closing->endpoints)
        shm_endpoint_destroy(&closing->endpoints->base);
    for (int id = 0; id < MEMORIES_MAX; id++)
        free(closing->memories[id]);
    pthread_mutex_destroy(&net->lock);
    free(closing);
}

static weir_status shm_endpoint_create(weiri_net *net, int peer, weiri_endpoint **endpoint,
                                       weiri_net_address *own)
{
    shm_net *on = (shm_net *)net;
    shm_address address;
    memset(&address, 0, sizeof address);
    shm_endpoint *made = calloc(1, sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for an endpoint to rank %d", peer);
    made->inbound_segment.fd = made->outbound_segment.fd = made->pidfd = -1;
    weir_status status =
        weiri_transport_shm.segment_create(sizeof(ring), &made->inbound_segment, &address.key);
    if (status != WEIR_OK) {
        free(made);
        return status;
    }
    made->base.net = net;
    made->base.peer = peer;
    made->inbound = made->inbound_segment.base;
    made->next = on->endpoints;
    on->endpoints = made;
    address.pid = (int32_t)getpid();
    address.rank = net->rank;
    memset(own, 0, sizeof *own);
    memcpy(own->bytes, &address, sizeof address);
    *endpoint = &made->base;
    return WEIR_OK;
}

/* Maps the peer's ring, which exists since its address was made, so posting is possible at once. */
static weir_status shm_endpoint_connect(weiri_endpoint *endpoint, const weiri_net_address *peers)
{
    shm_endpoint *end = (shm_endpoint *)endpoint;
    shm_address address;
    memcpy(&address, peers->bytes, sizeof address);
    if (address.rank != endpoint->peer)
        return weiri_fail(WEIR_ERR_INVALID, "transport shm: not rank %d's address", endpoint->peer);
    weir_status status = weiri_segment_map(&address.key, &end->outbound_segment);
    if (status != WEIR_OK)
        return weiri_fail_context(
            status,
            "transport shm: rank %d cannot reach rank %d, which must be on the "
            "same node; use another transport",
            endpoint->net->rank, endpoint->peer);
    end->outbound = end->outbound_segment.base;
    end->peer_pid = address.pid;
#ifdef SYS_pidfd_open
    end->pidfd = (int)syscall(SYS_pidfd_open, address.pid, 0);
#endif
    return WEIR_OK;
}

static weir_status shm_mem_register(weiri_net *net, void *base, size_t bytes, weiri_net_place place,
                                    weiri_net_mem **mem)
{
    shm_net *on = (shm_net *)net;
    uint32_t id = 0;
    if (place != WEIRI_NET_HOST)
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "transport shm: host memory only");
    while (id < MEMORIES_MAX && on->memories[id])
        id++;
    weiri_net_mem *made = id < MEMORIES_MAX ? calloc(1, sizeof *made) : NULL;
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "transport shm: at most %d memories", MEMORIES_MAX);
    const shm_key key = {id, 0, bytes};
    made->net = net;
    made->base = base;
    made->bytes = bytes;
    memcpy(made->key.bytes, &key, sizeof key);
    on->memories[id] = made;
    *mem = made;
    return WEIR_OK;
}

static void shm_mem_deregister(weiri_net_mem *mem)
{
    shm_net *on = (shm_net *)mem->net;
    shm_key key;
    memcpy(&key, mem->key.bytes, sizeof key);
    on->memories[key.memory] = NULL;
    free(mem);
}

/* Copies into or out of a ring; position counts all bytes ever, and is reduced modulo its size. */
static void ring_copy_in(ring *to, uint64_t position, const char *from, size_t bytes)
{
    size_t at = position % RING_BYTES, first = RING_BYTES - at < bytes ? RING_BYTES - at : bytes;
    memcpy(to->data + at, from, first);
    memcpy(to->data, from + first, bytes - first);
}

static void ring_copy_out(char *to, const ring *from, uint64_t position, size_t bytes)
{
    size_t at = position % RING_BYTES, first = RING_BYTES - at < bytes ? RING_BYTES - at : bytes;
    memcpy(to, from->data + at, first);
    memcpy(to + first, from->data, bytes - first);
}

static size_t smaller(uint64_t a, uint64_t b)
{
    return (size_t)(a < b ? a : b);
}

/* Writes queued operations as far as the ring has room. */
static void shm_write(shm_endpoint *end, int *moved)
{
    ring *out = end->outbound;
    uint64_t head = out->head.value, before = head;
    uint64_t room = RING_BYTES - (head - weir_load_acquire(&out->tail.value));
    while (end->first && room) {
        operation *op = end->first;
        uint64_t *done = &end->written_of_first, total = sizeof op->head + op->head.bytes;
        int in_head = *done < sizeof op->head;
        const char *from =
            in_head ? (const char *)&op->head + *done : op->from + (*done - sizeof op->head);
        size_t bytes = smaller(room, in_head ? sizeof op->head - *done : total - *done);
        if (bytes)
            ring_copy_in(out, head, from, bytes);
        head += bytes;
        room -= bytes;
        *done += bytes;
        if (*done < total)
            continue;
        *done = 0;
        op->end = head;
        end->first = op->next;
        if (!end->first)
            end->last = NULL;
        op->next = NULL;
        if (end->written)
            end->written_last->next = op;
        else
            end->written = op;
        end->written_last = op;
        end->base.sent++;
    }
    if (head == before)
        return;
    weir_store_release(&out->head.value, head);
    *moved = 1;
}

/* Queues an operation and writes as much as fits at once, so that a rank which makes no progress
 * after a signal does not hold the signal back. */
static weir_status shm_post(weiri_endpoint *endpoint, header head, const char *from)
{
    shm_endpoint *end = (shm_endpoint *)endpoint;
    int moved = 0;
    if (endpoint->failed != WEIR_OK)
        return weiri_fail(endpoint->failed,
                          "transport shm: the endpoint to rank %d has already failed",
                          endpoint->peer);
    operation *made = malloc(sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for an operation to rank %d",
                          endpoint->peer);
    *made = (operation){.head = head, .from = from};
    if (end->last)
        end->last->next = made;
    else
        end->first = made;
    end->last = made;
    endpoint->posted++;
    shm_write(end, &moved);
    return WEIR_OK;
}

static weir_status shm_check_target(const weiri_endpoint *endpoint, const shm_key *key, uint64_t to,
                                    uint64_t bytes)
{
    if (key->memory < MEMORIES_MAX && to <= key->bytes && bytes <= key->bytes - to)
        return WEIR_OK;
    return weiri_fail(WEIR_ERR_INVALID,
                      "transport shm: %llu bytes at %llu are beyond rank %d's memory of %llu bytes",
                      (unsigned long long)bytes, (unsigned long long)to, endpoint->peer,
                      (unsigned long long)key->bytes);
}

static weir_status shm_put(weiri_endpoint *endpoint, const weiri_net_mem *mem, uint64_t at,
                           const weiri_net_key *key, uint64_t to, uint64_t bytes)
{
    shm_key target;
    memcpy(&target, key->bytes, sizeof target);
    weir_status status = weiri_net_check_source(mem, at, bytes);
    if (status == WEIR_OK)
        status = shm_check_target(endpoint, &target, to, bytes);
    if (status != WEIR_OK)
        return status;
    return shm_post(endpoint, (header){PUT, target.memory, to, bytes, 0}, mem->base + at);
}

static weir_status shm_signal(weiri_endpoint *endpoint, const weiri_net_key *key, uint64_t to,
                              uint64_t value)
{
    shm_key target;
    memcpy(&target, key->bytes, sizeof target);
    weir_status status = shm_check_target(endpoint, &target, to, sizeof value);
    if (status == WEIR_OK && to % sizeof value)
        status =
            weiri_fail(WEIR_ERR_INVALID, "transport shm: a signal's offset is a multiple of 8");
    if (status != WEIR_OK)
        return status;
    return shm_post(endpoint, (header){SIGNAL, target.memory, to, 0, value}, NULL);
}

static void shm_complete(shm_endpoint *end, int *moved)
{
    uint64_t tail = weir_load_acquire(&end->outbound->tail.value);
    while (end->written && end->written->end <= tail) {
        operation *op = end->written;
        end->written = op->next;
        free(op);
        end->base.completed++;
        *moved = 1;
    }
}

static weir_status shm_fail(shm_endpoint *end, weir_status status, const char *what)
{
    end->base.failed = status;
    return weiri_fail(status, "transport shm: rank %d %s", end->base.peer, what);
}

/* Checks a complete header: its target must be registered memory. */
static weir_status shm_check_header(shm_endpoint *end)
{
    const shm_net *net = (const shm_net *)end->base.net;
    const header *head = &end->arriving;
    const weiri_net_mem *mem = head->memory < MEMORIES_MAX ? net->memories[head->memory] : NULL;
    uint64_t bytes = head->kind == SIGNAL ? sizeof head->value : head->bytes;
    if (mem && head->to <= mem->bytes && bytes <= mem->bytes - head->to)
        return WEIR_OK;
    return shm_fail(end, WEIR_ERR_PEER, "writes to memory that is not registered here");
}

/* Copies arrived data to their targets and performs arrived signals. */
static weir_status shm_read(shm_endpoint *end, int *moved)
{
    const shm_net *net = (const shm_net *)end->base.net;
    ring *in = end->inbound;
    uint64_t tail = in->tail.value, before = tail, head = weir_load_acquire(&in->head.value);
    weir_status status = WEIR_OK;
    header *op = &end->arriving;
    while (tail < head && status == WEIR_OK) {
        int in_head = end->arrived < sizeof *op;
        size_t bytes;
        if (in_head) {
            bytes = smaller(head - tail, sizeof *op - end->arrived);
            ring_copy_out((char *)op + end->arrived, in, tail, bytes);
        } else {
            uint64_t done = end->arrived - sizeof *op;
            bytes = smaller(head - tail, op->bytes - done);
            ring_copy_out(net->memories[op->memory]->base + op->to + done, in, tail, bytes);
        }
        tail += bytes;
        end->arrived += bytes;
        if (in_head && end->arrived == sizeof *op)
            status = shm_check_header(end);
        if (status != WEIR_OK || end->arrived < sizeof *op || end->arrived < sizeof *op + op->bytes)
            continue;
        if (op->kind == SIGNAL)
            weir_store_release((uint64_t *)(void *)(net->memories[op->memory]->base + op->to),
                               op->value);
        end->arrived = 0;
    }
    if (tail == before)
        return status;
    weir_store_release(&in->tail.value, tail);
    *moved = 1;
    return status;
}

static int process_is_gone(const shm_endpoint *end)
{
    struct pollfd ended = {.fd = end->pidfd, .events = POLLIN};
    if (end->pidfd < 0)
        return kill(end->peer_pid, 0) < 0 && errno == ESRCH;
    return poll(&ended, 1, 0) > 0;
}

/* Called after a progress call without progress; every IDLE_POLLS_PER_CHECK calls it checks the
 * peer and the deadline. */
static weir_status shm_check_peer(shm_endpoint *end)
{
    int pending = end->base.posted != end->base.completed;
    int closed = weir_load_acquire(&end->inbound->closed.value) != 0;
    if (++end->idle % IDLE_POLLS_PER_CHECK || (closed && !pending))
        return WEIR_OK;
    if (closed || process_is_gone(end)) {
        /* Data that the peer wrote before it ended are delivered first. */
        int left = weir_load_acquire(&end->inbound->head.value) != end->inbound->tail.value;
        return left ? WEIR_OK : shm_fail(end, WEIR_ERR_PEER, "is gone; see its own messages");
    }
    if (!pending || !end->stuck_ns)
        end->stuck_ns = weir_clock_ns();
    else if (weir_clock_ns() - end->stuck_ns > (uint64_t)end->base.net->timeout_ms * 1000000u)
        return shm_fail(end, WEIR_ERR_TIMEOUT,
                        "has made no progress before the deadline; see where it waits");
    return WEIR_OK;
}

static weir_status shm_progress(weiri_net *net, int *moved)
{
    weir_status worst = WEIR_OK;
    for (shm_endpoint *end = ((shm_net *)net)->endpoints; end; end = end->next) {
        int here = 0;
        if (!end->outbound || end->base.failed != WEIR_OK)
            continue;
        shm_write(end, &here);
        weir_status status = shm_read(end, &here);
        shm_complete(end, &here);
        if (status == WEIR_OK && !here)
            status = shm_check_peer(end);
        if (status != WEIR_OK)
            worst = status;
        if (here)
            end->stuck_ns = 0;
        *moved |= here;
    }
    return worst;
}

static int shm_arm(weiri_net *net, int *descriptor)
{
    (void)net;
    *descriptor = -1;
    return 0;
}

const weiri_net_ops net_shm_ops = {
    .transport = WEIR_TRANSPORT_SHM,
    .open = shm_open,
    .close = shm_close,
    .endpoint_create = shm_endpoint_create,
    .endpoint_connect = shm_endpoint_connect,
    .endpoint_destroy = shm_endpoint_destroy,
    .mem_register = shm_mem_register,
    .mem_deregister = shm_mem_deregister,
    .put = shm_put,
    .signal = shm_signal,
    .progress = shm_progress,
    .arm = shm_arm,
};
