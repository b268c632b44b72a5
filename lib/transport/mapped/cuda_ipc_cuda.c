/*
 * GPU memory that other processes of the node can map. There are two methods, which a communicator
 * tries in this order:
 *
 *   file descriptors   memory of the driver's virtual memory management; a peer
 *                      takes the descriptor with pidfd_getfd. Such memory lives
 *                      until the last process has unmapped it.
 *   legacy IPC         memory of cudaMalloc, and the caller's own; its 64-byte
 *                      handle names the allocation, hence the offset in the
 *                      key. It must not be freed while a peer has it mapped.
 *
 * The driver's functions are looked up at run time, so that programs start on
 * nodes without a driver. Memory is allocated on, and mapped to, the thread's current device.
 */
#define _GNU_SOURCE
#include "transport/mapped/cuda_ipc.h"
#include "transport/transport.h"

#include "base/error.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

_Static_assert(sizeof(cudaIpcMemHandle_t) == WEIRI_KEY_HANDLE_BYTES, "a key holds the handle");

/* X(the driver's function) */
#define DRIVER_FUNCTIONS(X)                                                                        \
    X(cuMemCreate)                                                                                 \
    X(cuMemRelease)                                                                                \
    X(cuMemAddressReserve)                                                                         \
    X(cuMemAddressFree)                                                                            \
    X(cuMemMap)                                                                                    \
    X(cuMemUnmap)                                                                                  \
    X(cuMemSetAccess)                                                                              \
    X(cuMemExportToShareableHandle)                                                                \
    X(cuMemImportFromShareableHandle)                                                              \
    X(cuMemGetAllocationGranularity)                                                               \
    X(cuPointerGetAttribute)                                                                       \
    X(cuMemGetAddressRange)

typedef struct driver_functions {
#define DRIVER_POINTER(name) __typeof__(&name) name##_at;
    DRIVER_FUNCTIONS(DRIVER_POINTER)
#undef DRIVER_POINTER
} driver_functions;

/* The driver's functions; NULL if one is missing. Loaded once; threads that race find the same. */
static const driver_functions *cuda_ipc_driver(void)
{
    static driver_functions functions;
    static int state; /* 0: not looked up yet, 1: found, -1: not found */
    int known = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
    if (known)
        return known > 0 ? &functions : NULL;
    driver_functions found = {0};
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    int complete = library != NULL;
    /* Headers define the name of a function with several versions. */
#define NAME_OF(name) #name
#define VERSIONED(name) NAME_OF(name)
#define DRIVER_LOOKUP(name)                                                                        \
    if (complete) {                                                                                \
        void *symbol = dlsym(library, VERSIONED(name));                                            \
        memcpy(&found.name##_at, &symbol, sizeof symbol);                                          \
        complete = symbol != NULL;                                                                 \
    }
    DRIVER_FUNCTIONS(DRIVER_LOOKUP)
#undef DRIVER_LOOKUP
    if (complete)
        functions = found;
    __atomic_store_n(&state, complete ? 1 : -1, __ATOMIC_RELEASE);
    return complete ? &functions : NULL;
}

/* Whether the driver says of an address that it has a legacy handle, and that it comes from a pool
 * of cudaMallocAsync. */
static int cuda_ipc_has_handle(const driver_functions *cu, CUdeviceptr address)
{
    int legacy = 0;
    return cu->cuPointerGetAttribute_at(&legacy, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                        address) == CUDA_SUCCESS &&
           legacy;
}

static int cuda_ipc_is_pooled(const driver_functions *cu, CUdeviceptr address)
{
    CUmemoryPool pool = NULL;
    return cu->cuPointerGetAttribute_at(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address) ==
               CUDA_SUCCESS &&
           pool;
}

int weiri_cuda_range_of(uintptr_t address, weiri_cuda_range *range)
{
    const driver_functions *cu = cuda_ipc_driver();
    const CUdeviceptr at = (CUdeviceptr)address;
    CUdeviceptr begin = 0;
    size_t bytes = 0;
    if (!cu || cu->cuMemGetAddressRange_at(&begin, &bytes, at) != CUDA_SUCCESS ||
        address - begin >= bytes)
        return -1;
    *range = (weiri_cuda_range){(uintptr_t)begin, (uintptr_t)begin + bytes,
                                cuda_ipc_has_handle(cu, at) || cuda_ipc_is_pooled(cu, at)};
    return 0;
}

static weir_status fail_runtime(weir_status status, cudaError_t error, const char *what)
{
    cudaGetLastError();
    return weiri_fail(status, "%s: %s", what, cudaGetErrorString(error));
}

static weir_status cuda_ipc_fail_no_memory(size_t bytes, const char *why)
{
    return weiri_fail(WEIR_ERR_NO_MEMORY,
                      "no room for %zu bytes of GPU memory (%s); use smaller buffers", bytes, why);
}

/* --------------------------------------------------------- file descriptors */

static CUmemAllocationProp properties_of(int device)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
    };
}

