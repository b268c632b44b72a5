/*
 * The seam between the NCCL-shaped library and CUDA: gpu_cuda.c fills it,
 * gpu_none.c is a build without GPUs, where every device is -1.
 */
#ifndef WEIR_NCCL_GPU_H
#define WEIR_NCCL_GPU_H

#include "nccl/abi.h"
#include "nccl/p2p.h"

/* The calling thread's device; -1 if this machine has none. */
int weiri_nccl_gpu_current(void);
int weiri_nccl_gpu_count(void);
/* Makes a device current for the calling thread. */
void weiri_nccl_gpu_use(int device);

/* Memory of the current device. NULL: none is left. */
void *weiri_nccl_gpu_alloc(size_t bytes);
void weiri_nccl_gpu_free(void *memory);

/* Before work goes into a stream: it waits for what went into the last one, since the
 * kernels of a communicator run one after another. */
weir_status weiri_nccl_gpu_order(weiri_nccl_comm *comm, cudaStream_t stream);
/* Behind that work. */
weir_status weiri_nccl_gpu_ordered(weiri_nccl_comm *comm, cudaStream_t stream);
/* Between streams of one group: what goes into stream from now on waits for what is in before. */
weir_status weiri_nccl_gpu_follow(weiri_nccl_comm *comm, cudaStream_t stream, cudaStream_t before);
/* Whether what went into the last stream is still under way. */
int weiri_nccl_gpu_is_busy(const weiri_nccl_comm *comm);
/* Waits for this rank's kernels, and drops what order needed. */
void weiri_nccl_gpu_forget(weiri_nccl_comm *comm);

/* A copy of an input, scaled or (NULL) as it is, made in the stream; to be given back after the
 * work on it has been put there. */
weir_status weiri_nccl_gpu_copy_of(const weiri_nccl_comm *comm, const weiri_nccl_scale *scale,
                                   const void *in, size_t bytes, cudaStream_t stream,
                                   void **copy);
void weiri_nccl_gpu_drop(void *copy, cudaStream_t stream);
/* Copies within the device in the stream. */
weir_status weiri_nccl_gpu_copy(weiri_nccl_comm *comm, void *to, const void *from, size_t bytes,
                                cudaStream_t stream);

/* Launches what p2p_gpu.h describes. */
struct weiri_p2p_args;
weir_status weiri_nccl_gpu_exchange(weiri_nccl_comm *comm, struct weiri_p2p_args *args,
                                    cudaStream_t stream);

#endif
