/* libweir_nccl's own work on GPUs: the calling thread's device, memory, and launches. */
#include "nccl/gpu/gpu.h"

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/gpu/gpu_cuda.h"
#include "nccl/p2p/p2p_gpu.h"

#include <stdatomic.h>
#include <string.h>

const void *weiri_nccl_exchange_kernel(int are_short, int *threads);
const void *weiri_nccl_scale_kernel(int *threads);
const void *weiri_nccl_put_kernel(int *threads);
const void *weiri_nccl_wait_kernel(int *threads);

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
        cudaGetLastError(); /* reported when the communicator is created */
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

weir_status weiri_nccl_gpu_record(weiri_nccl_comm *comm, cudaEvent_t event, cudaStream_t stream)
{
    int before;
    weir_status status = weiri_cuda_enter(weiri_comm_node(comm->comm), &before);
    if (status == WEIR_OK)
        status = weiri_cuda_check(cudaEventRecord(event, stream), "the stream takes no event");
    weiri_cuda_leave(weiri_comm_node(comm->comm), before);
    return status;
}

/* ------------------------------------------------------------------ launches */

weir_status weiri_nccl_gpu_load(const weiri_nccl_comm *comm)
{
    const weir_comm *node = weiri_comm_node(comm->comm);
    int before, threads;
    weir_status status = weiri_cuda_enter(node, &before);
    if (status != WEIR_OK)
        return status;
    weiri_cuda_load(weiri_nccl_exchange_kernel(0, &threads));
    weiri_cuda_load(weiri_nccl_exchange_kernel(1, &threads));
    weiri_cuda_load(weiri_nccl_scale_kernel(&threads));
    weiri_cuda_load(weiri_nccl_put_kernel(&threads));
    weiri_cuda_load(weiri_nccl_wait_kernel(&threads));
    weiri_cuda_leave(node, before);
    return WEIR_OK;
}

weir_status weiri_nccl_gpu_copy(weiri_nccl_comm *comm, void *to, const void *from, size_t bytes,
                                cudaStream_t stream)
{
    weir_comm *node = weiri_comm_node(comm->comm);
    weir_status status = weiri_nccl_gpu_order(comm, stream);
    if (status == WEIR_OK)
        status = node->gpu->ops->copy_on(node, to, from, bytes, stream);
    return status == WEIR_OK ? weiri_nccl_gpu_ordered(comm, stream) : status;
}

static weir_status launch_scale(void *copy, const weiri_nccl_scale *scale, const void *in,
                                size_t bytes, cudaStream_t stream)
{
    enum { BLOCKS_MOST = 1024 };
    int threads = 0, dtype = (int)scale->datatype;
    const void *kernel = weiri_nccl_scale_kernel(&threads);
    const void *device_scalar = scale->residence == ncclScalarDevice ? scale->there : NULL;
    uint64_t value, elements = bytes / weir_dtype_bytes((weir_dtype)scale->datatype);
    size_t blocks = (elements + (size_t)threads - 1) / (size_t)threads;
    memcpy(&value, scale->scalar, sizeof value);
    void *arguments[] = {&copy, &in, &device_scalar, &value, &dtype, &elements};
    return weiri_cuda_check(
        cudaLaunchKernel(kernel,
                         (dim3){(unsigned)(blocks < BLOCKS_MOST ? blocks : BLOCKS_MOST), 1, 1},
                         (dim3){(unsigned)threads, 1, 1}, arguments, 0, stream),
        "the stream takes no scaled copy");
}

/* The copy uses stream-ordered memory, so that a graph can capture it. */
static weir_status gpu_copy_input(const weir_comm *node, void **copy, const weiri_nccl_scale *scale,
                                  const void *in, size_t bytes, cudaStream_t stream)
{
    if (cudaMallocAsync(copy, bytes, stream) != cudaSuccess) {
        cudaGetLastError();
        *copy = NULL;
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no GPU memory for a copy of %zu bytes", bytes);
    }
    weiri_cuda_trust_buffer(node, *copy, bytes);
    const int is_aligned =
        scale && (uintptr_t)in % weir_dtype_bytes((weir_dtype)scale->datatype) == 0;
    weir_status status = WEIR_OK;
    if (!is_aligned) {
        status =
            weiri_cuda_check(cudaMemcpyAsync(*copy, in, bytes, cudaMemcpyDeviceToDevice, stream),
                             "cannot copy in the stream");
        in = *copy;
    }
    return scale && status == WEIR_OK ? launch_scale(*copy, scale, in, bytes, stream) : status;
}

