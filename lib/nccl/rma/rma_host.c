/*
 * One-sided calls among the ranks of a node in host memory, which the calling thread
 * executes: it copies into the peer's window where that is mapped, or through the kernel.
 */
#include "nccl/rma/rma.h"

#include "base/error.h"
#include "comm/node/peer_copy.h"
#include "compute/copy.h"

#include <string.h>

weir_status weiri_rma_put_on_host(weiri_nccl_comm *comm, const weiri_nccl_onesided *call,
                                  const weiri_window_peer *to)
{
    if (!call->bytes)
        return WEIR_OK;
    if (to->path == WEIRI_RMA_BY_COPY)
        return weiri_peer_copy_to_process(comm->rank, call->peer, to->pid,
                                          to->address + call->offset, call->from, call->bytes);
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
