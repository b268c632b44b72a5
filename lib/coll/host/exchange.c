/*
 * Messages between pairs of ranks: alltoall, alltoallv and sendrecv. For each peer the sender
 * decides how the data are passed, and records it in the message (weiri_message_kind). So ranks
 * need not agree on anything beforehand, and sizes may change on every call:
 *
 *   small   in the cache line of the message's flag
 *   packet  in the message's payload, chunk by chunk
 *   direct  the reader copies from the sender's buffer, whose descriptor the message carries
 *   stream  longer, and not readable by the peer: piece by piece through parts of the payload in
 *           rotation; the reader's consumed word frees them
 *
 * In step k of an alltoall or alltoallv, rank r sends to rank r + k and receives from rank r - k,
 * both modulo nranks, so that no two ranks access the same peer at once.
 *
 * A message of zero bytes is sent, too; hearing from a peer therefore proves that it has finished
 * the epoch before. A rank leaves when it has received everything, has stored all of its
 * streams, and every reader of its buffers has finished.
 */
#include "coll/algos.h"
#include "coll/host/slot.h"

typedef struct exchange {
    weiri_coll *coll;
    const weiri_task *task;
    const char *phase;
    size_t direct_from_bytes; /* longer messages are copied by the reader: in mapped memory, */
    size_t cma_from_bytes;    /* and in unregistered memory */
    int lends;                /* whether unregistered memory is copied by the reader in any case */
    int is_read;              /* whether any peer copies from this rank's buffer */
    weiri_progress *of;       /* of each peer; sent and received count the pieces of streams */
} exchange;

static size_t stream_piece_bytes(const weiri_coll *coll)
{
    if (coll->message_bytes >= 4 * (size_t)WEIRI_STREAM_BYTES)
        return WEIRI_STREAM_BYTES;
    return coll->message_bytes / 2 / WEIR_LINE_BYTES * WEIR_LINE_BYTES;
}

/* How many pieces the payload holds. */
static uint64_t stream_room(const weiri_coll *coll)
{
    return coll->message_bytes / stream_piece_bytes(coll);
}

/* The longest message whose sender stores all of it before it reads its own messages. */
static size_t packet_bytes(const weiri_coll *coll)
{
    return coll->message_bytes < WEIRI_PACKET_BYTES ? coll->message_bytes : WEIRI_PACKET_BYTES;
}

static uint64_t stream_pieces(const weiri_coll *coll, size_t bytes)
{
    size_t piece = stream_piece_bytes(coll);
    return (bytes + piece - 1) / piece;
}

/* Whether the message of this epoch to a peer is of that kind. It is not read in the message, whose
 * cache line the peer polls. */
static int exchange_is_kind(const exchange *x, int peer, weiri_message_kind kind)
{
    return x->task->pairs[peer].sends && x->of[peer].kind == kind;
}

/* Copies into the payload and publishes each chunk. All stores to the flag's cache line, which the
 * peer polls, follow the stores of the first chunk, so that no store of that chunk waits for the
 * flag's line. */
static void send_packet(const weiri_coll *coll, weiri_message *message, char *payload,
                        const weiri_pair *pair)
{
    for (size_t at = 0; at < pair->send_bytes; at += WEIRI_CHUNK_BYTES) {
        size_t left = pair->send_bytes - at;
        size_t length = left < WEIRI_CHUNK_BYTES ? left : WEIRI_CHUNK_BYTES;
        weiri_copy_to_peer(payload + at, pair->from + at, length);
        if (at == 0) {
            message->kind = WEIRI_MESSAGE_PACKET;
            message->bytes = pair->send_bytes;
        }
        weiri_flag_publish(coll, &message->flag,
                           weiri_flag(coll->epoch, at / WEIRI_CHUNK_BYTES + 1));
    }
}

/* The length of a small message is in small_bytes, because its data are where bytes would be. */
static void send_small(const weiri_coll *coll, weiri_message *message, const weiri_pair *pair)
{
    message->small_bytes = (uint32_t)pair->send_bytes;
    memcpy(message->small, pair->from, pair->send_bytes);
    weiri_flag_publish(coll, &message->flag, weiri_flag(coll->epoch, 1));
}

