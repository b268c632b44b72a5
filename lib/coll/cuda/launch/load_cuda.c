/*
 * Loads the kernels of collectives when a communicator is created. CUDA would load each at its
 * first launch, and while it loads a kernel, it neither starts nor ends other work of the device: a
 * launch next to a kernel that waits for its proxy, or for a call that this rank makes later, would
 * wait forever.
 */
#include "coll/coll.h"
#include "coll/cuda/kernels.h"
#include "coll/cuda/launch/copy_engine_cuda.h"
#include "coll/cuda/norm.h"
#include "coll/cuda/quantize.h"
#include "comm/gpu/gpu_cuda.h"

void weiri_cuda_load_collectives(const weir_comm *comm)
{
    for (int dtype = 0; dtype < WEIR_DTYPE_COUNT; dtype++) {
        weiri_cuda_load(weiri_gpu_reduce_local_kernel((weir_dtype)dtype));
        weiri_cuda_load(weiri_gpu_quantize_kernel((weir_dtype)dtype));
        for (int protocol = 0; protocol < WEIRI_NORM_PROTOCOLS; protocol++)
            weiri_cuda_load(weiri_gpu_norm_kernel((weiri_norm_protocol)protocol, (weir_dtype)dtype,
                                                  comm->nranks));
    }
    weiri_cuda_load(weiri_stager_move_kernel());
    weiri_cuda_load(weiri_stager_store_kernel());
    for (size_t row = 0; row < weiri_algo_table_rows; row++) {
        const weiri_gpu_algo *gpu = weiri_algo_table[row]->gpu;
        for (int dtype = 0; gpu && dtype < WEIR_DTYPE_COUNT; dtype++)
            weiri_cuda_load(gpu->kernel((weir_dtype)dtype, comm->nranks));
    }
}
