/*
 * GPU memory on an `ib` wire, in a build with CUDA: the driver hands it on as a dma-buf, which the
 * device registers, so that it reads and writes the GPU's memory itself. Three have to agree for
 * that: the GPU's driver, libibverbs and the kernel's driver of the device. And the GPU must keep
 * writes of other devices in order by itself, since a signal that lies in host memory would
 * otherwise be seen before the data; GPUs from Hopper on do, and say so.
 *
 * The driver's functions are looked up at run time. No context is made here: a thread without one
 * has no GPU yet.
 */
#include "transport/mapped/cuda_ipc.h"
#include "transport/net/ib.h"

#include "base/error.h"
#include "base/log.h"

#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* X(the driver's function) */
#define GPU_FUNCTIONS(X)                                                                           \
    X(cuCtxGetDevice)                                                                              \
    X(cuDeviceGetPCIBusId)                                                                         \
    X(cuDeviceGetAttribute)                                                                        \
    X(cuPointerGetAttribute)                                                                       \
    X(cuMemGetHandleForAddressRange)

typedef struct gpu_functions {
#define GPU_POINTER(name) __typeof__(&name) name##_at;
    GPU_FUNCTIONS(GPU_POINTER)
#undef GPU_POINTER
} gpu_functions;

/* The driver's functions, 0 if there is no driver or an old one. dlopen counts: every look-up ends
 * with the same library. */
static int look_up(gpu_functions *functions)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    int complete = library != NULL;
    /* Of a function with several versions, headers define the name. */
#define NAME_OF(name) #name
#define VERSIONED(name) NAME_OF(name)
#define GPU_LOOKUP(name)                                                                           \
    if (complete) {                                                                                \
        void *symbol = dlsym(library, VERSIONED(name));                                            \
        memcpy(&functions->name##_at, &symbol, sizeof symbol);                                     \
        complete = symbol != NULL;                                                                 \
    }
    GPU_FUNCTIONS(GPU_LOOKUP)
#undef GPU_LOOKUP
    if (library)
        dlclose(library);
    return complete;
}

int weiri_ib_gpu_address(char address[16])
{
    gpu_functions cu;
    CUdevice device;
    return look_up(&cu) && cu.cuCtxGetDevice_at(&device) == CUDA_SUCCESS &&
           cu.cuDeviceGetPCIBusId_at(address, 16, device) == CUDA_SUCCESS;
}

static weir_status refuse(const weiri_ib_net *ib, const char *why)
{
    return weiri_fail(WEIR_ERR_UNSUPPORTED,
                      "RDMA device %s cannot reach this GPU's memory: %s", ib->port.device, why);
}

/* Whether this GPU's memory can be handed on, and keeps the order of writes. */
static weir_status check_gpu(const weiri_ib_net *ib, const gpu_functions *cu, CUdeviceptr address)
{
    int device = 0, has_dmabuf = 0, ordering = 0;
    if (cu->cuPointerGetAttribute_at(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) !=
        CUDA_SUCCESS)
        return weiri_fail(WEIR_ERR_INVALID, "%p is no memory of a GPU", (void *)(uintptr_t)address);
    cu->cuDeviceGetAttribute_at(&has_dmabuf, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, device);
    cu->cuDeviceGetAttribute_at(&ordering, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
                                device);
    if (!has_dmabuf)
        return refuse(ib, "the GPU's driver offers no dma-buf (it takes the open kernel modules)");
    if (ordering < CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER)
        return refuse(ib, "the GPU does not keep writes of other devices in order");
    return WEIR_OK;
}

/* The pages of [base, base + bytes), within its allocation; where base lies in them. */
static weir_status whole_pages(const weiri_ib_net *ib, uintptr_t base, size_t bytes,
                               weiri_cuda_range *pages)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    weiri_cuda_range range;
    if (weiri_cuda_range_of(base, &range) != 0 || bytes > range.end - base)
        return weiri_fail(WEIR_ERR_INVALID, "%p: not %zu bytes of one allocation of a GPU",
                          (void *)base, bytes);
    pages->begin = base / page * page;
    pages->end = (base + bytes + page - 1) / page * page;
    return pages->begin >= range.begin && pages->end <= range.end
               ? WEIR_OK
               : refuse(ib, "its pages are not all of one allocation");
}

weir_status weiri_ib_gpu_register(weiri_ib_net *ib, void *base, size_t bytes, struct ibv_mr **mr)
{
    const uintptr_t address = (uintptr_t)base;
    weiri_cuda_range pages = {0};
    gpu_functions cu;
    int fd = -1;
    if (!ib->verbs->reg_dmabuf_mr)
        return refuse(ib, "libibverbs is older than dma-buf (34)");
    if (!look_up(&cu))
        return refuse(ib, "the GPU's driver is older than dma-buf (CUDA 11.7)");
    weir_status status = check_gpu(ib, &cu, (CUdeviceptr)address);
    if (status == WEIR_OK)
        status = whole_pages(ib, address, bytes, &pages);
    if (status != WEIR_OK)
        return status;
    if (cu.cuMemGetHandleForAddressRange_at(&fd, (CUdeviceptr)pages.begin, pages.end - pages.begin,
                                            CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0) != CUDA_SUCCESS)
        return refuse(ib, "the GPU's driver makes no dma-buf of it");
    *mr = ib->verbs->reg_dmabuf_mr(ib->pd, address - pages.begin, bytes, address, fd,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    int error = errno;
    close(fd);
    if (*mr)
        return WEIR_OK;
    weiri_log(WEIRI_LOG_DEBUG, "transport ib: %s takes no dma-buf: %s", ib->port.device,
              strerror(error));
    return error == ENOMEM ? weiri_ib_refused(ib, error, "memory of a GPU", bytes)
                           : refuse(ib, "the device's driver takes no dma-buf");
}