static void send_first(exchange *x, int peer)
{
    weiri_coll *coll = x->coll;
    const weiri_pair *pair = &x->task->pairs[peer];
    weiri_message *message = weiri_coll_message(coll, coll->rank, peer);
    if (pair->send_bytes <= WEIRI_MESSAGE_INLINE_BYTES) {
        x->of[peer].kind = message->kind = WEIRI_MESSAGE_SMALL;
        send_small(coll, message, pair);
        return;
    }
    weiri_desc desc = {0, 0, 0};
    if (pair->send_bytes >= x->direct_from_bytes)
        desc = weiri_describe(coll, pair->from, pair->send_bytes,
                              x->lends ? WEIRI_LENDS_COPIED : WEIRI_LENDS_ANY);
    if (desc.generation == WEIRI_GENERATION_UNREGISTERED &&
        (pair->send_bytes < x->cma_from_bytes ||
         !(x->lends || weiri_lends_unregistered(x->coll, x->task->call->collective))))
        desc.generation = 0;
    if (desc.generation) {
        x->of[peer].kind = message->kind = WEIRI_MESSAGE_DIRECT;
        message->bytes = pair->send_bytes;
        message->desc = desc;
        x->is_read = 1;
        weiri_flag_publish(coll, &message->flag, weiri_flag(coll->epoch, 1));
    } else if (pair->send_bytes <= packet_bytes(coll)) {
        x->of[peer].kind = WEIRI_MESSAGE_PACKET;
        send_packet(coll, message,
                    weiri_coll_payload(coll, coll->epoch, coll->rank, peer, pair->send_bytes),
                    pair);
    } else {
        x->of[peer].sends = 1;
        x->of[peer].kind = message->kind = WEIRI_MESSAGE_STREAM;
        message->bytes = pair->send_bytes;
        weiri_flag_publish(coll, &message->flag, weiri_flag(coll->epoch, 0));
    }
}

/* Stores the next pieces of a stream, as far as there is room. Returns 1 if any were stored. */
static int send_more(exchange *x, int peer)
{
    weiri_coll *coll = x->coll;
    const weiri_pair *pair = &x->task->pairs[peer];
    weiri_message *message = weiri_coll_message(coll, coll->rank, peer);
    char *payload = weiri_coll_payload(coll, coll->epoch, coll->rank, peer, coll->message_bytes);
    size_t piece = stream_piece_bytes(coll);
    const uint64_t room = stream_room(coll);
    uint64_t pieces = stream_pieces(coll, pair->send_bytes);
    uint64_t *streamed = &x->of[peer].sent;
    int moved = 0;
    while (*streamed < pieces) {
        uint64_t consumed = weir_load_acquire(&coll->areas[peer].consumed[coll->rank].value);
        uint64_t base = weiri_flag(coll->epoch, 0);
        consumed = consumed > base ? consumed - base : 0;
        if (*streamed >= consumed + room)
            break;
        size_t at = *streamed * piece, left = pair->send_bytes - at;
        weiri_copy_to_peer(payload + *streamed % room * piece, pair->from + at,
                           left < piece ? left : piece);
        ++*streamed;
        weiri_flag_publish(coll, &message->flag, weiri_flag(coll->epoch, *streamed));
        moved = 1;
    }
    x->of[peer].sends = *streamed < pieces;
    return moved;
}

static weir_status receive_packet(exchange *x, int peer, const weiri_message *message)
{
    weiri_coll *coll = x->coll;
    const weiri_pair *pair = &x->task->pairs[peer];
    const char *payload = weiri_coll_payload(coll, coll->epoch, peer, coll->rank, pair->recv_bytes);
    for (size_t at = 0; at < pair->recv_bytes; at += WEIRI_CHUNK_BYTES) {
        size_t left = pair->recv_bytes - at;
        weir_status status =
            weiri_comm_wait(coll->comm, &message->flag.value,
                            weiri_flag(coll->epoch, at / WEIRI_CHUNK_BYTES + 1), peer, x->phase);
        if (status != WEIR_OK)
            return status;
        /* With more peers, some have sent long ago, and the loads of their data overlap the load of
         * the flag. */
        if (coll->nranks == 2 || x->task->call->collective == WEIR_COLL_SENDRECV)
            weiri_read_no_earlier();
        weiri_copy_from_peer(pair->to + at, payload + at,
                             left < WEIRI_CHUNK_BYTES ? left : WEIRI_CHUNK_BYTES);
    }
    x->of[peer].receives = 0;
    return WEIR_OK;
}

