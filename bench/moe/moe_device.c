/* Device memory and its mirrors: see moe_device.h. */
#include "bench/moe/moe_device.h"

#include "bench/job/exchange.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- allocation */

static void device_alias(moe_candidate *c, moe_device *d)
{
    const bench_moe_trial *t = c->trial;
    for (int v = 0; v < WEIRV_MOE_VERSIONS; v++) {
        d->versions[v] = d->slots[v] =
            (moe_inputs){c->x[v], c->outputs, c->weights[v],
                         (int32_t *)(uintptr_t)weirv_moe_experts(t->oracle, v, t->rank)};
    }
    d->rows = c->rows;
    d->out = c->out;
    d->scales = c->scales;
    d->row_weights = c->row_weights;
    d->row_experts = c->row_experts;
    d->counts = c->counts;
    d->offsets = c->offsets;
}

/* Allocates GPU memory, cleared; is_read: peers may read it. */
static void *device_alloc(moe_candidate *c, moe_device *d, size_t bytes, int is_read,
                          weir_status *status)
{
    const bench_moe_trial *t = c->trial;
    void *memory = NULL;
    bytes = bytes ? bytes : 16;
    if (*status != WEIR_OK)
        return NULL;
    if (is_read && t->options->common.buffers != BENCH_BUFFERS_PLAIN) {
        *status = weir_mem_alloc(t->job->comm, bytes, &d->memory[d->nmemory]);
        return *status == WEIR_OK ? weir_mem_pointer(d->memory[d->nmemory++]) : NULL;
    }
    *status = bench_gpu_alloc(t->job->gpu, bytes, &memory);
    if (*status == WEIR_OK)
        d->allocated[d->nallocated++] = memory;
    return memory;
}

/* Allocates inputs. outputs: buffers that exist already, or NULL. */
static moe_inputs device_alloc_inputs(moe_candidate *c, moe_device *d, char *outputs,
                                      weir_status *status)
{
    const size_t row = c->info.row_bytes, rows = (size_t)c->info.recv_rows;
    const size_t tokens = (size_t)c->trial->tokens, k = (size_t)c->trial->config.topk;
    moe_inputs in = {.outputs = outputs};
    in.x = device_alloc(c, d, tokens * row, 1, status);
    if (!outputs)
        in.outputs = device_alloc(c, d, rows * row, 1, status);
    in.weights = device_alloc(c, d, tokens * k * sizeof(float), 0, status);
    in.experts = device_alloc(c, d, tokens * k * sizeof(int32_t), 0, status);
    return in;
}

static weir_status device_alloc_all(moe_candidate *c, moe_device *d)
{
    const bench_moe_trial *t = c->trial;
    const size_t row = c->info.row_bytes, rows = (size_t)c->info.recv_rows;
    const size_t k = (size_t)t->config.topk, tokens = (size_t)t->tokens;
    const size_t local = (size_t)c->info.local_experts;
    weir_status status = WEIR_OK;
    for (int v = 0; v < WEIRV_MOE_VERSIONS; v++)
        d->versions[v] = device_alloc_inputs(c, d, NULL, &status);
    for (int v = 0; v < WEIRV_MOE_VERSIONS; v++)
        d->slots[v] = t->options->common.graph
                          ? device_alloc_inputs(c, d, d->slots[0].outputs, &status)
                          : d->versions[v];
    d->rows = device_alloc(c, d, (rows + 1) * row, 1, &status);
    d->out = device_alloc(c, d, tokens * row, 0, &status);
    d->scales =
        device_alloc(c, d, (rows + 1) * (size_t)c->info.scales_per_row * sizeof(float), 0, &status);
    d->row_weights = device_alloc(c, d, (rows + 1) * k * sizeof(float), 0, &status);
    d->row_experts = device_alloc(c, d, (rows + 1) * k * sizeof(int32_t), 0, &status);
    d->counts = device_alloc(c, d, local * sizeof(int32_t), 0, &status);
    d->offsets = device_alloc(c, d, local * sizeof(int32_t), 0, &status);
    return status;
}

/* Copies a version's experts to the GPU. A captured call has as many tokens in each version: tokens
 * that this rank lacks are masked. */
