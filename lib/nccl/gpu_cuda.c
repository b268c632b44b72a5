/* The library's own work on GPUs: the device of the calling thread, memory, and launches. */
#include "nccl/gpu.h"

#include "base/env.h"
#include "base/error.h"
#include "comm/gpu/gpu_cuda.h"
#include "nccl/p2p_gpu.h"

#include <string.h>

const void *weiri_nccl_exchange_kernel(int are_short, int *threads);
const void *weiri_nccl_scale_kernel(int *threads);

static weir_status check(cudaError_t error, const char *what)
{
    return error == cudaSuccess ? WEIR_OK : weiri_cuda_fail(WEIR_ERR_SYSTEM, error, what);
}

/* With WEIR_BACKEND=host there are none. */
int weiri_nccl_gpu_count(void)
{
    const char *backend = weiri_env(WEIRI_ENV_BACKEND);
    int count = 0;
    if (backend && strcmp(backend, "host") == 0)
        return 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess)
        return count;
    cudaGetLastError();
    return 0;
}

int weiri_nccl_gpu_current(void)
{
    int device = -1;
    if (weiri_nccl_gpu_count() == 0 || cudaGetDevice(&device) != cudaSuccess) {
        cudaGetLastError();
        return -1;
    }
    return device;
}

void weiri_nccl_gpu_use(int device)
{
    if (cudaSetDevice(device) != cudaSuccess)
        cudaGetLastError(); /* making the communicator tells */
}

void *weiri_nccl_gpu_alloc(size_t bytes)
{
    void *memory = NULL;
    if (cudaMalloc(&memory, bytes) == cudaSuccess)
        return memory;
    cudaGetLastError();
    return NULL;
}

void weiri_nccl_gpu_free(void *memory)
{
    cudaFree(memory);
}

/* ------------------------------------------------------------------ launches */

weir_status weiri_nccl_gpu_copy(weiri_nccl_comm *comm, void *to, const void *from, size_t bytes,
                                cudaStream_t stream)
{
    weir_comm *here = weiri_comm_node(comm->comm);
    weir_status status = weiri_nccl_gpu_order(comm, stream);
    if (status == WEIR_OK)
        status = here->gpu->ops->copy_on(here, to, from, bytes, stream);
    return status == WEIR_OK ? weiri_nccl_gpu_ordered(comm, stream) : status;
}

static weir_status scale_into(void *copy, const weiri_nccl_scale *scale, const void *in,
                              size_t bytes, cudaStream_t stream)
{
    enum { BLOCKS_MOST = 1024 };
    int threads = 0, dtype = (int)scale->datatype;
    const void *kernel = weiri_nccl_scale_kernel(&threads);
    const void *there = scale->residence == ncclScalarDevice ? scale->there : NULL;
    uint64_t value, elements = bytes / weir_dtype_bytes((weir_dtype)scale->datatype);
    size_t blocks = (elements + (size_t)threads - 1) / (size_t)threads;
    memcpy(&value, scale->scalar, sizeof value);
    void *arguments[] = {&copy, &in, &there, &value, &dtype, &elements};
    return check(cudaLaunchKernel(kernel,
                                  (dim3){(unsigned)(blocks < BLOCKS_MOST ? blocks : BLOCKS_MOST),
                                         1, 1},
                                  (dim3){(unsigned)threads, 1, 1}, arguments, 0, stream),
                 "the stream takes no scaled copy");
}

/* The stream's own memory, so that a graph may capture it. */
static weir_status copy_into(const weir_comm *here, void **copy, const weiri_nccl_scale *scale,
                             const void *in, size_t bytes, cudaStream_t stream)
{
    if (cudaMallocAsync(copy, bytes, stream) != cudaSuccess) {
        cudaGetLastError();
        *copy = NULL;
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no GPU memory for a copy of %zu bytes", bytes);
    }
    weiri_cuda_trust_buffer(here, *copy, bytes);
    const int is_aligned =
        scale && (uintptr_t)in % weir_dtype_bytes((weir_dtype)scale->datatype) == 0;
    weir_status status = WEIR_OK;
    if (!is_aligned) {
        status = check(cudaMemcpyAsync(*copy, in, bytes, cudaMemcpyDeviceToDevice, stream),
                       "the stream takes no copy");
        in = *copy;
    }
    return scale && status == WEIR_OK ? scale_into(*copy, scale, in, bytes, stream) : status;
}

weir_status weiri_nccl_gpu_copy_of(const weiri_nccl_comm *comm, const weiri_nccl_scale *scale,
                                   const void *in, size_t bytes, cudaStream_t stream, void **copy)
{
    int before;
    *copy = NULL;
    enum cudaStreamCaptureMode mode = weiri_cuda_relax();
    weir_status status = weiri_cuda_enter(comm->comm, &before);
    if (status == WEIR_OK)
        status = copy_into(comm->comm, copy, scale, in, bytes, stream);
    if (status != WEIR_OK && *copy) {
        cudaFreeAsync(*copy, stream);
        *copy = NULL;
    }
    weiri_cuda_leave(comm->comm, before);
    weiri_cuda_restore(mode);
    return status;
}

