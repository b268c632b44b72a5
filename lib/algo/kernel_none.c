/* Kernels on GPUs in a build without CUDA: there are none. */
#include "algo/kernel.h"

const weiri_kernel_backend *weiri_kernel_gpu(void)
{
    return NULL;
}
