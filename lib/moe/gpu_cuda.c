/*
 * Expert parallelism on the GPUs of one node. A call becomes one launch (cuda/args.h). The host
 * checks arguments that it can see; a rank that cannot take part launches a kernel that says so to
 * the others. What kernels find is reported by weir_moe_check. The window of a group is one
 * allocation of weir_mem_alloc, which peers map. Once buffers have been checked, calls with the
 * same ones are not checked again.
 */
#include "moe/group.h"

#include "base/error.h"
#include "base/log.h"
#include "coll/cuda/launch/run_cuda.h"
#include "comm/gpu/gpu_cuda.h"
#include "moe/cuda/args.h"
#include "moe/spans.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPORT_BYTES = 4096, MOST_INBOX_BYTES = 512 << 20 };

struct moe_gpu {
    moe_gpu_args args;      /* what all launches have in common */
    moe_gpu_report *report; /* a page of pinned memory */
    int is_pinned;
    int *tokens;        /* [handles]: of the latest dispatch that was enqueued; -1: none */
    weir_stream stream; /* of the latest launch */
    /* Arguments whose buffers have been checked, by kind. */
    weir_moe_dispatch_args dispatch;
    weir_moe_combine_args combine;
};

/* -------------------------------------------------------------------- groups */

static weir_status gpu_alloc_report(weir_moe *g)
{
    struct moe_gpu *gpu = g->gpu;
    void *page = NULL, *there = NULL;
    if (posix_memalign(&page, REPORT_BYTES, REPORT_BYTES) != 0)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "weir_moe_create: no memory for reports of kernels");
    memset(page, 0, REPORT_BYTES);
    gpu->report = page;
    weir_status status = g->comm->gpu->ops->pin(g->comm, page, REPORT_BYTES, &there);
    gpu->is_pinned = status == WEIR_OK;
    gpu->args.report = there;
    return status;
}

/* Allocates and clears this rank's window. */
static weir_status gpu_alloc(weir_moe *g)
{
    struct moe_gpu *gpu = calloc(1, sizeof *gpu);
    g->gpu = gpu;
    if (gpu)
        gpu->tokens = malloc((size_t)g->config.handles * sizeof *gpu->tokens);
    g->mems = calloc((size_t)g->nranks, sizeof *g->mems);
    if (!gpu || !gpu->tokens || !g->mems)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "weir_moe_create: no memory for the group");
    for (int handle = 0; handle < g->config.handles; handle++)
        gpu->tokens[handle] = -1;
    gpu->args.view = weiri_cuda_of(g->comm)->view;
    gpu->args.view.state = NULL; /* the group's own is in its window */
    weiri_moe_gpu_shape_make(&g->config, g->nranks, g->info.recv_rows, MOST_INBOX_BYTES,
                             &gpu->args.shape);
    if (!weiri_moe_gpu_shape_fits(&gpu->args.shape))
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "weir_moe_create: on GPUs, max_tokens (%d) * topk (%d), rounded up to a "
                          "power of 2, times the experts of a rank (%d) must be below 2^32",
                          g->config.max_tokens, g->config.topk, gpu->args.shape.local_experts);
    weir_status status = gpu_alloc_report(g);
    if (status == WEIR_OK)
        status = weir_mem_alloc(g->comm, (size_t)gpu->args.shape.at.bytes, &g->mem);
    if (status == WEIR_OK)
        status = g->comm->gpu->ops->clear(g->comm, weir_mem_pointer(g->mem),
                                          (size_t)gpu->args.shape.at.bytes);
    return status;
}

static weir_status gpu_load_kernels(const weir_moe *g)
{
    int before;
    weir_status status = weiri_cuda_enter(g->comm, &before);
    if (status != WEIR_OK)
        return status;
    for (int is_fp8 = 0; is_fp8 < 2; is_fp8++)
        weiri_cuda_load(weiri_moe_gpu_dispatch_kernel(g->config.dtype, is_fp8));
    weiri_cuda_load(weiri_moe_gpu_combine_kernel(g->config.dtype));
    weiri_cuda_leave(g->comm, before);
    return WEIR_OK;
}

