/*
 * Reduction of 8-byte words of any data type: the payload of an LL packet, or half of a 16-byte
 * access. A word is unpacked into elements (lanes), the elements of all ranks are combined in rank
 * order, and the result is rounded and packed once:
 *
 *   half, bfloat16, fp8   combined as float
 *   float, double         combined as they are
 *   integers              8 and 32 bits as uint32, 64 bits as uint64, so arithmetic wraps;
 *                         signed types use the kernels of the unsigned ones
 *
 * The host version, which tests run, computes the same bits as the device version except for NaN
 * payloads. The operation is known at run time only and is the same for the whole launch: one
 * uniform branch per word, outside the loop over ranks. To keep kernels few and small, a minimum is
 * a maximum of inverted words, an average a sum that is divided, and signed numbers are compared
 * after their sign bits have been inverted.
 *
 * Buffers may start at any address and end within a word (see access.cuh).
 */
#ifndef WEIR_COLL_CUDA_VECTOR_CUH
#define WEIR_COLL_CUDA_VECTOR_CUH

#include "coll/cuda/device/access.cuh"
#include "compute/numeric.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#endif

/* -------------------------------------------------------------------- access */

/* 16 bytes, or the first `bytes` of them with the rest 0. aligned: to 16. */
WEIRI_GPU_FN weiri_gpu_vector weiri_gpu_load_vector(const char *from, size_t bytes, int aligned)
{
    if (__builtin_expect(aligned && bytes >= 16, 1))
        return weiri_gpu_load16(from);
    weiri_gpu_vector vector = {{0, 0}};
    if (bytes >= 24) {
        const uint32_t shift = weiri_gpu_misaligned(from, 8);
        const char *word = from - shift;
        const uint64_t middle = weiri_gpu_load8(word + 8);
        vector.word[0] = weiri_gpu_shift_words(weiri_gpu_load8(word), middle, shift);
        vector.word[1] = weiri_gpu_shift_words(middle, weiri_gpu_load8(word + 16), shift);
        return vector;
    }
#pragma unroll 1
    for (uint32_t i = 0; i < 16 && i < bytes; i++) {
        const uint64_t byte = (uint64_t)((const volatile uint8_t *)from)[i] << (8 * (i & 7));
        vector.word[0] |= i < 8 ? byte : 0;
        vector.word[1] |= i < 8 ? 0 : byte;
    }
    return vector;
}

WEIRI_GPU_FN void weiri_gpu_store_vector(char *to, const weiri_gpu_vector &vector, size_t bytes,
                                         int aligned)
{
    if (__builtin_expect(aligned && bytes >= 16, 1)) {
        weiri_gpu_store16(to, vector);
        return;
    }
    weiri_gpu_store_word(to, vector.word[0], bytes);
    if (bytes > 8)
        weiri_gpu_store_word(to + 8, vector.word[1], bytes - 8);
}

/* --------------------------------------------------------------------- lanes */

/* For each data type: the element type, the number of elements per word, and conversions. Signed
 * integers are not among them: see weiri_gpu_op_of. */
template <int dtype> struct weiri_gpu_lanes;

/* Integers of `bits` bits, combined in one unsigned C type. */
template <typename type, typename signed_type, int bits> struct weiri_gpu_integers {
    typedef type lane;
    enum { COUNT = 64 / bits, IS_INTEGER = 1, UNUSED = (int)(8 * sizeof(type)) - bits };
    WEIRI_GPU_FN void unpack(uint64_t word, type (&lanes)[COUNT])
    {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            lanes[i] = (type)(word >> (bits * i % 64)) << UNUSED >> UNUSED;
    }
    WEIRI_GPU_FN uint64_t pack(const type (&lanes)[COUNT])
    {
        uint64_t word = 0;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            word |= (uint64_t)(type)(lanes[i] << UNUSED >> UNUSED) << (bits * i % 64);
        return word;
    }
    WEIRI_GPU_FN type average(type value, int parts, int is_signed)
    {
        const type high = value << UNUSED;
        return is_signed ? (type)(((signed_type)high >> UNUSED) / (signed_type)parts)
                         : (high >> UNUSED) / (type)parts;
    }
};

