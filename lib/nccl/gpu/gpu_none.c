/* The build without CUDA: there are no devices. */
#include "nccl/gpu/gpu.h"
#include "nccl/rma/rma.h"

#include "base/absent.h"

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

int weiri_nccl_gpu_is_busy(const weiri_nccl_comm *comm)
{
    (void)comm;
    return 0;
}

void weiri_nccl_gpu_order_end(weiri_nccl_comm *comm)
{
    (void)comm;
}

void weiri_nccl_gpu_drop(void *copy, cudaStream_t stream)
{
    (void)copy, (void)stream;
}

WEIRI_ABSENT(weiri_nccl_gpu_load);
WEIRI_ABSENT(weiri_nccl_gpu_order);
WEIRI_ABSENT(weiri_nccl_gpu_ordered);
WEIRI_ABSENT(weiri_nccl_gpu_follow);
WEIRI_ABSENT(weiri_nccl_gpu_record);
WEIRI_ABSENT(weiri_nccl_gpu_copy_of);
WEIRI_ABSENT(weiri_nccl_gpu_copy);
WEIRI_ABSENT(weiri_nccl_gpu_exchange);
WEIRI_ABSENT(weiri_rma_gpu_out);
WEIRI_ABSENT(weiri_rma_gpu_wait);
