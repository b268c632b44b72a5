/*
 * Kernels of GPUs: compiled by NVRTC for the communicator's device, loaded and launched by
 * the driver, whose functions are looked up at run time, so that programs start where there
 * is none. The device's primary context, the runtime's too, is made current around each use.
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

enum { OUTPUT_BYTES = 16384, USUAL_SHARED_BYTES = 48 << 10 };

/* X(the driver's function) */
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

/* CUDA 12.4's; NULL before. */
typedef CUresult (*param_info_function)(CUfunction function, size_t index, size_t *offset,
                                        size_t *bytes);

static driver_functions cu; /* filled once; all threads would find the same */
static param_info_function param_info;

/* 0 where one is missing. */
static int open_driver(void)
{
    static int state; /* 0: not looked up yet, 1: there, -1: not */
    int known = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
    if (known)
        return known > 0;
    driver_functions found = {0};
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *symbol;
    int complete = library != NULL;
    /* A second version of a function has the name that headers give it. */
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

/* What is loaded. */
typedef struct gpu_kernel {
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction function;
    size_t args_bytes; /* 0: the driver does not tell */
    size_t allowed_bytes; /* of shared memory, so far */
    /* The last grid that was asked about: how many of its blocks fit. */
    int threads, fitting;
    size_t shared_bytes;
} gpu_kernel;

static weir_status fail(weir_status status, CUresult error, const char *what, const char *kernel)
{
    const char *name = NULL;
    if (cu.cuGetErrorName_at(error, &name) != CUDA_SUCCESS || !name)
        name = "unknown error";
    return weiri_fail(status, "kernel %s: %s: %s", kernel, what, name);
}

/* ---------------------------------------------------------------- compilation */

/* The device as NVRTC calls it. */
static weir_status name_target(const weir_comm *comm, char *option, size_t bytes)
{
    int major = 0, minor = 0;
    cudaError_t error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor,
                                               comm->gpu->device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor,
                                       comm->gpu->device);
    if (error != cudaSuccess)
        return weiri_cuda_fail(WEIR_ERR_SYSTEM, error, "cannot ask the GPU for its kind");
    snprintf(option, bytes, "--gpu-architecture=sm_%d%d", major, minor);
    return WEIR_OK;
}

/* -default-device: weir/weir.h declares functions of the host, which NVRTC else refuses. */
static const char *const flags[] = {"--std=c++17", "-default-device"};
enum { FLAGS = sizeof flags / sizeof *flags };

static weir_status gpu_identify(const weiri_kernel_job *job, weiri_hash *key)
{
    int version = 0, driver = 0;
    char target[64];
    if (cudaDriverGetVersion(&driver) != cudaSuccess)
        cudaGetLastError();
    weir_status status = weiri_nvrtc_open(driver / 1000, &version);
    if (status == WEIR_OK)
        status = name_target(job->comm, target, sizeof target);
    if (status != WEIR_OK)
        return status;
    weiri_hash_add(key, &version, sizeof version);
    weiri_hash_add(key, target, strlen(target));
    for (int i = 0; i < FLAGS; i++)
        weiri_hash_add(key, flags[i], strlen(flags[i]));
    return WEIR_OK;
}

static weir_status write_code(const char *path, const char *code, size_t bytes)
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
    weir_status status = name_target(job->comm, target, sizeof target);
    snprintf(headers, sizeof headers, "-I%s", job->headers);
    snprintf(beside, sizeof beside, "-I%.*s", slash ? (int)(slash - job->file) + 1 : 1,
             slash ? job->file : ".");
    for (int i = 0; i < FLAGS; i++)
        options[count++] = flags[i];
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
        status = write_code(path, code, bytes);
    free(code);
    free(output);
    return status;
}

/* ------------------------------------------------------------------- loading */

static weir_status get_function(weir_kernel *kernel, gpu_kernel *made, int *missing)
{
    size_t offset = 0, threads = 0;
    int most = 0;
    CUresult error = cu.cuModuleGetFunction_at(&made->function, made->module, kernel->name);
    *missing = error == CUDA_ERROR_NOT_FOUND;
    if (error == CUDA_SUCCESS) /* loads it now, not while other kernels run */
        error = cu.cuFuncGetAttribute_at(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                                         made->function);
    if (error != CUDA_SUCCESS)
        return fail(WEIR_ERR_INVALID, error, "it is not in its code", kernel->name);
    if (!param_info || param_info(made->function, 0, &offset, &made->args_bytes) != CUDA_SUCCESS)
        made->args_bytes = 0;
    if (param_info && param_info(made->function, 1, &offset, &threads) == CUDA_SUCCESS)
        return weiri_fail(WEIR_ERR_INVALID, "kernel %s of %s has more than one parameter; "
                                            "WEIR_KERNEL takes one struct",
                          kernel->name, kernel->file);
    made->allowed_bytes = USUAL_SHARED_BYTES;
    return WEIR_OK;
}

static weir_status enter_context(const weir_kernel *kernel, const gpu_kernel *made)
{
    CUresult error = cu.cuCtxPushCurrent_at(made->context);
    return error == CUDA_SUCCESS ? WEIR_OK
                                 : fail(WEIR_ERR_SYSTEM, error, "cannot use the GPU", kernel->name);
}

static void leave_context(void)
{
    CUcontext before;
    cu.cuCtxPopCurrent_at(&before);
}

