/*
 * The order of a communicator's calls on GPUs, whose kernels must run one after another.
 *
 * Most programs use one stream for a communicator, and pay nothing. Once another one is seen,
 * the device is waited for, and from then on an event behind each call lets the next one's
 * stream wait. While a graph is captured there is an event behind each call as well, which
 * costs the graph nothing: of two calls in branches of one capture the later waits for the
 * earlier. Between a graph and what is not of it the program keeps the order.
 */
#include "nccl/gpu.h"

#include "base/error.h"
#include "comm/gpu_cuda.h"

#include <stdint.h>

/* In a capture that this stream has no part in. */
#define FOREIGN_CAPTURE UINT64_MAX

static weir_status check(cudaError_t error, const char *what)
{
    return error == cudaSuccess ? WEIR_OK : weiri_cuda_fail(WEIR_ERR_SYSTEM, error, what);
}

static cudaError_t ask_capture(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                               unsigned long long *id)
{
#if CUDART_VERSION >= 13000
    return cudaStreamGetCaptureInfo(stream, status, id, NULL, NULL, NULL, NULL);
#else
    return cudaStreamGetCaptureInfo_v2(stream, status, id, NULL, NULL, NULL);
#endif
}

/* The number of the capture that the stream is in, of which a process has no two; 0: none. */
static uint64_t capture_of(cudaStream_t stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long id = 0;
    if (ask_capture(stream, &status, &id) != cudaSuccess) {
        cudaGetLastError(); /* the legacy stream beside a capture */
        return FOREIGN_CAPTURE;
    }
    if (status == cudaStreamCaptureStatusNone)
        return 0;
    return status == cudaStreamCaptureStatusActive ? id : FOREIGN_CAPTURE;
}

static weir_status make_event(void **event)
{
    cudaEvent_t made = NULL;
    enum cudaStreamCaptureMode mode = weiri_cuda_relax();
    weir_status status = check(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "no event");
    weiri_cuda_restore(mode);
    *event = made;
    return status;
}

static weir_status record(void **event, cudaStream_t stream)
{
    weir_status status = *event ? WEIR_OK : make_event(event);
    if (status != WEIR_OK)
        return status;
    return check(cudaEventRecord((cudaEvent_t)*event, stream), "a stream takes no event");
}

static weir_status await(void *event, cudaStream_t stream)
{
    return check(cudaStreamWaitEvent(stream, (cudaEvent_t)event, 0),
                 "a stream cannot wait for another one");
}

/* A second stream is seen for the first time. */
static weir_status begin_events(weiri_nccl_mark *plain)
{
    weir_status status = check(cudaDeviceSynchronize(), "cannot wait for the GPU");
    return status == WEIR_OK ? make_event(&plain->event) : status;
}

weir_status weiri_nccl_gpu_order(weiri_nccl_comm *comm, cudaStream_t stream)
{
    weiri_nccl_order *order = &comm->order;
    int before;
    order->present = capture_of(stream);
    weiri_nccl_mark *last = order->present ? &order->captured : &order->plain;
    const int is_first = !last->is_set || (order->present && order->present != order->capture);
    if (is_first || last->stream == stream)
        return WEIR_OK;
    weir_status status = weiri_cuda_enter(comm->comm, &before);
    if (status == WEIR_OK)
        status = last->event ? await(last->event, stream) : begin_events(last);
    weiri_cuda_leave(comm->comm, before);
    return status;
}

weir_status weiri_nccl_gpu_ordered(weiri_nccl_comm *comm, cudaStream_t stream)
{
    weiri_nccl_order *order = &comm->order;
    weiri_nccl_mark *last = order->present ? &order->captured : &order->plain;
    weir_status status = WEIR_OK;
    int before;
    if (order->present == FOREIGN_CAPTURE)
        return WEIR_OK;
    if (order->present || last->event) {
        status = weiri_cuda_enter(comm->comm, &before);
        if (status == WEIR_OK)
            status = record(&last->event, stream);
        weiri_cuda_leave(comm->comm, before);
    }
    if (status != WEIR_OK)
        return status;
    order->capture = order->present ? order->present : order->capture;
    last->is_set = 1;
    last->stream = stream;
    return WEIR_OK;
}

weir_status weiri_nccl_gpu_follow(weiri_nccl_comm *comm, cudaStream_t stream,
                                  cudaStream_t before)
{
    int device;
    weir_status status = weiri_cuda_enter(comm->comm, &device);
    if (status == WEIR_OK)
        status = record(&comm->order.join, before);
    if (status == WEIR_OK)
        status = await(comm->order.join, stream);
    weiri_cuda_leave(comm->comm, device);
    return status;
}

int weiri_nccl_gpu_is_busy(const weiri_nccl_comm *comm)
{
    const weiri_nccl_mark *last = &comm->order.plain;
    if (!last->is_set || capture_of(last->stream))
        return 0;
    cudaError_t error = cudaStreamQuery(last->stream);
    if (error != cudaSuccess)
        cudaGetLastError();
    return error == cudaErrorNotReady;
}

void weiri_nccl_gpu_forget(weiri_nccl_comm *comm)
{
    void *const events[] = {comm->order.plain.event, comm->order.captured.event, comm->order.join};
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
