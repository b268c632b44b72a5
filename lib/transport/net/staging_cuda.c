/*
 * Staging with CUDA: one stream of copies per direction, one event per slot. Nothing is allocated
 * while data move, since an allocation may wait for kernels, which may wait for the data.
 */
#include "transport/net/staging.h"

#include "base/error.h"

#include <cuda_runtime.h>
#include <stdlib.h>

typedef struct cuda_staging {
    int device;
    cudaStream_t out, in;
} cuda_staging;

static weir_status staging_cuda_status(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return WEIR_OK;
    (void)cudaGetLastError(); /* clears the error */
    return weiri_fail(error == cudaErrorMemoryAllocation ? WEIR_ERR_NO_MEMORY : WEIR_ERR_SYSTEM,
                      "staging of GPU memory, %s: %s", what, cudaGetErrorString(error));
}

/* Makes the GPU current for one call; returns the thread's device, which leave_device restores. */
static int enter_device(int device)
{
    int before = device;
    if (cudaGetDevice(&before) != cudaSuccess || before != device)
        cudaSetDevice(device);
    return before;
}

static void leave_device(int device, int before)
{
    if (before != device)
        cudaSetDevice(before);
}

/* The device that owns memory; -1 if it is not GPU memory. */
static int device_of(const void *memory)
{
    struct cudaPointerAttributes its;
    if (cudaPointerGetAttributes(&its, memory) != cudaSuccess) {
        (void)cudaGetLastError();
        return -1;
    }
    return its.type == cudaMemoryTypeDevice || its.type == cudaMemoryTypeManaged ? its.device : -1;
}

static void stage_close(void *context)
{
    cuda_staging *stage = context;
    int before = enter_device(stage->device);
    if (stage->out)
        cudaStreamDestroy(stage->out);
    if (stage->in)
        cudaStreamDestroy(stage->in);
    leave_device(stage->device, before);
    free(stage);
}

static weir_status stage_open(const void *memory, void **context)
{
    int device = device_of(memory), greatest = 0, least = 0;
    if (device < 0)
        return weiri_fail(WEIR_ERR_INVALID, "the memory at %p is not GPU memory", memory);
    cuda_staging *stage = calloc(1, sizeof *stage);
    if (!stage)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for staging");
    stage->device = device;
    int before = enter_device(device);
    (void)cudaDeviceGetStreamPriorityRange(&least, &greatest);
    cudaError_t error = cudaStreamCreateWithPriority(&stage->out, cudaStreamNonBlocking, greatest);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithPriority(&stage->in, cudaStreamNonBlocking, greatest);
    leave_device(device, before);
    weir_status status = staging_cuda_status(error, "streams for copies");
    if (status == WEIR_OK)
        *context = stage;
    else
        stage_close(stage);
    return status;
}

static int stage_holds(void *context, const void *memory)
{
    return device_of(memory) == ((const cuda_staging *)context)->device;
}

static weir_status staging_slot_open(void *context, size_t bytes, weiri_staging_slot *slot)
{
    const cuda_staging *stage = context;
    void *buffer = NULL;
    cudaEvent_t event = NULL;
    int before = enter_device(stage->device);
    cudaError_t error = cudaHostAlloc(&buffer, bytes, cudaHostAllocPortable);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    if (error != cudaSuccess && buffer)
        cudaFreeHost(buffer);
    leave_device(stage->device, before);
    weir_status status = staging_cuda_status(error, "pinned memory");
    if (status == WEIR_OK)
        *slot = (weiri_staging_slot){.buffer = buffer, .event = event};
    return status;
}

static void staging_slot_close(void *context, weiri_staging_slot *slot)
{
    const cuda_staging *stage = context;
    int before = enter_device(stage->device);
    if (slot->event) {
        cudaEventSynchronize((cudaEvent_t)slot->event);
        cudaEventDestroy((cudaEvent_t)slot->event);
    }
    if (slot->buffer)
        cudaFreeHost(slot->buffer);
    leave_device(stage->device, before);
    *slot = (weiri_staging_slot){.buffer = NULL};
}

static weir_status staging_copy(const cuda_staging *stage, const weiri_staging_slot *slot, void *to,
                                const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    cudaStream_t stream = kind == cudaMemcpyDeviceToHost ? stage->out : stage->in;
    int before = enter_device(stage->device);
    cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, stream);
    if (error == cudaSuccess)
        error = cudaEventRecord((cudaEvent_t)slot->event, stream);
    leave_device(stage->device, before);
    return staging_cuda_status(error, "a copy between GPU and pinned memory");
}

static weir_status copy_out(void *context, weiri_staging_slot *slot, const void *from, size_t bytes)
{
    return staging_copy(context, slot, slot->buffer, from, bytes, cudaMemcpyDeviceToHost);
}

static weir_status copy_in(void *context, weiri_staging_slot *slot, void *to, size_t bytes)
{
    return staging_copy(context, slot, to, slot->buffer, bytes, cudaMemcpyHostToDevice);
}

static weir_status is_done(void *context, const weiri_staging_slot *slot, int *done)
{
    (void)context;
    cudaError_t error = cudaEventQuery((cudaEvent_t)slot->event);
    *done = error == cudaSuccess;
    if (error == cudaErrorNotReady) {
        (void)cudaGetLastError(); /* not an error */
        return WEIR_OK;
    }
    return staging_cuda_status(error, "a copy between GPU and pinned memory");
}

const weiri_staging_ops *weiri_staging_ops_get(void)
{
    static const weiri_staging_ops ops = {.open = stage_open,
                                          .holds = stage_holds,
                                          .close = stage_close,
                                          .slot_open = staging_slot_open,
                                          .slot_close = staging_slot_close,
                                          .copy_out = copy_out,
                                          .copy_in = copy_in,
                                          .is_done = is_done};
    return &ops;
}
