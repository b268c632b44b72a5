/*
 * Pinned host memory through which sends and receives between nodes pass the data of GPU buffers.
 * It is allocated when a call first needs it, and kept with the collectives' state.
 */
#ifndef WEIR_COLL_INTERNODE_GPU_STAGING_H
#define WEIR_COLL_INTERNODE_GPU_STAGING_H

#include "coll/coll.h"

enum { WEIRI_GPU_STAGING_IN, WEIRI_GPU_STAGING_OUT, WEIRI_GPU_STAGING_COUNT };

/* *base becomes a host staging buffer of at least so many bytes. The library owns it, and the next
 * caller that requests the same one gets it too. Local. May allocate and pin memory, which blocks
 * until kernels have ended; so none that waits for a peer may be running. */
weir_status weiri_gpu_staging_host(weiri_coll *coll, int which, size_t bytes, char **base);

/* Frees everything; to be called while the sub-communicators still exist. */
void weiri_gpu_staging_destroy(weiri_coll *coll);

#endif
