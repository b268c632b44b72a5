/* A build without CUDA: no GPU can be used. */
#include "bench/gpu/gpu.h"

#include <string.h>

#pragma GCC diagnostic ignored "-Wunused-parameter" /* these functions only take their places */

static weir_status gpu_none_refuse(bench_note *note)
{
    return bench_note_write(note, WEIR_ERR_UNSUPPORTED, "this build has no CUDA backend");
}

int bench_gpu_built(void)
{
    return 0;
}

weir_status bench_gpu_probe(bench_note *note)
{
    return gpu_none_refuse(note);
}

int bench_gpu_serves(const weir_comm *comm)
{
    return 0;
}

weir_status bench_gpu_open(weir_comm *comm, bench_note *note, bench_gpu **gpu)
{
    return gpu_none_refuse(note);
}

void bench_gpu_close(bench_gpu *gpu)
{
}

void bench_gpu_describe(const bench_gpu *gpu, bench_gpu_info *info)
{
    memset(info, 0, sizeof *info);
}

weir_stream bench_gpu_stream(const bench_gpu *gpu)
{
    return NULL;
}

/* The functions below are never called: no bench_gpu exists. */
weir_status bench_gpu_alloc(bench_gpu *gpu, size_t bytes, void **pointer)
{
    return WEIR_ERR_UNSUPPORTED;
}

void bench_gpu_free(bench_gpu *gpu, void *pointer)
{
}

weir_status bench_gpu_mirror_alloc(bench_gpu *gpu, size_t bytes, void **pointer)
{
    return WEIR_ERR_UNSUPPORTED;
}

void bench_gpu_mirror_free(bench_gpu *gpu, void *pointer)
{
}

weir_status bench_gpu_push(bench_gpu *gpu, void *device, const void *host, size_t bytes)
{
    return WEIR_ERR_UNSUPPORTED;
}

weir_status bench_gpu_pull(bench_gpu *gpu, void *host, const void *device, size_t bytes)
{
    return WEIR_ERR_UNSUPPORTED;
}

weir_status bench_gpu_sync(bench_gpu *gpu)
{
    return WEIR_ERR_UNSUPPORTED;
}

weir_status bench_gpu_copy(bench_gpu *gpu, void *to, const void *from, size_t bytes)
{
    return WEIR_ERR_UNSUPPORTED;
}

weir_status bench_gpu_hold(bench_gpu *gpu)
{
    return WEIR_ERR_UNSUPPORTED;
}

void bench_gpu_let_go(bench_gpu *gpu)
{
}

weir_status bench_gpu_mark_start(bench_gpu *gpu)
{
    return WEIR_ERR_UNSUPPORTED;
}

weir_status bench_gpu_mark_end(bench_gpu *gpu)
{
    return WEIR_ERR_UNSUPPORTED;
}

weir_status bench_gpu_marked_us(bench_gpu *gpu, double *us)
{
    return WEIR_ERR_UNSUPPORTED;
}

weir_status bench_gpu_record(bench_gpu *gpu, weir_status (*enqueue)(void *context), void *context,
                             bench_gpu_graph **graph)
{
    return WEIR_ERR_UNSUPPORTED;
}

weir_status bench_gpu_replay(bench_gpu *gpu, bench_gpu_graph *graph)
{
    return WEIR_ERR_UNSUPPORTED;
}

void bench_gpu_forget(bench_gpu_graph *graph)
{
}
