/*
 * The kernel that ends an average: it divides every element of the output, which holds the sum, in
 * a launch after the plan's. Also the table of plan kernels by type.
 */
#include "coll/cuda/device/types.cuh"
#include "coll/cuda/device/vector.cuh"
#include "plan/cuda/kernels.h"

template <int dtype>
static __global__ void __launch_bounds__(WEIRI_IMAGE_THREADS_MAX)
    divide(const __grid_constant__ weiri_divide_args args)
{
    typedef weiri_gpu_lanes<dtype> lanes;
    const int is_signed = weiri_gpu_is_signed(args.dtype);
    const uint64_t step = (uint64_t)8 * gridDim.x * blockDim.x;
    for (uint64_t at = 8 * ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x); at < args.bytes;
         at += step) {
        typename lanes::lane lane[lanes::COUNT];
        lanes::unpack(weiri_gpu_load_word(args.data + at, args.bytes - at), lane);
#pragma unroll
        for (int i = 0; i < lanes::COUNT; i++)
            lane[i] = lanes::average(lane[i], args.by, is_signed);
        weiri_gpu_store_word(args.data + at, lanes::pack(lane), args.bytes - at);
    }
}

const void *weiri_divide_kernel(weir_dtype dtype)
{
    static const void *const kernels[] = WEIRI_GPU_OF_TYPES(divide);
    return weiri_gpu_of_type(kernels, dtype);
}

const void *weiri_image_kernel(weir_dtype dtype, uint32_t does)
{
    const void *kernel = weiri_image_kernel_of_floats(dtype, does);
    if (!kernel)
        kernel = weiri_image_kernel_of_integers(dtype, does);
    return kernel ? kernel : weiri_image_kernel_of_smalls(dtype, does);
}
