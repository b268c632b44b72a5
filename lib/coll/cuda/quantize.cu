/*
 * A step of weir_allreduce_quantized (compute/quantize.h) on a GPU: reads each group, from elements
 * or as a sum of packs, and writes it as elements or to a pack. Half a warp serves a group of 128
 * elements, and a lane 8 of them: 16 bytes of a 16-bit type, and a word of a pack. The largest
 * magnitude of a group passes between its lanes. No other memory ordering is needed: the stream
 * orders steps and exchanges.
 */
#include "coll/cuda/device/vector.cuh"
#include "coll/cuda/quantize.h"

enum {
    QUANTIZE_THREADS = 256,
    QUANTIZE_LANE = 8,
    QUANTIZE_LANES = WEIR_QUANTIZED_GROUP / QUANTIZE_LANE
};

typedef weiri_gpu_lanes<WEIR_FP8_E4M3> quantize_fp8;

/* Elements of a lane, of which `left` exist; the others are 0. */
template <int dtype>
static __device__ __forceinline__ void quantize_load(const char *from, uint64_t left,
                                                     float (&x)[QUANTIZE_LANE])
{
    typedef weiri_gpu_lanes<dtype> lanes;
    const uint64_t element = 8 / lanes::COUNT;
#pragma unroll
    for (int w = 0; w < QUANTIZE_LANE / lanes::COUNT; w++) {
        float part[lanes::COUNT];
        const uint64_t before = (uint64_t)w * lanes::COUNT;
        lanes::unpack(
            left > before ? weiri_gpu_load_word(from + 8 * w, (left - before) * element) : 0, part);
#pragma unroll
        for (int i = 0; i < lanes::COUNT; i++)
            x[w * lanes::COUNT + i] = part[i];
    }
}

template <int dtype>
static __device__ __forceinline__ void quantize_store(char *to, uint64_t left,
                                                      const float (&x)[QUANTIZE_LANE])
{
    typedef weiri_gpu_lanes<dtype> lanes;
    const uint64_t element = 8 / lanes::COUNT;
#pragma unroll
    for (int w = 0; w < QUANTIZE_LANE / lanes::COUNT; w++) {
        float part[lanes::COUNT];
        const uint64_t before = (uint64_t)w * lanes::COUNT;
#pragma unroll
        for (int i = 0; i < lanes::COUNT; i++)
            part[i] = x[w * lanes::COUNT + i];
        if (left > before)
            weiri_gpu_store_word(to + 8 * w, lanes::pack(part), (left - before) * element);
    }
}

static __device__ __forceinline__ void quantize_decode(const weiri_quantize_step &step,
                                                       const char *pack, uint64_t group, int lane,
                                                       float (&x)[QUANTIZE_LANE])
{
    const uint64_t word =
        weiri_gpu_load8(pack + weiri_pack_codes_at(&step, group) + QUANTIZE_LANE * lane);
    const float scale = *(const float *)(pack + weiri_pack_scale_at(&step, group));
    if (step.format == WEIR_QUANTIZED_FP8) {
        quantize_fp8::unpack(word, x);
#pragma unroll
        for (int i = 0; i < QUANTIZE_LANE; i++)
            x[i] = weiri_norm_times(scale, weiri_dequantize_fp8(x[i]));
        return;
    }
#pragma unroll
    for (int i = 0; i < QUANTIZE_LANE; i++)
        x[i] = weiri_norm_times(scale, weiri_dequantize_int8((uint8_t)(word >> 8 * i)));
}

static __device__ __forceinline__ void quantize_sum(const weiri_quantize_step &step, uint64_t group,
                                                    int lane, float (&x)[QUANTIZE_LANE])
{
    float next[QUANTIZE_LANE];
    quantize_decode(step, step.in, group, lane, x);
    for (int part = 1; part < step.parts; part++) {
        quantize_decode(step, step.in + (uint64_t)part * step.pack, group, lane, next);
#pragma unroll
        for (int i = 0; i < QUANTIZE_LANE; i++)
            x[i] = weiri_norm_plus(x[i], next[i]);
    }
#pragma unroll
    for (int i = 0; i < QUANTIZE_LANE; i++)
        if (step.divisor > 1)
            x[i] = weiri_norm_over(x[i], (float)step.divisor);
}

