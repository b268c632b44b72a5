/*
 * Kernels compiled at run time: the object, and the ops table of a backend, which kernel_host.c and
 * kernel_cuda.c implement (kernel_none.c in builds without CUDA).
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
    int cached;        /* this rank found its code in the cache */
    void *loaded;      /* the backend's state; NULL before load */
};

/* The state of one compilation. */
typedef struct weiri_kernel_job {
    weir_comm *comm;
    const char *file;
    char headers[WEIRI_PATH_BYTES];
    weiri_source source;
    weiri_hash key;
    weiri_cache cache;
} weiri_kernel_job;

/* All functions are local. */
typedef struct weiri_kernel_backend {
    const char *kind; /* suffix of an entry's name in the cache */
    /* Adds to the key what determines the code apart from the source: compiler, flags, target. */
    weir_status (*identify)(const weiri_kernel_job *job, weiri_hash *key);
    /* Compiles the source and writes the code to path. WEIR_ERR_INVALID, with the compiler's
     * message, if it does not compile. */
    weir_status (*compile)(const weiri_kernel_job *job, const char *path);
    /* Loads kernel->name from such a file. WEIR_ERR_INVALID if the file lacks it; *missing is then
     * set to 1. */
    weir_status (*load)(weir_kernel *kernel, const char *path, int *missing);
    /* Launches a loaded kernel; see weir_kernel_launch. */
    weir_status (*launch)(weir_kernel *kernel, int blocks, int threads, size_t shared_bytes,
                          weir_stream stream, const weir_params *params);
    /* Frees kernel->loaded. */
    void (*unload)(weir_kernel *kernel);
} weiri_kernel_backend;

extern const weiri_kernel_backend weiri_kernel_host;
/* Returns NULL in a build without CUDA. */
const weiri_kernel_backend *weiri_kernel_gpu(void);

/* Returns WEIR_ERR_INVALID; the error line is the first error in the compiler's output, which is
 * logged in full. */
weir_status weiri_kernel_refuse_source(const weiri_kernel_job *job, const char *output);

/* Returns WEIR_ERR_INVALID if a parameter could not be packed or its length is not that of the
 * kernel's structure. */
weir_status weiri_kernel_check_params(const weir_kernel *kernel, const weir_params *params,
                                      size_t expected_bytes);

#endif
