/* The kernel of plans for integers of 32 and 64 bits. */
#include "plan/cuda/execute.cuh"

const void *weiri_image_kernel_of_integers(weir_dtype dtype)
{
    switch (dtype) {
    case WEIR_INT32:
        return (const void *)&weiri_image_execute<WEIR_INT32>;
    case WEIR_UINT32:
        return (const void *)&weiri_image_execute<WEIR_UINT32>;
    case WEIR_INT64:
        return (const void *)&weiri_image_execute<WEIR_INT64>;
    case WEIR_UINT64:
        return (const void *)&weiri_image_execute<WEIR_UINT64>;
    default:
        return nullptr;
    }
}