template <> struct weiri_gpu_lanes<WEIR_UINT8> : weiri_gpu_integers<uint32_t, int32_t, 8> {
};
template <> struct weiri_gpu_lanes<WEIR_UINT32> : weiri_gpu_integers<uint32_t, int32_t, 32> {
};
template <> struct weiri_gpu_lanes<WEIR_UINT64> : weiri_gpu_integers<uint64_t, int64_t, 64> {
};

template <> struct weiri_gpu_lanes<WEIR_DOUBLE> {
    typedef double lane;
    enum { COUNT = 1, IS_INTEGER = 0 };
    WEIRI_GPU_FN void unpack(uint64_t word, double (&lanes)[1])
    {
        memcpy(lanes, &word, sizeof word);
    }
    WEIRI_GPU_FN uint64_t pack(const double (&lanes)[1])
    {
        uint64_t word;
        memcpy(&word, lanes, sizeof word);
        return word;
    }
    WEIRI_GPU_FN double average(double value, int parts, int)
    {
        return value / parts;
    }
};

/* Types of `bits` bits combined as float, two at a time, by pairs::floats_of and pairs::pair_of. */
template <typename pairs, int bits> struct weiri_gpu_floats {
    typedef float lane;
    enum { COUNT = 64 / bits, IS_INTEGER = 0 };
    WEIRI_GPU_FN void unpack(uint64_t word, float (&lanes)[COUNT])
    {
#pragma unroll
        for (int i = 0; i < COUNT; i += 2)
            pairs::floats_of(word >> (bits * i), lanes + i);
    }
    WEIRI_GPU_FN uint64_t pack(const float (&lanes)[COUNT])
    {
        uint64_t word = 0;
#pragma unroll
        for (int i = 0; i < COUNT; i += 2)
            word |= pairs::pair_of(lanes + i) << (bits * i);
        return word;
    }
    WEIRI_GPU_FN float average(float value, int parts, int)
    {
        return value / (float)parts;
    }
};

struct weiri_gpu_float_pair {
    WEIRI_GPU_FN void floats_of(uint64_t pair, float *floats)
    {
        floats[0] = weiri_float_from_bits((uint32_t)pair);
        floats[1] = weiri_float_from_bits((uint32_t)(pair >> 32));
    }
    WEIRI_GPU_FN uint64_t pair_of(const float *floats)
    {
        return weiri_float_bits(floats[0]) | (uint64_t)weiri_float_bits(floats[1]) << 32;
    }
};

struct weiri_gpu_half_pair {
    WEIRI_GPU_FN void floats_of(uint64_t pair, float *floats)
    {
#if WEIR_ON_DEVICE
        uint32_t bits = (uint32_t)pair;
        __half2 halves;
        memcpy(&halves, &bits, sizeof bits);
        float2 both = __half22float2(halves);
        floats[0] = both.x;
        floats[1] = both.y;
#else
        floats[0] = weiri_half_to_float((uint16_t)pair);
        floats[1] = weiri_half_to_float((uint16_t)(pair >> 16));
#endif
    }
    WEIRI_GPU_FN uint64_t pair_of(const float *floats)
    {
#if WEIR_ON_DEVICE
        __half2 halves = __floats2half2_rn(floats[0], floats[1]);
        uint32_t bits;
        memcpy(&bits, &halves, sizeof bits);
        return bits;
#else
        return weiri_half_from_float(floats[0]) | (uint32_t)weiri_half_from_float(floats[1]) << 16;
#endif
    }
};

struct weiri_gpu_bfloat16_pair {
    WEIRI_GPU_FN void floats_of(uint64_t pair, float *floats)
    {
        floats[0] = weiri_float_from_bits((uint32_t)pair << 16);
        floats[1] = weiri_float_from_bits((uint32_t)pair & 0xffff0000u);
    }
    WEIRI_GPU_FN uint64_t pair_of(const float *floats)
    {
#if WEIR_ON_DEVICE
        __nv_bfloat162 both = __floats2bfloat162_rn(floats[0], floats[1]);
        uint32_t bits;
        memcpy(&bits, &both, sizeof bits);
        return bits;
#else
        return weiri_bf16_from_float(floats[0]) | (uint32_t)weiri_bf16_from_float(floats[1]) << 16;
#endif
    }
};