static weir_status gpu_open(weir_moe *g)
{
    weir_boot *boot = weir_comm_boot(g->comm);
    weir_status status = gpu_alloc(g);
    if (status == WEIR_OK)
        status = gpu_load_kernels(g);
    status = weir_boot_agree(boot, status);
    if (status == WEIR_OK)
        status = weir_boot_agree(boot, weir_mem_exchange(g->comm, g->mem, g->mems));
    for (int rank = 0; status == WEIR_OK && rank < g->nranks; rank++)
        g->gpu->args.windows[rank] = weir_mem_pointer(g->mems[rank]);
    if (status == WEIR_OK)
        g->info.memory_bytes = (size_t)g->gpu->args.shape.at.bytes + REPORT_BYTES + sizeof *g->gpu;
    return status;
}

static void gpu_close(weir_moe *g)
{
    struct moe_gpu *gpu = g->gpu;
    if (!gpu)
        return;
    if (gpu->is_pinned)
        g->comm->gpu->ops->unpin(g->comm, gpu->report);
    free(gpu->report);
    free(gpu->tokens);
    free(gpu);
    g->gpu = NULL;
}

/* ------------------------------------------------------------------- buffers */

static moe_problem gpu_check_alignment(const moe_span *spans, size_t count, int64_t values[3])
{
    for (size_t i = 0; i < count; i++)
        if (!(spans[i].pointer_name < 0 || (uintptr_t)spans[i].pointer % 16 == 0)) {
            values[0] = spans[i].pointer_name;
            return MOE_UNALIGNED;
        }
    return MOE_NO_PROBLEM;
}

/* Checks where buffers are, unless the arguments are those of the latest call of the kind that was
 * checked; kept: these, args_bytes long. */
static moe_problem gpu_check_buffers(const weir_moe *g, const void *args, void *kept,
                                     size_t args_bytes, const moe_span *spans, size_t count,
                                     int64_t values[3])
{
    /* NOLINTNEXTLINE(*-suspicious-memory-comparison): padding that differs repeats the check */
    if (memcmp(args, kept, args_bytes) == 0)
        return MOE_NO_PROBLEM;
    const moe_problem problem = weiri_moe_check_spans(g, spans, count, values);
    if (!problem)
        memcpy(kept, args, args_bytes);
    return problem;
}

/* Returns where peers read rows in place; WEIRI_GPU_UNMAPPED unless all of them have mapped it. */
static weiri_gpu_desc gpu_describe(const weir_moe *g, const void *rows, size_t bytes)
{
    const weiri_desc desc = weiri_region_describe(g->comm, rows, bytes);
    return desc.generation && weiri_region_known(g->comm, desc) ? weiri_cuda_desc(desc)
                                                                : WEIRI_GPU_UNMAPPED;
}

/* -------------------------------------------------------------------- launch */

/* A warp for each of so many units; at least a block for each multiprocessor, because other ranks
 * may have more tokens. */
static int gpu_default_blocks(const weir_moe *g, int processors, int64_t units, int threads)
{
    const int64_t wanted = (units * 32 + threads - 1) / threads;
    const int most = g->config.max_blocks && g->config.max_blocks < 2 * processors
                         ? g->config.max_blocks
                         : 2 * processors;
    const int least = processors < most ? processors : most;
    const int blocks = wanted < least ? least : wanted < most ? (int)wanted : most;
    return weiri_budget_limit(g->comm->budget, blocks);
}

/* The units of a dispatch are 2 KiB of a row, those of a combine 512 bytes, which a warp loads from
 * up to topk places. Where rows are sent ahead as fp8, further blocks cast them. */
