/*
 * Conformance suite of memory channels over any transport. Every rank of a communicator calls
 * channel_conformance(); each pair of ranks connects over the given transport and tests each call.
 * It returns the number of failed expectations, each printed on standard error.
 *
 * Every end has data memory in two halves, the first of which is the source of its transfers and
 * the second the destination of the peer's, and memory for packets. Both ends run the same checks
 * at the same time, in step.
 */
#ifndef VERIFY_TESTS_CONFORMANCE_CHANNEL_CONFORMANCE_H
#define VERIFY_TESTS_CONFORMANCE_CHANNEL_CONFORMANCE_H

#include "verify/tests/support/comm_ranks.h"
#include <weir/device.h>

enum {
    HALF_BYTES = 131072,
    PACKETS_BYTES = 4096,
    CANARY = 0xee,
    PAIR_TAG = 11,
};

typedef struct pair {
    weir_comm *comm;
    int rank, peer;
    weir_conn *conn;
    weir_sem *data_sem, *packet_sem;
    weir_mem *data_mem, *packet_mem, *peer_data_mem, *peer_packet_mem;
    weir_memchan *data_chan, *packet_chan;
    weir_memchan_dev *data;    /* to the peer's data memory */
    weir_memchan_dev *packets; /* to the peer's packet memory */
    unsigned char *own;        /* our data memory */
    uint32_t epoch;            /* the flag of the latest packets */
    int rounds;                /* of ping-pong */
} pair;

/* ------------------------------------------------------------------- set-up */

static inline weir_status pair_open(pair *with, weir_transport transport)
{
    weir_comm *comm = with->comm;
    weir_status status = weir_connect(comm, with->peer, PAIR_TAG, transport, &with->conn);
    if (status == WEIR_OK)
        status = weir_mem_alloc(comm, 2 * HALF_BYTES, &with->data_mem);
    if (status == WEIR_OK)
        status = weir_mem_alloc(comm, PACKETS_BYTES, &with->packet_mem);
    if (status == WEIR_OK)
        status = weir_sem_create(with->conn, &with->data_sem);
    if (status == WEIR_OK)
        status = weir_sem_create(with->conn, &with->packet_sem);
    if (status == WEIR_OK)
        status = weir_mem_send(comm, with->data_mem, with->peer, PAIR_TAG);
    if (status == WEIR_OK)
        status = weir_mem_send(comm, with->packet_mem, with->peer, PAIR_TAG);
    if (status == WEIR_OK)
        status = weir_mem_recv(comm, with->peer, PAIR_TAG, &with->peer_data_mem);
    if (status == WEIR_OK)
        status = weir_mem_recv(comm, with->peer, PAIR_TAG, &with->peer_packet_mem);
    if (status == WEIR_OK)
        status = weir_memchan_create(with->data_sem, with->peer_data_mem, with->data_mem, NULL,
                                     &with->data_chan);
    if (status == WEIR_OK)
        status = weir_memchan_create(with->packet_sem, with->peer_packet_mem, with->data_mem,
                                     with->packet_mem, &with->packet_chan);
    if (status != WEIR_OK)
        return status;
    with->data = weir_memchan_device(with->data_chan);
    with->packets = weir_memchan_device(with->packet_chan);
    with->own = weir_mem_pointer(with->data_mem);
    return WEIR_OK;
}

static inline void pair_close(pair *with)
{
    weir_memchan_free(with->packet_chan);
    weir_memchan_free(with->data_chan);
    weir_sem_free(with->packet_sem);
    weir_sem_free(with->data_sem);
    weir_mem_free(with->peer_packet_mem);
    weir_mem_free(with->peer_data_mem);
    weir_mem_free(with->packet_mem);
    weir_mem_free(with->data_mem);
    weir_conn_free(with->conn);
}

/* A barrier of both ends; each then reads what the other wrote before. */
static inline int pair_barrier(pair *with)
{
    weir_signal(with->data);
    return weir_wait(with->data);
}

static inline int all_are(const unsigned char *bytes, size_t count, int value)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != value)
            return 0;
    return 1;
}

