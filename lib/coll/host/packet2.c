/*
 * Allreduce and reduce in two steps through the slots, for unregistered memory: every rank
 * publishes a piece of its input, reduces its share of all ranks' pieces, publishes the result, and
 * copies the results of the other shares; in reduce only the root does, and the others share the
 * reduction, so that all ranks move the same number of bytes. A rank does not publish the share
 * that it reduces itself. It reduces a chunk into its output, or into a buffer if it has none, and
 * copies it from the first-level cache to its result slot.
 *
 * Every share has one reader, so its progress is in the flag of the message to that reader
 * (weiri_slot_publish_to), which no other rank polls. Results follow the inputs chunk by chunk, and
 * have many readers: their progress is in the result slot's flag. A rank publishes the next piece
 * before it copies the results of the current one, so that ranks that share a core are scheduled
 * once per piece.
 *
 * Reuse of slots. A rank publishes piece k + 1 in the slot of piece k - 1. It has then seen every
 * rank's piece k, which a rank publishes after it has reduced its share of piece k - 1; the root of
 * reduce, which sees no pieces, has copied all results of piece k - 1. So nobody reads that slot
 * any more. For the second piece, whose slot is that of the epoch before the call, the root waits
 * until all have finished that epoch. A rank stores its result of piece k + 1 after it has seen
 * every rank's input k + 1, which a rank publishes after copying the results of k - 1: nobody reads
 * that result slot either. In reduce a rank hears nothing about the root's last copies before it
 * ends, so the next epoch begins with a look at the done words.
 */
#include "coll/algos.h"
#include "coll/host/slot.h"

typedef struct two_steps {
    weiri_coll *coll;
    const weiri_task *task;
    const char *phase;
    weiri_reduce_fn reduce;
    int has_output;      /* this rank gets the result */
    weiri_copy_fn *copy; /* of results into the output */
} two_steps;

typedef struct piece {
    size_t at, bytes; /* within the buffers */
} piece;

/* A rank's share of a piece: bytes [from, end) of it. */
typedef struct piece_share {
    size_t from, end;
} piece_share;

static piece packet2_piece_at(const two_steps *x, size_t index)
{
    const weiri_coll *coll = x->coll;
    size_t at = index * coll->piece_bytes;
    return (piece){at, weiri_piece_at(coll, x->task->count_bytes, at)};
}

static piece_share packet2_share_of(const two_steps *x, piece part, int rank)
{
    size_t element = x->task->element_bytes;
    int sharers = x->coll->nranks;
    if (x->task->call->collective == WEIR_COLL_REDUCE) {
        sharers--;
        if (rank == x->task->call->root)
            return (piece_share){0, 0};
        rank -= rank > x->task->call->root;
    }
    weiri_share share = weiri_share_of(part.bytes / element, element, rank, sharers);
    return (piece_share){share.first * element, (share.first + share.count) * element};
}

/* Whether this rank reduces a share. */
static int packet2_is_sharer(const two_steps *x)
{
    return x->task->call->collective == WEIR_COLL_ALLREDUCE || !x->has_output;
}

/* Whether a piece is in the cache line of the slot's flag, which then all ranks read. */
static int packet2_is_small(const two_steps *x)
{
    return x->task->count_bytes <= WEIRI_INLINE_BYTES;
}

/* Publishes a piece without this rank's share. */
static void packet2_publish(const two_steps *x, uint64_t epoch, piece part)
{
    const weiri_coll *coll = x->coll;
    weiri_slot *slot = weiri_slot_in(coll, epoch, coll->rank);
    const char *in = weiri_in_at(x->task, part.at);
    if (packet2_is_small(x)) {
        weiri_slot_publish(coll, epoch, in, part.bytes, WEIRI_CHUNK_BYTES, weiri_copy_to_peer);
        return;
    }
    char *data = weiri_slot_data(coll, slot, epoch, part.bytes);
    for (int rank = 0; rank < coll->nranks; rank++) {
        if (rank == coll->rank)
            continue;
        piece_share share = packet2_share_of(x, part, rank);
        weiri_slot_publish_to(coll, epoch, rank, data + weiri_part_place(coll, share.from),
                              in + share.from, share.end - share.from);
    }
}

/* Points coll->sources to byte at of a piece in every rank's slot and this rank's input, as soon as
 * the bytes of this rank's share before end have arrived. */
static weir_status packet2_await(const two_steps *x, piece part, piece_share own, size_t at,
                                 size_t end)
{
    weiri_coll *coll = x->coll;
    const char *in = weiri_in_at(x->task, part.at);
    if (packet2_is_small(x))
        return weiri_slots_await(coll, in, at, end, part.bytes, x->phase);
    return weiri_slots_await_parts(coll, in + at, weiri_part_place(coll, own.from) + at - own.from,
                                   part.bytes, end - own.from, x->phase);
}

/* Reduces bytes of this rank's share, whose sources are in coll->sources, into out (NULL: this rank
 * has no output) and, unless only this rank needs them, into the result slot. */
static void reduce_chunk(const two_steps *x, char *out, char *staged, size_t bytes)
{
    char block[WEIRI_CHUNK_BYTES];
    char *to = out ? out : block;
    weiri_slots_combine(x->coll, x->task, x->reduce, to, bytes);
    if (!out || x->task->call->collective == WEIR_COLL_ALLREDUCE)
        weiri_copy_to_peer(staged, to, bytes);
}

