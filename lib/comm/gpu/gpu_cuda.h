/*
 * A communicator's GPU in full, for the code that launches kernels.
 */
#ifndef WEIR_COMM_GPU_GPU_CUDA_H
#define WEIR_COMM_GPU_GPU_CUDA_H

#include "comm/gpu/gpu.h"

#include <cuda_runtime_api.h>

/* Device memory of a communicator beyond its callers': coll/ lays it out. */
#define WEIRI_CUDA_SCRATCH_BYTES ((size_t)129 << 20)

/* Of so many threads asked for a block of a kernel can have these, and so many blocks
 * of them fit on the device at once. */
enum { WEIRI_CUDA_FITS = 256 };
typedef struct weiri_cuda_fit {
    const void *kernel;
    int asked, threads, blocks;
} weiri_cuda_fit;

/* Memory of this GPU that a caller has used already. */
enum { WEIRI_CUDA_SPANS = 8, WEIRI_CUDA_STREAMS = 4 };
typedef struct weiri_cuda_span {
    uintptr_t begin, end;
} weiri_cuda_span;

typedef struct weiri_cuda {
    struct weiri_gpu base; /* first: comm->gpu points here */
    int processors;        /* multiprocessors, of the rank that has the fewest: grids are alike */
    cudaStream_t side;     /* for set-up: orders with no other stream */
    cudaStream_t beside;   /* for copies beside a caller's stream */
    cudaEvent_t order;     /* between streams */
    weiri_segment scratch[WEIRI_GPU_RANKS_MAX]; /* every rank's, the own one included */
    char **regions;        /* device memory: see weiri_gpu_view */
    int page_registered;
    weiri_cuda_fit fits[WEIRI_CUDA_FITS]; /* a cache */
    weiri_cuda_span spans[WEIRI_CUDA_SPANS]; /* likewise */
    weir_stream streams[WEIRI_CUDA_STREAMS]; /* likewise */
    unsigned next_span, next_stream;
    weiri_gpu_view view;
} weiri_cuda;

static inline weiri_cuda *weiri_cuda_of(const weir_comm *comm)
{
    return (weiri_cuda *)(void *)comm->gpu;
}

/* A CUDA error as a status, with what was tried; clears CUDA's own record. */
weir_status weiri_cuda_fail(weir_status status, cudaError_t error, const char *what);

/* Why a stream took no work: WEIR_ERR_INVALID where it is none, WEIR_ERR_UNSUPPORTED where the
 * build has no code for this GPU. */
weir_status weiri_cuda_fail_launch(const weir_comm *comm, cudaError_t error);

/* Whether memory that is in no region can be a buffer of so many bytes. Local; some
 * nanoseconds for memory that was asked for already. WEIR_ERR_INVALID with what to do. */
weir_status weiri_cuda_check_buffer(const weir_comm *comm, const void *pointer, size_t bytes);
/* Of memory that the library allocates in a captured stream, the driver says nothing: it is
 * this GPU's. */
void weiri_cuda_trust_buffer(const weir_comm *comm, const void *pointer, size_t bytes);
/* Whether work of the communicator, whose device is current, can go to a stream: it is this
 * GPU's. Likewise. */
weir_status weiri_cuda_check_stream(const weir_comm *comm, weir_stream stream);

/* What a rank says of its GPU, in its page. */
static inline weiri_gpu_info *weiri_cuda_card(const weir_comm *comm, int rank)
{
    return &comm->peers[rank].page->gpu;
}

/* Every rank's outcome of a step, told through the pages: the worst. Collective. */
weir_status weiri_cuda_exchange(weir_comm *comm, weir_status mine);

/* Whether NVLink joins a device, which has this bus id, with each of some others, known by
 * theirs; the same GPU counts. Local; where CUDA does not say so, NVML is started, some 10 ms. */
int weiri_cuda_joins(int device, const char *bus, const char *const *peers, int npeers);

/* Finds this rank's device, wanted or, if that is -1, by local rank, and writes its
 * card. Collective. What it returns is this rank's outcome; *worst the ranks' worst. */
weir_status weiri_cuda_choose_device(weir_comm *comm, int wanted, weir_status *worst);

/* While a caller captures a stream, CUDA forbids its thread much, such as loading a
 * kernel, and ends the capture; not in the relaxed mode. The mode that was, for
 * weiri_cuda_restore. */
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

/* Makes the communicator's device current for the calling thread; *before gets
 * the one that was, for weiri_cuda_leave. */
weir_status weiri_cuda_enter(const weir_comm *comm, int *before);
void weiri_cuda_leave(const weir_comm *comm, int before);

#endif
