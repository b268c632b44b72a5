/*
 * Plain memory of a peer: not mapped here, but where the system allows it the
 * kernel copies from it (process_vm_readv). Whether all ranks may read each
 * other is tried out when the communicator is created.
 */
#ifndef WEIR_COMM_NODE_PEER_COPY_H
#define WEIR_COMM_NODE_PEER_COPY_H

#include "comm/comm.h"

/* Whether this process can read the word at address of another, which holds
 * expected. Local. */
int weiri_plain_probe(int pid, uint64_t address, uint64_t expected);

/* A buffer for peers that only read it: a region's, else plain memory at its
 * address if ranks may read that, else generation 0. */
static inline weiri_desc weiri_plain_describe(const weir_comm *comm, const void *pointer,
                                              size_t bytes)
{
    weiri_desc desc = weiri_region_describe(comm, pointer, bytes);
    if (desc.generation == 0 && comm->reads_plain)
        desc = (weiri_desc){0, WEIRI_GENERATION_PLAIN, (uint64_t)(uintptr_t)pointer};
    return desc;
}

/* Copies bytes of rank's plain memory. WEIR_ERR_PEER if it is gone. */
weir_status weiri_plain_read(const weir_comm *comm, int rank, weiri_desc desc, void *to,
                             size_t bytes);

#endif
