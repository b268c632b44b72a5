/* The complete state of a communicator's GPU, for code that launches kernels. */
#ifndef WEIR_COMM_GPU_GPU_CUDA_H
#define WEIR_COMM_GPU_GPU_CUDA_H

#include "comm/gpu/gpu.h"

#include <cuda_runtime_api.h>

/* The size of a rank's scratch segment in device memory; lib/coll defines its layout. */
#define WEIRI_CUDA_SCRATCH_BYTES ((size_t)129 << 20)

/* For a kernel and a requested block size: the possible block size, and how many such blocks can be
 * resident on the device at the same time. */
enum { WEIRI_CUDA_FITS = 256 };
typedef struct weiri_cuda_fit {
    const void *kernel;
    int asked, threads, blocks;
} weiri_cuda_fit;

/* Memory of this GPU that the driver has confirmed. */
enum { WEIRI_CUDA_SPANS = 8, WEIRI_CUDA_STREAMS = 4 };
typedef struct weiri_cuda_span {
    uintptr_t begin, end;
} weiri_cuda_span;

typedef struct weiri_cuda {
    struct weiri_gpu base; /* first: comm->gpu points here */
    int processors;        /* multiprocessors: the minimum of all ranks, as grids are equal */
    cudaStream_t side;     /* for set-up; not ordered with any other stream */
    cudaStream_t beside;   /* for copies concurrent with a caller's stream */
    cudaEvent_t order;     /* orders streams */
    weiri_segment scratch[WEIRI_GPU_RANKS_MAX]; /* of every rank, including the calling one */
    char **regions;                             /* device memory: see weiri_gpu_view */
    int page_registered;
    weiri_cuda_fit fits[WEIRI_CUDA_FITS];    /* a cache */
    weiri_cuda_span spans[WEIRI_CUDA_SPANS]; /* a cache */
    weir_stream streams[WEIRI_CUDA_STREAMS]; /* a cache */
    unsigned next_span, next_stream;
    weiri_gpu_view view;
} weiri_cuda;

static inline weiri_cuda *weiri_cuda_of(const weir_comm *comm)
{
    return (weiri_cuda *)(void *)comm->gpu;
}

/* Converts a CUDA error into a status and an error line that begins with what; clears CUDA's last
 * error. */
weir_status weiri_cuda_fail(weir_status status, cudaError_t error, const char *what);
static inline weir_status weiri_cuda_check(cudaError_t error, const char *what)
{
    return error == cudaSuccess ? WEIR_OK : weiri_cuda_fail(WEIR_ERR_SYSTEM, error, what);
}

/* Converts the error of a launch: WEIR_ERR_INVALID for an invalid stream, WEIR_ERR_UNSUPPORTED if
 * the build has no code for this GPU. */
weir_status weiri_cuda_fail_launch(const weir_comm *comm, cudaError_t error);
/* Returns 1 if the build has no kernels for a device, as far as is known before a launch; text gets
 * the message (base/gpu_code.h). */
int weiri_cuda_lacks_code(int device, char *text, size_t bytes);

/* Checks that memory outside of all regions is a buffer of this many bytes on this GPU. Local; fast
 * for memory that was checked before. WEIR_ERR_INVALID if not. */
weir_status weiri_cuda_check_buffer(const weir_comm *comm, const void *pointer, size_t bytes);
/* Marks memory as checked: the driver does not know memory that the library allocates in a captured
 * stream. */
void weiri_cuda_trust_buffer(const weir_comm *comm, const void *pointer, size_t bytes);
/* Checks that a stream belongs to this GPU, which must be current. Local; fast for streams that
 * were checked before. */
weir_status weiri_cuda_check_stream(const weir_comm *comm, weir_stream stream);

/* Returns the GPU information in a rank's page. */
static inline weiri_gpu_info *weiri_cuda_info_of(const weir_comm *comm, int rank)
{
    return &comm->peers[rank].page->gpu;
}

/* Exchanges every rank's outcome of a step through the pages and returns the worst. Collective. */
weir_status weiri_cuda_exchange(weir_comm *comm, weir_status mine);

/* Returns 1 if NVLink connects a device, with this bus id, with each of its peers, given by their
 * bus ids; the same GPU counts as connected. Local. It initialises NVML, which is slow, if CUDA
 * does not have the answer. */
int weiri_cuda_joins(int device, const char *bus, const char *const *peers, int npeers);

/* Chooses this rank's device, wanted or, if that is -1, by local rank, and publishes its
 * information. Collective. Returns this rank's outcome; *worst is the worst of all ranks. */
weir_status weiri_cuda_choose_device(weir_comm *comm, int wanted, weir_status *worst);

/* Switches the calling thread to the relaxed capture mode. In other modes CUDA rejects many calls,
 * such as loading a kernel, while the thread captures a stream, and invalidates the capture.
 * Returns the previous mode, for weiri_cuda_restore. */
static inline enum cudaStreamCaptureMode weiri_cuda_relax(void)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

static inline void weiri_cuda_restore(enum cudaStreamCaptureMode mode)
{
    cudaThreadExchangeStreamCaptureMode(&mode);
}

/* Loads a kernel into the current device; NULL is allowed. CUDA otherwise loads it at its first
 * launch, which waits for all running kernels of the device, including kernels that wait for this
 * launch. Errors are left to the launch. */
void weiri_cuda_load(const void *kernel);
/* Loads all kernels of collectives that the communicator can launch. lib/coll, which has their
 * table, defines it. */
void weiri_cuda_load_collectives(const weir_comm *comm);

/* Calls between nodes, which lib/coll implements. */
extern const struct weiri_stager_ops weiri_stager_cuda;

/* Makes the communicator's device current for the calling thread; *before gets the previous one,
 * for weiri_cuda_leave. */
weir_status weiri_cuda_enter(const weir_comm *comm, int *before);
void weiri_cuda_leave(const weir_comm *comm, int before);

/* Timers of the ops table (gpu_timer_cuda.c). */
void *weiri_gpu_timer_create(const weir_comm *comm);
weir_status weiri_gpu_timer_start(const weir_comm *comm, void *timer, weir_stream stream);
weir_status weiri_gpu_timer_stop(const weir_comm *comm, void *timer, weir_stream stream);
weir_status weiri_gpu_timer_read(const weir_comm *comm, void *timer, int *ended,
                                 uint64_t *duration_ns);
void weiri_gpu_timer_destroy(const weir_comm *comm, void *timer);

#endif
