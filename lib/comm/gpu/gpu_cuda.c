/*
 * The GPU of a communicator, and the GPU memory that peers map. Set-up exchanges the ranks'
 * outcomes through their pages: which devices they have (gpu_device_cuda.c), and whether all of
 * them can share memory by file descriptors, else by legacy IPC handles.
 */
#include "comm/gpu/gpu_cuda.h"

#include "base/error.h"
#include "base/gpu_code.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------ device memory */

static weir_status gpu_copy_now(const weiri_cuda *cuda, void *to, const void *from, size_t bytes)
{
    cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cuda->side);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(cuda->side);
    return weiri_cuda_check(error, "cannot copy to or from GPU memory");
}

static weir_status gpu_copy_blocking(weir_comm *comm, void *to, const void *from, size_t bytes)
{
    int before;
    weir_status status = weiri_cuda_enter(comm, &before);
    if (status == WEIR_OK)
        status = gpu_copy_now(weiri_cuda_of(comm), to, from, bytes);
    weiri_cuda_leave(comm, before);
    return status;
}

static weir_status gpu_copy_on(weir_comm *comm, void *to, const void *from, size_t bytes,
                               weir_stream stream)
{
    int before;
    if (!bytes)
        return WEIR_OK;
    weir_status status = weiri_cuda_enter(comm, &before);
    if (status == WEIR_OK)
        status = weiri_cuda_check_stream(comm, stream);
    if (status == WEIR_OK && !weiri_region_describe(comm, from, bytes).generation)
        status = weiri_cuda_check_buffer(comm, from, bytes);
    if (status == WEIR_OK && !weiri_region_describe(comm, to, bytes).generation)
        status = weiri_cuda_check_buffer(comm, to, bytes);
    if (status == WEIR_OK && to != from) {
        cudaError_t error =
            cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, (cudaStream_t)stream);
        if (error != cudaSuccess)
            status = weiri_cuda_fail_launch(comm, error);
    }
    weiri_cuda_leave(comm, before);
    return status;
}

static weir_status gpu_clear(weir_comm *comm, void *to, size_t bytes)
{
    int before;
    const weiri_cuda *cuda = weiri_cuda_of(comm);
    weir_status status = weiri_cuda_enter(comm, &before);
    if (status == WEIR_OK) {
        cudaError_t error = cudaMemsetAsync(to, 0, bytes, cuda->side);
        if (error == cudaSuccess)
            error = cudaStreamSynchronize(cuda->side);
        status = weiri_cuda_check(error, "cannot clear GPU memory");
    }
    weiri_cuda_leave(comm, before);
    return status;
}

static weir_status gpu_keep(weir_comm *comm, const void *data, size_t bytes, void **kept)
{
    int before;
    void *memory = NULL;
    weir_status status = weiri_cuda_enter(comm, &before);
    if (status == WEIR_OK && cudaMalloc(&memory, bytes) != cudaSuccess) {
        cudaGetLastError();
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "no GPU memory for %zu bytes", bytes);
    }
    if (status == WEIR_OK)
        status = gpu_copy_now(weiri_cuda_of(comm), memory, data, bytes);
    if (status == WEIR_OK)
        *kept = memory;
    else
        cudaFree(memory);
    weiri_cuda_leave(comm, before);
    return status;
}

static void gpu_release(weir_comm *comm, void *kept)
{
    int before;
    if (kept && weiri_cuda_enter(comm, &before) == WEIR_OK) {
        cudaFree(kept);
        weiri_cuda_leave(comm, before);
    }
}

/* No running kernel reads the entry: the owner uses a region in collectives only after all peers
 * have followed its creation, and frees it only when it is idle. */
static void gpu_know(weir_comm *comm, int rank, int region, void *base)
{
    char *pointer = base;
    const weiri_cuda *cuda = weiri_cuda_of(comm);
    gpu_copy_blocking(comm, &cuda->regions[rank * WEIRI_GPU_REGIONS_MAX + region], &pointer,
                      sizeof pointer);
}

