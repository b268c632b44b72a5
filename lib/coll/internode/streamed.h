/*
 * Calls between nodes on GPU buffers, ordered by a stream: the caller's side (streamed.c), and the
 * lanes (stager.c).
 */
#ifndef WEIR_COLL_INTERNODE_STREAMED_H
#define WEIR_COLL_INTERNODE_STREAMED_H

#include "coll/coll.h"
#include "coll/internode/stager.h"

/* Allocates the memory of the lanes, and starts their threads; coll->stager_close undoes that after
 * waiting until the GPU is idle. Local. */
weir_status weiri_stager_open(weiri_coll *coll, weiri_stager **stager);

/* What all launches of a communicator have in common, and device memory for 4 * nranks counts. */
const weiri_stager_args *weiri_stager_common(const weiri_stager *stager);
uint64_t *weiri_stager_counts(const weiri_stager *stager);

/* Tells the lanes that a launch follows, or, if it is captured, that there will be any number of
 * them. Local. */
void weiri_stager_expect(weiri_stager *stager, int is_captured);

/* Enqueues a call. The communicator has lanes, and every node one rank. Local. */
weir_status weiri_streamed_run(weiri_coll *coll, const weiri_task *task);

#endif
