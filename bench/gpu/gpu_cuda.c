/*
 * A GPU through CUDA's runtime, which is linked statically: without a driver the program still
 * starts, and only the probe fails.
 */
#include "bench/gpu/gpu.h"

#include "base/gpu_code.h"

#include <weir/device.h>

#include <cuda_runtime_api.h>

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bench_gpu {
    bench_note *note;                                /* the job's */
    cudaStream_t stream, lanes[BENCH_GPU_LANES_MAX]; /* lanes[0] is stream */
    cudaEvent_t start, end, forks[BENCH_GPU_LANES_MAX];
    int device, nlanes, processors;
    bench_gpu_info info;
    atomic_int is_held;
};

struct bench_gpu_graph {
    cudaGraphExec_t exec;
};

/* Turns a CUDA error into a status with a note. */
static weir_status gpu_check(bench_note *note, cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return WEIR_OK;
    cudaGetLastError(); /* reading an error clears it unless it is sticky */
    return bench_note_write(
        note, error == cudaErrorMemoryAllocation ? WEIR_ERR_NO_MEMORY : WEIR_ERR_SYSTEM,
        "%s: CUDA: %s (%s)", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

int bench_gpu_built(void)
{
    return 1;
}

/* Rejects GPUs for none of which the build has kernels. */
static weir_status gpu_probe_code(bench_note *note, int count)
{
    char lacks[WEIRI_GPU_CODE_TEXT_BYTES];
    for (int device = 0; device < count; device++) {
        int major = 0, minor = 0;
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
        if (!weiri_gpu_code_missing(device, major, minor, lacks, sizeof lacks))
            return WEIR_OK;
    }
    return bench_note_write(note, WEIR_ERR_SYSTEM, "%s; or use --backend host", lacks);
}

weir_status bench_gpu_probe(bench_note *note)
{
    int count = 0, driver = 0, runtime = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count > 0)
        return gpu_probe_code(note, count);
    cudaGetLastError();
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    cudaGetLastError();
    if (error == cudaErrorInsufficientDriver && driver)
        return bench_note_write(
            note, WEIR_ERR_SYSTEM,
            "the GPU driver is too old: it supports CUDA %d.%d and this build is "
            "of %d.%d; install a newer one, or use --backend host",
            driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    return bench_note_write(
        note, WEIR_ERR_SYSTEM,
        "no GPU can be used: %s; install the driver and give the process access "
        "to a GPU, or use --backend host",
        error == cudaSuccess                   ? "CUDA finds no device"
        : error == cudaErrorInsufficientDriver ? "there is no GPU driver"
                                               : cudaGetErrorString(error));
}

int bench_gpu_serves(const weir_comm *comm)
{
    return weir_comm_backend(comm) == WEIR_BACKEND_CUDA;
}

static cudaError_t read_info(int device, bench_gpu_info *info)
{
    struct cudaDeviceProp properties;
    cudaError_t error = cudaGetDeviceProperties(&properties, device);
    if (error != cudaSuccess)
        return error;
    snprintf(info->name, sizeof info->name, "%.63s", properties.name);
    snprintf(info->bus, sizeof info->bus, "%04x:%02x:%02x",
             (unsigned)properties.pciDomainID & 0xffff, (unsigned)properties.pciBusID & 0xff,
             (unsigned)properties.pciDeviceID & 0xff);
    info->cache_bytes = (size_t)properties.l2CacheSize;
    error = cudaDriverGetVersion(&info->driver);
    if (error == cudaSuccess)
        error = cudaRuntimeGetVersion(&info->runtime);
    return error;
}

weir_status bench_gpu_open(weir_comm *comm, bench_note *note, bench_gpu **gpu)
{
    int device = weir_comm_device(comm);
    bench_gpu *self = calloc(1, sizeof *self);
    if (!self)
        return bench_note_write(note, WEIR_ERR_NO_MEMORY, "no memory for a GPU's description");
    self->note = note;
    self->device = device;
    cudaError_t error = cudaSetDevice(device);
    if (error == cudaSuccess)
        error = read_info(device, &self->info);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&self->stream, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaEventCreate(&self->start);
    if (error == cudaSuccess)
        error = cudaEventCreate(&self->end);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&self->processors, cudaDevAttrMultiProcessorCount, device);
    self->lanes[0] = self->stream;
    self->nlanes = 1;
    if (error != cudaSuccess) {
        bench_gpu_close(self);
        return gpu_check(note, error, "GPU");
    }
    *gpu = self;
    return WEIR_OK;
}

weir_status bench_gpu_enter(bench_gpu *gpu)
{
    return gpu_check(gpu->note, cudaSetDevice(gpu->device), "GPU");
}

void bench_gpu_close(bench_gpu *gpu)
{
    if (!gpu)
        return;
    for (int lane = 0; lane < gpu->nlanes; lane++) {
        if (gpu->forks[lane])
            cudaEventDestroy(gpu->forks[lane]);
        if (lane)
            cudaStreamDestroy(gpu->lanes[lane]);
    }
    if (gpu->end)
        cudaEventDestroy(gpu->end);
    if (gpu->start)
        cudaEventDestroy(gpu->start);
    if (gpu->stream)
        cudaStreamDestroy(gpu->stream);
    free(gpu);
}

void bench_gpu_describe(const bench_gpu *gpu, bench_gpu_info *info)
{
    *info = gpu->info;
    cudaMemGetInfo(&info->free_bytes, &info->memory_bytes);
}

weir_stream bench_gpu_stream(const bench_gpu *gpu)
{
    return gpu ? gpu->stream : NULL;
}

weir_status bench_gpu_add_lanes(bench_gpu *gpu, int count)
{
    cudaError_t error = cudaEventCreateWithFlags(&gpu->forks[0], cudaEventDisableTiming);
    while (gpu->nlanes < count && error == cudaSuccess) {
        const int lane = gpu->nlanes;
        error = cudaStreamCreateWithFlags(&gpu->lanes[lane], cudaStreamNonBlocking);
        gpu->nlanes += error == cudaSuccess;
        if (error == cudaSuccess)
            error = cudaEventCreateWithFlags(&gpu->forks[lane], cudaEventDisableTiming);
    }
    return gpu_check(gpu->note, error, "streams");
}

weir_stream bench_gpu_lane(const bench_gpu *gpu, int lane)
{
    return gpu ? gpu->lanes[lane] : NULL;
}

weir_status bench_gpu_fork(bench_gpu *gpu)
{
    cudaError_t error = cudaSuccess;
    if (gpu->nlanes > 1)
        error = cudaEventRecord(gpu->forks[0], gpu->stream);
    for (int lane = 1; lane < gpu->nlanes && error == cudaSuccess; lane++)
        error = cudaStreamWaitEvent(gpu->lanes[lane], gpu->forks[0], 0);
    return gpu_check(gpu->note, error, "event of a stream");
}

weir_status bench_gpu_join(bench_gpu *gpu)
{
    cudaError_t error = cudaSuccess;
    for (int lane = 1; lane < gpu->nlanes && error == cudaSuccess; lane++) {
        error = cudaEventRecord(gpu->forks[lane], gpu->lanes[lane]);
        if (error == cudaSuccess)
            error = cudaStreamWaitEvent(gpu->stream, gpu->forks[lane], 0);
    }
    return gpu_check(gpu->note, error, "event of a stream");
}

const void *bench_gpu_busy_kernel(void);

weir_status bench_gpu_compute(bench_gpu *gpu, int lane, double us, int percent)
{
    enum { THREADS = 1024 };
    const int wanted = gpu->processors * percent / 100;
    uint64_t ns = (uint64_t)(us * 1e3);
    float *sink = NULL;
    void *arguments[] = {&ns, &sink};
    const dim3 blocks = {(unsigned)(wanted > 0 ? wanted : 1), 1, 1}, threads = {THREADS, 1, 1};
    return gpu_check(
        gpu->note,
        cudaLaunchKernel(bench_gpu_busy_kernel(), blocks, threads, arguments, 0, gpu->lanes[lane]),
        "kernel of computation");
}

weir_status bench_gpu_alloc(bench_gpu *gpu, size_t bytes, void **pointer)
{
    char what[64];
    snprintf(what, sizeof what, "a buffer of %zu bytes; give a smaller -e", bytes);
    return gpu_check(gpu->note, cudaMalloc(pointer, bytes), what);
}

void bench_gpu_free(bench_gpu *gpu, void *pointer)
{
    (void)gpu;
    cudaFree(pointer);
}

weir_status bench_gpu_export(bench_gpu *gpu, void *pointer,
                             unsigned char handle[BENCH_GPU_HANDLE_BYTES])
{
    cudaIpcMemHandle_t made = {{0}};
    const cudaError_t error = cudaIpcGetMemHandle(&made, pointer);
    _Static_assert(sizeof made == BENCH_GPU_HANDLE_BYTES, "size of a handle");
    memcpy(handle, &made, sizeof made);
    return gpu_check(gpu->note, error, "memory that another process opens");
}

weir_status bench_gpu_mirror_alloc(bench_gpu *gpu, size_t bytes, void **pointer)
{
    char what[80];
    snprintf(what, sizeof what, "a buffer's mirror of %zu bytes; give a smaller -e", bytes);
    return gpu_check(gpu->note, cudaMallocHost(pointer, bytes), what);
}

void bench_gpu_mirror_free(bench_gpu *gpu, void *pointer)
{
    (void)gpu;
    cudaFreeHost(pointer);
}

static weir_status gpu_copy(bench_gpu *gpu, void *to, const void *from, size_t bytes,
                            enum cudaMemcpyKind kind)
{
    cudaError_t error = cudaSuccess;
    if (bytes)
        error = cudaMemcpyAsync(to, from, bytes, kind, gpu->stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(gpu->stream);
    return gpu_check(gpu->note, error, "copy of a buffer");
}

weir_status bench_gpu_push(bench_gpu *gpu, void *device, const void *host, size_t bytes)
{
    return gpu_copy(gpu, device, host, bytes, cudaMemcpyHostToDevice);
}

weir_status bench_gpu_pull(bench_gpu *gpu, void *host, const void *device, size_t bytes)
{
    return gpu_copy(gpu, host, device, bytes, cudaMemcpyDeviceToHost);
}

weir_status bench_gpu_copy(bench_gpu *gpu, void *to, const void *from, size_t bytes)
{
    return gpu_check(gpu->note,
                     cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, gpu->stream),
                     "copy on the GPU");
}

weir_status bench_gpu_sync(bench_gpu *gpu)
{
    return gpu_check(gpu->note, cudaStreamSynchronize(gpu->stream), "wait for the stream");
}

/* Runs in the stream, on a thread of CUDA's. */
static void CUDART_CB gpu_wait_while_held(void *context)
{
    bench_gpu *gpu = context;
    const uint64_t most_ns = 20 * 1000 * 1000, start_ns = weir_clock_ns();
    while (atomic_load(&gpu->is_held) && weir_clock_ns() - start_ns < most_ns)
        sched_yield();
}

weir_status bench_gpu_hold(bench_gpu *gpu)
{
    atomic_store(&gpu->is_held, 1);
    return gpu_check(gpu->note, cudaLaunchHostFunc(gpu->stream, gpu_wait_while_held, gpu),
                     "host function");
}

void bench_gpu_let_go(bench_gpu *gpu)
{
    atomic_store(&gpu->is_held, 0);
}

weir_status bench_gpu_mark_start(bench_gpu *gpu)
{
    return gpu_check(gpu->note, cudaEventRecord(gpu->start, gpu->stream), "event");
}

weir_status bench_gpu_mark_end(bench_gpu *gpu)
{
    return gpu_check(gpu->note, cudaEventRecord(gpu->end, gpu->stream), "event");
}

weir_status bench_gpu_marked_us(bench_gpu *gpu, double *us)
{
    float ms = 0;
    cudaError_t error = cudaEventElapsedTime(&ms, gpu->start, gpu->end);
    *us = (double)ms * 1e3;
    return gpu_check(gpu->note, error, "time between events");
}

weir_status bench_gpu_record(bench_gpu *gpu, weir_status (*enqueue)(void *context), void *context,
                             bench_gpu_graph **graph)
{
    cudaGraph_t captured = NULL;
    bench_gpu_graph *self = calloc(1, sizeof *self);
    if (!self)
        return bench_note_write(gpu->note, WEIR_ERR_NO_MEMORY, "no memory for a graph");
    cudaError_t error = cudaStreamBeginCapture(gpu->stream, cudaStreamCaptureModeThreadLocal);
    weir_status status = gpu_check(gpu->note, error, "capture of a graph");
    if (status == WEIR_OK) {
        status = enqueue(context);
        error = cudaStreamEndCapture(gpu->stream, &captured);
    }
    if (status == WEIR_OK)
        status = gpu_check(gpu->note, error, "capture of a graph");
    if (status == WEIR_OK)
        status = gpu_check(gpu->note, cudaGraphInstantiate(&self->exec, captured, 0),
                           "instance of a graph");
    if (status == WEIR_OK)
        status =
            gpu_check(gpu->note, cudaGraphUpload(self->exec, gpu->stream), "upload of a graph");
    if (captured)
        cudaGraphDestroy(captured);
    if (status == WEIR_OK)
        *graph = self;
    else
        bench_gpu_forget(self);
    return status;
}

weir_status bench_gpu_replay(bench_gpu *gpu, bench_gpu_graph *graph)
{
    return gpu_check(gpu->note, cudaGraphLaunch(graph->exec, gpu->stream), "launch of a graph");
}

void bench_gpu_forget(bench_gpu_graph *graph)
{
    if (graph && graph->exec)
        cudaGraphExecDestroy(graph->exec);
    free(graph);
}
