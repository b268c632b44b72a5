/*
 * Small sizes: the machine's ranks publish their inputs in their slots, the leader (its
 * first rank) sends what is meant for another machine to that machine's leader in one
 * message, and publishes the result for its own ranks. That is one message a pair of
 * machines, and two latencies inside a machine.
 *
 * Contributions travel as they are and each leader combines all of them in the order of
 * ranks, so reductions have the bits that they have on one machine.
 *
 *   allreduce, allgather       a rank contributes its input, to all machines
 *   reduce_scatter, alltoall   it contributes a block for each rank; a machine gets those
 *                              for its own ranks
 *
 * A message has the contributions of the sending machine's ranks one behind the other.
 * The local epoch is a round in which all have heard of all: the leader of everybody,
 * and the others of it. Where machines have so many ranks that a message has not a word for
 * each block, the collective's other algorithm serves.
 */
#include "coll/internode/internode_coll.h"
#include "coll/host/slot.h"

#include <string.h>

typedef struct relay {
    weiri_internode_coll x;
    int blocks;    /* a contribution is a block for each rank */
    int all;       /* a result is a block from each rank */
    size_t block;  /* bytes of one in this round */
    size_t done;   /* bytes of each block in earlier rounds */
    const char *from[WEIRI_RANKS_MAX]; /* leader: where a rank's contribution begins */
} relay;

static size_t ranks_of(const relay *r)
{
    return (size_t)r->x.coll->nranks;
}

static size_t contribution_bytes(const relay *r)
{
    return r->blocks ? r->block * ranks_of(r) : r->block;
}

/* Bytes that a machine's ranks get of one contribution. */
static size_t share_bytes(const relay *r, int node)
{
    return r->blocks ? r->block * (size_t)r->x.internode->nodes[node].count : r->block;
}

/* What the leader publishes: a result, or one for each of its ranks. */
static size_t result_bytes(const relay *r)
{
    size_t each = r->all ? r->block * ranks_of(r) : r->block;
    return r->blocks ? each * (size_t)r->x.count : each;
}

/* The most of a block that slots, results and messages hold, in whole lines. */
static size_t round_bytes(const relay *r)
{
    const weiri_coll *local = r->x.local;
    size_t most = (size_t)r->x.internode->most, n = ranks_of(r);
    size_t slot = local->piece_bytes / (r->blocks ? n : 1);
    size_t result = local->result_bytes / (r->all ? n : 1) / (r->blocks ? most : 1);
    size_t message = r->x.internode->slot_bytes / most / (r->blocks ? most : 1);
    size_t least = weiri_least(slot, weiri_least(result, message));
    return least / WEIR_LINE_BYTES ? least / WEIR_LINE_BYTES * WEIR_LINE_BYTES : least / 8 * 8;
}

/* ------------------------------------------------------------------- the leader */

/* Sends another machine its part of all contributions. */
static weir_status send_share(relay *r, int node)
{
    weiri_internode *internode = r->x.internode;
    const weiri_node *other = &internode->nodes[node];
    int to = other->ranks[0];
    weir_status status = weiri_internode_await_room(internode, to, r->x.phase);
    if (status != WEIR_OK)
        return status;
    char *data = weiri_internode_outgoing(internode, to), *at = data;
    for (int place = 0; place < r->x.count; place++) {
        const char *from = r->from[internode->nodes[internode->node].ranks[place]];
        for (int i = 0; i < (r->blocks ? other->count : 1); i++) {
            size_t block = r->blocks ? (size_t)other->ranks[i] : 0;
            memcpy(at, from + block * r->block, r->block);
            at += r->block;
        }
    }
    return weiri_internode_send(internode, to, (size_t)(at - data), (size_t)(at - data));
}

/* Waits for another machine's contributions. */
static weir_status await_share(relay *r, int node)
{
    weiri_internode *internode = r->x.internode;
    const weiri_node *other = &internode->nodes[node];
    weir_status status = weiri_internode_await(internode, other->ranks[0], r->x.phase);
    if (status != WEIR_OK)
        return status;
    const char *data = weiri_internode_incoming(internode, other->ranks[0]);
    for (int place = 0; place < other->count; place++)
        r->from[other->ranks[place]] = data + (size_t)place * share_bytes(r, internode->node);
    return WEIR_OK;
}

/* Where rank's block for a rank of this machine is; all blocks are in a local
 * contribution, and those of this machine in another's. */
static const char *block_of(const relay *r, int rank, int place)
{
    const weiri_internode *internode = r->x.internode;
    if (!r->blocks)
        return r->from[rank];
    int is_local = internode->node_of[rank] == internode->node;
    size_t block =
        is_local ? (size_t)internode->nodes[internode->node].ranks[place] : (size_t)place;
    return r->from[rank] + block * r->block;
}

