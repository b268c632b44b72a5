/*
 * Choosing each rank's GPU, and the reasons why ranks cannot have one: the driver, the devices that
 * the process sees, two ranks on one GPU, or more ranks per node than kernels support.
 */
#include "comm/gpu/gpu_cuda.h"

#include "base/env.h"
#include "base/error.h"

#include <string.h>

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
                          "backend cuda: the GPU driver is too old, it serves CUDA %d.%d and this "
                          "build is of %d.%d: install a newer driver, or build with that toolkit",
                          driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    return weiri_fail(WEIR_ERR_UNSUPPORTED,
                      "backend cuda: no GPU can be used here (%s): install a driver and give the "
                      "process access to a GPU, or use the host backend",
                      driver ? cudaGetErrorString(error) : "there is no GPU driver");
}

/* Finds this rank's device: the requested one, else by local rank. */
static weir_status device_find(const weir_comm *comm, int wanted, weiri_gpu_info *card)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess)
        return device_fail_driver(error);
    if (count == 0)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "backend cuda: this process sees no GPU; use the host backend, or give "
                          "it one (CUDA_VISIBLE_DEVICES, the container's devices)");
    if (wanted >= count)
        return weiri_fail(WEIR_ERR_INVALID, "backend cuda: there is no GPU %d, only 0 to %d",
                          wanted, count - 1);
    int turn = comm->parent ? comm->parent->hardware_rank : comm->local_rank;
    card->device = wanted >= 0 ? wanted : turn % count;
    error = cudaDeviceGetPCIBusId(card->bus, sizeof card->bus, card->device);
    return error == cudaSuccess
               ? WEIR_OK
               : weiri_cuda_fail(WEIR_ERR_UNSUPPORTED, error, "cannot name the GPU");
}

weir_status weiri_cuda_exchange(weir_comm *comm, weir_status mine)
{
    weir_status worst = WEIR_OK;
    weiri_cuda_info_of(comm, comm->rank)->status = mine;
    weir_status met = weir_boot_barrier(comm->boot);
    for (int rank = 0; met == WEIR_OK && rank < comm->nranks; rank++)
        if (weiri_cuda_info_of(comm, rank)->status < worst)
            worst = (weir_status)weiri_cuda_info_of(comm, rank)->status;
    if (met == WEIR_OK)
        met = weir_boot_barrier(comm->boot);
    return met != WEIR_OK ? met : worst;
}

static int device_may_be_shared_by_this_rank(void)
{
    const char *value = weiri_env(WEIRI_ENV_ALLOW_SHARED_GPU);
    return value && strcmp(value, "1") == 0;
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
                                  "fewer ranks, or set %s=1 on all",
                                  other, rank, weiri_cuda_info_of(comm, rank)->bus,
                                  weiri_env_name(WEIRI_ENV_ALLOW_SHARED_GPU));
    return WEIR_OK;
}

weir_status weiri_cuda_choose_device(weir_comm *comm, int wanted, weir_status *worst)
{
    weiri_gpu_info *card = weiri_cuda_info_of(comm, comm->rank);
    card->shares = device_may_be_shared_by_this_rank();
    weir_status status = device_find(comm, wanted, card);
    *worst = weiri_cuda_exchange(comm, status);
    if (*worst == WEIR_OK)
        *worst = status = device_check_all(comm);
    return status;
}
