/*
 * Operations of the tcp transport: the slots put, put_from, signal and forget. They check what the
 * caller gives, queue frames (tcp_queue.c), and write them unless a later operation will.
 */
#include "transport/net/tcp.h"

#include "base/error.h"

/* Checks that the endpoint can take an operation on [to, to + bytes) of the key's memory, and
 * begins to connect it if it is prepared and this is its first use. */
static weir_status tcp_check_operation(weiri_tcp_endpoint *end, const weiri_net_key *given,
                                       uint64_t to, uint64_t bytes, weiri_tcp_key *key)
{
    if (end->base.failed != WEIR_OK)
        return weiri_tcp_return_failure(end);
    if (end->has_left)
        return weiri_fail(WEIR_ERR_PEER, "transport tcp: rank %d at %s has ended its endpoint",
                          end->base.peer, end->where);
    if (!end->is_connected && end->state == WEIRI_TCP_BLOCKING)
        return weiri_fail(WEIR_ERR_INVALID, "transport tcp: rank %d is not connected to rank %d",
                          end->job.rank, end->base.peer);
    weir_status status = weiri_tcp_read_key(end, given, to, bytes, key);
    if (status != WEIR_OK)
        return status;
    return end->is_connected ? WEIR_OK : weiri_tcp_endpoint_begin(&end->base);
}

weir_status weiri_tcp_put(weiri_endpoint *endpoint, const weiri_net_mem *mem, uint64_t at,
                          const weiri_net_key *given, uint64_t to, uint64_t bytes)
{
    weiri_tcp_endpoint *end = (weiri_tcp_endpoint *)endpoint;
    weiri_tcp_key key;
    int moved;
    weir_status status = weiri_net_check_source(mem, at, bytes);
    if (status == WEIR_OK)
        status = tcp_check_operation(end, given, to, bytes, &key);
    if (status != WEIR_OK)
        return status;
    int is_staged = ((const weiri_tcp_mem *)mem)->place == WEIRI_NET_CUDA;
    status = weiri_tcp_queue_put(end, mem->base + at, is_staged, &key, to, bytes);
    /* A short put is sent together with the next operation, usually a signal. */
    int is_much =
        bytes > WEIRI_TCP_BUFFER_BYTES || end->streams[0]->queued_bytes > WEIRI_TCP_BUFFER_BYTES;
    if (status == WEIR_OK && is_much)
        status = weiri_tcp_write(end, &moved);
    if (status != WEIR_OK)
        weiri_tcp_fail_endpoint(end, status);
    return status;
}

weir_status weiri_tcp_put_from(weiri_endpoint *endpoint, const char *from,
                               const weiri_net_key *given, uint64_t to, uint64_t bytes)
{
    weiri_tcp_endpoint *end = (weiri_tcp_endpoint *)endpoint;
    weiri_tcp_key key;
    weir_status status = tcp_check_operation(end, given, to, bytes, &key);
    if (status != WEIR_OK)
        return status;
    status = weiri_tcp_queue_put(end, from, 0, &key, to, bytes);
    if (status != WEIR_OK)
        weiri_tcp_fail_endpoint(end, status);
    return status;
}

void weiri_tcp_forget(weiri_endpoint *endpoint)
{
    weiri_tcp_endpoint *end = (weiri_tcp_endpoint *)endpoint;
    if (end->base.failed == WEIR_OK && end->nsent < end->count)
        weiri_tcp_fail_endpoint(end,
                                WEIR_ERR_ABORTED); /* the reason is that of the caller's failure */
}

weir_status weiri_tcp_signal(weiri_endpoint *endpoint, const weiri_net_key *given, uint64_t to,
                             uint64_t value)
{
    weiri_tcp_endpoint *end = (weiri_tcp_endpoint *)endpoint;
    weiri_tcp_key key;
    int moved;
    weir_status status = tcp_check_operation(end, given, to, sizeof value, &key);
    if (status == WEIR_OK && to % sizeof value != 0)
        status = weiri_fail(WEIR_ERR_INVALID,
                            "transport tcp: a signal's offset is %llu, expected a "
                            "multiple of 8",
                            (unsigned long long)to);
    if (status != WEIR_OK)
        return status;
    status = weiri_tcp_queue_signal(end, &key, to, value);
    weiri_tcp_acknowledge(end);
    if (status == WEIR_OK)
        status = weiri_tcp_write(end, &moved);
    if (status != WEIR_OK)
        weiri_tcp_fail_endpoint(end, status);
    return status;
}
