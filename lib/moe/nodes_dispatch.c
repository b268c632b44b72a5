/* Dispatch across nodes: see nodes.h. */
#include "moe/nodes.h"

#include <string.h>

/* ------------------------------------------------------------- what to send */

/* Counts this rank's tokens for each node, into its block. */
static void dispatch_count_nodes(weir_moe *g, int handle)
{
    const struct moe_nodes *n = g->nodes;
    const moe_record r = weiri_moe_record_of(g, g->rank, handle);
    const int k = g->config.topk;
    int32_t *tokens = (int32_t *)(void *)(n->block + sizeof(moe_nodes_head));
    memset(tokens, 0, (size_t)n->net->nnodes * sizeof *tokens);
    for (int token = 0; token < r.tokens[0]; token++)
        for (int choice = 0; choice < k; choice++) {
            const int32_t *experts = r.experts + (size_t)token * (size_t)k;
            const int node =
                experts[choice] < 0 ? -1 : n->net->node_of[g->rank_of[experts[choice]]];
            int is_first = node >= 0;
            for (int i = 0; is_first && i < choice; i++)
                is_first = experts[i] < 0 || n->net->node_of[g->rank_of[experts[i]]] != node;
            if (is_first)
                tokens[node]++;
        }
}

static moe_nodes_head dispatch_describe_nodes(weir_moe *g, const moe_call *call)
{
    const weir_moe_dispatch_args *a = &call->dispatch;
    struct moe_nodes *n = g->nodes;
    moe_nodes_head head = {.kind = MOE_DISPATCH,
                           .handle = (uint32_t)a->handle,
                           .has_routing = a->topk_experts != NULL,
                           .wants_weights = a->row_weights != NULL};
    moe_problem problem =
        weiri_moe_dispatch_check(g, call, weiri_moe_routing_tokens(g, a->handle), head.values);
    if (!problem && head.has_routing) {
        g->routings[a->handle].is_valid = 0;
        problem = weiri_moe_record_write(g, a, head.values);
    }
    head.problem = problem;
    if (problem)
        return head;
    const moe_record r = weiri_moe_record_of(g, g->rank, a->handle);
    head.has_weights = (uint32_t)r.tokens[1];
    dispatch_count_nodes(g, a->handle);
    memcpy(n->block + n->block_bytes - n->prefix_bytes,
           n->own_records + (size_t)a->handle * g->record_bytes, n->prefix_bytes);
    return head;
}

/* Keeps what all ranks have said about a new routing. */
static void dispatch_keep(weir_moe *g, int handle)
{
    struct moe_nodes *n = g->nodes;
    for (int rank = 0; rank < g->nranks; rank++) {
        const char *block = n->blocks + (size_t)rank * n->block_bytes;
        memcpy(n->prefixes + ((size_t)handle * (size_t)g->nranks + (size_t)rank) * n->prefix_bytes,
               block + n->block_bytes - n->prefix_bytes, n->prefix_bytes);
        memcpy(moe_nodes_tokens(g, n, handle, rank), block + sizeof(moe_nodes_head),
               (size_t)n->net->nnodes * sizeof(int32_t));
    }
}

/* --------------------------------------------------------------- the transfer */

/* Packs a token for a node. Returns whether it has experts there. */
static int dispatch_pack_token(const weir_moe *g, const weir_moe_dispatch_args *a,
                               const moe_record *r, size_t token, int node, char *entry)
{
    const struct moe_nodes *n = g->nodes;
    const size_t k = (size_t)g->config.topk;
    moe_nodes_choice *choices = (moe_nodes_choice *)(void *)entry;
    int is_there = 0;
    for (size_t choice = 0; choice < k; choice++) {
        const size_t i = token * k + choice;
        const int expert = r->experts[i];
        const int here = expert >= 0 && n->net->node_of[g->rank_of[expert]] == node;
        choices[choice] = (moe_nodes_choice){-1, 0, 0};
        if (here)
            choices[choice] = (moe_nodes_choice){expert, g->routings[a->handle].position[i],
                                                 r->tokens[1] ? r->weights[i] : 0};
        is_there |= here;
    }
    if (!is_there)
        return 0;
    const char *row = (const char *)a->x + token * g->info.row_bytes;
    if (g->is_fp8)
        g->weigh->to_fp8((uint8_t *)entry + n->row_at, (float *)(void *)(entry + n->scales_at), row,
                         (size_t)g->config.hidden);
    else
        memcpy(entry + n->row_at, row, g->sent_row_bytes);
    return 1;
}

static void dispatch_pack(const weir_moe *g, const weir_moe_dispatch_args *a)
{
    const struct moe_nodes *n = g->nodes;
    const moe_record r = weiri_moe_record_of(g, g->rank, a->handle);
    char *at = n->send;
    memset(n->send_counts, 0, (size_t)g->nranks * sizeof *n->send_counts);
    for (int node = 0; node < n->net->nnodes; node++) {
        const int to = moe_nodes_gateway(n, g->rank, node);
        n->send_displs[to] = (size_t)(at - n->send);
        for (size_t token = 0; token < (size_t)r.tokens[0]; token++)
            if (dispatch_pack_token(g, a, &r, token, node, at))
                at += n->entry_bytes;
        n->send_counts[to] = (size_t)(at - n->send) - n->send_displs[to];
    }
}

