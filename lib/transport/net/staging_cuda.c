/*
 * Staging by CUDA: a stream of copies each way, an event for each buffer. Nothing is
 * allocated while data moves, since that may wait for kernels, and these for the data.
 */
#include "transport/net/staging.h"

#include "base/error.h"

#include <cuda_runtime.h>
#include <stdlib.h>

typedef struct cuda_stage {
    int device;
    cudaStream_t out, in;
} cuda_stage;

static weir_status check(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return WEIR_OK;
    (void)cudaGetLastError(); /* reported once */
    return weiri_fail(error == cudaErrorMemoryAllocation ? WEIR_ERR_NO_MEMORY : WEIR_ERR_SYSTEM,
                      "staged memory of a GPU, %s: %s", what, cudaGetErrorString(error));
}

/* The GPU's device while a call needs it; the thread may work with another one. */
static int enter(int device)
{
    int before = device;
    if (cudaGetDevice(&before) != cudaSuccess || before != device)
        cudaSetDevice(device);
    return before;
}

static void leave(int device, int before)
{
    if (before != device)
        cudaSetDevice(before);
}

/* The device of GPU memory, -1 for other memory. */
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
    cuda_stage *stage = context;
    int before = enter(stage->device);
    if (stage->out)
        cudaStreamDestroy(stage->out);
    if (stage->in)
        cudaStreamDestroy(stage->in);
    leave(stage->device, before);
    free(stage);
}

static weir_status stage_open(const void *memory, void **context)
{
    int device = device_of(memory), greatest = 0, least = 0;
    if (device < 0)
        return weiri_fail(WEIR_ERR_INVALID, "no GPU has the memory at %p", memory);
    cuda_stage *stage = calloc(1, sizeof *stage);
    if (!stage)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to stage a GPU's");
    stage->device = device;
    int before = enter(device);
    (void)cudaDeviceGetStreamPriorityRange(&least, &greatest);
    cudaError_t error = cudaStreamCreateWithPriority(&stage->out, cudaStreamNonBlocking, greatest);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithPriority(&stage->in, cudaStreamNonBlocking, greatest);
    leave(device, before);
    weir_status status = check(error, "streams for copies");
    if (status == WEIR_OK)
        *context = stage;
    else
        stage_close(stage);
    return status;
}

static int stage_holds(void *context, const void *memory)
{
    return device_of(memory) == ((const cuda_stage *)context)->device;
}

static weir_status slot_open(void *context, size_t bytes, weiri_staging_slot *slot)
{
    const cuda_stage *stage = context;
    void *buffer = NULL;
    cudaEvent_t event = NULL;
    int before = enter(stage->device);
    cudaError_t error = cudaHostAlloc(&buffer, bytes, cudaHostAllocPortable);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    if (error != cudaSuccess && buffer)
        cudaFreeHost(buffer);
    leave(stage->device, before);
    weir_status status = check(error, "pinned memory");
    if (status == WEIR_OK)
        *slot = (weiri_staging_slot){.buffer = buffer, .event = event};
    return status;
}

static void slot_close(void *context, weiri_staging_slot *slot)
{
    const cuda_stage *stage = context;
    int before = enter(stage->device);
    if (slot->event) {
        cudaEventSynchronize((cudaEvent_t)slot->event);
        cudaEventDestroy((cudaEvent_t)slot->event);
    }
    if (slot->buffer)
        cudaFreeHost(slot->buffer);
    leave(stage->device, before);
    *slot = (weiri_staging_slot){.buffer = NULL};
}

static weir_status copy(const cuda_stage *stage, const weiri_staging_slot *slot, void *to,
                        const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    cudaStream_t stream = kind == cudaMemcpyDeviceToHost ? stage->out : stage->in;
    int before = enter(stage->device);
    cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, stream);
    if (error == cudaSuccess)
        error = cudaEventRecord((cudaEvent_t)slot->event, stream);
    leave(stage->device, before);
    return check(error, "a copy between GPU and pinned memory");
}

static weir_status copy_out(void *context, weiri_staging_slot *slot, const void *from, size_t bytes)
{
    return copy(context, slot, slot->buffer, from, bytes, cudaMemcpyDeviceToHost);
}

static weir_status copy_in(void *context, weiri_staging_slot *slot, void *to, size_t bytes)
{
    return copy(context, slot, to, slot->buffer, bytes, cudaMemcpyHostToDevice);
}

static weir_status is_done(void *context, const weiri_staging_slot *slot, int *done)
{
    (void)context;
    cudaError_t error = cudaEventQuery((cudaEvent_t)slot->event);
    *done = error == cudaSuccess;
    if (error == cudaErrorNotReady) {
        (void)cudaGetLastError(); /* it is no error */
        return WEIR_OK;
    }
    return check(error, "a copy between GPU and pinned memory");
}

const weiri_staging_ops *weiri_staging_ops_get(void)
{
    static const weiri_staging_ops ops = {.open = stage_open,
                                        .holds = stage_holds,
                                        .close = stage_close,
                                        .slot_open = slot_open,
                                        .slot_close = slot_close,
                                        .copy_out = copy_out,
                                        .copy_in = copy_in,
                                        .is_done = is_done};
    return &ops;
}
