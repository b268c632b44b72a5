/*
 * The sending half of the tcp transport: turns operations into frames in the streams' queues, and
 * writes the queues. tcp.c explains streams and fences.
 *
 * A queue refers to payloads in place. The writer gathers the headers and payloads of many frames
 * into one system call, so that a put and the signal after it leave in one segment.
 */
#include "transport/net/tcp.h"

#include "base/error.h"
#include <weir/target.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum {
    STRIPED_BYTES = 256 << 10, /* longer puts are cut into stripes */
    STRIPE_BYTES_MIN = 64 << 10,
    STRIPE_BYTES_MAX = 1 << 20,
    MOST_PARTS = 64,      /* iovecs per write */
    PASS_BYTES = 1 << 20, /* written to one stream before the next one */
    SCANNED_OPS = 256,    /* checked for an overlap; more count as overlapping */
};

/* ------------------------------------------------------------------- queues */

/* Doubles a ring and moves its elements to its beginning. Returns NULL if there is no memory. */
static void *ring_grow(void *ring, size_t element_bytes, size_t *capacity, size_t *head,
                       size_t count)
{
    size_t wider = *capacity ? 2 * *capacity : 16, before = *capacity - *head;
    char *made = malloc(wider * element_bytes);
    const char *old = ring;
    if (!made)
        return NULL;
    if (before > count)
        before = count;
    if (count) {
        memcpy(made, old + *head * element_bytes, before * element_bytes);
        memcpy(made + before * element_bytes, old, (count - before) * element_bytes);
    }
    free(ring);
    *capacity = wider;
    *head = 0;
    return made;
}

static weir_status tcp_fail_no_memory(const weiri_tcp_endpoint *end)
{
    return weiri_fail(WEIR_ERR_NO_MEMORY,
                      "rank %d: no memory for more operations under way to rank %d", end->job.rank,
                      end->base.peer);
}

static weiri_tcp_item *item_at(const weiri_tcp_stream *stream, size_t index)
{
    return &stream->items[(stream->head + index) & (stream->capacity - 1)];
}

static weiri_tcp_item *append_item(weiri_tcp_stream *stream)
{
    if (stream->count == stream->capacity) {
        void *wider = ring_grow(stream->items, sizeof *stream->items, &stream->capacity,
                                &stream->head, stream->count);
        if (!wider)
            return NULL;
        stream->items = wider;
    }
    weiri_tcp_item *item = item_at(stream, stream->count++);
    stream->endpoint->nqueued++;
    item->payload_bytes = 0;
    item->is_staged = 0;
    item->slot = NULL;
    return item;
}

static weiri_tcp_op *op_at(const weiri_tcp_endpoint *end, size_t index)
{
    return &end->ops[(end->head + index) & (end->capacity - 1)];
}

static weiri_tcp_op *append_op(weiri_tcp_endpoint *end)
{
    if (end->count == end->capacity) {
        void *wider = ring_grow(end->ops, sizeof *end->ops, &end->capacity, &end->head, end->count);
        if (!wider)
            return NULL;
        end->ops = wider;
    }
    if (end->count == 0)
        end->moved_ns = weir_clock_ns();
    weiri_tcp_op *op = op_at(end, end->count);
    memset(op, 0, sizeof *op);
    return op;
}

static void commit_op(weiri_tcp_endpoint *end)
{
    end->count++;
    end->base.posted++;
}

/* Makes the stream's next frame wait for the given number of frames of the other streams, unless
 * the peer has acknowledged them or an earlier fence already waits for as many. */
static weir_status queue_fence(weiri_tcp_stream *stream, const uint64_t *counts)
{
    const weiri_tcp_endpoint *end = stream->endpoint;
    int needed = 0;
    for (int i = 0; i < end->nstreams; i++)
        needed |= i != stream->index && counts[i] > stream->fenced[i] && counts[i] > end->acked[i];
    if (!needed)
        return WEIR_OK;
    weiri_tcp_item *item = append_item(stream);
    if (!item)
        return tcp_fail_no_memory(end);
    item->frame = (weiri_tcp_frame){.kind = WEIRI_TCP_FENCE, .nstreams = (uint32_t)end->nstreams};
    memcpy(item->counts, counts, sizeof item->counts);
    item->counts[stream->index] = 0; /* frames of the same stream are in order anyway */
    memcpy(stream->fenced, item->counts, sizeof stream->fenced);
    return WEIR_OK;
}

static void counts_sent(const weiri_tcp_endpoint *end, uint64_t *counts)
{
    memset(counts, 0, WEIRI_TCP_MOST_STREAMS * sizeof *counts);
    for (int i = 0; i < end->nstreams; i++)
        counts[i] = end->streams[i]->frames_sent;
}

/* -------------------------------------------------------------------- puts */

