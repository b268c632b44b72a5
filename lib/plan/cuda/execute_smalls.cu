/* The kernel of plans for types of 8 bits, and bfloat16. */
#include "plan/cuda/execute.cuh"

const void *weiri_image_kernel_of_smalls(weir_dtype dtype)
{
    switch (dtype) {
    case WEIR_INT8:
        return (const void *)&weiri_image_execute<WEIR_INT8>;
    case WEIR_UINT8:
        return (const void *)&weiri_image_execute<WEIR_UINT8>;
    case WEIR_BFLOAT16:
        return (const void *)&weiri_image_execute<WEIR_BFLOAT16>;
    case WEIR_FP8_E4M3:
        return (const void *)&weiri_image_execute<WEIR_FP8_E4M3>;
    case WEIR_FP8_E5M2:
        return (const void *)&weiri_image_execute<WEIR_FP8_E5M2>;
    default:
        return nullptr;
    }
}