template <int dtype> struct weiri_gpu_fp8_pair {
    WEIRI_GPU_FN void floats_of(uint64_t pair, float *floats)
    {
#if WEIR_ON_DEVICE
        __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(
            (__nv_fp8x2_storage_t)pair, dtype == WEIR_FP8_E4M3 ? __NV_E4M3 : __NV_E5M2);
        float2 both = __half22float2(__half2(halves));
        floats[0] = both.x;
        floats[1] = both.y;
#else
        for (int i = 0; i < 2; i++)
            floats[i] = dtype == WEIR_FP8_E4M3 ? weiri_fp8e4m3_to_float((uint8_t)(pair >> 8 * i))
                                               : weiri_fp8e5m2_to_float((uint8_t)(pair >> 8 * i));
#endif
    }
    WEIRI_GPU_FN uint64_t pair_of(const float *floats)
    {
#if WEIR_ON_DEVICE
        return __nv_cvt_float2_to_fp8x2(make_float2(floats[0], floats[1]), __NV_SATFINITE,
                                        dtype == WEIR_FP8_E4M3 ? __NV_E4M3 : __NV_E5M2);
#else
        uint32_t bits = 0;
        for (int i = 0; i < 2; i++)
            bits |= (uint32_t)(dtype == WEIR_FP8_E4M3 ? weiri_fp8e4m3_from_float(floats[i])
                                                      : weiri_fp8e5m2_from_float(floats[i]))
                    << 8 * i;
        return bits;
#endif
    }
};

template <> struct weiri_gpu_lanes<WEIR_FLOAT> : weiri_gpu_floats<weiri_gpu_float_pair, 32> {
};
template <> struct weiri_gpu_lanes<WEIR_HALF> : weiri_gpu_floats<weiri_gpu_half_pair, 16> {
};
template <> struct weiri_gpu_lanes<WEIR_BFLOAT16> : weiri_gpu_floats<weiri_gpu_bfloat16_pair, 16> {
};
template <>
struct weiri_gpu_lanes<WEIR_FP8_E4M3> : weiri_gpu_floats<weiri_gpu_fp8_pair<WEIR_FP8_E4M3>, 8> {
};
template <>
struct weiri_gpu_lanes<WEIR_FP8_E5M2> : weiri_gpu_floats<weiri_gpu_fp8_pair<WEIR_FP8_E5M2>, 8> {
};

/* ---------------------------------------------------------------- reductions */

/* Bit mask of the ranks that want this rank's results. */
WEIRI_GPU_FN unsigned weiri_gpu_output_ranks(const weiri_gpu_args &args)
{
    if (args.chunk_bytes || args.collective == WEIR_COLL_REDUCE_SCATTER)
        return 1u << args.view.rank;
    return args.collective == WEIR_COLL_REDUCE ? 1u << args.root : (1u << args.view.nranks) - 1;
}

/* An operation as device functions take it: a weir_op, with this bit for signed integers. */
enum { WEIRI_GPU_SIGNED = 8 };

static inline __host__ __device__ int weiri_gpu_is_signed(int32_t dtype)
{
    return dtype == WEIR_INT8 || dtype == WEIR_INT32 || dtype == WEIR_INT64;
}

/* The operation of a launch, whose arguments have a dtype and an op, of a kernel for lanes of
 * dtype. */
template <int dtype, typename launch_args> WEIRI_GPU_FN int weiri_gpu_op_of(const launch_args &args)
{
    return weiri_gpu_lanes<dtype>::IS_INTEGER && weiri_gpu_is_signed(args.dtype)
               ? args.op | WEIRI_GPU_SIGNED
               : args.op;
}

/* The bits of a word to invert before and after its elements are compared, so that their maximum is
 * the result. op: of weiri_gpu_op_of. */
