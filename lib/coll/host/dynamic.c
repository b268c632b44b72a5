/*
 * Allreduce and reduce in which ranks that are faster reduce more, for unregistered memory. Every
 * rank publishes a piece of its input in its slot. The piece is divided into chunks; ranks claim
 * them one by one from a counter, reduce a claimed chunk from all slots, and store the result where
 * the chunk's number says. In allreduce every rank copies all results; in reduce the root does, and
 * combines them with its own input, which it does not publish. The root claims nothing.
 *
 * Virtual machines place processors on hardware threads of one core without saying so; two ranks
 * there have half the speed each, and with equal shares all others wait for them.
 *
 * Claims are fetch-and-add operations on a word of rank 0's area, which every rank performs
 * once more than it gets chunks; so each epoch adds the same number, and the word is never reset.
 * The result of chunk c is in the result slot of rank c modulo n, and its flag in the line of that
 * rank's message to rank c / n: both are written by the rank that has claimed it. A flag counts 1
 * when the chunk is claimed, with that rank in the message's kind, and 2 when the result is there.
 *
 * Bits. Which rank reduces a chunk differs from call to call, but not the order: allreduce combines
 * in rank order, reduce from root + 1 cyclically to the root, like the chain. In reduce partial
 * results have the data's type, so types that are rounded when stored are left to packet2.
 *
 * Reuse of slots. A rank publishes piece k + 1 after it has reduced piece k, in the slot of k - 1.
 * - Allreduce: it has all results of k - 1 then, so nobody reads that slot any more. A result of
 *   k + 1 is stored after every rank has published its input of k + 1, and so after every rank has
 *   copied the results of k - 1; the same holds for claims.
 * - Reduce: it waits until the root has finished k - 1, which has all results of it. The claims of
 *   k + 1 begin when all have finished k - 1 (weiri_coll_begin).
 */
#include "coll/algos.h"
#include "coll/host/slot.h"
#include "compute/numeric.h"

enum { CHUNK_CLAIMED = 1, CHUNK_DONE = 2 };

/* Pieces, and what is published by one step of a flag, which all ranks poll. */
enum {
    ALLREDUCE_PIECE_BYTES = 131072,
    ALLREDUCE_STEP_BYTES = 8192,
    REDUCE_PIECE_BYTES = 262144,
    REDUCE_STEP_BYTES = 16384,
};
_Static_assert(REDUCE_PIECE_BYTES / WEIRI_CHUNK_BYTES <= 64, "a piece's chunks are bits of a word");

typedef struct dynamic {
    weiri_coll *coll;
    const weiri_task *task;
    const char *phase;
    weiri_reduce_fn reduce;     /* of a chunk */
    weiri_reduce_fn reduce_own; /* by the root of reduce: a result and its own input */
    int root;                   /* -1: allreduce */
    size_t piece_bytes, step_bytes;
    int is_long;         /* inputs are published by weiri_copy_unfetched */
    weiri_copy_fn *copy; /* of results into the output */
} dynamic;

typedef struct dynamic_piece {
    size_t at, bytes; /* within the buffers */
    size_t chunks;
    uint64_t taken; /* bit c: this rank has the result of chunk c in its output */
} dynamic_piece;

/* A chunk: bytes [at, at + bytes) of a piece. */
typedef struct dynamic_chunk {
    size_t at, bytes;
    weiri_message *flag;
    char *result;
} dynamic_chunk;

static int dynamic_is_root(const dynamic *x)
{
    return x->root == x->coll->rank;
}

static dynamic_piece dynamic_piece_at(const dynamic *x, size_t index)
{
    size_t at = index * x->piece_bytes, left = x->task->count_bytes - at;
    size_t bytes = left < x->piece_bytes ? left : x->piece_bytes;
    return (dynamic_piece){at, bytes, (bytes + WEIRI_CHUNK_BYTES - 1) / WEIRI_CHUNK_BYTES, 0};
}