static weir_status receive_direct(exchange *x, int peer, const weiri_message *message)
{
    weiri_coll *coll = x->coll;
    const weiri_pair *pair = &x->task->pairs[peer];
    weir_status status = weiri_fetch(coll, peer, message->desc, 0, pair->to, pair->recv_bytes,
                                     pair->recv_bytes * (size_t)coll->nranks);
    if (status != WEIR_OK)
        return status;
    x->of[peer].receives = 0;
    return WEIR_OK;
}

/* Copies the pieces that have arrived. */
static void receive_stream(exchange *x, int peer, const weiri_message *message, int *moved)
{
    weiri_coll *coll = x->coll;
    const weiri_pair *pair = &x->task->pairs[peer];
    const char *payload =
        weiri_coll_payload(coll, coll->epoch, peer, coll->rank, coll->message_bytes);
    weiri_progress *of = &x->of[peer];
    size_t piece = stream_piece_bytes(coll);
    const uint64_t room = stream_room(coll);
    uint64_t arrived = weir_load_acquire(&message->flag.value) - weiri_flag(coll->epoch, 0);
    while (of->received < arrived) {
        size_t at = of->received * piece, left = pair->recv_bytes - at;
        weiri_copy_from_peer(pair->to + at, payload + of->received % room * piece,
                             left < piece ? left : piece);
        of->received++;
        weir_store_release(&coll->areas[coll->rank].consumed[peer].value,
                           weiri_flag(coll->epoch, of->received));
        *moved = 1;
    }
    of->receives = of->received < stream_pieces(coll, pair->recv_bytes);
}

/* Copies what has arrived from a peer; sets *moved if anything has. */
static weir_status exchange_receive(exchange *x, int peer, int *moved)
{
    weiri_coll *coll = x->coll;
    const weiri_pair *pair = &x->task->pairs[peer];
    const weiri_message *message = weiri_coll_message(coll, peer, coll->rank);
    if (weir_load_acquire(&message->flag.value) < weiri_flag(coll->epoch, 0))
        return WEIR_OK;
    if (WEIRI_UNLIKELY(weiri_flag_check(coll, &message->flag) != WEIR_OK))
        return WEIR_ERR_MISMATCH;
    int small = message->kind == WEIRI_MESSAGE_SMALL;
    size_t sent = small ? message->small_bytes : message->bytes;
    if (sent != pair->recv_bytes)
        return weiri_coll_mismatch(x->coll, x->task, x->phase, peer, sent);
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
    x->of[peer].receives = 0;
    return WEIR_OK;
}

/* One round over all peers. *missing becomes a peer with which something is left to do, or -1. */
static weir_status make_progress(exchange *x, int *moved, int *missing)
{
    weiri_coll *coll = x->coll;
    int n = coll->nranks, to = coll->rank, from = coll->rank;
    *missing = -1;
    for (int step = 1; step < n; step++) {
        to = weiri_next(to, n);
        from = weiri_previous(from, n);
        if (x->of[to].sends) {
            *moved |= send_more(x, to);
            if (x->of[to].sends)
                *missing = to;
        }
        if (!x->of[from].receives)
            continue;
        weir_status status = exchange_receive(x, from, moved);
        if (status != WEIR_OK)
            return status;
        if (x->of[from].receives)
            *missing = from;
    }
    return WEIR_OK;
}

/* Begins an epoch. A message has one reader, so a rank waits only for the peers to which it sends.
 * It skips peers whose messages of a later epoch it has seen, because reading a done word costs a
 * cache line. */
