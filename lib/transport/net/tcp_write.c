/*
 * Writes the streams' queues to their sockets. The headers and payloads of many frames are gathered
 * into one system call, so that a put and the signal after it leave in one segment.
 */
#include "transport/net/tcp.h"

#include "base/error.h"
#include <weir/target.h>

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum {
    MOST_PARTS = 64,      /* iovecs per write */
    PASS_BYTES = 1 << 20, /* written to one stream before the next one */
};

_Static_assert(sizeof(weiri_tcp_frame) == 32, "frames have no padding");
_Static_assert(sizeof(weiri_tcp_frame) == offsetof(weiri_tcp_item, counts),
               "counts follow their frame immediately");

static size_t header_bytes(const weiri_tcp_item *item)
{
    return sizeof item->frame + item->frame.nstreams * sizeof *item->counts;
}

/* Adds the rest of an item, of which sent bytes are written, to parts; returns its length. A
 * fence's counts follow its frame in memory. */
static size_t add_parts(const weiri_tcp_item *item, size_t sent, struct iovec *parts, int *nparts)
{
    size_t head = header_bytes(item), total = head + item->payload_bytes;
    if (sent < head)
        parts[(*nparts)++] = (struct iovec){(char *)(uintptr_t)&item->frame + sent, head - sent};
    size_t skip = sent > head ? sent - head : 0;
    if (skip < item->payload_bytes)
        parts[(*nparts)++] =
            (struct iovec){(char *)(uintptr_t)item->payload + skip, item->payload_bytes - skip};
    return total - sent;
}

static void stream_note_written(weiri_tcp_stream *stream, size_t bytes)
{
    stream->head_sent += bytes;
    while (stream->count > 0) {
        const weiri_tcp_item *item = weiri_tcp_item_at(stream, 0);
        size_t total = header_bytes(item) + item->payload_bytes;
        if (stream->head_sent < total)
            return;
        stream->head_sent -= total;
        if (item->slot)
            item->slot->is_busy = 0;
        if (item->frame.kind == WEIRI_TCP_PUT)
            stream->queued_bytes -= item->payload_bytes;
        if (item->frame.kind == WEIRI_TCP_PUT || item->frame.kind == WEIRI_TCP_SIGNAL)
            stream->frames_written++;
        stream->head = (stream->head + 1) & (stream->capacity - 1);
        stream->count--;
        stream->endpoint->nqueued--;
    }
}

/* Starts copying the first GPU payloads into staging slots, as far as slots are free. */
static weir_status stream_stage_payloads(weiri_tcp_stream *stream)
{
    enum { AHEAD = 16 };
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < stream->count && i < AHEAD && status == WEIR_OK; i++) {
        weiri_tcp_item *item = weiri_tcp_item_at(stream, i);
        if (item->is_staged && !item->slot)
            status = weiri_tcp_staging_out(stream, item);
        if (item->is_staged && !item->slot)
            break;
    }
    return status;
}

/* Collects the parts of the next write, up to the first item that is not ready. */
static weir_status tcp_gather(weiri_tcp_stream *stream, struct iovec *parts, int *nparts,
                              size_t *offered)
{
    weir_status status = stream_stage_payloads(stream);
    int ready = 1;
    for (size_t i = 0; i < stream->count && *nparts + 2 <= MOST_PARTS; i++) {
        const weiri_tcp_item *item = weiri_tcp_item_at(stream, i);
        if (status == WEIR_OK)
            status = weiri_tcp_staging_is_out(stream, item, &ready);
        if (status != WEIR_OK || !ready || *offered >= PASS_BYTES)
            break;
        *offered += add_parts(item, i ? 0 : stream->head_sent, parts, nparts);
    }
    return status;
}

static ssize_t send_parts(const weiri_tcp_stream *stream, struct iovec *parts, int nparts)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)nparts};
    ssize_t put;
    do
        put = sendmsg(stream->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (put < 0 && errno == EINTR);
    return put;
}

/* Fills the rest of a frame with zeros if its payload is unmapped. */
static ssize_t send_zeros(const weiri_tcp_stream *stream, size_t bytes)
{
    static char zeros[4096];
    struct iovec part = {zeros, bytes < sizeof zeros ? bytes : sizeof zeros};
    return send_parts(stream, &part, 1);
}

void weiri_tcp_finish_frame(weiri_tcp_stream *stream)
{
    enum { LONGEST_MS = 1000 };
    const uint64_t end_ns = weir_clock_ns() + (uint64_t)LONGEST_MS * 1000000u;
    while (stream->count > 0 && stream->head_sent > 0 && weir_clock_ns() < end_ns) {
        struct iovec parts[2];
        int nparts = 0;
        add_parts(weiri_tcp_item_at(stream, 0), stream->head_sent, parts, &nparts);
        ssize_t put = send_parts(stream, parts, 1);
        if (put < 0 && errno == EFAULT)
            put = send_zeros(stream, parts[0].iov_len);
        if (put < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
            return;
        if (put < 0)
            poll(&(struct pollfd){.fd = stream->fd, .events = POLLOUT}, 1, 10);
        else
            stream_note_written(stream, (size_t)put);
    }
}

/* One system call; *taken is the number of bytes written, 0 if nothing can be written now. */
static weir_status write_once(weiri_tcp_stream *stream, size_t *taken)
{
    struct iovec parts[MOST_PARTS];
    int nparts = 0;
    size_t offered = 0;
    *taken = 0;
    weir_status status = tcp_gather(stream, parts, &nparts, &offered);
    if (status != WEIR_OK || nparts == 0)
        return status;
    ssize_t put = send_parts(stream, parts, nparts);
    if (put < 0 && errno == EFAULT && nparts > 1) /* what precedes the memory that is not there */
        put = send_parts(stream, parts, 1);
    if (put < 0 && errno == EFAULT) {
        stream->endpoint->base.net->lacks_memory = 1;
        return weiri_fail(WEIR_ERR_INVALID,
                          "not all of the memory that rank %d sends to rank %d can be read",
                          stream->endpoint->job.rank, stream->endpoint->base.peer);
    }
    if (put >= 0) {
        stream_note_written(stream, (size_t)put);
        stream->is_full = (size_t)put < offered;
        *taken = (size_t)put;
        return WEIR_OK;
    }
    stream->is_full = 1;
    /* If the peer is gone, its last frame is still to be read and may contain the reason. */
    stream->write_failed = errno != EAGAIN && errno != EWOULDBLOCK;
    return WEIR_OK;
}

weir_status weiri_tcp_write(weiri_tcp_endpoint *end, int *moved)
{
    weir_status status = WEIR_OK;
    for (int i = 0; i < end->nstreams && status == WEIR_OK; i++) {
        weiri_tcp_stream *stream = end->streams[i];
        size_t pass = 0, taken = 1;
        while (stream->count > 0 && !stream->is_full && pass < PASS_BYTES && taken > 0 &&
               status == WEIR_OK) {
            status = write_once(stream, &taken);
            pass += taken;
        }
        if (pass > 0) {
            end->moved_ns = weir_clock_ns();
            *moved = 1;
        }
        weiri_tcp_watch(stream);
    }
    weiri_tcp_count_completed(end);
    return status;
}
