/* Combine across nodes: see nodes.h. */
#include "moe/nodes.h"

#include "compute/copy.h"

#include <string.h>

/* ------------------------------------------------------- the node's outputs */

static void combine_share_part(const weir_moe *g, const weir_moe_combine_args *a, int first,
                               size_t rows)
{
    const struct moe_nodes *n = g->nodes;
    const size_t bytes = g->info.row_bytes, values = (size_t)g->row_values, at = (size_t)first;
    char *window = n->windows[n->place];
    weiri_copy(window + n->outputs_at + at * bytes, (const char *)a->rows + at * bytes,
               rows * bytes);
    if (a->row_weight_grads)
        memcpy((float *)(void *)(window + n->grads_at) + at * values,
               a->row_weight_grads + at * values, rows * values * sizeof(float));
}

/* Copies this rank's outputs, at the same rows, to the memory that its node shares. */
static void combine_share(const weir_moe *g, const weir_moe_combine_args *a)
{
    for (int part = 0; part < moe_parts(g); part++) {
        int first;
        const int rows = moe_part(g, a->handle, part, &first);
        combine_share_part(g, a, first, (size_t)rows);
    }
}

/* --------------------------------------------------------------- the transfer */

/* One choice of a source's token: where its output is, on a rank of this node. */
typedef struct combine_place {
    const char *row;
    const float *grad;
} combine_place;

static combine_place combine_find(const weir_moe *g, int handle, int source,
                                  const moe_nodes_choice *choice, int index)
{
    const struct moe_nodes *n = g->nodes;
    const int rank = g->rank_of[choice->expert], place = n->net->place_of[rank];
    const int own = g->by_expert ? choice->expert % g->info.local_experts : 0;
    const size_t row =
        (size_t)moe_nodes_rows(g, n, place, handle)[source * g->own_bins + own] + choice->position;
    const char *window = n->windows[place];
    return (combine_place){window + n->outputs_at + row * g->info.row_bytes,
                           (const float *)(const void *)(window + n->grads_at) +
                               row * (size_t)g->row_values + (g->by_expert ? 0 : index)};
}

/* Whether a choice has a separate row: in layouts other than expert, only the first on its rank. */
static int combine_has_row(const weir_moe *g, const int32_t *experts, int choice)
{
    if (experts[choice] < 0)
        return 0;
    for (int i = 0; !g->by_expert && i < choice; i++)
        if (experts[i] >= 0 && g->rank_of[experts[i]] == g->rank_of[experts[choice]])
            return 0;
    return 1;
}

/* Packs the outputs of one source's entries: rows, then gradients. Returns the end. */
static char *combine_pack_source(const weir_moe *g, const weir_moe_combine_args *a, int source,
                                 const moe_nodes_choice *choices, size_t entries, char *at)
{
    const int k = g->config.topk;
    int32_t experts[WEIR_MOE_TOPK_MAX];
    for (int is_grads = 0; is_grads < 1 + (a->row_weight_grads != NULL); is_grads++)
        for (size_t entry = 0; entry < entries; entry++) {
            const moe_nodes_choice *of = choices + entry * (size_t)k;
            for (int choice = 0; choice < k; choice++)
                experts[choice] = of[choice].expert;
            for (int choice = 0; choice < k; choice++) {
                if (is_grads ? experts[choice] < 0 : !combine_has_row(g, experts, choice))
                    continue;
                const combine_place place = combine_find(g, a->handle, source, &of[choice], choice);
                const size_t bytes = is_grads ? sizeof(float) : g->info.row_bytes;
                memcpy(at, is_grads ? (const void *)place.grad : place.row, bytes);
                at += bytes;
            }
        }
    return at;
}

static void combine_pack(const weir_moe *g, const weir_moe_combine_args *a)
{
    const struct moe_nodes *n = g->nodes;
    const size_t k = (size_t)g->config.topk;
    const moe_nodes_choice *choices =
        n->kept + (size_t)a->handle * (size_t)n->sources * (size_t)g->config.max_tokens * k;
    char *at = n->send;
    memset(n->send_counts, 0, (size_t)g->nranks * sizeof *n->send_counts);
    for (int source = 0; source < g->nranks; source++) {
        if (moe_nodes_gateway(n, source, n->net->node) != g->rank)
            continue;
        const size_t entries = (size_t)moe_nodes_tokens(g, n, a->handle, source)[n->net->node];
        n->send_displs[source] = (size_t)(at - n->send);
        at = combine_pack_source(g, a, source, choices, entries, at);
        n->send_counts[source] = (size_t)(at - n->send) - n->send_displs[source];
        choices += entries * k;
    }
}

