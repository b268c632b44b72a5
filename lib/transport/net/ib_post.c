/*
 * Turns operations into work requests: the ring of waiting operations, and posting from it to the
 * queue pair. Positions in rings and queues only grow; an index is the position modulo the length.
 *
 * A request's number (wr_id) contains the endpoint and the number of the request, so that
 * completions of destroyed endpoints, or of work before an error, are recognised.
 */
#include "transport/net/ib.h"

#include "base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Puts of at least this length are posted at once; shorter ones are posted together with the signal
 * that follows, or by the next progress. */
enum { AT_ONCE_BYTES = 4096 };

static uint64_t request_number(const weiri_ib_endpoint *end, uint64_t request, int is_receive)
{
    return (request & UINT32_MAX) << 32 | (uint64_t)end->generation << 17 |
           (uint64_t)end->slot << 1 | (uint64_t)is_receive;
}

int weiri_ib_post_receives(weiri_ib_endpoint *end, int all)
{
    struct ibv_recv_wr requests[WEIRI_IB_BATCH], *bad;
    int posted = 0;
    while (end->taken >= WEIRI_IB_BATCH || (all && end->taken)) {
        uint32_t count = end->taken < WEIRI_IB_BATCH ? end->taken : WEIRI_IB_BATCH;
        for (uint32_t i = 0; i < count; i++)
            requests[i] = (struct ibv_recv_wr){.wr_id = request_number(end, 0, 1),
                                               .next = i + 1 < count ? &requests[i + 1] : NULL};
        int error = ibv_post_recv(end->qp, requests, &bad);
        if (error) {
            weiri_ib_fail(end, WEIR_ERR_SYSTEM, "RDMA port %s, queue pair to %s: no receives: %s",
                          end->ib->name, end->peer_name, strerror(error > 0 ? error : errno));
            return posted;
        }
        end->taken -= count;
        posted = 1;
    }
    return posted;
}

/* ------------------------------------------------------------------- requests */

typedef struct ib_batch {
    struct ibv_send_wr requests[WEIRI_IB_BATCH];
    struct ibv_sge pieces[WEIRI_IB_BATCH][2];
    int count;
} ib_batch;

static uint64_t ib_room(const weiri_ib_endpoint *end)
{
    return (uint64_t)end->ib->sends - (end->requests - end->requests_done);
}

/* Adds a request to a batch; after is the number of operations that have arrived with it. */
static struct ibv_send_wr *add_request(weiri_ib_endpoint *end, ib_batch *batch, uint64_t after)
{
    struct ibv_send_wr *request = &batch->requests[batch->count];
    *request = (struct ibv_send_wr){.wr_id = request_number(end, end->requests, 0),
                                    .sg_list = batch->pieces[batch->count]};
    if (batch->count > 0)
        batch->requests[batch->count - 1].next = request;
    batch->count++;
    end->after[end->requests++ % WEIRI_IB_SENDS] = after;
    return request;
}

/* Whether an operation must go through the peer's inbox: the device cannot access its
 * destination, or it is a signal that would overtake pieces in the inbox. */
static int goes_to_inbox(const weiri_ib_endpoint *end, const weiri_ib_op *op)
{
    return op->staged_there || (op->is_signal && end->there.posted != end->there.credited);
}

/* Redirects a request to the next slot of the peer's inbox, with its destination in the header. */
static void redirect_to_inbox(weiri_ib_endpoint *end, struct ibv_send_wr *request, uint64_t memory,
                              uint64_t before)
{
    const uint64_t slot = end->there.posted++ % WEIRI_IB_SLOTS;
    weiri_ib_piece_header *label = &end->control->labels[(end->requests - 1) % WEIRI_IB_SENDS];
    *label = (weiri_ib_piece_header){.memory = memory, .address = request->wr.rdma.remote_addr};
    request->sg_list[1] = (struct ibv_sge){
        .addr = (uint64_t)(uintptr_t)label, .length = sizeof *label, .lkey = end->control_mr->lkey};
    request->num_sge = 2;
    request->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request->imm_data = WEIRI_IB_PIECE | request->sg_list[0].length << WEIRI_IB_KIND_BITS;
    request->send_flags = 0;
    request->wr.rdma.remote_addr = end->control->theirs.slots[slot];
    request->wr.rdma.rkey = end->control->theirs.rkeys[slot];
    end->there.before[slot] = before;
}

static void add_signal(weiri_ib_endpoint *end, ib_batch *batch, const weiri_ib_op *op,
                       uint64_t after)
{
    uint64_t *word = &end->control->words[end->requests % WEIRI_IB_SENDS];
    *word = op->value;
    struct ibv_send_wr *request = add_request(end, batch, after);
    *request->sg_list = (struct ibv_sge){
        .addr = (uint64_t)(uintptr_t)word, .length = sizeof *word, .lkey = end->control_mr->lkey};
    request->num_sge = 1;
    request->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request->imm_data = WEIRI_IB_SIGNAL;
    request->send_flags = end->inline_bytes >= sizeof *word ? IBV_SEND_INLINE : 0;
    request->wr.rdma.remote_addr = op->remote;
    request->wr.rdma.rkey = op->rkey;
    if (goes_to_inbox(end, op))
        redirect_to_inbox(end, request, op->memory, after - 1);
}