static weir_status queue_stripe(weiri_tcp_stream *stream, const char *from, int is_staged,
                                const weiri_tcp_key *key, uint64_t to, uint64_t bytes)
{
    weiri_tcp_item *item = append_item(stream);
    if (!item)
        return tcp_fail_no_memory(stream->endpoint);
    item->frame =
        (weiri_tcp_frame){.kind = WEIRI_TCP_PUT, .memory = key->id, .to = to, .value = bytes};
    item->payload = from;
    item->payload_bytes = bytes;
    item->is_staged = is_staged;
    stream->frames_sent++;
    stream->queued_bytes += bytes;
    return WEIR_OK;
}

/* Whether an outstanding operation may write to the same range. */
static int tcp_overlaps(const weiri_tcp_endpoint *end, uint64_t memory, uint64_t to, uint64_t bytes)
{
    if (end->count > SCANNED_OPS)
        return 1;
    for (size_t i = 0; i < end->count; i++) {
        const weiri_tcp_op *op = op_at(end, i);
        if (op->memory == memory && op->to < to + bytes && to < op->to + op->bytes)
            return 1;
    }
    return 0;
}

/* The stream with the least queued data, except the first, which is for short operations. */
static weiri_tcp_stream *next_stream(weiri_tcp_endpoint *end)
{
    weiri_tcp_stream *best = NULL;
    for (int i = 1; i < end->nstreams; i++) {
        int index = 1 + (end->next_stream + i) % (end->nstreams - 1);
        if (!best || end->streams[index]->queued_bytes < best->queued_bytes)
            best = end->streams[index];
    }
    end->next_stream = best->index - 1;
    return best;
}

static weir_status queue_stripes(weiri_tcp_endpoint *end, weiri_tcp_op *op, const char *from,
                                 int is_staged, const weiri_tcp_key *key)
{
    uint64_t counts[WEIRI_TCP_MOST_STREAMS], done = 0;
    uint64_t stripe = op->bytes / (uint64_t)(end->nstreams - 1) / 4096 * 4096 + 4096;
    int fenced = tcp_overlaps(end, op->memory, op->to, op->bytes);
    stripe = stripe < STRIPE_BYTES_MIN ? STRIPE_BYTES_MIN : stripe;
    uint64_t most = is_staged ? WEIRI_STAGING_BUFFER_BYTES : STRIPE_BYTES_MAX;
    stripe = stripe > most ? most : stripe;
    counts_sent(end, counts);
    while (done < op->bytes) {
        weiri_tcp_stream *stream = next_stream(end);
        uint64_t bytes = op->bytes - done < stripe ? op->bytes - done : stripe;
        weir_status status = fenced ? queue_fence(stream, counts) : WEIR_OK;
        if (status == WEIR_OK)
            status = queue_stripe(stream, from + done, is_staged, key, op->to + done, bytes);
        if (status != WEIR_OK)
            return status;
        op->needs[stream->index] = stream->frames_sent;
        done += bytes;
    }
    return WEIR_OK;
}

/* Queues a short put on the first stream, ordered after everything on the other streams. Staged
 * puts are cut to the size of a staging buffer. */
static weir_status queue_short(weiri_tcp_endpoint *end, weiri_tcp_op *op, const char *from,
                               int is_staged, const weiri_tcp_key *key)
{
    uint64_t counts[WEIRI_TCP_MOST_STREAMS];
    counts_sent(end, counts);
    weir_status status = queue_fence(end->streams[0], counts);
    for (uint64_t done = 0; status == WEIR_OK && done < op->bytes;) {
        uint64_t bytes = op->bytes - done;
        if (is_staged && bytes > WEIRI_STAGING_BUFFER_BYTES)
            bytes = WEIRI_STAGING_BUFFER_BYTES;
        status = queue_stripe(end->streams[0], from + done, is_staged, key, op->to + done, bytes);
        done += bytes;
    }
    op->needs[0] = end->streams[0]->frames_sent;
    return status;
}

weir_status weiri_tcp_queue_put(weiri_tcp_endpoint *end, const char *from, int is_staged,
                                const weiri_tcp_key *key, uint64_t to, uint64_t bytes)
{
    weiri_tcp_op *op = append_op(end);
    weir_status status = WEIR_OK;
    if (!op)
        return tcp_fail_no_memory(end);
    op->memory = key->id;
    op->to = to;
    op->bytes = bytes;
    if (bytes >= STRIPED_BYTES && end->nstreams > 1)
        status = queue_stripes(end, op, from, is_staged, key);
    else if (bytes > 0)
        status = queue_short(end, op, from, is_staged, key);
    if (status == WEIR_OK)
        commit_op(end);
    return status;
}

