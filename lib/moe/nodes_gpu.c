/*
 * GPUs of several nodes: a call runs on copies of its buffers in pinned host memory, which a group
 * allocates once. Inputs are copied there in the caller's stream, the host makes the call, and what
 * it has written is copied back: of received rows, just those. A call ends when that has been done.
 * The copies of dispatch and of combine use the same memory, because calls follow one another.
 */
#include "moe/nodes.h"
#include "moe/spans.h"

#include "base/error.h"
#include "comm/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

struct moe_staging {
    char *memory;
    size_t bytes;
    int is_pinned;
    size_t dispatch_at[MOE_DISPATCH_SPANS], combine_at[MOE_COMBINE_SPANS];
};

/* ------------------------------------------------------------------- set-up */

/* Computes where the copies of the longest spans are, and raises *bytes to their end. */
static void staging_lay_out(const moe_span *spans, size_t count, size_t *at, size_t *bytes)
{
    size_t end = 0;
    for (size_t i = 0; i < count; i++) {
        at[i] = end;
        end += (spans[i].bytes + WEIR_LINE_BYTES - 1) / WEIR_LINE_BYTES * WEIR_LINE_BYTES;
    }
    *bytes = end > *bytes ? end : *bytes;
}

static void staging_size(const weir_moe *g, struct moe_staging *s)
{
    moe_span spans[MOE_DISPATCH_SPANS];
    weir_moe_dispatch_args dispatch = WEIR_MOE_DISPATCH_ARGS_INIT;
    const weir_moe_combine_args combine = WEIR_MOE_COMBINE_ARGS_INIT;
    dispatch.tokens = g->config.max_tokens;
    dispatch.topk_dtype = WEIR_INT64;
    weiri_moe_dispatch_spans(g, &dispatch, spans);
    staging_lay_out(spans, MOE_DISPATCH_SPANS, s->dispatch_at, &s->bytes);
    weiri_moe_combine_spans(g, &combine, g->config.max_tokens, spans);
    staging_lay_out(spans, MOE_COMBINE_SPANS, s->combine_at, &s->bytes);
    s->bytes = (s->bytes + PAGE - 1) / PAGE * PAGE;
}

static weir_status staging_alloc(weir_moe *g)
{
    struct moe_staging *s = calloc(1, sizeof *s);
    void *memory = NULL, *unused;
    g->nodes->staging = s;
    if (s)
        staging_size(g, s);
    if (!s || posix_memalign(&memory, PAGE, s->bytes) != 0)
        return weiri_fail(WEIR_ERR_NO_MEMORY,
                          "weir_moe_create: no host memory for copies of GPU buffers of rank %d",
                          g->rank);
    s->memory = memory;
    weir_status status = g->comm->gpu->ops->pin(g->comm->gpu_comm, memory, s->bytes, &unused);
    s->is_pinned = status == WEIR_OK;
    g->info.memory_bytes += s->bytes;
    return status;
}

static weir_status staged_open(weir_moe *g)
{
    weir_status status = weiri_moe_nodes_open(g);
    return status == WEIR_OK ? weir_boot_agree(weir_comm_boot(g->comm), staging_alloc(g)) : status;
}

static void staged_close(weir_moe *g)
{
    struct moe_staging *s = g->nodes ? g->nodes->staging : NULL;
    if (s && s->is_pinned)
        g->comm->gpu->ops->unpin(g->comm->gpu_comm, s->memory);
    if (s)
        free(s->memory);
    free(s);
    weiri_moe_nodes_close(g);
}

/* ------------------------------------------------------------------- copies */

/* A call's copies: in its stream, up to the first failure. */
typedef struct moe_copies {
    const weir_moe *g;
    weir_stream stream;
    weir_status status;
} moe_copies;

static void copies_add(moe_copies *c, void *to, const void *from, size_t bytes)
{
    const weir_comm *comm = c->g->comm;
    if (bytes && c->status == WEIR_OK)
        c->status = comm->gpu->ops->begin_copy(comm->gpu_comm, to, from, bytes, c->stream);
}

/* Waits for the copies. A failure ends the communicator, because other ranks wait for this one. */
static weir_status copies_end(moe_copies *c)
{
    weir_comm *comm = c->g->comm;
    if (c->status == WEIR_OK)
        c->status = comm->gpu->ops->await(comm->gpu_comm, c->stream);
    return c->status == WEIR_OK ? WEIR_OK : weiri_comm_give_up(comm, c->status);
}

static void *staged_at(const weir_moe *g, const size_t *at, int span, const void *original)
{
    return original ? g->nodes->staging->memory + at[span] : NULL;
}

/* Copies inputs: spans first to last. */
static void copies_take(moe_copies *c, const moe_span *spans, const size_t *at, int first, int last)
{
    for (int i = first; i <= last; i++)
        if (spans[i].pointer)
            copies_add(c, c->g->nodes->staging->memory + at[i], spans[i].pointer, spans[i].bytes);
}

