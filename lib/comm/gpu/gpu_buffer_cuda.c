/*
 * Checks of callers' buffers and streams: a buffer must be memory of the communicator's GPU and
 * large enough, and a stream must belong to that GPU, since CUDA runs a kernel on the GPU of its
 * stream, where weir's memory is not mapped. The driver is queried once per allocation or stream.
 * Only positive answers are cached, so that new memory at a known address is never rejected
 * wrongly. A smaller allocation at the address of a freed one passes; the kernel then faults.
 */
#include "comm/gpu/gpu_cuda.h"

#include "base/error.h"
#include "transport/mapped/cuda_ipc.h"

static int buffer_is_within(const weiri_cuda_span *span, uintptr_t at, size_t bytes)
{
    return at >= span->begin && at < span->end && bytes <= span->end - at;
}

/* Rejects a buffer that begins in memory of weir_mem_alloc and exceeds it. Registered memory may be
 * part of a larger allocation. */
static weir_status buffer_check_region(const weir_comm *comm, const void *pointer, size_t bytes)
{
    for (int id = 0; id < comm->nregions; id++) {
        const weiri_region *region = &comm->regions[id];
        size_t offset = (size_t)((const char *)pointer - (const char *)region->segment.base);
        if (!region->segment.base || region->freed || region->adopted || offset >= region->bytes)
            continue;
        if (bytes > region->bytes - offset)
            return weiri_fail(WEIR_ERR_INVALID,
                              "the call needs %zu bytes of a buffer, but its allocation by "
                              "weir_mem_alloc ends after %zu: allocate more, or pass a smaller "
                              "count",
                              bytes, region->bytes - offset);
    }
    return WEIR_OK;
}

static weir_status buffer_check_owner(const weir_comm *comm, const void *pointer)
{
    struct cudaPointerAttributes attributes;
    int device = comm->gpu->device;
    cudaError_t error = cudaPointerGetAttributes(&attributes, pointer);
    if (error != cudaSuccess)
        return weiri_cuda_fail(WEIR_ERR_INVALID, error, "cannot query the memory of a buffer");
    if (attributes.type == cudaMemoryTypeUnregistered || attributes.type == cudaMemoryTypeHost)
        return weiri_fail(WEIR_ERR_INVALID,
                          "a buffer is host memory, but the communicator is on GPU %d: pass memory "
                          "of weir_mem_alloc or cudaMalloc, or create a communicator with the host "
                          "backend",
                          device);
    if (attributes.device != device)
        return weiri_fail(WEIR_ERR_INVALID,
                          "a buffer is on GPU %d, but the communicator is on GPU %d: allocate it "
                          "after cudaSetDevice(%d)",
                          attributes.device, device, device);
    return WEIR_OK;
}

/* Returns the end of the allocations that contain the address and follow each other up to needed;
 * 0 if the driver does not know. *begin gets the start of the first one. */
static uintptr_t buffer_end_of(uintptr_t at, uintptr_t needed, uintptr_t *begin)
{
    weiri_cuda_range range, next;
    if (weiri_cuda_range_of(at, &range) != 0)
        return 0;
    while (range.end < needed && !range.is_whole && weiri_cuda_range_of(range.end, &next) == 0 &&
           next.begin == range.end && !next.is_whole)
        range.end = next.end;
    *begin = range.begin;
    return range.end;
}

static void buffer_remember(weiri_cuda *cuda, uintptr_t begin, uintptr_t end)
{
    cuda->spans[cuda->next_span++ % WEIRI_CUDA_SPANS] = (weiri_cuda_span){begin, end};
}

/* Queries the driver, and caches a positive answer. */
static weir_status buffer_query(const weir_comm *comm, const void *pointer, size_t bytes)
{
    weiri_cuda *cuda = weiri_cuda_of(comm);
    uintptr_t at = (uintptr_t)pointer, begin = at;
    weir_status status = buffer_check_owner(comm, pointer);
    if (status != WEIR_OK)
        return status;
    uintptr_t end = buffer_end_of(at, at + bytes, &begin);
    if (end && bytes > end - at)
        return weiri_fail(WEIR_ERR_INVALID,
                          "the call needs %zu bytes of a buffer, but its allocation ends after "
                          "%zu: allocate more, or pass a smaller count",
                          bytes, (size_t)(end - at));
    buffer_remember(cuda, begin, end ? end : at + bytes);
    return WEIR_OK;
}

void weiri_cuda_trust_buffer(const weir_comm *comm, const void *pointer, size_t bytes)
{
    buffer_remember(weiri_cuda_of(comm), (uintptr_t)pointer, (uintptr_t)pointer + bytes);
}

weir_status weiri_cuda_check_buffer(const weir_comm *comm, const void *pointer, size_t bytes)
{
    const weiri_cuda *cuda = weiri_cuda_of(comm);
    for (int i = 0; i < WEIRI_CUDA_SPANS; i++)
        if (buffer_is_within(&cuda->spans[i], (uintptr_t)pointer, bytes))
            return WEIR_OK;
    weir_status status = buffer_check_region(comm, pointer, bytes);
    if (status != WEIR_OK)
        return status;
    enum cudaStreamCaptureMode mode = weiri_cuda_relax();
    status = buffer_query(comm, pointer, bytes);
    weiri_cuda_restore(mode);
    return status;
}

weir_status weiri_cuda_check_stream(const weir_comm *comm, weir_stream stream)
{
    weiri_cuda *cuda = weiri_cuda_of(comm);
    int own = comm->gpu->device, device = own;
    for (int i = 0; i < WEIRI_CUDA_STREAMS; i++)
        if (stream == cuda->streams[i]) /* includes NULL, the default stream */
            return WEIR_OK;
#if CUDART_VERSION >= 12080
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    cudaError_t error = cudaStreamIsCapturing((cudaStream_t)stream, &capture);
    if (error == cudaSuccess && capture != cudaStreamCaptureStatusNone)
        return WEIR_OK; /* querying the device would invalidate the capture */
    if (error == cudaSuccess)
        error = cudaStreamGetDevice((cudaStream_t)stream, &device);
    if (error != cudaSuccess) {
        cudaGetLastError(); /* the launch will report it */
        return WEIR_OK;
    }
#endif
    if (device != own)
        return weiri_fail(WEIR_ERR_INVALID,
                          "the stream is on GPU %d, but the communicator is on GPU %d: create it "
                          "after cudaSetDevice(%d)",
                          device, own, own);
    cuda->streams[1 + cuda->next_stream++ % (WEIRI_CUDA_STREAMS - 1)] = stream;
    return WEIR_OK;
}
