/* The build without CUDA: there are no devices, so only the first three functions and the empty
 * ones are ever called. */
#include "nccl/gpu/gpu.h"
#include "nccl/rma/rma.h"

#include "base/error.h"

int weiri_nccl_gpu_current(void)
{
    return -1;
}

int weiri_nccl_gpu_count(void)
{
    return 0;
}

void weiri_nccl_gpu_use(int device)
{
    (void)device;
}

void *weiri_nccl_gpu_alloc(size_t bytes)
{
    (void)bytes;
    return NULL;
}

void weiri_nccl_gpu_free(void *memory)
{
    (void)memory;
}

static weir_status gpu_unavailable(void)
{
    return weiri_fail(WEIR_ERR_INTERNAL, "this build of weir has no CUDA");
}

weir_status weiri_nccl_gpu_order(weiri_nccl_comm *comm, cudaStream_t stream)
{
    (void)comm, (void)stream;
    return gpu_unavailable();
}

weir_status weiri_nccl_gpu_ordered(weiri_nccl_comm *comm, cudaStream_t stream)
{
    (void)comm, (void)stream;
    return gpu_unavailable();
}

weir_status weiri_nccl_gpu_follow(weiri_nccl_comm *comm, cudaStream_t stream, cudaStream_t before)
{
    (void)comm, (void)stream, (void)before;
    return gpu_unavailable();
}

int weiri_nccl_gpu_is_busy(const weiri_nccl_comm *comm)
{
    (void)comm;
    return 0;
}

void weiri_nccl_gpu_order_end(weiri_nccl_comm *comm)
{
    (void)comm;
}

weir_status weiri_nccl_gpu_copy_of(const weiri_nccl_comm *comm, const weiri_nccl_scale *scale,
                                   const void *in, size_t bytes, cudaStream_t stream, void **copy)
{
    (void)comm, (void)scale, (void)in, (void)bytes, (void)stream, (void)copy;
    return gpu_unavailable();
}

void weiri_nccl_gpu_drop(void *copy, cudaStream_t stream)
{
    (void)copy, (void)stream;
}

weir_status weiri_nccl_gpu_copy(weiri_nccl_comm *comm, void *to, const void *from, size_t bytes,
                                cudaStream_t stream)
{
    (void)comm, (void)to, (void)from, (void)bytes, (void)stream;
    return gpu_unavailable();
}

weir_status weiri_nccl_gpu_exchange(weiri_nccl_comm *comm, struct weiri_p2p_args *args,
                                    cudaStream_t stream)
{
    (void)comm, (void)args, (void)stream;
    return gpu_unavailable();
}

weir_status weiri_nccl_gpu_record(weiri_nccl_comm *comm, cudaEvent_t event, cudaStream_t stream)
{
    (void)comm, (void)event, (void)stream;
    return gpu_unavailable();
}

weir_status weiri_nccl_gpu_load(const weiri_nccl_comm *comm)
{
    (void)comm;
    return gpu_unavailable();
}

weir_status weiri_rma_gpu_out(weiri_nccl_comm *comm, const weiri_nccl_onesided *call,
                              const weiri_window_peer *to)
{
    (void)comm, (void)call, (void)to;
    return gpu_unavailable();
}

weir_status weiri_rma_gpu_wait(weiri_nccl_comm *comm, const weiri_nccl_onesided *call)
{
    (void)comm, (void)call;
    return gpu_unavailable();
}