/* Computes what this rank's gateways send: rows and gradients of each node. */
static void combine_expect(const weir_moe *g, const weir_moe_combine_args *a)
{
    const struct moe_nodes *n = g->nodes;
    const moe_record r = weiri_moe_record_of(g, g->rank, a->handle);
    const int k = g->config.topk;
    size_t at = 0;
    memset(n->recv_counts, 0, (size_t)g->nranks * sizeof *n->recv_counts);
    for (int token = 0; token < r.tokens[0]; token++)
        for (int choice = 0; choice < k; choice++) {
            const int32_t *experts = r.experts + (size_t)token * (size_t)k;
            if (experts[choice] < 0)
                continue;
            const int node = n->net->node_of[g->rank_of[experts[choice]]];
            size_t *count = &n->recv_counts[moe_nodes_gateway(n, g->rank, node)];
            *count += combine_has_row(g, experts, choice) ? g->info.row_bytes : 0;
            *count += a->row_weight_grads ? sizeof(float) : 0;
        }
    for (int rank = 0; rank < g->nranks; rank++) {
        n->recv_displs[rank] = at;
        at += n->recv_counts[rank];
    }
}

/* ------------------------------------------------------------------------ sum */

/* Adds the rows of all tokens. recv_displs moves to the end of each gateway's rows, which its
 * gradients follow. */
static void combine_add(const weir_moe *g, const weir_moe_combine_args *a)
{
    const struct moe_nodes *n = g->nodes;
    const moe_record r = weiri_moe_record_of(g, g->rank, a->handle);
    const size_t k = (size_t)g->config.topk, bytes = g->info.row_bytes;
    for (size_t token = 0; token < (size_t)r.tokens[0]; token++) {
        const int32_t *experts = r.experts + token * k;
        const void *rows[WEIR_MOE_TOPK_MAX];
        float weights[WEIR_MOE_TOPK_MAX];
        int count = 0;
        for (int choice = 0; choice < (int)k; choice++) {
            if (!combine_has_row(g, experts, choice))
                continue;
            const int node = n->net->node_of[g->rank_of[experts[choice]]];
            size_t *at = &n->recv_displs[moe_nodes_gateway(n, g->rank, node)];
            rows[count] = n->back + *at;
            weights[count++] = a->weights ? a->weights[token * k + (size_t)choice] : 1.0f;
            *at += bytes;
        }
        char *out = (char *)a->out + token * bytes;
        if (count)
            g->weigh->sum(out, rows, a->weights ? weights : NULL, count, (size_t)g->config.hidden);
        else
            memset(out, 0, bytes);
    }
}

/* Writes the gradients of weights, which follow the rows. */
static void combine_add_grads(const weir_moe *g, const weir_moe_combine_args *a)
{
    const struct moe_nodes *n = g->nodes;
    const moe_record r = weiri_moe_record_of(g, g->rank, a->handle);
    const size_t choices = (size_t)r.tokens[0] * (size_t)g->config.topk;
    for (size_t i = 0; i < choices; i++) {
        a->weight_grads[i] = 0;
        if (r.experts[i] < 0)
            continue;
        const int node = n->net->node_of[g->rank_of[r.experts[i]]];
        size_t *at = &n->recv_displs[moe_nodes_gateway(n, g->rank, node)];
        memcpy(&a->weight_grads[i], n->back + *at, sizeof(float));
        *at += sizeof(float);
    }
}

weir_status weiri_moe_nodes_combine(weir_moe *g, const moe_call *call, int phases)
{
    if (!(phases & MOE_PHASE_COMPLETE))
        return WEIR_OK;
    const weir_moe_combine_args *a = &call->combine;
    struct moe_nodes *n = g->nodes;
    moe_nodes_head head = {.kind = MOE_COMBINE,
                           .handle = (uint32_t)a->handle,
                           .has_grads = a->row_weight_grads != NULL};
    head.problem =
        weiri_moe_combine_check(g, call, weiri_moe_routing_tokens(g, a->handle), head.values);
    weir_status status = weiri_moe_nodes_gather(g, &head);
    if (status != WEIR_OK)
        return status;
    combine_share(g, a);
    status = weiri_comm_barrier(n->local);
    if (status != WEIR_OK)
        return status;
    combine_pack(g, a);
    combine_expect(g, a);
    status = weiri_moe_nodes_exchange(g, n->send, n->back);
    if (status != WEIR_OK)
        return status;
    combine_add(g, a);
    if (a->row_weight_grads && a->weight_grads)
        combine_add_grads(g, a);
    return WEIR_OK;
}
