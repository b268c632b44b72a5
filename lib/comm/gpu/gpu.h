/*
 * The ops table between the communicator and CUDA: gpu_cuda.c implements it, gpu_none.c stands for
 * builds without CUDA. On each rank a communicator with GPUs (comm->gpu) has one device, a scratch
 * segment in its memory that all peers map, a table of all mapped regions for kernels, and a stream
 * for set-up work.
 */
#ifndef WEIR_COMM_GPU_GPU_H
#define WEIR_COMM_GPU_GPU_H

#include "comm/comm.h"

struct weiri_stager_ops;

/* All operations except join are local and are called on the cuda backend only. */
typedef struct weiri_gpu_ops {
    /* Calls between nodes: coll/internode/stager.h. */
    const struct weiri_stager_ops *stager;
    /* Chooses the backend together with all ranks, which request the same one (auto or cuda), and
     * for cuda sets up comm->gpu and comm->memory. The peers' pages are already mapped. Collective;
     * agreed. WEIR_ERR_UNSUPPORTED if cuda was requested and cannot be used. */
    weir_status (*join)(weir_comm *comm, weir_backend asked, int device);
    /* Waits until this rank's kernels have ended. */
    void (*quiesce)(weir_comm *comm);
    /* Unmaps peers' scratch memory. */
    void (*unmap)(weir_comm *comm);
    /* After a barrier that follows unmap: frees everything, including comm->gpu. */
    void (*destroy)(weir_comm *comm);
    /* Makes the communicator's GPU current for the calling thread; *before gets the previous one,
     * for leave. */
    weir_status (*enter)(const weir_comm *comm, int *before);
    void (*leave)(const weir_comm *comm, int before);
    /* Enters a rank's region, mapped at base, into the table of regions that kernels read. */
    void (*know)(weir_comm *comm, int rank, int region, void *base);
    /* Makes a segment of a caller's GPU memory; called between enter and leave.
     * WEIR_ERR_UNSUPPORTED for other memory. */
    weir_status (*adopt)(weir_comm *comm, void *pointer, size_t bytes, weiri_segment *segment,
                         weiri_segment_key *key);
    /* Copies between host memory and of the device; blocking. */
    weir_status (*copy)(weir_comm *comm, void *to, const void *from, size_t bytes);
    /* Enqueues a copy between buffers of the device into a stream. */
    weir_status (*copy_on)(weir_comm *comm, void *to, const void *from, size_t bytes,
                           weir_stream stream);
    /* Waits until all work of a stream is complete. WEIR_ERR_UNSUPPORTED if it is being captured.
     * */
    weir_status (*await)(weir_comm *comm, weir_stream stream);
    /* Enqueue a copy between host memory, preferably pinned, and device memory into a stream; and
     * check whether all work of a stream is complete. Non-blocking. */
    weir_status (*begin_copy)(weir_comm *comm, void *to, const void *from, size_t bytes,
                              weir_stream stream);
    weir_status (*poll)(weir_comm *comm, weir_stream stream, uint64_t *ended);
    /* Returns 1 if a stream is being captured into a graph. */
    int (*captures)(const weir_comm *comm, weir_stream stream);
    /* Check that memory is a buffer of this many bytes that kernels on this GPU can use, and that a
     * stream belongs to this GPU. */
    weir_status (*check_buffer)(const weir_comm *comm, const void *pointer, size_t bytes);
    weir_status (*check_stream)(const weir_comm *comm, weir_stream stream);
    /* Clears device memory; blocking. */
    weir_status (*clear)(weir_comm *comm, void *to, size_t bytes);
    /* Copies data for kernels into new device memory, which release frees. */
    weir_status (*keep)(weir_comm *comm, const void *data, size_t bytes, void **kept);
    void (*release)(weir_comm *comm, void *kept);
    /* Maps whole pages of host memory for kernels and copies; *there is the device address. */
    weir_status (*pin)(weir_comm *comm, void *memory, size_t bytes, void **there);
    void (*unpin)(weir_comm *comm, void *memory);
    /* Returns the guard for waits in kernels. */
    weir_guard (*guard)(const weir_comm *comm);
    /* Timers measure the work that a stream does between start and stop, which do not wait, and are
     * not called while the stream is being captured. timer_create returns NULL if it fails;
     * timer_read sets *ended and then *duration_ns once that work is complete. All five are NULL
     * where there are no timers. */
    void *(*timer_create)(const weir_comm *comm);
    weir_status (*timer_start)(const weir_comm *comm, void *timer, weir_stream stream);
    weir_status (*timer_stop)(const weir_comm *comm, void *timer, weir_stream stream);
    weir_status (*timer_read)(const weir_comm *comm, void *timer, int *ended,
                              uint64_t *duration_ns);
    void (*timer_destroy)(const weir_comm *comm, void *timer);
} weiri_gpu_ops;

/* The part of a GPU's state that is known outside of CUDA code; weiri_cuda has the rest. */
struct weiri_gpu {
    const weiri_gpu_ops *ops;
    int device;           /* CUDA device number */
    size_t scratch_bytes; /* of device memory */
    int nvlink;           /* 1: NVLink connects all ranks' GPUs, so that atomics between them are
                             native and 128-byte stores arrive as a whole. Equal on all ranks */
};

/* NULL in a build without CUDA. */
const weiri_gpu_ops *weiri_gpu_ops_get(void);

/* Select the communicator's GPU, if there is one, around calls that work on the current device. */
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

/* Copies data that kernels read into GPU memory, which weiri_gpu_release frees. Without a GPU the
 * data is used in place, and *kept stays NULL. */
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