static weir_status gpu_adopt(weir_comm *comm, void *pointer, size_t bytes, weiri_segment *segment,
                             weiri_segment_key *key)
{
    struct cudaPointerAttributes attributes;
    cudaError_t error = cudaPointerGetAttributes(&attributes, pointer);
    if (error != cudaSuccess)
        return weiri_cuda_fail(WEIR_ERR_INVALID, error, "cannot query the memory to register");
    if (attributes.type != cudaMemoryTypeDevice)
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "not GPU memory; register memory of "
                                                "cudaMalloc, or use weir_mem_alloc");
    if (attributes.device != comm->gpu->device)
        return weiri_fail(WEIR_ERR_INVALID, "memory of GPU %d, expected GPU %d of the communicator",
                          attributes.device, comm->gpu->device);
    return weiri_transport_cuda_ipc.segment_adopt(pointer, bytes, segment, key);
}

static weir_status gpu_await(weir_comm *comm, weir_stream stream)
{
    int before;
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    weir_status status = weiri_cuda_enter(comm, &before);
    if (status == WEIR_OK)
        status = weiri_cuda_check_stream(comm, stream);
    if (status == WEIR_OK)
        status = weiri_cuda_check(cudaStreamIsCapturing((cudaStream_t)stream, &capture),
                                  "cannot query the capture state of a stream");
    if (status == WEIR_OK && capture != cudaStreamCaptureStatusNone)
        status = weiri_fail(WEIR_ERR_UNSUPPORTED,
                            "this call across nodes cannot be captured in a graph, because the "
                            "host moves its data; call it outside of the capture");
    if (status == WEIR_OK)
        status = weiri_cuda_check(cudaStreamSynchronize((cudaStream_t)stream),
                                  "work on a stream failed");
    weiri_cuda_leave(comm, before);
    return status;
}

static weir_status gpu_begin_copy(weir_comm *comm, void *to, const void *from, size_t bytes,
                                  weir_stream stream)
{
    int before;
    weir_status status = weiri_cuda_enter(comm, &before);
    if (status == WEIR_OK)
        status = weiri_cuda_check(
            cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, (cudaStream_t)stream),
            "cannot copy to or from GPU memory");
    weiri_cuda_leave(comm, before);
    return status;
}

static weir_status gpu_poll(weir_comm *comm, weir_stream stream, uint64_t *ended)
{
    int before;
    weir_status status = weiri_cuda_enter(comm, &before);
    const cudaError_t error =
        status == WEIR_OK ? cudaStreamQuery((cudaStream_t)stream) : cudaErrorNotReady;
    *ended = error == cudaSuccess;
    if (error != cudaErrorNotReady)
        status = weiri_cuda_check(error, "work on a stream failed");
    weiri_cuda_leave(comm, before);
    return status;
}

static int gpu_captures(const weir_comm *comm, weir_stream stream)
{
    int before;
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    if (weiri_cuda_enter(comm, &before) == WEIR_OK &&
        cudaStreamIsCapturing((cudaStream_t)stream, &capture) != cudaSuccess)
        cudaGetLastError(); /* the default stream, while another stream is being captured */
    weiri_cuda_leave(comm, before);
    return capture != cudaStreamCaptureStatusNone;
}

static weir_status gpu_check_buffer(const weir_comm *comm, const void *pointer, size_t bytes)
{
    int before;
    if (!bytes || weiri_region_describe(comm, pointer, bytes).generation)
        return WEIR_OK;
    weir_status status = weiri_cuda_enter(comm, &before);
    if (status == WEIR_OK)
        status = weiri_cuda_check_buffer(comm, pointer, bytes);
    weiri_cuda_leave(comm, before);
    return status;
}

static weir_status gpu_check_stream(const weir_comm *comm, weir_stream stream)
{
    int before;
    weir_status status = weiri_cuda_enter(comm, &before);
    if (status == WEIR_OK)
        status = weiri_cuda_check_stream(comm, stream);
    weiri_cuda_leave(comm, before);
    return status;
}

static weir_status gpu_pin(weir_comm *comm, void *memory, size_t bytes, void **there)
{
    int before;
    weir_status status = weiri_cuda_enter(comm, &before);
    const unsigned flags = cudaHostRegisterMapped | cudaHostRegisterPortable;
    if (status == WEIR_OK)
        status = weiri_cuda_check(cudaHostRegister(memory, bytes, flags),
                                  "the GPU cannot map host memory");
    if (status == WEIR_OK) {
        status = weiri_cuda_check(cudaHostGetDevicePointer(there, memory, 0),
                                  "the GPU cannot map host memory");
        if (status != WEIR_OK)
            cudaHostUnregister(memory);
    }
    weiri_cuda_leave(comm, before);
    return status;
}