/* Reduces this rank's share of a piece from all slots, and publishes the result chunk by chunk. */
static weir_status reduce_share(const two_steps *x, piece part)
{
    weiri_coll *coll = x->coll;
    piece_share own = packet2_share_of(x, part, coll->rank);
    if (!packet2_is_sharer(x))
        return WEIR_OK;
    size_t total = own.end - own.from;
    weiri_slot *result = weiri_result_of(coll, coll->rank);
    char *staged = weiri_slot_data(coll, result, coll->epoch, total);
    size_t at = 0;
    do {
        size_t bytes = total - at < WEIRI_CHUNK_BYTES ? total - at : WEIRI_CHUNK_BYTES;
        size_t from = own.from + at;
        weir_status status = packet2_await(x, part, own, from, from + bytes);
        if (status != WEIR_OK)
            return status;
        char *out = x->has_output ? weiri_out_at(x->task, part.at + from) : NULL;
        reduce_chunk(x, out, staged + at, bytes);
        at += bytes;
        weiri_slot_advance(coll, result, at);
    } while (at < total);
    return WEIR_OK;
}

/* Copies a peer's share of the result as it arrives. */
static weir_status copy_result(const two_steps *x, piece part, int rank)
{
    weiri_coll *coll = x->coll;
    piece_share share = packet2_share_of(x, part, rank);
    size_t total = share.end - share.from, at = 0;
    weiri_slot *result = weiri_result_of(coll, rank);
    char *out = weiri_out_at(x->task, part.at + share.from);
    const char *data = weiri_slot_data(coll, result, coll->epoch, total);
    do {
        size_t bytes = total - at < WEIRI_CHUNK_BYTES ? total - at : WEIRI_CHUNK_BYTES;
        weir_status status = weiri_slot_await(coll, result, rank, at + bytes, x->phase);
        if (status != WEIR_OK)
            return status;
        x->copy(out + at, data + at, bytes);
        at += bytes;
    } while (at < total);
    return WEIR_OK;
}

static weir_status gather_results(const two_steps *x, piece part)
{
    const weiri_coll *coll = x->coll;
    int n = coll->nranks;
    weir_status status = WEIR_OK;
    if (!x->has_output)
        return WEIR_OK;
    for (int rank = weiri_next(coll->rank, n); rank != coll->rank && status == WEIR_OK;
         rank = weiri_next(rank, n))
        status = copy_result(x, part, rank);
    return status;
}

/* Publishes the piece after the current one. */
static weir_status packet2_publish_next(const two_steps *x, size_t index)
{
    weiri_coll *coll = x->coll;
    if (index == 1 && !packet2_is_sharer(x) && coll->all_done + 1 < coll->epoch) {
        weir_status status = weiri_coll_await_done(coll, coll->epoch - 1, WEIRI_ALL_RANKS);
        if (status != WEIR_OK)
            return status;
    }
    packet2_publish(x, coll->epoch + 1, packet2_piece_at(x, index));
    return WEIR_OK;
}

static weir_status packet2_piece(const two_steps *x, size_t index, size_t pieces)
{
    weiri_coll *coll = x->coll;
    weir_status status = weiri_coll_begin(coll);
    if (status != WEIR_OK)
        return status;
    piece part = packet2_piece_at(x, index);
    if (index == 0)
        packet2_publish(x, coll->epoch, part);
    status = reduce_share(x, part);
    if (status == WEIR_OK && index + 1 < pieces)
        status = packet2_publish_next(x, index + 1);
    if (status == WEIR_OK)
        status = gather_results(x, part);
    if (status != WEIR_OK)
        return status;
    if (x->has_output)
        weiri_coll_end_all_heard(coll);
    else
        weiri_coll_end(coll);
    return WEIR_OK;
}

static weir_status packet2_run(const two_steps *x)
{
    const weiri_coll *coll = x->coll;
    size_t pieces = (x->task->count_bytes + coll->piece_bytes - 1) / coll->piece_bytes;
    weir_status status = WEIR_OK;
    for (size_t index = 0; index < pieces && status == WEIR_OK; index++)
        status = packet2_piece(x, index, pieces);
    return status;
}

/* Two ranks do not gain by copies that fetch no lines. */
static weiri_copy_fn *packet2_copy(const weiri_coll *coll, const weiri_task *task)
{
    return coll->nranks > 2 || weiri_results_stream(coll, task) ? weiri_result_copy(coll, task)
                                                                : weiri_copy_from_peer;
}

static weir_status allreduce_packet2_run(weiri_coll *coll, const weiri_task *task)
{
    two_steps x = {.coll = coll,
                   .task = task,
                   .phase = "allreduce (packet2)",
                   .reduce = weiri_reduce_get(task->call->dtype, task->call->op),
                   .has_output = 1,
                   .copy = packet2_copy(coll, task)};
    return packet2_run(&x);
}

static weir_status reduce_packet2_run(weiri_coll *coll, const weiri_task *task)
{
    two_steps x = {.coll = coll,
                   .task = task,
                   .phase = "reduce (packet2)",
                   .reduce = weiri_reduce_get(task->call->dtype, task->call->op),
                   .has_output = coll->rank == task->call->root,
                   .copy = packet2_copy(coll, task)};
    return packet2_run(&x);
}

const weiri_algo weiri_host_allreduce_packet2_row = {
    .info = {WEIRI_HOST_TRAITS(
        ALLREDUCE, "packet2",
        "reduce a share, gather the shares, through scratch memory; unregistered memory")},
    .run = allreduce_packet2_run,
};

const weiri_algo weiri_host_reduce_packet2_row = {
    .info = {WEIRI_HOST_TRAITS(REDUCE, "packet2",
                               "reduce a share, the root gathers the shares, through scratch "
                               "memory; unregistered memory")},
    .run = reduce_packet2_run,
};
