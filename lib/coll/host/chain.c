/*
 * Reduce along a chain, for long unregistered memory. The chain begins after the root and ends at
 * it: the first rank publishes its input in its slot, every other one waits for a chunk in its
 * predecessor's slot, combines it with its own input, and stores the partial result in its own
 * slot, the root in its output. So a rank loads every line once and stores it once, and waits for
 * its neighbours only, while all ranks work on different chunks.
 *
 * Reuse of slots. A slot has one reader, the successor, so a rank may be ahead of it by as many
 * epochs as its slot has parts (weiri_slot_begin), within a call and from call to call. The root
 * stores nothing that others read.
 *
 * Partial results have the data's type. Types that are rounded when stored are left to packet2
 * unless there are only two ranks, where the result is rounded once.
 */
#include "coll/algos.h"
#include "coll/host/slot.h"
#include "compute/numeric.h"

static const char phase[] = "reduce (chain)";

typedef struct chain {
    weiri_coll *coll;
    const weiri_task *task;
    weiri_reduce_fn reduce;
    int before, after; /* the neighbours; -1: none */
} chain;

static chain chain_of(weiri_coll *coll, const weiri_task *task)
{
    int n = coll->nranks, first = weiri_next(task->call->root, n);
    int is_root = coll->rank == task->call->root;
    /* Only the root has all contributions, so it divides. */
    weir_op op = task->call->op == WEIR_AVG && !is_root ? WEIR_SUM : task->call->op;
    return (chain){.coll = coll,
                   .task = task,
                   .reduce = weiri_reduce_get(task->call->dtype, op),
                   .before = coll->rank == first ? -1 : weiri_previous(coll->rank, n),
                   .after = is_root ? -1 : weiri_next(coll->rank, n)};
}

static weir_status chain_begin(const chain *x, size_t total)
{
    if (x->after >= 0)
        return weiri_slot_begin(x->coll, total, x->after);
    x->coll->epoch++;
    return WEIR_OK;
}

/* Combines the predecessor's piece with this rank's input as it arrives, and passes it on. */
static weir_status chain_pass_on(const chain *x, size_t done, size_t total)
{
    weiri_coll *coll = x->coll;
    weiri_slot *own = weiri_slot_of(coll, coll->rank), *from = weiri_slot_of(coll, x->before);
    const char *in = weiri_in_at(x->task, done);
    const char *arrived = weiri_slot_data(coll, from, coll->epoch, total);
    char *to =
        x->after < 0 ? weiri_out_at(x->task, done) : weiri_slot_data(coll, own, coll->epoch, total);
    for (size_t at = 0; at < total; at += WEIRI_CHUNK_BYTES) {
        size_t bytes = total - at < WEIRI_CHUNK_BYTES ? total - at : WEIRI_CHUNK_BYTES;
        weir_status status = weiri_slot_await(coll, from, x->before, at + bytes, phase);
        if (status != WEIR_OK)
            return status;
        const void *sources[2] = {arrived + at, in + at};
        x->reduce(to + at, sources, 2, bytes / x->task->element_bytes, (uint64_t)coll->nranks, 0);
        if (x->after >= 0)
            weiri_slot_advance(coll, own, at + bytes);
    }
    return WEIR_OK;
}

static weir_status reduce_chain_run(weiri_coll *coll, const weiri_task *task)
{
    if (coll->nranks > 2 && weiri_is_rounded(task->call->dtype))
        return weiri_algo_fall_back(coll, task, &weiri_host_reduce_packet2_row);
    chain x = chain_of(coll, task);
    weiri_slots_for_ahead(coll);
    for (size_t done = 0; done < task->count_bytes; done += coll->piece_bytes) {
        size_t total = weiri_piece_at(coll, task->count_bytes, done);
        weir_status status = chain_begin(&x, total);
        if (status == WEIR_OK && x.before >= 0)
            status = chain_pass_on(&x, done, total);
        else if (status == WEIR_OK)
            weiri_slot_publish(coll, coll->epoch, weiri_in_at(task, done), total, WEIRI_CHUNK_BYTES,
                               weiri_copy_to_peer);
        if (status != WEIR_OK)
            return status;
        weiri_coll_end(coll);
    }
    return WEIR_OK;
}

const weiri_algo weiri_host_reduce_chain_row = {
    .info =
        {WEIRI_HOST_TRAITS(
             REDUCE, "chain",
             "partial results from rank to rank, through scratch memory; long unregistered memory"),
         .in_order = "packet2"},
    .run = reduce_chain_run,
};
