/*
 * Conformance suite of port channels over any transport, for callers on the host. Every rank of a
 * communicator calls port_conformance(); each pair of ranks connects over the given transport and
 * tests each call. It returns the number of failed expectations, each printed on standard error.
 *
 * Every end has memory in two halves, the first of which is the source of its puts and
 * the second the destination of the peer's. Both ends run the same checks in step.
 */
#ifndef VERIFY_TESTS_CONFORMANCE_PORT_CONFORMANCE_H
#define VERIFY_TESTS_CONFORMANCE_PORT_CONFORMANCE_H

#include "verify/tests/support/comm_ranks.h"
#include <weir/port_device.h>

enum { PORT_HALF = 1 << 20, PORT_CANARY = 0xee, PORT_TAG = 21, PORT_MARGIN = 32 };

typedef struct port_pair {
    weir_comm *comm;
    weir_proxy *proxy;
    int rank, peer;
    int rounds; /* of ping-pong; few, and the other checks are shorter, too */
    weir_conn *conn;
    weir_sem *sem;
    weir_mem *mem, *peer_mem;
    weir_portchan *chan;
    weir_portchan_dev *port;
    unsigned char *own;
} port_pair;

static inline weir_status port_open(port_pair *with, weir_transport transport)
{
    weir_comm *comm = with->comm;
    weir_status status = weir_connect(comm, with->peer, PORT_TAG, transport, &with->conn);
    if (status == WEIR_OK)
        status = weir_mem_alloc(comm, 2 * PORT_HALF, &with->mem);
    if (status == WEIR_OK)
        status = weir_sem_create(with->conn, &with->sem);
    if (status == WEIR_OK)
        status = weir_mem_send(comm, with->mem, with->peer, PORT_TAG);
    if (status == WEIR_OK)
        status = weir_mem_recv(comm, with->peer, PORT_TAG, &with->peer_mem);
    if (status == WEIR_OK)
        status =
            weir_portchan_create(with->proxy, with->sem, with->peer_mem, with->mem, &with->chan);
    if (status != WEIR_OK)
        return status;
    with->port = weir_portchan_device(with->chan);
    with->own = weir_mem_pointer(with->mem);
    return WEIR_OK;
}

/* Creates and starts a proxy, and connects the two ranks. */
static inline void port_pair_start(port_pair *with, weir_comm *comm, weir_transport transport,
                                   int *failures)
{
    *with =
        (port_pair){.comm = comm, .rank = weir_comm_rank(comm), .peer = 1 - weir_comm_rank(comm)};
    EXPECT_OK(failures, weir_proxy_create(comm, NULL, &with->proxy));
    EXPECT_OK(failures, weir_proxy_start(with->proxy));
    EXPECT_OK(failures, port_open(with, transport));
}

/* Waits for this rank's puts to complete and for the peer, then frees all but the proxy. */
static inline void port_close(port_pair *with)
{
    if (with->port)
        weir_port_flush(with->port);
    if (with->mem)
        weir_comm_barrier(with->comm);
    weir_portchan_free(with->chan);
    weir_sem_free(with->sem);
    weir_mem_free(with->peer_mem);
    weir_mem_free(with->mem);
    weir_conn_free(with->conn);
}

/* A barrier of both ends; each then reads what the other put before. */
static inline int port_barrier(port_pair *with)
{
    int status = weir_port_signal(with->port);
    return status ? status : weir_port_wait(with->port);
}

static inline int port_arrived(const port_pair *with, size_t at, size_t bytes, int round)
{
    const unsigned char *to = with->own + PORT_HALF + at;
    for (size_t i = 1; i <= PORT_MARGIN; i++)
        if (to[-(ptrdiff_t)i] != PORT_CANARY || to[bytes + i - 1] != PORT_CANARY)
            return 0;
    return boot_filled(to, bytes, with->peer, round);
}

static inline void port_prepare(port_pair *with, size_t bytes, int round)
{
    memset(with->own + PORT_HALF, PORT_CANARY, bytes + 256);
    boot_fill(with->own + bytes % 13, bytes, with->rank, round);
}

