/* Transfers between ranks of different nodes, and phases within a node on divided data: see
 * transfer.h. */
#include "coll/internode/transfer.h"

#include "base/error.h"
#include "compute/copy.h"

#include <stdlib.h>

/* ------------------------------------------------------------------- transfers */

typedef struct transfer_state {
    size_t sent, received; /* bytes */
    int sends, receives;   /* not finished yet */
} transfer_state;

/* Sends what there is room for. An empty transfer consists of one empty message. */
static weir_status transfer_push(weiri_internode_coll *x, const weiri_transfer *t,
                                 transfer_state *state, size_t most, int *moved)
{
    weiri_internode *internode = x->internode;
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && state->sends &&
           weiri_internode_has_room(&internode->peers[t->to])) {
        size_t bytes = weiri_least(t->send_bytes - state->sent, most);
        weiri_copy(weiri_internode_outgoing(internode, t->to), t->send + state->sent, bytes);
        status = weiri_internode_send(internode, t->to, bytes, t->send_bytes);
        state->sent += bytes;
        state->sends = state->sent < t->send_bytes;
        *moved = 1;
    }
    return status;
}

static void transfer_store(const weiri_internode_coll *x, const weiri_transfer *t, size_t at,
                           const char *data, size_t bytes)
{
    char *to = t->receive + at;
    if (!t->combines) {
        weiri_copy(to, data, bytes);
        return;
    }
    const void *parts[2] = {t->peer_first ? data : to, t->peer_first ? to : data};
    weiri_reduce(to, parts, 2, bytes / x->task->element_bytes, x->task->call->dtype,
                 t->is_last ? x->task->call->op : x->op, (uint64_t)x->coll->nranks, 0);
}

/* The peer sends another length than this rank expects. */
static weir_status transfer_refuse(weiri_internode_coll *x, const weiri_transfer *t,
                                   uint64_t sent_bytes)
{
    weiri_fail(WEIR_ERR_MISMATCH,
               "rank %d: in %s rank %d sends %llu bytes, but %zu are expected; counts must match "
               "on all ranks",
               x->coll->rank, x->phase, t->from, (unsigned long long)sent_bytes, t->receive_bytes);
    return weiri_comm_give_up(x->coll->comm, WEIR_ERR_MISMATCH);
}

/* Receives what has arrived; where sending and receiving use the same buffer, only what has been
 * sent is overwritten. */
static weir_status transfer_pull(weiri_internode_coll *x, const weiri_transfer *t,
                                 transfer_state *state, int *moved)
{
    weiri_internode *internode = x->internode;
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && state->receives &&
           weiri_internode_has_arrived(&internode->peers[t->from])) {
        const char *data = weiri_internode_incoming(internode, t->from);
        const weiri_internode_head *head = weiri_internode_head_of(data);
        if (head->total_bytes != t->receive_bytes ||
            head->bytes > t->receive_bytes - state->received)
            return transfer_refuse(x, t, head->total_bytes);
        if (t->receive == t->send && state->sends && state->received + head->bytes > state->sent)
            return WEIR_OK;
        transfer_store(x, t, state->received, data, head->bytes);
        state->received += head->bytes;
        state->receives = state->received < t->receive_bytes;
        status = weiri_internode_take(internode, t->from);
        *moved = 1;
    }
    return status;
}

static weir_status transfer_pause(weiri_internode_coll *x, const weiri_transfer *t,
                                  const transfer_state *state, weiri_waiter *waiter)
{
    int rank = state->receives ? t->from : t->to;
    const weiri_internode_peer *peer = &x->internode->peers[rank];
    const uint64_t *word = state->receives ? &peer->words->arrived : &peer->words->consumed;
    uint64_t target = state->receives ? peer->taken + 1 : weiri_internode_room_at(peer);
    return weiri_comm_idle_for(x->host->comm, waiter, word, target, rank, x->phase);
}

