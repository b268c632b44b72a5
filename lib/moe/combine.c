/*
 * Combine on the host. Send makes the expert outputs readable: those in registered memory where
 * they are, others and short ones in staging, where the rows of experts (or ranks) follow each
 * other without gaps. Complete adds the rows of each token straight from the ranks of its experts.
 */
#include "moe/group.h"

#include "base/error.h"
#include "compute/copy.h"

#include <stdint.h>

static const char combine_phase[] = "moe combine";

/* --------------------------------------------------------------------- send */

moe_problem weiri_moe_combine_check(const weir_moe *g, const moe_call *call, int tokens,
                                    int64_t values[3])
{
    const weir_moe_combine_args *a = &call->combine;
    if (call->problem) {
        memcpy(values, call->values, sizeof call->values);
        return call->problem;
    }
    values[0] = a->handle;
    values[1] = g->config.handles;
    if (tokens < 0)
        return MOE_NO_ROUTING;
    values[0] = MOE_POINTER_ROWS;
    if (!a->rows)
        return MOE_BAD_POINTER;
    values[0] = MOE_POINTER_OUT;
    if (!a->out && tokens)
        return MOE_BAD_POINTER;
    values[0] = MOE_POINTER_WEIGHTS;
    if (a->weights && !g->by_expert)
        return MOE_BAD_MEMBER;
    values[0] = (int64_t)a->out_bytes;
    values[1] = (int64_t)((size_t)tokens * g->info.row_bytes);
    if (a->out_bytes < (size_t)tokens * g->info.row_bytes)
        return MOE_BAD_OUT;
    values[0] = 0;
    return a->stream && !g->comm->gpu ? MOE_BAD_STREAM : MOE_NO_PROBLEM;
}

/* Decides where peers read the rows. */
static moe_problem combine_find_rows(const weir_moe *g, const weir_moe_combine_args *a,
                                     moe_header *header, int64_t values[3])
{
    const moe_routing *routing = &g->routings[a->handle];
    size_t used = 0;
    for (int own = 0; own < g->own_bins; own++)
        used += (size_t)moe_bin_rows(g, routing, own) * g->info.row_bytes;
    header->staged = 1;
    if (used <= MOE_STAGED_BYTES)
        return MOE_NO_PROBLEM;
    header->desc =
        weiri_region_describe(g->comm, a->rows, (size_t)g->info.recv_rows * g->info.row_bytes);
    header->staged = !header->desc.generation;
    values[0] = MOE_POINTER_ROWS;
    return header->staged && g->config.registered ? MOE_BAD_MEMORY : MOE_NO_PROBLEM;
}

/* Calls copy(row here, row in staging, rows) for each part of this rank's rows. */
typedef void combine_copy(const weir_moe *g, const weir_moe_combine_args *a, size_t from, size_t to,
                          size_t rows);

static void combine_each_part(const weir_moe *g, const weir_moe_combine_args *a, combine_copy *copy)
{
    size_t to = 0;
    for (int part = 0; part < moe_parts(g); part++) {
        int first;
        const size_t rows = (size_t)moe_part(g, a->handle, part, &first);
        copy(g, a, (size_t)first, to, rows);
        to += rows;
    }
}

static void combine_copy_rows(const weir_moe *g, const weir_moe_combine_args *a, size_t from,
                              size_t to, size_t rows)
{
    const size_t bytes = g->info.row_bytes;
    weiri_copy(g->windows[g->rank].output_rows + to * bytes, (const char *)a->rows + from * bytes,
               rows * bytes);
}

static void combine_copy_grads(const weir_moe *g, const weir_moe_combine_args *a, size_t from,
                               size_t to, size_t rows)
{
    const size_t values = (size_t)g->row_values;
    weiri_copy(g->windows[g->rank].output_grads + to * values, a->row_weight_grads + from * values,
               rows * values * sizeof(float));
}

static weir_status combine_describe(weir_moe *g, const moe_call *call, moe_header *header)
{
    const weir_moe_combine_args *a = &call->combine;
    int64_t values[3] = {0, 0, 0};
    moe_problem problem =
        weiri_moe_combine_check(g, call, weiri_moe_routing_tokens(g, a->handle), values);
    header->has_grads = a->row_weight_grads != NULL;
    if (!problem)
        problem = combine_find_rows(g, a, header, values);
    return problem ? weiri_moe_refuse(g, header, problem, values[0], values[1], values[2])
                   : WEIR_OK;
}

static weir_status combine_send_host(weir_moe *g, const moe_call *call)
{
    const weir_moe_combine_args *a = &call->combine;
    moe_header *header;
    weir_status status = weiri_moe_open(g, MOE_COMBINE, a->handle, &header);
    if (status == WEIR_OK)
        status = combine_describe(g, call, header);
    if (status == WEIR_OK && (header->staged || header->has_grads))
        status = weiri_moe_await_done(g, g->combined, combine_phase);
    if (status != WEIR_OK)
        return status;
    if (header->staged)
        combine_each_part(g, a, combine_copy_rows);
    if (header->has_grads)
        combine_each_part(g, a, combine_copy_grads);
    if (header->staged || header->has_grads)
        g->combined = g->calls;
    weiri_moe_publish(g);
    weiri_moe_rows_ready(g);
    return WEIR_OK;
}

