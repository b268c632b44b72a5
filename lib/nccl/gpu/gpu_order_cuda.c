/*
 * The order of a communicator's calls on GPUs, whose kernels must run one after another.
 *
 * Most programs use one stream per communicator, which costs nothing. When another stream is first
 * seen, the device is synchronised; from then on an event is recorded after each call, and the
 * stream of the next call waits for it.
 *
 * cudaStreamPerThread is another stream in every thread, but has one handle. It is therefore never
 * taken for the stream of the last call, and an event is recorded after each call in it.
 *
 * Of two calls in branches of one capture, the later waits for the earlier through an event, which
 * leaves only an edge in the graph. A graph waits for the calls before it, and later calls wait for
 * the graph: its first call comes after a node that waits for the event of the last call, and a
 * node after its last call records that event whenever the graph runs. CUDA cannot remove a node
 * from a graph being captured, so each call moves that node to after itself. Bodies of conditional
 * nodes, and graphs launched from the device, may not contain such nodes; for them
 * NCCL_GRAPH_MIXING_SUPPORT=0 leaves the order between graphs and other calls to the program, as
 * with NCCL.
 */
#include "nccl/gpu/gpu.h"

#include "base/env.h"
#include "base/error.h"
#include "comm/gpu/gpu_cuda.h"

#include <stdint.h>
#include <string.h>

/* A capture to which this stream does not belong, or one that has failed. */
#define FOREIGN_CAPTURE UINT64_MAX

/* Whether a call follows the last one in the same stream. */
static int is_same_stream(void *last, cudaStream_t stream)
{
    return (cudaStream_t)last == stream && stream != cudaStreamPerThread;
}

/* ------------------------------------------------------------------ captures */

/* What CUDA reports about a stream being captured. */
typedef struct capture {
    enum cudaStreamCaptureStatus status;
    unsigned long long id; /* unique in the process */
    cudaGraph_t graph;
    const cudaGraphNode_t *tips; /* the nodes after which the stream's next node will come */
    size_t ntips;
} capture;

/* Since CUDA 13 these functions also return and accept edge data. The graph is requested only if
 * needed, because that fails if edges have data. */
static cudaError_t get_capture(cudaStream_t stream, capture *at, int with_graph)
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

static cudaError_t get_edges(cudaGraphNode_t to, cudaGraphNode_t *from, size_t *count)
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

/* Puts a node after the tips and, unless the graph allocates memory, which fixes its edges, after
 * nothing else: edges to earlier calls are redundant and cost time. */
