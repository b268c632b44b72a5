/*
 * Choosing each rank's GPU, and the reasons why ranks cannot have one: the driver, the devices that
 * the process sees, two ranks on one GPU, more ranks per node than kernels support, or a build
 * without most kernels or without kernels for the GPU.
 */
#include "comm/gpu/gpu_cuda.h"

#include "base/env.h"
#include "base/error.h"
#include "base/gpu_code.h"

#include <string.h>

int weiri_cuda_lacks_code(int device, char *text, size_t bytes)
{
    int major = 0, minor = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess)
        return weiri_gpu_code_missing(device, major, minor, text, bytes);
    cudaGetLastError();
    return 0;
}

/* Explains a failure of cudaGetDeviceCount. */
static weir_status device_fail_driver(cudaError_t error)
{
    int driver = 0, runtime = 0;
    cudaGetLastError();
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    cudaGetLastError();
    if (error == cudaErrorInsufficientDriver && driver)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "backend cuda: the GPU driver is too old: it supports CUDA %d.%d, but "
                          "this build needs %d.%d; install a newer driver, or build with an older "
                          "toolkit",
                          driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    return weiri_fail(WEIR_ERR_UNSUPPORTED,
                      "backend cuda: this process cannot use a GPU (%s); install a driver and give "
                      "the process access to a GPU, or use the host backend",
                      driver ? cudaGetErrorString(error) : "there is no GPU driver");
}

/* Finds this rank's device: the requested one, else by local rank. */
static weir_status device_find(const weir_comm *comm, int wanted, weiri_gpu_info *info)
{
    int count = 0;
    char lacks[WEIRI_GPU_CODE_TEXT_BYTES];
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess)
        return device_fail_driver(error);
    if (count == 0)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "backend cuda: this process sees no GPU; use the host backend, or give "
                          "it one (CUDA_VISIBLE_DEVICES, the container's devices)");
    if (wanted >= count)
        return weiri_fail(WEIR_ERR_INVALID, "backend cuda: there is no GPU %d; expected 0 to %d",
                          wanted, count - 1);
    int index = comm->parent ? comm->parent->hardware_rank : comm->local_rank;
    info->device = wanted >= 0 ? wanted : index % count;
    error = cudaDeviceGetPCIBusId(info->bus, sizeof info->bus, info->device);
    if (error != cudaSuccess)
        return weiri_cuda_fail(WEIR_ERR_UNSUPPORTED, error, "cannot query the bus id of the GPU");
    if (weiri_cuda_lacks_code(info->device, lacks, sizeof lacks))
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "backend cuda: %s", lacks);
#if WEIR_FEW_KERNELS
    return weiri_fail(WEIR_ERR_UNSUPPORTED,
                      "backend cuda: this build has only some of the kernels, as it was made by "
                      "make test on a machine without a GPU; run make");
#else
    return WEIR_OK;
#endif
}

weir_status weiri_cuda_exchange(weir_comm *comm, weir_status mine)
{
    weir_status worst = WEIR_OK;
    weiri_cuda_info_of(comm, comm->rank)->status = mine;
    weir_status barrier = weir_boot_barrier(comm->boot);
    for (int rank = 0; barrier == WEIR_OK && rank < comm->nranks; rank++)
        if (weiri_cuda_info_of(comm, rank)->status < worst)
            worst = (weir_status)weiri_cuda_info_of(comm, rank)->status;
    if (barrier == WEIR_OK)
        barrier = weir_boot_barrier(comm->boot);
    return barrier != WEIR_OK ? barrier : worst;
}

/* Sharing must be allowed on all ranks: their environments may differ, and they must agree. */
static int device_may_be_shared(const weir_comm *comm)
{
    int all = 1;
    for (int rank = 0; rank < comm->nranks; rank++)
        all &= weiri_cuda_info_of(comm, rank)->shares;
    return all;
}

/* Checks the ranks' devices; all ranks reach the same result. */
static weir_status device_check_all(const weir_comm *comm)
{
    if (comm->nranks > WEIRI_GPU_RANKS_MAX)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "backend cuda: %d ranks; at most %d GPUs of one node are supported: "
                          "start fewer ranks, or use the host backend",
                          comm->nranks, WEIRI_GPU_RANKS_MAX);
    for (int rank = 0; rank < comm->nranks; rank++)
        for (int other = 0; other < rank && !device_may_be_shared(comm); other++)
            if (strcmp(weiri_cuda_info_of(comm, rank)->bus, weiri_cuda_info_of(comm, other)->bus) ==
                0)
                return weiri_fail(WEIR_ERR_UNSUPPORTED,
                                  "backend cuda: ranks %d and %d would share the GPU at %s; start "
                                  "fewer ranks, or set %s=1 on all ranks",
                                  other, rank, weiri_cuda_info_of(comm, rank)->bus,
                                  weiri_env_name(WEIRI_ENV_ALLOW_SHARED_GPU));
    return WEIR_OK;
}

weir_status weiri_cuda_choose_device(weir_comm *comm, int wanted, weir_status *worst)
{
    weiri_gpu_info *info = weiri_cuda_info_of(comm, comm->rank);
    const char *value = weiri_env(WEIRI_ENV_ALLOW_SHARED_GPU);
    info->shares = value && strcmp(value, "1") == 0;
    weir_status status = device_find(comm, wanted, info);
    *worst = weiri_cuda_exchange(comm, status);
    if (*worst == WEIR_OK)
        *worst = status = device_check_all(comm);
    return status;
}
