/*
 * Dispatch on the host. Send publishes the routing and makes the tokens readable: those in
 * registered memory where they are, others, short ones and fp8 rows in staging. Complete waits for
 * all routings, places rows, and copies each row that has an expert here straight from its source
 * to its place, or places: a token with several local experts is read from memory once.
 */
#include "moe/group.h"

#include "base/error.h"
#include "compute/copy.h"

#include <stdint.h>

static const char dispatch_phase[] = "moe dispatch";

/* --------------------------------------------------------------------- send */

static moe_problem dispatch_check_pointers(const weir_moe *g, const weir_moe_dispatch_args *a,
                                           int64_t *values)
{
    const struct {
        const void *pointer;
        int is_needed, is_allowed;
        enum moe_pointer name;
    } all[] = {
        {a->x, a->tokens > 0, 1, MOE_POINTER_X},
        {a->rows, 1, 1, MOE_POINTER_ROWS},
        {a->row_scales, g->is_fp8, 1, MOE_POINTER_SCALES},
        {a->row_experts, 0, !g->by_expert, MOE_POINTER_EXPERTS},
        {a->expert_offsets, 0, g->by_expert, MOE_POINTER_OFFSETS},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        values[0] = all[i].name;
        if (all[i].is_needed && !all[i].pointer)
            return MOE_BAD_POINTER;
        if (all[i].pointer && !all[i].is_allowed)
            return MOE_BAD_MEMBER;
    }
    return MOE_NO_PROBLEM;
}

moe_problem weiri_moe_dispatch_check(const weir_moe *g, const moe_call *call, int tokens,
                                     int64_t values[3])
{
    const weir_moe_dispatch_args *a = &call->dispatch;
    if (call->problem) {
        memcpy(values, call->values, sizeof call->values);
        return call->problem;
    }
    values[0] = a->handle;
    values[1] = g->config.handles;
    if (a->handle < 0 || a->handle >= g->config.handles)
        return MOE_NO_ROUTING;
    if (!a->topk_experts && tokens < 0)
        return MOE_NO_ROUTING;
    values[0] = a->tokens;
    values[1] = g->config.max_tokens;
    if (a->tokens < 0 || a->tokens > g->config.max_tokens)
        return MOE_BAD_TOKENS;
    values[1] = tokens;
    values[2] = a->handle;
    if (!a->topk_experts && values[1] != a->tokens)
        return MOE_BAD_REUSE;
    values[0] = (int64_t)a->rows_bytes;
    values[1] = (int64_t)g->info.recv_bytes;
    if (a->rows_bytes < g->info.recv_bytes)
        return MOE_BAD_ROWS;
    values[0] = a->topk_dtype;
    if (a->topk_experts && a->topk_dtype != WEIR_INT32 && a->topk_dtype != WEIR_INT64)
        return MOE_BAD_TYPE;
    values[0] = 0;
    if (a->stream && !g->comm->gpu)
        return MOE_BAD_STREAM;
    return dispatch_check_pointers(g, a, values);
}

/* Decides where peers read the tokens. */
static moe_problem dispatch_find_rows(const weir_moe *g, const weir_moe_dispatch_args *a,
                                      moe_header *header, int64_t values[3])
{
    const size_t bytes = (size_t)a->tokens * g->info.row_bytes;
    header->staged = 1;
    if (g->is_fp8 || bytes <= MOE_STAGED_BYTES)
        return MOE_NO_PROBLEM;
    header->desc = weiri_region_describe(g->comm, a->x, bytes);
    header->staged = !header->desc.generation;
    values[0] = MOE_POINTER_X;
    return header->staged && g->config.registered ? MOE_BAD_MEMORY : MOE_NO_PROBLEM;
}

/* Copies the tokens into staging, as they are sent. */
static void dispatch_stage(const weir_moe *g, const weir_moe_dispatch_args *a)
{
    const moe_window *window = &g->windows[g->rank];
    if (!g->is_fp8) {
        weiri_copy(window->token_rows, a->x, (size_t)a->tokens * g->info.row_bytes);
        return;
    }
    for (size_t token = 0; token < (size_t)a->tokens; token++)
        g->weigh->to_fp8((uint8_t *)window->token_rows + token * g->sent_row_bytes,
                         window->token_scales + token * (size_t)g->info.scales_per_row,
                         (const char *)a->x + token * g->info.row_bytes, (size_t)g->config.hidden);
}

