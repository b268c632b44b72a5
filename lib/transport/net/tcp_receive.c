/*
 * The receiving half of the tcp transport: checks incoming frames against the registered memory and
 * performs them. tcp.c explains streams and fences.
 *
 * If a payload is incomplete, a read places its rest directly at the destination and the next
 * frame's header into the stream's buffer. Otherwise a read fills the buffer, from which short
 * payloads are copied.
 */
#include "transport/net/tcp.h"

#include "base/error.h"
#include <weir/target.h>
#include "boot/link.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { PASS_BYTES = 1 << 20 /* read from one stream before the next one */ };

/* ------------------------------------------------------------------ failures */

static weir_status tcp_fail_invalid(const weiri_tcp_stream *stream, const char *what)
{
    const weiri_tcp_endpoint *end = stream->endpoint;
    return weiri_fail(WEIR_ERR_SYSTEM,
                      "rank %d at %s sent rank %d %s; do all ranks run the same build of weir?",
                      end->base.peer, end->where, end->job.rank, what);
}

/* The peer closed a connection. A bye frame, which comes on the first stream, would have been
 * processed before. */
static weir_status tcp_stream_ended(weiri_tcp_stream *stream, int error_number)
{
    weiri_tcp_endpoint *end = stream->endpoint;
    stream->is_ended = 1;
    weiri_tcp_watch(stream);
    if (stream->index > 0) {
        end->ended_ns = end->ended_ns ? end->ended_ns : weir_clock_ns();
        return WEIR_OK;
    }
    if (error_number)
        return weiri_fail_errno(WEIR_ERR_PEER, error_number,
                                "rank %d at %s is gone; see its own messages", end->base.peer,
                                end->where);
    return weiri_fail(WEIR_ERR_PEER,
                      "rank %d at %s is gone: it closed the connection; see its own messages",
                      end->base.peer, end->where);
}

/* -------------------------------------------------------------------- frames */

/* The memory that a frame writes to; NULL if the range is not within registered memory. */
static const weiri_tcp_mem *target_of(const weiri_tcp_stream *stream, const weiri_tcp_frame *frame,
                                      uint64_t bytes)
{
    const weiri_tcp_net *net = (const weiri_tcp_net *)stream->endpoint->base.net;
    const weiri_tcp_mem *mem = weiri_tcp_mem_of(net, frame->memory);
    if (!mem || frame->to > mem->base.bytes || bytes > mem->base.bytes - frame->to)
        return NULL;
    return mem;
}

static weir_status tcp_fail_target(const weiri_tcp_stream *stream, const weiri_tcp_frame *frame,
                                   uint64_t bytes)
{
    const weiri_tcp_endpoint *end = stream->endpoint;
    const weiri_tcp_net *net = (const weiri_tcp_net *)end->base.net;
    const weiri_tcp_mem *mem = weiri_tcp_mem_of(net, frame->memory);
    if (mem)
        return weiri_fail(WEIR_ERR_SYSTEM,
                          "rank %d at %s wrote %llu bytes at offset %llu of a memory of rank %d "
                          "that has %zu; check offsets and lengths there",
                          end->base.peer, end->where, (unsigned long long)bytes,
                          (unsigned long long)frame->to, end->job.rank, mem->base.bytes);
    return weiri_fail(WEIR_ERR_SYSTEM,
                      "rank %d at %s wrote to memory that rank %d has not registered, or no "
                      "longer; keep it registered while peers use its key",
                      end->base.peer, end->where, end->job.rank);
}

static void frames_done(weiri_tcp_stream *stream, uint64_t frames)
{
    stream->frames_done += frames;
    stream->endpoint->owed_frames += frames;
    stream->endpoint->idle_passes = 0;
}

static weir_status begin_put(weiri_tcp_stream *stream, const weiri_tcp_frame *frame)
{
    const weiri_tcp_mem *mem = target_of(stream, frame, frame->value);
    if (!mem)
        return tcp_fail_target(stream, frame, frame->value);
    if (frame->value == 0)
        return tcp_fail_invalid(stream, "a put of nothing");
    stream->payload = mem->base.base + frame->to;
    stream->payload_left = frame->value;
    stream->is_staged = mem->place == WEIRI_NET_CUDA;
    stream->slot_bytes = 0;
    if (stream->endpoint->nlandings && !stream->is_staged)
        weiri_tcp_landing_begin(stream, frame->memory, frame->to, frame->value);
    stream->endpoint->owed_bytes += frame->value;
    return WEIR_OK;
}