uint32_t weiri_ib_piece_bytes(const weiri_ib_endpoint *end, const weiri_ib_op *op, uint64_t done)
{
    const uint64_t left = op->bytes - done;
    const uint32_t most = op->staged_here || op->staged_there ? (uint32_t)WEIRI_STAGING_BUFFER_BYTES
                                                              : end->ib->chunk_bytes;
    return left < most ? (uint32_t)left : most;
}

/* Adds the next piece of a put; returns 1 if it was the last one. */
static int add_piece(weiri_ib_endpoint *end, ib_batch *batch, const weiri_ib_op *op, uint64_t after)
{
    uint32_t length = weiri_ib_piece_bytes(end, op, end->head_done);
    int is_last = op->bytes - end->head_done == length;
    struct ibv_sge source = {
        .addr = op->local + end->head_done, .length = length, .lkey = op->lkey};
    if (op->staged_here)
        source = weiri_ib_take_piece(end, length);
    struct ibv_send_wr *request = add_request(end, batch, is_last ? after : after - 1);
    *request->sg_list = source;
    request->num_sge = length > 0;
    request->opcode = IBV_WR_RDMA_WRITE;
    request->send_flags =
        op->is_host && length > 0 && length <= end->inline_bytes ? IBV_SEND_INLINE : 0;
    request->wr.rdma.remote_addr = op->remote + end->head_done;
    request->wr.rdma.rkey = op->rkey;
    if (goes_to_inbox(end, op))
        redirect_to_inbox(end, request, op->memory, after - 1);
    end->head_done = is_last ? 0 : end->head_done + length;
    return is_last;
}

/* Posts a batch. */
static int post_batch(weiri_ib_endpoint *end, ib_batch *batch)
{
    struct ibv_send_wr *bad = NULL;
    batch->requests[batch->count - 1].send_flags |= IBV_SEND_SIGNALED;
    int error = ibv_post_send(end->qp, batch->requests, &bad);
    if (error)
        weiri_ib_fail(end, WEIR_ERR_SYSTEM, "RDMA port %s cannot post work for %s: %s",
                      end->ib->name, end->peer_name, strerror(error > 0 ? error : errno));
    return !error;
}

/* Whether the next piece of an operation is in the outbox and the peer's inbox has a free slot, as
 * far as it needs them. */
static int can_go(const weiri_ib_endpoint *end, const weiri_ib_op *op)
{
    const weiri_ib_there *there = &end->there;
    if (op->staged_here && end->out.posted == end->out.copied)
        return 0;
    return !goes_to_inbox(end, op) ||
           (there->is_known && there->posted < there->credited + WEIRI_IB_SLOTS);
}

/* Fills a batch with requests; returns the number of operations that will be sent with it. */
static uint64_t ib_fill(weiri_ib_endpoint *end, ib_batch *batch)
{
    const uint64_t most = ib_room(end) < WEIRI_IB_BATCH ? ib_room(end) : WEIRI_IB_BATCH;
    uint64_t sent = end->base.sent;
    batch->count = 0; /* the other members are set as they are used */
    while ((uint64_t)batch->count < most && end->head != end->tail) {
        const weiri_ib_op *op = &end->ops[end->head & (end->capacity - 1)];
        int whole = 1;
        if (!can_go(end, op))
            break;
        if (op->is_signal)
            add_signal(end, batch, op, sent + 1);
        else
            whole = add_piece(end, batch, op, sent + 1);
        end->head += (uint64_t)whole;
        sent += (uint64_t)whole;
    }
    return sent;
}

int weiri_ib_post(weiri_ib_endpoint *end)
{
    int moved = weiri_ib_copy_out(end);
    while (end->connected_ns && end->base.failed == WEIR_OK) {
        ib_batch batch;
        uint64_t sent = ib_fill(end, &batch);
        if (batch.count == 0)
            break;
        if (post_batch(end, &batch))
            end->base.sent = sent;
        moved = 1;
    }
    return moved;
}

/* Posts a write that belongs to no operation. */
static struct ibv_send_wr *add_own(weiri_ib_endpoint *end, ib_batch *batch,
                                   enum ibv_wr_opcode opcode, uint32_t immediate)
{
    batch->count = 0;
    struct ibv_send_wr *request = add_request(end, batch, end->base.sent);
    request->opcode = opcode;
    request->imm_data = immediate;
    return request;
}

int weiri_ib_send_immediate(weiri_ib_endpoint *end, uint32_t kind, uint64_t value)
{
    ib_batch batch;
    if (ib_room(end) == 0)
        return 0;
    add_own(end, &batch, IBV_WR_RDMA_WRITE_WITH_IMM, kind | (uint32_t)value << WEIRI_IB_KIND_BITS);
    return post_batch(end, &batch);
}

