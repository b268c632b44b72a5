/* Stands for gpu_cuda.c in builds without CUDA, where no communicator has the cuda backend. */
#include "moe/gpu.h"

#include "base/error.h"

int weiri_moe_gpu_is_built(void)
{
    return 0;
}

static weir_status gpu_missing(void)
{
    return weiri_fail(WEIR_ERR_UNSUPPORTED, "weir_moe: this build has no GPU kernels");
}

weir_status weiri_moe_gpu_open(weir_moe *group)
{
    (void)group;
    return gpu_missing();
}

void weiri_moe_gpu_close(weir_moe *group)
{
    (void)group;
}

weir_status weiri_moe_gpu_dispatch(weir_moe *group, const moe_call *call, int phases)
{
    (void)group, (void)call, (void)phases;
    return gpu_missing();
}

weir_status weiri_moe_gpu_combine(weir_moe *group, const moe_call *call, int phases)
{
    (void)group, (void)call, (void)phases;
    return gpu_missing();
}

weir_status weiri_moe_gpu_check(weir_moe *group)
{
    (void)group;
    return gpu_missing();
}

weir_status weiri_moe_gpu_locate(const weir_moe *group, int handle, int token, int choice,
                                 int *rank, int *row)
{
    (void)group, (void)handle, (void)token, (void)choice, (void)rank, (void)row;
    return gpu_missing();
}