/* Moves the entries to the gateways. Every rank knows how many each source sends to each node. */
static weir_status dispatch_transfer(weir_moe *g, const weir_moe_dispatch_args *a)
{
    struct moe_nodes *n = g->nodes;
    size_t at = 0;
    dispatch_pack(g, a);
    for (int source = 0; source < g->nranks; source++) {
        const int is_mine = moe_nodes_gateway(n, source, n->net->node) == g->rank;
        const size_t entries =
            is_mine ? (size_t)moe_nodes_tokens(g, n, a->handle, source)[n->net->node] : 0;
        n->recv_counts[source] = entries * n->entry_bytes;
        n->recv_displs[source] = at;
        at += n->recv_counts[source];
    }
    weir_status status = weiri_moe_nodes_exchange(g, n->send, n->windows[n->place]);
    if (status != WEIR_OK)
        return status;
    const size_t k = (size_t)g->config.topk;
    moe_nodes_choice *kept =
        n->kept + (size_t)a->handle * (size_t)n->sources * (size_t)g->config.max_tokens * k;
    for (size_t entry = 0; entry * n->entry_bytes < at; entry++)
        memcpy(kept + entry * k, n->windows[n->place] + entry * n->entry_bytes, k * sizeof *kept);
    return WEIR_OK;
}

/* ------------------------------------------------------------------- receive */

static void dispatch_copy_entry(const weir_moe *g, const weir_moe_dispatch_args *a,
                                const char *entry, size_t row)
{
    const struct moe_nodes *n = g->nodes;
    const size_t scales = (size_t)g->info.scales_per_row;
    memcpy((char *)a->rows + row * g->sent_row_bytes, entry + n->row_at, g->sent_row_bytes);
    if (scales)
        memcpy(a->row_scales + row * scales, entry + n->scales_at, scales * sizeof(float));
}

/* Layouts other than expert: one row, with its experts and weights. */
static void dispatch_place_values(const weir_moe *g, const weir_moe_dispatch_args *a,
                                  const moe_nodes_choice *choices, size_t row)
{
    const size_t k = (size_t)g->config.topk;
    for (size_t choice = 0; choice < k; choice++) {
        const uint32_t own = (uint32_t)(choices[choice].expert - g->info.first_expert);
        const int is_here = own < (uint32_t)g->info.local_experts;
        if (a->row_experts)
            a->row_experts[row * k + choice] = is_here ? (int32_t)own : -1;
        if (a->row_weights)
            a->row_weights[row * k + choice] = is_here ? choices[choice].weight : 0.0f;
    }
}

/* Copies a source's entry to its rows on this rank. */
static void dispatch_place_entry(const weir_moe *g, const weir_moe_dispatch_args *a, int source,
                                 const char *entry)
{
    const moe_routing *routing = &g->routings[a->handle];
    const int32_t *first = routing->source_row + (size_t)source * (size_t)g->own_bins;
    const moe_nodes_choice *choices = (const moe_nodes_choice *)(const void *)entry;
    for (int choice = 0; choice < g->config.topk; choice++) {
        const uint32_t own = (uint32_t)(choices[choice].expert - g->info.first_expert);
        if (own >= (uint32_t)g->info.local_experts)
            continue;
        const size_t row = (size_t)first[g->by_expert ? own : 0] + (size_t)choices[choice].position;
        dispatch_copy_entry(g, a, entry, row);
        if (!g->by_expert) {
            dispatch_place_values(g, a, choices, row);
            return;
        }
        if (a->row_weights)
            a->row_weights[row] = choices[choice].weight;
    }
}

/* Copies this rank's rows from what the node's gateways have received. */
static void dispatch_receive_nodes(const weir_moe *g, const weir_moe_dispatch_args *a)
{
    const struct moe_nodes *n = g->nodes;
    for (int place = 0; place < n->here; place++) {
        const int gateway = n->net->nodes[n->net->node].ranks[place];
        const char *entry = n->windows[place];
        for (int source = 0; source < g->nranks; source++) {
            if (moe_nodes_gateway(n, source, n->net->node) != gateway)
                continue;
            const int32_t entries = moe_nodes_tokens(g, n, a->handle, source)[n->net->node];
            for (int32_t i = 0; i < entries; i++, entry += n->entry_bytes)
                dispatch_place_entry(g, a, source, entry);
        }
    }
}

weir_status weiri_moe_nodes_dispatch(weir_moe *g, const moe_call *call, int phases)
{
    if (!(phases & MOE_PHASE_COMPLETE))
        return WEIR_OK;
    const weir_moe_dispatch_args *a = &call->dispatch;
    struct moe_nodes *n = g->nodes;
    const moe_nodes_head head = dispatch_describe_nodes(g, call);
    moe_routing *routing = NULL;
    weir_status status = weiri_moe_nodes_gather(g, &head);
    if (status != WEIR_OK)
        return status;
    routing = &g->routings[a->handle];
    if (head.has_routing) {
        dispatch_keep(g, a->handle);
        status = weiri_moe_place_rows(g, a->handle);
        if (status != WEIR_OK)
            return status;
        memcpy(moe_nodes_rows(g, n, n->place, a->handle), routing->source_row,
               (size_t)g->nranks * (size_t)g->own_bins * sizeof(int32_t));
    }
    status = dispatch_transfer(g, a);
    if (status == WEIR_OK)
        status = weiri_comm_barrier(n->local);
    if (status != WEIR_OK)
        return status;
    dispatch_receive_nodes(g, a);
    weiri_moe_dispatch_end(g, a);
    routing->is_valid = 1;
    return WEIR_OK;
}
