/* Instantiates the plan kernels for bfloat16 and fp8. */
#include "plan/cuda/device/execute.cuh"

const void *weiri_image_kernel_of_smalls(weir_dtype dtype, uint32_t does)
{
    switch (dtype) {
#if !WEIR_FEW_KERNELS
    case WEIR_BFLOAT16:
        return weiri_image_kernel_for<WEIR_BFLOAT16>(does);
    case WEIR_FP8_E4M3:
        return weiri_image_kernel_for<WEIR_FP8_E4M3>(does);
    case WEIR_FP8_E5M2:
        return weiri_image_kernel_for<WEIR_FP8_E5M2>(does);
#endif
    default:
        return nullptr;
    }
}