weir_status weiri_nccl_gpu_copy_of(const weiri_nccl_comm *comm, const weiri_nccl_scale *scale,
                                   const void *in, size_t bytes, cudaStream_t stream, void **copy)
{
    int before;
    *copy = NULL;
    enum cudaStreamCaptureMode mode = weiri_cuda_relax();
    weir_status status = weiri_cuda_enter(comm->comm, &before);
    if (status == WEIR_OK)
        status = gpu_copy_input(comm->comm, copy, scale, in, bytes, stream);
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

static weir_status exchange_check_buffer(const weir_comm *node, const void *buffer, uint64_t bytes)
{
    if (!bytes || weiri_region_describe(node, buffer, bytes).generation)
        return WEIR_OK;
    return weiri_cuda_check_buffer(node, buffer, bytes);
}

/* Checks that buffers are this GPU's, because a kernel would fault on others. */
static weir_status exchange_check_buffers(const weir_comm *node, const weiri_p2p_args *args)
{
    weir_status status = exchange_check_buffer(node, args->own.from, args->own.bytes);
    if (status == WEIR_OK)
        status = exchange_check_buffer(node, args->own.to, args->own.bytes);
    for (int i = 0; i < args->ncalls && status == WEIR_OK; i++)
        status = exchange_check_buffer(node, args->call[i].buffer, args->call[i].bytes);
    return status;
}

/* The kernel for a launch and its threads per block. If all messages are short: one thread for each
 * packet of the longest part, and one more for the header; a small block starts and synchronises
 * faster. */
static const void *exchange_choose_kernel(const weiri_p2p_args *args, int are_short, int *threads)
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

/* How many blocks may serve flows. Blocks that wait must be resident at the same time, and blocks
 * that copy the messages of the rank to itself should be. */
static int exchange_room(const weiri_p2p_args *args, int processors, weiri_budget budget)
{
    const int own = args->own.blocks < processors ? args->own.blocks : processors;
    const int all = weiri_budget_limit(budget, WEIRI_P2P_BLOCKS_PER_PROCESSOR * processors);
    const int least = args->nflows * ((args->blocks_each - 1) / WEIRI_P2P_LANES_EACH_MAX + 1);
    const int room = all - own > least ? all - own : least;
    const int of_use = WEIRI_P2P_BLOCKS_EACH_MAX * args->nflows;
    return room < of_use ? room : of_use;
}

/* Chooses the number of blocks per flow. Short messages get one block per lane, with fewer threads
 * if more blocks must share a multiprocessor than have room with all of them; long messages get as
 * many blocks as there is room for, which may serve several lanes each. */
static weir_status exchange_choose_grid(const weir_comm *node, weiri_p2p_args *args,
                                        const void *kernel, int are_short, int *threads)
{
    enum { WARP = 32 };
    const int lanes = args->blocks_each, processors = weiri_cuda_of(node)->processors;
    const int room = exchange_room(args, processors, node->budget);
    const int blocks = weiri_p2p_blocks_for(lanes, args->nflows, room);
    if (blocks && (blocks == lanes || !are_short)) {
        args->blocks_each = blocks;
        return WEIR_OK;
    }
    for (int each = 0;; *threads = *threads / WARP / 2 * WARP) {
        cudaError_t error =
            cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, *threads, 0);
        if (error != cudaSuccess)
            return weiri_cuda_fail_launch(node, error);
        if (args->nflows * lanes <= each * processors)
            return WEIR_OK;
        if (!are_short || *threads < 2 * WARP)
            return weiri_fail(WEIR_ERR_UNSUPPORTED,
                              "sends and receives, %d times %d blocks, do not fit on GPU %d at "
                              "once",
                              args->nflows, lanes, node->gpu->device);
    }
}

/* Logs once that sends and receives need more blocks than the budget has. */
static void exchange_log_excess(weiri_budget budget, int blocks)
{
    static atomic_flag has_logged = ATOMIC_FLAG_INIT;
    const int most = weiri_budget_limit(budget, blocks);
    if (most < blocks && !atomic_flag_test_and_set(&has_logged))
        weiri_log(WEIRI_LOG_WARN,
                  "sends and receives use %d thread blocks instead of %d, because each message in "
                  "flight needs its own",
                  blocks, most);
}

static weir_status launch_exchange(const weir_comm *node, weiri_p2p_args *args, cudaStream_t stream)
{
    int threads = 0;
    const int are_short = weiri_p2p_are_short(args);
    const void *kernel = exchange_choose_kernel(args, are_short, &threads);
    void *arguments[] = {args};
    enum cudaStreamCaptureMode mode = weiri_cuda_relax(); /* the first launch loads the kernel */
    weir_status status = exchange_choose_grid(node, args, kernel, are_short, &threads);
    if (status == WEIR_OK) {
        const int blocks = args->nflows * args->blocks_each + args->own.blocks;
        exchange_log_excess(node->budget, blocks);
        cudaError_t error = cudaLaunchKernel(kernel, (dim3){(unsigned)blocks, 1, 1},
                                             (dim3){(unsigned)threads, 1, 1}, arguments, 0, stream);
        status = error == cudaSuccess ? WEIR_OK : weiri_cuda_fail_launch(node, error);
    }
    weiri_cuda_restore(mode);
    return status;
}

weir_status weiri_nccl_gpu_exchange(weiri_nccl_comm *comm, weiri_p2p_args *args,
                                    cudaStream_t stream)
{
    int before;
    weir_comm *node = weiri_comm_node(comm->comm);
    args->guard = node->gpu->ops->guard(node);
    if (weir_load_relaxed(node->guard.abort_word)) {
        weir_status ended = weir_comm_check(comm->comm);
        return ended != WEIR_OK ? ended : WEIR_ERR_ABORTED;
    }
    weir_status status = weiri_nccl_gpu_order(comm, stream);
    if (status != WEIR_OK)
        return status;
    status = weiri_cuda_enter(node, &before);
    if (status == WEIR_OK)
        status = weiri_cuda_check_stream(node, stream);
    if (status == WEIR_OK)
        status = exchange_check_buffers(node, args);
    if (status == WEIR_OK)
        status = launch_exchange(node, args, stream);
    weiri_cuda_leave(node, before);
    return status == WEIR_OK ? weiri_nccl_gpu_ordered(comm, stream) : status;
}
