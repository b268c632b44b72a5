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
 * call moves that node behind itself. Bodies of conditional nodes and graphs that are launched
 * from the device may have no such nodes; for them NCCL_GRAPH_MIXING_SUPPORT=0 leaves the order
 * between graphs and other calls to the program, as with NCCL.
 */
#include "nccl/gpu.h"

#include "base/env.h"
#include "base/error.h"
#include "comm/gpu/gpu_cuda.h"

#include <stdint.h>
#include <string.h>

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

/* With CUDA 13 these calls also tell and take data of edges. What needs no graph does not ask
 * for one, as that fails where edges have data. */
static cudaError_t ask_capture(cudaStream_t stream, capture *at, int with_graph)
{
    cudaGraph_t *graph = with_graph ? &at->graph : NULL;
    const cudaGraphNode_t **tips = with_graph ? &at->tips : NULL;
    size_t *ntips = with_graph ? &at->ntips : NULL;
#if CUDART_VERSION >= 13000
    return cudaStreamGetCaptureInfo(stream, &at->status, &at->id, graph, tips, NULL, ntips);
#else
    return cudaStreamGetCaptureInfo_v2(stream, &at->status, &at->id, graph, tips, ntips);
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
    count = count < EDGES_MOST ? count : EDGES_MOST;
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
    if (ask_capture(stream, &at, 0) != cudaSuccess) {
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

/* ------------------------------------------------------------ calls in graphs */

static int is_mixed(void)
{
    const char *value = weiri_env(WEIRI_ENV_NCCL_GRAPH_MIXING_SUPPORT);
    return !value || strcmp(value, "0") != 0;
}

/* That of the present call; a new one takes the place of the oldest. */
static weiri_nccl_capture *find_capture(weiri_nccl_order *order)
{
    for (int i = 0; i < WEIRI_NCCL_CAPTURES; i++)
        if (order->captures[i].id == order->present)
            return &order->captures[i];
    weiri_nccl_capture *found = &order->captures[order->ncaptures++ % WEIRI_NCCL_CAPTURES];
    *found = (weiri_nccl_capture){.id = order->present, .event = found->event};
    return found;
}

/* The first call waits whenever the graph runs, others for the one before. */
static weir_status order_captured(weiri_nccl_order *order, cudaStream_t stream)
{
    const weiri_nccl_capture *in = find_capture(order);
    if (in->has_call)
        return in->stream == stream ? WEIR_OK : await(in->event, stream, cudaEventWaitDefault);
    if (!is_mixed())
        return WEIR_OK;
    order->has_graphs = 1;
    weir_status status = make_event(&order->last);
    return status == WEIR_OK ? await(order->last, stream, cudaEventWaitExternal) : status;
}

/* Puts the node that records the event of the last call behind what is in the stream now. */
static weir_status put_record(const weiri_nccl_order *order, weiri_nccl_capture *in,
                              cudaStream_t stream)
{
    capture at = {.status = cudaStreamCaptureStatusNone};
    cudaGraphNode_t node = in->record;
    cudaError_t error = ask_capture(stream, &at, 1);
    if (error == cudaSuccess && (at.status != cudaStreamCaptureStatusActive || at.id != in->id))
        error = cudaErrorStreamCaptureInvalidated;
    if (error == cudaSuccess && in->tip && at.ntips == 1 && at.tips[0] == in->tip)
        return WEIR_OK; /* the call had nothing to do */
    if (error == cudaSuccess && node)
        error = move_behind(&at, node);
    else if (error == cudaSuccess)
        error = cudaGraphAddEventRecordNode(&node, at.graph, at.tips, at.ntips,
                                            (cudaEvent_t)order->last);
    if (error != cudaSuccess)
        return check(error, "a graph takes no event");
    in->record = node;
    in->tip = at.ntips == 1 ? at.tips[0] : NULL;
    return WEIR_OK;
}

static weir_status end_captured(weiri_nccl_order *order, cudaStream_t stream)
{
    weiri_nccl_capture *in = find_capture(order);
    weir_status status = record(&in->event, stream);
    if (status == WEIR_OK && is_mixed())
        status = put_record(order, in, stream);
    in->has_call |= status == WEIR_OK;
    in->stream = stream;
    return status;
}

/* ------------------------------------------------------------- calls and order */

/* The call that has no event behind it is waited for once, with all that the device does. */
static weir_status order_plain(weiri_nccl_order *order, cudaStream_t stream)
{
    weir_status status = WEIR_OK;
    if (order->is_unmarked && order->stream != stream)
        status = check(cudaDeviceSynchronize(), "cannot wait for the GPU");
    if (status != WEIR_OK)
        return status;
    return order->last ? await(order->last, stream, cudaEventWaitDefault)
                       : make_event(&order->last);
}

weir_status weiri_nccl_gpu_order(weiri_nccl_comm *comm, cudaStream_t stream)
{
    weiri_nccl_order *order = &comm->order;
    int before;
    order->present = capture_of(stream);
    if (order->present == FOREIGN_CAPTURE)
        return WEIR_OK;
    /* Once there are graphs, one may have run since the last call. */
    if (!order->present && !order->has_graphs && (!order->has_stream || order->stream == stream))
        return WEIR_OK;
    weir_status status = weiri_cuda_enter(comm->comm, &before);
    if (status == WEIR_OK)
        status = order->present ? order_captured(order, stream) : order_plain(order, stream);
    weiri_cuda_leave(comm->comm, before);
    return status;
}

weir_status weiri_nccl_gpu_ordered(weiri_nccl_comm *comm, cudaStream_t stream)
{
    weiri_nccl_order *order = &comm->order;
    int before;
    if (order->present == FOREIGN_CAPTURE)
        return WEIR_OK;
    if (!order->present) {
        order->has_stream = order->is_unmarked = 1;
        order->stream = stream;
    }
    if (!order->present && !order->last)
        return WEIR_OK;
    weir_status status = weiri_cuda_enter(comm->comm, &before);
    if (status == WEIR_OK)
        status = order->present ? end_captured(order, stream) : record(&order->last, stream);
    weiri_cuda_leave(comm->comm, before);
    if (status == WEIR_OK && !order->present)
        order->is_unmarked = 0;
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

/* Whether the event of the last call or graph has come, and the call that has none is done. */
static cudaError_t query(const weiri_nccl_order *order)
{
    cudaError_t error = order->last ? cudaEventQuery((cudaEvent_t)order->last) : cudaSuccess;
    if (error == cudaSuccess && order->is_unmarked && !capture_of(order->stream))
        error = cudaStreamQuery(order->stream);
    return error;
}

int weiri_nccl_gpu_is_busy(const weiri_nccl_comm *comm)
{
    int before;
    if (weiri_cuda_enter(comm->comm, &before) != WEIR_OK)
        return 0;
    enum cudaStreamCaptureMode mode = weiri_cuda_relax();
    cudaError_t error = query(&comm->order);
    weiri_cuda_restore(mode);
    weiri_cuda_leave(comm->comm, before);
    if (error != cudaSuccess)
        cudaGetLastError();
    return error == cudaErrorNotReady;
}

static void drop_event(void *event)
{
    if (event)
        cudaEventDestroy((cudaEvent_t)event);
}

void weiri_nccl_gpu_forget(weiri_nccl_comm *comm)
{
    weiri_nccl_order *order = &comm->order;
    int before;
    if (!comm->comm || !comm->comm->gpu || weiri_cuda_enter(comm->comm, &before) != WEIR_OK)
        return;
    if (cudaDeviceSynchronize() != cudaSuccess)
        cudaGetLastError();
    for (int i = 0; i < WEIRI_NCCL_CAPTURES; i++)
        drop_event(order->captures[i].event);
    drop_event(order->join);
    if (!order->has_graphs) /* which may outlive the communicator, and name the event */
        drop_event(order->last);
    *order = (weiri_nccl_order){0};
    weiri_cuda_leave(comm->comm, before);
}
