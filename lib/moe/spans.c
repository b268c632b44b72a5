/* The buffers of a call as spans of memory: see spans.h. */
#include "moe/spans.h"

#include "comm/gpu/gpu.h"

#include <string.h>

void weiri_moe_dispatch_spans(const weir_moe *g, const weir_moe_dispatch_args *a,
                              moe_span spans[MOE_DISPATCH_SPANS])
{
    const size_t choices = (size_t)a->tokens * (size_t)g->config.topk;
    const size_t rows = (size_t)g->info.recv_rows, local = (size_t)g->info.local_experts;
    const size_t values = (size_t)g->row_values;
    const moe_span all[MOE_DISPATCH_SPANS] = {
        [MOE_SPAN_X] = {a->x, (size_t)a->tokens * g->info.row_bytes, MOE_POINTER_X},
        [MOE_SPAN_TOPK_EXPERTS] = {a->topk_experts, choices * (a->topk_dtype == WEIR_INT64 ? 8 : 4),
                                   -1},
        [MOE_SPAN_TOPK_WEIGHTS] = {a->topk_experts ? a->topk_weights : NULL, choices * 4, -1},
        [MOE_SPAN_RECEIVED] = {a->rows, g->info.recv_bytes, MOE_POINTER_ROWS},
        [MOE_SPAN_ROW_SCALES] = {a->row_scales, rows * (size_t)g->info.scales_per_row * 4, -1},
        [MOE_SPAN_ROW_WEIGHTS] = {a->row_weights, rows * values * 4, -1},
        [MOE_SPAN_ROW_EXPERTS] = {a->row_experts, rows * values * 4, -1},
        [MOE_SPAN_EXPERT_COUNTS] = {a->expert_counts, local * 4, -1},
        [MOE_SPAN_EXPERT_OFFSETS] = {a->expert_offsets, local * 4, -1},
        [MOE_SPAN_SOURCE_COUNTS] = {a->source_counts, (size_t)g->nranks * 4, -1},
    };
    memcpy(spans, all, sizeof all);
}

void weiri_moe_combine_spans(const weir_moe *g, const weir_moe_combine_args *a, int tokens,
                             moe_span spans[MOE_COMBINE_SPANS])
{
    const size_t choices = (size_t)tokens * (size_t)g->config.topk;
    const size_t rows = (size_t)g->info.recv_rows;
    const moe_span all[MOE_COMBINE_SPANS] = {
        [MOE_SPAN_OUTPUTS] = {a->rows, rows * g->info.row_bytes, MOE_POINTER_ROWS},
        [MOE_SPAN_ROW_GRADS] = {a->row_weight_grads, rows * (size_t)g->row_values * 4, -1},
        [MOE_SPAN_WEIGHTS] = {a->weights, choices * 4, -1},
        [MOE_SPAN_OUT] = {a->out, (size_t)tokens * g->info.row_bytes, MOE_POINTER_OUT},
        [MOE_SPAN_WEIGHT_GRADS] = {a->weight_grads, choices * 4, -1},
    };
    memcpy(spans, all, sizeof all);
}

moe_problem weiri_moe_check_spans(const weir_moe *g, const moe_span *spans, size_t count,
                                  int64_t values[3])
{
    for (size_t i = 0; i < count; i++)
        if (spans[i].pointer &&
            g->comm->gpu->ops->check_buffer(g->comm, spans[i].pointer, spans[i].bytes) != WEIR_OK) {
            values[0] = spans[i].pointer_name;
            return MOE_BAD_BUFFER;
        }
    return MOE_NO_PROBLEM;
}
