/*
 * Creating and releasing expert-parallel groups: each rank allocates one window, whose layout
 * group.h describes, and maps those of its peers.
 */
#include "moe/nodes.h"

#include "base/error.h"
#include "comm/gpu/gpu.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------- sizes */

static int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static weir_status group_size_rows(weir_moe *g)
{
    const weir_moe_config *c = &g->config;
    /* The rows that a rank can receive at most, if no token names an expert twice. */
    const int64_t tokens = (int64_t)g->nranks * g->config.max_tokens;
    const int64_t most = g->by_expert ? tokens * least_of(g->config.topk, g->own_bins) : tokens;
    int64_t rows = most;
    if (c->layout == WEIR_MOE_EXPERT_MAJOR && c->expert_capacity)
        rows = (int64_t)c->expert_capacity * g->own_bins;
    else if (c->recv_capacity)
        rows = c->recv_capacity;
    else if (c->layout == WEIR_MOE_EXPERT_MAJOR)
        rows = most + (int64_t)(c->alignment - 1) * least_of(g->own_bins, most);
    if (rows > INT32_MAX || most > INT32_MAX)
        return weiri_fail(
            WEIR_ERR_INVALID,
            "weir_moe_create: a rank would receive up to %lld rows; reduce max_tokens or "
            "set a capacity",
            (long long)rows);
    g->info.recv_rows = (int)rows;
    g->staged_rows = (int)least_of(most, rows);
    g->info.expert_stride = c->expert_capacity;
    return WEIR_OK;
}

static weir_status group_size(weir_moe *g)
{
    const weir_moe_config *c = &g->config;
    g->by_expert = c->layout == WEIR_MOE_EXPERT_MAJOR;
    g->is_fp8 = c->dispatch_dtype == WEIR_FP8_E4M3;
    g->bins = g->by_expert ? c->experts : g->nranks;
    g->own_bins = g->bins / g->nranks;
    g->row_values = g->by_expert ? 1 : c->topk;
    g->info.local_experts = c->experts / g->nranks;
    g->info.first_expert = g->info.local_experts * g->rank;
    g->info.scales_per_row =
        g->is_fp8 ? (c->hidden + WEIR_MOE_SCALE_BLOCK - 1) / WEIR_MOE_SCALE_BLOCK : 0;
    g->info.row_bytes = (size_t)c->hidden * weir_dtype_bytes(c->dtype);
    g->info.recv_row_bytes = (size_t)c->hidden * weir_dtype_bytes(c->dispatch_dtype);
    g->sent_row_bytes = g->info.recv_row_bytes;
    g->record_bytes = weiri_moe_record_bytes(c, g->nranks);
    g->weigh = weiri_weigh_get(c->dtype);
    weir_status status = group_size_rows(g);
    g->info.recv_bytes = (size_t)g->info.recv_rows * g->info.recv_row_bytes;
    return status;
}

/* ------------------------------------------------------------------- window */

/* Returns the offset of the next part of a window, which begins at a cache line. */
static size_t window_add(size_t *total, size_t bytes)
{
    const size_t at = *total;
    *total += (bytes + WEIR_LINE_BYTES - 1) / WEIR_LINE_BYTES * WEIR_LINE_BYTES;
    return at;
}

/* The length of staging for rows of so many bytes: with registered memory, only short ones. */
static size_t window_staged(const weir_moe *g, size_t bytes, int is_always)
{
    return !is_always && g->config.registered && bytes > MOE_STAGED_BYTES ? MOE_STAGED_BYTES
                                                                          : bytes;
}

/* Lays out a window at base, or with base NULL computes its length. */
static size_t window_lay_out(const weir_moe *g, char *base, moe_window *window)
{
    const weir_moe_config *c = &g->config;
    const size_t tokens = window_staged(g, (size_t)c->max_tokens * g->sent_row_bytes, g->is_fp8);
    const size_t outputs = window_staged(g, (size_t)g->staged_rows * g->info.row_bytes, 0);
    size_t total = 0;
    size_t words = window_add(&total, sizeof(moe_words));
    size_t calls = window_add(&total, MOE_CALLS * sizeof(moe_header));
    size_t records = window_add(&total, g->record_bytes * (size_t)c->handles);
    size_t token_rows = window_add(&total, tokens);
    size_t scales =
        window_add(&total, (size_t)c->max_tokens * (size_t)g->info.scales_per_row * sizeof(float));
    size_t output_rows = window_add(&total, outputs);
    size_t grads =
        window_add(&total, (size_t)g->staged_rows * (size_t)g->row_values * sizeof(float));
    if (base)
        *window = (moe_window){(moe_words *)(void *)(base + words),
                               (moe_header *)(void *)(base + calls),
                               base + records,
                               base + token_rows,
                               (float *)(void *)(base + scales),
                               base + output_rows,
                               (float *)(void *)(base + grads)};
    return total;
}

