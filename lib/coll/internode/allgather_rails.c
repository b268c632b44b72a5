/*
 * Allgather of large sizes across nodes: every rank sends its block along its rail to each other
 * node, chunk by chunk, and the receiver copies it to the other ranks of its node. If a node has
 * fewer ranks than another, its ranks receive several of that node's blocks, and distribute them in
 * as many rounds. With one rank on each node, long blocks are messages of pairs, which need no
 * copies.
 */
#include "coll/internode/internode_coll.h"

enum { AHEAD = 2 }; /* chunks sent before the first of them is distributed */

static char *out_of(const weiri_internode_coll *x, int rank, size_t at)
{
    return weiri_out_at(x->task, (size_t)rank * x->task->count_bytes + at);
}

/* Distributes one round of a node's blocks: the rank of place p has the block of the node's place
 * round * count + p. */
static weir_status spread_round(weiri_internode_coll *x, int node, int round, size_t at,
                                size_t bytes)
{
    const weiri_node *other = &x->internode->nodes[node];
    char **to = WEIRI_STACK_ARRAY(char *, x->count);
    size_t *lengths = WEIRI_STACK_ARRAY(size_t, x->count);
    const char *mine = x->task->call->in;
    int first = round * x->count, own = first + x->place, has = own < other->count;
    int from = has ? other->ranks[own] : -1, is_own_node = node == x->internode->node;
    weir_status status = WEIR_OK;
    for (int place = 0; place < x->count; place++) {
        int exists = first + place < other->count;
        lengths[place] = exists ? bytes : 0;
        to[place] = exists ? out_of(x, other->ranks[first + place], at) : x->task->call->out;
    }
    if (is_own_node)
        mine += at;
    else if (has)
        status = weiri_internode_coll_receive(x, from, bytes, &mine);
    if (status == WEIR_OK)
        status = weiri_internode_coll_spread(x, mine, has ? bytes : 0, to, lengths);
    if (status == WEIR_OK && has && !is_own_node)
        status = weiri_internode_take(x->internode, from);
    return status;
}

static weir_status spread_chunk(weiri_internode_coll *x, size_t at, size_t bytes)
{
    weir_status status = WEIR_OK;
    for (int step = 0; step < x->internode->nnodes && status == WEIR_OK; step++) {
        int node = step == 0 ? x->internode->node : step - 1;
        if (step > 0 && node >= x->internode->node)
            node++;
        int rounds = (x->internode->nodes[node].count + x->count - 1) / x->count;
        for (int round = 0; round < rounds && status == WEIR_OK; round++)
            status = spread_round(x, node, round, at, bytes);
    }
    return status;
}

static weir_status allgather_pairs_run(weiri_coll *coll, const weiri_task *task)
{
    const size_t bytes = task->count_bytes;
    for (int peer = 0; peer < coll->nranks; peer++)
        coll->pairs[peer] = (weiri_pair){
            task->call->in, weiri_out_at(task, (size_t)peer * bytes), bytes, bytes, 1, 1};
    return weiri_internode_coll_run_pairs(coll, task);
}

static weir_status allgather_rails_run(weiri_coll *coll, const weiri_task *task)
{
    weiri_internode_coll x;
    if (weiri_internode_coll_is_flat(coll, task->count_bytes))
        return allgather_pairs_run(coll, task);
    weir_status status = weiri_internode_coll_begin(coll, task, &x);
    size_t chunk = x.internode->slot_bytes, sent = 0, done = 0;
    while (status == WEIR_OK && done < task->count_bytes) {
        if (sent < task->count_bytes && sent < done + (AHEAD + 1) * chunk) {
            size_t bytes = weiri_least(task->count_bytes - sent, chunk);
            status = weiri_internode_coll_send_rail(&x, weiri_in_at(task, sent), bytes);
            sent += bytes;
            continue;
        }
        size_t bytes = weiri_least(task->count_bytes - done, chunk);
        status = spread_chunk(&x, done, bytes);
        done += bytes;
    }
    return weiri_internode_coll_end(&x, status);
}

const weiri_algo weiri_net_allgather_rails_row = {
    .info = {WEIRI_NET_TRAITS(ALLGATHER, "rails",
                              "send the input to each node, distribute it there")},
    .run = allgather_rails_run,
};
