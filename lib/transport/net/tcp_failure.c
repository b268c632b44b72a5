/*
 * How an endpoint of the tcp transport fails: its reason, the bye frame that reports it to the
 * peer, and the deadlines of outstanding operations and of a peer that has closed a connection.
 */
#include "transport/net/tcp.h"

#include "base/error.h"
#include <weir/target.h>

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Drops what is queued. */
static void stream_drop_items(weiri_tcp_stream *stream)
{
    stream->endpoint->nqueued -= stream->count;
    stream->count = 0;
}

void weiri_tcp_hang_up(weiri_tcp_endpoint *end)
{
    for (int i = 0; i < end->nstreams; i++) {
        weiri_tcp_stream *stream = end->streams[i];
        if (stream->fd >= 0)
            close(stream->fd); /* also removes it from epoll */
        stream->fd = -1;
        stream_drop_items(stream);
    }
}

/* Lets the peer read the bye frame: what it sent, and nobody has read, would make the system reset
 * the connection. */
static void stream_await_end(const weiri_tcp_stream *stream)
{
    enum { LONGEST_MS = 1000 };
    const uint64_t end_ns = weir_clock_ns() + (uint64_t)LONGEST_MS * 1000000u;
    char scratch[4096];
    ssize_t got = 1;
    shutdown(stream->fd, SHUT_WR);
    while (got != 0 && weir_clock_ns() < end_ns) {
        got = recv(stream->fd, scratch, sizeof scratch, MSG_DONTWAIT);
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return;
        if (got < 0)
            poll(&(struct pollfd){.fd = stream->fd, .events = POLLIN}, 1, 10);
    }
}

void weiri_tcp_fail_endpoint(weiri_tcp_endpoint *end, weir_status status)
{
    int moved;
    if (end->base.failed != WEIR_OK)
        return;
    end->reason = strdup(weir_last_error());
    end->base.failed = status;
    weiri_tcp_drop_call(end->call);
    end->call = NULL;
    weiri_tcp_stream *first = end->streams[0];
    if (end->base.net->lacks_memory && end->is_connected && first->fd >= 0)
        weiri_tcp_finish_frame(first); /* so that the bye frame can follow */
    if (end->is_connected && !end->has_left && first->fd >= 0 && first->head_sent == 0) {
        stream_drop_items(first); /* replaced by the bye frame */
        if (weiri_tcp_queue_bye(end, status, weir_last_error()) == WEIR_OK)
            weiri_tcp_write(end, &moved);
        if (end->base.net->lacks_memory)
            stream_await_end(first);
    }
    weiri_tcp_hang_up(end);
}

weir_status weiri_tcp_return_failure(const weiri_tcp_endpoint *end)
{
    return weiri_fail(end->base.failed, "transport tcp: %s",
                      end->reason ? end->reason : "an endpoint has failed, and there is no memory");
}

void weiri_tcp_check_deadline(weiri_tcp_endpoint *end)
{
    if (end->base.failed != WEIR_OK || end->base.is_connecting ||
        (end->count == 0 && !end->ended_ns))
        return;
    uint64_t now = weir_clock_ns();
    uint64_t timeout_ns = (uint64_t)end->base.net->timeout_ms * 1000000u;
    if (end->ended_ns && now - end->ended_ns > WEIRI_TCP_GRACE_MS * 1000000u)
        weiri_tcp_fail_endpoint(
            end, weiri_fail(WEIR_ERR_PEER,
                            end->has_left ? "rank %d at %s has ended its endpoint while rank %d "
                                            "had outstanding operations; let both finish first"
                                          : "rank %d at %s is gone: it closed a connection to "
                                            "rank %d; see its own messages",
                            end->base.peer, end->where, end->job.rank));
    else if (end->count > 0 && !end->has_left && now - end->moved_ns > timeout_ns)
        weiri_tcp_fail_endpoint(
            end, weiri_fail(WEIR_ERR_TIMEOUT,
                            "rank %d at %s has accepted no data for %d ms, with %llu "
                            "operations of rank %d outstanding; is it stuck, cut off, "
                            "or slower than WEIR_TIMEOUT_MS allows?",
                            end->base.peer, end->where, end->base.net->timeout_ms,
                            (unsigned long long)end->count, end->job.rank));
}