weir_status weiri_tcp_queue_signal(weiri_tcp_endpoint *end, const weiri_tcp_key *key, uint64_t to,
                                   uint64_t value)
{
    weiri_tcp_stream *stream = end->streams[0];
    weiri_tcp_op *op = append_op(end);
    uint64_t counts[WEIRI_TCP_MOST_STREAMS];
    if (!op)
        return tcp_fail_no_memory(end);
    counts_sent(end, counts);
    weir_status status = queue_fence(stream, counts);
    weiri_tcp_item *item = status == WEIR_OK ? append_item(stream) : NULL;
    if (!item)
        return tcp_fail_no_memory(end);
    item->frame =
        (weiri_tcp_frame){.kind = WEIRI_TCP_SIGNAL, .memory = key->id, .to = to, .value = value};
    op->memory = key->id;
    op->to = to;
    op->bytes = sizeof value;
    op->needs[0] = ++stream->frames_sent;
    commit_op(end);
    return WEIR_OK;
}

weir_status weiri_tcp_queue_bye(weiri_tcp_endpoint *end, weir_status why, const char *text)
{
    uint64_t counts[WEIRI_TCP_MOST_STREAMS];
    counts_sent(end, counts);
    weir_status status = queue_fence(end->streams[0], counts);
    weiri_tcp_item *item = status == WEIR_OK ? append_item(end->streams[0]) : NULL;
    if (!item)
        return tcp_fail_no_memory(end);
    size_t bytes = strnlen(text, WEIRI_TCP_TEXT_BYTES / 2);
    item->frame =
        (weiri_tcp_frame){.kind = WEIRI_TCP_BYE, .to = (uint64_t)(int64_t)why, .value = bytes};
    item->payload = text;
    item->payload_bytes = bytes;
    return WEIR_OK;
}

/* --------------------------------------------------------- acknowledgements */

/* Advances sent: operations all of whose frames have been written. */
static void note_sent(weiri_tcp_endpoint *end)
{
    for (; end->nsent < end->count; end->nsent++, end->base.sent++) {
        const weiri_tcp_op *op = op_at(end, end->nsent);
        for (int i = 0; i < end->nstreams; i++)
            if (op->needs[i] > end->streams[i]->frames_written)
                return;
    }
}

/* Advances sent and completed; an empty operation is complete at once. */
static void count_completed(weiri_tcp_endpoint *end)
{
    note_sent(end);
    while (end->count > 0) {
        const weiri_tcp_op *op = op_at(end, 0);
        for (int i = 0; i < end->nstreams; i++)
            if (op->needs[i] > end->acked[i])
                return;
        end->head = (end->head + 1) & (end->capacity - 1);
        end->count--;
        end->nsent--;
        end->base.completed++;
    }
}

int weiri_tcp_acknowledged(weiri_tcp_endpoint *end, const uint64_t *counts)
{
    for (int i = 0; i < end->nstreams; i++)
        if (counts[i] > end->streams[i]->frames_written || counts[i] < end->acked[i])
            return 0;
    memcpy(end->acked, counts, (size_t)end->nstreams * sizeof *counts);
    end->moved_ns = weir_clock_ns();
    count_completed(end);
    return 1;
}

/* Returns the item for an acknowledgement: one that is still queued, as a later one supersedes it;
 * else a new one at the front of the queue, which is independent of what is queued there, but after
 * a frame that is partly written. NULL if there is no memory. */
static weiri_tcp_item *tcp_acknowledgement(weiri_tcp_stream *stream)
{
    size_t at = stream->head_sent > 0;
    if (stream->count > at && item_at(stream, at)->frame.kind == WEIRI_TCP_ACK)
        return item_at(stream, at);
    if (!append_item(stream))
        return NULL;
    stream->head = (stream->head - 1) & (stream->capacity - 1);
    if (at > 0)
        *item_at(stream, 0) = *item_at(stream, 1);
    weiri_tcp_item *item = item_at(stream, at);
    *item = (weiri_tcp_item){.frame = {.kind = WEIRI_TCP_ACK}};
    return item;
}

void weiri_tcp_acknowledge(weiri_tcp_endpoint *end)
{
    weiri_tcp_item *item = end->owed_frames ? tcp_acknowledgement(end->streams[0]) : NULL;
    if (!item)
        return; /* nothing to acknowledge, or no memory: a later call tries again */
    item->frame.nstreams = (uint32_t)end->nstreams;
    for (int i = 0; i < end->nstreams; i++)
        item->counts[i] = end->streams[i]->frames_done;
    end->owed_frames = end->owed_bytes = 0;
}

/* ------------------------------------------------------------------ writing */

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
        const weiri_tcp_item *item = item_at(stream, 0);
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
        weiri_tcp_item *item = item_at(stream, i);
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
        const weiri_tcp_item *item = item_at(stream, i);
        if (status == WEIR_OK)
            status = weiri_tcp_staging_is_out(stream, item, &ready);
        if (status != WEIR_OK || !ready || *offered >= PASS_BYTES)
            break;
        *offered += add_parts(item, i ? 0 : stream->head_sent, parts, nparts);
    }
    return status;
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
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)nparts};
    ssize_t put;
    do
        put = sendmsg(stream->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (put < 0 && errno == EINTR);
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
    count_completed(end);
    return status;
}
