/*
 * Routings. A rank writes its own into the record of a handle: the choices counted by expert, the
 * tokens of each rank in order. From all ranks' counts each rank computes where rows are: its own
 * in the receivers' buffers, for combine, and those that it receives.
 *
 * Rows of an expert (or, by layout, of a rank) are ordered by source rank, then by token, then by
 * choice. A bin is an expert in layout expert, else a rank.
 */
#include "moe/nodes.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------- layout */

enum { RECORD_PARTS = 6, PREFIX_PARTS = 3 }; /* the prefix: tokens, counts, rank_start */

/* Computes where the parts of a record are, and its length up to each of them. */
static void record_measure(const weir_moe_config *c, int nranks, size_t at[RECORD_PARTS + 1])
{
    const size_t tokens = (size_t)c->max_tokens, choices = tokens * (size_t)c->topk;
    const size_t spread = (size_t)(c->topk < nranks ? c->topk : nranks);
    const size_t lengths[RECORD_PARTS] = {
        2, (size_t)c->experts, (size_t)nranks + 1, tokens * spread, choices, choices};
    at[0] = 0;
    for (int i = 0; i < RECORD_PARTS; i++)
        at[i + 1] =
            at[i] + (lengths[i] * 4 + WEIR_LINE_BYTES - 1) / WEIR_LINE_BYTES * WEIR_LINE_BYTES;
}

static moe_record record_lay_out(const weir_moe *g, char *base)
{
    size_t at[RECORD_PARTS + 1];
    record_measure(&g->config, g->nranks, at);
    return (moe_record){(int32_t *)(void *)(base + at[0]),  (int32_t *)(void *)(base + at[1]),
                        (uint32_t *)(void *)(base + at[2]), (uint32_t *)(void *)(base + at[3]),
                        (int32_t *)(void *)(base + at[4]),  (float *)(void *)(base + at[5])};
}

size_t weiri_moe_record_bytes(const weir_moe_config *config, int nranks)
{
    size_t at[RECORD_PARTS + 1];
    record_measure(config, nranks, at);
    return at[RECORD_PARTS];
}

size_t weiri_moe_record_prefix_bytes(const weir_moe_config *config, int nranks)
{
    size_t at[RECORD_PARTS + 1];
    record_measure(config, nranks, at);
    return at[PREFIX_PARTS];
}

moe_record weiri_moe_record_of(const weir_moe *g, int rank, int handle)
{
    const struct moe_nodes *n = g->nodes;
    const size_t h = (size_t)handle;
    if (!n)
        return record_lay_out(g, g->windows[rank].records + h * g->record_bytes);
    if (rank == g->rank)
        return record_lay_out(g, n->own_records + h * g->record_bytes);
    moe_record record =
        record_lay_out(g, n->prefixes + (h * (size_t)g->nranks + (size_t)rank) * n->prefix_bytes);
    record.rank_tokens = NULL;
    record.experts = NULL;
    record.weights = NULL;
    return record;
}

int weiri_moe_routing_tokens(const weir_moe *g, int handle)
{
    if (handle < 0 || handle >= g->config.handles || !g->routings[handle].is_valid)
        return -1;
    return weiri_moe_record_of(g, g->rank, handle).tokens[0];
}

/* ------------------------------------------------------------------ writing */

/* Copies the experts as int32, -1 for none, and checks them. */
static moe_problem record_take_experts(const weir_moe *g, const weir_moe_dispatch_args *args,
                                       int32_t *experts, int64_t values[3])
{
    const size_t choices = (size_t)args->tokens * (size_t)g->config.topk;
    const int is_wide = args->topk_dtype == WEIR_INT64;
    for (size_t i = 0; i < choices; i++) {
        const int64_t expert = is_wide ? ((const int64_t *)args->topk_experts)[i]
                                       : ((const int32_t *)args->topk_experts)[i];
        if (WEIRI_UNLIKELY(expert >= g->config.experts)) {
            values[0] = (int64_t)(i / (size_t)g->config.topk);
            values[1] = (int64_t)(i % (size_t)g->config.topk);
            values[2] = expert;
            return MOE_BAD_EXPERT;
        }
        experts[i] = expert < 0 ? -1 : (int32_t)expert;
    }
    return MOE_NO_PROBLEM;
}

/* Counts choices of each expert and tokens of each rank (in rank_start[rank + 1]), and stores each
 * choice's position in its bin. */
