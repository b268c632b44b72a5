/*
 * Test double for bench/gpu/gpu_cuda.c: GPU memory is host memory, and collectives run on weir's
 * host backend, so the benchmarks' buffers, mirrors, batches and recordings run without a GPU. Work
 * is done when it is enqueued. A byte that the program fails to copy between a mirror and its
 * original shows up as wrong data.
 */
#define _GNU_SOURCE /* memfd_create */
#include "bench/gpu/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct bench_gpu {
    bench_note *note;
    double start_us, end_us;
};

struct bench_gpu_graph {
    weir_status (*enqueue)(void *context);
    void *context;
};

int bench_gpu_built(void)
{
    return 1;
}

weir_status bench_gpu_probe(bench_note *note)
{
    (void)note;
    return WEIR_OK;
}

int bench_gpu_serves(const weir_comm *comm)
{
    return comm != NULL;
}

weir_status bench_gpu_open(weir_comm *comm, bench_note *note, bench_gpu **gpu)
{
    (void)comm;
    *gpu = calloc(1, sizeof **gpu);
    if (!*gpu)
        return bench_note_write(note, WEIR_ERR_NO_MEMORY, "no memory for a GPU's description");
    (*gpu)->note = note;
    return WEIR_OK;
}

weir_status bench_gpu_enter(bench_gpu *gpu)
{
    (void)gpu;
    return WEIR_OK;
}

void bench_gpu_close(bench_gpu *gpu)
{
    free(gpu);
}

void bench_gpu_describe(const bench_gpu *gpu, bench_gpu_info *info)
{
    (void)gpu;
    *info = (bench_gpu_info){.name = "stand-in",
                             .bus = "0000:5a:00",
                             .driver = 13010,
                             .runtime = 13000,
                             .memory_bytes = (size_t)1 << 40,
                             .free_bytes = (size_t)1 << 40,
                             .cache_bytes = (size_t)1 << 20};
}

weir_stream bench_gpu_stream(const bench_gpu *gpu)
{
    (void)gpu;
    return NULL;
}

weir_status bench_gpu_add_lanes(bench_gpu *gpu, int count)
{
    (void)gpu, (void)count;
    return WEIR_OK;
}

weir_stream bench_gpu_lane(const bench_gpu *gpu, int lane)
{
    (void)gpu, (void)lane;
    return NULL;
}

weir_status bench_gpu_fork(bench_gpu *gpu)
{
    (void)gpu;
    return WEIR_OK;
}

weir_status bench_gpu_join(bench_gpu *gpu)
{
    (void)gpu;
    return WEIR_OK;
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

weir_status bench_gpu_compute(bench_gpu *gpu, int lane, double us, int percent)
{
    const double end = now_us() + us;
    (void)gpu, (void)lane, (void)percent;
    while (now_us() < end)
        continue;
    return WEIR_OK;
}

/* Memory of a file, which another process can open. Its first page describes it. */
enum { PAGE_BYTES = 4096 };

typedef struct gpu_block {
    int fd;
    size_t bytes;
} gpu_block;

static gpu_block *block_of(void *pointer)
{
    return (gpu_block *)(void *)((char *)pointer - PAGE_BYTES);
}

weir_status bench_gpu_alloc(bench_gpu *gpu, size_t bytes, void **pointer)
{
    gpu_block block = {memfd_create("gpu", MFD_CLOEXEC), bytes + PAGE_BYTES};
    char *memory = MAP_FAILED;
    if (block.fd >= 0 && ftruncate(block.fd, (off_t)block.bytes) == 0)
        memory = mmap(NULL, block.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, block.fd, 0);
    if (memory == MAP_FAILED)
        return bench_note_write(gpu->note, WEIR_ERR_NO_MEMORY, "no memory");
    *pointer = memory + PAGE_BYTES;
    *block_of(*pointer) = block;
    return WEIR_OK;
}

void bench_gpu_free(bench_gpu *gpu, void *pointer)
{
    (void)gpu;
    if (!pointer)
        return;
    const gpu_block block = *block_of(pointer);
    munmap(block_of(pointer), block.bytes);
    close(block.fd);
}

weir_status bench_gpu_export(bench_gpu *gpu, void *pointer,
                             unsigned char handle[BENCH_GPU_HANDLE_BYTES])
{
    (void)gpu;
    memset(handle, 0, BENCH_GPU_HANDLE_BYTES);
    snprintf((char *)handle, BENCH_GPU_HANDLE_BYTES, "/proc/%d/fd/%d", (int)getpid(),
             block_of(pointer)->fd);
    return WEIR_OK;
}

weir_status bench_gpu_mirror_alloc(bench_gpu *gpu, size_t bytes, void **pointer)
{
    return bench_gpu_alloc(gpu, bytes, pointer);
}

void bench_gpu_mirror_free(bench_gpu *gpu, void *pointer)
{
    bench_gpu_free(gpu, pointer);
}

weir_status bench_gpu_push(bench_gpu *gpu, void *device, const void *host, size_t bytes)
{
    (void)gpu;
    if (bytes)
        memcpy(device, host, bytes);
    return WEIR_OK;
}

weir_status bench_gpu_pull(bench_gpu *gpu, void *host, const void *device, size_t bytes)
{
    return bench_gpu_push(gpu, host, device, bytes);
}

weir_status bench_gpu_copy(bench_gpu *gpu, void *to, const void *from, size_t bytes)
{
    return bench_gpu_push(gpu, to, from, bytes);
}

weir_status bench_gpu_sync(bench_gpu *gpu)
{
    (void)gpu;
    return WEIR_OK;
}

weir_status bench_gpu_hold(bench_gpu *gpu)
{
    (void)gpu;
    return WEIR_OK;
}

void bench_gpu_let_go(bench_gpu *gpu)
{
    (void)gpu;
}

weir_status bench_gpu_mark_start(bench_gpu *gpu)
{
    gpu->start_us = now_us();
    return WEIR_OK;
}

weir_status bench_gpu_mark_end(bench_gpu *gpu)
{
    gpu->end_us = now_us();
    return WEIR_OK;
}

weir_status bench_gpu_marked_us(bench_gpu *gpu, double *us)
{
    *us = gpu->end_us - gpu->start_us;
    return WEIR_OK;
}

weir_status bench_gpu_record(bench_gpu *gpu, weir_status (*enqueue)(void *context), void *context,
                             bench_gpu_graph **graph)
{
    bench_gpu_graph *self = malloc(sizeof *self);
    if (!self)
        return bench_note_write(gpu->note, WEIR_ERR_NO_MEMORY, "no memory for a graph");
    *self = (bench_gpu_graph){enqueue, context};
    *graph = self;
    return WEIR_OK;
}

weir_status bench_gpu_replay(bench_gpu *gpu, bench_gpu_graph *graph)
{
    (void)gpu;
    return graph->enqueue(graph->context);
}

void bench_gpu_forget(bench_gpu_graph *graph)
{
    free(graph);
}
