/* The lengths of a call's buffers, from its counts. */
#include "algo/algo.h"

#include "base/contract.h"

/* The end of the last non-empty block, in elements. */
static size_t splits_end(const size_t *counts, const size_t *displs, int nranks)
{
    size_t end = 0;
    for (int peer = 0; counts && displs && peer < nranks; peer++)
        if (counts[peer] && displs[peer] + counts[peer] > end)
            end = displs[peer] + counts[peer];
    return end;
}

void weiri_call_set_lengths(const weir_comm *comm, weir_call *call)
{
    const weiri_contract *contract = weiri_contract_of((int)call->collective);
    const size_t n = (size_t)comm->nranks, size = weir_dtype_bytes(call->dtype);
    const weir_splits *s = call->splits;
    size_t in = call->count * (contract->in_has_blocks ? n : 1);
    size_t out = call->count * (contract->out_has_blocks ? n : 1);
    if (call->collective == WEIR_COLL_ALLTOALLV) {
        in = s ? splits_end(s->send_counts, s->send_displs, comm->nranks) : 0;
        out = s ? splits_end(s->recv_counts, s->recv_displs, comm->nranks) : 0;
    } else if (call->collective == WEIR_COLL_SENDRECV) {
        in = call->destination >= 0 ? call->count : 0;
        out = call->source >= 0 ? call->recv_count : 0;
    }
    call->in_bytes = weiri_contract_reads(contract, comm->rank, call->root) ? in * size : 0;
    call->out_bytes = weiri_contract_writes(contract, comm->rank, call->root) ? out * size : 0;
}