/* Maps an allocation at a free address and gives the current device access to it. Sets *base on
 * success. */
static weir_status map_allocation(const driver_functions *cu, CUmemGenericAllocationHandle handle,
                                  size_t bytes, CUdeviceptr *base)
{
    int device = 0;
    cudaGetDevice(&device);
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr address = 0;
    if (cu->cuMemAddressReserve_at(&address, bytes, 0, 0, 0) != CUDA_SUCCESS)
        return cuda_ipc_fail_no_memory(bytes, "no addresses");
    if (cu->cuMemMap_at(address, bytes, 0, handle, 0) != CUDA_SUCCESS)
        goto free_address;
    if (cu->cuMemSetAccess_at(address, bytes, &access, 1) != CUDA_SUCCESS)
        goto unmap;
    *base = address;
    return WEIR_OK;
unmap:
    cu->cuMemUnmap_at(address, bytes);
free_address:
    cu->cuMemAddressFree_at(address, bytes);
    return weiri_fail(WEIR_ERR_UNSUPPORTED, "GPU memory cannot be mapped on device %d", device);
}

static weir_status cuda_ipc_zero(void *base, size_t bytes)
{
    cudaError_t error = cudaMemset(base, 0, bytes);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(cudaStreamLegacy);
    return error == cudaSuccess ? WEIR_OK
                                : fail_runtime(WEIR_ERR_SYSTEM, error, "cannot clear GPU memory");
}

static void fd_segment_destroy(weiri_segment *segment)
{
    const driver_functions *cu = cuda_ipc_driver();
    if (segment->base && cu) {
        cu->cuMemUnmap_at((CUdeviceptr)(uintptr_t)segment->base, segment->bytes);
        cu->cuMemAddressFree_at((CUdeviceptr)(uintptr_t)segment->base, segment->bytes);
        cu->cuMemRelease_at(segment->handle);
    }
    if (segment->base && segment->fd >= 0)
        close(segment->fd);
    *segment = (weiri_segment){.fd = -1};
}

static weir_status fd_segment_create(size_t bytes, weiri_segment *segment, weiri_segment_key *key)
{
    const driver_functions *cu = cuda_ipc_driver();
    int device = 0, fd = -1;
    size_t unit = 0;
    CUdeviceptr base = 0;
    CUmemGenericAllocationHandle handle = 0;
    if (!cu || cudaGetDevice(&device) != cudaSuccess)
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "the GPU driver has no virtual memory management");
    CUmemAllocationProp properties = properties_of(device);
    if (cu->cuMemGetAllocationGranularity_at(&unit, &properties,
                                             CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) != CUDA_SUCCESS)
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "the GPU's memory has no file descriptors");
    if (bytes > SIZE_MAX - unit)
        return cuda_ipc_fail_no_memory(bytes, "too large");
    size_t rounded = (bytes + unit - 1) / unit * unit;
    if (cu->cuMemCreate_at(&handle, rounded, &properties, 0) != CUDA_SUCCESS)
        return cuda_ipc_fail_no_memory(rounded, "all is in use");
    weir_status status = map_allocation(cu, handle, rounded, &base);
    if (status != WEIR_OK) {
        cu->cuMemRelease_at(handle);
        return status;
    }
    *segment = (weiri_segment){.ops = &weiri_transport_cuda_fd,
                               .base = (void *)(uintptr_t)base,
                               .bytes = rounded,
                               .fd = -1,
                               .handle = handle};
    if (cu->cuMemExportToShareableHandle_at(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                            0) != CUDA_SUCCESS)
        status = weiri_fail(WEIR_ERR_UNSUPPORTED, "the GPU's memory has no file descriptors");
    segment->fd = fd;
    if (status == WEIR_OK)
        status = cuda_ipc_zero(segment->base, rounded);
    if (status != WEIR_OK) {
        fd_segment_destroy(segment);
        return status;
    }
    *key = (weiri_segment_key){
        .kind = WEIRI_SEGMENT_CUDA_FD, .pid = (int32_t)getpid(), .fd = fd, .bytes = rounded};
    return WEIR_OK;
}

