/* Groups across nodes: set-up, and the allgather that begins each call. See nodes.h. */
#include "moe/nodes.h"

#include "base/error.h"
#include "coll/coll.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------- set-up */

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static void nodes_size(weir_moe *g)
{
    struct moe_nodes *n = g->nodes;
    n->net = g->comm->internode;
    n->local = g->comm->host_comm;
    n->here = n->net->nodes[n->net->node].count;
    n->place = n->net->place_of[g->rank];
    for (int rank = 0; rank < g->nranks; rank++)
        n->sources += moe_nodes_gateway(n, rank, n->net->node) == g->rank;
    n->prefix_bytes = weiri_moe_record_prefix_bytes(&g->config, g->nranks);
    n->block_bytes =
        round_up(sizeof(moe_nodes_head) + (size_t)n->net->nnodes * 4, 64) + n->prefix_bytes;
    n->row_at = round_up((size_t)g->config.topk * sizeof(moe_nodes_choice), 64);
    n->scales_at = n->row_at + round_up(g->sent_row_bytes, 16);
    n->entry_bytes = n->scales_at + round_up((size_t)g->info.scales_per_row * sizeof(float), 16);
}

static weir_status nodes_alloc_private(weir_moe *g)
{
    struct moe_nodes *n = g->nodes;
    const size_t ranks = (size_t)g->nranks, handles = (size_t)g->config.handles;
    const size_t tokens = (size_t)g->config.max_tokens, sources = (size_t)n->sources;
    const size_t nnodes = (size_t)n->net->nnodes, choices = tokens * (size_t)g->config.topk;
    const size_t out = nnodes * tokens * n->entry_bytes;
    const size_t back = choices * (g->info.row_bytes + sizeof(float));
    weir_status status = WEIR_OK;
    n->own_records = weiri_moe_alloc(g, handles, g->record_bytes, &status);
    n->prefixes = weiri_moe_alloc(g, handles * ranks, n->prefix_bytes, &status);
    n->node_tokens = weiri_moe_alloc(g, handles * ranks * nnodes, sizeof(int32_t), &status);
    n->block = weiri_moe_alloc(g, 1, n->block_bytes, &status);
    n->blocks = weiri_moe_alloc(g, ranks, n->block_bytes, &status);
    n->kept = weiri_moe_alloc(g, handles * sources * choices, sizeof(moe_nodes_choice), &status);
    n->send = weiri_moe_alloc(g, 1, out > sources * back ? out : sources * back, &status);
    n->back = weiri_moe_alloc(g, 1, back, &status);
    n->send_counts = weiri_moe_alloc(g, ranks, sizeof(size_t), &status);
    n->send_displs = weiri_moe_alloc(g, ranks, sizeof(size_t), &status);
    n->recv_counts = weiri_moe_alloc(g, ranks, sizeof(size_t), &status);
    n->recv_displs = weiri_moe_alloc(g, ranks, sizeof(size_t), &status);
    n->mems = weiri_moe_alloc(g, (size_t)n->here, sizeof *n->mems, &status);
    n->windows = weiri_moe_alloc(g, (size_t)n->here, sizeof *n->windows, &status);
    return status;
}

/* The largest number of sources of a rank of this node. */
static size_t nodes_most_sources(const weir_moe *g)
{
    const struct moe_nodes *n = g->nodes;
    size_t most = 0;
    for (int place = 0; place < n->here; place++) {
        size_t sources = 0;
        for (int rank = 0; rank < g->nranks; rank++)
            sources += n->net->place_of[rank] % n->here == place;
        most = sources > most ? sources : most;
    }
    return most;
}

/* Allocates the memory that the node's ranks share. */
static weir_status nodes_share(weir_moe *g)
{
    struct moe_nodes *n = g->nodes;
    const size_t rows = (size_t)g->info.recv_rows, tables = (size_t)g->nranks * (size_t)g->own_bins;
    const size_t sources = nodes_most_sources(g);
    n->outputs_at = round_up(sources * (size_t)g->config.max_tokens * n->entry_bytes, 64);
    n->grads_at = n->outputs_at + round_up(rows * g->info.row_bytes, 64);
    n->rows_at = n->grads_at + round_up(rows * (size_t)g->row_values * sizeof(float), 64);
    const size_t bytes = n->rows_at + (size_t)g->config.handles * tables * sizeof(int32_t);
    weir_status status = weir_mem_alloc(n->local, bytes, &n->mem);
    status = weir_boot_agree(weir_comm_boot(g->comm), status);
    if (status == WEIR_OK)
        status =
            weir_boot_agree(weir_comm_boot(g->comm), weir_mem_exchange(n->local, n->mem, n->mems));
    for (int place = 0; status == WEIR_OK && place < n->here; place++)
        n->windows[place] = weir_mem_pointer(n->mems[place]);
    g->info.memory_bytes += bytes;
    return status;
}