static void gpu_unpin(weir_comm *comm, void *memory)
{
    int before;
    if (weiri_cuda_enter(comm, &before) == WEIR_OK) {
        cudaHostUnregister(memory);
        weiri_cuda_leave(comm, before);
    }
}

static weir_guard gpu_guard(const weir_comm *comm)
{
    return weiri_cuda_of(comm)->view.guard;
}

/* ------------------------------------------------------------------- set-up */

/* Maps this rank's page, with the abort word and the wait record, for kernels. */
static weir_status gpu_register_page(const weir_comm *comm, weiri_cuda *cuda)
{
    enum { POLLS_BEFORE_CLOCK = 1 << 14 };
    weiri_comm_page *page = comm->peers[comm->rank].page, *there = NULL;
    weir_status status =
        weiri_cuda_check(cudaHostRegister(page, sizeof *page, cudaHostRegisterMapped),
                         "the GPU cannot map the communicator's host memory");
    if (status != WEIR_OK)
        return status;
    cuda->page_registered = 1;
    status = weiri_cuda_check(cudaHostGetDevicePointer((void **)&there, page, 0),
                              "the GPU cannot map the communicator's host memory");
    cuda->view.guard = (weir_guard){.abort_word = &there->abort.value,
                                    .timeout_ns = comm->guard.timeout_ns,
                                    .spins = POLLS_BEFORE_CLOCK,
                                    .peer = -1,
                                    .record = &there->where.wait};
    return status;
}

static weir_status gpu_create_own(const weir_comm *comm, weiri_cuda *cuda)
{
    static const weiri_gpu_state first = {.turns = (uint64_t)1 << WEIRI_GPU_EPOCH_SHIFT};
    size_t table_bytes = sizeof(char *) * WEIRI_GPU_REGIONS_MAX * WEIRI_GPU_RANKS_MAX;
    weir_status status = weiri_cuda_check(
        cudaStreamCreateWithFlags(&cuda->side, cudaStreamNonBlocking), "no CUDA stream");
    if (status == WEIR_OK)
        status = weiri_cuda_check(cudaStreamCreateWithFlags(&cuda->beside, cudaStreamNonBlocking),
                                  "no CUDA stream");
    if (status == WEIR_OK)
        status = weiri_cuda_check(cudaEventCreateWithFlags(&cuda->order, cudaEventDisableTiming),
                                  "no event");
    if (status == WEIR_OK)
        status =
            weiri_cuda_check(cudaMalloc((void **)&cuda->regions, table_bytes), "no GPU memory");
    if (status == WEIR_OK)
        status =
            weiri_cuda_check(cudaMalloc((void **)&cuda->view.state, sizeof first), "no GPU memory");
    if (status == WEIR_OK)
        status = gpu_copy_now(cuda, cuda->view.state, &first, sizeof first);
    if (status == WEIR_OK)
        status = weiri_cuda_check(cudaMemsetAsync(cuda->regions, 0, table_bytes, cuda->side),
                                  "no GPU memory");
    if (status == WEIR_OK)
        status = weiri_cuda_check(cudaDeviceGetAttribute(&cuda->processors,
                                                         cudaDevAttrMultiProcessorCount,
                                                         cuda->base.device),
                                  "cannot query the number of multiprocessors");
    if (status == WEIR_OK)
        status = gpu_register_page(comm, cuda);
    if (status == WEIR_OK)
        weiri_cuda_load_collectives(comm);
    cuda->view.rank = comm->rank;
    cuda->view.nranks = comm->nranks;
    cuda->view.regions = cuda->regions;
    return status;
}

static void gpu_drop_scratch(const weir_comm *comm, weiri_cuda *cuda)
{
    for (int rank = 0; rank < comm->nranks; rank++)
        weiri_segment_destroy(&cuda->scratch[rank]);
}

static weir_status gpu_map_scratch(const weir_comm *comm, int rank, weiri_segment *segment)
{
    const weiri_gpu_info *own = weiri_cuda_info_of(comm, comm->rank),
                         *peer = weiri_cuda_info_of(comm, rank);
    weir_status status = weiri_segment_map(&peer->scratch, segment);
    if (status == WEIR_OK)
        return WEIR_OK;
    return weiri_fail_context(status,
                              "backend cuda: the GPU of rank %d at %s cannot access the memory of "
                              "rank %d's GPU at %s; expected peer access (nvidia-smi topo -p2p r); "
                              "without it, use the host backend",
                              comm->rank, own->bus, rank, peer->bus);
}