/* No copies are under way. */
static weir_status do_signal(weiri_tcp_stream *stream, const weiri_tcp_frame *frame)
{
    const weiri_tcp_mem *mem = target_of(stream, frame, sizeof(uint64_t));
    if (!mem)
        return tcp_fail_target(stream, frame, sizeof(uint64_t));
    char *word = mem->base.base + frame->to;
    if ((uintptr_t)word % sizeof(uint64_t) != 0)
        return tcp_fail_invalid(stream, "a signal to an address that is not a multiple of 8");
    if (mem->place == WEIRI_NET_CUDA) {
        memcpy(weiri_tcp_staging_room(stream)->stage.buffer, &frame->value, sizeof frame->value);
        stream->payload = word;
        return weiri_tcp_staging_in(stream, sizeof frame->value, 1);
    }
    weir_store_release((uint64_t *)(void *)word, frame->value);
    frames_done(stream, 1);
    return WEIR_OK;
}

/* Whether a frame must wait until copies into GPU memory have ended: true for all frames that move
 * data, except puts to GPU memory, whose copies are ordered after them. */
static int must_await_copies(const weiri_tcp_stream *stream, const weiri_tcp_frame *frame)
{
    const weiri_tcp_net *net = (const weiri_tcp_net *)stream->endpoint->base.net;
    const weiri_tcp_mem *mem = weiri_tcp_mem_of(net, frame->memory);
    if (!weiri_tcp_staging_copies(stream))
        return 0;
    return frame->kind == WEIRI_TCP_SIGNAL ||
           (frame->kind == WEIRI_TCP_PUT && mem && mem->place != WEIRI_NET_CUDA);
}

static int fence_is_satisfied(const weiri_tcp_stream *stream)
{
    const weiri_tcp_endpoint *end = stream->endpoint;
    for (int i = 0; i < end->nstreams; i++)
        if (i != stream->index && end->streams[i]->frames_done < stream->awaits[i])
            return 0;
    return 1;
}

/* The peer has destroyed its endpoint, regularly or after a failure. */
static weir_status do_bye(weiri_tcp_stream *stream, const weiri_tcp_frame *frame, const char *said)
{
    weiri_tcp_endpoint *end = stream->endpoint;
    char text[WEIRI_TCP_TEXT_BYTES];
    if (frame->to == WEIR_OK) {
        end->has_left = 1;
        if (end->base.completed < end->base.posted)
            end->ended_ns = weir_clock_ns();
        return WEIR_OK;
    }
    memcpy(text, said, frame->value);
    text[frame->value] = '\0';
    weiri_text_clean(text, frame->value + 1);
    return weiri_fail((int)frame->to == WEIR_ERR_INVALID ? WEIR_ERR_INVALID : WEIR_ERR_PEER,
                      "rank %d at %s failed: %s", end->base.peer, end->where, text);
}

/* Bytes that must follow the header in the buffer before the frame can be processed; SIZE_MAX if
 * the frame is invalid. */
static size_t rest_bytes(const weiri_tcp_stream *stream, const weiri_tcp_frame *frame)
{
    switch (frame->kind) {
    case WEIRI_TCP_PUT:
    case WEIRI_TCP_SIGNAL:
        return frame->nstreams == 0 ? 0 : SIZE_MAX;
    case WEIRI_TCP_FENCE:
    case WEIRI_TCP_ACK:
        return frame->nstreams == (uint32_t)stream->endpoint->nstreams
                   ? frame->nstreams * sizeof(uint64_t)
                   : SIZE_MAX;
    case WEIRI_TCP_BYE:
        return frame->nstreams == 0 && frame->value < WEIRI_TCP_TEXT_BYTES ? frame->value
                                                                           : SIZE_MAX;
    default:
        return SIZE_MAX;
    }
}

