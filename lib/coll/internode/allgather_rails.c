/*
 * Allgather of large sizes: every rank sends its block along its rail to each other
 * machine, where the one that gets it copies it to the others of its machine, chunk by
 * chunk. A rank of a machine with fewer ranks than another gets several blocks of that
 * one, and spreads them in as many turns.
 */
#include "coll/internode/internode_coll.h"

enum { AHEAD = 2 };

static char *out_of(const weiri_internode_coll *x, int rank, size_t at)
{
    return weiri_out_at(x->call, (size_t)rank * x->coll->count_bytes + at);
}

/* A chunk of the own block, to all machines. */
static weir_status send_chunk(weiri_internode_coll *x, size_t at, size_t bytes)
{
    weir_status status = WEIR_OK;
    for (int step = 1; step < x->internode->nnodes && status == WEIR_OK; step++) {
        int node = (x->internode->node + step) % x->internode->nnodes;
        status = weiri_internode_coll_send(x, weiri_internode_coll_rail(x, node, x->place),
                                           weiri_in_at(x->call, at), bytes);
    }
    return status;
}

/* The blocks of one turn of a machine: from place p those of its rank turn * count + p. */
static weir_status spread_turn(weiri_internode_coll *x, int node, int turn, size_t at, size_t bytes)
{
    const weiri_node *other = &x->internode->nodes[node];
    char *to[WEIRI_RANKS_MAX];
    size_t lengths[WEIRI_RANKS_MAX];
    const char *mine = x->call->in;
    int first = turn * x->count, own = first + x->place, has = own < other->count;
    int from = has ? other->ranks[own] : -1, is_local = node == x->internode->node;
    weir_status status = WEIR_OK;
    for (int place = 0; place < x->count; place++) {
        int there = first + place < other->count;
        lengths[place] = there ? bytes : 0;
        to[place] = there ? out_of(x, other->ranks[first + place], at) : x->call->out;
    }
    if (is_local)
        mine += at;
    else if (has)
        status = weiri_internode_coll_receive(x, from, bytes, &mine);
    if (status == WEIR_OK)
        status = weiri_internode_coll_spread(x, mine, has ? bytes : 0, to, lengths);
    if (status == WEIR_OK && has && !is_local)
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
        int turns = (x->internode->nodes[node].count + x->count - 1) / x->count;
        for (int turn = 0; turn < turns && status == WEIR_OK; turn++)
            status = spread_turn(x, node, turn, at, bytes);
    }
    return status;
}

weir_status weiri_internode_coll_allgather_rails(weiri_coll *coll, const weir_call *call)
{
    weiri_internode_coll x;
    weir_status status = weiri_internode_coll_begin(coll, call, &x);
    size_t chunk = x.internode->slot_bytes, sent = 0, done = 0;
    while (status == WEIR_OK && done < coll->count_bytes) {
        if (sent < coll->count_bytes && sent < done + (AHEAD + 1) * chunk) {
            size_t bytes = weiri_least(coll->count_bytes - sent, chunk);
            status = send_chunk(&x, sent, bytes);
            sent += bytes;
            continue;
        }
        size_t bytes = weiri_least(coll->count_bytes - done, chunk);
        status = spread_chunk(&x, done, bytes);
        done += bytes;
    }
    return weiri_internode_coll_end(&x, status);
}
