/* The kernels of plans as the host sees them; execute.cuh says what they do. */
#ifndef WEIR_PLAN_CUDA_KERNELS_H
#define WEIR_PLAN_CUDA_KERNELS_H

#include "plan/cuda/image.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The host address for cudaLaunchKernel of a kernel that can do what a launch does
 * (WEIRI_IMAGE_DOES_*), whose one argument is a weiri_image_args; NULL for a type outside the
 * list. Local. */
const void *weiri_image_kernel(weir_dtype dtype, uint32_t does);

/* Divides count elements at data by a number, as an average does its sum. */
typedef struct weiri_divide_args {
    char *data;
    uint64_t bytes;
    int32_t by;
} weiri_divide_args;
/* Likewise, with a weiri_divide_args; any grid of up to 1024 threads a block. */
const void *weiri_divide_kernel(weir_dtype dtype);

/* The types' kernels, in the files that compile them. */
const void *weiri_image_kernel_of_floats(weir_dtype dtype, uint32_t does);
const void *weiri_image_kernel_of_integers(weir_dtype dtype, uint32_t does);
const void *weiri_image_kernel_of_smalls(weir_dtype dtype, uint32_t does);

#ifdef __cplusplus
}
#endif

#endif