weir_status weiri_moe_nodes_open(weir_moe *g)
{
    weir_status status = WEIR_OK;
    g->nodes = weiri_moe_alloc(g, 1, sizeof *g->nodes, &status);
    if (status == WEIR_OK) {
        nodes_size(g);
        status = nodes_alloc_private(g);
    }
    status = weir_boot_agree(weir_comm_boot(g->comm), status);
    return status == WEIR_OK ? nodes_share(g) : status;
}

void weiri_moe_nodes_close(weir_moe *g)
{
    struct moe_nodes *n = g->nodes;
    if (!n)
        return;
    for (int place = 0; n->mems && place < n->here; place++)
        if (place != n->place)
            weir_mem_free(n->mems[place]);
    weir_mem_free(n->mem);
    void *const all[] = {n->own_records, n->prefixes,    n->node_tokens, n->block,
                         n->blocks,      n->kept,        n->send,        n->back,
                         n->send_counts, n->send_displs, n->recv_counts, n->recv_displs,
                         n->mems,        n->windows};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(n);
    g->nodes = NULL;
}

/* ---------------------------------------------------------------- the gather */

static weir_status gather_check_same(weir_moe *g, const moe_nodes_head *own)
{
    for (int rank = 0; rank < g->nranks; rank++) {
        const moe_nodes_head *other = moe_nodes_head_of(g->nodes, rank);
        if (own->kind == other->kind && own->handle == other->handle &&
            own->has_grads == other->has_grads && own->has_routing == other->has_routing)
            continue;
        weiri_fail(
            WEIR_ERR_MISMATCH,
            "weir_moe: the call is %s on handle %u (new routing %u, gradients %u) on rank %d, "
            "but %s on handle %u (%u, %u) on rank %d; make the same calls on all ranks",
            own->kind == MOE_DISPATCH ? "dispatch" : "combine", own->handle, own->has_routing,
            own->has_grads, g->rank, other->kind == MOE_DISPATCH ? "dispatch" : "combine",
            other->handle, other->has_routing, other->has_grads, rank);
        return weiri_comm_give_up(g->comm, WEIR_ERR_MISMATCH);
    }
    return WEIR_OK;
}

/* A rank that receives weights needs them from all. */
static weir_status gather_check_weights(const weir_moe *g)
{
    int wanting = -1, lacking = -1;
    for (int rank = g->nranks - 1; rank >= 0; rank--) {
        const moe_nodes_head *head = moe_nodes_head_of(g->nodes, rank);
        wanting = head->wants_weights ? rank : wanting;
        lacking = head->has_weights ? lacking : rank;
    }
    if (wanting < 0 || lacking < 0)
        return WEIR_OK;
    return weiri_moe_problem_fail(MOE_DISPATCH, MOE_NO_WEIGHTS, (int64_t[3]){wanting}, lacking);
}

weir_status weiri_moe_nodes_gather(weir_moe *g, const moe_nodes_head *own)
{
    struct moe_nodes *n = g->nodes;
    const weir_call call = {.size = sizeof call,
                            .collective = WEIR_COLL_ALLGATHER,
                            .dtype = WEIR_UINT8,
                            .in = n->block,
                            .out = n->blocks,
                            .count = n->block_bytes};
    memcpy(n->block, own, sizeof *own);
    weir_status status = weiri_run_on_host(g->comm, &call);
    if (status != WEIR_OK)
        return status;
    for (int rank = 0; rank < g->nranks; rank++) {
        const moe_nodes_head *head = moe_nodes_head_of(n, rank);
        if (head->problem)
            return weiri_moe_problem_fail((moe_kind)head->kind, (moe_problem)head->problem,
                                          head->values, rank);
    }
    status = gather_check_same(g, own);
    return status == WEIR_OK && own->kind == MOE_DISPATCH ? gather_check_weights(g) : status;
}

weir_status weiri_moe_nodes_exchange(weir_moe *g, const void *in, void *out)
{
    const struct moe_nodes *n = g->nodes;
    const weir_splits splits = {n->send_counts, n->send_displs, n->recv_counts, n->recv_displs};
    const weir_call call = {.size = sizeof call,
                            .collective = WEIR_COLL_ALLTOALLV,
                            .dtype = WEIR_UINT8,
                            .in = in,
                            .out = out,
                            .splits = &splits};
    return weiri_run_on_host(g->comm, &call);
}