static weir_status gpu_launch(weir_moe *g, weir_stream stream, moe_gpu_args *args, int64_t rows)
{
    const int is_dispatch = args->kind == MOE_DISPATCH;
    const void *kernel = is_dispatch
                             ? weiri_moe_gpu_dispatch_kernel(g->config.dtype, args->shape.is_fp8)
                             : weiri_moe_gpu_combine_kernel(g->config.dtype);
    const int threads = is_dispatch ? MOE_GPU_DISPATCH_THREADS : MOE_GPU_COMBINE_THREADS;
    int64_t units = is_dispatch ? rows * ((args->shape.sent_row_bytes + 2047) / 2048)
                                : rows * ((args->shape.row_bytes + 511) / 512);
    if (is_dispatch && args->shape.is_fp8 && moe_sends_ahead(args))
        units += units / (MOE_CAST_SHARE - 1);
    const weiri_gpu_shape shape = {
        gpu_default_blocks(g, weiri_cuda_of(g->comm)->processors, units, threads), threads};
    g->gpu->stream = stream;
    return weiri_cuda_launch(g->comm, stream, is_dispatch ? "moe dispatch" : "moe combine", kernel,
                             shape, args);
}

/* Launches the kernel that says that this rank cannot take part, and returns the reason. */
static weir_status gpu_refuse(weir_moe *g, weir_stream stream, moe_gpu_args *args,
                              moe_problem problem, const int64_t values[3])
{
    char detail[256];
    snprintf(detail, sizeof detail, "%s", weir_last_error());
    args->problem = (int32_t)problem;
    args->is_other_under_way = g->under_way[!args->kind].number != 0;
    memcpy(args->values, values, sizeof args->values);
    if (args->handle < 0 || args->handle >= g->config.handles)
        args->handle = 0;
    weir_status status = gpu_launch(g, problem == MOE_BAD_STREAM ? NULL : stream, args, 1);
    if (status != WEIR_OK)
        return status;
    status = weiri_moe_problem_fail((moe_kind)args->kind, problem, values, g->rank);
    if (problem != MOE_BAD_BUFFER)
        return status;
    /* The other ranks get the reason, this one also what the check of the buffer has found. */
    return weiri_fail(status, "weir_moe: %s on rank %d: %s",
                      args->kind == MOE_DISPATCH ? "dispatch" : "combine", g->rank, detail);
}

/* ------------------------------------------------------------------ dispatch */

static moe_problem dispatch_check_gpu(weir_moe *g, const moe_call *call, int64_t values[3])
{
    moe_span spans[MOE_DISPATCH_SPANS];
    const weir_moe_dispatch_args *a = &call->dispatch;
    const int is_handle = a->handle >= 0 && a->handle < g->config.handles;
    moe_problem problem =
        weiri_moe_dispatch_check(g, call, is_handle ? g->gpu->tokens[a->handle] : -1, values);
    if (problem)
        return problem;
    weiri_moe_dispatch_spans(g, a, spans);
    problem = gpu_check_alignment(spans, MOE_DISPATCH_SPANS, values);
    return problem ? problem
                   : gpu_check_buffers(g, a, &g->gpu->dispatch, sizeof *a, spans,
                                       MOE_DISPATCH_SPANS, values);
}

static moe_gpu_dispatch_part dispatch_part(const weir_moe_dispatch_args *a)
{
    return (moe_gpu_dispatch_part){.topk_experts = a->topk_experts,
                                   .topk_weights = a->topk_weights,
                                   .rows = a->rows,
                                   .row_scales = a->row_scales,
                                   .row_weights = a->row_weights,
                                   .row_experts = a->row_experts,
                                   .expert_counts = a->expert_counts,
                                   .expert_offsets = a->expert_offsets,
                                   .source_counts = a->source_counts,
                                   .has_wide_ids = a->topk_dtype == WEIR_INT64};
}

