/*
 * Timers of work in streams, for monitoring: two events. A timer is read while other streams, also
 * of other threads, may be captured in the strictest mode, which forbids to query events; so the
 * thread is exempted from that for the duration of the call.
 */
#include "comm/gpu/gpu_cuda.h"

#include <stdlib.h>

typedef struct gpu_timer {
    cudaEvent_t begin, end;
} gpu_timer;

/* Monitoring reports no errors: what fails is not timed. */
static weir_status gpu_timer_result(cudaError_t error)
{
    if (error == cudaSuccess)
        return WEIR_OK;
    (void)cudaGetLastError();
    return WEIR_ERR_SYSTEM;
}

void weiri_gpu_timer_destroy(const weir_comm *comm, void *opaque)
{
    gpu_timer *timer = opaque;
    int before;
    if (weiri_cuda_enter(comm, &before) == WEIR_OK) {
        if (timer->begin)
            (void)cudaEventDestroy(timer->begin);
        if (timer->end)
            (void)cudaEventDestroy(timer->end);
    }
    weiri_cuda_leave(comm, before);
    free(timer);
}

void *weiri_gpu_timer_create(const weir_comm *comm)
{
    int before;
    gpu_timer *timer = calloc(1, sizeof *timer);
    if (!timer)
        return NULL;
    weir_status status = weiri_cuda_enter(comm, &before);
    if (status == WEIR_OK)
        status = gpu_timer_result(cudaEventCreate(&timer->begin));
    if (status == WEIR_OK)
        status = gpu_timer_result(cudaEventCreate(&timer->end));
    weiri_cuda_leave(comm, before);
    if (status == WEIR_OK)
        return timer;
    weiri_gpu_timer_destroy(comm, timer);
    return NULL;
}

static weir_status gpu_timer_record(const weir_comm *comm, cudaEvent_t event, weir_stream stream)
{
    int before;
    weir_status status = weiri_cuda_enter(comm, &before);
    if (status == WEIR_OK)
        status = gpu_timer_result(cudaEventRecord(event, (cudaStream_t)stream));
    weiri_cuda_leave(comm, before);
    return status;
}

weir_status weiri_gpu_timer_start(const weir_comm *comm, void *timer, weir_stream stream)
{
    return gpu_timer_record(comm, ((gpu_timer *)timer)->begin, stream);
}

weir_status weiri_gpu_timer_stop(const weir_comm *comm, void *timer, weir_stream stream)
{
    return gpu_timer_record(comm, ((gpu_timer *)timer)->end, stream);
}

weir_status weiri_gpu_timer_read(const weir_comm *comm, void *opaque, int *ended,
                                 uint64_t *duration_ns)
{
    const gpu_timer *timer = opaque;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    int before;
    float ms = 0;
    weir_status status = weiri_cuda_enter(comm, &before);
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    cudaError_t error = status == WEIR_OK ? cudaEventQuery(timer->end) : cudaErrorNotReady;
    *ended = error == cudaSuccess;
    if (*ended)
        error = cudaEventElapsedTime(&ms, timer->begin, timer->end);
    if (error == cudaErrorNotReady)
        (void)cudaGetLastError();
    else
        status = gpu_timer_result(error);
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    weiri_cuda_leave(comm, before);
    *ended = *ended && status == WEIR_OK;
    *duration_ns = (uint64_t)((double)ms * 1e6);
    return status;
}