static dynamic_chunk dynamic_chunk_at(const dynamic *x, const dynamic_piece *part, size_t index)
{
    const weiri_coll *coll = x->coll;
    const size_t n = (size_t)coll->nranks, at = index * WEIRI_CHUNK_BYTES, left = part->bytes - at;
    const weiri_area *area = &coll->areas[index % n];
    const int parity = (int)(coll->epoch & 1);
    return (dynamic_chunk){.at = at,
                           .bytes = left < WEIRI_CHUNK_BYTES ? left : WEIRI_CHUNK_BYTES,
                           .flag = &area->message[parity][index / n],
                           .result = area->result[parity]->data + index / n * WEIRI_CHUNK_BYTES};
}

static void dynamic_publish(const dynamic *x, uint64_t epoch, size_t index)
{
    const weiri_coll *coll = x->coll;
    dynamic_piece part = dynamic_piece_at(x, index);
    const char *in = weiri_in_at(x->task, part.at);
    if (dynamic_is_root(x))
        return;
    weiri_slot_publish(coll, epoch, in, part.bytes, x->step_bytes,
                       x->is_long ? weiri_copy_unfetched : weiri_copy_to_peer);
}

/* The next chunk that nobody has claimed; at least part->chunks: there is none. */
static size_t dynamic_claim(const weiri_coll *coll, uint64_t before)
{
    return (size_t)(weiri_claim(coll) - before);
}

/* Points coll->sources to a chunk of all inputs, in the order in which they are combined, as soon
 * as they have arrived. Their number. */
static weir_status dynamic_await_inputs(const dynamic *x, const dynamic_piece *part,
                                        const dynamic_chunk *chunk, int *count)
{
    weiri_coll *coll = x->coll;
    const int n = coll->nranks;
    const size_t end = chunk->at + chunk->bytes;
    const uint64_t steps = (end + x->step_bytes - 1) / x->step_bytes;
    int rank = x->root < 0 ? 0 : weiri_next(x->root, n);
    *count = x->root < 0 ? n : n - 1;
    for (int i = 0; i < *count; i++, rank = weiri_next(rank, n)) {
        if (rank == coll->rank) {
            coll->sources[i] = weiri_in_at(x->task, part->at + chunk->at);
            continue;
        }
        weiri_slot *slot = weiri_slot_of(coll, rank);
        coll->sources[i] = weiri_slot_data(coll, slot, coll->epoch, part->bytes) + chunk->at;
        weir_status status =
            weiri_flag_await(coll, &slot->flag, weiri_flag(coll->epoch, steps), rank, x->phase);
        if (status != WEIR_OK)
            return status;
    }
    return WEIR_OK;
}

static weir_status dynamic_reduce_chunk(const dynamic *x, dynamic_piece *part, size_t index)
{
    weiri_coll *coll = x->coll;
    dynamic_chunk chunk = dynamic_chunk_at(x, part, index);
    char *out = weiri_out_at(x->task, part->at + chunk.at);
    int count = 0;
    __atomic_store_n(&chunk.flag->kind, (uint32_t)coll->rank, __ATOMIC_RELAXED);
    weir_store_release(&chunk.flag->flag.value, weiri_flag(coll->epoch, CHUNK_CLAIMED));
    weir_status status = dynamic_await_inputs(x, part, &chunk, &count);
    if (status != WEIR_OK)
        return status;
    char *to = x->root < 0 ? out : chunk.result;
    x->reduce(to, coll->sources, count, chunk.bytes / x->task->element_bytes,
              (uint64_t)coll->nranks, 0);
    if (x->root < 0) /* from the first-level cache */
        weiri_copy(chunk.result, out, chunk.bytes);
    part->taken |= (uint64_t)1 << index;
    weir_store_release(&chunk.flag->flag.value, weiri_flag(coll->epoch, CHUNK_DONE));
    return WEIR_OK;
}

/* Reduces chunks of a piece until all are claimed. */
static weir_status dynamic_reduce(const dynamic *x, dynamic_piece *part)
{
    weiri_coll *coll = x->coll;
    uint64_t *total = &coll->claims[coll->epoch & 1], before = *total;
    *total += part->chunks + (uint64_t)(x->root < 0 ? coll->nranks : coll->nranks - 1);
    if (dynamic_is_root(x))
        return WEIR_OK;
    for (;;) {
        size_t index = dynamic_claim(coll, before);
        if (index >= part->chunks)
            return WEIR_OK;
        weir_status status = dynamic_reduce_chunk(x, part, index);
        if (status != WEIR_OK)
            return status;
    }
}

