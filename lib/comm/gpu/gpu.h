/*
 * The seam between the communicator and CUDA: gpu_cuda.c fills it, gpu_none.c
 * says that a build has none. A communicator on GPUs (comm->gpu) has, on each
 * rank, one device, a scratch segment in its memory that all peers map, a table
 * of all mapped regions that kernels read, and a stream of its own for set-up
 * work.
 */
#ifndef WEIR_COMM_GPU_GPU_H
#define WEIR_COMM_GPU_GPU_H

#include "comm/comm.h"

/* All are local except join, and only join is called on the host backend. */
typedef struct weiri_gpu_ops {
    /* Chooses the backend with all ranks, which have asked for the same (not
     * host), and for cuda sets it up: comm->gpu and comm->memory. The peers'
     * pages are mapped. Collective; agreed. WEIR_ERR_UNSUPPORTED where cuda was
     * asked for and cannot be, with the reason. */
    weir_status (*join)(weir_comm *comm, weir_backend asked, int device);
    /* Waits until this rank's kernels have ended. */
    void (*quiesce)(weir_comm *comm);
    /* Ends the mappings of peers' scratch memory. */
    void (*unmap)(weir_comm *comm);
    /* After a barrier behind that: frees all, comm->gpu too. */
    void (*destroy)(weir_comm *comm);
    /* Makes the GPU the calling thread's current one; *before gets what was, for leave. */
    weir_status (*enter)(const weir_comm *comm, int *before);
    void (*leave)(const weir_comm *comm, int before);
    /* Makes rank's region known to kernels. */
    void (*know)(weir_comm *comm, int rank, int region, void *base);
    /* A caller's GPU memory as a segment, between enter and leave. WEIR_ERR_UNSUPPORTED for
     * other memory. */
    weir_status (*adopt)(weir_comm *comm, void *pointer, size_t bytes, weiri_segment *segment,
                         weiri_segment_key *key);
    /* Copies between memory of the process and of the device; blocking. */
    weir_status (*copy)(weir_comm *comm, void *to, const void *from, size_t bytes);
    /* Copies between buffers of the device, in the order of a stream. */
    weir_status (*copy_on)(weir_comm *comm, void *to, const void *from, size_t bytes,
                           weir_stream stream);
    /* Waits until a stream of the caller's has ended. WEIR_ERR_UNSUPPORTED where it is
     * captured. */
    weir_status (*await)(weir_comm *comm, weir_stream stream);
    /* Begins a copy between host memory, best pinned, and buffers of the device, in the order
     * of a stream; and looks whether all that is in a stream has ended. Not blocking. */
    weir_status (*begin_copy)(weir_comm *comm, void *to, const void *from, size_t bytes,
                              weir_stream stream);
    weir_status (*poll)(weir_comm *comm, weir_stream stream, uint64_t *ended);
    /* Whether work on a stream is being recorded into a graph. */
    int (*captures)(const weir_comm *comm, weir_stream stream);
    /* Whether memory can be a buffer of so many bytes, for kernels on this GPU, and a stream
     * can take them. */
    weir_status (*check_buffer)(const weir_comm *comm, const void *pointer, size_t bytes);
    weir_status (*check_stream)(const weir_comm *comm, weir_stream stream);
    /* Clears device memory; blocking. */
    weir_status (*clear)(weir_comm *comm, void *to, size_t bytes);
    /* Copies plain data that kernels are to use into device memory; release
     * frees it. */
    weir_status (*keep)(weir_comm *comm, const void *data, size_t bytes, void **kept);
    void (*release)(weir_comm *comm, void *kept);
    /* Lets kernels and copies use host memory in whole pages; *there is where they see it. */
    weir_status (*pin)(weir_comm *comm, void *memory, size_t bytes, void **there);
    void (*unpin)(weir_comm *comm, void *memory);
    /* The guard that waits in kernels watch. */
    weir_guard (*guard)(const weir_comm *comm);
} weiri_gpu_ops;

/* What the communicator knows of its GPU; the rest is gpu_cuda.c's. */
struct weiri_gpu {
    const weiri_gpu_ops *ops;
    int device;           /* as CUDA counts */
    size_t scratch_bytes; /* of device memory */
    int nvlink;           /* joins all ranks' GPUs: atomics between them are native, and stores of
                             128 bytes arrive whole. The same on all ranks */
};

/* NULL in a build without CUDA. */
const weiri_gpu_ops *weiri_gpu_ops_get(void);

/* With a GPU, around what works on the current one: segments are made and mapped there. */
static inline weir_status weiri_gpu_enter(const weir_comm *comm, int *before)
{
    return comm->gpu ? comm->gpu->ops->enter(comm, before) : WEIR_OK;
}

static inline void weiri_gpu_leave(const weir_comm *comm, int before)
{
    if (comm->gpu)
        comm->gpu->ops->leave(comm, before);
}

static inline void weiri_gpu_know(weir_comm *comm, int rank, int region, void *base)
{
    if (comm->gpu)
        comm->gpu->ops->know(comm, rank, region, base);
}

/* Plain data that kernels read: a copy of it in the GPU's memory, which weiri_gpu_release
 * frees. Without a GPU they read the data where it is, and *kept stays as it was, NULL. */
static inline weir_status weiri_gpu_keep(weir_comm *comm, const void *data, size_t bytes,
                                         void **kept)
{
    return comm->gpu ? comm->gpu->ops->keep(comm, data, bytes, kept) : WEIR_OK;
}

static inline void weiri_gpu_release(weir_comm *comm, void *kept)
{
    if (kept)
        comm->gpu->ops->release(comm, kept);
}

#endif
