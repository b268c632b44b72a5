/* Copies from and to a peer's address space with process_vm_readv and process_vm_writev. */
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
    if (process_vm_readv(pid, &here, 1, &there, 1, 0) != (ssize_t)sizeof seen || seen != expected)
        return 0;
    here.iov_len = there.iov_len = 0; /* a filter of system calls may forbid writing only */
    return process_vm_writev(pid, &here, 1, &there, 1, 0) == 0;
}

typedef ssize_t (*peer_copy_call)(pid_t pid, const struct iovec *here, unsigned long nhere,
                                  const struct iovec *there, unsigned long nthere,
                                  unsigned long flags);

/* The two ends of a copy, for the call and for its error line. */
typedef struct peer_copy_ends {
    int own_rank, rank, pid; /* the last two: the peer's */
} peer_copy_ends;

static weir_status peer_copy(const peer_copy_ends *ends, uint64_t address, void *own, size_t bytes,
                             peer_copy_call call, const char *what)
{
    for (size_t done = 0; done < bytes;) {
        size_t length = bytes - done < LONGEST_BYTES ? bytes - done : LONGEST_BYTES;
        struct iovec here = {.iov_base = (char *)own + done, .iov_len = length};
        struct iovec there = {.iov_base = (void *)(uintptr_t)(address + done), .iov_len = length};
        ssize_t copied = call(ends->pid, &here, 1, &there, 1, 0);
        if (copied < 0 && errno == EINTR)
            continue;
        if (copied <= 0)
            return weiri_fail_errno(WEIR_ERR_PEER, copied < 0 ? errno : EFAULT,
                                    "rank %d cannot %s %zu bytes of rank %d's memory",
                                    ends->own_rank, what, length, ends->rank);
        done += (size_t)copied;
    }
    return WEIR_OK;
}

weir_status weiri_peer_copy_read(const weir_comm *comm, int rank, uint64_t address, void *to,
                                 size_t bytes)
{
    const peer_copy_ends ends = {comm->rank, rank, comm->peers[rank].pid};
    return peer_copy(&ends, address, to, bytes, process_vm_readv, "read");
}

weir_status weiri_peer_copy_write(const weir_comm *comm, int rank, uint64_t address,
                                  const void *from, size_t bytes)
{
    return weiri_peer_copy_to_process(comm->rank, rank, comm->peers[rank].pid, address, from,
                                      bytes);
}

weir_status weiri_peer_copy_to_process(int own_rank, int rank, int pid, uint64_t address,
                                       const void *from, size_t bytes)
{
    const peer_copy_ends ends = {own_rank, rank, pid};
    return peer_copy(&ends, address, (void *)(uintptr_t)from, bytes, process_vm_writev, "write");
}
