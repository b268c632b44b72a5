/*
 * Operations into work requests: the ring of those that wait, and what the queue pair is given of
 * it. Positions in rings and queues only grow; their place is the rest by the length.
 *
 * A request's number (wr_id) names the endpoint and the count of requests, so that completions
 * of endpoints that are gone, or of work before an error, are told apart.
 */
#include "transport/ib_wire.h"

#include "base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Puts from this length on start at once; shorter ones wait for the signal that follows, or for
 * the next progress, and go with it. */
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
    struct ibv_sge pieces[WEIRI_IB_BATCH];
    int count;
} ib_batch;

static uint64_t room(const weiri_ib_endpoint *end)
{
    return (uint64_t)end->ib->sends - (end->requests - end->requests_done);
}

/* One more request in a batch; after it, so many operations are complete. */
static struct ibv_send_wr *add_request(weiri_ib_endpoint *end, ib_batch *batch, uint64_t after)
{
    struct ibv_send_wr *request = &batch->requests[batch->count];
    *request = (struct ibv_send_wr){.wr_id = request_number(end, end->requests, 0),
                                    .sg_list = &batch->pieces[batch->count]};
    if (batch->count > 0)
        batch->requests[batch->count - 1].next = request;
    batch->count++;
    end->after[end->requests++ % WEIRI_IB_SENDS] = after;
    return request;
}

static void add_signal(weiri_ib_endpoint *end, ib_batch *batch, const weiri_ib_op *op,
                       uint64_t after)
{
    uint64_t *word = &end->words[end->requests % WEIRI_IB_SENDS];
    *word = op->value;
    struct ibv_send_wr *request = add_request(end, batch, after);
    *request->sg_list = (struct ibv_sge){
        .addr = (uint64_t)(uintptr_t)word, .length = sizeof *word, .lkey = end->words_mr->lkey};
    request->num_sge = 1;
    request->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request->imm_data = WEIRI_IB_SIGNAL;
    request->send_flags = end->inline_bytes >= sizeof *word ? IBV_SEND_INLINE : 0;
    request->wr.rdma.remote_addr = op->remote;
    request->wr.rdma.rkey = op->rkey;
}

/* The next piece of a put; 1 if that was the last. */
static int add_piece(weiri_ib_endpoint *end, ib_batch *batch, const weiri_ib_op *op, uint64_t after)
{
    uint64_t left = op->bytes - end->head_done;
    uint32_t length = left < end->ib->chunk_bytes ? (uint32_t)left : end->ib->chunk_bytes;
    int is_last = left == length;
    struct ibv_send_wr *request = add_request(end, batch, is_last ? after : after - 1);
    *request->sg_list = (struct ibv_sge){
        .addr = op->local + end->head_done, .length = length, .lkey = op->lkey};
    request->num_sge = length > 0;
    request->opcode = IBV_WR_RDMA_WRITE;
    request->send_flags =
        op->is_host && length > 0 && length <= end->inline_bytes ? IBV_SEND_INLINE : 0;
    request->wr.rdma.remote_addr = op->remote + end->head_done;
    request->wr.rdma.rkey = op->rkey;
    end->head_done = is_last ? 0 : end->head_done + length;
    return is_last;
}

/* Hands a batch to the device. */
static int ring(weiri_ib_endpoint *end, ib_batch *batch)
{
    struct ibv_send_wr *bad = NULL;
    batch->requests[batch->count - 1].send_flags |= IBV_SEND_SIGNALED;
    int error = ibv_post_send(end->qp, batch->requests, &bad);
    if (error)
        weiri_ib_fail(end, WEIR_ERR_SYSTEM, "RDMA port %s takes no work for %s: %s",
                      end->ib->name, end->peer_name, strerror(error > 0 ? error : errno));
    return !error;
}

