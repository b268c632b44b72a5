/* The layout of a GPU group's windows: see cuda/args.h. */
#include "moe/cuda/args.h"

/* Returns the offset of the next part, which begins at a multiple of 128 bytes. */
static uint64_t layout_add(uint64_t *total, uint64_t bytes)
{
    const uint64_t at = *total;
    *total += (bytes + 127) / 128 * 128;
    return at;
}

/* One for each other rank, and for fp8 rows one for this rank's own. */
static uint64_t layout_inboxes(int nranks, const moe_gpu_shape *s)
{
    return (uint64_t)(nranks - 1 + s->is_fp8);
}

/* How many of the wanted tokens there is room for; -1: none. */
static int layout_room(uint64_t most_bytes, uint64_t token_bytes, int wanted)
{
    const uint64_t room = most_bytes / token_bytes;
    return room < 1 ? -1 : room < (uint64_t)wanted ? (int)room : wanted;
}

/* How many tokens of a call are sent ahead, at most. Through an inbox a row is stored and loaded
 * once more than if it is loaded from its source. Where each rank writes many rows for each one
 * that it gets from others, memory is the bound, not the links, and only the shorter calls gain. */
static int layout_inbox_tokens(const weir_moe_config *c, int nranks, uint64_t most_bytes,
                               const moe_gpu_shape *s)
{
    enum { SHORT = 512 };
    if (nranks == 1)
        return -1;
    const int is_by_links = !s->is_fp8 && s->topk <= 4 * (nranks - 1);
    return layout_room(most_bytes, layout_inboxes(nranks, s) * s->sent_row_bytes,
                       is_by_links || c->max_tokens < SHORT ? c->max_tokens : SHORT);
}

/* How many tokens a rank may have for combine to send ahead rows that would be staged otherwise. */
static int layout_return_tokens(const weir_moe_config *c, int nranks, uint64_t most_bytes,
                                const moe_gpu_shape *s)
{
    enum { MOST = 512 };
    if (nranks == 1 || c->registered)
        return -1;
    return layout_room(most_bytes, (uint64_t)c->topk * s->row_bytes,
                       c->max_tokens < MOST ? c->max_tokens : MOST);
}

static void layout_make(const weir_moe_config *c, int nranks, moe_gpu_shape *s)
{
    const uint64_t handles = (uint64_t)c->handles, n = (uint64_t)nranks;
    const uint64_t tokens = (uint64_t)c->max_tokens, choices = tokens * (uint64_t)c->topk;
    const uint64_t rows = c->registered ? 0 : (uint64_t)s->recv_rows;
    const uint64_t staged_tokens =
        s->inbox_tokens == c->max_tokens || (c->registered && !s->is_fp8) ? 0 : tokens;
    const uint64_t sent_tokens =
        s->inbox_tokens < 0 ? 0 : layout_inboxes(nranks, s) * (uint64_t)s->inbox_tokens;
    const uint64_t returns =
        s->return_tokens < 0 ? 0 : (uint64_t)s->return_tokens * (uint64_t)c->topk;
    moe_gpu_layout *at = &s->at;
    at->bytes = 0;
    at->peers = layout_add(&at->bytes, n * sizeof(moe_gpu_peer));
    at->state = layout_add(&at->bytes, sizeof(moe_gpu_state));
    at->routings = layout_add(&at->bytes, handles * sizeof(moe_gpu_routing));
    at->counts = layout_add(&at->bytes, handles * n * ((uint64_t)c->experts + n) * 8);
    at->choices = layout_add(&at->bytes, handles * n * choices * sizeof(moe_gpu_choice));
    at->experts = layout_add(&at->bytes, handles * choices * 4);
    at->positions = layout_add(&at->bytes, handles * choices * 4);
    at->first_row = layout_add(&at->bytes, handles * (uint64_t)s->bins * 4);
    at->source_row = layout_add(&at->bytes, handles * n * (uint64_t)s->own_bins * 4);
    at->bin_rows = layout_add(&at->bytes, handles * (uint64_t)s->own_bins * 4);
    at->segments = layout_add(&at->bytes, MOE_GPU_SEGMENTS * ((uint64_t)c->experts + n) * 4);
    at->tokens = layout_add(&at->bytes, staged_tokens * s->sent_row_bytes);
    at->scales = layout_add(&at->bytes, staged_tokens * (uint64_t)s->scales_per_row * 4);
    at->arrivals =
        layout_add(&at->bytes, sent_tokens * (uint64_t)moe_slices(s->sent_row_bytes) * 8);
    at->returned = layout_add(&at->bytes, returns * (uint64_t)moe_slices(s->row_bytes) * 8);
    at->returns = layout_add(&at->bytes, returns * s->row_bytes);
    at->inbox = layout_add(&at->bytes, sent_tokens * s->sent_row_bytes);
    at->inbox_scales = layout_add(&at->bytes, sent_tokens * (uint64_t)s->scales_per_row * 4);
    at->outputs = layout_add(&at->bytes, rows * s->row_bytes);
    at->grads = layout_add(&at->bytes, (uint64_t)s->recv_rows * (uint64_t)s->row_values * 4);
}

void weiri_moe_gpu_shape_make(const weir_moe_config *c, int nranks, int recv_rows,
                              uint64_t most_inbox_bytes, moe_gpu_shape *s)
{
    const int by_expert = c->layout == WEIR_MOE_EXPERT_MAJOR;
    int position_bits = 0;
    while (((uint64_t)c->max_tokens * (uint64_t)c->topk - 1) >> position_bits)
        position_bits++;
    const int bins = by_expert ? c->experts : nranks, is_fp8 = c->dispatch_dtype == WEIR_FP8_E4M3;
    *s = (moe_gpu_shape){
        .experts = c->experts,
        .local_experts = c->experts / nranks,
        .topk = c->topk,
        .max_tokens = c->max_tokens,
        .recv_rows = recv_rows,
        .bins = bins,
        .own_bins = bins / nranks,
        .layout = c->layout,
        .position_bits = position_bits,
        .is_fp8 = is_fp8,
        .alignment = c->alignment,
        .expert_capacity = c->expert_capacity,
        .scales_per_row =
            is_fp8 ? (c->hidden + WEIR_MOE_SCALE_BLOCK - 1) / WEIR_MOE_SCALE_BLOCK : 0,
        .row_values = by_expert ? 1 : c->topk,
        .row_bytes = (uint32_t)((size_t)c->hidden * weir_dtype_bytes(c->dtype)),
        .sent_row_bytes = (uint32_t)((size_t)c->hidden * weir_dtype_bytes(c->dispatch_dtype)),
    };
    s->inbox_tokens = layout_inbox_tokens(c, nranks, most_inbox_bytes, s);
    s->return_tokens = layout_return_tokens(c, nranks, most_inbox_bytes, s);
    layout_make(c, nranks, s);
}

int weiri_moe_gpu_shape_fits(const moe_gpu_shape *s)
{
    return (uint64_t)s->local_experts << s->position_bits < (uint64_t)1 << 32;
}