/* Duplicates another process's descriptor into this process; -1 with errno on failure. */
static int take_descriptor(int pid, int fd)
{
#if defined(SYS_pidfd_open) && defined(SYS_pidfd_getfd)
    int process = (int)syscall(SYS_pidfd_open, pid, 0);
    if (process < 0)
        return -1;
    int taken = (int)syscall(SYS_pidfd_getfd, process, fd, 0);
    int error_number = errno;
    close(process);
    errno = error_number;
    return taken;
#else
    (void)pid, (void)fd;
    errno = ENOSYS;
    return -1;
#endif
}

static weir_status fd_segment_map(const weiri_segment_key *key, weiri_segment *segment)
{
    const driver_functions *cu = cuda_ipc_driver();
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr base = 0;
    if (!cu)
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "the GPU driver has no virtual memory management");
    int fd = take_descriptor(key->pid, key->fd);
    if (fd < 0)
        return weiri_fail_errno(errno == ESRCH ? WEIR_ERR_PEER : WEIR_ERR_UNSUPPORTED, errno,
                                "cannot take GPU memory over from process %d", (int)key->pid);
    CUresult result = cu->cuMemImportFromShareableHandle_at(
        &handle, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    close(fd);
    if (result != CUDA_SUCCESS)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "GPU memory of process %d cannot be imported (CUDA error %d)",
                          (int)key->pid, (int)result);
    weir_status status = map_allocation(cu, handle, key->bytes, &base);
    if (status != WEIR_OK) {
        cu->cuMemRelease_at(handle);
        return status;
    }
    *segment = (weiri_segment){.ops = &weiri_transport_cuda_fd,
                               .base = (void *)(uintptr_t)base,
                               .bytes = key->bytes,
                               .fd = -1,
                               .handle = handle};
    return WEIR_OK;
}

/* --------------------------------------------------------------- legacy IPC */

/* How this process came by a segment. */
enum { ALLOCATED = 1, ADOPTED, MAPPED };

static weir_status ipc_segment_adopt(void *pointer, size_t bytes, weiri_segment *segment,
                                     weiri_segment_key *key)
{
    const driver_functions *cu = cuda_ipc_driver();
    CUdeviceptr begin = (CUdeviceptr)(uintptr_t)pointer;
    size_t whole = bytes;
    cudaIpcMemHandle_t handle;
    if (cu && cu->cuMemGetAddressRange_at(&begin, &whole, (CUdeviceptr)(uintptr_t)pointer) !=
                  CUDA_SUCCESS)
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "the memory is not GPU memory");
    uint64_t offset = (uint64_t)(uintptr_t)pointer - begin;
    if (cu && cuda_ipc_is_pooled(cu, (CUdeviceptr)(uintptr_t)pointer))
        return weiri_fail(
            WEIR_ERR_UNSUPPORTED,
            "the memory is of cudaMallocAsync, which has no handle for peers: use memory "
            "of cudaMalloc or weir_mem_alloc, or leave it unregistered");
    if (cu && !cuda_ipc_has_handle(cu, (CUdeviceptr)(uintptr_t)pointer))
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "the memory is mapped in pieces, which have no handle for peers (as with "
                          "PyTorch's expandable_segments): use memory of cudaMalloc or "
                          "weir_mem_alloc, or leave it unregistered");
    if (bytes > whole - offset)
        return weiri_fail(WEIR_ERR_INVALID, "the memory ends %zu bytes too early",
                          (size_t)(bytes - (whole - offset)));
    cudaError_t error = cudaIpcGetMemHandle(&handle, pointer);
    if (error != cudaSuccess)
        return fail_runtime(WEIR_ERR_UNSUPPORTED, error, "GPU memory has no IPC handle");
    *segment = (weiri_segment){.ops = &weiri_transport_cuda_ipc,
                               .base = pointer,
                               .bytes = bytes,
                               .fd = -1,
                               .handle = ADOPTED};
    *key = (weiri_segment_key){.kind = WEIRI_SEGMENT_CUDA_IPC,
                               .pid = (int32_t)getpid(),
                               .fd = -1,
                               .inode = (uint64_t)(uintptr_t)pointer,
                               .bytes = whole,
                               .offset = offset};
    memcpy(key->handle, &handle, sizeof handle);
    return WEIR_OK;
}