static weir_status do_frame(weiri_tcp_stream *stream, const weiri_tcp_frame *frame,
                            const unsigned char *rest)
{
    uint64_t counts[WEIRI_TCP_MOST_STREAMS] = {0};
    memcpy(counts, rest, frame->nstreams * sizeof *counts);
    switch (frame->kind) {
    case WEIRI_TCP_PUT:
        return begin_put(stream, frame);
    case WEIRI_TCP_SIGNAL:
        return do_signal(stream, frame);
    case WEIRI_TCP_FENCE:
        memcpy(stream->awaits, counts, sizeof counts);
        stream->is_stalled = !fence_is_satisfied(stream);
        return WEIR_OK;
    case WEIRI_TCP_ACK:
        return weiri_tcp_acknowledged(stream->endpoint, counts)
                   ? WEIR_OK
                   : tcp_fail_invalid(stream, "an acknowledgement of frames that were not sent");
    default:
        return do_bye(stream, frame, (const char *)rest);
    }
}

/* ------------------------------------------------------------------ reading */

/* Room for the next bytes of a payload, in bytes; 0 if no staging slot is free. */
static size_t payload_room(weiri_tcp_stream *stream, char **room)
{
    *room = stream->payload;
    if (!stream->is_staged)
        return stream->payload_left;
    const weiri_tcp_slot *slot = weiri_tcp_staging_room(stream);
    stream->awaits_copy = !slot;
    if (!slot)
        return 0;
    size_t bytes = WEIRI_STAGING_BUFFER_BYTES - stream->slot_bytes;
    *room = slot->stage.buffer + stream->slot_bytes;
    return bytes < stream->payload_left ? bytes : stream->payload_left;
}

static weir_status payload_came(weiri_tcp_stream *stream, size_t bytes)
{
    stream->payload_left -= bytes;
    if (stream->is_staged) {
        int ends = stream->payload_left == 0;
        size_t filled = stream->slot_bytes += bytes;
        if (!ends && filled < WEIRI_STAGING_BUFFER_BYTES)
            return WEIR_OK;
        stream->slot_bytes = 0;
        return weiri_tcp_staging_in(stream, filled, ends);
    }
    stream->payload += bytes;
    if (stream->payload_left > 0)
        return WEIR_OK;
    if (stream->landing)
        stream->landing->has_ended = 1;
    stream->landing = NULL;
    frames_done(stream, 1);
    return WEIR_OK;
}

static weir_status stream_copy_payload(weiri_tcp_stream *stream)
{
    size_t there = stream->in_end - stream->in_begin;
    char *room;
    size_t bytes = payload_room(stream, &room);
    bytes = bytes < there ? bytes : there;
    if (bytes == 0)
        return WEIR_OK;
    memcpy(room, stream->in + stream->in_begin, bytes);
    stream->in_begin += bytes;
    return payload_came(stream, bytes);
}

static int can_go_on(const weiri_tcp_stream *stream)
{
    return !stream->is_stalled && !stream->awaits_copy && !stream->endpoint->has_left;
}

/* Processes the frames in the buffer, as far as possible. */
static weir_status stream_process(weiri_tcp_stream *stream)
{
    weir_status status = WEIR_OK;
    weiri_tcp_frame frame;
    while (status == WEIR_OK && can_go_on(stream)) {
        size_t there = stream->in_end - stream->in_begin;
        const unsigned char *at = stream->in + stream->in_begin;
        if (stream->payload_left > 0 && there > 0) {
            status = stream_copy_payload(stream);
            continue;
        }
        if (there < sizeof frame)
            break;
        memcpy(&frame, at, sizeof frame);
        size_t rest = rest_bytes(stream, &frame);
        if (rest == SIZE_MAX)
            return tcp_fail_invalid(stream, "an invalid frame");
        if (there - sizeof frame < rest)
            break;
        stream->awaits_copy = must_await_copies(stream, &frame);
        if (stream->awaits_copy)
            break;
        stream->in_begin += sizeof frame + rest;
        status = do_frame(stream, &frame, at + sizeof frame);
    }
    if (stream->in_begin > 0 && can_go_on(stream)) {
        memmove(stream->in, stream->in + stream->in_begin, stream->in_end - stream->in_begin);
        stream->in_end -= stream->in_begin;
        stream->in_begin = 0;
    }
    return status;
}