static weir_status dispatch_enqueue(weir_moe *g, const moe_call *call, weir_stream stream,
                                    int phases)
{
    const weir_moe_dispatch_args *a = &call->dispatch;
    moe_gpu_args args = g->gpu->args;
    int64_t values[3] = {0, 0, 0};
    args.kind = MOE_DISPATCH;
    args.phases = phases;
    args.handle = a->handle;
    args.tokens = a->tokens;
    args.in = a->x;
    args.dispatch = dispatch_part(a);
    moe_problem problem = MOE_NO_PROBLEM;
    if (phases & MOE_PHASE_SEND)
        problem = dispatch_check_gpu(g, call, values);
    if (!problem && !args.shape.is_fp8)
        args.desc = gpu_describe(g, a->x, (size_t)a->tokens * g->info.row_bytes);
    if (!problem && g->config.registered && !args.shape.is_fp8 && a->tokens &&
        args.desc == WEIRI_GPU_UNMAPPED) {
        problem = MOE_BAD_MEMORY;
        values[0] = MOE_POINTER_X;
    }
    if (moe_sends_ahead(&args))
        args.desc = WEIRI_GPU_UNMAPPED; /* peers read nothing in place */
    if (problem)
        return gpu_refuse(g, stream, &args, problem, values);
    weir_status status = gpu_launch(g, stream, &args, (int64_t)a->tokens * g->nranks);
    if (status != WEIR_OK || !a->topk_experts)
        return status;
    if (g->gpu->tokens[a->handle] != a->tokens)
        g->gpu->combine.size = 0; /* another length of the buffers, which are checked again */
    g->gpu->tokens[a->handle] = a->tokens;
    return WEIR_OK;
}

/* ------------------------------------------------------------------- combine */

static moe_problem combine_check_gpu(weir_moe *g, const moe_call *call, int64_t values[3])
{
    moe_span spans[MOE_COMBINE_SPANS];
    const weir_moe_combine_args *a = &call->combine;
    const int is_handle = a->handle >= 0 && a->handle < g->config.handles;
    moe_problem problem =
        weiri_moe_combine_check(g, call, is_handle ? g->gpu->tokens[a->handle] : -1, values);
    if (problem)
        return problem;
    weiri_moe_combine_spans(g, a, g->gpu->tokens[a->handle], spans);
    problem = gpu_check_alignment(spans, MOE_COMBINE_SPANS, values);
    return problem ? problem
                   : gpu_check_buffers(g, a, &g->gpu->combine, sizeof *a, spans, MOE_COMBINE_SPANS,
                                       values);
}

static weir_status combine_enqueue(weir_moe *g, const moe_call *call, weir_stream stream,
                                   int phases)
{
    const weir_moe_combine_args *a = &call->combine;
    moe_gpu_args args = g->gpu->args;
    int64_t values[3] = {0, 0, 0};
    args.kind = MOE_COMBINE;
    args.phases = phases;
    args.handle = a->handle;
    args.in = a->rows;
    args.combine = (moe_gpu_combine_part){a->row_weight_grads, a->weights, a->out, a->weight_grads};
    moe_problem problem = MOE_NO_PROBLEM;
    if (phases & MOE_PHASE_SEND)
        problem = combine_check_gpu(g, call, values);
    if (!problem)
        args.desc = gpu_describe(g, a->rows, (size_t)g->info.recv_rows * g->info.row_bytes);
    if (!problem && g->config.registered && args.desc == WEIRI_GPU_UNMAPPED) {
        problem = MOE_BAD_MEMORY;
        values[0] = MOE_POINTER_ROWS;
    }
    if (problem)
        return gpu_refuse(g, stream, &args, problem, values);
    args.tokens = g->gpu->tokens[a->handle];
    return gpu_launch(g, stream, &args, args.tokens);
}

/* ---------------------------------------------------------------------- calls */

typedef weir_status gpu_enqueue(weir_moe *g, const moe_call *call, weir_stream stream, int phases);