static cudaError_t move_after(const capture *at, cudaGraphNode_t node)
{
    enum { EDGES_MOST = 64 };
    cudaGraphNode_t old[EDGES_MOST];
    size_t count = EDGES_MOST;
    cudaError_t error = get_edges(node, old, &count);
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
    if (get_capture(stream, &at, 0) != cudaSuccess) {
        cudaGetLastError(); /* the legacy stream during a capture */
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
    weir_status status =
        weiri_cuda_check(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "no event");
    weiri_cuda_restore(mode);
    *event = made;
    return status;
}

static weir_status record_event(void **event, cudaStream_t stream)
{
    weir_status status = make_event(event);
    if (status != WEIR_OK)
        return status;
    return weiri_cuda_check(cudaEventRecord((cudaEvent_t)*event, stream),
                            "a stream takes no event");
}

static weir_status stream_wait(void *event, cudaStream_t stream, unsigned flags)
{
    return weiri_cuda_check(cudaStreamWaitEvent(stream, (cudaEvent_t)event, flags),
                            "a stream cannot wait for another one");
}

/* ------------------------------------------------------------ calls in graphs */

static int is_mixing_supported(void)
{
    const char *value = weiri_env(WEIRI_ENV_NCCL_GRAPH_MIXING_SUPPORT);
    return !value || strcmp(value, "0") != 0;
}

/* The entry of the current capture; a new one replaces the oldest. */
static weiri_nccl_capture *find_capture(weiri_nccl_order *order)
{
    for (int i = 0; i < WEIRI_NCCL_CAPTURES; i++)
        if (order->captures[i].id == order->present)
            return &order->captures[i];
    weiri_nccl_capture *found = &order->captures[order->ncaptures++ % WEIRI_NCCL_CAPTURES];
    *found = (weiri_nccl_capture){.id = order->present, .event = found->event};
    return found;
}

/* The first call of a graph waits for earlier calls whenever the graph runs, later ones for the
 * call before. */
static weir_status order_captured(weiri_nccl_order *order, cudaStream_t stream)
{
    const weiri_nccl_capture *in = find_capture(order);
    if (in->has_call)
        return is_same_stream(in->stream, stream)
                   ? WEIR_OK
                   : stream_wait(in->event, stream, cudaEventWaitDefault);
    if (!is_mixing_supported())
        return WEIR_OK;
    order->has_graphs = 1;
    weir_status status = make_event(&order->last);
    return status == WEIR_OK ? stream_wait(order->last, stream, cudaEventWaitExternal) : status;
}

/* Puts the node that records the event of the last call after what is in the stream now. */
static weir_status place_record_node(const weiri_nccl_order *order, weiri_nccl_capture *in,
                                     cudaStream_t stream)
{
    capture at = {.status = cudaStreamCaptureStatusNone};
    cudaGraphNode_t node = in->record;
    cudaError_t error = get_capture(stream, &at, 1);
    if (error == cudaSuccess && (at.status != cudaStreamCaptureStatusActive || at.id != in->id))
        error = cudaErrorStreamCaptureInvalidated;
    if (error == cudaSuccess && in->tip && at.ntips == 1 && at.tips[0] == in->tip)
        return WEIR_OK; /* the call had nothing to do */
    if (error == cudaSuccess && node)
        error = move_after(&at, node);
    else if (error == cudaSuccess)
        error = cudaGraphAddEventRecordNode(&node, at.graph, at.tips, at.ntips,
                                            (cudaEvent_t)order->last);
    if (error != cudaSuccess)
        return weiri_cuda_check(error, "a graph takes no event");
    in->record = node;
    in->tip = at.ntips == 1 ? at.tips[0] : NULL;
    return WEIR_OK;
}

static weir_status end_captured(weiri_nccl_order *order, cudaStream_t stream)
{
    weiri_nccl_capture *in = find_capture(order);
    weir_status status = record_event(&in->event, stream);
    if (status == WEIR_OK && is_mixing_supported())
        status = place_record_node(order, in, stream);
    in->has_call |= status == WEIR_OK;
    in->stream = stream;
    return status;
}

/* ------------------------------------------------------------- calls and order */

/* A call without an event after it is waited for once, with everything else on the device. */
static weir_status order_uncaptured(weiri_nccl_order *order, cudaStream_t stream)
{
    weir_status status = WEIR_OK;
    if (order->is_unmarked && order->stream != stream)
        status = weiri_cuda_check(cudaDeviceSynchronize(), "cannot wait for the GPU");
    if (status != WEIR_OK)
        return status;
    return order->last ? stream_wait(order->last, stream, cudaEventWaitDefault)
                       : make_event(&order->last);
}

weir_status weiri_nccl_gpu_order(weiri_nccl_comm *comm, cudaStream_t stream)
{
    weiri_nccl_order *order = &comm->order;
    int before;
    order->present = capture_of(stream);
    if (order->present == FOREIGN_CAPTURE)
        return WEIR_OK;
    /* once there are graphs, one may have run since the last call */
    if (!order->present && !order->has_graphs &&
        (!order->has_stream || is_same_stream(order->stream, stream)))
        return WEIR_OK;
    weir_status status = weiri_cuda_enter(comm->comm, &before);
    if (status == WEIR_OK)
        status = order->present ? order_captured(order, stream) : order_uncaptured(order, stream);
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
    if (!order->present && !order->last && stream != cudaStreamPerThread)
        return WEIR_OK;
    weir_status status = weiri_cuda_enter(comm->comm, &before);
    if (status == WEIR_OK && !order->present)
        status = make_event(&order->last);
    if (status == WEIR_OK)
        status = order->present ? end_captured(order, stream) : record_event(&order->last, stream);
    weiri_cuda_leave(comm->comm, before);
    if (status == WEIR_OK && !order->present)
        order->is_unmarked = 0;
    return status;
}

weir_status weiri_nccl_gpu_follow(weiri_nccl_comm *comm, cudaStream_t stream, cudaStream_t before)
{
    int device;
    weir_status status = weiri_cuda_enter(comm->comm, &device);
    if (status == WEIR_OK)
        status = record_event(&comm->order.join, before);
    if (status == WEIR_OK)
        status = stream_wait(comm->order.join, stream, cudaEventWaitDefault);
    weiri_cuda_leave(comm->comm, device);
    return status;
}

/* Whether the event of the last call or graph has occurred, and the call without an event is
 * done. */
static cudaError_t query_last(const weiri_nccl_order *order)
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
    cudaError_t error = query_last(&comm->order);
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

void weiri_nccl_gpu_order_end(weiri_nccl_comm *comm)
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
    if (!order->has_graphs) /* graphs may outlive the communicator and refer to the event */
        drop_event(order->last);
    *order = (weiri_nccl_order){0};
    weiri_cuda_leave(comm->comm, before);
}
