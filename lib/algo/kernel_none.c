/* A build without CUDA. */
#include "algo/kernel.h"

const weiri_kernel_backend *weiri_kernel_gpu(void)
{
    return NULL;
}