static weir_status gpu_run(weir_moe *g, const moe_call *call, weir_stream given, int phases,
                           gpu_enqueue *enqueue)
{
    int before;
    /* A structure that cannot be read names no stream: the refusal follows the latest launch. */
    const weir_stream stream = call->problem ? g->gpu->stream : given;
    weir_status status = weiri_cuda_ready(g->comm, stream, &before);
    if (status != WEIR_OK)
        return status;
    status = enqueue(g, call, stream, phases);
    weiri_cuda_leave(g->comm, before);
    return status;
}

static weir_status gpu_dispatch(weir_moe *g, const moe_call *call, int phases)
{
    return gpu_run(g, call, call->dispatch.stream, phases, dispatch_enqueue);
}

static weir_status gpu_combine(weir_moe *g, const moe_call *call, int phases)
{
    return gpu_run(g, call, call->combine.stream, phases, combine_enqueue);
}

/* ------------------------------------------------------------------- reports */

static weir_status gpu_check(weir_moe *g)
{
    moe_gpu_report *report = g->gpu->report;
    if (weir_load_acquire(&report->problem) == MOE_NO_PROBLEM)
        return weir_comm_check(g->comm);
    moe_gpu_report found = *report;
    weir_store_release(&report->problem, MOE_NO_PROBLEM);
    if (found.problem == MOE_NO_ROUTING)
        found.values[1] = g->config.handles;
    if (found.problem == MOE_OVERFLOW)
        return weiri_moe_overflow_fail(&g->config, (int)found.rank, (int)found.values[0],
                                       found.values[1], found.values[2]);
    return weiri_moe_problem_fail((moe_kind)found.kind, (moe_problem)found.problem, found.values,
                                  (int)found.rank);
}

/* Reads one number of a window. */
static weir_status gpu_read(const weir_moe *g, uint64_t at, size_t index, int32_t *value)
{
    const int32_t *from =
        (const int32_t *)(const void *)(g->gpu->args.windows[g->rank] + at) + index;
    return g->comm->gpu->ops->copy(g->comm, value, from, sizeof *value);
}

static weir_status gpu_locate(const weir_moe *g, int handle, int token, int choice, int *rank,
                              int *row)
{
    const moe_gpu_shape *shape = &g->gpu->args.shape;
    const size_t h = (size_t)handle, k = (size_t)shape->topk, tokens = (size_t)shape->max_tokens;
    const size_t i = (h * tokens + (size_t)token) * k + (size_t)choice;
    int32_t expert = -1, position = 0, first = 0;
    if (handle < 0 || handle >= g->config.handles || g->gpu->tokens[handle] < 0)
        return weiri_fail(WEIR_ERR_INVALID, "weir_moe_locate: handle %d has no routing", handle);
    if (token < 0 || token >= g->gpu->tokens[handle] || choice < 0 || choice >= shape->topk)
        return weiri_fail(WEIR_ERR_INVALID, "weir_moe_locate: token %d, choice %d do not exist",
                          token, choice);
    weir_status status = gpu_read(g, shape->at.experts, i, &expert);
    if (status == WEIR_OK && expert < 0)
        status = weiri_fail(WEIR_ERR_INVALID,
                            "weir_moe_locate: choice %d of token %d has no expert", choice, token);
    if (status == WEIR_OK)
        status = gpu_read(g, shape->at.positions, i, &position);
    const int of = expert < 0 ? 0 : expert / shape->local_experts;
    const size_t bin = (size_t)(g->by_expert ? expert : of);
    if (status == WEIR_OK)
        status = gpu_read(g, shape->at.first_row, h * (size_t)shape->bins + bin, &first);
    if (status != WEIR_OK)
        return status;
    *rank = of;
    *row = first + (position < 0 ? ~position : position);
    return WEIR_OK;
}

const moe_ops weiri_moe_gpu_ops = {
    .open = gpu_open,
    .close = gpu_close,
    .run = {[MOE_DISPATCH] = gpu_dispatch, [MOE_COMBINE] = gpu_combine},
    .check = gpu_check,
    .locate = gpu_locate,
    .runs_whole = 1,
};