/* Copies outputs of known lengths back: spans first to last. */
static void copies_return(moe_copies *c, const moe_span *spans, const size_t *at, int first,
                          int last)
{
    for (int i = first; i <= last; i++)
        if (spans[i].pointer)
            copies_add(c, (void *)(uintptr_t)spans[i].pointer, c->g->nodes->staging->memory + at[i],
                       spans[i].bytes);
}

/* Rows from first on. */
typedef struct row_range {
    size_t first, rows;
} row_range;

/* Returns the received rows from a part on, with those that alignment adds, and advances *part
 * behind all parts that follow without a gap. */
static row_range rows_next(const weir_moe *g, int handle, int *part)
{
    const int alignment = g->by_expert && g->config.alignment > 1 ? g->config.alignment : 1;
    row_range range = {0, 0};
    for (int first; *part < moe_parts(g); ++*part) {
        const int rows = moe_part(g, handle, *part, &first);
        if (range.rows && (size_t)first != range.first + range.rows)
            break;
        if (!range.rows)
            range.first = (size_t)first;
        range.rows += (size_t)(rows + alignment - 1) / (size_t)alignment * (size_t)alignment;
    }
    return range;
}

/* Copies the rows of one buffer, each of so many bytes. */
static void copies_add_rows(moe_copies *c, int handle, void *to, const void *from, size_t row_bytes)
{
    for (int part = 0; to && from && part < moe_parts(c->g);) {
        const row_range range = rows_next(c->g, handle, &part);
        copies_add(c, (char *)to + range.first * row_bytes,
                   (const char *)from + range.first * row_bytes, range.rows * row_bytes);
    }
}

/* ------------------------------------------------------------------ problems */

static moe_problem staged_refuse(moe_call *call, moe_problem problem, const int64_t values[3])
{
    call->problem = problem;
    memcpy(call->values, values, sizeof call->values);
    return problem;
}

/* Checks what the host backend does not know: streams and buffers. */
static moe_problem staged_check(const weir_moe *g, weir_stream stream, const moe_span *spans,
                                size_t count, int64_t values[3])
{
    const weiri_gpu_ops *ops = g->comm->gpu->ops;
    values[0] = 1;
    if (ops->check_stream(g->comm->gpu_comm, stream) != WEIR_OK)
        return MOE_BAD_STREAM;
    if (ops->captures(g->comm->gpu_comm, stream))
        return MOE_BAD_CAPTURE;
    return weiri_moe_check_spans(g, spans, count, values);
}

/* ------------------------------------------------------------------ dispatch */

/* Checks a call, and fills in its spans. A problem becomes the call's. */
static moe_problem staged_open_dispatch(weir_moe *g, moe_call *call, moe_span *spans)
{
    int64_t values[3] = {0, 0, 0};
    const int tokens = weiri_moe_routing_tokens(g, call->dispatch.handle);
    moe_problem problem = weiri_moe_dispatch_check(g, call, tokens, values);
    if (!problem) {
        weiri_moe_dispatch_spans(g, &call->dispatch, spans);
        problem = staged_check(g, call->dispatch.stream, spans, MOE_DISPATCH_SPANS, values);
    }
    return staged_refuse(call, problem, values);
}

/* The arguments with copies in place of buffers. */
static weir_moe_dispatch_args staged_dispatch_args(const weir_moe *g,
                                                   const weir_moe_dispatch_args *a)
{
    const size_t *at = g->nodes->staging->dispatch_at;
    weir_moe_dispatch_args to = *a;
    to.stream = NULL;
    to.x = staged_at(g, at, MOE_SPAN_X, a->x);
    to.topk_experts = staged_at(g, at, MOE_SPAN_TOPK_EXPERTS, a->topk_experts);
    to.topk_weights =
        staged_at(g, at, MOE_SPAN_TOPK_WEIGHTS, a->topk_experts ? a->topk_weights : NULL);
    to.rows = staged_at(g, at, MOE_SPAN_RECEIVED, a->rows);
    to.row_scales = staged_at(g, at, MOE_SPAN_ROW_SCALES, a->row_scales);
    to.row_weights = staged_at(g, at, MOE_SPAN_ROW_WEIGHTS, a->row_weights);
    to.row_experts = staged_at(g, at, MOE_SPAN_ROW_EXPERTS, a->row_experts);
    to.expert_counts = staged_at(g, at, MOE_SPAN_EXPERT_COUNTS, a->expert_counts);
    to.expert_offsets = staged_at(g, at, MOE_SPAN_EXPERT_OFFSETS, a->expert_offsets);
    to.source_counts = staged_at(g, at, MOE_SPAN_SOURCE_COUNTS, a->source_counts);
    return to;
}