int weiri_ib_post(weiri_ib_endpoint *end)
{
    int posted = 0;
    while (end->connected_ns && end->base.failed == WEIR_OK && end->head != end->tail &&
           room(end) > 0) {
        ib_batch batch;
        batch.count = 0; /* the rest is filled as it is used */
        uint64_t most = room(end) < WEIRI_IB_BATCH ? room(end) : WEIRI_IB_BATCH;
        uint64_t sent = end->base.sent;
        while ((uint64_t)batch.count < most && end->head != end->tail) {
            const weiri_ib_op *op = &end->ops[end->head & (end->capacity - 1)];
            int whole = 1;
            if (op->is_signal)
                add_signal(end, &batch, op, sent + 1);
            else
                whole = add_piece(end, &batch, op, sent + 1);
            end->head += (uint64_t)whole;
            sent += (uint64_t)whole;
        }
        if (ring(end, &batch))
            end->base.sent = sent;
        posted = 1;
    }
    return posted;
}

/* An empty write. */
static void post_empty(weiri_ib_endpoint *end, enum ibv_wr_opcode opcode)
{
    ib_batch batch;
    batch.count = 0;
    struct ibv_send_wr *request = add_request(end, &batch, end->base.sent);
    request->opcode = opcode;
    request->imm_data = WEIRI_IB_GREETING;
    ring(end, &batch);
}

void weiri_ib_greet(weiri_ib_endpoint *end)
{
    post_empty(end, IBV_WR_RDMA_WRITE_WITH_IMM);
}

void weiri_ib_nudge(weiri_ib_endpoint *end)
{
    if (end->connected_ns && end->requests != end->requests_done && room(end) > 0)
        post_empty(end, IBV_WR_RDMA_WRITE);
}

/* ----------------------------------------------------------------- operations */

/* A place at the end of the ring, which grows; NULL: no memory. Until the peer is known to be
 * there, what was posted may have to be posted again. */
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

static weir_status take(weiri_ib_endpoint *end, const weiri_ib_op *op, int at_once)
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

/* The key as ours, if [to, to + bytes) is in the memory that it names. */
static weir_status read_key(const weiri_ib_endpoint *end, const weiri_wire_key *key, uint64_t to,
                            uint64_t bytes, weiri_ib_key *own)
{
    memcpy(own, key->bytes, sizeof *own);
    if (own->magic != WEIRI_IB_MAGIC)
        return weiri_fail(WEIR_ERR_INVALID, "no key of the transport ib for memory of %s",
                          end->peer_name);
    if (to > own->bytes || bytes > own->bytes - to)
        return weiri_fail(WEIR_ERR_INVALID,
                          "%llu bytes at offset %llu: beyond %s's memory of %llu bytes",
                          (unsigned long long)bytes, (unsigned long long)to, end->peer_name,
                          (unsigned long long)own->bytes);
    return WEIR_OK;
}

weir_status weiri_ib_put(weiri_endpoint *endpoint, const weiri_wire_mem *mem, uint64_t at,
                         const weiri_wire_key *key, uint64_t to, uint64_t bytes)
{
    weiri_ib_endpoint *end = (weiri_ib_endpoint *)(void *)endpoint;
    const weiri_ib_mem *own = (const weiri_ib_mem *)(const void *)mem;
    weiri_ib_key theirs;
    weir_status status = weiri_wire_check_source(mem, at, bytes);
    if (status == WEIR_OK)
        status = read_key(end, key, to, bytes, &theirs);
    if (status != WEIR_OK)
        return status;
    const weiri_ib_op op = {.local = (uint64_t)(uintptr_t)mem->base + at,
                            .remote = theirs.base + to,
                            .bytes = bytes,
                            .lkey = own->mr ? own->mr->lkey : 0,
                            .rkey = theirs.rkey,
                            .is_host = own->is_host};
    return take(end, &op, bytes >= AT_ONCE_BYTES);
}

weir_status weiri_ib_signal(weiri_endpoint *endpoint, const weiri_wire_key *key, uint64_t to,
                            uint64_t value)
{
    weiri_ib_endpoint *end = (weiri_ib_endpoint *)(void *)endpoint;
    weiri_ib_key theirs;
    weir_status status = read_key(end, key, to, sizeof value, &theirs);
    if (status != WEIR_OK)
        return status;
    if ((theirs.base + to) % sizeof value)
        return weiri_fail(WEIR_ERR_INVALID, "a signal to offset %llu: expected a multiple of 8",
                          (unsigned long long)to);
    const weiri_ib_op op = {
        .remote = theirs.base + to, .value = value, .rkey = theirs.rkey, .is_signal = 1};
    return take(end, &op, 1);
}