static weir_status device_fill_experts(moe_candidate *c, moe_device *d, int version)
{
    const bench_moe_trial *t = c->trial;
    const size_t k = (size_t)t->config.topk, bytes = (size_t)t->tokens * k * sizeof(int32_t);
    const size_t tokens = (size_t)weirv_moe_tokens(t->oracle, version, t->rank);
    int32_t *experts = malloc(bytes);
    if (!experts)
        return bench_job_note(t->job, WEIR_ERR_NO_MEMORY, "no memory for experts");
    memset(experts, 0xff, bytes); /* -1 */
    memcpy(experts, weirv_moe_experts(t->oracle, version, t->rank), tokens * k * sizeof(int32_t));
    weir_status status = bench_gpu_push(t->job->gpu, d->versions[version].experts, experts, bytes);
    free(experts);
    return status;
}

static weir_status device_fill(moe_candidate *c, moe_device *d)
{
    const bench_moe_trial *t = c->trial;
    const size_t bytes = (size_t)t->tokens * c->info.row_bytes;
    weir_status status = WEIR_OK;
    for (int v = 0; status == WEIR_OK && v < WEIRV_MOE_VERSIONS; v++) {
        status = bench_gpu_push(t->job->gpu, d->versions[v].x, c->x[v], bytes);
        if (status == WEIR_OK)
            status = device_fill_experts(c, d, v);
        if (status == WEIR_OK)
            status = bench_moe_device_store(c, d, v, MOE_PART_WEIGHTS);
    }
    return status;
}

weir_status bench_moe_device_open(moe_candidate *c, moe_device *d)
{
    bench_job *job = c->trial->job;
    if (!job->gpu) {
        device_alias(c, d);
        return WEIR_OK;
    }
    weir_status status = bench_job_agree(job, device_alloc_all(c, d), "GPU memory");
    if (status == WEIR_OK)
        status = bench_job_agree(job, device_fill(c, d), "GPU memory");
    for (int i = 0; status == WEIR_OK && i < 2; i++) /* peers map the memory */
        status = bench_job_agree(job, weir_comm_barrier(job->comm), "GPU memory");
    return status;
}

void bench_moe_device_close(moe_candidate *c, moe_device *d)
{
    for (int i = 0; i < d->nmemory; i++)
        weir_mem_free(d->memory[i]);
    for (int i = 0; i < d->nallocated; i++)
        bench_gpu_free(c->trial->job->gpu, d->allocated[i]);
    *d = (moe_device){0};
}

/* ------------------------------------------------------------------- mirrors */

/* A buffer on the GPU and its mirror. */
typedef struct moe_mirror {
    int part;
    void *device, *host;
    size_t bytes;
} moe_mirror;

enum { MIRRORS = 9 };

static void device_mirrors(moe_candidate *c, moe_device *d, int version,
                           moe_mirror mirrors[MIRRORS])
{
    const bench_moe_trial *t = c->trial;
    const size_t k = (size_t)t->config.topk, tokens = (size_t)t->tokens, rows = c->mirror_rows;
    const size_t local = (size_t)c->info.local_experts * sizeof(int32_t);
    const size_t row = c->info.recv_row_bytes;
    const moe_mirror all[MIRRORS] = {
        {MOE_PART_RECEIVED, d->rows, c->rows, (rows + 1) * row},
        {MOE_PART_RECEIVED, d->scales, c->scales,
         (rows + 1) * (size_t)c->info.scales_per_row * sizeof(float)},
        {MOE_PART_RECEIVED, d->row_weights, c->row_weights, rows * k * sizeof(float)},
        {MOE_PART_RECEIVED, d->row_experts, c->row_experts, rows * k * sizeof(int32_t)},
        {MOE_PART_RECEIVED, d->counts, c->counts, local},
        {MOE_PART_RECEIVED, d->offsets, c->offsets, local},
        {MOE_PART_OUTPUTS, d->versions[version].outputs, c->outputs, rows * c->info.row_bytes},
        {MOE_PART_OUT, d->out, c->out, tokens * c->info.row_bytes},
        {MOE_PART_WEIGHTS, d->versions[version].weights, c->weights[version],
         tokens * k * sizeof(float)},
    };
    for (int i = 0; i < MIRRORS; i++)
        mirrors[i] = all[i];
}