static void record_count(weir_moe *g, moe_record *r, uint32_t *position, int tokens)
{
    const int k = g->config.topk;
    memset(r->counts, 0, (size_t)g->config.experts * sizeof *r->counts);
    memset(r->rank_start, 0, ((size_t)g->nranks + 1) * sizeof *r->rank_start);
    memset(g->last_token, 0, (size_t)g->nranks * sizeof *g->last_token);
    for (int token = 0; token < tokens; token++)
        for (int choice = 0; choice < k; choice++) {
            const size_t i = (size_t)token * (size_t)k + (size_t)choice;
            const int expert = r->experts[i];
            if (expert < 0)
                continue;
            const int rank = g->rank_of[expert];
            const uint32_t in_expert = (uint32_t)r->counts[expert]++;
            if (g->last_token[rank] != (uint32_t)token + 1) {
                g->last_token[rank] = (uint32_t)token + 1;
                r->rank_start[rank + 1]++;
            }
            position[i] = g->by_expert ? in_expert : r->rank_start[rank + 1] - 1;
        }
}

/* Lists the tokens of each rank, whose numbers are in rank_start[rank + 1]. */
static void record_list(weir_moe *g, moe_record *r, int tokens)
{
    const int k = g->config.topk;
    for (int rank = 0; rank < g->nranks; rank++)
        r->rank_start[rank + 1] += r->rank_start[rank];
    memset(g->last_token, 0, (size_t)g->nranks * sizeof *g->last_token);
    for (int token = 0; token < tokens; token++)
        for (int choice = 0; choice < k; choice++) {
            const int expert = r->experts[(size_t)token * (size_t)k + (size_t)choice];
            const int rank = expert < 0 ? -1 : g->rank_of[expert];
            if (rank < 0 || g->last_token[rank] == (uint32_t)token + 1)
                continue;
            g->last_token[rank] = (uint32_t)token + 1;
            /* rank_start[rank] moves to the end of the rank's list, and is moved back below. */
            r->rank_tokens[r->rank_start[rank]++] = (uint32_t)token;
        }
    for (int rank = g->nranks; rank > 0; rank--)
        r->rank_start[rank] = r->rank_start[rank - 1];
    r->rank_start[0] = 0;
}

moe_problem weiri_moe_record_write(weir_moe *g, const weir_moe_dispatch_args *args,
                                   int64_t values[3])
{
    moe_record r = weiri_moe_record_of(g, g->rank, args->handle);
    moe_routing *routing = &g->routings[args->handle];
    moe_problem problem = record_take_experts(g, args, r.experts, values);
    if (problem)
        return problem;
    r.tokens[0] = args->tokens;
    r.tokens[1] = args->topk_weights != NULL;
    if (args->topk_weights && args->tokens)
        memcpy(r.weights, args->topk_weights,
               (size_t)args->tokens * (size_t)g->config.topk * sizeof *r.weights);
    record_count(g, &r, routing->position, args->tokens);
    record_list(g, &r, args->tokens);
    return MOE_NO_PROBLEM;
}

/* ------------------------------------------------------------------ placing */

/* Adds up all sources: totals, this rank's first row in each bin (first_row, from the beginning of
 * the bin), and for its own bins each source's first row. */
static void place_sum(weir_moe *g, moe_routing *routing, int handle)
{
    const int first_own = g->rank * g->own_bins;
    int32_t *restrict total = routing->total;
    memset(total, 0, (size_t)g->bins * sizeof *total);
    for (int source = 0; source < g->nranks; source++) {
        const moe_record r = weiri_moe_record_of(g, source, handle);
        routing->source_tokens[source] = r.rank_start[g->rank + 1] - r.rank_start[g->rank];
        if (source == g->rank)
            memcpy(routing->first_row, total, (size_t)g->bins * sizeof *total);
        memcpy(routing->source_row + (size_t)source * (size_t)g->own_bins, total + first_own,
               (size_t)g->own_bins * sizeof *total);
        if (g->by_expert) {
            const int32_t *restrict counts = r.counts;
            for (int bin = 0; bin < g->bins; bin++)
                total[bin] += counts[bin];
        } else {
            for (int bin = 0; bin < g->bins; bin++)
                total[bin] += g->by_expert ? r.counts[bin]
                                           : (int32_t)(r.rank_start[bin + 1] - r.rank_start[bin]);
        }
    }
}

