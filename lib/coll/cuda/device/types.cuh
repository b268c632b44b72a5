/*
 * Host side of a .cu file: tables of its kernels by data type and number of ranks, and default
 * grids.
 */
#ifndef WEIR_COLL_CUDA_TYPES_CUH
#define WEIR_COLL_CUDA_TYPES_CUH

#include "coll/cuda/kernels.h"

/* Tables of kernels that are templates of the data type, in the order of weir_dtype, or of the data
 * type and the exact number of ranks. Signed integers have the kernels of unsigned ones
 * (vector.cuh). */
#define WEIRI_GPU_OF_TYPES(kernel) WEIRI_GPU_TYPES(WEIRI_GPU_OF_TYPE, kernel, 0)
#define WEIRI_GPU_OF_TYPES_FOR(kernel, exact) WEIRI_GPU_TYPES(WEIRI_GPU_OF_TYPE_FOR, kernel, exact)

#define WEIRI_GPU_OF_TYPE(kernel, dtype, exact) (const void *)&kernel<dtype>
#define WEIRI_GPU_OF_TYPE_FOR(kernel, dtype, exact) (const void *)&kernel<dtype, exact>
#define WEIRI_GPU_TYPES(of, kernel, exact)                                                         \
    {                                                                                              \
        of(kernel, WEIR_UINT8, exact), of(kernel, WEIR_UINT8, exact),                              \
            of(kernel, WEIR_UINT32, exact), of(kernel, WEIR_UINT32, exact),                        \
            of(kernel, WEIR_UINT64, exact), of(kernel, WEIR_UINT64, exact),                        \
            of(kernel, WEIR_HALF, exact), of(kernel, WEIR_FLOAT, exact),                           \
            of(kernel, WEIR_DOUBLE, exact), of(kernel, WEIR_BFLOAT16, exact),                      \
            of(kernel, WEIR_FP8_E4M3, exact), of(kernel, WEIR_FP8_E5M2, exact)                     \
    }

static inline const void *weiri_gpu_of_type(const void *const (&kernels)[WEIR_DTYPE_COUNT],
                                            weir_dtype dtype)
{
    return (unsigned)dtype < WEIR_DTYPE_COUNT ? kernels[dtype] : nullptr;
}

/* Each macro defines weiri_gpu_<name>_kernel (see kernels.h) for the kernel <name>: a template of
 * the data type; of the data type and the number of ranks (2, 4, 8, or 0 for any); of the number of
 * ranks only; or a plain function, for kernels that move bytes. With WEIR_FEW_KERNELS (KERNELS=few)
 * one of each is compiled, for float and any number of ranks: enough to see that it compiles. */
#if WEIR_FEW_KERNELS
#define WEIRI_GPU_DEFINE_OF_TYPES(name)                                                            \
    const void *weiri_gpu_##name##_kernel(weir_dtype dtype, int)                                   \
    {                                                                                              \
        return dtype == WEIR_FLOAT ? (const void *)&name<WEIR_FLOAT> : nullptr;                    \
    }
#define WEIRI_GPU_DEFINE_OF_TYPES_AND_RANKS(name)                                                  \
    const void *weiri_gpu_##name##_kernel(weir_dtype dtype, int)                                   \
    {                                                                                              \
        return dtype == WEIR_FLOAT ? (const void *)&name<WEIR_FLOAT, 0> : nullptr;                 \
    }
#define WEIRI_GPU_DEFINE_OF_RANKS(name)                                                            \
    const void *weiri_gpu_##name##_kernel(weir_dtype dtype, int)                                   \
    {                                                                                              \
        return (unsigned)dtype < WEIR_DTYPE_COUNT ? (const void *)&name<0> : nullptr;              \
    }
#else
#define WEIRI_GPU_DEFINE_OF_TYPES(name)                                                            \
    const void *weiri_gpu_##name##_kernel(weir_dtype dtype, int)                                   \
    {                                                                                              \
        static const void *const kernels[] = WEIRI_GPU_OF_TYPES(name);                             \
        return weiri_gpu_of_type(kernels, dtype);                                                  \
    }
