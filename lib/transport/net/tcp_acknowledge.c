/*
 * Acknowledgements of the tcp transport, in both directions: which operations count as sent or
 * completed, and the frame that carries the counts of processed frames to the peer. tcp_progress.c
 * decides when it is sent.
 */
#include "transport/net/tcp.h"

#include <weir/target.h>

#include <string.h>

/* Advances sent: operations all of whose frames have been written. */
static void note_sent(weiri_tcp_endpoint *end)
{
    for (; end->nsent < end->count; end->nsent++, end->base.sent++) {
        const weiri_tcp_op *op = weiri_tcp_op_at(end, end->nsent);
        for (int i = 0; i < end->nstreams; i++)
            if (op->needs[i] > end->streams[i]->frames_written)
                return;
    }
}

void weiri_tcp_count_completed(weiri_tcp_endpoint *end)
{
    note_sent(end);
    while (end->count > 0) {
        const weiri_tcp_op *op = weiri_tcp_op_at(end, 0);
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
    weiri_tcp_count_completed(end);
    return 1;
}

/* Returns the item for an acknowledgement: one that is still queued, as a later one supersedes it;
 * else a new one at the front of the queue, which is independent of what is queued there, but after
 * a frame that is partly written. NULL if there is no memory. */
static weiri_tcp_item *tcp_acknowledgement(weiri_tcp_stream *stream)
{
    size_t at = stream->head_sent > 0;
    if (stream->count > at && weiri_tcp_item_at(stream, at)->frame.kind == WEIRI_TCP_ACK)
        return weiri_tcp_item_at(stream, at);
    if (!weiri_tcp_append_item(stream))
        return NULL;
    stream->head = (stream->head - 1) & (stream->capacity - 1);
    if (at > 0)
        *weiri_tcp_item_at(stream, 0) = *weiri_tcp_item_at(stream, 1);
    weiri_tcp_item *item = weiri_tcp_item_at(stream, at);
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
