/*
 * Lanes: short messages, one an epoch, that may run WEIRI_LANE_DEPTH epochs
 * ahead of their slowest reader. Collectives in which data flows one way
 * (broadcast, reduce) then need no turn of every rank for every call, which is
 * what counts where ranks share cores.
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
    weir_store_release(&lane->flag, coll->epoch);
    return WEIR_OK;
}

/* Waits for rank's message of the current epoch, which its receiver has begun
 * by counting it. data stays valid until weiri_coll_end. */
static inline weir_status weiri_lane_await(weiri_coll *coll, int rank, const char *phase,
                                           const char **data)
{
    const weiri_lane *lane = weiri_lane_of(coll, rank);
    *data = lane->data;
    return weiri_comm_wait(coll->comm, &lane->flag, coll->epoch, rank, phase);
}

#endif
