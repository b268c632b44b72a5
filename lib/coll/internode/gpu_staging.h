/*
 * Memory through which calls between nodes pass the data of GPU buffers; between nodes the host
 * moves them. It is allocated when a call first needs it, and kept with the collectives' state:
 *
 *   host staging    pinned host memory of this rank, one buffer for inputs and one for outputs
 *   window          the memory of the network messages (comm/internode/internode.h); pinned, so
 *                   that copies between it and the GPU run asynchronously
 *   device staging  GPU memory that the GPUs of the node map, as long as a message: phases within
 *                   the node leave here what is to be sent, and find here what has arrived
 */
#ifndef WEIR_COLL_INTERNODE_GPU_STAGING_H
#define WEIR_COLL_INTERNODE_GPU_STAGING_H

#include "coll/coll.h"

enum { WEIRI_GPU_STAGING_IN, WEIRI_GPU_STAGING_OUT, WEIRI_GPU_STAGING_COUNT };

/* *base becomes a host staging buffer of at least so many bytes. The library owns it, and the next
 * caller that requests the same one gets it too. Local. May allocate and pin memory, which blocks
 * until kernels have ended; so none that waits for a peer may be running. */
weir_status weiri_gpu_staging_host(weiri_coll *coll, int which, size_t bytes, char **base);

/* Pins the window; *buffer becomes the device staging buffer. Local; restrictions as above. */
weir_status weiri_gpu_staging_device(weiri_coll *coll, char **buffer);

/* Frees everything; to be called while the sub-communicators still exist. */
void weiri_gpu_staging_destroy(weiri_coll *coll);

#endif