/* The result of one of this machine's ranks, or of all. */
static void make_result(const relay *r, int place, char *result)
{
    const weir_call *call = r->x.call;
    const void *blocks[WEIRI_RANKS_MAX];
    for (int rank = 0; rank < r->x.coll->nranks; rank++)
        blocks[rank] = block_of(r, rank, place);
    if (!r->all) {
        weiri_reduce(result, blocks, r->x.coll->nranks, r->block / r->x.coll->element_bytes,
                     call->dtype, call->op, ranks_of(r), 0);
        return;
    }
    for (size_t rank = 0; rank < ranks_of(r); rank++)
        memcpy(result + rank * r->block, blocks[rank], r->block);
}

static weir_status lead(relay *r)
{
    weiri_coll *local = r->x.local;
    weiri_internode *internode = r->x.internode;
    size_t bytes = contribution_bytes(r), total = result_bytes(r);
    weir_status status = WEIR_OK;
    for (int place = 0; place < r->x.count && status == WEIR_OK; place++) {
        weiri_slot *slot = weiri_slot_of(local, place);
        if (place != r->x.place)
            status = weiri_slot_await(local, slot, place, bytes, r->x.phase);
        r->from[internode->nodes[internode->node].ranks[place]] = weiri_slot_data(slot, bytes);
    }
    for (int step = 1; step < internode->nnodes && status == WEIR_OK; step++)
        status = send_share(r, (internode->node + step) % internode->nnodes);
    for (int m = 0; m < internode->nnodes && status == WEIR_OK; m++)
        if (m != internode->node)
            status = await_share(r, m);
    if (status != WEIR_OK)
        return status;
    weiri_slot *slot = local->areas[r->x.place].result[local->epoch & 1];
    char *result = weiri_slot_data(slot, total);
    for (int place = 0; place < (r->blocks ? r->x.count : 1); place++)
        make_result(r, place, result + (size_t)place * (total / (size_t)r->x.count));
    weiri_slot_advance(local, slot, total);
    for (int m = 0; m < internode->nnodes && status == WEIR_OK; m++)
        if (m != internode->node)
            status = weiri_internode_take(internode, internode->nodes[m].ranks[0]);
    return status;
}

/* --------------------------------------------------------------------- all ranks */

/* This rank's input of a round, in its slot. */
static void publish(const relay *r)
{
    const weir_call *call = r->x.call;
    size_t bytes = contribution_bytes(r);
    weiri_slot *slot = weiri_slot_of(r->x.local, r->x.place);
    char *data = weiri_slot_data(slot, bytes);
    for (size_t block = 0; block < (r->blocks ? ranks_of(r) : 1); block++)
        memcpy(data + block * r->block, weiri_in_at(call, block * r->x.coll->count_bytes + r->done),
               r->block);
    weiri_slot_advance(r->x.local, slot, bytes);
}

static weir_status fetch_result(relay *r)
{
    const weir_call *call = r->x.call;
    weiri_coll *local = r->x.local;
    size_t total = result_bytes(r);
    weiri_slot *slot = local->areas[0].result[local->epoch & 1];
    weir_status status = weiri_slot_await(local, slot, 0, total, r->x.phase);
    if (status != WEIR_OK)
        return status;
    const char *result = weiri_slot_data(slot, total);
    if (r->blocks)
        result += (size_t)r->x.place * (total / (size_t)r->x.count);
    for (size_t block = 0; block < (r->all ? ranks_of(r) : 1); block++)
        memcpy(weiri_out_at(call, block * r->x.coll->count_bytes + r->done),
               result + block * r->block, r->block);
    return WEIR_OK;
}

static weir_status run_round(relay *r)
{
    weir_status status = weiri_coll_begin(r->x.local);
    if (status != WEIR_OK)
        return status;
    publish(r);
    if (r->x.place == 0)
        status = lead(r);
    if (status == WEIR_OK)
        status = fetch_result(r);
    if (status == WEIR_OK)
        weiri_coll_end_all_heard(r->x.local);
    return status;
}

weir_status weiri_internode_coll_relay(weiri_coll *coll, const weir_call *call)
{
    relay r = {.done = 0};
    weir_status status = weiri_internode_coll_begin(coll, call, &r.x);
    r.blocks = call->collective == WEIR_COLL_REDUCE_SCATTER ||
               call->collective == WEIR_COLL_ALLTOALL;
    r.all = call->collective == WEIR_COLL_ALLGATHER || call->collective == WEIR_COLL_ALLTOALL;
    size_t most = status == WEIR_OK ? round_bytes(&r) : 0;
    if (status == WEIR_OK && !most)
        return r.all ? weiri_algo_give_way(coll, call, "pairs", weiri_internode_coll_pairs)
                     : weiri_algo_give_way(coll, call, "rails",
                                           weiri_internode_coll_reduce_scatter_rails);
    for (; status == WEIR_OK && r.done < coll->count_bytes; r.done += r.block) {
        r.block = weiri_least(coll->count_bytes - r.done, most);
        status = run_round(&r);
    }
    return weiri_internode_coll_end(&r.x, status);
}
