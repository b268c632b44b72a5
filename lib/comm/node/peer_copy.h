/*
 * Unregistered memory of a peer: it cannot be mapped, but the kernel copies from it and to it
 * (process_vm_readv, process_vm_writev) where the system permits both. The ranks test that when the
 * communicator is created.
 */
#ifndef WEIR_COMM_NODE_PEER_COPY_H
#define WEIR_COMM_NODE_PEER_COPY_H

#include "comm/comm.h"

/* Returns 1 if this process can read the word at address in another process, whose value is
 * expected, and may call process_vm_writev. Local. */
int weiri_peer_copy_probe(int pid, uint64_t address, uint64_t expected);

/* Returns the descriptor of unregistered memory if ranks may read and write that, else
 * generation 0. */
static inline weiri_desc weiri_peer_copy_describe(const weir_comm *comm, const void *pointer)
{
    if (!comm->reads_unregistered)
        return (weiri_desc){0, 0, 0};
    return (weiri_desc){0, WEIRI_GENERATION_UNREGISTERED, (uint64_t)(uintptr_t)pointer};
}

/* Copy bytes from or to a rank's unregistered memory at an address of its process. If that fails,
 * the communicator is aborted: because of the rank whose memory cannot be accessed, which may be
 * this one, or whose process has ended. */
weir_status weiri_peer_copy_read(weir_comm *comm, int rank, uint64_t address, void *to,
                                 size_t bytes);
weir_status weiri_peer_copy_write(weir_comm *comm, int rank, uint64_t address, const void *from,
                                  size_t bytes);

/* Writes into a process whose id the caller knows. The ranks are for the error line.
 * WEIR_ERR_INVALID if memory of either rank cannot be accessed; WEIR_ERR_PEER if the process has
 * ended; WEIR_ERR_SYSTEM. */
weir_status weiri_peer_copy_to_process(int own_rank, int rank, int pid, uint64_t address,
                                       const void *from, size_t bytes);

#endif
