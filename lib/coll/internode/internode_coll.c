/* Functions that the algorithms across nodes have in common; see internode_coll.h. */
#include "coll/internode/internode_coll.h"

#include "compute/copy.h"
#include "coll/internode/gpu_staging.h"
#include "comm/gpu/gpu.h"

/* ------------------------------------------------- beginning and end of a call */

static weir_status internode_begin_on_gpu(weiri_internode_coll *x)
{
    x->node_comm = x->coll->comm->gpu_comm;
    x->stream = x->task->call->stream;
    weir_status status = weiri_gpu_staging_device(x->coll, &x->device_staging);
    return status == WEIR_OK ? weiri_gpu_staging_host(x->coll, WEIRI_GPU_STAGING_IN,
                                                      x->internode->slot_bytes, &x->host_staging)
                             : status;
}

weir_status weiri_internode_coll_begin(weiri_coll *coll, const weiri_task *task,
                                       weiri_internode_coll *x)
{
    weir_comm *comm = coll->comm;
    *x = (weiri_internode_coll){.coll = coll,
                                .internode = comm->internode,
                                .task = task,
                                .phase = weir_collective_name(task->call->collective),
                                .unit_bytes = task->element_bytes,
                                .op = task->call->op == WEIR_AVG ? WEIR_SUM : task->call->op,
                                .node_comm = comm->host_comm,
                                .place = comm->local_rank,
                                .count = comm->local_nranks};
    weir_status status = weiri_coll_get(comm->host_comm, &x->host);
    if (status == WEIR_OK)
        x->host->is_one_way = 0; /* relay and bundles are no calls of the node's communicator */
    if (status == WEIR_OK && comm->gpu_comm && task->memory == WEIRI_TASK_AS_GIVEN)
        status = internode_begin_on_gpu(x);
    return status;
}

/* Waits for the stream and makes network progress meanwhile, because its kernels may wait for peers
 * that wait for messages of this rank. */
static weir_status internode_await_stream(weiri_internode_coll *x)
{
    weir_comm *host = x->host->comm;
    weiri_waiter waiter = {.polls = {0, 0}};
    uint64_t ended = 0;
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && !ended) {
        status = x->coll->comm->gpu->ops->poll(x->node_comm, x->stream, &ended);
        if (status == WEIR_OK && !ended)
            status = weiri_comm_idle_for(host, &waiter, &ended, 1, x->coll->rank, x->phase);
    }
    weiri_comm_idle_end(host, &waiter);
    if (status == WEIR_OK && weir_load_acquire(x->node_comm->guard.abort_word))
        status = weir_comm_check(x->node_comm);
    return status;
}

weir_status weiri_internode_coll_end(weiri_internode_coll *x, weir_status status)
{
    if (status == WEIR_OK && x->device_staging)
        status = internode_await_stream(x);
    return status == WEIR_OK ? weiri_internode_flush(x->internode, x->phase) : status;
}

weir_status weiri_internode_coll_copy(weiri_internode_coll *x, char *to, const char *from,
                                      size_t bytes)
{
    if (to == from || !bytes)
        return WEIR_OK;
    if (!x->device_staging) {
        weiri_copy(to, from, bytes);
        return WEIR_OK;
    }
    weir_status status =
        x->coll->comm->gpu->ops->begin_copy(x->node_comm, to, from, bytes, x->stream);
    return status == WEIR_OK ? internode_await_stream(x) : status;
}

/* --------------------------------------------------------------------- phases */

weir_status weiri_internode_coll_combine(weiri_internode_coll *x, const int *senders,
                                         const void *mine, char *out, size_t count)
{
    const void **parts = x->coll->blocks;
    int nnodes = x->internode->nnodes;
    for (int m = 0; m < nnodes; m++) {
        weir_status status = WEIR_OK;
        if (m != x->internode->node)
            status = weiri_internode_await(x->internode, senders[m], x->phase);
        if (status != WEIR_OK)
            return status;
        parts[m] =
            m == x->internode->node ? mine : weiri_internode_incoming(x->internode, senders[m]);
    }
    weiri_reduce(out, parts, nnodes, count, x->task->call->dtype, x->task->call->op,
                 (uint64_t)x->coll->nranks, 0);
    for (int m = 0; m < nnodes; m++) {
        weir_status status = WEIR_OK;
        if (m != x->internode->node)
            status = weiri_internode_take(x->internode, senders[m]);
        if (status != WEIR_OK)
            return status;
    }
    return WEIR_OK;
}

weir_status weiri_internode_coll_send(weiri_internode_coll *x, int rank, const char *data,
                                      size_t bytes)
{
    weir_status status = weiri_internode_await_room(x->internode, rank, x->phase);
    if (status == WEIR_OK)
        status =
            weiri_internode_coll_copy(x, weiri_internode_outgoing(x->internode, rank), data, bytes);
    return status == WEIR_OK ? weiri_internode_send(x->internode, rank, bytes, bytes) : status;
}

weir_status weiri_internode_coll_send_rail(weiri_internode_coll *x, const char *data, size_t bytes)
{
    weir_status status = WEIR_OK;
    for (int step = 1; step < x->internode->nnodes && status == WEIR_OK; step++) {
        int node = (x->internode->node + step) % x->internode->nnodes;
        status =
            weiri_internode_coll_send(x, weiri_internode_coll_rail(x, node, x->place), data, bytes);
    }
    return status;
}

weir_status weiri_internode_coll_receive(weiri_internode_coll *x, int rank, size_t bytes,
                                         const char **data)
{
    weir_status status = weiri_internode_await(x->internode, rank, x->phase);
    if (status != WEIR_OK)
        return status;
    const char *message = weiri_internode_incoming(x->internode, rank);
    if (!x->device_staging) {
        *data = message;
        return WEIR_OK;
    }
    *data = x->device_staging;
    return weiri_internode_coll_copy(x, x->device_staging, message, bytes);
}

weir_status weiri_internode_coll_spread(weiri_internode_coll *x, const char *mine, size_t bytes,
                                        char *const *to, const size_t *lengths)
{
    const weir_call call = {.size = sizeof call,
                            .collective = WEIR_COLL_ALLTOALLV,
                            .in = mine,
                            .out = x->task->call->out,
                            .dtype = WEIR_UINT8,
                            .stream = x->stream};
    weiri_coll *node_coll = NULL;
    size_t most = bytes;
    if (x->count == 1)
        return weiri_internode_coll_copy(x, to[0], mine, bytes);
    weir_status status = weiri_coll_get(x->node_comm, &node_coll);
    if (status != WEIR_OK)
        return status;
    for (int place = 0; place < x->count; place++) {
        int keeps = place == x->place && to[place] == mine;
        node_coll->pairs[place] = (weiri_pair){
            mine, to[place], keeps ? 0 : bytes, keeps ? 0 : lengths[place], !keeps, !keeps};
        most = lengths[place] > most ? lengths[place] : most;
    }
    return weiri_coll_run(node_coll, &call, most * (size_t)x->count);
}
