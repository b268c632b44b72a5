/*
 * Kernels inside: what a backend must be able to do with one. kernel_host.c and
 * kernel_cuda.c fill the table; kernel_none.c says that a build has no GPUs.
 */
#ifndef WEIR_ALGO_KERNEL_H
#define WEIR_ALGO_KERNEL_H

#include "algo/cache.h"
#include "algo/source.h"
#include "comm/comm.h"
#include <weir/algo.h>

struct weiri_kernel_backend;

struct weir_kernel {
    weir_comm *comm;
    const struct weiri_kernel_backend *backend;
    char *file, *name; /* owned */
    int cached;
    void *loaded; /* the backend's */
};

/* One compilation. */
typedef struct weiri_kernel_job {
    weir_comm *comm;
    const char *file;
    char headers[WEIRI_PATH_BYTES];
    weiri_source source;
    weiri_hash key;
    weiri_cache cache;
} weiri_kernel_job;

/* All are local. */
typedef struct weiri_kernel_backend {
    const char *kind; /* end of an entry's name in the cache */
    /* Adds to the key what decides about the code besides the source: compiler, flags,
     * target. */
    weir_status (*identify)(const weiri_kernel_job *job, weiri_hash *key);
    /* Compiles the source into a file. WEIR_ERR_INVALID with the compiler's message. */
    weir_status (*compile)(const weiri_kernel_job *job, const char *path);
    /* Takes kernel->name out of such a file. WEIR_ERR_INVALID: it is not there; *missing is
     * then set. */
    weir_status (*load)(weir_kernel *kernel, const char *path, int *missing);
    weir_status (*launch)(weir_kernel *kernel, int blocks, int threads, size_t shared_bytes,
                          weir_stream stream, const weir_params *params);
    /* Of a kernel that was loaded, once. */
    void (*unload)(weir_kernel *kernel);
} weiri_kernel_backend;

extern const weiri_kernel_backend weiri_kernel_host;
/* NULL in a build without CUDA. */
const weiri_kernel_backend *weiri_kernel_gpu(void);

/* WEIR_ERR_INVALID with the line of a compiler's output that says what is wrong, the whole
 * output being logged. */
weir_status weiri_kernel_refuse_source(const weiri_kernel_job *job, const char *output);

/* Whether packed parameters are as long as a kernel's struct of so many bytes. */
weir_status weiri_kernel_check_params(const weir_kernel *kernel, const weir_params *params,
                                      size_t expected_bytes);

#endif
