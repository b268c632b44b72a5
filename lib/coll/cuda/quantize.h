/* The kernel of weir_allreduce_quantized as the host sees it. */
#ifndef WEIR_COLL_CUDA_QUANTIZE_H
#define WEIR_COLL_CUDA_QUANTIZE_H

#include "coll/cuda/kernels.h"
#include "compute/quantize.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The host address of the kernel, whose only argument is a weiri_quantize_step of that type; NULL
 * for other types. Local. */
const void *weiri_gpu_quantize_kernel(weir_dtype dtype);
/* The grid for so many elements on a GPU with so many multiprocessors. Local. */
weiri_gpu_shape weiri_gpu_quantize_shape(uint64_t count, int processors);

#ifdef __cplusplus
}
#endif

#endif