/* The rank that a chunk's result is expected from, for messages. */
static int dynamic_claimer(const dynamic *x, const dynamic_chunk *chunk, size_t index)
{
    if (weir_load_acquire(&chunk->flag->flag.value) < weiri_flag(x->coll->epoch, CHUNK_CLAIMED))
        return (int)(index % (size_t)x->coll->nranks);
    return (int)__atomic_load_n(&chunk->flag->kind, __ATOMIC_RELAXED);
}

/* Brings the result of a chunk into the output, as soon as it is there. */
static weir_status dynamic_take(const dynamic *x, const dynamic_piece *part, size_t index)
{
    weiri_coll *coll = x->coll;
    dynamic_chunk chunk = dynamic_chunk_at(x, part, index);
    uint64_t done = weiri_flag(coll->epoch, CHUNK_DONE);
    if (weir_load_acquire(&chunk.flag->flag.value) < done) {
        weir_status status = weiri_comm_wait(coll->comm, &chunk.flag->flag.value, done,
                                             dynamic_claimer(x, &chunk, index), x->phase);
        if (status != WEIR_OK)
            return status;
    }
    char *out = weiri_out_at(x->task, part->at + chunk.at);
    if (x->root < 0) {
        x->copy(out, chunk.result, chunk.bytes);
        return WEIR_OK;
    }
    char block[WEIRI_CHUNK_BYTES];
    const void *sources[2] = {chunk.result, weiri_in_at(x->task, part->at + chunk.at)};
    const int is_copied = x->copy == weiri_copy_unfetched;
    x->reduce_own(is_copied ? block : out, sources, 2, chunk.bytes / x->task->element_bytes,
                  (uint64_t)coll->nranks, x->copy == weiri_copy_streaming);
    if (is_copied)
        weiri_copy_unfetched(out, block, chunk.bytes);
    return WEIR_OK;
}

/* Takes the results of a piece: first the results that have arrived, then the others. Each rank
 * begins at another chunk, so that not all ranks read the same one. */
static weir_status dynamic_gather(const dynamic *x, dynamic_piece *part)
{
    const weiri_coll *coll = x->coll;
    const uint64_t done = weiri_flag(coll->epoch, CHUNK_DONE);
    size_t first = (size_t)coll->rank * part->chunks / (size_t)coll->nranks;
    for (int waits = 0; waits < 2; waits++)
        for (size_t i = 0; i < part->chunks; i++) {
            size_t index = (first + i) % part->chunks;
            uint64_t bit = (uint64_t)1 << index;
            if (part->taken & bit)
                continue;
            if (!waits &&
                weir_load_acquire(&dynamic_chunk_at(x, part, index).flag->flag.value) < done)
                continue;
            weir_status status = dynamic_take(x, part, index);
            if (status != WEIR_OK)
                return status;
            part->taken |= bit;
        }
    return WEIR_OK;
}

/* Publishes the piece after the current one. The slot of the first piece belongs to the epoch
 * before the call, and any rank may have read that epoch. */
static weir_status dynamic_publish_next(const dynamic *x, size_t index)
{
    weiri_coll *coll = x->coll;
    weir_status status = WEIR_OK;
    if (x->root >= 0 && !dynamic_is_root(x))
        status =
            weiri_coll_await_done(coll, coll->epoch - 1, index == 1 ? WEIRI_ALL_RANKS : x->root);
    else if (x->root < 0 && index == 1 && coll->all_done + 1 < coll->epoch)
        status = weiri_coll_await_done(coll, coll->epoch - 1, WEIRI_ALL_RANKS);
    if (status == WEIR_OK)
        dynamic_publish(x, coll->epoch + 1, index);
    return status;
}