weir_status weiri_transfer_run(weiri_internode_coll *x, const weiri_transfer *t)
{
    transfer_state state = {0, 0, t->to != WEIRI_NOBODY, t->from != WEIRI_NOBODY};
    size_t most = weiri_internode_coll_elements(x) * x->unit_bytes;
    weiri_waiter waiter = {.polls = {0, 0}};
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && (state.sends || state.receives)) {
        int moved = 0;
        status = transfer_push(x, t, &state, most, &moved);
        if (status == WEIR_OK)
            status = transfer_pull(x, t, &state, &moved);
        if (status == WEIR_OK && !moved)
            status = transfer_pause(x, t, &state, &waiter);
    }
    weiri_comm_idle_end(x->host->comm, &waiter);
    return status;
}

weir_status weiri_transfer_send(weiri_internode_coll *x, int to, const char *data, size_t bytes)
{
    const weiri_transfer t = {.to = to, .from = WEIRI_NOBODY, .send = data, .send_bytes = bytes};
    return weiri_transfer_run(x, &t);
}

weir_status weiri_transfer_receive(weiri_internode_coll *x, int from, char *data, size_t bytes)
{
    const weiri_transfer t = {
        .to = WEIRI_NOBODY, .from = from, .receive = data, .receive_bytes = bytes};
    return weiri_transfer_run(x, &t);
}

/* ---------------------------------------------------------------- folded nodes */

weiri_fold weiri_fold_of(const weiri_internode_coll *x, int place)
{
    int node = x->internode->node, folded = x->internode->nnodes - weiri_group_power(x);
    if (node >= 2 * folded)
        return (weiri_fold){WEIRI_NOBODY, 0};
    return (weiri_fold){x->internode->nodes[node ^ 1].ranks[place], node % 2};
}

weir_status weiri_fold_begin(weiri_internode_coll *x, const weiri_fold *fold, char *data,
                             size_t bytes)
{
    if (fold->peer == WEIRI_NOBODY)
        return WEIR_OK;
    if (fold->is_idle)
        return weiri_transfer_send(x, fold->peer, data, bytes);
    const weiri_transfer t = {.to = WEIRI_NOBODY,
                              .from = fold->peer,
                              .receive = data,
                              .receive_bytes = bytes,
                              .combines = 1};
    return weiri_transfer_run(x, &t);
}

weir_status weiri_fold_end(weiri_internode_coll *x, const weiri_fold *fold, char *data,
                           size_t bytes)
{
    if (fold->peer == WEIRI_NOBODY)
        return WEIR_OK;
    return fold->is_idle ? weiri_transfer_receive(x, fold->peer, data, bytes)
                         : weiri_transfer_send(x, fold->peer, data, bytes);
}

/* ---------------------------------------------------------------------- memory */

weir_status weiri_internode_coll_scratch(weiri_internode_coll *x, size_t bytes, char **memory)
{
    weiri_coll *coll = x->coll;
    if (bytes > coll->scratch_bytes || !coll->scratch) {
        free(coll->scratch);
        coll->scratch_bytes = bytes < 65536 ? 65536 : bytes;
        coll->scratch = malloc(coll->scratch_bytes);
        if (!coll->scratch) {
            coll->scratch_bytes = 0;
            weiri_fail(WEIR_ERR_NO_MEMORY, "rank %d: no memory for %zu bytes of partial results",
                       coll->rank, bytes);
            return weiri_comm_give_up(coll->comm, WEIR_ERR_NO_MEMORY);
        }
    }
    *memory = coll->scratch;
    return WEIR_OK;
}

/* ------------------------------------------------------ divided data in a node */

/* Whether each rank of the node has an equal part. */
static int parts_are_even(const weiri_internode_coll *x, size_t count, int nrails)
{
    return nrails == x->count && count % (size_t)nrails == 0;
}

