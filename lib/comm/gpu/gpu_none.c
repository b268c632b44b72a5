/* The ops table of a build without CUDA. */
#include "comm/gpu/gpu.h"

const weiri_gpu_ops *weiri_gpu_ops_get(void)
{
    return NULL;
}