/* Fills in the header and, if there is a new one, the routing. */
static weir_status dispatch_describe(weir_moe *g, const moe_call *call, moe_header *header)
{
    const weir_moe_dispatch_args *a = &call->dispatch;
    int64_t values[3] = {0, 0, 0};
    moe_problem problem =
        weiri_moe_dispatch_check(g, call, weiri_moe_routing_tokens(g, a->handle), values);
    header->has_routing = a->topk_experts != NULL;
    if (!problem)
        problem = dispatch_find_rows(g, a, header, values);
    if (!problem && header->has_routing) {
        moe_routing *routing = &g->routings[a->handle];
        weir_status status = weiri_moe_await_done(g, routing->call, dispatch_phase);
        if (status != WEIR_OK)
            return status;
        routing->is_valid = 0;
        problem = weiri_moe_record_write(g, a, values);
    }
    if (problem)
        return weiri_moe_refuse(g, header, problem, values[0], values[1], values[2]);
    header->has_weights = (uint32_t)weiri_moe_record_of(g, g->rank, a->handle).tokens[1];
    header->wants_weights = a->row_weights != NULL;
    return WEIR_OK;
}

static weir_status dispatch_send_host(weir_moe *g, const moe_call *call)
{
    const weir_moe_dispatch_args *a = &call->dispatch;
    moe_header *header;
    weir_status status = weiri_moe_open(g, MOE_DISPATCH, a->handle, &header);
    if (status == WEIR_OK)
        status = dispatch_describe(g, call, header);
    if (status != WEIR_OK)
        return status;
    weiri_moe_publish(g);
    if (header->staged) {
        status = weiri_moe_await_done(g, g->dispatched, dispatch_phase);
        if (status != WEIR_OK)
            return status;
        dispatch_stage(g, a);
        g->dispatched = g->calls;
    }
    weiri_moe_rows_ready(g);
    return WEIR_OK;
}

/* ------------------------------------------------------------------ receive */

/* One source's rows on their way here. */
typedef struct dispatch_source {
    moe_record record;
    const char *rows;
    const float *scales;
    int is_streaming;
} dispatch_source;

static void dispatch_copy_row(const weir_moe *g, const weir_moe_dispatch_args *a,
                              const dispatch_source *s, uint32_t token, int32_t row)
{
    const size_t bytes = g->sent_row_bytes, scales = (size_t)g->info.scales_per_row;
    char *to = (char *)a->rows + (size_t)row * bytes;
    const char *from = s->rows + (size_t)token * bytes;
    if (s->is_streaming)
        weiri_copy_streaming(to, from, bytes);
    else
        memcpy(to, from, bytes);
    if (scales)
        memcpy(a->row_scales + (size_t)row * scales, s->scales + (size_t)token * scales,
               scales * sizeof(float));
}

/* Expert-major: one row for each choice of a local expert. */
static void dispatch_place_choices(weir_moe *g, const weir_moe_dispatch_args *a,
                                   const dispatch_source *s, uint32_t token)
{
    const size_t k = (size_t)g->config.topk;
    for (size_t choice = 0; choice < k; choice++) {
        const size_t i = (size_t)token * k + choice;
        const uint32_t own = (uint32_t)(s->record.experts[i] - g->info.first_expert);
        if (own >= (uint32_t)g->info.local_experts)
            continue;
        const int32_t row = g->cursor[own]++;
        dispatch_copy_row(g, a, s, token, row);
        if (a->row_weights)
            a->row_weights[row] = s->record.weights[i];
    }
}

/* The other layouts: one row, with its experts and weights. */
static void dispatch_place_token(weir_moe *g, const weir_moe_dispatch_args *a,
                                 const dispatch_source *s, uint32_t token)
{
    const size_t k = (size_t)g->config.topk;
    const int32_t row = g->cursor[0]++;
    dispatch_copy_row(g, a, s, token, row);
    for (size_t choice = 0; choice < k; choice++) {
        const size_t i = (size_t)token * k + choice, to = (size_t)row * k + choice;
        const uint32_t own = (uint32_t)(s->record.experts[i] - g->info.first_expert);
        const int is_here = own < (uint32_t)g->info.local_experts;
        if (a->row_experts)
            a->row_experts[to] = is_here ? (int32_t)own : -1;
        if (a->row_weights)
            a->row_weights[to] = is_here ? s->record.weights[i] : 0.0f;
    }
}

