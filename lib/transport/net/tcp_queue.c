/*
 * From operations to frames: puts and signals become frames in the streams' queues, with the
 * fences that keep them in order. tcp.c explains streams and fences. A queue refers to payloads in
 * place; tcp_write.c writes them.
 */
#include "transport/net/tcp.h"

#include "base/error.h"
#include <weir/target.h>

#include <stdlib.h>
#include <string.h>

enum {
    STRIPED_BYTES = 256 << 10, /* longer puts are cut into stripes */
    STRIPE_BYTES_MIN = 64 << 10,
    STRIPE_BYTES_MAX = 1 << 20,
    SCANNED_OPS = 256, /* checked for an overlap; more count as overlapping */
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

weiri_tcp_item *weiri_tcp_append_item(weiri_tcp_stream *stream)
{
    if (stream->count == stream->capacity) {
        void *wider = ring_grow(stream->items, sizeof *stream->items, &stream->capacity,
                                &stream->head, stream->count);
        if (!wider)
            return NULL;
        stream->items = wider;
    }
    weiri_tcp_item *item = weiri_tcp_item_at(stream, stream->count++);
    stream->endpoint->nqueued++;
    item->payload_bytes = 0;
    item->is_staged = 0;
    item->slot = NULL;
    return item;
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
    weiri_tcp_op *op = weiri_tcp_op_at(end, end->count);
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
    weiri_tcp_item *item = weiri_tcp_append_item(stream);
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
    weiri_tcp_item *item = weiri_tcp_append_item(stream);
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
        const weiri_tcp_op *op = weiri_tcp_op_at(end, i);
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
    weiri_tcp_item *item = status == WEIR_OK ? weiri_tcp_append_item(stream) : NULL;
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
    weiri_tcp_item *item = status == WEIR_OK ? weiri_tcp_append_item(end->streams[0]) : NULL;
    if (!item)
        return tcp_fail_no_memory(end);
    size_t bytes = strnlen(text, WEIRI_TCP_TEXT_BYTES / 2);
    item->frame =
        (weiri_tcp_frame){.kind = WEIRI_TCP_BYE, .to = (uint64_t)(int64_t)why, .value = bytes};
    item->payload = text;
    item->payload_bytes = bytes;
    return WEIR_OK;
}