template <int dtype> WEIRI_GPU_FN uint64_t weiri_gpu_inverted(int op)
{
    enum { BITS = 64 / weiri_gpu_lanes<dtype>::COUNT };
    const uint64_t tops = ~(uint64_t)0 / (~(uint64_t)0 >> (64 - BITS)) << (BITS - 1);
    const int is_min = (op & ~WEIRI_GPU_SIGNED) == WEIR_MIN;
    if (!weiri_gpu_lanes<dtype>::IS_INTEGER)
        return is_min ? tops : 0;
    return (op & WEIRI_GPU_SIGNED ? tops : 0) ^ (is_min ? ~(uint64_t)0 : 0);
}

/* op: WEIR_SUM, WEIR_MAX or WEIR_PROD. A NaN persists; of equal values the later one is kept, as
 * everywhere in the library. */
template <int op, typename lane> WEIRI_GPU_FN lane weiri_gpu_combine(lane total, lane next)
{
    if (op == WEIR_PROD)
        return total * next;
    if (op == WEIR_MAX)
        return total > next || total != total ? total : next;
    return total + next;
}

/* Combines the words of nranks (at most `ranks`) ranks in each place: words[rank][place] become
 * totals[place]. op: as above. inverted: bits of every word and of the result. is_average: the
 * result is divided by `parts` before it is rounded; where the compiler knows that number, and it
 * is a power of two, it multiplies. */
template <int dtype, int op, int ranks, int places>
WEIRI_GPU_FN void weiri_gpu_combine_all(int nranks, const uint64_t (&words)[ranks][places],
                                        uint64_t (&totals)[places], uint64_t inverted,
                                        int is_average, int parts, int is_signed)
{
    typedef weiri_gpu_lanes<dtype> lanes;
    typedef typename lanes::lane lane;
#pragma unroll
    for (int p = 0; p < places; p++) {
        lane total[lanes::COUNT], next[lanes::COUNT];
        lanes::unpack(words[0][p] ^ inverted, total);
#pragma unroll
        for (int r = 1; r < ranks; r++) {
            if (r >= nranks)
                continue;
            lanes::unpack(words[r][p] ^ inverted, next);
#pragma unroll
            for (int i = 0; i < lanes::COUNT; i++)
                total[i] = weiri_gpu_combine<op>(total[i], next[i]);
        }
        if (is_average) {
#pragma unroll
            for (int i = 0; i < lanes::COUNT; i++)
                total[i] = lanes::average(total[i], parts, is_signed);
        }
        totals[p] = lanes::pack(total) ^ inverted;
    }
}

/* How many vectors of two ranks a thread should have in flight: fewer do not saturate the links;
 * four of 8-bit types need more registers than there are. */
template <int dtype>
constexpr int WEIRI_GPU_VECTORS_OF_TWO = weiri_gpu_lanes<dtype>::COUNT == 8 ? 2 : 4;

/* Reduces the words of nranks (at most `ranks`) ranks in rank order, place by place. op: of
 * weiri_gpu_op_of. parts: the divisor of an average. */
template <int dtype, int ranks, int places>
WEIRI_GPU_FN void weiri_gpu_reduce_parts(int op, int nranks, const uint64_t (&words)[ranks][places],
                                         uint64_t (&totals)[places], int parts)
{
    const int is_signed = op & WEIRI_GPU_SIGNED, plain = op & ~WEIRI_GPU_SIGNED;
    if (plain == WEIR_SUM || plain == WEIR_AVG)
        weiri_gpu_combine_all<dtype, WEIR_SUM>(nranks, words, totals, 0, plain == WEIR_AVG, parts,
                                               is_signed);
    else if (plain == WEIR_PROD)
        weiri_gpu_combine_all<dtype, WEIR_PROD>(nranks, words, totals, 0, 0, 1, 0);
    else
        weiri_gpu_combine_all<dtype, WEIR_MAX>(nranks, words, totals, weiri_gpu_inverted<dtype>(op),
                                               0, 1, 0);
}

/* Reduces the words of all ranks. */
template <int dtype, int ranks, int places>
WEIRI_GPU_FN void weiri_gpu_reduce(int op, int nranks, const uint64_t (&words)[ranks][places],
                                   uint64_t (&totals)[places])
{
    weiri_gpu_reduce_parts<dtype>(op, nranks, words, totals, nranks);
}

#endif