static weir_status ipc_segment_create(size_t bytes, weiri_segment *segment, weiri_segment_key *key)
{
    enum {
        UNIT_BYTES = 2 << 20
    }; /* so that two segments never share an allocation of the driver */
    if (bytes > SIZE_MAX - UNIT_BYTES)
        return cuda_ipc_fail_no_memory(bytes, "too large");
    size_t rounded = (bytes + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
    void *base = NULL;
    cudaError_t error = cudaMalloc(&base, rounded);
    if (error != cudaSuccess) {
        cudaGetLastError();
        return cuda_ipc_fail_no_memory(rounded, cudaGetErrorString(error));
    }
    weir_status status = cuda_ipc_zero(base, rounded);
    if (status == WEIR_OK)
        status = ipc_segment_adopt(base, rounded, segment, key);
    if (status == WEIR_OK)
        segment->handle = ALLOCATED;
    else
        cudaFree(base);
    return status;
}

/* Memory of this process, whose ranks may use different GPUs: an IPC handle cannot be opened in the
 * process that made it, and need not be. */
static weir_status ipc_segment_reach(const weiri_segment_key *key, weiri_segment *segment)
{
    void *pointer = (void *)(uintptr_t)key->inode;
    struct cudaPointerAttributes attributes;
    int own = -1;
    cudaError_t error = cudaPointerGetAttributes(&attributes, pointer);
    if (error == cudaSuccess)
        error = cudaGetDevice(&own);
    if (error == cudaSuccess && attributes.device != own)
        error = cudaDeviceEnablePeerAccess(attributes.device, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled) {
        cudaGetLastError();
        error = cudaSuccess;
    }
    if (error != cudaSuccess)
        return fail_runtime(WEIR_ERR_UNSUPPORTED, error,
                            "memory of this process's other GPU cannot be reached");
    *segment = (weiri_segment){.ops = &weiri_transport_cuda_ipc,
                               .base = pointer,
                               .bytes = key->bytes - key->offset,
                               .fd = -1,
                               .handle = ADOPTED};
    return WEIR_OK;
}

static weir_status ipc_segment_map(const weiri_segment_key *key, weiri_segment *segment)
{
    cudaIpcMemHandle_t handle;
    void *mapping = NULL;
    if (key->pid == (int32_t)getpid())
        return ipc_segment_reach(key, segment);
    memcpy(&handle, key->handle, sizeof handle);
    cudaError_t error = cudaIpcOpenMemHandle(&mapping, handle, cudaIpcMemLazyEnablePeerAccess);
    if (error != cudaSuccess)
        return fail_runtime(WEIR_ERR_UNSUPPORTED, error,
                            "a peer's GPU memory cannot be mapped (no peer access?)");
    *segment = (weiri_segment){.ops = &weiri_transport_cuda_ipc,
                               .base = (char *)mapping + key->offset,
                               .bytes = key->bytes,
                               .fd = -1,
                               .handle = MAPPED,
                               .mapping = mapping};
    return WEIR_OK;
}

static void ipc_segment_destroy(weiri_segment *segment)
{
    if (segment->base && segment->handle == ALLOCATED)
        cudaFree(segment->base);
    if (segment->base && segment->handle == MAPPED)
        cudaIpcCloseMemHandle(segment->mapping);
    *segment = (weiri_segment){.fd = -1};
}

const weiri_transport_ops weiri_transport_cuda_fd = {
    .transport = WEIR_TRANSPORT_CUDA_IPC,
    .segment_create = fd_segment_create,
    .segment_map = fd_segment_map,
    .segment_destroy = fd_segment_destroy,
    .outlives_owner = 1,
};

const weiri_transport_ops weiri_transport_cuda_ipc = {
    .transport = WEIR_TRANSPORT_CUDA_IPC,
    .segment_create = ipc_segment_create,
    .segment_map = ipc_segment_map,
    .segment_destroy = ipc_segment_destroy,
    .segment_adopt = ipc_segment_adopt,
};
