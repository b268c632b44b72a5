/* Instantiates the plan kernels for integers of 32 and 64 bits. */
#include "plan/cuda/device/execute.cuh"

const void *weiri_image_kernel_of_integers(weir_dtype dtype, uint32_t does)
{
    switch (dtype) {
    case WEIR_INT32: return weiri_image_kernel_for<WEIR_INT32>(does);
    case WEIR_UINT32: return weiri_image_kernel_for<WEIR_UINT32>(does);
    case WEIR_INT64: return weiri_image_kernel_for<WEIR_INT64>(does);
    case WEIR_UINT64: return weiri_image_kernel_for<WEIR_UINT64>(does);
    default: return nullptr;
    }
}