static weir_status load_module(weir_kernel *kernel, gpu_kernel *made, const char *code,
                               int *missing)
{
    weir_status status = enter_context(kernel, made);
    if (status != WEIR_OK)
        return status;
    CUresult error = cu.cuModuleLoadData_at(&made->module, code);
    if (error != CUDA_SUCCESS)
        status = fail(WEIR_ERR_SYSTEM, error, "the driver does not load its code (an NVRTC newer "
                                              "than the driver? see WEIR_NVRTC_SO)", kernel->name);
    else
        status = get_function(kernel, made, missing);
    if (status != WEIR_OK && made->module)
        cu.cuModuleUnload_at(made->module);
    leave_context();
    return status;
}

static weir_status gpu_load(weir_kernel *kernel, const char *path, int *missing)
{
    char *code = NULL;
    size_t bytes = 0;
    gpu_kernel *made = calloc(1, sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a kernel");
    weir_status status = open_driver() ? weiri_file_read(path, INT_MAX, &code, &bytes)
                                       : weiri_fail(WEIR_ERR_SYSTEM, "no CUDA driver, or one "
                                                                     "without functions of 11.0");
    if (status != WEIR_OK)
        goto free_kernel;
    CUresult error = cu.cuDeviceGet_at(&made->device, kernel->comm->gpu->device);
    if (error == CUDA_SUCCESS)
        error = cu.cuDevicePrimaryCtxRetain_at(&made->context, made->device);
    if (error != CUDA_SUCCESS) {
        status = fail(WEIR_ERR_SYSTEM, error, "cannot use the GPU", kernel->name);
        goto free_kernel;
    }
    status = load_module(kernel, made, code, missing);
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
    if (enter_context(kernel, loaded) == WEIR_OK) {
        cu.cuModuleUnload_at(loaded->module);
        leave_context();
    }
    cu.cuDevicePrimaryCtxRelease_at(loaded->device);
    free(loaded);
}

/* -------------------------------------------------------------------- launch */

/* Lets the kernel have so much shared memory, and learns how many blocks fit at once. */
static weir_status fit(const weir_kernel *kernel, gpu_kernel *loaded, int threads,
                       size_t shared_bytes)
{
    int each = 0;
    if (loaded->threads == threads && loaded->shared_bytes == shared_bytes)
        return WEIR_OK;
    if (shared_bytes > INT_MAX)
        return weiri_fail(WEIR_ERR_INVALID, "kernel %s: %zu shared bytes", kernel->name,
                          shared_bytes);
    CUresult error = CUDA_SUCCESS;
    if (shared_bytes > loaded->allowed_bytes) {
        error = cu.cuFuncSetAttribute_at(loaded->function,
                                         CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                         (int)shared_bytes);
        if (error != CUDA_SUCCESS)
            return fail(WEIR_ERR_INVALID, error, "the GPU has not so much shared memory",
                        kernel->name);
        loaded->allowed_bytes = shared_bytes;
    }
    error = cu.cuOccupancyMaxActiveBlocksPerMultiprocessor_at(&each, loaded->function, threads,
                                                              shared_bytes);
    if (error != CUDA_SUCCESS)
        return fail(WEIR_ERR_INVALID, error, "no such block fits on the GPU", kernel->name);
    loaded->threads = threads;
    loaded->shared_bytes = shared_bytes;
    loaded->fitting = each * weiri_cuda_of(kernel->comm)->processors;
    return WEIR_OK;
}

static weir_status start(const weir_kernel *kernel, const gpu_kernel *loaded, int blocks,
                         int threads, size_t shared_bytes, weir_stream stream,
                         const weir_params *params)
{
    void *arguments[] = {(void *)(uintptr_t)params->bytes}; /* which is not written */
    CUresult error = cu.cuLaunchKernel_at(loaded->function, (unsigned)blocks, 1, 1,
                                          (unsigned)threads, 1, 1, (unsigned)shared_bytes,
                                          (CUstream)stream, arguments, NULL);
    if (error == CUDA_SUCCESS)
        return WEIR_OK;
    return fail(error == CUDA_ERROR_INVALID_HANDLE || error == CUDA_ERROR_INVALID_VALUE
                    ? WEIR_ERR_INVALID
                    : WEIR_ERR_SYSTEM,
                error, "the stream does not take it", kernel->name);
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
        status = enter_context(kernel, loaded);
    if (status != WEIR_OK)
        return status;
    status = fit(kernel, loaded, threads, shared_bytes);
    if (status == WEIR_OK && blocks > loaded->fitting)
        status = weiri_fail(WEIR_ERR_INVALID,
                            "kernel %s: %d blocks of %d threads are more than the %d that are on "
                            "the GPU at once, and blocks may wait for each other",
                            kernel->name, blocks, threads, loaded->fitting);
    if (status == WEIR_OK)
        status = start(kernel, loaded, blocks, threads, shared_bytes, stream, params);
    leave_context();
    return status;
}

static const weiri_kernel_backend backend = {
    .kind = "cubin",
    .identify = gpu_identify,
    .compile = gpu_compile,
    .load = gpu_load,
    .launch = gpu_launch,
    .unload = gpu_unload,
};

const weiri_kernel_backend *weiri_kernel_gpu(void)
{
    return &backend;
}