#define WEIRI_GPU_DEFINE_OF_TYPES_AND_RANKS(name)                                                  \
    const void *weiri_gpu_##name##_kernel(weir_dtype dtype, int nranks)                            \
    {                                                                                              \
        static const void *const two[] = WEIRI_GPU_OF_TYPES_FOR(name, 2);                          \
        static const void *const four[] = WEIRI_GPU_OF_TYPES_FOR(name, 4);                         \
        static const void *const eight[] = WEIRI_GPU_OF_TYPES_FOR(name, 8);                        \
        static const void *const any[] = WEIRI_GPU_OF_TYPES_FOR(name, 0);                          \
        return weiri_gpu_of_type(nranks == 2   ? two                                               \
                                 : nranks == 4 ? four                                              \
                                 : nranks == 8 ? eight                                             \
                                               : any,                                              \
                                 dtype);                                                           \
    }
#define WEIRI_GPU_DEFINE_OF_RANKS(name)                                                            \
    const void *weiri_gpu_##name##_kernel(weir_dtype dtype, int nranks)                            \
    {                                                                                              \
        if ((unsigned)dtype >= WEIR_DTYPE_COUNT)                                                   \
            return nullptr;                                                                        \
        return nranks == 2   ? (const void *)&name<2>                                              \
               : nranks == 4 ? (const void *)&name<4>                                              \
               : nranks == 8 ? (const void *)&name<8>                                              \
                             : (const void *)&name<0>;                                             \
    }
#endif
#define WEIRI_GPU_DEFINE_OF_BYTES(name)                                                            \
    const void *weiri_gpu_##name##_kernel(weir_dtype dtype, int)                                   \
    {                                                                                              \
        return (unsigned)dtype < WEIR_DTYPE_COUNT ? (const void *)&name : nullptr;                 \
    }

/* Grid for a reduction by packets: one word per thread as long as one block per multiprocessor is
 * enough. One block for up to 64 words, blocks of 32 threads up to 512 words, of 64 beyond. */
static inline weiri_gpu_shape weiri_gpu_packet_shape(uint64_t words, int processors,
                                                     int threads_max)
{
    const int limit = WEIRI_GPU_BLOCKS_MAX;
    uint64_t most = (uint64_t)(processors < limit ? processors : limit);
    uint64_t threads = words <= 32 || (words > 64 && words <= 512) ? 32 : 64;
    uint64_t blocks = (words + threads - 1) / threads;
    if (blocks > most) {
        blocks = most;
        threads = ((words + blocks - 1) / blocks + 31) / 32 * 32;
    }
    weiri_gpu_shape shape = {(int)(blocks ? blocks : 1),
                             threads < (uint64_t)threads_max ? (int)threads : threads_max};
    return shape;
}

/* Grid for a copy by packets: one packet per thread, in small blocks as long as there are free
 * multiprocessors. */
static inline weiri_gpu_shape weiri_gpu_copy_shape(uint64_t packets, int processors)
{
    weiri_gpu_shape shape = {1, 32};
    if (packets <= 32)
        return shape;
    shape.threads = 64;
    while (shape.threads < 512 && packets > (uint64_t)shape.threads * (uint64_t)processors)
        shape.threads *= 2;
    uint64_t blocks = (packets + (uint64_t)shape.threads - 1) / (uint64_t)shape.threads;
    shape.blocks = blocks < (uint64_t)processors ? (int)blocks : processors;
    return shape;
}

/* Largest block of the kernels that load from or store to peers' buffers; leaves each thread 128
 * registers for data in flight. */
enum { WEIRI_GPU_DIRECT_THREADS = 512 };

/* Grid for a kernel in which each rank reduces `bytes`: one vector of 16 bytes per thread while
 * threads suffice; fewer blocks for short calls, whose barriers take longer than their data. */
static inline weiri_gpu_shape weiri_gpu_direct_shape(uint64_t bytes, int processors)
{
    const uint64_t vectors = (bytes + 15) / 16;
    weiri_gpu_shape shape;
    shape.threads = bytes <= (256 << 10) ? 256 : WEIRI_GPU_DIRECT_THREADS;
    uint64_t blocks = (vectors + (uint64_t)shape.threads - 1) / (uint64_t)shape.threads;
    uint64_t most = bytes <= (256 << 10) ? 48 : bytes <= (1 << 20) ? 64 : 128;
    most = most < (uint64_t)processors ? most : (uint64_t)processors;
    blocks = blocks < most ? blocks : most;
    shape.blocks = blocks ? (int)blocks : 1;
    return shape;
}

#endif