/* A put of a given length, announced to the peer by each of the calls that signal. */
static inline void port_check_put(port_pair *with, size_t bytes, int round, int *failures)
{
    size_t to = PORT_MARGIN + bytes % 17, from = bytes % 13;
    weir_portchan_dev *port = with->port;
    port_prepare(with, bytes, round);
    EXPECT_OK(failures, port_barrier(with));
    if (round % 3 == 0) {
        EXPECT_OK(failures, weir_port_put(port, PORT_HALF + to, from, bytes));
        EXPECT_OK(failures, weir_port_signal(port));
    } else if (round % 3 == 1) {
        EXPECT_OK(failures, weir_port_put_with_signal(port, PORT_HALF + to, from, bytes));
    } else {
        EXPECT_OK(failures, weir_port_put_with_signal_and_flush(port, PORT_HALF + to, from, bytes));
        memset(with->own + from, 0, bytes); /* the put has read it */
    }
    EXPECT_OK(failures, weir_port_wait(port));
    EXPECT(failures, port_arrived(with, to, bytes, round));
    EXPECT_OK(failures, weir_port_flush(port)); /* the source may now be overwritten */
    EXPECT_OK(failures, port_barrier(with));
}

static inline void port_check_puts(port_pair *with, int *failures)
{
    static const size_t lengths[] = {0,  1,   2,   7,    8,    9,     63,     64,
                                     65, 255, 256, 4095, 4096, 65537, 100003, 1000000};
    for (int round = 0; round < (with->rounds < 1000 ? 3 : 6) && !*failures; round++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths && !*failures; i++)
            port_check_put(with, lengths[i], round, failures);
}

/* Signals are counted: a poll finds none before the peer signals, and then exactly as many as it
 * sent. */
static inline void port_check_signals(port_pair *with, int *failures)
{
    enum { SIGNALS = 5 };
    weir_portchan_dev *port = with->port;
    EXPECT_OK(failures, port_barrier(with));
    EXPECT_OK(failures, weir_port_flush(port));
    EXPECT_OK(failures, weir_comm_barrier(with->comm));
    EXPECT(failures, weir_port_poll(port) == 0);
    EXPECT_OK(failures, weir_comm_barrier(with->comm));
    for (int i = 0; i < SIGNALS; i++)
        EXPECT_OK(failures, weir_port_signal(port));
    for (int i = 0; i < SIGNALS - 1; i++)
        EXPECT_OK(failures, weir_port_wait(port));
    double limit_s = now_s() + 10;
    int found = 0;
    while (!(found = weir_port_poll(port)) && now_s() < limit_s)
        weir_relax();
    EXPECT(failures, found && weir_port_poll(port) == 0);
    EXPECT_OK(failures,
              weir_comm_barrier(with->comm)); /* neither signals before both have polled */
    EXPECT_OK(failures, port_barrier(with));
}

/* Ping-pong of one word, thousands of times at the same address. */
static inline void port_check_ping_pong(port_pair *with, int *failures)
{
    volatile int *mine = (volatile int *)(void *)(with->own + PORT_HALF);
    int *out = (int *)(void *)with->own, wrong = 0, status = 0;
    for (int round = 0; round < with->rounds && !status; round++) {
        int first = with->rank < with->peer;
        for (int half = 0; half < 2 && !status; half++) {
            if (first == !half) {
                *out = with->rank < with->peer ? round : ~round;
                status = weir_port_put_with_signal_and_flush(with->port, PORT_HALF, 0, sizeof *out);
            } else {
                status = weir_port_wait(with->port);
                wrong += *mine != (with->rank < with->peer ? ~round : round);
            }
        }
    }
    EXPECT(failures, status == 0 && wrong == 0);
}

/* More outstanding puts than the FIFO holds; those of one channel arrive in order. */
static inline void port_check_stream(port_pair *with, int *failures)
{
    enum { BYTES = 24 };
    const int messages = with->rounds < 2000 ? with->rounds : 2000;
    int status = 0, wrong = 0;
    for (int i = 0; i < messages; i++)
        boot_fill(with->own + BYTES * i, BYTES, with->rank, i);
    EXPECT_OK(failures, port_barrier(with));
    for (int i = 0; i < messages && !status; i++)
        status = weir_port_put_with_signal(with->port, (uint64_t)(PORT_HALF + BYTES * i),
                                           (uint64_t)(BYTES * i), BYTES);
    for (int i = 0; i < messages && !status; i++) {
        status = weir_port_wait(with->port);
        wrong += !boot_filled(with->own + PORT_HALF + BYTES * i, BYTES, with->peer, i);
    }
    EXPECT(failures, status == 0 && wrong == 0);
    EXPECT_OK(failures, weir_port_flush(with->port));
    EXPECT_OK(failures, port_barrier(with));
}

