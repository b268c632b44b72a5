/*
 * One-sided calls among the GPUs of a node: launches of the kernels of rma.cuh. A long put is
 * copied in the stream, by a copy engine where the driver uses one, and followed by the kernel that
 * signals. All counts are in device memory, so that captured launches can be replayed.
 */
#include "nccl/gpu/gpu.h"
#include "nccl/p2p/p2p_host.h"
#include "nccl/rma/rma.h"
#include "nccl/rma/rma_gpu.h"

#include "base/error.h"
#include "comm/gpu/gpu_cuda.h"

const void *weiri_nccl_put_kernel(int *threads);
const void *weiri_nccl_wait_kernel(int *threads);

/* The longest put that a block copies. */
enum { SHORT_BYTES = 64 << 10 };

/* What the calls of a communicator have in common: orders the stream, launches, orders later
 * calls. */
static weir_status rma_begin(weiri_nccl_comm *comm, cudaStream_t stream, int *before)
{
    weir_comm *node = weiri_comm_node(comm->comm);
    if (weir_load_relaxed(node->guard.abort_word)) {
        weir_status ended = weir_comm_check(comm->comm);
        return ended != WEIR_OK ? ended : WEIR_ERR_ABORTED;
    }
    weir_status status = weiri_nccl_gpu_order(comm, stream);
    if (status == WEIR_OK)
        status = weiri_cuda_enter(node, before);
    if (status != WEIR_OK)
        return status;
    status = weiri_cuda_check_stream(node, stream);
    if (status != WEIR_OK)
        weiri_cuda_leave(node, *before);
    return status;
}

static weir_status rma_launch(const weir_comm *node, const void *kernel, int threads,
                              void *argument, cudaStream_t stream)
{
    void *arguments[] = {argument};
    enum cudaStreamCaptureMode mode = weiri_cuda_relax(); /* the first launch loads the kernel */
    const cudaError_t error = cudaLaunchKernel(
        kernel, (dim3){1, 1, 1}, (dim3){(unsigned)threads, 1, 1}, arguments, 0, stream);
    weiri_cuda_restore(mode);
    return error == cudaSuccess ? WEIR_OK : weiri_cuda_fail_launch(node, error);
}

static weir_status rma_check_source(const weir_comm *node, const weiri_nccl_onesided *call)
{
    if (!call->bytes || weiri_region_describe(node, call->from, call->bytes).generation)
        return WEIR_OK;
    return weiri_cuda_check_buffer(node, call->from, call->bytes);
}

static weir_status rma_launch_out(weiri_nccl_comm *comm, const weiri_nccl_onesided *call,
                                  const weiri_window_peer *to)
{
    const weir_comm *node = weiri_comm_node(comm->comm);
    const weiri_nccl_rma *rma = comm->rma;
    const int place = weiri_comm_node_rank(comm->comm, call->peer);
    int threads = 0;
    const void *kernel = weiri_nccl_put_kernel(&threads);
    weiri_rma_out_args args = {
        .to = to ? to->mapped + call->offset : NULL,
        .from = call->from,
        .bytes = call->bytes,
        .sent = weiri_rma_word(rma, rma->place, WEIRI_RMA_SENT, place, call->index),
        .arrived = weiri_rma_word(rma, place, WEIRI_RMA_ARRIVED, rma->place, call->index)};
    weir_status status = rma_check_source(node, call);
    if (status == WEIR_OK && call->bytes > SHORT_BYTES) {
        const cudaError_t error =
            cudaMemcpyAsync(args.to, args.from, call->bytes, cudaMemcpyDefault, call->stream);
        args.bytes = 0;
        if (error != cudaSuccess)
            status = weiri_cuda_fail(WEIR_ERR_SYSTEM, error, "the stream takes no copy for a put");
    }
    if (status == WEIR_OK)
        status = rma_launch(node, kernel, args.bytes ? threads : 1, &args, call->stream);
    return status;
}

weir_status weiri_rma_gpu_out(weiri_nccl_comm *comm, const weiri_nccl_onesided *call,
                              const weiri_window_peer *to)
{
    int before;
    weir_status status = rma_begin(comm, call->stream, &before);
    if (status != WEIR_OK)
        return status;
    status = rma_launch_out(comm, call, to);
    weiri_cuda_leave(weiri_comm_node(comm->comm), before);
    return status == WEIR_OK ? weiri_nccl_gpu_ordered(comm, call->stream) : status;
}

/* Adds a wait to a launch; waits for one count are merged. Returns 0 if there is no room. */
static int rma_add_wait(const weiri_nccl_comm *comm, const weiri_onesided_wait *wait,
                        weiri_rma_wait_args *args)
{
    const weiri_nccl_rma *rma = comm->rma;
    const int place = weiri_comm_node_rank(comm->comm, wait->peer);
    uint64_t *taken = weiri_rma_word(rma, rma->place, WEIRI_RMA_TAKEN, place, wait->index);
    for (int i = 0; i < args->count; i++)
        if (args->wait[i].taken == taken) {
            args->wait[i].count += wait->count;
            return 1;
        }
    if (args->count == WEIRI_RMA_WAITS_MAX)
        return 0;
    const int i = args->count++;
    args->wait[i].arrived = weiri_rma_word(rma, rma->place, WEIRI_RMA_ARRIVED, place, wait->index);
    args->wait[i].taken = taken;
    args->wait[i].count = wait->count;
    args->wait[i].peer = place;
    return 1;
}

/* Launches the waits from *next on that fit into one launch. */
static weir_status rma_launch_waits(weiri_nccl_comm *comm, const weiri_nccl_onesided *call,
                                    int *next)
{
    const weir_comm *node = weiri_comm_node(comm->comm);
    weiri_rma_wait_args args = {.guard = node->gpu->ops->guard(node)};
    int threads = 0;
    const void *kernel = weiri_nccl_wait_kernel(&threads);
    for (; *next < call->nwaits; ++*next)
        if (!weiri_p2p_is_remote(comm, call->waits[*next].peer) &&
            !rma_add_wait(comm, &call->waits[*next], &args))
            break;
    return args.count ? rma_launch(node, kernel, threads, &args, call->stream) : WEIR_OK;
}

weir_status weiri_rma_gpu_wait(weiri_nccl_comm *comm, const weiri_nccl_onesided *call)
{
    int before, next = 0;
    weir_status status = rma_begin(comm, call->stream, &before);
    if (status != WEIR_OK)
        return status;
    while (next < call->nwaits && status == WEIR_OK)
        status = rma_launch_waits(comm, call, &next);
    weiri_cuda_leave(weiri_comm_node(comm->comm), before);
    return status == WEIR_OK ? weiri_nccl_gpu_ordered(comm, call->stream) : status;
}