static weir_status exchange_begin(const exchange *x)
{
    weiri_coll *coll = x->coll;
    uint64_t epoch = ++coll->epoch;
    if (WEIRI_LIKELY(coll->all_done + 2 >= epoch))
        return WEIR_OK;
    for (int peer = 0; peer < coll->nranks; peer++) {
        if (!x->task->pairs[peer].sends || peer == coll->rank || coll->heard[peer] + 2 >= epoch)
            continue;
        weir_status status = weiri_coll_await_done(coll, epoch - 2, peer);
        if (status != WEIR_OK)
            return status;
    }
    return WEIR_OK;
}

static void exchange_note_heard(const exchange *x)
{
    weiri_coll *coll = x->coll;
    for (int peer = 0; peer < coll->nranks; peer++)
        if (x->task->pairs[peer].receives)
            coll->heard[peer] = coll->epoch - 1;
}

/* Requests the parts of payloads for the next epoch's messages, which are probably as long, while
 * this rank waits for its peers. Parts that do not rotate are still being read. */
static void request_next(const exchange *x)
{
    weiri_coll *coll = x->coll;
    int n = coll->nranks, self = coll->rank;
    size_t left = WEIRI_NEXT_BYTES;
    for (int peer = weiri_next(self, n); left && peer != self; peer = weiri_next(peer, n)) {
        size_t bytes = x->task->pairs[peer].send_bytes;
        if (!exchange_is_kind(x, peer, WEIRI_MESSAGE_PACKET) ||
            weiri_rotated_parts(coll->message_rotation, bytes) == 1)
            continue;
        size_t requested = bytes < left ? bytes : left;
        weiri_request_for_writing(weiri_coll_payload(coll, coll->epoch + 1, self, peer, bytes),
                                  requested);
        left -= requested;
    }
}

static void send_all(exchange *x)
{
    weiri_coll *coll = x->coll;
    int n = coll->nranks;
    for (int peer = weiri_next(coll->rank, n); peer != coll->rank; peer = weiri_next(peer, n))
        if (x->task->pairs[peer].sends)
            send_first(x, peer);
    request_next(x);
    const weiri_pair *self = &x->task->pairs[coll->rank];
    if (self->sends)
        weiri_move(coll, self->to, self->from, self->send_bytes,
                   self->send_bytes * (size_t)coll->nranks);
}

/* Waits until the readers of this rank's buffers have finished. */
static weir_status await_readers(exchange *x)
{
    weiri_coll *coll = x->coll;
    for (int peer = 0; peer < coll->nranks; peer++) {
        if (peer == coll->rank || !exchange_is_kind(x, peer, WEIRI_MESSAGE_DIRECT))
            continue;
        weir_status status = weiri_comm_wait(coll->comm, &coll->areas[peer].done->value,
                                             coll->epoch, peer, x->phase);
        if (status != WEIR_OK)
            return status;
    }
    return WEIR_OK;
}

/* Pauses while nothing moves: until more of a peer's message arrives, or the peer has copied pieces
 * of this rank's stream. */
static weir_status exchange_await_peer(const exchange *x, weiri_waiter *waiter, int peer)
{
    weiri_coll *coll = x->coll;
    const weiri_progress *of = &x->of[peer];
    const uint64_t *word = &weiri_coll_message(coll, peer, coll->rank)->flag.value;
    uint64_t target = weiri_flag(coll->epoch, of->received + 1);
    if (!of->receives) {
        word = &coll->areas[peer].consumed[coll->rank].value;
        target = weiri_flag(coll->epoch, of->sent + 1 - stream_room(coll));
    }
    return weiri_comm_idle(coll->comm, waiter, word, target, peer, x->phase);
}

/* The length of a message from which on the kernel copies it from unregistered memory. The table
 * has the size of a whole call, and the sender of each message decides alone. */
static size_t exchange_cma_from(const weiri_coll *coll, const weiri_task *task)
{
    size_t messages = task->call->collective == WEIR_COLL_SENDRECV ? 1 : (size_t)coll->nranks;
    return (size_t)coll->cma_from_bytes[task->call->collective] / messages;
}