static weir_status dispatch_receive(weir_moe *g, const moe_call *call, int source, int is_streaming)
{
    const weir_moe_dispatch_args *a = &call->dispatch;
    const moe_routing *routing = &g->routings[a->handle];
    const moe_window *window = &g->windows[source];
    dispatch_source s = {weiri_moe_record_of(g, source, a->handle), a->x, window->token_scales,
                         is_streaming};
    const uint32_t from = s.record.rank_start[g->rank], to = s.record.rank_start[g->rank + 1];
    if (from == to)
        return WEIR_OK;
    weir_status status = weiri_moe_await_ready(g, source, call->number, dispatch_phase);
    if (status == WEIR_OK)
        status = weiri_moe_rows_of(g, source, call->number, window->token_rows, &s.rows);
    if (status != WEIR_OK)
        return status;
    memcpy(g->cursor, routing->source_row + (size_t)source * (size_t)g->own_bins,
           (size_t)g->own_bins * sizeof *g->cursor);
    for (uint32_t i = from; i < to; i++)
        if (g->by_expert)
            dispatch_place_choices(g, a, &s, s.record.rank_tokens[i]);
        else
            dispatch_place_token(g, a, &s, s.record.rank_tokens[i]);
    return WEIR_OK;
}

static int64_t dispatch_received(const weir_moe *g, const moe_routing *routing)
{
    int64_t rows = 0;
    for (int own = 0; own < g->own_bins; own++)
        rows += moe_bin_rows(g, routing, own);
    return rows;
}

static weir_status dispatch_receive_all(weir_moe *g, const moe_call *call)
{
    const moe_routing *routing = &g->routings[call->dispatch.handle];
    const size_t moved = 2 * (size_t)dispatch_received(g, routing) * g->sent_row_bytes;
    const int is_streaming = moved * (size_t)g->nranks > weiri_streaming_threshold_bytes();
    weir_status status = WEIR_OK;
    for (int step = 0; status == WEIR_OK && step < g->nranks; step++)
        status = dispatch_receive(g, call, (g->rank + step) % g->nranks, is_streaming);
    return status;
}

/* ----------------------------------------------------------------- complete */

/* Expert-major: the first row of an expert that is on this rank: that of source 0. */
static int32_t dispatch_offset(const moe_routing *routing, int own)
{
    return routing->source_row[own];
}

/* Sets the rows from an expert's last one to the next multiple of the alignment to zero. */
static void dispatch_pad(const weir_moe *g, const weir_moe_dispatch_args *a,
                         const moe_routing *routing)
{
    const int alignment = g->config.alignment;
    for (int own = 0; own < g->own_bins; own++) {
        const int rows = moe_bin_rows(g, routing, own);
        const size_t gap = (size_t)((alignment - rows % alignment) % alignment);
        const size_t first = (size_t)(dispatch_offset(routing, own) + rows);
        memset((char *)a->rows + first * g->sent_row_bytes, 0, gap * g->sent_row_bytes);
        if (g->is_fp8)
            memset(a->row_scales + first * (size_t)g->info.scales_per_row, 0,
                   gap * (size_t)g->info.scales_per_row * sizeof(float));
        if (a->row_weights)
            memset(a->row_weights + first, 0, gap * sizeof(float));
    }
}

static void dispatch_count_sources(const weir_moe *g, const weir_moe_dispatch_args *a)
{
    for (int source = 0; source < g->nranks; source++) {
        const moe_record r = weiri_moe_record_of(g, source, a->handle);
        a->source_counts[source] =
            g->by_expert ? 0 : (int32_t)g->routings[a->handle].source_tokens[source];
        for (int own = 0; g->by_expert && own < g->own_bins; own++)
            a->source_counts[source] += r.counts[g->info.first_expert + own];
    }
}

