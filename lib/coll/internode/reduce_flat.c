/*
 * Allreduce and reduce_scatter along rails (allreduce_rails.c, reduce_scatter_rails.c) with one
 * rank on each node, where nothing is reduced within a node: each rank sends the other ranks what
 * they combine, from where it is, and combines the messages with its own data in the order of
 * nodes. The messages are the same as along rails, so a rank whose call is in place may use those.
 */
#include "coll/internode/internode_coll.h"

enum { AHEAD = 2 }; /* chunks sent before the first of them is combined */

/* Elements [first, first + count) of each block. */
typedef struct flat {
    weiri_internode_coll x;
    size_t stride_bytes; /* between what two ranks combine: 0 in allreduce */
    int *senders;        /* nnodes */
    size_t chunk;        /* elements */
} flat;

static const char *flat_at(const flat *f, int rank, size_t first)
{
    return weiri_in_at(f->x.task, (size_t)rank * f->stride_bytes) +
           first * f->x.task->element_bytes;
}

static size_t flat_count(const flat *f, size_t first)
{
    return weiri_least(f->x.task->call->count - first, f->chunk);
}

static weir_status flat_send(flat *f, size_t first)
{
    weiri_internode *internode = f->x.internode;
    const size_t bytes = flat_count(f, first) * f->x.task->element_bytes;
    weir_status status = WEIR_OK;
    for (int step = 1; step < internode->nnodes && status == WEIR_OK; step++) {
        const int to = f->senders[(internode->node + step) % internode->nnodes];
        const char *data = flat_at(f, to, first);
        if (!weiri_internode_is_direct(internode, bytes)) {
            status = weiri_internode_coll_send(&f->x, to, data, bytes);
            continue;
        }
        status = weiri_internode_await_room(internode, to, f->x.phase);
        if (status == WEIR_OK)
            status = weiri_internode_post(internode, to, data, bytes, bytes);
    }
    weiri_internode_poll(internode);
    return status;
}

static weir_status flat_combine(flat *f, size_t first)
{
    return weiri_internode_coll_combine(&f->x, f->senders, flat_at(f, f->x.coll->rank, first),
                                        weiri_out_at(f->x.task, first * f->x.task->element_bytes),
                                        flat_count(f, first));
}

weir_status weiri_internode_coll_reduce_flat(weiri_coll *coll, const weiri_task *task)
{
    flat f = {.senders = WEIRI_STACK_ARRAY(int, coll->nranks)};
    size_t sent = 0, done = 0;
    weir_status status = weiri_internode_coll_begin(coll, task, &f.x);
    f.stride_bytes = task->call->collective == WEIR_COLL_REDUCE_SCATTER ? task->count_bytes : 0;
    f.chunk = weiri_internode_coll_elements(&f.x);
    for (int node = 0; node < f.x.internode->nnodes; node++)
        f.senders[node] = f.x.internode->nodes[node].ranks[0];
    while (status == WEIR_OK && done < task->call->count) {
        if (sent < task->call->count && sent < done + (AHEAD + 1) * f.chunk) {
            status = flat_send(&f, sent);
            sent += f.chunk;
            continue;
        }
        status = flat_combine(&f, done);
        done += f.chunk;
    }
    status = weiri_internode_coll_end(&f.x, status);
    if (status != WEIR_OK)
        weiri_internode_forget(f.x.internode);
    return status;
}