/* Whether [offset, offset + bytes) of the second half holds the pattern, and
 * the 32 bytes before and after it canaries. */
static inline int arrived(const pair *with, size_t offset, size_t bytes, int rank, int round)
{
    const unsigned char *at = with->own + HALF_BYTES + offset;
    return boot_filled(at, bytes, rank, round) && all_are(at - 32, 32, CANARY) &&
           all_are(at + bytes, 32, CANARY);
}

/* ------------------------------------------------------------ put, get */

/* One transfer at the given offsets, by nthreads threads, here in sequence. */
static inline void pair_transfer(pair *with, size_t to, size_t from, size_t bytes, int pull,
                                 uint32_t nthreads)
{
    for (uint32_t tid = 0; tid < nthreads; tid++)
        if (pull)
            weir_get(with->data, HALF_BYTES + to, from, bytes, tid, nthreads);
        else
            weir_put(with->data, HALF_BYTES + to, from, bytes, tid, nthreads);
}

static inline void check_transfer(pair *with, size_t bytes, int pull, int round, int *failures)
{
    size_t to = 32 + bytes % 17, from = bytes % 13;
    memset(with->own + HALF_BYTES, CANARY, bytes + 128);
    boot_fill(with->own + from, bytes, with->rank, round);
    EXPECT_OK(failures, pair_barrier(with));
    pair_transfer(with, to, from, bytes, pull, round % 2 ? 3 : 1);
    EXPECT_OK(failures, pair_barrier(with));
    EXPECT(failures, arrived(with, to, bytes, with->peer, round));
    EXPECT_OK(failures, pair_barrier(with));
}

static inline void check_transfers(pair *with, int *failures)
{
    static const size_t large[] = {255, 4095, 4096, 65537, 100003};
    for (int round = 0; round < 4 && !*failures; round++) {
        for (size_t bytes = 0; bytes <= 70 && !*failures; bytes++)
            check_transfer(with, bytes, round / 2, round, failures);
        for (int i = 0; i < 5 && !*failures; i++)
            check_transfer(with, large[i], round / 2, round, failures);
    }
}

/* ------------------------------------------------------- signal, wait, poll */

static inline int poll_until_there(weir_memchan_dev *chan, int relaxed)
{
    double limit_s = now_s() + 10;
    while (now_s() < limit_s) {
        if (relaxed ? weir_poll_relaxed(chan) : weir_poll(chan))
            return 1;
        weir_relax();
    }
    return 0;
}

/* Signals are counted, on each channel for itself: nothing is there before the
 * peer signals, then exactly as many as it gave, of either kind. */
static inline void check_signals(pair *with, int *failures)
{
    weir_memchan_dev *chan = with->packets;
    EXPECT(failures, weir_poll(chan) == 0 && weir_poll_relaxed(chan) == 0);
    EXPECT_OK(failures, pair_barrier(with));
    weir_signal(chan);
    weir_signal_relaxed(chan);
    weir_signal_relaxed(chan);
    weir_signal(chan);
    EXPECT_OK(failures, weir_wait(chan));
    EXPECT(failures, poll_until_there(chan, 0) && poll_until_there(chan, 1));
    EXPECT_OK(failures, weir_wait(chan));
    EXPECT(failures, weir_poll(chan) == 0 && weir_poll_relaxed(chan) == 0);
    EXPECT_OK(failures, pair_barrier(with));
    EXPECT(failures, weir_poll(chan) == 0);
}

/* Counters go on and on; data that rides on them is never late. */
static inline void check_ping_pong(pair *with, int *failures)
{
    int rounds = with->rounds;
    const weir_sem_dev *sem = &with->data->sem;
    uint64_t sent = *sem->outbound, seen = *sem->expected;
    volatile int *mine = (volatile int *)(void *)with->own;
    int *theirs = (int *)(void *)with->data->remote, wrong = 0, status = WEIR_OK;
    for (int round = 0; round < rounds && status == WEIR_OK; round++) {
        if (with->rank < with->peer) {
            *theirs = round;
            weir_signal(with->data);
            status = weir_wait(with->data);
            wrong += *mine != ~round;
        } else {
            status = weir_wait(with->data);
            wrong += *mine != round;
            *theirs = ~round;
            weir_signal(with->data);
        }
    }
    EXPECT(failures, status == WEIR_OK && wrong == 0);
    EXPECT(failures, *sem->outbound == sent + (uint64_t)rounds);
    EXPECT(failures, *sem->expected == seen + (uint64_t)rounds);
}

