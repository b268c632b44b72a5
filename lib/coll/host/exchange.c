/*
 * Messages between pairs: alltoall, alltoallv and sendrecv. For every peer the
 * sender decides how its message travels and says so in the message itself, so
 * nothing has to be agreed, and sizes may change on every call:
 *
 *   small   on the flag's line
 *   packet  in the message's memory behind it, chunk by chunk
 *   direct  not at all: the reader copies from the sender's buffer, whose place
 *           the message carries
 *   stream  longer than the message's memory and not in library memory: piece
 *           after piece through its two halves; the reader's consumed word
 *           frees them
 *
 * A message is sent for zero bytes, too, so that hearing from every peer keeps
 * its meaning for the epochs. A rank leaves when it has received everything,
 * all its streams are under way to the end, and every reader of its buffers has
 * finished.
 */
#include "coll/algos.h"
#include "coll/host/slot.h"
#include "comm/node/peer_copy.h"

/* Where a pair's stream stands, in pieces, on the sender's side. */
typedef struct progress {
    uint64_t streamed; /* pieces stored */
    int received;      /* the incoming message is complete */
    uint64_t consumed; /* pieces of the incoming stream copied */
} progress;

typedef struct exchange {
    weiri_coll *coll;
    const char *phase;
    size_t direct_from_bytes;
    int lends; /* whether any peer copies from this rank's buffer */
    progress of[WEIRI_RANKS_MAX];
} exchange;

static size_t stream_piece_bytes(const weiri_coll *coll)
{
    return coll->message_bytes / 2 / WEIR_LINE_BYTES * WEIR_LINE_BYTES;
}

static uint64_t stream_pieces(const weiri_coll *coll, size_t bytes)
{
    size_t piece = stream_piece_bytes(coll);
    return (bytes + piece - 1) / piece;
}

/* Copies into the message's memory and steps the flag behind each chunk. */
static void send_packet(const weiri_coll *coll, weiri_message *message, char *payload,
                        const weiri_pair *pair)
{
    message->bytes = pair->send_bytes;
    for (size_t at = 0; at < pair->send_bytes; at += WEIRI_CHUNK_BYTES) {
        size_t left = pair->send_bytes - at;
        size_t length = left < WEIRI_CHUNK_BYTES ? left : WEIRI_CHUNK_BYTES;
        memcpy(payload + at, pair->from + at, length);
        weir_store_release(&message->flag, weiri_flag(coll->epoch, at / WEIRI_CHUNK_BYTES + 1));
    }
}

/* Small messages say their length in the kind word's neighbour. */
static void send_small(const weiri_coll *coll, weiri_message *message, const weiri_pair *pair)
{
    message->small_bytes = (uint32_t)pair->send_bytes;
    memcpy(message->small, pair->from, pair->send_bytes);
    weir_store_release(&message->flag, weiri_flag(coll->epoch, 1));
}

static void send_first(exchange *x, int peer)
{
    weiri_coll *coll = x->coll;
    const weiri_pair *pair = &coll->pairs[peer];
    weiri_message *message = weiri_coll_message(coll, coll->rank, peer);
    if (pair->send_bytes <= WEIRI_MESSAGE_INLINE_BYTES) {
        message->kind = WEIRI_MESSAGE_SMALL;
        send_small(coll, message, pair);
        return;
    }
    weiri_desc desc = {0, 0, 0};
    if (pair->send_bytes >= x->direct_from_bytes)
        desc = weiri_peer_copy_describe(coll->comm, pair->from, pair->send_bytes);
    if (desc.generation == WEIRI_GENERATION_UNREGISTERED &&
        !weiri_copies_plain(coll, pair->send_bytes))
        desc.generation = 0;
    if (desc.generation) {
        message->kind = WEIRI_MESSAGE_DIRECT;
        message->bytes = pair->send_bytes;
        message->desc = desc;
        x->lends = 1;
        weir_store_release(&message->flag, weiri_flag(coll->epoch, 1));
    } else if (pair->send_bytes <= coll->message_bytes) {
        message->kind = WEIRI_MESSAGE_PACKET;
        send_packet(coll, message, weiri_coll_payload(coll, coll->rank, peer), pair);
    } else {
        message->kind = WEIRI_MESSAGE_STREAM;
        message->bytes = pair->send_bytes;
        weir_store_release(&message->flag, weiri_flag(coll->epoch, 0));
    }
}

