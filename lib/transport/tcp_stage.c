/* The part of staging that knows streams and queues, but not CUDA. */
#include "transport/tcp.h"

#include "base/error.h"

#include <string.h>

static const weiri_tcp_wire *wire_of(const weiri_tcp_stream *stream)
{
    return (const weiri_tcp_wire *)stream->endpoint->base.wire;
}

/* ------------------------------------------------------------------- buffers */

weir_status weiri_tcp_stage_add(weiri_tcp_wire *wire, const void *memory)
{
    if (!wire->stage_ops)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "rank %d: the tcp wire takes host memory only, since this build has no "
                          "CUDA",
                          wire->base.rank);
    if (!wire->stage) {
        weir_status status = wire->stage_ops->open(memory, &wire->stage);
        if (status != WEIR_OK)
            return status;
    } else if (!wire->stage_ops->holds(wire->stage, memory)) {
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "rank %d: the tcp wire takes memory of one GPU, and %p is none of it",
                          wire->base.rank, memory);
    }
    weir_status status = WEIR_OK;
    for (weiri_tcp_endpoint *end = wire->endpoints; end && status == WEIR_OK; end = end->next)
        if (end->is_connected)
            status = weiri_tcp_stage_prepare(end);
    return status;
}

weir_status weiri_tcp_stage_prepare(weiri_tcp_endpoint *end)
{
    const weiri_tcp_wire *wire = (const weiri_tcp_wire *)end->base.wire;
    weir_status status = WEIR_OK;
    for (int i = 0; wire->stage && i < end->nstreams; i++)
        for (int j = 0; j < WEIRI_TCP_SLOTS && status == WEIR_OK; j++) {
            weiri_tcp_stream *stream = end->streams[i];
            if (!stream->out[j].buffer)
                status = wire->stage_ops->slot_open(wire->stage, &stream->out[j]);
            if (status == WEIR_OK && !stream->into[j].buffer)
                status = wire->stage_ops->slot_open(wire->stage, &stream->into[j]);
        }
    return status;
}

void weiri_tcp_stage_drop(weiri_tcp_stream *stream)
{
    const weiri_tcp_wire *wire = wire_of(stream);
    for (int j = 0; wire->stage && j < WEIRI_TCP_SLOTS; j++) {
        if (stream->out[j].buffer)
            wire->stage_ops->slot_close(wire->stage, &stream->out[j]);
        if (stream->into[j].buffer)
            wire->stage_ops->slot_close(wire->stage, &stream->into[j]);
    }
}

/* ------------------------------------------------------------------- sending */

weir_status weiri_tcp_stage_out(weiri_tcp_stream *stream, weiri_tcp_item *item)
{
    const weiri_tcp_wire *wire = wire_of(stream);
    for (int j = 0; j < WEIRI_TCP_SLOTS && !item->slot; j++) {
        weiri_tcp_slot *slot = &stream->out[j];
        if (slot->is_busy)
            continue;
        weir_status status = wire->stage_ops->copy_out(wire->stage, slot, item->payload,
                                                       item->payload_bytes);
        if (status != WEIR_OK)
            return status;
        slot->is_busy = 1;
        slot->is_copied = 0;
        item->slot = slot;
        item->payload = slot->buffer;
    }
    return WEIR_OK;
}

weir_status weiri_tcp_stage_is_out(weiri_tcp_stream *stream, const weiri_tcp_item *item,
                                   int *ready)
{
    const weiri_tcp_wire *wire = wire_of(stream);
    weir_status status = WEIR_OK;
    *ready = !item->is_staged;
    if (!item->slot)
        return status;
    if (!item->slot->is_copied)
        status = wire->stage_ops->is_done(wire->stage, item->slot, &item->slot->is_copied);
    *ready = item->slot->is_copied;
    return status;
}

/* ----------------------------------------------------------------- receiving */

weiri_tcp_slot *weiri_tcp_stage_room(weiri_tcp_stream *stream)
{
    weiri_tcp_slot *slot = &stream->into[stream->into_next];
    return slot->is_busy ? NULL : slot;
}

weir_status weiri_tcp_stage_in(weiri_tcp_stream *stream, size_t bytes, int ends_frame)
{
    const weiri_tcp_wire *wire = wire_of(stream);
    weiri_tcp_slot *slot = &stream->into[stream->into_next];
    weir_status status = wire->stage_ops->copy_in(wire->stage, slot, stream->payload, bytes);
    if (status != WEIR_OK)
        return status;
    slot->is_busy = 1;
    slot->frames = ends_frame ? 1 : 0;
    stream->payload += bytes;
    stream->into_next = (stream->into_next + 1) % WEIRI_TCP_SLOTS;
    return WEIR_OK;
}

weir_status weiri_tcp_stage_settle(weiri_tcp_stream *stream, uint64_t *frames, int *ended)
{
    const weiri_tcp_wire *wire = wire_of(stream);
    for (int j = 0; j < WEIRI_TCP_SLOTS; j++) {
        /* The older copy first. */
        weiri_tcp_slot *slot = &stream->into[(stream->into_next + j) % WEIRI_TCP_SLOTS];
        int done = 0;
        if (!slot->is_busy)
            continue;
        weir_status status = wire->stage_ops->is_done(wire->stage, slot, &done);
        if (status != WEIR_OK || !done)
            return status;
        slot->is_busy = 0;
        *frames += slot->frames;
        *ended = 1;
    }
    return WEIR_OK;
}

int weiri_tcp_stage_copies(const weiri_tcp_stream *stream)
{
    int busy = 0;
    for (int j = 0; j < WEIRI_TCP_SLOTS; j++)
        busy |= stream->into[j].is_busy;
    return busy;
}
