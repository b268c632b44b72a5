/*
 * Allreduce around a ring: in n - 1 steps partial sums travel from rank to rank, each of which adds
 * its own contribution; in n - 1 more steps the finished shares travel on. A step is one or more
 * epochs in which a rank publishes a piece in its slot and reads its predecessor's.
 *
 * Share s is combined in the order s, s + 1, ... s - 1 (modulo n) and stored in the data type after
 * each rank, so its bits depend on where an element is in the buffer. One rank finishes a share and
 * all others receive copies, so in fact all ranks hold the same bits, in every run; but the table
 * does not promise it (weir_algo_info.reproducible is 0), and callers must not rely on it.
 *
 * No tuning row selects it. It is kept because it is the only algorithm that rounds at each rank,
 * which the checks of rounding and of reproducibility are tested with.
 */
#include "coll/algos.h"
#include "coll/host/slot.h"

static const char phase[] = "allreduce (ring)";

typedef struct ring {
    weiri_coll *coll;
    const weiri_task *task;
    int previous;
} ring;

static weiri_share ring_share(const ring *r, int index)
{
    int n = r->coll->nranks;
    return weiri_share_of(r->task->call->count, r->task->element_bytes, (index % n + n) % n, n);
}

/* Combines what arrived with this rank's input, or (adds is 0) only stores it. */
static void ring_store(const ring *r, const char *arrived, size_t offset, size_t bytes, int adds,
                       int last)
{
    const weiri_task *task = r->task;
    const size_t element_bytes = r->task->element_bytes;
    if (!adds) {
        memcpy(weiri_out_at(task, offset), arrived, bytes);
        return;
    }
    /* Only the last step has all contributions, so it divides. */
    weir_op op = task->call->op == WEIR_AVG && !last ? WEIR_SUM : task->call->op;
    const void *sources[2] = {arrived, weiri_in_at(task, offset)};
    weiri_reduce(weiri_out_at(task, offset), sources, 2, bytes / element_bytes, task->call->dtype,
                 op, (uint64_t)r->coll->nranks, 0);
}

/* One step: sends share out_share of the buffer from, and receives share in_share. */
static weir_status ring_step(const ring *r, const char *from, int out_share, int in_share,
                             int adds, int last)
{
    weiri_coll *coll = r->coll;
    size_t size = r->task->element_bytes;
    weiri_share sent = ring_share(r, out_share), received = ring_share(r, in_share);
    weiri_share largest = ring_share(r, 0);
    for (size_t done = 0; done < largest.count * size; done += coll->piece_bytes) {
        size_t out_bytes = weiri_piece_at(coll, sent.count * size, done);
        size_t in_bytes = weiri_piece_at(coll, received.count * size, done);
        weir_status status = weiri_coll_begin(coll);
        if (status != WEIR_OK)
            return status;
        weiri_slot_publish(coll, coll->epoch, from + sent.first * size + done, out_bytes,
                           WEIRI_CHUNK_BYTES, weiri_copy_to_peer);
        weiri_slot *arriving = weiri_slot_of(coll, r->previous);
        status = weiri_slot_await(coll, arriving, r->previous, in_bytes, phase);
        if (status != WEIR_OK)
            return status;
        ring_store(r, weiri_slot_data(coll, arriving, coll->epoch, in_bytes),
                   received.first * size + done, in_bytes, adds, last);
        weiri_coll_end(coll);
    }
    return WEIR_OK;
}

weir_status weiri_allreduce_ring(weiri_coll *coll, const weiri_task *task)
{
    int n = coll->nranks, rank = coll->rank;
    ring r = {coll, task, weiri_previous(rank, n)};
    weir_status status = WEIR_OK;
    for (int i = 0; i < n - 1 && status == WEIR_OK; i++)
        status = ring_step(&r, i == 0 ? task->call->in : task->call->out, rank - i, rank - i - 1, 1,
                           i == n - 2);
    for (int i = 0; i < n - 1 && status == WEIR_OK; i++)
        status = ring_step(&r, task->call->out, rank + 1 - i, rank - i, 0, 0);
    return status;
}
