/*
 * Kernels on GPUs: compiled by NVRTC for the communicator's device, loaded and launched with the
 * CUDA driver. The driver's functions are looked up at run time, so that programs start on nodes
 * without one. The device's primary context, which the CUDA runtime uses too, is made current
 * around each use.
 */
#define _GNU_SOURCE
#include "algo/kernel.h"

#include "algo/nvrtc.h"
#include "base/error.h"
#include "comm/gpu/gpu_cuda.h"

#include <cuda.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUT_BYTES = 16384, DEFAULT_SHARED_BYTES = 48 << 10 };

/* X(function of the driver) */
#define DRIVER_FUNCTIONS(X)                                                                        \
    X(cuCtxPopCurrent)                                                                             \
    X(cuCtxPushCurrent)                                                                            \
    X(cuDeviceGet)                                                                                 \
    X(cuDevicePrimaryCtxRelease)                                                                   \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuFuncGetAttribute)                                                                          \
    X(cuFuncSetAttribute)                                                                          \
    X(cuGetErrorName)                                                                              \
    X(cuLaunchKernel)                                                                              \
    X(cuModuleGetFunction)                                                                         \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleUnload)                                                                              \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor)

typedef struct driver_functions {
#define DRIVER_POINTER(name) __typeof__(&name) name##_at;
    DRIVER_FUNCTIONS(DRIVER_POINTER)
#undef DRIVER_POINTER
} driver_functions;

/* cuFuncGetParamInfo, since CUDA 12.4; NULL with older drivers. */
typedef CUresult (*param_info_function)(CUfunction function, size_t index, size_t *offset,
                                        size_t *bytes);

static driver_functions cu; /* written once; racing threads write equal values */
static param_info_function param_info;

/* Looks up the functions; 0 if the driver or one of them is missing. */
static int driver_open(void)
{
    static int state; /* 0: not looked up yet, 1: found, -1: missing */
    int known = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
    if (known)
        return known > 0;
    driver_functions found = {0};
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *symbol;
    int complete = library != NULL;
    /* Expands names first, because the headers define newer versions of functions as macros. */
#define NAME_OF(name) #name
#define VERSIONED(name) NAME_OF(name)
#define DRIVER_LOOKUP(name)                                                                        \
    if (complete) {                                                                                \
        symbol = dlsym(library, VERSIONED(name));                                                  \
        memcpy(&found.name##_at, &symbol, sizeof symbol);                                          \
        complete = symbol != NULL;                                                                 \
    }
    DRIVER_FUNCTIONS(DRIVER_LOOKUP)
#undef DRIVER_LOOKUP
    if (complete) {
        cu = found;
        symbol = dlsym(library, "cuFuncGetParamInfo");
        memcpy(&param_info, &symbol, sizeof symbol);
    }
    __atomic_store_n(&state, complete ? 1 : -1, __ATOMIC_RELEASE);
    return complete;
}

/* A loaded kernel. */
typedef struct gpu_kernel {
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction function;
    size_t args_bytes;    /* length of the parameter; 0: the driver does not report it */
    size_t allowed_bytes; /* dynamic shared memory that the function may use so far */
    /* The latest query: `fitting` blocks of this shape fit on the GPU at once. */
    int threads, fitting;
    size_t shared_bytes;
} gpu_kernel;

static weir_status driver_fail(weir_status status, CUresult error, const char *what,
                               const char *kernel)
{
    const char *name = NULL;
    if (cu.cuGetErrorName_at(error, &name) != CUDA_SUCCESS || !name)
        name = "unknown error";
    return weiri_fail(status, "kernel %s: %s: %s", kernel, what, name);
}

/* ---------------------------------------------------------------- compilation */

/* Writes the option that names the device's architecture to NVRTC. */
static weir_status gpu_name_target(const weir_comm *comm, char *option, size_t bytes)
{
    int major = 0, minor = 0;
    cudaError_t error =
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, comm->gpu->device);
    if (error == cudaSuccess)
        error =
            cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, comm->gpu->device);
    if (error != cudaSuccess)
        return weiri_cuda_fail(WEIR_ERR_SYSTEM, error,
                               "cannot query the compute capability of the GPU");
    snprintf(option, bytes, "--gpu-architecture=sm_%d%d", major, minor);
    return WEIR_OK;
}

/* -default-device: NVRTC would otherwise reject the host functions that weir/weir.h declares. */
static const char *const gpu_flags[] = {"--std=c++17", "-default-device"};
enum { FLAGS = sizeof gpu_flags / sizeof *gpu_flags };

static weir_status gpu_identify(const weiri_kernel_job *job, weiri_hash *key)
{
    int version = 0, driver = 0;
    char target[64];
    if (cudaDriverGetVersion(&driver) != cudaSuccess)
        cudaGetLastError();
    weir_status status = weiri_nvrtc_open(driver / 1000, &version);
    if (status == WEIR_OK)
        status = gpu_name_target(job->comm, target, sizeof target);
    if (status != WEIR_OK)
        return status;
    weiri_hash_add(key, &version, sizeof version);
    weiri_hash_add(key, target, strlen(target));
    for (int i = 0; i < FLAGS; i++)
        weiri_hash_add(key, gpu_flags[i], strlen(gpu_flags[i]));
    return WEIR_OK;
}