int weiri_ib_send_inbox_address(weiri_ib_endpoint *end)
{
    ib_batch batch;
    if (ib_room(end) == 0)
        return 0;
    struct ibv_send_wr *request = add_own(end, &batch, IBV_WR_RDMA_WRITE_WITH_IMM, WEIRI_IB_INBOX);
    *request->sg_list = (struct ibv_sge){.addr = (uint64_t)(uintptr_t)&end->control->own,
                                         .length = sizeof end->control->own,
                                         .lkey = end->control_mr->lkey};
    request->num_sge = 1;
    request->wr.rdma.remote_addr = end->address.inbox;
    request->wr.rdma.rkey = end->address.inbox_rkey;
    return post_batch(end, &batch);
}

void weiri_ib_nudge(weiri_ib_endpoint *end)
{
    ib_batch batch;
    if (!end->connected_ns || end->requests == end->requests_done || ib_room(end) == 0)
        return;
    add_own(end, &batch, IBV_WR_RDMA_WRITE, 0);
    post_batch(end, &batch);
}

/* ----------------------------------------------------------------- operations */

/* A new element at the end of the ring, which grows; NULL if there is no memory. Until the peer is
 * known to be ready, posted operations stay in the ring, as they may have to be posted again. */
static weiri_ib_op *next_op(weiri_ib_endpoint *end)
{
    uint64_t oldest = end->open ? end->head : 0;
    if (end->tail - oldest == end->capacity) {
        weiri_ib_op *grown = malloc(2 * end->capacity * sizeof *grown);
        if (!grown)
            return NULL;
        for (uint64_t at = oldest; at != end->tail; at++)
            grown[at & (2 * end->capacity - 1)] = end->ops[at & (end->capacity - 1)];
        free(end->ops);
        end->ops = grown;
        end->capacity *= 2;
    }
    return &end->ops[end->tail & (end->capacity - 1)];
}

static weir_status ib_take(weiri_ib_endpoint *end, const weiri_ib_op *op, int at_once)
{
    if (end->base.failed != WEIR_OK)
        return weiri_fail(end->base.failed, "%s", end->trouble);
    weiri_ib_op *place = next_op(end);
    if (!place)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for operations to %s", end->peer_name);
    *place = *op;
    end->tail++;
    end->base.posted++;
    if (at_once)
        weiri_ib_post(end);
    end->ib->waiting |= end->head != end->tail;
    return WEIR_OK;
}

/* Decodes a key; checks that [to, to + bytes) lies within the memory that it names. */
static weir_status read_key(const weiri_ib_endpoint *end, const weiri_net_key *key, uint64_t to,
                            uint64_t bytes, weiri_ib_key *own)
{
    memcpy(own, key->bytes, sizeof *own);
    if (own->magic != WEIRI_IB_MAGIC)
        return weiri_fail(WEIR_ERR_INVALID,
                          "the key does not name memory of %s for the transport ib",
                          end->peer_name);
    if (to > own->bytes || bytes > own->bytes - to)
        return weiri_fail(WEIR_ERR_INVALID,
                          "%llu bytes at offset %llu exceed %s's memory of %llu bytes",
                          (unsigned long long)bytes, (unsigned long long)to, end->peer_name,
                          (unsigned long long)own->bytes);
    return WEIR_OK;
}

weir_status weiri_ib_put(weiri_endpoint *endpoint, const weiri_net_mem *mem, uint64_t at,
                         const weiri_net_key *key, uint64_t to, uint64_t bytes)
{
    weiri_ib_endpoint *end = (weiri_ib_endpoint *)(void *)endpoint;
    const weiri_ib_mem *own = (const weiri_ib_mem *)(const void *)mem;
    weiri_ib_key theirs;
    weir_status status = weiri_net_check_source(mem, at, bytes);
    if (status == WEIR_OK)
        status = read_key(end, key, to, bytes, &theirs);
    if (status != WEIR_OK)
        return status;
    const weiri_ib_op op = {.local = (uint64_t)(uintptr_t)mem->base + at,
                            .remote = theirs.base + to,
                            .bytes = bytes,
                            .lkey = own->mr ? own->mr->lkey : 0,
                            .memory = theirs.id,
                            .rkey = theirs.rkey,
                            .is_host = own->is_host,
                            .staged_here = own->is_staged && bytes > 0,
                            .staged_there = theirs.is_staged && bytes > 0};
    return ib_take(end, &op, bytes >= AT_ONCE_BYTES || op.staged_here);
}

weir_status weiri_ib_signal(weiri_endpoint *endpoint, const weiri_net_key *key, uint64_t to,
                            uint64_t value)
{
    weiri_ib_endpoint *end = (weiri_ib_endpoint *)(void *)endpoint;
    weiri_ib_key theirs;
    weir_status status = read_key(end, key, to, sizeof value, &theirs);
    if (status != WEIR_OK)
        return status;
    if ((theirs.base + to) % sizeof value)
        return weiri_fail(WEIR_ERR_INVALID, "a signal's offset is %llu, expected a multiple of 8",
                          (unsigned long long)to);
    const weiri_ib_op op = {.remote = theirs.base + to,
                            .value = value,
                            .memory = theirs.id,
                            .rkey = theirs.rkey,
                            .is_signal = 1,
                            .staged_there = theirs.is_staged != 0};
    return ib_take(end, &op, 1);
}