/* Reduces this rank's part within the node. */
static weir_status parts_reduce(weiri_internode_coll *x, const char *in, char *part, size_t count,
                                int nrails)
{
    const weiri_task *task = x->task;
    weir_status status = WEIR_OK;
    if (parts_are_even(x, count, nrails) && nrails > 1)
        return weir_reduce_scatter(x->node_comm, in, part, count / (size_t)nrails,
                                   task->call->dtype, x->op, x->stream);
    for (int rail = 0; rail < nrails && status == WEIR_OK; rail++) {
        weiri_share share = weiri_parts_share(count, rail, nrails);
        status = weir_reduce(x->node_comm, in + share.first * x->task->element_bytes,
                             rail == x->place ? part : NULL, share.count, task->call->dtype, x->op,
                             rail, x->stream);
    }
    return status;
}

weir_status weiri_parts_gather(weiri_internode_coll *x, char *out, size_t count,
                               size_t element_bytes, int nrails)
{
    weir_status status = WEIR_OK;
    if (x->count == 1)
        return WEIR_OK;
    if (parts_are_even(x, count, nrails)) {
        size_t bytes = count / (size_t)nrails * element_bytes;
        return weir_allgather(x->node_comm, out + (size_t)x->place * bytes, out, bytes, WEIR_UINT8,
                              x->stream);
    }
    for (int rail = 0; rail < nrails && status == WEIR_OK; rail++) {
        weiri_share share = weiri_parts_share(count, rail, nrails);
        char *part = out + share.first * element_bytes;
        status = weir_broadcast(x->node_comm, part, part, share.count * element_bytes, WEIR_UINT8,
                                rail, x->stream);
    }
    return status;
}

weir_status weiri_parts_allreduce(weiri_coll *coll, const weiri_task *task, weiri_along_rail *along)
{
    weiri_internode_coll x;
    const weir_call *call = task->call;
    weir_status status = weiri_internode_coll_begin(coll, task, &x);
    if (status != WEIR_OK)
        return status;
    int nrails = x.internode->fewest;
    weiri_share share = weiri_parts_share(call->count, x.place, nrails);
    char *part = weiri_out_at(task, share.first * task->element_bytes);
    status = parts_reduce(&x, call->in, part, call->count, nrails);
    if (status == WEIR_OK && x.place < nrails)
        status = along(&x, part, share.count);
    if (status == WEIR_OK)
        status = weiri_parts_gather(&x, call->out, call->count, task->element_bytes, nrails);
    return weiri_internode_coll_end(&x, status);
}

/* One rank of the node exchanges a block with each of them. Not every rank hears from every other
 * one, so this is a sendrecv for the node's communicator. */
static weir_status node_exchange(weiri_internode_coll *x, int place, char *all, size_t stride,
                                 char *block, size_t bytes, int gathers)
{
    weiri_coll *host = x->host;
    const weir_call call = {
        .size = sizeof call, .collective = WEIR_COLL_SENDRECV, .dtype = WEIR_UINT8};
    int is_hub = place == x->place;
    for (int other = 0; other < x->count; other++) {
        char *at = is_hub ? all + (size_t)other * stride : block;
        int is_pair = is_hub ? other != place : other == place;
        int sends = is_pair && is_hub != gathers, receives = is_pair && is_hub == gathers;
        host->pairs[other] =
            (weiri_pair){at, at, sends ? bytes : 0, receives ? bytes : 0, sends, receives};
    }
    char *own = is_hub ? all + (size_t)place * stride : block;
    if (own != block)
        weiri_copy(gathers ? own : block, gathers ? block : own, bytes);
    return x->count > 1 ? weiri_coll_run(host, &call, bytes * (size_t)x->count) : WEIR_OK;
}

weir_status weiri_node_gather(weiri_internode_coll *x, int place, const char *block, size_t bytes,
                              char *all, size_t stride)
{
    return node_exchange(x, place, all, stride, (char *)block, bytes, 1);
}

weir_status weiri_node_scatter(weiri_internode_coll *x, int place, char *all, size_t stride,
                               char *block, size_t bytes)
{
    return node_exchange(x, place, all, stride, block, bytes, 0);
}