static weir_status exchange_pairs_run(weiri_coll *coll, const weiri_task *task,
                                      size_t direct_from_bytes, size_t cma_from_bytes)
{
    exchange x;
    x.cma_from_bytes = cma_from_bytes;
    x.task = task;
    x.lends = cma_from_bytes == 0;
    x.coll = coll;
    x.phase = weir_collective_name(task->call->collective);
    x.direct_from_bytes = direct_from_bytes;
    x.is_read = 0;
    x.of = coll->progress;
    for (int peer = 0; peer < coll->nranks; peer++)
        x.of[peer] = (weiri_progress){.receives = task->pairs[peer].receives != 0};
    weir_status status = exchange_begin(&x);
    if (status != WEIR_OK)
        return status;
    send_all(&x);
    weiri_waiter waiter = {.polls = {0, 0}};
    for (int missing = 0; missing >= 0;) {
        int moved = 0;
        status = make_progress(&x, &moved, &missing);
        if (status == WEIR_OK && missing >= 0 && !moved)
            status = exchange_await_peer(&x, &waiter, missing);
        if (status != WEIR_OK)
            return status;
    }
    weiri_comm_idle_end(coll->comm, &waiter);
    exchange_note_heard(&x);
    if (task->call->collective == WEIR_COLL_SENDRECV)
        weiri_coll_end(coll);
    else
        weiri_coll_end_all_heard(coll);
    return x.is_read ? await_readers(&x) : WEIR_OK;
}

static weir_status exchange_packet_run(weiri_coll *coll, const weiri_task *task)
{
    return exchange_pairs_run(coll, task, SIZE_MAX, SIZE_MAX);
}

static weir_status exchange_direct_run(weiri_coll *coll, const weiri_task *task)
{
    return exchange_pairs_run(coll, task, WEIRI_MESSAGE_INLINE_BYTES + 1,
                              exchange_cma_from(coll, task));
}

static weir_status exchange_cma_run(weiri_coll *coll, const weiri_task *task)
{
    if (!coll->comm->reads_unregistered)
        return weiri_algo_fall_back(coll, task, &weiri_host_alltoall_packet_row);
    return exchange_pairs_run(coll, task, WEIRI_MESSAGE_INLINE_BYTES + 1, 0);
}

const weiri_algo weiri_host_alltoall_packet_row = {
    .info = {WEIRI_HOST_TRAITS(ALLTOALL, "packet", "messages through scratch memory")},
    .run = exchange_packet_run,
};

const weiri_algo weiri_host_alltoall_direct_row = {
    .info = {WEIRI_HOST_TRAITS(ALLTOALL, "direct", "copy from registered memory"),
             .needs_mapped = 1},
    .run = exchange_direct_run,
};

const weiri_algo weiri_host_alltoall_cma_row = {
    .info = {WEIRI_HOST_TRAITS(ALLTOALL, "cma",
                               "the kernel copies from the peers' buffers; unregistered memory")},
    .run = exchange_cma_run,
};

const weiri_algo weiri_host_alltoallv_packet_row = {
    .info = {WEIRI_HOST_TRAITS(ALLTOALLV, "packet", "messages through scratch memory")},
    .run = exchange_packet_run,
};

const weiri_algo weiri_host_alltoallv_direct_row = {
    .info = {WEIRI_HOST_TRAITS(ALLTOALLV, "direct", "copy from registered memory"),
             .needs_mapped = 1},
    .run = exchange_direct_run,
};

const weiri_algo weiri_host_alltoallv_cma_row = {
    .info = {WEIRI_HOST_TRAITS(ALLTOALLV, "cma",
                               "the kernel copies from the peers' buffers; unregistered memory")},
    .run = exchange_cma_run,
};

const weiri_algo weiri_host_sendrecv_packet_row = {
    .info = {WEIRI_HOST_TRAITS(SENDRECV, "packet", "messages through scratch memory")},
    .run = exchange_packet_run,
};

const weiri_algo weiri_host_sendrecv_direct_row = {
    .info = {WEIRI_HOST_TRAITS(SENDRECV, "direct", "copy from registered memory"),
             .needs_mapped = 1},
    .run = exchange_direct_run,
};

const weiri_algo weiri_host_sendrecv_cma_row = {
    .info = {WEIRI_HOST_TRAITS(SENDRECV, "cma",
                               "the kernel copies from the peers' buffers; unregistered memory")},
    .run = exchange_cma_run,
};
