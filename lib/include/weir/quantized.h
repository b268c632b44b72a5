/*
 * Allreduce of quantised data: half or a quarter of the bytes travel. The conventions of weir.h
 * apply.
 *
 * Every rank quantises its contribution, its own copy included, in groups of 128 neighbouring
 * elements, which begin at the buffer's start; the last one may be shorter. A group travels as one
 * byte for each element and one float, the scale:
 *
 *     WEIR_QUANTIZED_FP8    scale = largest magnitude / 416; byte = fp8 e4m3 nearest to x / scale
 *     WEIR_QUANTIZED_INT8   scale = largest magnitude / 126; byte = integer nearest to x / scale
 *
 * The quantised contributions are added in rank order in float. Between two ranks each adds both,
 * and rounds the sum to the type. Between more ranks each adds a share of the elements, quantises
 * its sums in the same way, and sends them to all. WEIR_AVG divides the sum in float before it is
 * rounded or quantised again. All ranks get the same bits, which depend only on the contributions,
 * the number of ranks and the position of an element in its group: not on the backend, the
 * algorithms, registration, or the number of nodes.
 *
 * Error. With Q(x) = |x| / 16 + scale / 1024 for fp8, and scale / 2 for int8, an element differs
 * from the exact result by at most
 *
 *     2 ranks     the sum of Q over both contributions, and the rounding to the type
 *     more        the sum of Q over all contributions, Q of the sum, and the rounding
 *
 * each increased by 2^-18 of itself for float arithmetic, and 2^-100 for each quantisation:
 * a group whose largest magnitude is below 2^-100 becomes 0.
 *
 * A NaN remains a NaN, and an infinity an infinity, as in weir_allreduce; they do not change the
 * scale of their group.
 */
#ifndef WEIR_QUANTIZED_H
#define WEIR_QUANTIZED_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { WEIR_QUANTIZED_GROUP = 128 }; /* elements for each scale */

/* The type in which elements travel. */
typedef enum weir_quantization {
    WEIR_QUANTIZED_FP8,  /* "fp8": e4m3; keeps small elements next to large ones */
    WEIR_QUANTIZED_INT8, /* "int8": a quarter of the error of fp8 where magnitudes are alike */
    WEIR_QUANTIZATIONS
} weir_quantization;

/* Returns "fp8" or "int8"; NULL for an invalid value. */
WEIR_API const char *weir_quantization_name(weir_quantization format);

/* Performs the allreduce. in, out: count elements of half, bfloat16 or float, in memory of the
 * communicator's backend, registered or not, the same buffer or ones that do not overlap. op:
 * WEIR_SUM or WEIR_AVG. count, dtype, op and format must be equal on all ranks. A single rank's
 * result is its contribution, not quantised.
 *
 * Collective; blocking on the host backend, enqueued on stream on the CUDA backend (where GPUs of
 * several nodes block as in weir_allreduce). The first call allocates registered memory, 50 MiB on
 * a GPU, which the communicator keeps; that call cannot be captured in a graph. Not thread-safe on
 * one communicator. Monitoring and recordings show the alltoall and the allgather that the call
 * consists of.
 *
 * Errors as of weir_allreduce; also WEIR_ERR_INVALID for other types, operations or formats, and
 * WEIR_ERR_UNSUPPORTED for a first call that is captured. */
WEIR_API weir_status weir_allreduce_quantized(weir_comm *comm, const void *in, void *out,
                                              size_t count, weir_dtype dtype, weir_op op,
                                              weir_quantization format, weir_stream stream);

#ifdef __cplusplus
}
#endif

#endif
