/*
 * The order of a communicator's calls on GPUs, whose kernels must run one after another.
 *
 * Most programs use one stream for a communicator, and pay nothing. Once another one is seen,
 * the device is waited for, and from then on an event behind each call lets the next one's
 * stream wait.
 *
 * Of two calls in branches of one capture the later waits for the earlier by an event, which
 * leaves nothing in the graph but an edge. A graph itself waits for the calls before it, and
 * calls behind it wait for the graph: its first call comes behind a node that waits for the
 * event of the last call, and a node behind its last call records that event whenever the
 * graph runs. CUDA allows no node to be taken out of a graph that is being captured, so each
 * call moves that node behind itself.
 */
#include "nccl/gpu.h"

#include "base/error.h"
#include "comm/gpu_cuda.h"

#include <stdint.h>

/* In a capture that this stream has no part in, or one that has failed. */
#define FOREIGN_CAPTURE UINT64_MAX

static weir_status check(cudaError_t error, const char *what)
{
    return error == cudaSuccess ? WEIR_OK : weiri_cuda_fail(WEIR_ERR_SYSTEM, error, what);
}

/* ------------------------------------------------------------------ captures */

/* What CUDA says of a stream that is captured. */
typedef struct capture {
    enum cudaStreamCaptureStatus status;
    unsigned long long id; /* a process has no two of a number */
    cudaGraph_t graph;
    const cudaGraphNode_t *tips; /* what the stream's next node will come behind */
    size_t ntips;
} capture;

/* With CUDA 13 these calls also tell and take data of edges. */
static cudaError_t ask_capture(cudaStream_t stream, capture *at)
{
#if CUDART_VERSION >= 13000
    return cudaStreamGetCaptureInfo(stream, &at->status, &at->id, &at->graph, &at->tips, NULL,
                                    &at->ntips);
#else
    return cudaStreamGetCaptureInfo_v2(stream, &at->status, &at->id, &at->graph, &at->tips,
                                       &at->ntips);
#endif
}

static cudaError_t add_edge(cudaGraph_t graph, cudaGraphNode_t from, cudaGraphNode_t to)
{
#if CUDART_VERSION >= 13000
    return cudaGraphAddDependencies(graph, &from, &to, NULL, 1);
#else
    return cudaGraphAddDependencies(graph, &from, &to, 1);
#endif
}

static cudaError_t remove_edge(cudaGraph_t graph, cudaGraphNode_t from, cudaGraphNode_t to)
{
#if CUDART_VERSION >= 13000
    return cudaGraphRemoveDependencies(graph, &from, &to, NULL, 1);
#else
    return cudaGraphRemoveDependencies(graph, &from, &to, 1);
#endif
}

static cudaError_t ask_edges(cudaGraphNode_t to, cudaGraphNode_t *from, size_t *count)
{
#if CUDART_VERSION >= 13000
    return cudaGraphNodeGetDependencies(to, from, NULL, count);
#else
    return cudaGraphNodeGetDependencies(to, from, count);
#endif
}

static int is_among(const cudaGraphNode_t *nodes, size_t count, cudaGraphNode_t node)
{
    for (size_t i = 0; i < count; i++)
        if (nodes[i] == node)
            return 1;
    return 0;
}

/* Puts a node behind the tips and, unless the graph allocates memory, which fixes its edges,
 * behind nothing else: edges of earlier calls say nothing new, but take time. */
static cudaError_t move_behind(const capture *at, cudaGraphNode_t node)
{
    enum { EDGES_MOST = 64 };
    cudaGraphNode_t old[EDGES_MOST];
    size_t count = EDGES_MOST;
    cudaError_t error = ask_edges(node, old, &count);
    for (size_t i = 0; i < at->ntips && error == cudaSuccess; i++)
        if (!is_among(old, count, at->tips[i]))
            error = add_edge(at->graph, at->tips[i], node);
    for (size_t i = 0; i < count && error == cudaSuccess; i++)
        if (!is_among(at->tips, at->ntips, old[i]) &&
            remove_edge(at->graph, old[i], node) != cudaSuccess)
            cudaGetLastError();
    return error;
}

/* The number of the capture that the stream is in; 0: none. */
static uint64_t capture_of(cudaStream_t stream)
{
    capture at = {.status = cudaStreamCaptureStatusNone};
    if (ask_capture(stream, &at) != cudaSuccess) {
        cudaGetLastError(); /* the legacy stream beside a capture */
        return FOREIGN_CAPTURE;
    }
    if (at.status == cudaStreamCaptureStatusNone)
        return 0;
    return at.status == cudaStreamCaptureStatusActive ? at.id : FOREIGN_CAPTURE;
}

/* -------------------------------------------------------------------- events */

static weir_status make_event(void **event)
{
    cudaEvent_t made = NULL;
    if (*event)
        return WEIR_OK;
    enum cudaStreamCaptureMode mode = weiri_cuda_relax();
    weir_status status = check(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "no event");
    weiri_cuda_restore(mode);
    *event = made;
    return status;
}

static weir_status record(void **event, cudaStream_t stream)
{
    weir_status status = make_event(event);
    if (status != WEIR_OK)
        return status;
    return check(cudaEventRecord((cudaEvent_t)*event, stream), "a stream takes no event");
}