/* Maps all windows. Collective. */
static weir_status group_share(weir_moe *g)
{
    const size_t bytes = window_lay_out(g, NULL, NULL);
    weir_status status = weir_mem_alloc(g->comm, bytes, &g->mem);
    status = weir_boot_agree(weir_comm_boot(g->comm), status);
    if (status == WEIR_OK)
        status =
            weir_boot_agree(weir_comm_boot(g->comm), weir_mem_exchange(g->comm, g->mem, g->mems));
    for (int rank = 0; status == WEIR_OK && rank < g->nranks; rank++)
        window_lay_out(g, weir_mem_pointer(g->mems[rank]), &g->windows[rank]);
    g->info.memory_bytes += bytes;
    return status;
}

/* ------------------------------------------------------------ private memory */

void *weiri_moe_alloc(weir_moe *g, size_t count, size_t bytes, weir_status *status)
{
    void *memory = calloc(count ? count : 1, bytes);
    g->info.memory_bytes += count * bytes;
    if (!memory && *status == WEIR_OK)
        *status =
            weiri_fail(WEIR_ERR_NO_MEMORY, "weir_moe_create: no memory for %zu bytes of rank %d",
                       count * bytes, g->rank);
    return memory;
}

static weir_status routing_alloc(weir_moe *g, moe_routing *routing)
{
    const size_t bins = (size_t)g->bins;
    const size_t choices = (size_t)g->config.max_tokens * (size_t)g->config.topk;
    weir_status status = WEIR_OK;
    routing->position = weiri_moe_alloc(g, choices, sizeof(uint32_t), &status);
    routing->first_row = weiri_moe_alloc(g, bins, sizeof(int32_t), &status);
    routing->first_staged = weiri_moe_alloc(g, bins, sizeof(int32_t), &status);
    routing->total = weiri_moe_alloc(g, bins, sizeof(int32_t), &status);
    routing->source_row =
        weiri_moe_alloc(g, (size_t)g->nranks * (size_t)g->own_bins, sizeof(int32_t), &status);
    routing->source_tokens = weiri_moe_alloc(g, (size_t)g->nranks, sizeof(uint32_t), &status);
    return status;
}

static weir_status group_alloc_all(weir_moe *g)
{
    const size_t n = (size_t)g->nranks;
    weir_status status = WEIR_OK;
    g->mems = weiri_moe_alloc(g, n, sizeof *g->mems, &status);
    g->windows = weiri_moe_alloc(g, n, sizeof *g->windows, &status);
    g->routings = weiri_moe_alloc(g, (size_t)g->config.handles, sizeof *g->routings, &status);
    g->rank_of = weiri_moe_alloc(g, (size_t)g->config.experts, sizeof *g->rank_of, &status);
    g->last_token = weiri_moe_alloc(g, n, sizeof *g->last_token, &status);
    g->cursor = weiri_moe_alloc(g, (size_t)g->own_bins, sizeof *g->cursor, &status);
    g->outputs = weiri_moe_alloc(g, n, sizeof *g->outputs, &status);
    for (int i = 0; status == WEIR_OK && i < g->config.handles; i++)
        status = routing_alloc(g, &g->routings[i]);
    for (int e = 0; status == WEIR_OK && e < g->config.experts; e++)
        g->rank_of[e] = (uint16_t)(e / g->info.local_experts);
    return status;
}

static void group_release(weir_moe *g)
{
    if (g->ops->close)
        g->ops->close(g);
    for (int rank = 0; g->mems && rank < g->nranks; rank++)
        if (rank != g->rank)
            weir_mem_free(g->mems[rank]);
    weir_mem_free(g->mem);
    for (int i = 0; g->routings && i < g->config.handles; i++) {
        free(g->routings[i].position);
        free(g->routings[i].first_row);
        free(g->routings[i].first_staged);
        free(g->routings[i].total);
        free(g->routings[i].source_row);
        free(g->routings[i].source_tokens);
    }
    free(g->mems);
    free(g->windows);
    free(g->routings);
    free(g->rank_of);
    free(g->last_token);
    free(g->cursor);
    free(g->outputs);
    free(g);
}

