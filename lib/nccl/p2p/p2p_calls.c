/*
 * The sends and receives of a group, looked up by direction and peer; and the pairing of a rank's
 * sends to itself with its receives. Used by all files that execute sends and receives.
 */
#include "nccl/p2p/p2p_host.h"

#include "base/error.h"

const weiri_nccl_call *weiri_p2p_next_call(const weiri_nccl_call *calls, size_t count, int sends,
                                           int peer, size_t *from)
{
    while (*from < count) {
        const weiri_nccl_call *call = &calls[(*from)++];
        if (weiri_nccl_is_p2p(call) && weiri_nccl_sends(call) == sends &&
            weiri_nccl_peer(call) == peer)
            return call;
    }
    return NULL;
}

weir_status weiri_p2p_next_self(const weiri_nccl_comm *comm, const weiri_nccl_call *calls,
                                size_t count, weiri_p2p_self *self)
{
    self->send = weiri_p2p_next_call(calls, count, 1, comm->rank, &self->sends);
    self->recv = weiri_p2p_next_call(calls, count, 0, comm->rank, &self->recvs);
    if (!self->send && !self->recv)
        return WEIR_OK;
    if (!self->send || !self->recv)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "rank %d: a send to itself needs a receive in the same group",
                          comm->rank);
    uint64_t sent = weiri_p2p_bytes_of(self->send), expected = weiri_p2p_bytes_of(self->recv);
    if (sent != expected)
        return weiri_fail(WEIR_ERR_INVALID, "rank %d sends %llu bytes to itself and receives %llu",
                          comm->rank, (unsigned long long)sent, (unsigned long long)expected);
    return WEIR_OK;
}
