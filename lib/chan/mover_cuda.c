/*
 * Copies by a GPU's copy engine, on a stream of the connection's own that orders with
 * no other (the default stream included), and words stored behind them by the stream
 * itself, which the host need not wait for. Everything is looked up and tried when the
 * stream is made, so that nothing is loaded once kernels run.
 */
#include "chan/mover.h"

#include "base/error.h"
#include "comm/gpu/gpu_cuda.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { TRIED_BYTES = 8 };

struct weiri_mover {
    int device;
    cudaStream_t stream;
    void *scratch; /* for weiri_mover_try */
    __typeof__(&cuStreamWriteValue64) write_value; /* NULL: by a function of the host's */
};

static weir_status check(cudaError_t error)
{
    return error == cudaSuccess
               ? WEIR_OK
               : weiri_cuda_fail(WEIR_ERR_SYSTEM, error, "cannot copy with the copy engine");
}

weir_status weiri_mover_enter(const weir_comm *comm)
{
    return comm->gpu ? check(cudaSetDevice(comm->gpu->device)) : WEIR_OK;
}

/* The driver's store of a word in the order of a stream; NULL where there is none. */
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
    dlclose(library); /* the runtime keeps it loaded */
    return found;
}

weir_status weiri_mover_create(const weir_comm *comm, weiri_mover **mover)
{
    int before, highest = 0;
    weiri_mover *made = calloc(1, sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a stream of copies");
    made->device = comm->gpu->device;
    weir_status status = weiri_cuda_enter(comm, &before);
    if (status == WEIR_OK)
        status = check(cudaDeviceGetStreamPriorityRange(NULL, &highest));
    if (status == WEIR_OK)
        status = check(cudaStreamCreateWithPriority(&made->stream, cudaStreamNonBlocking, highest));
    if (status == WEIR_OK)
        status = check(cudaMalloc(&made->scratch, TRIED_BYTES));
    void *found = status == WEIR_OK ? find_write_value(made->device) : NULL;
    memcpy(&made->write_value, &found, sizeof found);
    weiri_cuda_leave(comm, before);
    if (status == WEIR_OK)
        *mover = made;
    else
        weiri_mover_free(made);
    return status;
}

weir_status weiri_mover_try(weiri_mover *mover, const void *from, uint64_t *word)
{
    int before = -1;
    cudaGetDevice(&before);
    weir_status status = check(cudaSetDevice(mover->device));
    if (status == WEIR_OK && from)
        status = weiri_mover_copy(mover, mover->scratch, from, TRIED_BYTES);
    if (status == WEIR_OK)
        status = weiri_mover_store(mover, word, 0);
    if (status == WEIR_OK)
        status = check(cudaStreamSynchronize(mover->stream));
    if (before >= 0)
        cudaSetDevice(before);
    return status;
}

void weiri_mover_free(weiri_mover *mover)
{
    int before = -1;
    if (!mover)
        return;
    cudaGetDevice(&before);
    cudaSetDevice(mover->device);
    if (mover->stream) {
        cudaStreamSynchronize(mover->stream);
        cudaStreamDestroy(mover->stream);
    }
    cudaFree(mover->scratch);
    if (before >= 0)
        cudaSetDevice(before);
    free(mover);
}

weir_status weiri_mover_copy(weiri_mover *mover, void *to, const void *from, size_t bytes)
{
    if (!bytes)
        return WEIR_OK;
    return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, mover->stream));
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

/* Where the driver cannot: slower, as a thread of CUDA's has to run. On such machines
 * the host and the GPU have the same address for pinned memory. */
static weir_status store_by_host(weiri_mover *mover, uint64_t *word, uint64_t value)
{
    late_store *what = malloc(sizeof *what);
    if (!what)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a signal");
    *what = (late_store){word, value};
    weir_status status = check(cudaLaunchHostFunc(mover->stream, store_now, what));
    if (status != WEIR_OK)
        free(what);
    return status;
}

weir_status weiri_mover_store(weiri_mover *mover, uint64_t *word, uint64_t value)
{
    if (!mover->write_value)
        return store_by_host(mover, word, value);
    /* By default it comes behind everything that the stream wrote, for all who see it. */
    CUresult result = mover->write_value((CUstream)mover->stream, (CUdeviceptr)(uintptr_t)word,
                                         value, CU_STREAM_WRITE_VALUE_DEFAULT);
    if (result == CUDA_SUCCESS)
        return WEIR_OK;
    return weiri_fail(WEIR_ERR_SYSTEM, "the GPU's stream takes no signal (CUDA error %d)",
                      (int)result);
}

weir_status weiri_mover_check(weiri_mover *mover)
{
    cudaError_t error = cudaStreamQuery(mover->stream);
    return error == cudaErrorNotReady ? WEIR_OK : check(error);
}
