/* Functions that launch kernels. */
#ifndef WEIR_COLL_CUDA_LAUNCH_RUN_CUDA_H
#define WEIR_COLL_CUDA_LAUNCH_RUN_CUDA_H

#include "coll/coll.h"
#include "coll/cuda/kernels.h"

#include <cuda_runtime_api.h>

/* The descriptor by which kernels refer to a buffer in a region that peers can map. */
static inline weiri_gpu_desc weiri_cuda_desc(weiri_desc desc)
{
    return (weiri_gpu_desc)(desc.region + 1) << 48 | desc.offset;
}

/* What describes the memory on every rank, in which all ranks' buffers of a call are if one is in
 * desc's (weir_mem_symmetric); NULL: the memory is not symmetric. */
static inline const weiri_desc *weiri_cuda_symmetric(const weir_comm *comm, weiri_desc desc)
{
    return desc.generation ? comm->regions[desc.region].symmetric : NULL;
}

/* Prepares launches: checks the communicator, makes its device current (on success,
 * weiri_cuda_leave(comm, *before) must follow) and maps what peers have allocated. Local. */
weir_status weiri_cuda_ready(weir_comm *comm, weir_stream stream, int *before);

/* Enqueues a kernel on a stream, with at most as many threads as it can have and as many blocks as
 * are resident at once. name: the algorithm's, for messages; args: the kernel's only argument.
 * Local. */
weir_status weiri_cuda_launch(weir_comm *comm, weir_stream stream, const char *name,
                              const void *kernel, weiri_gpu_shape shape, void *args);

/* Checks that the call's input is memory of this GPU and long enough. Local. WEIR_ERR_INVALID with
 * a remedy. */
weir_status weiri_cuda_check_input(const weiri_coll *coll, const weiri_task *task);
/* As weiri_cuda_run, whatever the policy of blocks. */
weir_status weiri_cuda_run_kernel(weiri_coll *coll, const weiri_task *task);
/* Runs the general algorithm of the collective, which serves every call. */
weir_status weiri_cuda_run_general(weiri_coll *coll, const weiri_task *task);

#endif
