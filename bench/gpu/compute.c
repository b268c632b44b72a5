/* Computations of --beside: see compute.h. */
#include "bench/gpu/compute.h"

#include <stdlib.h>
#include <string.h>

enum { HOST_STEPS = 1 << 20 };

struct bench_compute {
    bench_gpu *gpu;
    bench_note *note;
    const bench_with *with;
    void *operands[3];
    size_t bytes[3];
    bench_gpu_compute_state *state;
    volatile float sink;
};

/* The bytes of A, B and C; of what is copied, and where to. */
static void compute_size(const bench_with *with, int on_gpu, size_t bytes[3])
{
    const size_t element = on_gpu ? weir_dtype_bytes(with->dtype) : sizeof(float);
    memset(bytes, 0, 3 * sizeof *bytes);
    if (with->computes == BENCH_COMPUTE_GEMM) {
        bytes[0] = with->m * with->k * element;
        bytes[1] = with->k * with->n * element;
        bytes[2] = with->m * with->n * element;
    } else if (with->computes == BENCH_COMPUTE_STREAM) {
        bytes[0] = bytes[1] = (with->bytes / 2 + 15) / 16 * 16; /* read once, written once */
    }
}

static weir_status compute_allocate(bench_compute *c, size_t bytes, void **at)
{
    if (c->gpu)
        return bench_gpu_alloc(c->gpu, bytes, at);
    *at = calloc(1, bytes);
    return *at ? WEIR_OK : bench_note_write(c->note, WEIR_ERR_NO_MEMORY, "no memory for --beside");
}

weir_status bench_compute_open(bench_gpu *gpu, bench_note *note, const bench_with *with,
                               bench_compute **compute)
{
    bench_compute *c = calloc(1, sizeof *c);
    if (!c)
        return bench_note_write(note, WEIR_ERR_NO_MEMORY, "no memory for --beside");
    *c = (bench_compute){.gpu = gpu, .note = note, .with = with};
    compute_size(with, gpu != NULL, c->bytes);
    weir_status status = WEIR_OK;
    for (int i = 0; i < 3 && status == WEIR_OK; i++)
        if (c->bytes[i])
            status = compute_allocate(c, c->bytes[i], &c->operands[i]);
    if (status == WEIR_OK && gpu)
        status = bench_gpu_compute_open(gpu, note, with, c->operands, c->bytes, &c->state);
    if (status == WEIR_OK)
        *compute = c;
    else
        bench_compute_close(c);
    return status;
}

void bench_compute_close(bench_compute *c)
{
    if (!c)
        return;
    if (c->state)
        bench_gpu_compute_close(c->state);
    for (int i = 0; i < 3; i++)
        if (c->gpu && c->operands[i])
            bench_gpu_free(c->gpu, c->operands[i]);
        else
            free(c->operands[i]);
    free(c);
}

/* C = A B, row by row. */
static void host_gemm(const bench_with *w, const float *a, const float *b, float *c)
{
    memset(c, 0, w->m * w->n * sizeof *c);
    for (size_t i = 0; i < w->m; i++)
        for (size_t k = 0; k < w->k; k++)
            for (size_t j = 0; j < w->n; j++)
                c[i * w->n + j] += a[i * w->k + k] * b[k * w->n + j];
}

weir_status bench_compute_run(bench_compute *c)
{
    if (c->gpu) {
        const weir_status status = bench_gpu_compute_enqueue(c->state);
        return status == WEIR_OK ? bench_gpu_sync(c->gpu) : status;
    }
    if (c->with->computes == BENCH_COMPUTE_GEMM)
        host_gemm(c->with, c->operands[0], c->operands[1], c->operands[2]);
    else if (c->with->computes == BENCH_COMPUTE_STREAM)
        memcpy(c->operands[1], c->operands[0], c->bytes[0]);
    float x = 1;
    for (int i = 0; c->with->computes == BENCH_COMPUTE_FLOPS && i < HOST_STEPS; i++)
        x = x * 0.999f + 1.0f;
    c->sink = x;
    return WEIR_OK;
}