/* A wait for what does not come ends at its deadline and consumes nothing. */
static inline void check_deadline(pair *with, int *failures)
{
    weir_memchan_dev hasty = *with->packets;
    uint64_t seen = *hasty.sem.expected;
    hasty.guard.timeout_ns = 20000000;
    double start_s = now_s();
    EXPECT(failures, weir_wait(&hasty) == WEIR_ERR_TIMEOUT);
    EXPECT(failures, now_s() - start_s >= 0.02 && now_s() - start_s < 10);
    EXPECT(failures, *hasty.sem.expected == seen);
    EXPECT_OK(failures, pair_barrier(with));
    weir_signal(with->packets);
    EXPECT_OK(failures, weir_wait(with->packets));
}

/* A new semaphore starts at zero, whatever its slot has seen: signals that
 * nobody consumed included. */
static inline void check_recycling(pair *with, int *failures)
{
    enum { ROUNDS = 10, SIGNALS = 3 };
    for (int round = 0; round < ROUNDS && !*failures; round++) {
        weir_sem *sem = NULL;
        weir_memchan *chan = NULL;
        EXPECT_OK(failures, weir_sem_create(with->conn, &sem));
        if (*failures)
            return;
        EXPECT_OK(failures,
                  weir_memchan_create(sem, with->peer_data_mem, with->data_mem, NULL, &chan));
        weir_memchan_dev *fresh = weir_memchan_device(chan);
        EXPECT(failures, *fresh->sem.outbound == 0 && *fresh->sem.expected == 0);
        EXPECT(failures, weir_poll(fresh) == 0);
        EXPECT_OK(failures, pair_barrier(with));
        for (int i = 0; i < SIGNALS; i++)
            weir_signal(fresh);
        EXPECT_OK(failures, weir_wait(fresh));
        EXPECT_OK(failures, pair_barrier(with));
        weir_memchan_free(chan);
        weir_sem_free(sem);
    }
}

/* ------------------------------------------------------------------ packets */

/* Sends [first, bytes) of the source's first bytes as packets of this epoch. */
static inline void packets_send(pair *with, size_t from, size_t first, size_t bytes,
                                uint32_t nthreads)
{
    for (uint32_t tid = 0; tid < nthreads; tid++)
        weir_put_packets(with->packets, weir_packet_bytes(first), from + first, bytes - first, tid,
                         nthreads, with->epoch);
}

static inline int packets_receive(pair *with, const weir_memchan_dev *how, size_t to, size_t bytes,
                                  uint32_t nthreads)
{
    weir_memchan_dev chan = *how;
    int status = WEIR_OK;
    for (uint32_t tid = 0; tid < nthreads && status == WEIR_OK; tid++)
        status = weir_get_packets(&chan, HALF_BYTES + to, 0, bytes, tid, nthreads, with->epoch);
    return status;
}

/* One length: arrives whole, and touches nothing around it, neither where it is
 * unpacked nor after the packets. */
static inline void check_packets_of(pair *with, size_t bytes, int *failures)
{
    size_t to = 32 + bytes % 5, from = bytes % 3;
    const unsigned char *after = weir_mem_pointer(with->packet_mem);
    memset(with->own + HALF_BYTES, CANARY, bytes + 128);
    boot_fill(with->own + from, bytes, with->rank, (int)bytes);
    memset(weir_mem_pointer(with->packet_mem), 0, PACKETS_BYTES);
    EXPECT_OK(failures, pair_barrier(with));
    with->epoch++;
    packets_send(with, from, 0, bytes, bytes % 2 ? 3 : 1);
    EXPECT_OK(failures, packets_receive(with, with->packets, to, bytes, bytes % 2 ? 1 : 3));
    EXPECT(failures, arrived(with, to, bytes, with->peer, (int)bytes));
    EXPECT_OK(failures, pair_barrier(with));
    EXPECT(failures, all_are(after + weir_packet_bytes(bytes), 64, 0));
    EXPECT_OK(failures, pair_barrier(with));
}

