/* Functions that the algorithms across nodes have in common; see internode_coll.h. */
#include "coll/internode/internode_coll.h"

#include "compute/copy.h"

/* ------------------------------------------------- beginning and end of a call */

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
    return status;
}

weir_status weiri_internode_coll_end(weiri_internode_coll *x, weir_status status)
{
    return status == WEIR_OK ? weiri_internode_flush(x->internode, x->phase) : status;
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
    if (status != WEIR_OK)
        return status;
    weiri_copy(weiri_internode_outgoing(x->internode, rank), data, bytes);
    return weiri_internode_send(x->internode, rank, bytes, bytes);
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

weir_status weiri_internode_coll_receive(weiri_internode_coll *x, int rank, const char **data)
{
    const weir_status status = weiri_internode_await(x->internode, rank, x->phase);
    if (status == WEIR_OK)
        *data = weiri_internode_incoming(x->internode, rank);
    return status;
}

weir_status weiri_internode_coll_spread(weiri_internode_coll *x, const char *mine, size_t bytes,
                                        char *const *to, const size_t *lengths)
{
    const weir_call call = {.size = sizeof call,
                            .collective = WEIR_COLL_ALLTOALLV,
                            .in = mine,
                            .out = x->task->call->out,
                            .dtype = WEIR_UINT8};
    weiri_coll *node_coll = NULL;
    size_t most = bytes;
    if (x->count == 1) {
        if (to[0] != mine)
            weiri_copy(to[0], mine, bytes);
        return WEIR_OK;
    }
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
