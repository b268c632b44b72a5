/* Copies from a peer's address space with process_vm_readv. */
#define _GNU_SOURCE
#include "comm/node/peer_copy.h"

#include "base/error.h"

#include <errno.h>
#include <sys/uio.h>

enum { LONGEST_BYTES = 1 << 30 }; /* of one system call */

int weiri_peer_copy_probe(int pid, uint64_t address, uint64_t expected)
{
    uint64_t seen = ~expected;
    struct iovec here = {.iov_base = &seen, .iov_len = sizeof seen};
    struct iovec there = {.iov_base = (void *)(uintptr_t)address, .iov_len = sizeof seen};
    return process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)sizeof seen &&
           seen == expected;
}

weir_status weiri_peer_copy_read(const weir_comm *comm, int rank, weiri_desc desc, void *to,
                             size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        size_t length = bytes - done < LONGEST_BYTES ? bytes - done : LONGEST_BYTES;
        struct iovec here = {.iov_base = (char *)to + done, .iov_len = length};
        struct iovec there = {.iov_base = (void *)(uintptr_t)(desc.offset + done),
                              .iov_len = length};
        ssize_t copied = process_vm_readv(comm->peers[rank].pid, &here, 1, &there, 1, 0);
        if (copied < 0 && errno == EINTR)
            continue;
        if (copied <= 0)
            return weiri_fail_errno(WEIR_ERR_PEER, copied < 0 ? errno : EFAULT,
                                    "rank %d cannot read %zu bytes of rank %d's memory", comm->rank,
                                    length, rank);
        done += (size_t)copied;
    }
    return WEIR_OK;
}