static ssize_t receive_parts(const weiri_tcp_stream *stream, struct iovec *parts, int nparts)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)nparts};
    ssize_t had;
    do
        had = nparts == 1 ? recv(stream->fd, parts[0].iov_base, parts[0].iov_len, MSG_DONTWAIT)
                          : recvmsg(stream->fd, &message, MSG_DONTWAIT);
    while (had < 0 && errno == EINTR);
    return had;
}

/* The caller's memory is unmapped: its part of the message is dropped. */
static ssize_t receive_without(const weiri_tcp_stream *stream, struct iovec *part)
{
    char dropped[4096];
    stream->endpoint->base.net->lacks_memory = 1;
    part->iov_base = dropped;
    part->iov_len = part->iov_len < sizeof dropped ? part->iov_len : sizeof dropped;
    return receive_parts(stream, part, 1);
}

/* One system call, which reads *got bytes; sets *is_dry if no more data are available. */
static weir_status tcp_read_once(weiri_tcp_stream *stream, size_t *got, int *is_dry)
{
    struct iovec parts[2];
    int nparts = 0;
    char *room;
    size_t payload = stream->payload_left ? payload_room(stream, &room) : 0;
    *got = 0;
    *is_dry = 1;
    if (stream->awaits_copy)
        return WEIR_OK;
    if (payload > 0)
        parts[nparts++] = (struct iovec){room, payload};
    /* A header follows only if the payload can be read to its end. */
    if (payload == stream->payload_left)
        parts[nparts++] =
            (struct iovec){stream->in + stream->in_end,
                           payload ? WEIRI_TCP_AHEAD_BYTES : sizeof stream->in - stream->in_end};
    ssize_t had = receive_parts(stream, parts, nparts);
    if (had < 0 && errno == EFAULT && payload > 0) {
        nparts = 1;
        had = receive_without(stream, parts);
    }
    if (had < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return WEIR_OK;
    if (had <= 0)
        return tcp_stream_ended(stream, had < 0 ? errno : 0);
    *got = (size_t)had;
    *is_dry = *got < parts[0].iov_len + (nparts > 1 ? parts[1].iov_len : 0);
    size_t direct = *got < payload ? *got : payload;
    stream->in_end += *got - direct;
    return direct > 0 ? payload_came(stream, direct) : WEIR_OK;
}

weir_status weiri_tcp_read(weiri_tcp_stream *stream, int *moved)
{
    weir_status status = stream_process(stream);
    size_t got = 0;
    int is_dry = 0;
    for (size_t pass = 0; status == WEIR_OK && !is_dry && pass < PASS_BYTES; pass += got) {
        if (stream->is_ended || !can_go_on(stream))
            break;
        status = tcp_read_once(stream, &got, &is_dry);
        if (got > 0)
            *moved = 1;
        if (status == WEIR_OK && got > 0)
            status = stream_process(stream);
    }
    return status;
}

weir_status weiri_tcp_resume(weiri_tcp_endpoint *end, int *moved)
{
    weir_status status = WEIR_OK;
    for (int i = 0; i < end->nstreams && status == WEIR_OK && !end->has_left; i++) {
        weiri_tcp_stream *stream = end->streams[i];
        if (!stream->is_stalled || !fence_is_satisfied(stream))
            continue;
        stream->is_stalled = 0;
        *moved = 1;
        status = weiri_tcp_read(stream, moved);
        weiri_tcp_watch(stream);
        i = -1; /* the frames processed may satisfy the fences of others */
    }
    return status;
}

weir_status weiri_tcp_settle_copies(weiri_tcp_endpoint *end, int *moved)
{
    weir_status status = WEIR_OK;
    int any = 0;
    for (int i = 0; i < end->nstreams && status == WEIR_OK; i++) {
        weiri_tcp_stream *stream = end->streams[i];
        uint64_t frames = 0;
        int ended = 0;
        status = weiri_tcp_staging_settle(stream, &frames, &ended);
        if (frames > 0)
            frames_done(stream, frames);
        any |= ended;
        if (status != WEIR_OK || !ended || !stream->awaits_copy)
            continue;
        stream->awaits_copy = 0;
        status = weiri_tcp_read(stream, moved);
        weiri_tcp_watch(stream);
    }
    if (any)
        *moved = 1;
    return status == WEIR_OK && any ? weiri_tcp_resume(end, moved) : status;
}
