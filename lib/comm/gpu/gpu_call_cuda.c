/* What all code that calls CUDA for a communicator needs: errors, the current device, loading. */
#include "comm/gpu/gpu_cuda.h"

#include "base/error.h"

weir_status weiri_cuda_fail(weir_status status, cudaError_t error, const char *what)
{
    cudaGetLastError();
    return weiri_fail(status, "%s: %s", what, cudaGetErrorString(error));
}

weir_status weiri_cuda_fail_launch(const weir_comm *comm, cudaError_t error)
{
    int own = comm->gpu->device;
    cudaGetLastError();
    if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction) {
        int major = 0, minor = 0;
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, own);
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, own);
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "this build has no code for GPU %d (compute capability %d.%d): in "
                          "weir's sources, make SM=%d%d builds it",
                          own, major, minor, major, minor);
    }
    return weiri_fail(error == cudaErrorInvalidResourceHandle ? WEIR_ERR_INVALID : WEIR_ERR_SYSTEM,
                      "GPU %d: cannot launch work on the stream: %s", own,
                      cudaGetErrorString(error));
}

weir_status weiri_cuda_enter(const weir_comm *comm, int *before)
{
    *before = -1;
    cudaGetDevice(before);
    if (*before == comm->gpu->device)
        return WEIR_OK;
    const cudaError_t error = cudaSetDevice(comm->gpu->device);
    return error == cudaSuccess
               ? WEIR_OK
               : weiri_cuda_fail(WEIR_ERR_SYSTEM, error, "cannot select the communicator's GPU");
}

void weiri_cuda_leave(const weir_comm *comm, int before)
{
    if (before >= 0 && before != comm->gpu->device)
        cudaSetDevice(before);
}

void weiri_cuda_load(const void *kernel)
{
    struct cudaFuncAttributes ignored;
    if (kernel && cudaFuncGetAttributes(&ignored, kernel) != cudaSuccess)
        cudaGetLastError();
}
