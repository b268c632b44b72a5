/*
 * One-sided calls among the ranks of a node in memory of the process, which the calling thread
 * executes: it copies into the peer's window where that is mapped, or through the kernel.
 */
#define _GNU_SOURCE /* process_vm_writev */
#include "nccl/rma.h"

#include "base/error.h"
#include "compute/copy.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

/* Copies into unregistered memory of a peer. */
static weir_status rma_copy_to_process(const weiri_nccl_comm *comm, int rank, int pid,
                                       uint64_t address, const char *from, size_t bytes)
{
    enum { LONGEST_BYTES = 1 << 30 }; /* of one system call */
    for (size_t done = 0; done < bytes;) {
        const size_t length = bytes - done < LONGEST_BYTES ? bytes - done : LONGEST_BYTES;
        struct iovec here = {.iov_base = (void *)(uintptr_t)(from + done), .iov_len = length};
        struct iovec there = {.iov_base = (void *)(uintptr_t)(address + done), .iov_len = length};
        const ssize_t copied = process_vm_writev(pid, &here, 1, &there, 1, 0);
        if (copied < 0 && errno == EINTR)
            continue;
        if (copied <= 0)
            return weiri_fail_errno(WEIR_ERR_PEER, copied < 0 ? errno : EFAULT,
                                    "rank %d cannot write %zu bytes into rank %d's window",
                                    comm->rank, length, rank);
        done += (size_t)copied;
    }
    return WEIR_OK;
}

weir_status weiri_rma_put_on_host(weiri_nccl_comm *comm, const weiri_nccl_onesided *call,
                                  const weiri_window_peer *to)
{
    if (!call->bytes)
        return WEIR_OK;
    if (to->path == WEIRI_RMA_BY_COPY)
        return rma_copy_to_process(comm, call->peer, to->pid, to->address + call->offset,
                                   call->from, call->bytes);
    char *there = to->mapped + call->offset;
    if (call->peer == comm->rank)
        memmove(there, call->from, call->bytes);
    else
        weiri_copy(there, call->from, call->bytes);
    return WEIR_OK;
}

void weiri_rma_signal_on_host(const weiri_nccl_comm *comm, int peer, int index)
{
    const weiri_nccl_rma *rma = comm->rma;
    const int place = weiri_comm_node_rank(comm->comm, peer);
    uint64_t *sent = weiri_rma_word(rma, rma->place, WEIRI_RMA_SENT, place, index);
    weir_store_release(weiri_rma_word(rma, place, WEIRI_RMA_ARRIVED, rma->place, index), ++*sent);
}

weir_status weiri_rma_await(const weiri_nccl_comm *comm, const uint64_t *word, uint64_t target,
                            int rank)
{
    weir_comm *host = comm->comm->host_comm ? comm->comm->host_comm : comm->comm;
    weiri_waiter waiter = {.is_for_one = 1};
    while (weir_load_acquire(word) < target) {
        weir_status status =
            weiri_comm_idle_for(host, &waiter, word, target, rank, "wait for signals");
        if (status != WEIR_OK)
            return status;
    }
    weiri_comm_idle_end(host, &waiter);
    return WEIR_OK;
}

weir_status weiri_rma_wait_on_host(weiri_nccl_comm *comm, const weiri_onesided_wait *wait)
{
    const weiri_nccl_rma *rma = comm->rma;
    const int place = weiri_comm_node_rank(comm->comm, wait->peer);
    const uint64_t *arrived =
        weiri_rma_word(rma, rma->place, WEIRI_RMA_ARRIVED, place, wait->index);
    uint64_t *taken = weiri_rma_word(rma, rma->place, WEIRI_RMA_TAKEN, place, wait->index);
    const uint64_t target = *taken + wait->count;
    if (wait->peer == comm->rank && weir_load_acquire(arrived) < target)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "rank %d waits for %llu signals of itself and has made %llu; signal "
                          "first",
                          comm->rank, (unsigned long long)wait->count,
                          (unsigned long long)(weir_load_acquire(arrived) - *taken));
    weir_status status = weiri_rma_await(comm, arrived, target, wait->peer);
    if (status == WEIR_OK)
        *taken = target;
    return status;
}