/* A wait for a signal that is never sent ends at its deadline and consumes no signal. */
static inline void port_check_deadline(port_pair *with, int *failures)
{
    weir_portchan_dev impatient = *with->port;
    uint64_t seen = *impatient.expected;
    impatient.fifo.guard.timeout_ns = 20000000;
    EXPECT_OK(failures, port_barrier(with));
    EXPECT_OK(failures, weir_comm_barrier(with->comm));
    double start_s = now_s();
    EXPECT(failures, weir_port_wait(&impatient) == WEIR_ERR_TIMEOUT);
    EXPECT(failures, now_s() - start_s >= 0.02 && now_s() - start_s < 10);
    EXPECT(failures, *impatient.expected == seen + 1);
    EXPECT_OK(failures, weir_comm_barrier(with->comm));
    EXPECT_OK(failures, port_barrier(with));
}

/* Many channels over one semaphore, each to a different part of the memory; numbers of freed
 * channels are reused. */
static inline void port_check_many(port_pair *with, int *failures)
{
    enum { CHANNELS = 70, PIECE = 64 };
    weir_mem *pieces[CHANNELS] = {NULL}, *peers[CHANNELS] = {NULL};
    weir_portchan *chans[CHANNELS] = {NULL};
    memset(with->own, 0, PORT_HALF);
    for (int i = 0; i < CHANNELS && !*failures; i++) {
        EXPECT_OK(failures, weir_mem_register(with->comm, with->own + PORT_HALF + PIECE * i, PIECE,
                                              &pieces[i]));
        EXPECT_OK(failures, weir_mem_send(with->comm, pieces[i], with->peer, PORT_TAG));
        EXPECT_OK(failures, weir_mem_recv(with->comm, with->peer, PORT_TAG, &peers[i]));
        EXPECT_OK(failures,
                  weir_portchan_create(with->proxy, with->sem, peers[i], with->mem, &chans[i]));
    }
    for (int i = 0; i < CHANNELS && !*failures; i++) {
        weir_portchan_dev *port = weir_portchan_device(chans[i]);
        boot_fill(with->own + PIECE * i, PIECE, with->rank, i);
        EXPECT_OK(failures, weir_port_put_with_signal(port, 0, (uint64_t)(PIECE * i), PIECE));
        EXPECT_OK(failures, weir_port_wait(port));
        EXPECT(failures, boot_filled(with->own + PORT_HALF + PIECE * i, PIECE, with->peer, i));
    }
    if (!*failures)
        EXPECT_OK(failures, weir_port_flush(with->port));
    for (int i = 0; i < CHANNELS; i++)
        weir_portchan_free(chans[i]);
    EXPECT_OK(failures, weir_comm_barrier(with->comm));
    for (int i = 0; i < CHANNELS; i++) {
        weir_mem_free(peers[i]);
        weir_mem_free(pieces[i]);
    }
}

/* A new semaphore starts at zero, whatever an earlier one in its slot has counted. */
static inline void port_check_recycling(port_pair *with, int *failures)
{
    for (int round = 0; round < 5 && !*failures; round++) {
        weir_sem *sem = NULL;
        weir_portchan *chan = NULL;
        EXPECT_OK(failures, weir_sem_create(with->conn, &sem));
        if (*failures)
            return;
        EXPECT_OK(failures,
                  weir_portchan_create(with->proxy, sem, with->peer_mem, with->mem, &chan));
        weir_portchan_dev *fresh = weir_portchan_device(chan);
        EXPECT(failures, *fresh->expected == 0 && weir_port_poll(fresh) == 0);
        EXPECT_OK(failures, weir_comm_barrier(with->comm));
        for (int i = 0; i < 3; i++)
            EXPECT_OK(failures, weir_port_signal(fresh));
        EXPECT_OK(failures, weir_port_wait(fresh));
        EXPECT_OK(failures, weir_port_flush(fresh));
        EXPECT_OK(failures, weir_comm_barrier(with->comm));
        weir_portchan_free(chan);
        weir_sem_free(sem);
    }
}

/* Every rank of a communicator of two ranks calls this. */
static inline int port_conformance(weir_comm *comm, weir_transport transport, int rounds)
{
    void (*const checks[])(port_pair *, int *) = {
        port_check_puts,     port_check_signals, port_check_ping_pong, port_check_stream,
        port_check_deadline, port_check_many,    port_check_recycling};
    int failures = 0;
    port_pair with;
    port_pair_start(&with, comm, transport, &failures);
    with.rounds = rounds;
    const int opened = !failures;
    for (size_t i = 0; i < sizeof checks / sizeof *checks && !failures; i++)
        checks[i](&with, &failures);
    if (!failures)
        EXPECT_OK(&failures, port_barrier(&with));
    if (opened)
        port_close(&with);
    if (failures)
        weir_comm_abort(comm); /* so that the peer does not wait for this rank */
    else
        EXPECT_OK(&failures, weir_proxy_stop(with.proxy));
    weir_proxy_free(with.proxy);
    return failures;
}

#endif
