/* Instantiates the plan kernels for float, double and half. */
#include "plan/cuda/device/execute.cuh"

const void *weiri_image_kernel_of_floats(weir_dtype dtype, uint32_t does)
{
    switch (dtype) {
    case WEIR_FLOAT:
        return weiri_image_kernel_for<WEIR_FLOAT>(does);
#if !WEIR_FEW_KERNELS
    case WEIR_DOUBLE:
        return weiri_image_kernel_for<WEIR_DOUBLE>(does);
    case WEIR_HALF:
        return weiri_image_kernel_for<WEIR_HALF>(does);
#endif
    default:
        return nullptr;
    }
}
