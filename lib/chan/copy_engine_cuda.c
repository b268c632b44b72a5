/*
 * Copies by a GPU's copy engine. Each connection has its own non-blocking stream, which does not
 * synchronise with any other stream (including the default one). The stream itself stores words
 * after its copies, so the host need not wait. All functions are looked up and tried when the
 * stream is created, so that nothing is loaded while kernels run.
 */
#include "chan/copy_engine.h"

#include "base/error.h"
#include "comm/gpu/gpu_cuda.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { TRIED_BYTES = 8 };

struct weiri_copy_engine {
    int device;
    cudaStream_t stream;
    void *scratch;                                 /* for weiri_copy_engine_try */
    __typeof__(&cuStreamWriteValue64) write_value; /* NULL: a host function stores instead */
};

static weir_status copy_engine_status(cudaError_t error)
{
    return error == cudaSuccess
               ? WEIR_OK
               : weiri_cuda_fail(WEIR_ERR_SYSTEM, error, "cannot copy with the copy engine");
}

weir_status weiri_copy_engine_enter(const weir_comm *comm)
{
    return comm->gpu ? copy_engine_status(cudaSetDevice(comm->gpu->device)) : WEIR_OK;
}

/* The driver's function that stores a word in stream order; NULL if the device has none. */
static void *find_write_value(int device)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *found = NULL;
    __typeof__(&cuDeviceGetAttribute) ask = NULL;
    int able = 0;
    if (!library)
        return NULL;
    void *symbol = dlsym(library, "cuDeviceGetAttribute");
    memcpy(&ask, &symbol, sizeof symbol);
    if (ask &&
        ask(&able, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, device) == CUDA_SUCCESS &&
        able)
        found = dlsym(library, "cuStreamWriteValue64_v2");
    dlclose(library); /* the CUDA runtime keeps it loaded */
    return found;
}

weir_status weiri_copy_engine_create(const weir_comm *comm, weiri_copy_engine **engine)
{
    int before, highest = 0;
    weiri_copy_engine *made = calloc(1, sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a copy engine");
    made->device = comm->gpu->device;
    weir_status status = weiri_cuda_enter(comm, &before);
    if (status == WEIR_OK)
        status = copy_engine_status(cudaDeviceGetStreamPriorityRange(NULL, &highest));
    if (status == WEIR_OK)
        status = copy_engine_status(
            cudaStreamCreateWithPriority(&made->stream, cudaStreamNonBlocking, highest));
    if (status == WEIR_OK)
        status = copy_engine_status(cudaMalloc(&made->scratch, TRIED_BYTES));
    void *found = status == WEIR_OK ? find_write_value(made->device) : NULL;
    memcpy(&made->write_value, &found, sizeof found);
    weiri_cuda_leave(comm, before);
    if (status == WEIR_OK)
        *engine = made;
    else
        weiri_copy_engine_free(made);
    return status;
}

weir_status weiri_copy_engine_try(weiri_copy_engine *engine, const void *from, uint64_t *word)
{
    int before = -1;
    cudaGetDevice(&before);
    weir_status status = copy_engine_status(cudaSetDevice(engine->device));
    if (status == WEIR_OK && from)
        status = weiri_copy_engine_copy(engine, engine->scratch, from, TRIED_BYTES);
    if (status == WEIR_OK)
        status = weiri_copy_engine_store(engine, word, 0);
    if (status == WEIR_OK)
        status = copy_engine_status(cudaStreamSynchronize(engine->stream));
    if (before >= 0)
        cudaSetDevice(before);
    return status;
}

void weiri_copy_engine_free(weiri_copy_engine *engine)
{
    int before = -1;
    if (!engine)
        return;
    cudaGetDevice(&before);
    cudaSetDevice(engine->device);
    if (engine->stream) {
        cudaStreamSynchronize(engine->stream);
        cudaStreamDestroy(engine->stream);
    }
    cudaFree(engine->scratch);
    if (before >= 0)
        cudaSetDevice(before);
    free(engine);
}

weir_status weiri_copy_engine_copy(weiri_copy_engine *engine, void *to, const void *from,
                                   size_t bytes)
{
    if (!bytes)
        return WEIR_OK;
    return copy_engine_status(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, engine->stream));
}

typedef struct late_store {
    uint64_t *word;
    uint64_t value;
} late_store;

static void store_now(void *argument)
{
    late_store *what = argument;
    weir_store_release(what->word, what->value);
    free(what);
}

/* Used if the driver cannot store words: slower, as one of CUDA's threads has to run. There the
 * host and the GPU use the same address for pinned memory. */
static weir_status store_by_host(weiri_copy_engine *engine, uint64_t *word, uint64_t value)
{
    late_store *what = malloc(sizeof *what);
    if (!what)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a signal");
    *what = (late_store){word, value};
    weir_status status = copy_engine_status(cudaLaunchHostFunc(engine->stream, store_now, what));
    if (status != WEIR_OK)
        free(what);
    return status;
}

weir_status weiri_copy_engine_store(weiri_copy_engine *engine, uint64_t *word, uint64_t value)
{
    if (!engine->write_value)
        return store_by_host(engine, word, value);
    /* By default the store is ordered after everything that the stream wrote, for any observer. */
    CUresult result = engine->write_value((CUstream)engine->stream, (CUdeviceptr)(uintptr_t)word,
                                          value, CU_STREAM_WRITE_VALUE_DEFAULT);
    if (result == CUDA_SUCCESS)
        return WEIR_OK;
    return weiri_fail(WEIR_ERR_SYSTEM,
                      "cannot enqueue a signal on the GPU's stream (CUDA error %d)", (int)result);
}

weir_status weiri_copy_engine_check(weiri_copy_engine *engine)
{
    cudaError_t error = cudaStreamQuery(engine->stream);
    return error == cudaErrorNotReady ? WEIR_OK : copy_engine_status(error);
}
