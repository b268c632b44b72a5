/* The plan kernels as the host sees them; execute.cuh describes them. */
#ifndef WEIR_PLAN_CUDA_KERNELS_H
#define WEIR_PLAN_CUDA_KERNELS_H

#include "plan/cuda/image.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The host address, for cudaLaunchKernel, of a kernel that can do what a launch needs
 * (WEIRI_IMAGE_DOES_*). Its one argument is a weiri_image_args. NULL for other types. Local. */
const void *weiri_image_kernel(weir_dtype dtype, uint32_t does);

/* Divides the elements in `bytes` bytes at data by `by`, as an average does with its sum. */
typedef struct weiri_divide_args {
    char *data;
    uint64_t bytes;
    int32_t by;
    int32_t dtype;
} weiri_divide_args;
/* Likewise; its one argument is a weiri_divide_args. Any grid, up to 1024 threads per block. */
const void *weiri_divide_kernel(weir_dtype dtype);

/* The kernels of a group of types, in the files that compile them. */
const void *weiri_image_kernel_of_floats(weir_dtype dtype, uint32_t does);
const void *weiri_image_kernel_of_integers(weir_dtype dtype, uint32_t does);
const void *weiri_image_kernel_of_smalls(weir_dtype dtype, uint32_t does);

#ifdef __cplusplus
}
#endif

#endif
