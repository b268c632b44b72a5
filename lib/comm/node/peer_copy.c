/* Copies from and to a peer's address space with process_vm_readv and process_vm_writev. */
#define _GNU_SOURCE
#include "comm/node/peer_copy.h"

#include "base/error.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

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

/* Whether this process can access its byte at `at`: the kernel reads it, and stores it again if it
 * is to be written. */
static int own_byte_is_there(char *at, int is_written)
{
    char kept;
    struct iovec here = {.iov_base = is_written ? at : &kept, .iov_len = 1};
    struct iovec there = {.iov_base = at, .iov_len = 1};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1;
}

/* A copy stopped at this place for EFAULT: whether it is this process's memory that cannot be
 * accessed. The kernel may stop some bytes before the first that it cannot access. */
static int own_is_missing(char *own, size_t bytes, int is_written)
{
    enum { NEAR_BYTES = 64 };
    return !own_byte_is_there(own, is_written) ||
           !own_byte_is_there(own + (bytes < NEAR_BYTES ? bytes : NEAR_BYTES) - 1, is_written);
}

/* Returns 0 or an errno; EFAULT sets *is_own if the memory of this process is the reason. */
static int peer_copy(int pid, uint64_t address, void *own, size_t bytes, peer_copy_call call,
                     int *is_own)
{
    for (size_t done = 0; done < bytes;) {
        size_t length = bytes - done < LONGEST_BYTES ? bytes - done : LONGEST_BYTES;
        struct iovec here = {.iov_base = (char *)own + done, .iov_len = length};
        struct iovec there = {.iov_base = (void *)(uintptr_t)(address + done), .iov_len = length};
        ssize_t copied = call(pid, &here, 1, &there, 1, 0);
        if (copied > 0) {
            done += (size_t)copied;
            continue;
        }
        const int error = copied < 0 ? errno : EFAULT;
        if (error == EINTR)
            continue;
        *is_own =
            error == EFAULT && own_is_missing((char *)own + done, length, call == process_vm_readv);
        return error;
    }
    return 0;
}

/* Ends a copy that failed. A rank whose call was aborted, or has ended, may have freed its buffer:
 * then that is the reason. */
static weir_status peer_copy_fail(weir_comm *comm, int rank, int error, int is_own)
{
    const uint64_t never = 0;
    const int is_over =
        weiri_comm_is_aborted(comm) || weir_load_acquire(&comm->peers[rank].page->abort.value) != 0;
    if (error == EFAULT && !is_over)
        return weiri_comm_abort_for_buffer(comm, is_own ? comm->rank : rank);
    if (error == EFAULT || error == ESRCH)
        return weiri_comm_wait_slow(comm, &never, 1, rank, "copies of a buffer");
    weiri_fail_errno(WEIR_ERR_SYSTEM, error, "rank %d cannot copy from or to rank %d's memory",
                     weiri_comm_parent_rank(comm, comm->rank), weiri_comm_parent_rank(comm, rank));
    return weiri_comm_give_up(comm, WEIR_ERR_SYSTEM);
}

weir_status weiri_peer_copy_read(weir_comm *comm, int rank, uint64_t address, void *to,
                                 size_t bytes)
{
    int is_own = 0;
    const int error =
        peer_copy(comm->peers[rank].pid, address, to, bytes, process_vm_readv, &is_own);
    return error ? peer_copy_fail(comm, rank, error, is_own) : WEIR_OK;
}

weir_status weiri_peer_copy_write(weir_comm *comm, int rank, uint64_t address, const void *from,
                                  size_t bytes)
{
    int is_own = 0;
    const int error = peer_copy(comm->peers[rank].pid, address, (void *)(uintptr_t)from, bytes,
                                process_vm_writev, &is_own);
    return error ? peer_copy_fail(comm, rank, error, is_own) : WEIR_OK;
}

weir_status weiri_peer_copy_to_process(int own_rank, int rank, int pid, uint64_t address,
                                       const void *from, size_t bytes)
{
    int is_own = 0;
    const int error =
        peer_copy(pid, address, (void *)(uintptr_t)from, bytes, process_vm_writev, &is_own);
    if (!error)
        return WEIR_OK;
    if (error == EFAULT)
        return weiri_fail(WEIR_ERR_INVALID,
                          "rank %d cannot write %zu bytes into rank %d's memory: not all of rank "
                          "%d's is mapped and permits the access",
                          own_rank, bytes, rank, is_own ? own_rank : rank);
    return weiri_fail_errno(error == ESRCH ? WEIR_ERR_PEER : WEIR_ERR_SYSTEM, error,
                            "rank %d cannot write %zu bytes into rank %d's memory", own_rank, bytes,
                            rank);
}