/* ----------------------------------------------------------------- backends */

static const moe_ops host_ops = {
    .open = group_share,
    .run = {[MOE_DISPATCH] = weiri_moe_host_dispatch, [MOE_COMBINE] = weiri_moe_host_combine},
    .locate = weiri_moe_host_locate,
    .is_host = 1,
    .numbers_calls = 1,
};

static const moe_ops nodes_ops = {
    .open = weiri_moe_nodes_open,
    .close = weiri_moe_nodes_close,
    .run = {[MOE_DISPATCH] = weiri_moe_nodes_dispatch, [MOE_COMBINE] = weiri_moe_nodes_combine},
    .locate = weiri_moe_host_locate,
    .is_host = 1,
};

static const moe_ops *ops_of(const weir_comm *comm)
{
    const int is_cuda = weir_comm_backend(comm) == WEIR_BACKEND_CUDA;
    if (weir_comm_nnodes(comm) == 1)
        return is_cuda ? &weiri_moe_gpu_ops : &host_ops;
    return comm->gpu ? &weiri_moe_staged_ops : &nodes_ops;
}

/* -------------------------------------------------------------- public calls */

static weir_status place_check(const weir_comm *comm)
{
    if (!ops_of(comm)->open)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "weir_moe_create: the communicator has the %s backend; this build has "
                          "expert parallelism on the host backend",
                          weir_backend_name(weir_comm_backend(comm)));
    return WEIR_OK;
}

/* Checks all that one rank can check. */
static weir_status create_check(const weir_comm *comm, const weir_moe_config *given,
                                weir_moe_config *config)
{
    weir_status status = place_check(comm);
    if (status == WEIR_OK && !given)
        status = weiri_fail(WEIR_ERR_INVALID, "weir_moe_create: config is required");
    if (status == WEIR_OK)
        status = weiri_moe_config_resolve(given, config);
    return status == WEIR_OK ? weiri_moe_config_check(config, weir_comm_nranks(comm)) : status;
}

weir_status weir_moe_create(weir_comm *comm, const weir_moe_config *given, weir_moe **group)
{
    weir_moe_config config;
    if (!comm || !group)
        return weiri_fail(WEIR_ERR_INVALID, "weir_moe_create: comm and group are required");
    weiri_setup setup;
    weir_status status = weiri_setup_begin(&setup, comm, "weir_moe_create");
    if (status != WEIR_OK)
        return status;
    weir_boot *boot = weir_comm_boot(comm);
    const moe_ops *ops = ops_of(comm);
    status = weir_boot_agree(boot, create_check(comm, given, &config));
    if (status == WEIR_OK)
        status = weir_boot_agree(boot, weiri_moe_config_compare(comm, &config));
    if (status != WEIR_OK)
        return weiri_setup_end(&setup, status);
    weir_moe *g = calloc(1, sizeof *g);
    if (g) {
        *g = (weir_moe){
            .ops = ops, .comm = comm, .config = config, .rank = comm->rank, .nranks = comm->nranks};
        status = group_size(g);
        if (status == WEIR_OK && ops->is_host)
            status = group_alloc_all(g);
    } else {
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "weir_moe_create: no memory for the group");
    }
    status = weir_boot_agree(boot, status);
    if (status == WEIR_OK)
        status = ops->open(g);
    status = weiri_setup_end(&setup, status);
    if (status == WEIR_OK)
        *group = g;
    else if (g)
        group_release(g);
    return status;
}

void weir_moe_free(weir_moe *group)
{
    if (!group || weiri_comm_is_forked(group->comm))
        return;
    if (group->gpu)
        group->comm->gpu->ops->quiesce(group->comm);
    weiri_comm_barrier(group->comm); /* if it fails the communicator is aborted; memory is freed */
    group_release(group);
}

weir_status weir_moe_check(weir_moe *group)
{
    if (!group)
        return weiri_fail(WEIR_ERR_INVALID, "weir_moe_check: group is required");
    if (weiri_comm_is_forked(group->comm))
        return weiri_fork_fail("communicator");
    return group->ops->check ? group->ops->check(group) : weir_comm_check(group->comm);
}

weir_moe_info weir_moe_get_info(const weir_moe *group)
{
    return group->info;
}
