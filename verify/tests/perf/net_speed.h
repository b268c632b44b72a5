/*
 * How fast a wire is between two ranks: a stream of puts one way, and a put with a signal
 * to and fro. net_speed() is called by both ranks; rank 0 prints a table on standard
 * output: bytes of a put, 1e9 bytes a second of the stream, microseconds one way of the
 * ping-pong (the median of its round trips, halved).
 */
#ifndef VERIFY_TESTS_PERF_NET_SPEED_H
#define VERIFY_TESTS_PERF_NET_SPEED_H

#include "verify/tests/conformance/net_conformance.h"

enum {
    SPEED_WINDOW_BYTES = 4 << 20,
    SPEED_ROOM_BYTES = 12 << 20,
    SPEED_TRIPS = 400,
    SPEED_PASSES = 50,
};

/* Memory of its own: puts under way do not overlap where they go, and all come from one
 * place, as iperf3's do. */
typedef struct speed_room {
    unsigned char *bytes;
    weiri_net_mem *mem;
    weiri_net_key keys[NET_RANKS];
} speed_room;

/* Progresses until the value at word is at least so high; sleeps when nothing moved for
 * some ten microseconds. */
static inline weir_status speed_await(net_party *party, const uint64_t *word, uint64_t value)
{
    weir_status status = WEIR_OK;
    for (int idle = 0; weir_load_acquire(word) < value && status == WEIR_OK; idle++) {
        int moved;
        status = net_move(party, &moved);
        if (moved)
            idle = 0;
        else if (idle > SPEED_PASSES)
            net_sleep(party);
    }
    return status;
}

static inline weir_status speed_put(net_party *party, const speed_room *room, size_t bytes,
                                    uint64_t slot)
{
    uint64_t at = slot * bytes;
    weiri_net_lock(party->net);
    weir_status status = party->ops->put(party->ends[1], room->mem, 0, &room->keys[1], at, bytes);
    weiri_net_unlock(party->net);
    return status;
}

/* Rank 0 keeps a window of puts under way for a second. */
static inline weir_status speed_stream(net_party *party, const speed_room *room, size_t bytes,
                                       uint64_t *ended, double *gbs)
{
    const double seconds = 1;
    weiri_endpoint *end = party->ends[1 - party->rank];
    weir_status status = WEIR_OK;
    ++*ended;
    if (party->rank == 1)
        return speed_await(party, net_word(party, 0, 1), *ended);
    uint64_t window = SPEED_WINDOW_BYTES / bytes, begun = end->posted;
    window = window > 1024 ? 1024 : window < 2 ? 2 : window;
    double start_s = now_s();
    while (now_s() - start_s < seconds && status == WEIR_OK) {
        while (status == WEIR_OK && end->posted < end->completed + window)
            status = speed_put(party, room, bytes, end->posted % (window + 1));
        if (status == WEIR_OK)
            status = speed_await(party, &end->completed, end->completed + 1);
    }
    if (status == WEIR_OK)
        status = speed_await(party, &end->completed, end->posted);
    *gbs = (double)(end->posted - begun) * (double)bytes / (now_s() - start_s) * 1e-9;
    return status == WEIR_OK ? net_signal(party, end, 1, *ended) : status;
}

static inline int speed_earlier(const void *a, const void *b)
{
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

static inline weir_status speed_ping_pong(net_party *party, size_t bytes, uint64_t *rounds,
                                          double *one_way_us)
{
    static double trips[SPEED_TRIPS];
    const int peer = 1 - party->rank;
    const uint64_t *word = net_word(party, peer, 0);
    weir_status status = WEIR_OK;
    for (int trip = 0; trip < SPEED_TRIPS && status == WEIR_OK; trip++) {
        double start_s = now_s();
        ++*rounds;
        if (party->rank == 1)
            status = speed_await(party, word, *rounds);
        if (status == WEIR_OK)
            status = net_put(party, peer, 0, 0, bytes);
        if (status == WEIR_OK)
            status = net_signal(party, party->ends[peer], 0, *rounds);
        if (status == WEIR_OK && party->rank == 0)
            status = speed_await(party, word, *rounds);
        trips[trip] = (now_s() - start_s) * 1e6;
    }
    qsort(trips, SPEED_TRIPS, sizeof *trips, speed_earlier);
    *one_way_us = trips[SPEED_TRIPS / 2] / 2;
    return status;
}

static inline int net_speed(weir_boot *boot, weir_transport transport)
{
    static const size_t sizes[] = {8, 1024, 8192, 65536, 262144, 1 << 20, 4 << 20};
    int failures = 0;
    uint64_t ended = 0;
    net_party party;
    speed_room room = {.bytes = NULL};
    if (!net_party_open(&party, boot, transport, NET_TIMEOUT_MS, &failures)) {
        net_party_close(&party);
        return failures ? failures : NO_NET;
    }
    room.bytes = malloc(SPEED_ROOM_BYTES);
    memset(room.bytes, 1, SPEED_ROOM_BYTES);
    room.mem = net_share(&party, room.bytes, SPEED_ROOM_BYTES, room.keys, &failures);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !failures; i++) {
        double gbs = 0, one_way_us = 0;
        EXPECT_OK(&failures, net_barrier(&party));
        EXPECT_OK(&failures, speed_stream(&party, &room, sizes[i], &ended, &gbs));
        EXPECT_OK(&failures, speed_ping_pong(&party, sizes[i], &party.epoch, &one_way_us));
        if (party.rank == 0)
            printf("%10zu B  %7.3f GB/s  %9.2f us\n", sizes[i], gbs, one_way_us);
    }
    EXPECT_OK(&failures, net_barrier(&party));
    weir_boot_barrier(boot);
    if (room.mem)
        party.ops->mem_deregister(room.mem);
    net_party_close(&party);
    free(room.bytes);
    return failures;
}

#endif