/* ------------------------------------------------------------------ receive */

/* Finds the outputs of every rank that has rows of this one. */
static weir_status combine_find_outputs(weir_moe *g, const moe_call *call)
{
    const moe_record r = weiri_moe_record_of(g, g->rank, call->combine.handle);
    const moe_routing *routing = &g->routings[call->combine.handle];
    weir_status status = WEIR_OK;
    for (int rank = 0; status == WEIR_OK && rank < g->nranks; rank++) {
        if (r.rank_start[rank] == r.rank_start[rank + 1])
            continue;
        moe_outputs *outputs = &g->outputs[rank];
        outputs->rows = call->combine.rows;
        status = weiri_moe_await_ready(g, rank, call->number, combine_phase);
        if (status == WEIR_OK)
            status = weiri_moe_rows_of(g, rank, call->number, g->windows[rank].output_rows,
                                       &outputs->rows);
        outputs->first = moe_header_of(g, rank, call->number)->staged ? routing->first_staged
                                                                      : routing->first_row;
    }
    return status;
}

/* Adds the rows of one token. */
static void combine_token(weir_moe *g, const moe_call *call, const moe_record *r, size_t token)
{
    const weir_moe_combine_args *a = &call->combine;
    const moe_routing *routing = &g->routings[a->handle];
    const size_t k = (size_t)g->config.topk, bytes = g->info.row_bytes;
    const void *rows[WEIR_MOE_TOPK_MAX];
    float weights[WEIR_MOE_TOPK_MAX];
    int count = 0;
    for (size_t choice = 0; choice < k; choice++) {
        const size_t i = token * k + choice;
        const int expert = r->experts[i], bin = moe_bin_of(g, expert);
        if (bin < 0)
            continue;
        const int rank = g->rank_of[expert];
        if (!g->by_expert && g->last_token[rank] == token + 1)
            continue;
        g->last_token[rank] = (uint32_t)token + 1;
        rows[count] = g->outputs[rank].rows +
                      ((size_t)g->outputs[rank].first[bin] + routing->position[i]) * bytes;
        weights[count++] = a->weights ? a->weights[i] : 1.0f;
    }
    char *out = (char *)a->out + token * bytes;
    if (count)
        g->weigh->sum(out, rows, a->weights ? weights : NULL, count, (size_t)g->config.hidden);
    else
        memset(out, 0, bytes);
}

/* Fetches the gradients of one token's weights. */
static void combine_grads(const weir_moe *g, const moe_call *call, const moe_record *r,
                          size_t token)
{
    const moe_routing *routing = &g->routings[call->combine.handle];
    const size_t k = (size_t)g->config.topk;
    for (size_t choice = 0; choice < k; choice++) {
        const size_t i = token * k + choice;
        const int bin = moe_bin_of(g, r->experts[i]);
        float *to = &call->combine.weight_grads[i];
        *to = 0.0f;
        if (bin < 0)
            continue;
        const float *grads = g->windows[g->rank_of[r->experts[i]]].output_grads;
        const size_t row = (size_t)routing->first_staged[bin] + routing->position[i];
        *to = grads[row * (size_t)g->row_values + (g->by_expert ? 0 : choice)];
    }
}

static weir_status combine_receive(weir_moe *g, const moe_call *call)
{
    const moe_record r = weiri_moe_record_of(g, g->rank, call->combine.handle);
    const int has_grads = call->combine.row_weight_grads && call->combine.weight_grads;
    weir_status status = weiri_moe_await_all(g, call->number, combine_phase);
    if (status == WEIR_OK)
        status = combine_find_outputs(g, call);
    if (status != WEIR_OK)
        return status;
    memset(g->last_token, 0, (size_t)g->nranks * sizeof *g->last_token);
    for (size_t token = 0; token < (size_t)r.tokens[0]; token++) {
        combine_token(g, call, &r, token);
        if (has_grads)
            combine_grads(g, call, &r, token);
    }
    return WEIR_OK;
}

/* ----------------------------------------------------------------- complete */

/* Waits until the peers have read this rank's rows from the caller's buffer. */
static weir_status combine_await_readers(weir_moe *g, const moe_call *call)
{
    const moe_routing *routing = &g->routings[call->combine.handle];
    weir_status status = WEIR_OK;
    if (moe_header_of(g, g->rank, call->number)->staged)
        return WEIR_OK;
    for (int peer = 0; status == WEIR_OK && peer < g->nranks; peer++)
        if (peer != g->rank && routing->source_tokens[peer])
            status = weiri_comm_wait(g->comm, &g->windows[peer].words->done.value, call->number,
                                     peer, "moe combine: readers");
    return status;
}

static weir_status combine_complete_host(weir_moe *g, const moe_call *call)
{
    weir_status status = combine_receive(g, call);
    weiri_moe_finish(g, call->number);
    return status == WEIR_OK ? combine_await_readers(g, call) : status;
}

weir_status weiri_moe_host_combine(weir_moe *g, const moe_call *call, int phases)
{
    weir_status status = WEIR_OK;
    if (phases & MOE_PHASE_SEND)
        status = combine_send_host(g, call);
    if (status == WEIR_OK && phases & MOE_PHASE_COMPLETE)
        status = combine_complete_host(g, call);
    return status;
}
