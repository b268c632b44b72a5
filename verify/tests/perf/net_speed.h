/*
 * Measures a network transport between two ranks: a stream of puts in one direction, and a
 * ping-pong of a put with a signal. net_speed() is called by both ranks; rank 0 prints a table on
 * standard output: bytes of a put, 1e9 bytes a second of the stream, microseconds one way of the
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

/* Separate memory: destinations of outstanding puts do not overlap, and all come from one
 * place, as iperf3's do. */
typedef struct speed_room {
    unsigned char *bytes;
    weiri_net_mem *mem;
    weiri_net_key keys[NET_RANKS];
} speed_room;

/* Progresses until the value at word is at least so high; sleeps when nothing moved for
 * some ten microseconds. */
static inline weir_status speed_await(net_side *side, const uint64_t *word, uint64_t value)
{
    weir_status status = WEIR_OK;
    for (int idle = 0; weir_load_acquire(word) < value && status == WEIR_OK; idle++) {
        int moved;
        status = net_move(side, &moved);
        if (moved)
            idle = 0;
        else if (idle > SPEED_PASSES)
            net_sleep(side);
    }
    return status;
}

static inline weir_status speed_put(net_side *side, const speed_room *room, size_t bytes,
                                    uint64_t slot)
{
    uint64_t at = slot * bytes;
    weiri_net_lock(side->net);
    weir_status status = side->ops->put(side->ends[1], room->mem, 0, &room->keys[1], at, bytes);
    weiri_net_unlock(side->net);
    return status;
}

/* Rank 0 keeps a window of puts under way for a second. */
static inline weir_status speed_stream(net_side *side, const speed_room *room, size_t bytes,
                                       uint64_t *ended, double *gbs)
{
    const double seconds = 1;
    weiri_endpoint *end = side->ends[1 - side->rank];
    weir_status status = WEIR_OK;
    ++*ended;
    if (side->rank == 1)
        return speed_await(side, net_word(side, 0, 1), *ended);
    uint64_t window = SPEED_WINDOW_BYTES / bytes, begun = end->posted;
    window = window > 1024 ? 1024 : window < 2 ? 2 : window;
    double start_s = now_s();
    while (now_s() - start_s < seconds && status == WEIR_OK) {
        while (status == WEIR_OK && end->posted < end->completed + window)
            status = speed_put(side, room, bytes, end->posted % (window + 1));
        if (status == WEIR_OK)
            status = speed_await(side, &end->completed, end->completed + 1);
    }
    if (status == WEIR_OK)
        status = speed_await(side, &end->completed, end->posted);
    *gbs = (double)(end->posted - begun) * (double)bytes / (now_s() - start_s) * 1e-9;
    return status == WEIR_OK ? net_signal(side, end, 1, *ended) : status;
}

static inline int speed_earlier(const void *a, const void *b)
{
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

static inline weir_status speed_ping_pong(net_side *side, size_t bytes, uint64_t *rounds,
                                          double *one_way_us)
{
    static double trips[SPEED_TRIPS];
    const int peer = 1 - side->rank;
    const uint64_t *word = net_word(side, peer, 0);
    weir_status status = WEIR_OK;
    for (int trip = 0; trip < SPEED_TRIPS && status == WEIR_OK; trip++) {
        double start_s = now_s();
        ++*rounds;
        if (side->rank == 1)
            status = speed_await(side, word, *rounds);
        if (status == WEIR_OK)
            status = net_put(side, peer, 0, 0, bytes);
        if (status == WEIR_OK)
            status = net_signal(side, side->ends[peer], 0, *rounds);
        if (status == WEIR_OK && side->rank == 0)
            status = speed_await(side, word, *rounds);
        trips[trip] = (now_s() - start_s) * 1e6;
    }
    qsort(trips, SPEED_TRIPS, sizeof *trips, speed_earlier);
    *one_way_us = trips[SPEED_TRIPS / 2] / 2;
    return status;
}

static inline void net_measure(net_side *side, int *failures)
{
    static const size_t sizes[] = {8, 1024, 8192, 65536, 262144, 1 << 20, 4 << 20};
    uint64_t ended = 0;
    speed_room room = {.bytes = malloc(SPEED_ROOM_BYTES)};
    memset(room.bytes, 1, SPEED_ROOM_BYTES);
    room.mem = net_share(side, room.bytes, SPEED_ROOM_BYTES, room.keys, failures);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !*failures; i++) {
        double gbs = 0, one_way_us = 0;
        EXPECT_OK(failures, net_barrier(side));
        EXPECT_OK(failures, speed_stream(side, &room, sizes[i], &ended, &gbs));
        EXPECT_OK(failures, speed_ping_pong(side, sizes[i], &side->epoch, &one_way_us));
        if (side->rank == 0)
            printf("%10zu B  %7.3f GB/s  %9.2f us\n", sizes[i], gbs, one_way_us);
    }
    EXPECT_OK(failures, net_barrier(side));
    weir_boot_barrier(side->boot);
    if (room.mem)
        side->ops->mem_deregister(room.mem);
    free(room.bytes);
}

static inline int net_speed(weir_boot *boot, weir_transport transport)
{
    return net_run(boot, transport, NET_TIMEOUT_MS, net_measure);
}

#endif
