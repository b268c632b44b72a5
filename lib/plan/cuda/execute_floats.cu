/* The kernel of plans for float, double and half. */
#include "plan/cuda/execute.cuh"

const void *weiri_image_kernel_of_floats(weir_dtype dtype)
{
    switch (dtype) {
    case WEIR_FLOAT:
        return (const void *)&weiri_image_execute<WEIR_FLOAT>;
    case WEIR_DOUBLE:
        return (const void *)&weiri_image_execute<WEIR_DOUBLE>;
    case WEIR_HALF:
        return (const void *)&weiri_image_execute<WEIR_HALF>;
    default:
        return nullptr;
    }
}
