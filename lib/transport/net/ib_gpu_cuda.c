/*
 * GPU memory of the ib transport, in a build with CUDA. The driver exports it as a dma-buf, which
 * the device registers, so that it accesses GPU memory directly. This needs support by the GPU's
 * driver, libibverbs and the device's kernel driver. Besides, the GPU must keep the writes of other
 * devices in order, since a signal in host memory could otherwise be seen before the data; the GPU
 * reports whether it does (from Hopper on).
 *
 * The driver's functions are looked up at run time. No context is created: a thread without one has
 * no GPU yet.
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

/* Looks up the driver's functions; 0 if there is no driver or it is too old. Any thread. */
static int ib_look_up(gpu_functions *functions)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    int complete = library != NULL;
    /* Headers define the name of a function with several versions. */
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
    return ib_look_up(&cu) && cu.cuCtxGetDevice_at(&device) == CUDA_SUCCESS &&
           cu.cuDeviceGetPCIBusId_at(address, 16, device) == CUDA_SUCCESS;
}

static weir_status ib_gpu_refuse(const weiri_ib_net *ib, const char *why)
{
    return weiri_fail(WEIR_ERR_UNSUPPORTED, "RDMA device %s cannot reach this GPU's memory: %s",
                      ib->port.device, why);
}

/* Checks that this GPU can export its memory and keeps the order of writes. */
static weir_status check_gpu(const weiri_ib_net *ib, const gpu_functions *cu, CUdeviceptr address)
{
    int device = 0, has_dmabuf = 0, ordering = 0;
    if (cu->cuPointerGetAttribute_at(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) !=
        CUDA_SUCCESS)
        return weiri_fail(WEIR_ERR_INVALID, "%p is not GPU memory", (void *)(uintptr_t)address);
    cu->cuDeviceGetAttribute_at(&has_dmabuf, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, device);
    cu->cuDeviceGetAttribute_at(&ordering, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
                                device);
    if (!has_dmabuf)
        return ib_gpu_refuse(
            ib, "the GPU's driver does not support dma-buf (it needs the open kernel modules)");
    if (ordering < CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER)
        return ib_gpu_refuse(ib, "the GPU does not keep writes of other devices in order");
    return WEIR_OK;
}

/* The pages of [base, base + bytes) within its allocation, and the offset of base in them. */
static weir_status whole_pages(const weiri_ib_net *ib, uintptr_t base, size_t bytes,
                               weiri_cuda_range *pages)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    weiri_cuda_range range;
    if (weiri_cuda_range_of(base, &range) != 0 || bytes > range.end - base)
        return weiri_fail(WEIR_ERR_INVALID, "%p: expected %zu bytes of one GPU allocation",
                          (void *)base, bytes);
    pages->begin = base / page * page;
    pages->end = (base + bytes + page - 1) / page * page;
    return pages->begin >= range.begin && pages->end <= range.end
               ? WEIR_OK
               : ib_gpu_refuse(ib, "its pages are not all of one allocation");
}

weir_status weiri_ib_gpu_register(weiri_ib_net *ib, void *base, size_t bytes, struct ibv_mr **mr)
{
    const uintptr_t address = (uintptr_t)base;
    weiri_cuda_range pages = {0};
    gpu_functions cu;
    int fd = -1;
    if (!ib->verbs->reg_dmabuf_mr)
        return ib_gpu_refuse(ib, "libibverbs is older than dma-buf (34)");
    if (!ib_look_up(&cu))
        return ib_gpu_refuse(ib, "the GPU's driver is older than dma-buf (CUDA 11.7)");
    weir_status status = check_gpu(ib, &cu, (CUdeviceptr)address);
    if (status == WEIR_OK)
        status = whole_pages(ib, address, bytes, &pages);
    if (status != WEIR_OK)
        return status;
    if (cu.cuMemGetHandleForAddressRange_at(&fd, (CUdeviceptr)pages.begin, pages.end - pages.begin,
                                            CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0) != CUDA_SUCCESS)
        return ib_gpu_refuse(ib, "the GPU's driver cannot export it as a dma-buf");
    *mr = ib->verbs->reg_dmabuf_mr(ib->pd, address - pages.begin, bytes, address, fd,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    int error = errno;
    close(fd);
    if (*mr)
        return WEIR_OK;
    weiri_log(WEIRI_LOG_DEBUG, "transport ib: %s does not accept a dma-buf: %s", ib->port.device,
              strerror(error));
    return error == ENOMEM ? weiri_ib_refused(ib, error, "memory of a GPU", bytes)
                           : ib_gpu_refuse(ib, "the device's driver does not accept a dma-buf");
}
