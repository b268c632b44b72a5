/*
 * The kernels of weir_allreduce_norm as the host sees them: their argument, and a grid for it.
 */
#ifndef WEIR_COLL_CUDA_NORM_H
#define WEIR_COLL_CUDA_NORM_H

#include "coll/cuda/kernels.h"
#include <weir/norm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How contributions reach the other ranks. */
typedef enum weiri_norm_protocol {
    WEIRI_NORM_PACKET, /* LL packets */
    WEIRI_NORM_LINES,  /* LL128 lines */
    WEIRI_NORM_PROTOCOLS
} weiri_norm_protocol;

/* One launch: `rows` rows, each divided among `split` neighbouring blocks. */
typedef struct weiri_norm_launch {
    weiri_gpu_view view;
    const char *in, *weight, *bias;
    char *residual, *out;
    float *scales;
    uint32_t rows, hidden;
    uint32_t split;
    uint32_t senders; /* blocks that only send; 0: all send what they receive */
    float epsilon;
    int32_t kind, output;
} weiri_norm_launch;

/* The host address of the kernel, whose only argument is a weiri_norm_launch; NULL for a type that
 * it does not serve. Local. */
const void *weiri_gpu_norm_kernel(weiri_norm_protocol protocol, weir_dtype dtype, int nranks);
/* How many rows of row_bytes one launch can serve: as many as fit into the slots. Local. */
uint32_t weiri_gpu_norm_rows(weiri_norm_protocol protocol, size_t row_bytes, int nranks);
/* Sets the launch's split and senders, and returns its grid on a GPU with so many multiprocessors,
 * of at most blocks_most blocks if that is not 0. Local. */
weiri_gpu_shape weiri_gpu_norm_shape(weiri_norm_launch *launch, int processors, int blocks_most);

#ifdef __cplusplus
}
#endif

#endif