/* Packets of the epoch before, and a buffer that has all of this epoch but the
 * last one, are not taken for the whole. */
static inline void check_partial_packets(pair *with, int *failures)
{
    enum { BYTES = 40, ROUNDS = 3 };
    weir_memchan_dev hasty = *with->packets;
    hasty.guard.timeout_ns = 2000000;
    with->epoch = 1000;
    packets_send(with, 0, 0, BYTES, 1);
    EXPECT_OK(failures, packets_receive(with, with->packets, 32, BYTES, 1));
    for (int round = 0; round < ROUNDS && !*failures; round++) {
        EXPECT_OK(failures, pair_barrier(with));
        with->epoch++;
        memset(with->own + HALF_BYTES, CANARY, BYTES + 128);
        boot_fill(with->own, BYTES, with->rank, round);
        EXPECT(failures, packets_receive(with, &hasty, 32, BYTES, 1) == WEIR_ERR_TIMEOUT);
        EXPECT(failures, all_are(with->own + HALF_BYTES, BYTES + 128, CANARY));
        EXPECT_OK(failures, pair_barrier(with));
        packets_send(with, 0, 0, BYTES - 4, 1);
        EXPECT(failures, packets_receive(with, &hasty, 32, BYTES, 1) == WEIR_ERR_TIMEOUT);
        EXPECT(failures, all_are(with->own + HALF_BYTES + 32 + BYTES - 4, 4, CANARY));
        EXPECT_OK(failures, pair_barrier(with));
        packets_send(with, 0, BYTES - 4, BYTES, 1);
        EXPECT_OK(failures, packets_receive(with, with->packets, 32, BYTES, 1));
        EXPECT(failures, arrived(with, 32, BYTES, with->peer, round));
    }
    EXPECT_OK(failures, pair_barrier(with));
}

/* A new flag each time, in the same buffer, without a barrier in between: the answer shows that the
 * packets were read. */
static inline void check_packet_ping_pong(pair *with, int *failures)
{
    enum { ROUNDS = 500, BYTES = 22 };
    int first = with->rank < with->peer;
    for (int round = 0; round < ROUNDS && !*failures; round++) {
        with->epoch++;
        boot_fill(with->own, BYTES, with->rank, round);
        if (first)
            packets_send(with, 0, 0, BYTES, 1);
        EXPECT_OK(failures, packets_receive(with, with->packets, 64, BYTES, 1));
        EXPECT(failures, boot_filled(with->own + HALF_BYTES + 64, BYTES, with->peer, round));
        if (!first)
            packets_send(with, 0, 0, BYTES, 1);
    }
    EXPECT_OK(failures, pair_barrier(with));
}

static inline void check_packets(pair *with, int *failures)
{
    EXPECT(failures, weir_packet_bytes(0) == 0 && weir_packet_bytes(1) == 8 &&
                         weir_packet_bytes(4) == 8 && weir_packet_bytes(5) == 16);
    for (size_t bytes = 0; bytes <= 67 && !*failures; bytes++)
        check_packets_of(with, bytes, failures);
    check_packets_of(with, PACKETS_BYTES / 2 - 64 + 3, failures);
}

/* ----------------------------------------------------- packets of 128 bytes */

/* Whole messages of every length; a flag that is not there yet; a packet of the epoch
 * before. */
