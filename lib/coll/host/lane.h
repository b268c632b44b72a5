/*
 * Lanes: short messages to all ranks, one per epoch, in a buffer of WEIRI_LANE_DEPTH messages, so
 * that a sender may be that many epochs ahead of its slowest reader. In collectives whose data flow
 * in one direction (broadcast, reduce) ranks that share a core then need not be scheduled once for
 * every call.
 */
#ifndef WEIR_COLL_HOST_LANE_H
#define WEIR_COLL_HOST_LANE_H

#include "coll/coll.h"

#include <string.h>

static inline weiri_lane *weiri_lane_of(const weiri_coll *coll, int rank)
{
    return &coll->areas[rank].lane[coll->epoch % WEIRI_LANE_DEPTH];
}

/* Begins an epoch and sends bytes (at most WEIRI_LANE_BYTES) to all ranks. */
static inline weir_status weiri_lane_send(weiri_coll *coll, const void *from, size_t bytes)
{
    weir_status status = weiri_coll_begin_ahead(coll, WEIRI_LANE_DEPTH, WEIRI_LANE_DEPTH / 2);
    if (WEIRI_UNLIKELY(status != WEIR_OK))
        return status;
    weiri_lane *lane = weiri_lane_of(coll, coll->rank);
    memcpy(lane->data, from, bytes);
    weiri_flag_publish(coll, &lane->flag, coll->epoch);
    return WEIR_OK;
}

/* Waits for rank's message of the current epoch. A receiver begins the epoch by incrementing
 * coll->epoch. *data is valid until weiri_coll_end. */
static inline weir_status weiri_lane_await(weiri_coll *coll, int rank, const char *phase,
                                           const char **data)
{
    const weiri_lane *lane = weiri_lane_of(coll, rank);
    *data = lane->data;
    return weiri_flag_await(coll, &lane->flag, coll->epoch, rank, phase);
}

/* Requests the lines of rank's next message, which may be as long as this one. */
static inline void weiri_lane_request_next(const weiri_coll *coll, int rank, size_t bytes)
{
    const weiri_lane *next = &coll->areas[rank].lane[(coll->epoch + 1) % WEIRI_LANE_DEPTH];
    for (size_t at = 0; at < sizeof next->flag + bytes; at += WEIR_LINE_BYTES)
        __builtin_prefetch((const char *)next + at);
}

/* weiri_lane_await for one of many messages of so many bytes. If this one is there already, the
 * next ones probably are, too. */
static inline weir_status weiri_lane_follow(weiri_coll *coll, int rank, size_t bytes,
                                            const char *phase, const char **data)
{
    const int is_there = weir_load_acquire(&weiri_lane_of(coll, rank)->flag.value) >= coll->epoch;
    weir_status status = weiri_lane_await(coll, rank, phase, data);
    if (is_there)
        weiri_lane_request_next(coll, rank, bytes);
    return status;
}

#endif