weir_status bench_moe_device_store(moe_candidate *c, moe_device *d, int version, int parts)
{
    moe_mirror mirrors[MIRRORS];
    bench_gpu *gpu = c->trial->job->gpu;
    weir_status status = WEIR_OK;
    if (!gpu)
        return WEIR_OK;
    device_mirrors(c, d, version, mirrors);
    for (int i = 0; status == WEIR_OK && i < MIRRORS; i++)
        if (mirrors[i].part & parts)
            status = bench_gpu_push(gpu, mirrors[i].device, mirrors[i].host, mirrors[i].bytes);
    if (status == WEIR_OK && parts & MOE_PART_GUARD) {
        const size_t row = c->info.recv_row_bytes;
        const size_t at =
            row * (size_t)weirv_moe_end_row(c->trial->oracle, version, c->trial->rank);
        status = bench_gpu_push(gpu, d->rows + at, c->rows + at, row);
    }
    return status;
}

weir_status bench_moe_device_fetch(moe_candidate *c, moe_device *d, int parts)
{
    moe_mirror mirrors[MIRRORS];
    bench_gpu *gpu = c->trial->job->gpu;
    if (!gpu)
        return WEIR_OK;
    weir_status status = bench_gpu_sync(gpu);
    device_mirrors(c, d, 0, mirrors);
    for (int i = 0; status == WEIR_OK && i < MIRRORS; i++)
        if (mirrors[i].part & parts)
            status = bench_gpu_pull(gpu, mirrors[i].host, mirrors[i].device, mirrors[i].bytes);
    return status;
}

weir_status bench_moe_device_place(moe_candidate *c, moe_device *d, int slot, int version,
                                   int parts)
{
    const moe_inputs *to = &d->slots[slot], *from = &d->versions[version];
    const size_t tokens = (size_t)c->trial->tokens, row = c->info.row_bytes;
    const size_t choices = tokens * (size_t)c->trial->config.topk;
    const struct {
        int part;
        void *to, *from;
        size_t bytes;
    } copies[] = {
        {MOE_PART_TOKENS, to->x, from->x, tokens * row},
        {MOE_PART_TOKENS, to->experts, from->experts, choices * sizeof(int32_t)},
        {MOE_PART_WEIGHTS, to->weights, from->weights, choices * sizeof(float)},
        {MOE_PART_OUTPUTS, to->outputs, from->outputs, c->mirror_rows * row},
    };
    weir_status status = WEIR_OK;
    for (size_t i = 0; status == WEIR_OK && i < sizeof copies / sizeof *copies; i++)
        if (copies[i].part & parts)
            status =
                bench_gpu_copy(c->trial->job->gpu, copies[i].to, copies[i].from, copies[i].bytes);
    return status;
}

/* Copies in parts that fit the buffers: from the received rows to outputs. */
weir_status bench_moe_device_copy_us(moe_candidate *c, moe_device *d, double bytes, double *us)
{
    enum { COPIES = 5 };
    bench_gpu *gpu = c->trial->job->gpu;
    const size_t room = (size_t)c->info.recv_rows * c->info.recv_row_bytes;
    weir_status status = WEIR_OK;
    double least = 0;
    for (int copy = 0; status == WEIR_OK && copy < COPIES; copy++) {
        status = bench_gpu_hold(gpu);
        if (status == WEIR_OK)
            status = bench_gpu_mark_start(gpu);
        for (size_t left = (size_t)bytes / 2, part; status == WEIR_OK && left; left -= part) {
            part = left < room ? left : room;
            status = bench_gpu_copy(gpu, d->versions[0].outputs, d->rows, part);
        }
        if (status == WEIR_OK)
            status = bench_gpu_mark_end(gpu);
        bench_gpu_let_go(gpu);
        if (status == WEIR_OK)
            status = bench_gpu_sync(gpu);
        if (status == WEIR_OK)
            status = bench_gpu_marked_us(gpu, us);
        least = !copy || *us < least ? *us : least;
    }
    c->holds_outputs[0] = 0;
    *us = least;
    return status;
}