/* All lanes of a warp take part. exists: this lane's group does. */
static __device__ __forceinline__ void quantize_encode(const weiri_quantize_step &step,
                                                       uint64_t group, int lane, bool exists,
                                                       const float (&x)[QUANTIZE_LANE])
{
    float most = 0, y[QUANTIZE_LANE];
    uint64_t word = 0;
#pragma unroll
    for (int i = 0; i < QUANTIZE_LANE; i++)
        most = fmaxf(most, weiri_quantize_magnitude(x[i]));
#pragma unroll
    for (int half = QUANTIZE_LANES / 2; half; half /= 2)
        most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, half));
    const float scale = weiri_quantize_scale(step.format, most);
#pragma unroll
    for (int i = 0; i < QUANTIZE_LANE; i++)
        y[i] = weiri_norm_over(x[i], scale);
    if (step.format == WEIR_QUANTIZED_FP8)
        word = quantize_fp8::pack(y);
    else
#pragma unroll
        for (int i = 0; i < QUANTIZE_LANE; i++)
            word |= (uint64_t)weiri_quantize_int8(y[i]) << 8 * i;
    if (!exists)
        return;
    weiri_gpu_store8(step.out + weiri_pack_codes_at(&step, group) + QUANTIZE_LANE * lane, word);
    if (lane == 0)
        *(float *)(step.out + weiri_pack_scale_at(&step, group)) = scale;
}

template <int dtype>
static __global__ void __launch_bounds__(QUANTIZE_THREADS)
    quantize(const __grid_constant__ weiri_quantize_step step)
{
    const uint64_t element = 8 / weiri_gpu_lanes<dtype>::COUNT;
    const uint64_t groups = (step.count + WEIR_QUANTIZED_GROUP - 1) / WEIR_QUANTIZED_GROUP;
    const uint32_t each = blockDim.x / QUANTIZE_LANES; /* groups of a block, two for each warp */
    const int lane = (int)(threadIdx.x % QUANTIZE_LANES);
    for (uint64_t first = (uint64_t)blockIdx.x * each; first < groups;
         first += (uint64_t)gridDim.x * each) {
        const uint64_t group = first + threadIdx.x / QUANTIZE_LANES;
        const uint64_t at = group * WEIR_QUANTIZED_GROUP + (uint64_t)(QUANTIZE_LANE * lane);
        const uint64_t left = at < step.count ? step.count - at : 0;
        float x[QUANTIZE_LANE] = {};
        if (group < groups && step.from_packs)
            quantize_sum(step, group, lane, x);
        else if (left)
            quantize_load<dtype>(step.in + at * element, left, x);
        if (step.to_packs)
            quantize_encode(step, group, lane, group < groups, x);
        else if (left)
            quantize_store<dtype>(step.out + at * element, left, x);
    }
}

/* --------------------------------------------------------------- host side */

const void *weiri_gpu_quantize_kernel(weir_dtype dtype)
{
    switch (dtype) {
    case WEIR_FLOAT:
        return (const void *)&quantize<WEIR_FLOAT>;
#if !WEIR_FEW_KERNELS
    case WEIR_HALF:
        return (const void *)&quantize<WEIR_HALF>;
    case WEIR_BFLOAT16:
        return (const void *)&quantize<WEIR_BFLOAT16>;
#endif
    default:
        return nullptr;
    }
}

/* A block for 16 groups, up to as many blocks as are resident at once. */
weiri_gpu_shape weiri_gpu_quantize_shape(uint64_t count, int processors)
{
    enum { GROUPS = QUANTIZE_THREADS / QUANTIZE_LANES, RESIDENT = 8 };
    const uint64_t groups = (count + WEIR_QUANTIZED_GROUP - 1) / WEIR_QUANTIZED_GROUP;
    const uint64_t blocks = (groups + GROUPS - 1) / GROUPS, most = (uint64_t)processors * RESIDENT;
    return {(int)(blocks < most ? blocks : most), QUANTIZE_THREADS};
}