/* Shares all ranks' scratch memory over one transport. Collective. Returns the worst outcome of any
 * rank on all ranks, so that all of them try the next transport or fail. */
static weir_status gpu_share_scratch(weir_comm *comm, weiri_cuda *cuda,
                                     const weiri_transport_ops *way)
{
    weir_status status = way->segment_create(WEIRI_CUDA_SCRATCH_BYTES, &cuda->scratch[comm->rank],
                                             &weiri_cuda_info_of(comm, comm->rank)->scratch);
    weir_status worst = weiri_cuda_exchange(comm, status);
    if (worst != WEIR_OK)
        goto drop;
    for (int rank = 0; rank < comm->nranks && status == WEIR_OK; rank++)
        if (rank != comm->rank)
            status = gpu_map_scratch(comm, rank, &cuda->scratch[rank]);
    if (status != WEIR_OK)
        weiri_log(WEIRI_LOG_INFO, "%s", weir_last_error());
    worst = weiri_cuda_exchange(comm, status);
    if (worst != WEIR_OK)
        goto drop;
    for (int rank = 0; rank < comm->nranks; rank++)
        cuda->view.scratch[rank] = cuda->scratch[rank].base;
    return WEIR_OK;
drop:
    gpu_drop_scratch(comm, cuda);
    return status == worst
               ? worst
               : weiri_fail(worst, "another rank cannot share its GPU memory; see its log");
}

static void gpu_quiesce(weir_comm *comm)
{
    int before;
    if (weiri_cuda_enter(comm, &before) == WEIR_OK) {
        cudaDeviceSynchronize();
        weiri_cuda_leave(comm, before);
    }
}

static void gpu_unmap(weir_comm *comm)
{
    weiri_cuda *cuda = weiri_cuda_of(comm);
    for (int rank = 0; rank < comm->nranks; rank++)
        if (rank != comm->rank)
            weiri_segment_destroy(&cuda->scratch[rank]);
}

static void gpu_destroy(weir_comm *comm)
{
    weiri_cuda *cuda = weiri_cuda_of(comm);
    int before;
    weiri_cuda_enter(comm, &before);
    gpu_drop_scratch(comm, cuda);
    if (cuda->page_registered)
        cudaHostUnregister(comm->peers[comm->rank].page);
    cudaFree(cuda->view.state);
    cudaFree(cuda->regions);
    if (cuda->beside)
        cudaStreamDestroy(cuda->beside);
    if (cuda->order)
        cudaEventDestroy(cuda->order);
    if (cuda->side)
        cudaStreamDestroy(cuda->side);
    weiri_cuda_leave(comm, before);
    comm->gpu = NULL;
    free(cuda);
}

static weir_status gpu_join(weir_comm *comm, weir_backend asked, int device);

static const weiri_gpu_ops ops = {
    .join = gpu_join,
    .quiesce = gpu_quiesce,
    .unmap = gpu_unmap,
    .destroy = gpu_destroy,
    .enter = weiri_cuda_enter,
    .leave = weiri_cuda_leave,
    .know = gpu_know,
    .adopt = gpu_adopt,
    .copy = gpu_copy_blocking,
    .copy_on = gpu_copy_on,
    .await = gpu_await,
    .begin_copy = gpu_begin_copy,
    .poll = gpu_poll,
    .captures = gpu_captures,
    .check_buffer = gpu_check_buffer,
    .check_stream = gpu_check_stream,
    .clear = gpu_clear,
    .keep = gpu_keep,
    .release = gpu_release,
    .pin = gpu_pin,
    .unpin = gpu_unpin,
    .guard = gpu_guard,
    .stager = &weiri_stager_cuda,
    .timer_create = weiri_gpu_timer_create,
    .timer_start = weiri_gpu_timer_start,
    .timer_stop = weiri_gpu_timer_stop,
    .timer_read = weiri_gpu_timer_read,
    .timer_destroy = weiri_gpu_timer_destroy,
};