static void dispatch_count_experts(const weir_moe *g, const weir_moe_dispatch_args *a)
{
    for (int own = 0; own < g->info.local_experts; own++)
        a->expert_counts[own] = 0;
    for (int source = 0; source < g->nranks; source++) {
        const moe_record r = weiri_moe_record_of(g, source, a->handle);
        for (int own = 0; own < g->info.local_experts; own++)
            a->expert_counts[own] += r.counts[g->info.first_expert + own];
    }
}

/* Writes the counts, from records that peers may change once this rank has finished the call. */
static void dispatch_count(const weir_moe *g, const weir_moe_dispatch_args *a)
{
    const moe_routing *routing = &g->routings[a->handle];
    if (a->expert_counts)
        dispatch_count_experts(g, a);
    if (a->source_counts)
        dispatch_count_sources(g, a);
    for (int own = 0; a->expert_offsets && own < g->own_bins; own++)
        a->expert_offsets[own] = dispatch_offset(routing, own);
}

void weiri_moe_dispatch_end(const weir_moe *g, const weir_moe_dispatch_args *a)
{
    dispatch_count(g, a);
    if (g->by_expert && g->config.alignment > 1)
        dispatch_pad(g, a, &g->routings[a->handle]);
}

/* A rank that receives weights needs them from all. */
static weir_status dispatch_check_weights(const weir_moe *g, uint64_t call)
{
    int wanting = -1, lacking = -1;
    for (int rank = g->nranks - 1; rank >= 0; rank--) {
        const moe_header *header = moe_header_of(g, rank, call);
        if (header->wants_weights)
            wanting = rank;
        if (!header->has_weights)
            lacking = rank;
    }
    if (wanting < 0 || lacking < 0)
        return WEIR_OK;
    return weiri_moe_problem_fail(MOE_DISPATCH, MOE_NO_WEIGHTS, (int64_t[3]){wanting}, lacking);
}

/* All that can fail on all ranks: afterwards rows are received. */
static weir_status dispatch_prepare(weir_moe *g, const moe_call *call)
{
    const int has_routing = call->dispatch.topk_experts != NULL;
    weir_status status = weiri_moe_await_all(g, call->number, dispatch_phase);
    if (status == WEIR_OK)
        status = dispatch_check_weights(g, call->number);
    if (status == WEIR_OK && has_routing)
        status = weiri_moe_place_rows(g, call->dispatch.handle);
    return status;
}

/* Waits until the peers have read this rank's tokens from the caller's buffer. */
static weir_status dispatch_await_readers(weir_moe *g, const moe_call *call)
{
    const moe_record r = weiri_moe_record_of(g, g->rank, call->dispatch.handle);
    weir_status status = WEIR_OK;
    if (moe_header_of(g, g->rank, call->number)->staged)
        return WEIR_OK;
    for (int peer = 0; status == WEIR_OK && peer < g->nranks; peer++)
        if (peer != g->rank && r.rank_start[peer + 1] > r.rank_start[peer])
            status = weiri_comm_wait(g->comm, &g->windows[peer].words->done.value, call->number,
                                     peer, "moe dispatch: readers");
    return status;
}

static weir_status dispatch_complete_host(weir_moe *g, const moe_call *call)
{
    const weir_moe_dispatch_args *a = &call->dispatch;
    moe_routing *routing = &g->routings[a->handle];
    weir_status status = dispatch_prepare(g, call);
    if (status == WEIR_OK) {
        status = dispatch_receive_all(g, call);
        if (status == WEIR_OK)
            dispatch_count(g, a);
        routing->is_valid = status == WEIR_OK;
    }
    routing->call = call->number;
    weiri_moe_finish(g, call->number);
    if (status == WEIR_OK && g->by_expert && g->config.alignment > 1)
        dispatch_pad(g, a, routing);
    return status == WEIR_OK ? dispatch_await_readers(g, call) : status;
}

weir_status weiri_moe_host_dispatch(weir_moe *g, const moe_call *call, int phases)
{
    weir_status status = WEIR_OK;
    if (phases & MOE_PHASE_SEND)
        status = dispatch_send_host(g, call);
    if (status == WEIR_OK && phases & MOE_PHASE_COMPLETE)
        status = dispatch_complete_host(g, call);
    return status;
}