static weir_status gpu_write_code(const char *path, const char *code, size_t bytes)
{
    FILE *file = fopen(path, "we");
    int written = file && fwrite(code, 1, bytes, file) == bytes;
    if (file && fclose(file) != 0)
        written = 0;
    return written ? WEIR_OK : weiri_fail(WEIR_ERR_SYSTEM, "cannot write %s", path);
}

static weir_status gpu_compile(const weiri_kernel_job *job, const char *path)
{
    char target[64], headers[WEIRI_PATH_BYTES + 8], beside[WEIRI_PATH_BYTES + 8];
    const char *options[FLAGS + 3], *slash = strrchr(job->file, '/');
    char *code = NULL, *output = malloc(OUTPUT_BYTES);
    size_t bytes = 0;
    int count = 0;
    if (!output)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a compiler's output");
    weir_status status = gpu_name_target(job->comm, target, sizeof target);
    snprintf(headers, sizeof headers, "-I%s", job->headers);
    snprintf(beside, sizeof beside, "-I%.*s", slash ? (int)(slash - job->file) + 1 : 1,
             slash ? job->file : ".");
    for (int i = 0; i < FLAGS; i++)
        options[count++] = gpu_flags[i];
    options[count++] = target;
    options[count++] = beside;
    options[count++] = headers;
    if (status == WEIR_OK) {
        status = weiri_nvrtc_compile(job->source.text, job->file, options, count, &code, &bytes,
                                     output, OUTPUT_BYTES);
        if (status == WEIR_ERR_INVALID)
            status = weiri_kernel_refuse_source(job, output);
    }
    if (status == WEIR_OK)
        status = gpu_write_code(path, code, bytes);
    free(code);
    free(output);
    return status;
}

/* ------------------------------------------------------------------- loading */

static weir_status gpu_get_function(weir_kernel *kernel, gpu_kernel *made, int *missing)
{
    size_t offset = 0, threads = 0;
    int most = 0;
    CUresult error = cu.cuModuleGetFunction_at(&made->function, made->module, kernel->name);
    *missing = error == CUDA_ERROR_NOT_FOUND;
    if (error == CUDA_SUCCESS) /* loads the function now rather than while kernels run */
        error = cu.cuFuncGetAttribute_at(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                                         made->function);
    if (error != CUDA_SUCCESS)
        return driver_fail(WEIR_ERR_INVALID, error, "the compiled code does not contain it",
                           kernel->name);
    if (!param_info || param_info(made->function, 0, &offset, &made->args_bytes) != CUDA_SUCCESS)
        made->args_bytes = 0;
    if (param_info && param_info(made->function, 1, &offset, &threads) == CUDA_SUCCESS)
        return weiri_fail(WEIR_ERR_INVALID,
                          "kernel %s of %s has more than one parameter; "
                          "expected one structure (WEIR_KERNEL)",
                          kernel->name, kernel->file);
    made->allowed_bytes = DEFAULT_SHARED_BYTES;
    return WEIR_OK;
}

static weir_status gpu_enter_context(const weir_kernel *kernel, const gpu_kernel *made)
{
    CUresult error = cu.cuCtxPushCurrent_at(made->context);
    return error == CUDA_SUCCESS
               ? WEIR_OK
               : driver_fail(WEIR_ERR_SYSTEM, error, "cannot use the GPU", kernel->name);
}

static void gpu_leave_context(void)
{
    CUcontext before;
    cu.cuCtxPopCurrent_at(&before);
}

static weir_status gpu_load_module(weir_kernel *kernel, gpu_kernel *made, const char *code,
                                   int *missing)
{
    weir_status status = gpu_enter_context(kernel, made);
    if (status != WEIR_OK)
        return status;
    CUresult error = cu.cuModuleLoadData_at(&made->module, code);
    if (error != CUDA_SUCCESS)
        status = driver_fail(WEIR_ERR_SYSTEM, error,
                             "the driver cannot load the code (is "
                             "NVRTC newer than the driver? see WEIR_NVRTC_SO)",
                             kernel->name);
    else
        status = gpu_get_function(kernel, made, missing);
    if (status != WEIR_OK && made->module)
        cu.cuModuleUnload_at(made->module);
    gpu_leave_context();
    return status;
}