static inline void check_packets128_of(pair *with, size_t bytes, int *failures)
{
    size_t to = 32 + bytes % 5, from = bytes % 3;
    const unsigned char *after = weir_mem_pointer(with->packet_mem);
    weir_memchan_dev hasty = *with->packets;
    hasty.guard.timeout_ns = 1000000;
    memset(with->own + HALF_BYTES, CANARY, bytes + 128);
    boot_fill(with->own + from, bytes, with->rank, (int)bytes);
    memset(weir_mem_pointer(with->packet_mem), 0, PACKETS_BYTES);
    EXPECT_OK(failures, pair_barrier(with));
    with->epoch++;
    for (uint32_t tid = 0; tid < 2; tid++)
        weir_put_packets128(with->packets, 0, from, bytes, tid, 2, with->epoch);
    for (uint32_t tid = 0; tid < 3; tid++)
        EXPECT_OK(failures, weir_get_packets128(with->packets, HALF_BYTES + to, 0, bytes, tid, 3,
                                                with->epoch));
    EXPECT(failures, arrived(with, to, bytes, with->peer, (int)bytes));
    EXPECT(failures, !bytes || weir_get_packets128(&hasty, HALF_BYTES + to, 0, bytes, 0, 1,
                                                   with->epoch + 1u) == WEIR_ERR_TIMEOUT);
    EXPECT_OK(failures, pair_barrier(with));
    EXPECT(failures, all_are(after + weir_packet128_bytes(bytes), 128, 0));
    EXPECT_OK(failures, pair_barrier(with));
}

static inline void check_packets128(pair *with, int *failures)
{
    EXPECT(failures, weir_packet128_bytes(0) == 0 && weir_packet128_bytes(1) == 128 &&
                         weir_packet128_bytes(120) == 128 && weir_packet128_bytes(121) == 256);
    for (size_t bytes = 0; bytes <= 500 && !*failures; bytes += bytes < 20 ? 1 : 20)
        check_packets128_of(with, bytes, failures);
}

static inline void check_barrier(pair *with, int *failures)
{
    weir_memchan_dev *chans[] = {with->data, with->packets};
    for (int round = 0; round < 50 && !*failures; round++) {
        boot_fill(with->own, 64, with->rank, round);
        weir_put(with->data, HALF_BYTES, 0, 64, 0, 1);
        EXPECT_OK(failures, weir_barrier(chans, 2, 0, 1));
        EXPECT(failures, boot_filled(with->own + HALF_BYTES, 64, with->peer, round));
        EXPECT_OK(failures, weir_barrier(chans, 2, 0, 1));
    }
}

/* --------------------------------------------------------------------- all */

static inline void pair_conformance(pair *with, weir_transport transport, int *failures)
{
    static void (*const checks[])(pair * with, int *failures) = {
        check_transfers,  check_signals, check_ping_pong,       check_deadline,
        check_recycling,  check_packets, check_partial_packets, check_packet_ping_pong,
        check_packets128, check_barrier};
    weir_status status = pair_open(with, transport);
    EXPECT(failures, status == WEIR_OK);
    if (status != WEIR_OK)
        return;
    EXPECT(failures, weir_conn_peer(with->conn) == with->peer);
    EXPECT(failures,
           transport == WEIR_TRANSPORT_AUTO || weir_conn_transport(with->conn) == transport);
    EXPECT(failures, weir_conn_transport(with->conn) != WEIR_TRANSPORT_AUTO);
    for (size_t i = 0; i < sizeof checks / sizeof *checks && !*failures; i++)
        checks[i](with, failures);
    if (!*failures)
        EXPECT_OK(failures, pair_barrier(with));
    pair_close(with);
}

/* Every pair of ranks, with so many rounds of ping-pong each. A rank takes its
 * peers in ascending order, so no cycle of ranks waits for one another. */
static inline int channel_conformance(weir_comm *comm, weir_transport transport, int rounds)
{
    int failures = 0;
    for (int peer = 0; peer < weir_comm_nranks(comm) && !failures; peer++) {
        pair with = {.comm = comm, .rank = weir_comm_rank(comm), .peer = peer, .rounds = rounds};
        if (peer != with.rank)
            pair_conformance(&with, transport, &failures);
    }
    if (failures)
        weir_comm_abort(comm); /* so that the peer does not wait for this rank */
    return failures;
}

#endif
