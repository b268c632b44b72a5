/*
 * GPU memory in the tcp transport: payloads pass through pinned staging buffers (staging.h). Each
 * stream has two slots per direction, so that one is copied while the other one passes through the
 * socket, and streams do not wait for each other.
 *
 * Sending: the first payloads of a queue are copied to slots before they are written. Receiving: a
 * slot is copied to GPU memory when it is full or the payload ends. A frame counts as processed
 * only once its copies have ended; later frames of the stream wait for that.
 */
#include "transport/net/tcp.h"

#include "base/error.h"

#include <string.h>

static const weiri_staging *stage_of(const weiri_tcp_endpoint *end)
{
    return &((const weiri_tcp_net *)end->base.net)->stage;
}

/* --------------------------------------------------------------------- slots */

weir_status weiri_tcp_staging_add(weiri_tcp_net *net, const void *memory)
{
    weir_status status = weiri_staging_add(&net->stage, &net->base, memory);
    for (weiri_tcp_endpoint *end = net->endpoints; end && status == WEIR_OK; end = end->next)
        if (end->is_connected)
            status = weiri_tcp_staging_prepare(end);
    return status;
}

weir_status weiri_tcp_staging_prepare(weiri_tcp_endpoint *end)
{
    const weiri_staging *stage = stage_of(end);
    weir_status status = WEIR_OK;
    for (int i = 0; stage->context && i < end->nstreams; i++)
        for (int j = 0; j < WEIRI_TCP_SLOTS && status == WEIR_OK; j++) {
            weiri_tcp_stream *stream = end->streams[i];
            status =
                weiri_staging_slot_open(stage, WEIRI_STAGING_BUFFER_BYTES, &stream->out[j].stage);
            if (status == WEIR_OK)
                status = weiri_staging_slot_open(stage, WEIRI_STAGING_BUFFER_BYTES,
                                                 &stream->into[j].stage);
        }
    return status;
}

void weiri_tcp_staging_drop(weiri_tcp_stream *stream)
{
    const weiri_staging *stage = stage_of(stream->endpoint);
    for (int j = 0; stage->context && j < WEIRI_TCP_SLOTS; j++) {
        weiri_staging_slot_close(stage, &stream->out[j].stage);
        weiri_staging_slot_close(stage, &stream->into[j].stage);
    }
}

/* ------------------------------------------------------------------- sending */

weir_status weiri_tcp_staging_out(weiri_tcp_stream *stream, weiri_tcp_item *item)
{
    const weiri_staging *stage = stage_of(stream->endpoint);
    for (int j = 0; j < WEIRI_TCP_SLOTS && !item->slot; j++) {
        weiri_tcp_slot *slot = &stream->out[j];
        if (slot->is_busy)
            continue;
        weir_status status =
            stage->ops->copy_out(stage->context, &slot->stage, item->payload, item->payload_bytes);
        if (status != WEIR_OK)
            return status;
        slot->is_busy = 1;
        slot->is_copied = 0;
        item->slot = slot;
        item->payload = slot->stage.buffer;
    }
    return WEIR_OK;
}

weir_status weiri_tcp_staging_is_out(weiri_tcp_stream *stream, const weiri_tcp_item *item,
                                     int *ready)
{
    const weiri_staging *stage = stage_of(stream->endpoint);
    weir_status status = WEIR_OK;
    *ready = !item->is_staged;
    if (!item->slot)
        return status;
    if (!item->slot->is_copied)
        status = stage->ops->is_done(stage->context, &item->slot->stage, &item->slot->is_copied);
    *ready = item->slot->is_copied;
    return status;
}

/* ----------------------------------------------------------------- receiving */

weiri_tcp_slot *weiri_tcp_staging_room(weiri_tcp_stream *stream)
{
    weiri_tcp_slot *slot = &stream->into[stream->into_next];
    return slot->is_busy ? NULL : slot;
}

weir_status weiri_tcp_staging_in(weiri_tcp_stream *stream, size_t bytes, int ends_frame)
{
    const weiri_staging *stage = stage_of(stream->endpoint);
    weiri_tcp_slot *slot = &stream->into[stream->into_next];
    weir_status status = stage->ops->copy_in(stage->context, &slot->stage, stream->payload, bytes);
    if (status != WEIR_OK)
        return status;
    slot->is_busy = 1;
    slot->frames = ends_frame ? 1 : 0;
    stream->payload += bytes;
    stream->into_next = (stream->into_next + 1) % WEIRI_TCP_SLOTS;
    return WEIR_OK;
}

weir_status weiri_tcp_staging_settle(weiri_tcp_stream *stream, uint64_t *frames, int *ended)
{
    const weiri_staging *stage = stage_of(stream->endpoint);
    for (int j = 0; j < WEIRI_TCP_SLOTS; j++) {
        /* In the order in which the copies were started. */
        weiri_tcp_slot *slot = &stream->into[(stream->into_next + j) % WEIRI_TCP_SLOTS];
        int done = 0;
        if (!slot->is_busy)
            continue;
        weir_status status = stage->ops->is_done(stage->context, &slot->stage, &done);
        if (status != WEIR_OK || !done)
            return status;
        slot->is_busy = 0;
        *frames += slot->frames;
        *ended = 1;
    }
    return WEIR_OK;
}

int weiri_tcp_staging_copies(const weiri_tcp_stream *stream)
{
    int busy = 0;
    for (int j = 0; j < WEIRI_TCP_SLOTS; j++)
        busy |= stream->into[j].is_busy;
    return busy;
}
