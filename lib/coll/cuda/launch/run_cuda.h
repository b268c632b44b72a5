/* What the code that launches kernels shares. */
#ifndef WEIR_COLL_CUDA_LAUNCH_RUN_CUDA_H
#define WEIR_COLL_CUDA_LAUNCH_RUN_CUDA_H

#include "coll/coll.h"
#include "coll/cuda/kernels.h"

#include <cuda_runtime_api.h>

/* What kernels are told of a buffer in a region that peers know. */
static inline weiri_gpu_desc weiri_cuda_desc(weiri_desc desc)
{
    return (weiri_gpu_desc)(desc.region + 1) << 48 | desc.offset;
}

/* Before launches: whether the communicator lives, its device current (then
 * weiri_cuda_leave must follow), what peers have allocated known. Local. */
weir_status weiri_cuda_ready(weir_comm *comm, weir_stream stream, int *before);

/* Puts a kernel into a stream, with a grid cut to what it can have and what
 * is resident at once; name: the algorithm's, for messages. Local. */
weir_status weiri_cuda_launch(const weiri_coll *coll, weir_stream stream, const char *name,
                              const void *kernel, weiri_gpu_shape shape, weiri_gpu_args *args);

/* Whether the call's input can be one. Local. WEIR_ERR_INVALID with what to do. */
weir_status weiri_cuda_check_input(const weiri_coll *coll, const weir_call *call);
/* The algorithm that serves every call of the collective: its last row. */
weir_status weiri_cuda_run_general(weiri_coll *coll, const weir_call *call);

#endif