static weir_status await(void *event, cudaStream_t stream, unsigned flags)
{
    return check(cudaStreamWaitEvent(stream, (cudaEvent_t)event, flags),
                 "a stream cannot wait for another one");
}

/* --------------------------------------------------------------------- order */

/* In a capture: the first call waits whenever the graph runs, others for the one before. */
static weir_status order_captured(weiri_nccl_order *order, cudaStream_t stream)
{
    weir_status status = WEIR_OK;
    if (order->present != order->capture || !order->record) {
        status = make_event(&order->last);
        if (status == WEIR_OK)
            status = await(order->last, stream, cudaEventWaitExternal);
        order->capture = order->present;
        order->record = NULL;
    } else if (order->branch != stream) {
        status = await(order->captured, stream, cudaEventWaitDefault);
    }
    return status;
}

static weir_status order_plain(weiri_nccl_order *order, cudaStream_t stream)
{
    if (order->last)
        return await(order->last, stream, cudaEventWaitDefault);
    /* A second stream is seen for the first time. */
    weir_status status = check(cudaDeviceSynchronize(), "cannot wait for the GPU");
    return status == WEIR_OK ? make_event(&order->last) : status;
}

weir_status weiri_nccl_gpu_order(weiri_nccl_comm *comm, cudaStream_t stream)
{
    weiri_nccl_order *order = &comm->order;
    int before;
    order->present = capture_of(stream);
    if (order->present == FOREIGN_CAPTURE)
        return WEIR_OK;
    /* Once there are graphs, one may have run since the last call. */
    if (!order->present && !order->capture && (!order->has_stream || order->stream == stream))
        return WEIR_OK;
    weir_status status = weiri_cuda_enter(comm->comm, &before);
    if (status == WEIR_OK)
        status = order->present ? order_captured(order, stream) : order_plain(order, stream);
    weiri_cuda_leave(comm->comm, before);
    return status;
}

/* Puts the node that records `last` behind what is in the stream now. */
static weir_status put_record(weiri_nccl_order *order, cudaStream_t stream)
{
    capture at = {.status = cudaStreamCaptureStatusNone};
    cudaGraphNode_t node = order->record;
    cudaError_t error = ask_capture(stream, &at);
    if (error == cudaSuccess && node)
        error = move_behind(&at, node);
    else if (error == cudaSuccess)
        error = cudaGraphAddEventRecordNode(&node, at.graph, at.tips, at.ntips,
                                            (cudaEvent_t)order->last);
    order->record = node;
    return check(error, "a graph takes no event");
}

static weir_status end_captured(weiri_nccl_order *order, cudaStream_t stream)
{
    weir_status status = record(&order->captured, stream);
    if (status == WEIR_OK)
        status = put_record(order, stream);
    order->branch = stream;
    return status;
}

weir_status weiri_nccl_gpu_ordered(weiri_nccl_comm *comm, cudaStream_t stream)
{
    weiri_nccl_order *order = &comm->order;
    int before;
    if (order->present == FOREIGN_CAPTURE)
        return WEIR_OK;
    if (!order->present) {
        order->has_stream = 1;
        order->stream = stream;
    }
    if (!order->present && !order->last)
        return WEIR_OK;
    weir_status status = weiri_cuda_enter(comm->comm, &before);
    if (status == WEIR_OK)
        status = order->present ? end_captured(order, stream) : record(&order->last, stream);
    weiri_cuda_leave(comm->comm, before);
    return status;
}

weir_status weiri_nccl_gpu_follow(weiri_nccl_comm *comm, cudaStream_t stream,
                                  cudaStream_t before)
{
    int device;
    weir_status status = weiri_cuda_enter(comm->comm, &device);
    if (status == WEIR_OK)
        status = record(&comm->order.join, before);
    if (status == WEIR_OK)
        status = await(comm->order.join, stream, cudaEventWaitDefault);
    weiri_cuda_leave(comm->comm, device);
    return status;
}

int weiri_nccl_gpu_is_busy(const weiri_nccl_comm *comm)
{
    const weiri_nccl_order *order = &comm->order;
    cudaError_t error = cudaSuccess;
    enum cudaStreamCaptureMode mode = weiri_cuda_relax();
    if (order->last)
        error = cudaEventQuery((cudaEvent_t)order->last);
    else if (order->has_stream && !capture_of(order->stream))
        error = cudaStreamQuery(order->stream);
    weiri_cuda_restore(mode);
    if (error != cudaSuccess)
        cudaGetLastError();
    return error == cudaErrorNotReady;
}

void weiri_nccl_gpu_forget(weiri_nccl_comm *comm)
{
    void *const events[] = {comm->order.last, comm->order.captured, comm->order.join};
    int before;
    if (!comm->comm || !comm->comm->gpu || weiri_cuda_enter(comm->comm, &before) != WEIR_OK)
        return;
    if (cudaDeviceSynchronize() != cudaSuccess)
        cudaGetLastError();
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i])
            cudaEventDestroy((cudaEvent_t)events[i]);
    comm->order = (weiri_nccl_order){0};
    weiri_cuda_leave(comm->comm, before);
}