void weiri_nccl_gpu_drop(void *copy, cudaStream_t stream)
{
    if (copy && cudaFreeAsync(copy, stream) != cudaSuccess)
        cudaGetLastError();
}

static weir_status check_buffer(const weir_comm *here, const void *buffer, uint64_t bytes)
{
    if (!bytes || weiri_region_describe(here, buffer, bytes).generation)
        return WEIR_OK;
    return weiri_cuda_check_buffer(here, buffer, bytes);
}

/* Whether buffers are this GPU's, lest a kernel dies of them. */
static weir_status check_buffers(const weir_comm *here, const weiri_p2p_args *args)
{
    weir_status status = check_buffer(here, args->own.from, args->own.bytes);
    if (status == WEIR_OK)
        status = check_buffer(here, args->own.to, args->own.bytes);
    for (int i = 0; i < args->ncalls && status == WEIR_OK; i++)
        status = check_buffer(here, args->call[i].buffer, args->call[i].bytes);
    return status;
}

/* The kernel for a launch and threads of its blocks: where all messages are short, one for each
 * packet of the longest part and one more for its first. A small block begins and meets sooner. */
static const void *kernel_for(const weiri_p2p_args *args, int are_short, int *threads)
{
    enum { WARP = 32, OWN_BYTES = 1 << 10 };
    const void *kernel = weiri_nccl_exchange_kernel(are_short, threads);
    uint64_t at, longest = 0;
    if (!are_short || (args->own.blocks && args->own.bytes > OWN_BYTES))
        return kernel;
    for (int i = 0; i < args->ncalls; i++) {
        uint64_t bytes = args->call[i].bytes;
        bytes = weiri_p2p_part(bytes, weiri_p2p_lanes_of_short(bytes, args->lanes), 0, &at);
        longest = bytes > longest ? bytes : longest;
    }
    const int few = ((int)(longest + 7) / 8 / WARP + 1) * WARP;
    *threads = few < *threads ? few : *threads;
    return kernel;
}

/* Blocks that wait must be on the device at once, and one on each multiprocessor always fits.
 * Short messages get a block for each lane, even if several must share a multiprocessor, of
 * fewer threads then; long ones are as fast by fewer blocks that serve several lanes each. */
static weir_status share_blocks(const weir_comm *here, weiri_p2p_args *args, const void *kernel,
                                int are_short, int *threads)
{
    enum { WARP = 32 };
    const int lanes = args->blocks_each, room = weiri_cuda_of(here)->processors;
    const int blocks = weiri_p2p_blocks_for(lanes, args->nflows, room);
    if (blocks && (blocks == lanes || !are_short)) {
        args->blocks_each = blocks;
        return WEIR_OK;
    }
    for (int each = 0;; *threads = *threads / WARP / 2 * WARP) {
        cudaError_t error =
            cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, *threads, 0);
        if (error != cudaSuccess)
            return weiri_cuda_fail_launch(here, error);
        if (args->nflows * lanes <= each * room)
            return WEIR_OK;
        if (!are_short || *threads < 2 * WARP)
            return weiri_fail(WEIR_ERR_UNSUPPORTED,
                              "sends and receives, %d times %d blocks, do not fit on GPU %d at "
                              "once",
                              args->nflows, lanes, here->gpu->device);
    }
}

static weir_status launch_exchange(const weir_comm *here, weiri_p2p_args *args,
                                   cudaStream_t stream)
{
    int threads = 0;
    const int are_short = weiri_p2p_are_short(args);
    const void *kernel = kernel_for(args, are_short, &threads);
    void *arguments[] = {args};
    enum cudaStreamCaptureMode mode = weiri_cuda_relax(); /* the first launch loads the kernel */
    weir_status status = share_blocks(here, args, kernel, are_short, &threads);
    if (status == WEIR_OK) {
        const int blocks = args->nflows * args->blocks_each + args->own.blocks;
        cudaError_t error = cudaLaunchKernel(kernel, (dim3){(unsigned)blocks, 1, 1},
                                             (dim3){(unsigned)threads, 1, 1}, arguments, 0, stream);
        status = error == cudaSuccess ? WEIR_OK : weiri_cuda_fail_launch(here, error);
    }
    weiri_cuda_restore(mode);
    return status;
}

weir_status weiri_nccl_gpu_exchange(weiri_nccl_comm *comm, weiri_p2p_args *args,
                                    cudaStream_t stream)
{
    int before;
    weir_comm *here = weiri_comm_node(comm->comm);
    args->guard = here->gpu->ops->guard(here);
    if (weir_load_relaxed(here->guard.abort_word)) {
        weir_status ended = weir_comm_check(comm->comm);
        return ended != WEIR_OK ? ended : WEIR_ERR_ABORTED;
    }
    weir_status status = weiri_nccl_gpu_order(comm, stream);
    if (status != WEIR_OK)
        return status;
    status = weiri_cuda_enter(here, &before);
    if (status == WEIR_OK)
        status = weiri_cuda_check_stream(here, stream);
    if (status == WEIR_OK)
        status = check_buffers(here, args);
    if (status == WEIR_OK)
        status = launch_exchange(here, args, stream);
    weiri_cuda_leave(here, before);
    return status == WEIR_OK ? weiri_nccl_gpu_ordered(comm, stream) : status;
}