static weir_status staged_return_rows(const weir_moe *g, const weir_moe_dispatch_args *to,
                                      const weir_moe_dispatch_args *from, const moe_span *spans)
{
    const size_t values = (size_t)g->row_values * 4;
    moe_copies copies = {g, to->stream, WEIR_OK};
    copies_add_rows(&copies, to->handle, to->rows, from->rows, g->info.recv_row_bytes);
    copies_add_rows(&copies, to->handle, to->row_scales, from->row_scales,
                    (size_t)g->info.scales_per_row * 4);
    copies_add_rows(&copies, to->handle, to->row_weights, from->row_weights, values);
    copies_add_rows(&copies, to->handle, to->row_experts, from->row_experts, values);
    copies_return(&copies, spans, g->nodes->staging->dispatch_at, MOE_SPAN_EXPERT_COUNTS,
                  MOE_SPAN_SOURCE_COUNTS);
    return copies_end(&copies);
}

static weir_status staged_dispatch(weir_moe *g, const moe_call *call, int phases)
{
    moe_span spans[MOE_DISPATCH_SPANS];
    moe_call staged = *call;
    if (!(phases & MOE_PHASE_COMPLETE))
        return WEIR_OK;
    if (staged_open_dispatch(g, &staged, spans))
        return weiri_moe_nodes_dispatch(g, &staged, phases); /* fails on all ranks */
    moe_copies copies = {g, call->dispatch.stream, WEIR_OK};
    copies_take(&copies, spans, g->nodes->staging->dispatch_at, MOE_SPAN_X, MOE_SPAN_TOPK_WEIGHTS);
    weir_status status = copies_end(&copies);
    if (status != WEIR_OK)
        return status;
    staged.dispatch = staged_dispatch_args(g, &call->dispatch);
    status = weiri_moe_nodes_dispatch(g, &staged, phases);
    return status == WEIR_OK ? staged_return_rows(g, &call->dispatch, &staged.dispatch, spans)
                             : status;
}

/* ------------------------------------------------------------------- combine */

static moe_problem staged_open_combine(weir_moe *g, moe_call *call, moe_span *spans)
{
    int64_t values[3] = {0, 0, 0};
    const int tokens = weiri_moe_routing_tokens(g, call->combine.handle);
    moe_problem problem = weiri_moe_combine_check(g, call, tokens, values);
    if (!problem) {
        weiri_moe_combine_spans(g, &call->combine, tokens, spans);
        problem = staged_check(g, call->combine.stream, spans, MOE_COMBINE_SPANS, values);
    }
    return staged_refuse(call, problem, values);
}

static weir_moe_combine_args staged_combine_args(const weir_moe *g, const weir_moe_combine_args *a)
{
    const size_t *at = g->nodes->staging->combine_at;
    weir_moe_combine_args to = *a;
    to.stream = NULL;
    to.rows = staged_at(g, at, MOE_SPAN_OUTPUTS, a->rows);
    to.row_weight_grads = staged_at(g, at, MOE_SPAN_ROW_GRADS, a->row_weight_grads);
    to.weights = staged_at(g, at, MOE_SPAN_WEIGHTS, a->weights);
    to.out = staged_at(g, at, MOE_SPAN_OUT, a->out);
    to.weight_grads = staged_at(g, at, MOE_SPAN_WEIGHT_GRADS, a->weight_grads);
    return to;
}

static weir_status staged_combine(weir_moe *g, const moe_call *call, int phases)
{
    moe_span spans[MOE_COMBINE_SPANS];
    const size_t *at = g->nodes->staging->combine_at;
    const weir_moe_combine_args *a = &call->combine;
    moe_call staged = *call;
    if (!(phases & MOE_PHASE_COMPLETE))
        return WEIR_OK;
    if (staged_open_combine(g, &staged, spans))
        return weiri_moe_nodes_combine(g, &staged, phases); /* fails on all ranks */
    staged.combine = staged_combine_args(g, a);
    moe_copies copies = {g, a->stream, WEIR_OK};
    copies_add_rows(&copies, a->handle, (void *)(uintptr_t)staged.combine.rows, a->rows,
                    g->info.row_bytes);
    copies_add_rows(&copies, a->handle, (void *)(uintptr_t)staged.combine.row_weight_grads,
                    a->row_weight_grads, (size_t)g->row_values * 4);
    copies_take(&copies, spans, at, MOE_SPAN_WEIGHTS, MOE_SPAN_WEIGHTS);
    weir_status status = copies_end(&copies);
    if (status == WEIR_OK)
        status = weiri_moe_nodes_combine(g, &staged, phases);
    if (status != WEIR_OK)
        return status;
    copies_return(&copies, spans, at, MOE_SPAN_OUT,
                  a->row_weight_grads ? MOE_SPAN_WEIGHT_GRADS : MOE_SPAN_OUT);
    return copies_end(&copies);
}

const moe_ops weiri_moe_staged_ops = {
    .open = staged_open,
    .close = staged_close,
    .run = {[MOE_DISPATCH] = staged_dispatch, [MOE_COMBINE] = staged_combine},
    .locate = weiri_moe_host_locate,
    .is_host = 1,
};