/* Stores the next pieces of a stream that has room. 1 if it moved. */
static int send_more(exchange *x, int peer)
{
    weiri_coll *coll = x->coll;
    const weiri_pair *pair = &coll->pairs[peer];
    weiri_message *message = weiri_coll_message(coll, coll->rank, peer);
    if (pair->send_bytes <= WEIRI_MESSAGE_INLINE_BYTES || message->kind != WEIRI_MESSAGE_STREAM)
        return 0;
    char *payload = weiri_coll_payload(coll, coll->rank, peer);
    size_t piece = stream_piece_bytes(coll);
    uint64_t pieces = stream_pieces(coll, pair->send_bytes);
    uint64_t *streamed = &x->of[peer].streamed;
    int moved = 0;
    while (*streamed < pieces) {
        uint64_t consumed = weir_load_acquire(&coll->areas[peer].consumed[coll->rank].value);
        uint64_t base = weiri_flag(coll->epoch, 0);
        consumed = consumed > base ? consumed - base : 0;
        if (*streamed >= consumed + 2)
            break;
        size_t at = *streamed * piece, left = pair->send_bytes - at;
        memcpy(payload + *streamed % 2 * piece, pair->from + at, left < piece ? left : piece);
        ++*streamed;
        weir_store_release(&message->flag, weiri_flag(coll->epoch, *streamed));
        moved = 1;
    }
    return moved;
}

static int sending(const exchange *x, int peer)
{
    const weiri_coll *coll = x->coll;
    const weiri_pair *pair = &coll->pairs[peer];
    const weiri_message *message = weiri_coll_message(coll, coll->rank, peer);
    return pair->sends && pair->send_bytes > WEIRI_MESSAGE_INLINE_BYTES &&
           message->kind == WEIRI_MESSAGE_STREAM &&
           x->of[peer].streamed < stream_pieces(coll, pair->send_bytes);
}

static weir_status receive_packet(exchange *x, int peer, const weiri_message *message)
{
    weiri_coll *coll = x->coll;
    const weiri_pair *pair = &coll->pairs[peer];
    const char *payload = weiri_coll_payload(coll, peer, coll->rank);
    for (size_t at = 0; at < pair->recv_bytes; at += WEIRI_CHUNK_BYTES) {
        size_t left = pair->recv_bytes - at;
        weir_status status =
            weiri_comm_wait(coll->comm, &message->flag,
                            weiri_flag(coll->epoch, at / WEIRI_CHUNK_BYTES + 1), peer, x->phase);
        if (status != WEIR_OK)
            return status;
        memcpy(pair->to + at, payload + at, left < WEIRI_CHUNK_BYTES ? left : WEIRI_CHUNK_BYTES);
    }
    x->of[peer].received = 1;
    return WEIR_OK;
}

static weir_status receive_direct(exchange *x, int peer, const weiri_message *message)
{
    weiri_coll *coll = x->coll;
    const weiri_pair *pair = &coll->pairs[peer];
    weir_status status = weiri_fetch(coll, peer, message->desc, pair->to, pair->recv_bytes,
                                     pair->recv_bytes * (size_t)coll->nranks);
    if (status != WEIR_OK)
        return status;
    x->of[peer].received = 1;
    return WEIR_OK;
}

/* Copies the pieces that have arrived. */
static void receive_stream(exchange *x, int peer, const weiri_message *message, int *moved)
{
    weiri_coll *coll = x->coll;
    const weiri_pair *pair = &coll->pairs[peer];
    const char *payload = weiri_coll_payload(coll, peer, coll->rank);
    progress *of = &x->of[peer];
    size_t piece = stream_piece_bytes(coll);
    uint64_t arrived = weir_load_acquire(&message->flag) - weiri_flag(coll->epoch, 0);
    while (of->consumed < arrived) {
        size_t at = of->consumed * piece, left = pair->recv_bytes - at;
        memcpy(pair->to + at, payload + of->consumed % 2 * piece, left < piece ? left : piece);
        of->consumed++;
        weir_store_release(&coll->areas[coll->rank].consumed[peer].value,
                           weiri_flag(coll->epoch, of->consumed));
        *moved = 1;
    }
    of->received = of->consumed == stream_pieces(coll, pair->recv_bytes);
}

/* Takes what has arrived from a peer; sets *moved if that is anything. */
static weir_status receive(exchange *x, int peer, int *moved)
{
    weiri_coll *coll = x->coll;
    const weiri_pair *pair = &coll->pairs[peer];
    const weiri_message *message = weiri_coll_message(coll, peer, coll->rank);
    if (weir_load_acquire(&message->flag) < weiri_flag(coll->epoch, 0))
        return WEIR_OK;
    int small = message->kind == WEIRI_MESSAGE_SMALL;
    size_t sent = small ? message->small_bytes : message->bytes;
    if (sent != pair->recv_bytes)
        return weiri_coll_mismatch(x->coll, x->phase, peer, sent);
    if (message->kind == WEIRI_MESSAGE_STREAM) {
        receive_stream(x, peer, message, moved);
        return WEIR_OK;
    }
    *moved = 1;
    if (message->kind == WEIRI_MESSAGE_PACKET)
        return receive_packet(x, peer, message);
    if (message->kind == WEIRI_MESSAGE_DIRECT)
        return receive_direct(x, peer, message);
    memcpy(pair->to, message->small, sent);
    x->of[peer].received = 1;
    return WEIR_OK;
}

