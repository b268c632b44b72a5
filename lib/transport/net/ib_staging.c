/*
 * Staged GPU memory of the ib transport (ib.h explains the protocol): an endpoint's boxes, pieces
 * that are copied into its outbox, and pieces that the peer has written into its inbox.
 */
#include "transport/net/ib.h"

#include "base/error.h"
#include <weir/target.h>

#include <errno.h>
#include <string.h>

/* --------------------------------------------------------------------- boxes */

static weir_status open_slot(weiri_ib_net *ib, weiri_ib_slot *slot)
{
    const size_t bytes = WEIRI_STAGING_BUFFER_BYTES + sizeof(weiri_ib_piece_header);
    weir_status status = weiri_staging_slot_open(&ib->stage, bytes, &slot->stage);
    if (status != WEIR_OK || slot->mr)
        return status;
    slot->mr = ib->verbs->reg_mr(ib->pd, slot->stage.buffer, bytes,
                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    return slot->mr ? WEIR_OK : weiri_ib_refused(ib, errno, "pinned memory", bytes);
}

static void close_slot(weiri_ib_net *ib, weiri_ib_slot *slot)
{
    if (slot->mr)
        ib->verbs->dereg_mr(slot->mr);
    weiri_staging_slot_close(&ib->stage, &slot->stage);
}

weir_status weiri_ib_boxes_open(weiri_ib_endpoint *end)
{
    weir_status status = WEIR_OK;
    if (!end->ib->stage.context || end->has_boxes)
        return WEIR_OK;
    for (int i = 0; i < WEIRI_IB_SLOTS && status == WEIR_OK; i++) {
        status = open_slot(end->ib, &end->out.slots[i]);
        if (status == WEIR_OK)
            status = open_slot(end->ib, &end->in.slots[i]);
    }
    for (int i = 0; i < WEIRI_IB_SLOTS && status == WEIR_OK; i++) {
        end->control->own.slots[i] = (uint64_t)(uintptr_t)end->in.slots[i].stage.buffer;
        end->control->own.rkeys[i] = end->in.slots[i].mr->rkey;
    }
    end->has_boxes = status == WEIR_OK;
    /* If the peer is ready, send it the inbox address now: this rank may make no progress until
     * the peer's next put. */
    weiri_ib_empty_inbox(end);
    return status;
}

void weiri_ib_boxes_close(weiri_ib_endpoint *end)
{
    for (int i = 0; i < WEIRI_IB_SLOTS; i++) {
        close_slot(end->ib, &end->out.slots[i]);
        close_slot(end->ib, &end->in.slots[i]);
    }
}

weir_status weiri_ib_staging_add(weiri_ib_net *ib, const void *memory)
{
    weir_status status = weiri_staging_add(&ib->stage, &ib->base, memory);
    for (uint32_t i = 0; i < ib->nslots && status == WEIR_OK; i++)
        if (ib->slots[i])
            status = weiri_ib_boxes_open(ib->slots[i]);
    return status;
}

/* -------------------------------------------------------------------- copies */

static void fail_copy(weiri_ib_endpoint *end, weir_status status)
{
    weiri_ib_fail(end, status, "%s: %s", end->peer_name, weir_last_error());
}

/* Advances *copied over the copies that have ended, up to begun. */
static int count_ended(weiri_ib_endpoint *end, const weiri_ib_slot *slots, uint64_t begun,
                       uint64_t *copied)
{
    const weiri_staging *stage = &end->ib->stage;
    int moved = 0, done = 1;
    while (*copied < begun && done) {
        weir_status status =
            stage->ops->is_done(stage->context, &slots[*copied % WEIRI_IB_SLOTS].stage, &done);
        if (status != WEIR_OK) {
            fail_copy(end, status);
            break;
        }
        *copied += (uint64_t)done;
        moved |= done;
    }
    return moved;
}

int weiri_ib_is_copying(const weiri_ib_endpoint *end)
{
    return end->out.copied != end->out.begun || end->in.copied != end->in.begun;
}

/* -------------------------------------------------------------------- outbox */

/* The next operation with data to copy to the outbox; NULL if there is none. */
static const weiri_ib_op *next_source(weiri_ib_endpoint *end)
{
    weiri_ib_outbox *out = &end->out;
    for (; out->next < end->tail; out->next++, out->next_done = 0) {
        const weiri_ib_op *op = &end->ops[out->next & (end->capacity - 1)];
        if (op->staged_here && out->next_done < op->bytes)
            return op;
    }
    return NULL;
}

int weiri_ib_copy_out(weiri_ib_endpoint *end)
{
    const weiri_staging *stage = &end->ib->stage;
    weiri_ib_outbox *out = &end->out;
    const weiri_ib_op *op;
    if (!end->has_boxes || !end->open)
        return 0;
    int moved = count_ended(end, out->slots, out->begun, &out->copied);
    while (out->freed < out->posted &&
           out->slots[out->freed % WEIRI_IB_SLOTS].request < end->requests_done)
        out->freed++;
    while (out->begun < out->freed + WEIRI_IB_SLOTS && (op = next_source(end))) {
        weiri_ib_slot *slot = &out->slots[out->begun % WEIRI_IB_SLOTS];
        uint32_t bytes = weiri_ib_piece_bytes(end, op, out->next_done);
        const void *from = (const void *)(uintptr_t)(op->local + out->next_done);
        weir_status status = stage->ops->copy_out(stage->context, &slot->stage, from, bytes);
        if (status != WEIR_OK) {
            fail_copy(end, status);
            break;
        }
        out->next_done += bytes;
        out->begun++;
        moved = 1;
    }
    return moved;
}

struct ibv_sge weiri_ib_take_piece(weiri_ib_endpoint *end, uint32_t bytes)
{
    weiri_ib_slot *slot = &end->out.slots[end->out.posted++ % WEIRI_IB_SLOTS];
    slot->request = end->requests;
    return (struct ibv_sge){
        .addr = (uint64_t)(uintptr_t)slot->stage.buffer, .length = bytes, .lkey = slot->mr->lkey};
}

void weiri_ib_credited(weiri_ib_endpoint *end, uint32_t pieces)
{
    /* The immediate holds the low bits of a counter that is at most WEIRI_IB_SLOTS ahead. */
    const uint32_t bits = UINT32_MAX >> WEIRI_IB_KIND_BITS;
    end->there.credited += (pieces - (uint32_t)end->there.credited) & bits;
    weiri_ib_settle(end);
}

/* --------------------------------------------------------------------- inbox */

void weiri_ib_landed(weiri_ib_endpoint *end, uint32_t bytes)
{
    weiri_ib_inbox *in = &end->in;
    if (!end->has_boxes || in->landed - in->reported == WEIRI_IB_SLOTS ||
        bytes > WEIRI_STAGING_BUFFER_BYTES) {
        weiri_ib_fail(end, WEIR_ERR_PEER,
                      "%s sent %u bytes where there is no room for them; do all ranks run the "
                      "same build of weir?",
                      end->peer_name, bytes);
        return;
    }
    in->slots[in->landed++ % WEIRI_IB_SLOTS].bytes = bytes;
}

/* A piece is addressed to unregistered memory: fails both ends. */
static void refuse_piece(weiri_ib_endpoint *end, uint32_t bytes)
{
    weiri_ib_send_immediate(end, WEIRI_IB_REFUSAL, 0);
    weiri_ib_fail(end, WEIR_ERR_SYSTEM,
                  "%s wrote %u bytes to memory that rank %d has not registered, or no longer; keep "
                  "it registered while peers use its key",
                  end->peer_name, bytes, end->base.net->rank);
}

/* Stores a signal's word once all copies have ended; returns whether they have. */
static int take_signal(weiri_ib_inbox *in, const weiri_ib_slot *slot, uint64_t address)
{
    uint64_t value;
    if (in->copied != in->begun)
        return 0;
    memcpy(&value, slot->stage.buffer, sizeof value);
    weir_store_release((uint64_t *)(uintptr_t)address, value);
    in->copied = ++in->begun;
    return 1;
}

/* Starts copying the next piece to its destination; returns 0 if it must wait or the endpoint
 * failed. */
static int ib_take_piece(weiri_ib_endpoint *end)
{
    const weiri_staging *stage = &end->ib->stage;
    weiri_ib_inbox *in = &end->in;
    weiri_ib_slot *slot = &in->slots[in->begun % WEIRI_IB_SLOTS];
    weiri_ib_piece_header header;
    memcpy(&header, slot->stage.buffer + slot->bytes, sizeof header);
    const weiri_ib_mem *mem = weiri_ib_mem_at(end->ib, &header, slot->bytes);
    if (!mem || (mem->is_host && slot->bytes != sizeof(uint64_t))) {
        refuse_piece(end, slot->bytes);
        return 0;
    }
    if (mem->is_host)
        return take_signal(in, slot, header.address);
    weir_status status = stage->ops->copy_in(stage->context, &slot->stage,
                                             (void *)(uintptr_t)header.address, slot->bytes);
    if (status != WEIR_OK)
        fail_copy(end, status);
    in->begun += status == WEIR_OK;
    return status == WEIR_OK;
}

int weiri_ib_empty_inbox(weiri_ib_endpoint *end)
{
    weiri_ib_inbox *in = &end->in;
    if (!end->has_boxes || !end->open)
        return 0;
    if (!end->has_sent_inbox)
        end->has_sent_inbox = weiri_ib_send_inbox_address(end);
    int moved = count_ended(end, in->slots, in->begun, &in->copied);
    while (end->base.failed == WEIR_OK && in->begun != in->landed && ib_take_piece(end))
        moved = 1;
    if (end->base.failed == WEIR_OK && in->reported != in->copied &&
        weiri_ib_send_immediate(end, WEIRI_IB_CREDIT, in->copied))
        in->reported = in->copied;
    return moved;
}
