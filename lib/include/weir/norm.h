/*
 * Allreduce, residual and normalisation in one call, as a layer of a tensor-parallel transformer
 * ends. The conventions of weir.h apply.
 *
 *     weir_norm_args args = WEIR_NORM_ARGS_INIT;
 *     args.dtype = WEIR_BFLOAT16, args.rows = tokens, args.hidden = 8192;
 *     args.in = partial, args.residual = residual, args.weight = weight, args.out = normed;
 *     weir_allreduce_norm(comm, &args);
 *
 * For each row of `hidden` elements
 *
 *     sum      = what weir_allreduce returns: contributions added in rank order, in float for
 *                16-bit types, and rounded to dtype
 *     x        = sum + residual, rounded to dtype and stored to residual; without residual, sum
 *     y        = x / sqrt(mean(x^2) + epsilon) * weight                              RMSNorm
 *     y        = (x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias         LayerNorm
 *     out      = y rounded to dtype, or quantised to fp8 e4m3
 *
 * y is computed in float, in an order that depends on hidden only. So for 16-bit types the bits of
 * a row do not depend on the other rows, their number, the algorithm or the backend, and residual
 * is the same as after weir_allreduce and an addition. On the host float is summed by the
 * algorithms of weir_allreduce, in rank order on an invariant communicator.
 *
 * Quantised output. The scale of a group is the largest magnitude of its y, divided by 448, and
 * out = y / scale; a group whose largest magnitude is below 2^-100 has the scale 1. A NaN or an
 * infinity in a row makes y NaN or 0 as the formulas say, and a NaN remains one in every output.
 *
 * GPUs: ranks of one node. The call is a launch of one kernel, for long calls of several, on
 * args.stream; it can be captured in graphs, and needs no registered memory. All other work with
 * the communicator's calls is as for weir_allreduce.
 */
#ifndef WEIR_NORM_H
#define WEIR_NORM_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    WEIR_NORM_ROW_BYTES_MAX = 32768, /* of a row: 16384 elements of 16 bits, 8192 of float */
    WEIR_NORM_BLOCK = 128,           /* elements for each scale of WEIR_NORM_FP8_BLOCK */
};

typedef enum weir_norm_kind {
    WEIR_NORM_RMS,  /* "rms" */
    WEIR_NORM_LAYER /* "layer" */
} weir_norm_kind;

/* What out holds. */
typedef enum weir_norm_output {
    WEIR_NORM_PLAIN,      /* y, of type dtype */
    WEIR_NORM_FP8_TENSOR, /* fp8 e4m3: y / scales[0], which the caller has set */
    WEIR_NORM_FP8_TOKEN,  /* fp8 e4m3; the call sets a scale for each row: scales[row] */
    WEIR_NORM_FP8_BLOCK,  /* fp8 e4m3; a scale for each block of 128 elements:
                             scales[row * (hidden / 128) + block] */
    WEIR_NORM_OUTPUTS
} weir_norm_output;

/* The arguments of a call; buffers in memory of the communicator's backend, aligned to 16 bytes.
 * Initialise with WEIR_NORM_ARGS_INIT; size works as in weir_comm_config. Everything but addresses
 * must be equal on all ranks. */
typedef struct weir_norm_args {
    size_t size; /* sizeof(weir_norm_args), set by WEIR_NORM_ARGS_INIT */
    weir_norm_kind kind;
    weir_norm_output output;
    weir_dtype dtype;      /* of in, residual, weight and bias: bfloat16, half or float */
    const void *in;        /* rows * hidden elements: this rank's contribution */
    void *residual;        /* rows * hidden, updated; NULL: none */
    const void *weight;    /* hidden; NULL: 1 */
    const void *bias;      /* hidden, LayerNorm only; NULL: 0 */
    void *out;             /* rows * hidden; may be in if it is not quantised */
    float *scales;         /* of quantised outputs, else NULL */
    size_t rows;           /* 0: the call does nothing */
    size_t hidden;         /* a multiple of 8; of 128 for WEIR_NORM_FP8_BLOCK */
    float epsilon;         /* 1e-6 by default */
    weir_stream stream;    /* CUDA backend: a cudaStream_t; host backend: NULL */
    const char *algo_name; /* CUDA backend: "packet", "lines"; NULL: selected by size */
} weir_norm_args;

#define WEIR_NORM_ARGS_INIT                                                                        \
    {                                                                                              \
        sizeof(weir_norm_args), WEIR_NORM_RMS, WEIR_NORM_PLAIN, WEIR_BFLOAT16, NULL, NULL, NULL,   \
            NULL, NULL, NULL, 0, 0, 1e-6f, NULL, NULL                                              \
    }

/* Performs the call. Collective; blocking on the host backend, enqueued on args->stream on the CUDA
 * backend. residual and out belong to the caller; in, weight and bias are only read. All buffers
 * are in use until the call has completed. Not thread-safe on one communicator. Errors as of
 * weir_allreduce; also WEIR_ERR_INVALID, with what is supported, for other types, a hidden size
 * that is no multiple of 8 or exceeds WEIR_NORM_ROW_BYTES_MAX, buffers that are missing, not
 * aligned or overlap, or an unknown algorithm; WEIR_ERR_UNSUPPORTED for GPUs of several nodes;
 * WEIR_ERR_NO_MEMORY on the host backend, which copies sums that are to be quantised. */
WEIR_API weir_status weir_allreduce_norm(weir_comm *comm, const weir_norm_args *args);

#ifdef __cplusplus
}
#endif

#endif
