/* Instantiates the plan kernels for integers; signed ones use the unsigned ones (vector.cuh). */
#include "plan/cuda/device/execute.cuh"

const void *weiri_image_kernel_of_integers(weir_dtype dtype, uint32_t does)
{
    switch (dtype) {
#if !WEIR_FEW_KERNELS
    case WEIR_INT8:
    case WEIR_UINT8:
        return weiri_image_kernel_for<WEIR_UINT8>(does);
    case WEIR_INT32:
    case WEIR_UINT32:
        return weiri_image_kernel_for<WEIR_UINT32>(does);
    case WEIR_INT64:
    case WEIR_UINT64:
        return weiri_image_kernel_for<WEIR_UINT64>(does);
#endif
    default:
        return nullptr;
    }
}
