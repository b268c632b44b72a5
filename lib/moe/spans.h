/*
 * The buffers of a call as spans of memory: for the checks that GPUs need, and for copies of them
 * in host memory (nodes_gpu.c). Buffers that the call does not have are NULL.
 */
#ifndef WEIR_MOE_SPANS_H
#define WEIR_MOE_SPANS_H

#include "moe/group.h"

typedef struct moe_span {
    const void *pointer;
    size_t bytes;
    int pointer_name; /* enum moe_pointer: rows, which kernels need aligned; -1: numbers */
} moe_span;

enum moe_dispatch_span {
    MOE_SPAN_X,
    MOE_SPAN_TOPK_EXPERTS,
    MOE_SPAN_TOPK_WEIGHTS,
    MOE_SPAN_RECEIVED, /* rows; the first span that dispatch writes */
    MOE_SPAN_ROW_SCALES,
    MOE_SPAN_ROW_WEIGHTS,
    MOE_SPAN_ROW_EXPERTS,
    MOE_SPAN_EXPERT_COUNTS,
    MOE_SPAN_EXPERT_OFFSETS,
    MOE_SPAN_SOURCE_COUNTS,
    MOE_DISPATCH_SPANS
};

enum moe_combine_span {
    MOE_SPAN_OUTPUTS, /* rows */
    MOE_SPAN_ROW_GRADS,
    MOE_SPAN_WEIGHTS,
    MOE_SPAN_OUT, /* the first span that combine writes */
    MOE_SPAN_WEIGHT_GRADS,
    MOE_COMBINE_SPANS
};

/* Fill in the spans of a call. tokens: those of the handle's routing. */
void weiri_moe_dispatch_spans(const weir_moe *group, const weir_moe_dispatch_args *args,
                              moe_span spans[MOE_DISPATCH_SPANS]);
void weiri_moe_combine_spans(const weir_moe *group, const weir_moe_combine_args *args, int tokens,
                             moe_span spans[MOE_COMBINE_SPANS]);

/* Checks that spans are memory of this rank's GPU. On a problem, values gets what its message
 * needs. */
moe_problem weiri_moe_check_spans(const weir_moe *group, const moe_span *spans, size_t count,
                                  int64_t values[3]);

#endif