static weir_status gpu_load(weir_kernel *kernel, const char *path, int *missing)
{
    char *code = NULL;
    size_t bytes = 0;
    gpu_kernel *made = calloc(1, sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a kernel");
    weir_status status = driver_open() ? weiri_file_read(path, INT_MAX, &code, &bytes)
                                       : weiri_fail(WEIR_ERR_SYSTEM, "no CUDA driver, or one "
                                                                     "older than CUDA 11.0");
    if (status != WEIR_OK)
        goto free_kernel;
    CUresult error = cu.cuDeviceGet_at(&made->device, kernel->comm->gpu->device);
    if (error == CUDA_SUCCESS)
        error = cu.cuDevicePrimaryCtxRetain_at(&made->context, made->device);
    if (error != CUDA_SUCCESS) {
        status = driver_fail(WEIR_ERR_SYSTEM, error, "cannot use the GPU", kernel->name);
        goto free_kernel;
    }
    status = gpu_load_module(kernel, made, code, missing);
    if (status != WEIR_OK) {
        cu.cuDevicePrimaryCtxRelease_at(made->device);
        goto free_kernel;
    }
    kernel->loaded = made;
    free(code);
    return WEIR_OK;
free_kernel:
    free(code);
    free(made);
    return status;
}

static void gpu_unload(weir_kernel *kernel)
{
    gpu_kernel *loaded = kernel->loaded;
    if (gpu_enter_context(kernel, loaded) == WEIR_OK) {
        cu.cuModuleUnload_at(loaded->module);
        gpu_leave_context();
    }
    cu.cuDevicePrimaryCtxRelease_at(loaded->device);
    free(loaded);
}

/* -------------------------------------------------------------------- launch */

/* Raises the kernel's limit of shared memory if needed, and queries how many blocks fit at once. */
static weir_status gpu_fit_grid(const weir_kernel *kernel, gpu_kernel *loaded, int threads,
                                size_t shared_bytes)
{
    int each = 0;
    if (loaded->threads == threads && loaded->shared_bytes == shared_bytes)
        return WEIR_OK;
    if (shared_bytes > INT_MAX)
        return weiri_fail(WEIR_ERR_INVALID, "kernel %s: %zu bytes of shared memory are too many",
                          kernel->name, shared_bytes);
    CUresult error = CUDA_SUCCESS;
    if (shared_bytes > loaded->allowed_bytes) {
        error = cu.cuFuncSetAttribute_at(
            loaded->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared_bytes);
        if (error != CUDA_SUCCESS)
            return driver_fail(WEIR_ERR_INVALID, error,
                               "the GPU has less shared memory than requested", kernel->name);
        loaded->allowed_bytes = shared_bytes;
    }
    error = cu.cuOccupancyMaxActiveBlocksPerMultiprocessor_at(&each, loaded->function, threads,
                                                              shared_bytes);
    if (error != CUDA_SUCCESS)
        return driver_fail(WEIR_ERR_INVALID, error, "a block of this size does not fit on the GPU",
                           kernel->name);
    loaded->threads = threads;
    loaded->shared_bytes = shared_bytes;
    loaded->fitting = each * weiri_cuda_of(kernel->comm)->processors;
    return WEIR_OK;
}

static weir_status gpu_start(const weir_kernel *kernel, const gpu_kernel *loaded, int blocks,
                             int threads, size_t shared_bytes, weir_stream stream,
                             const weir_params *params)
{
    void *arguments[] = {(void *)(uintptr_t)params->bytes}; /* not written to */
    CUresult error =
        cu.cuLaunchKernel_at(loaded->function, (unsigned)blocks, 1, 1, (unsigned)threads, 1, 1,
                             (unsigned)shared_bytes, (CUstream)stream, arguments, NULL);
    if (error == CUDA_SUCCESS)
        return WEIR_OK;
    return driver_fail(error == CUDA_ERROR_INVALID_HANDLE || error == CUDA_ERROR_INVALID_VALUE
                           ? WEIR_ERR_INVALID
                           : WEIR_ERR_SYSTEM,
                       error, "the stream rejects the launch", kernel->name);
}

static weir_status gpu_launch(weir_kernel *kernel, int blocks, int threads, size_t shared_bytes,
                              weir_stream stream, const weir_params *params)
{
    gpu_kernel *loaded = kernel->loaded;
    const size_t expected = loaded->args_bytes;
    weir_status status = WEIR_OK;
    if (weir_load_relaxed(kernel->comm->guard.abort_word)) {
        status = weir_comm_check(kernel->comm);
        return status != WEIR_OK ? status : WEIR_ERR_ABORTED;
    }
    if (expected || params->failed)
        status = weiri_kernel_check_params(kernel, params, expected);
    if (status == WEIR_OK)
        status = kernel->comm->gpu->ops->check_stream(kernel->comm, stream);
    if (status == WEIR_OK)
        status = gpu_enter_context(kernel, loaded);
    if (status != WEIR_OK)
        return status;
    status = gpu_fit_grid(kernel, loaded, threads, shared_bytes);
    if (status == WEIR_OK && blocks > loaded->fitting)
        status = weiri_fail(WEIR_ERR_INVALID,
                            "kernel %s: of %d blocks of %d threads only %d are on the GPU at once, "
                            "and blocks may wait for each other; use fewer",
                            kernel->name, blocks, threads, loaded->fitting);
    if (status == WEIR_OK)
        status = gpu_start(kernel, loaded, blocks, threads, shared_bytes, stream, params);
    gpu_leave_context();
    return status;
}

static const weiri_kernel_backend gpu_backend = {
    .kind = "cubin",
    .identify = gpu_identify,
    .compile = gpu_compile,
    .load = gpu_load,
    .launch = gpu_launch,
    .unload = gpu_unload,
};

const weiri_kernel_backend *weiri_kernel_gpu(void)
{
    return &gpu_backend;
}