/* Returns the row at which the next bin can begin, after `rows` rows from `first`. */
static int64_t place_next(const weir_moe *g, int64_t first, int32_t rows)
{
    if (g->config.expert_capacity)
        return first + g->config.expert_capacity;
    const int64_t alignment = g->config.alignment;
    return first + (rows + alignment - 1) / alignment * alignment;
}

weir_status weiri_moe_overflow_fail(const weir_moe_config *config, int rank, int expert,
                                    int64_t rows, int64_t capacity)
{
    if (config->expert_capacity && rows > capacity && capacity == config->expert_capacity)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_moe: expert %d on rank %d would receive %lld rows, but "
                          "expert_capacity is %lld; nothing was written",
                          expert, rank, (long long)rows, (long long)capacity);
    char where[40] = "";
    if (config->layout == WEIR_MOE_EXPERT_MAJOR)
        snprintf(where, sizeof where, " up to expert %d", expert);
    return weiri_fail(
        WEIR_ERR_INVALID,
        "weir_moe: rank %d would receive %lld rows%s, but there is room for %lld; nothing "
        "was written, raise recv_capacity",
        rank, (long long)rows, where, (long long)capacity);
}

/* Adds the beginnings of one rank's bins to this rank's rows in them. */
static weir_status place_rank(weir_moe *g, moe_routing *routing, int rank)
{
    int64_t first = 0, staged = 0;
    for (int own = 0; own < g->own_bins; own++) {
        const int bin = rank * g->own_bins + own;
        const int32_t rows = routing->total[bin];
        if (g->config.expert_capacity && rows > g->config.expert_capacity)
            return weiri_moe_overflow_fail(&g->config, rank, bin, rows, g->config.expert_capacity);
        routing->first_staged[bin] = (int32_t)(staged + routing->first_row[bin]);
        routing->first_row[bin] += (int32_t)first;
        if (rank == g->rank)
            for (int source = 0; source < g->nranks; source++)
                routing->source_row[source * g->own_bins + own] += (int32_t)first;
        first = place_next(g, first, rows);
        staged += rows;
        if (first > g->info.recv_rows || staged > g->staged_rows)
            return weiri_moe_overflow_fail(
                &g->config, rank, bin, first > g->info.recv_rows ? first : staged,
                first > g->info.recv_rows ? g->info.recv_rows : g->staged_rows);
    }
    return WEIR_OK;
}

/* Layout rank: the rows of each source begin at a multiple of max_tokens. */
static void place_by_source(weir_moe *g, moe_routing *routing)
{
    for (int rank = 0; rank < g->nranks; rank++) {
        routing->first_staged[rank] = routing->first_row[rank];
        routing->first_row[rank] = g->rank * g->config.max_tokens;
        routing->source_row[rank] = rank * g->config.max_tokens;
    }
}

weir_status weiri_moe_place_rows(weir_moe *g, int handle)
{
    moe_routing *routing = &g->routings[handle];
    place_sum(g, routing, handle);
    if (g->config.layout == WEIR_MOE_RANK_MAJOR) {
        place_by_source(g, routing);
        return WEIR_OK;
    }
    weir_status status = WEIR_OK;
    for (int rank = 0; status == WEIR_OK && rank < g->nranks; rank++)
        status = place_rank(g, routing, rank);
    return status;
}

weir_status weiri_moe_host_locate(const weir_moe *g, int handle, int token, int choice, int *rank,
                                  int *row)
{
    if (handle < 0 || handle >= g->config.handles || !g->routings[handle].is_valid)
        return weiri_fail(WEIR_ERR_INVALID, "weir_moe_locate: handle %d has no routing", handle);
    const moe_record r = weiri_moe_record_of(g, g->rank, handle);
    if (token < 0 || token >= r.tokens[0] || choice < 0 || choice >= g->config.topk)
        return weiri_fail(WEIR_ERR_INVALID, "weir_moe_locate: token %d, choice %d do not exist",
                          token, choice);
    const size_t i = (size_t)token * (size_t)g->config.topk + (size_t)choice;
    const int bin = moe_bin_of(g, r.experts[i]);
    if (bin < 0)
        return weiri_fail(WEIR_ERR_INVALID, "weir_moe_locate: choice %d of token %d has no expert",
                          choice, token);
    *rank = g->rank_of[r.experts[i]];
    *row = g->routings[handle].first_row[bin] + (int)g->routings[handle].position[i];
    return WEIR_OK;
}