/* Returns 1 if NVLink connects this rank's GPU with all others. */
static int gpu_is_nvlink_to_all(const weir_comm *comm)
{
    const char *buses[WEIRI_GPU_RANKS_MAX];
    for (int rank = 0; rank < comm->nranks; rank++)
        buses[rank] = weiri_cuda_info_of(comm, rank)->bus;
    return weiri_cuda_joins(comm->gpu->device, buses[comm->rank], buses, comm->nranks);
}

/* Reduces the properties of all ranks' GPUs to the properties that all of them have. */
static void gpu_compare_devices(const weir_comm *comm, weiri_cuda *cuda)
{
    cuda->base.nvlink = 1;
    for (int rank = 0; rank < comm->nranks; rank++) {
        const weiri_gpu_info *info = weiri_cuda_info_of(comm, rank);
        cuda->base.nvlink &= info->nvlink;
        if (info->processors < cuda->processors)
            cuda->processors = info->processors;
    }
}

/* Sets up the GPU, once all ranks have a device. Collective; agreed. */
static weir_status gpu_set_up(weir_comm *comm, int device)
{
    weiri_cuda *cuda = calloc(1, sizeof *cuda);
    int before = -1;
    weir_status status = WEIR_OK;
    if (!cuda)
        return weir_boot_agree(comm->boot,
                               weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a GPU's state"));
    cuda->base = (struct weiri_gpu){&ops, device, WEIRI_CUDA_SCRATCH_BYTES, 0};
    for (int rank = 0; rank < WEIRI_GPU_RANKS_MAX; rank++)
        cuda->scratch[rank].fd = -1;
    comm->gpu = &cuda->base;
    status = weiri_cuda_enter(comm, &before);
    if (status == WEIR_OK)
        status = gpu_create_own(comm, cuda);
    weiri_cuda_info_of(comm, comm->rank)->nvlink = gpu_is_nvlink_to_all(comm);
    weiri_cuda_info_of(comm, comm->rank)->processors = cuda->processors;
    status = weir_boot_agree(comm->boot, status);
    if (status == WEIR_OK) {
        gpu_compare_devices(comm, cuda);
        comm->memory = &weiri_transport_cuda_fd;
        status = gpu_share_scratch(comm, cuda, comm->memory);
        if (status == WEIR_ERR_UNSUPPORTED) {
            comm->memory = &weiri_transport_cuda_ipc;
            status = gpu_share_scratch(comm, cuda, comm->memory);
        }
        status = weir_boot_agree(comm->boot, status);
    }
    weiri_cuda_leave(comm, before);
    if (status == WEIR_OK)
        weiri_log(WEIRI_LOG_INFO, "GPU %d, memory shared by %s, %s", device,
                  comm->memory == &weiri_transport_cuda_fd ? "file descriptors" : "IPC handles",
                  cuda->base.nvlink ? "NVLink between all GPUs"
                                    : "not all GPUs connected by NVLink: no LL128");
    return status; /* on failure the caller frees the communicator, including comm->gpu */
}

static weir_status gpu_join(weir_comm *comm, weir_backend asked, int device)
{
    weir_status worst, status = weiri_cuda_choose_device(comm, device, &worst);
    if (worst != WEIR_OK && asked == WEIR_BACKEND_AUTO && worst == WEIR_ERR_UNSUPPORTED) {
        /* A GPU that the build cannot use deserves attention, unlike the absence of GPUs. */
        char lacks[WEIRI_GPU_CODE_TEXT_BYTES];
        const int has_gpu = weiri_cuda_lacks_code(weiri_cuda_info_of(comm, comm->rank)->device,
                                                  lacks, sizeof lacks);
        if (status != WEIR_OK)
            weiri_log(has_gpu ? WEIRI_LOG_WARN : WEIRI_LOG_INFO, "host backend: %s",
                      weir_last_error());
        return WEIR_OK;
    }
    status = weir_boot_agree(comm->boot, status);
    if (status == WEIR_OK)
        status = gpu_set_up(comm, comm->peers[comm->rank].page->gpu.device);
    if (status != WEIR_ERR_UNSUPPORTED || asked != WEIR_BACKEND_AUTO || !comm->gpu)
        return status;
    weiri_log(WEIRI_LOG_WARN, "host backend: %s", weir_last_error());
    gpu_destroy(comm);
    comm->memory = comm->transport;
    return WEIR_OK;
}

const weiri_gpu_ops *weiri_gpu_ops_get(void)
{
    return &ops;
}
