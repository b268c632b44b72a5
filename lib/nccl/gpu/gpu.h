/*
 * The interface between libweir_nccl and CUDA. gpu_cuda.c and gpu_order_cuda.c implement it;
 * gpu_none.c is for builds without CUDA, where every device is -1.
 */
#ifndef WEIR_NCCL_GPU_H
#define WEIR_NCCL_GPU_H

#include "nccl/abi.h"
#include "nccl/p2p/p2p.h"

/* The calling thread's current device; -1 if this node has none. */
int weiri_nccl_gpu_current(void);
int weiri_nccl_gpu_count(void);
/* Makes a device current for the calling thread. */
void weiri_nccl_gpu_use(int device);

/* Memory of the current device. NULL: out of memory. */
void *weiri_nccl_gpu_alloc(size_t bytes);
void weiri_nccl_gpu_free(void *memory);

/* Loads the kernels of this library into the communicator's GPU. Kernels of collectives are loaded
 * when weir's communicator is created. */
weir_status weiri_nccl_gpu_load(const weiri_nccl_comm *comm);

/* Before work is added to a stream: makes the stream wait for what was added to the last one,
 * because the kernels of a communicator must run one after another. */
weir_status weiri_nccl_gpu_order(weiri_nccl_comm *comm, cudaStream_t stream);
/* After that work has been added. */
weir_status weiri_nccl_gpu_ordered(weiri_nccl_comm *comm, cudaStream_t stream);
/* Between streams of one group: work added to `stream` from now on waits for the present work of
 * `before`. */
weir_status weiri_nccl_gpu_follow(weiri_nccl_comm *comm, cudaStream_t stream, cudaStream_t before);
/* Whether work in the last stream is still running. */
int weiri_nccl_gpu_is_busy(const weiri_nccl_comm *comm);
/* Waits for this rank's kernels and frees what ordering needed. */
void weiri_nccl_gpu_order_end(weiri_nccl_comm *comm);

/* Records a caller's event in a stream. */
weir_status weiri_nccl_gpu_record(weiri_nccl_comm *comm, cudaEvent_t event, cudaStream_t stream);

/* A copy of an input, multiplied by the scalar or (scale NULL) as it is, made in the stream; to be
 * returned with weiri_nccl_gpu_drop after the work on it has been added to the stream. */
weir_status weiri_nccl_gpu_copy_of(const weiri_nccl_comm *comm, const weiri_nccl_scale *scale,
                                   const void *in, size_t bytes, cudaStream_t stream, void **copy);
void weiri_nccl_gpu_drop(void *copy, cudaStream_t stream);
/* Copies within the device, in the stream. */
weir_status weiri_nccl_gpu_copy(weiri_nccl_comm *comm, void *to, const void *from, size_t bytes,
                                cudaStream_t stream);

/* Launches the sends and receives that p2p_gpu.h describes. */
struct weiri_p2p_args;
weir_status weiri_nccl_gpu_exchange(weiri_nccl_comm *comm, struct weiri_p2p_args *args,
                                    cudaStream_t stream);

#endif