/* One round over all peers. missing: a peer that still owes something, or -1. */
static weir_status make_progress(exchange *x, int *moved, int *missing)
{
    weiri_coll *coll = x->coll;
    int n = coll->nranks, to = coll->rank, from = coll->rank;
    *missing = -1;
    for (int step = 1; step < n; step++) {
        to = weiri_next(to, n);
        from = weiri_previous(from, n);
        if (coll->pairs[to].sends) {
            *moved |= send_more(x, to);
            if (sending(x, to))
                *missing = to;
        }
        if (!coll->pairs[from].receives || x->of[from].received)
            continue;
        weir_status status = receive(x, from, moved);
        if (status != WEIR_OK)
            return status;
        if (!x->of[from].received)
            *missing = from;
    }
    return WEIR_OK;
}

/* A message's memory has one reader ever, so sendrecv asks only the ranks that
 * it sends to. */
static weir_status begin(weiri_coll *coll)
{
    uint64_t epoch = ++coll->epoch;
    if (WEIRI_LIKELY(coll->all_done + 2 >= epoch))
        return WEIR_OK;
    for (int peer = 0; peer < coll->nranks; peer++) {
        if (!coll->pairs[peer].sends || peer == coll->rank)
            continue;
        weir_status status = weiri_coll_await_done(coll, epoch - 2, peer);
        if (status != WEIR_OK)
            return status;
    }
    return WEIR_OK;
}

static void send_all(exchange *x)
{
    weiri_coll *coll = x->coll;
    int n = coll->nranks;
    for (int peer = weiri_next(coll->rank, n); peer != coll->rank; peer = weiri_next(peer, n))
        if (coll->pairs[peer].sends)
            send_first(x, peer);
    const weiri_pair *self = &coll->pairs[coll->rank];
    if (self->sends)
        weiri_move(coll, self->to, self->from, self->send_bytes,
                   self->send_bytes * (size_t)coll->nranks);
}

/* Waits for the readers of this rank's buffers. */
static weir_status await_readers(exchange *x)
{
    weiri_coll *coll = x->coll;
    for (int peer = 0; peer < coll->nranks; peer++) {
        const weiri_pair *pair = &coll->pairs[peer];
        if (peer == coll->rank || !pair->sends || pair->send_bytes <= WEIRI_MESSAGE_INLINE_BYTES ||
            weiri_coll_message(coll, coll->rank, peer)->kind != WEIRI_MESSAGE_DIRECT)
            continue;
        weir_status status = weiri_comm_wait(coll->comm, &coll->areas[peer].done->value,
                                             coll->epoch, peer, x->phase);
        if (status != WEIR_OK)
            return status;
    }
    return WEIR_OK;
}

/* Nothing moved: a pause in the wait for a peer, be it that its message is not
 * all there or that it has not taken the pieces of ours. */
static weir_status await_peer(const exchange *x, weiri_waiter *waiter, int peer)
{
    weiri_coll *coll = x->coll;
    const progress *of = &x->of[peer];
    const uint64_t *word = &weiri_coll_message(coll, peer, coll->rank)->flag;
    uint64_t target = weiri_flag(coll->epoch, of->consumed + 1);
    if (!coll->pairs[peer].receives || of->received) {
        word = &coll->areas[peer].consumed[coll->rank].value;
        target = weiri_flag(coll->epoch, of->streamed - 1);
    }
    return weiri_comm_idle(coll->comm, waiter, word, target, peer, x->phase);
}

static weir_status run(weiri_coll *coll, const weir_call *call, size_t direct_from_bytes)
{
    exchange x;
    x.coll = coll;
    x.phase = weir_collective_name(call->collective);
    x.direct_from_bytes = direct_from_bytes;
    x.lends = 0;
    memset(x.of, 0, sizeof *x.of * (size_t)coll->nranks);
    weir_status status = begin(coll);
    if (status != WEIR_OK)
        return status;
    send_all(&x);
    weiri_waiter waiter = {.polls = {0, 0}};
    for (int missing = 0; missing >= 0;) {
        int moved = 0;
        status = make_progress(&x, &moved, &missing);
        if (status == WEIR_OK && missing >= 0 && !moved)
            status = await_peer(&x, &waiter, missing);
        if (status != WEIR_OK)
            return status;
    }
    weiri_comm_idle_end(coll->comm, &waiter);
    if (call->collective == WEIR_COLL_SENDRECV)
        weiri_coll_end(coll);
    else
        weiri_coll_end_all_heard(coll);
    return x.lends ? await_readers(&x) : WEIR_OK;
}

weir_status weiri_exchange_packet(weiri_coll *coll, const weir_call *call)
{
    return run(coll, call, SIZE_MAX);
}

weir_status weiri_exchange_direct(weiri_coll *coll, const weir_call *call)
{
    return run(coll, call, WEIRI_MESSAGE_INLINE_BYTES + 1);
}