static weir_status dynamic_piece_run(const dynamic *x, size_t index, size_t pieces)
{
    weiri_coll *coll = x->coll;
    weir_status status = WEIR_OK;
    if (index == 0 || x->root >= 0)
        status = weiri_coll_begin(coll);
    else
        coll->epoch++;
    if (status != WEIR_OK)
        return status;
    dynamic_piece part = dynamic_piece_at(x, index);
    if (index == 0)
        dynamic_publish(x, coll->epoch, 0);
    status = dynamic_reduce(x, &part);
    if (status == WEIR_OK && index + 1 < pieces)
        status = dynamic_publish_next(x, index + 1);
    if (status == WEIR_OK && (x->root < 0 || dynamic_is_root(x)))
        status = dynamic_gather(x, &part);
    if (status == WEIR_OK)
        weiri_coll_end(coll);
    return status;
}

static weir_status dynamic_run(const dynamic *x)
{
    weiri_coll *coll = x->coll;
    size_t pieces = (x->task->count_bytes + x->piece_bytes - 1) / x->piece_bytes;
    for (size_t index = 0; index < pieces; index++) {
        weir_status status = dynamic_piece_run(x, index, pieces);
        if (status != WEIR_OK)
            return status;
    }
    /* Results of the last piece mean that every rank has published it, the first one after it has
     * finished the epoch before, a later one before it has copied the results of that epoch. */
    uint64_t finished = coll->epoch - (pieces > 1 ? 2 : 1);
    if (x->root < 0 && coll->all_done < finished)
        coll->all_done = finished;
    return WEIR_OK;
}

/* Derives the rest of x. The flags of the messages, n of each rank, are the flags of a piece's
 * chunks. */
static weir_status dynamic_start(dynamic *x, size_t piece_bytes, size_t step_bytes)
{
    const weiri_coll *coll = x->coll;
    size_t n = (size_t)coll->nranks, flags = n * n * WEIRI_CHUNK_BYTES;
    size_t most = flags < piece_bytes ? flags : piece_bytes;
    x->piece_bytes = coll->piece_bytes < most ? coll->piece_bytes : most;
    x->step_bytes = step_bytes;
    x->is_long = weiri_copies_unfetched(2 * x->task->count_bytes);
    x->copy = weiri_result_copy(coll, x->task);
    return dynamic_run(x);
}

static weir_status allreduce_dynamic_run(weiri_coll *coll, const weiri_task *task)
{
    dynamic x = {.coll = coll,
                 .task = task,
                 .phase = "allreduce (dynamic)",
                 .root = -1,
                 .reduce = weiri_reduce_get(task->call->dtype, task->call->op)};
    return dynamic_start(&x, ALLREDUCE_PIECE_BYTES, ALLREDUCE_STEP_BYTES);
}

static weir_status reduce_dynamic_run(weiri_coll *coll, const weiri_task *task)
{
    if (coll->nranks > 2 && weiri_is_rounded(task->call->dtype))
        return weiri_algo_fall_back(coll, task, &weiri_host_reduce_packet2_row);
    /* Only the root has all contributions, so it divides. */
    weir_op op = task->call->op == WEIR_AVG ? WEIR_SUM : task->call->op;
    dynamic x = {.coll = coll,
                 .task = task,
                 .phase = "reduce (dynamic)",
                 .root = task->call->root,
                 .reduce = weiri_reduce_get(task->call->dtype, op),
                 .reduce_own = weiri_reduce_get(task->call->dtype, task->call->op)};
    return dynamic_start(&x, REDUCE_PIECE_BYTES, REDUCE_STEP_BYTES);
}

const weiri_algo weiri_host_allreduce_dynamic_row = {
    .info = {WEIRI_HOST_TRAITS(ALLREDUCE, "dynamic",
                               "the same; faster ranks reduce more; long unregistered memory")},
    .run = allreduce_dynamic_run,
};

const weiri_algo weiri_host_reduce_dynamic_row = {
    .info = {WEIRI_HOST_TRAITS(REDUCE, "dynamic",
                               "like packet2; faster ranks reduce more; long unregistered memory"),
             .in_order = "packet2"},
    .run = reduce_dynamic_run,
};
