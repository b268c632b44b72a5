/* weir_allreduce_quantized on GPUs: launches the kernel of a step. */
#include "coll/quantized.h"

#include "base/error.h"
#include "coll/cuda/launch/run_cuda.h"
#include "coll/cuda/quantize.h"
#include "comm/gpu/gpu_cuda.h"

weir_status weiri_quantize_gpu(weir_comm *comm, const weiri_quantize_step *step, weir_stream stream)
{
    const void *kernel = weiri_gpu_quantize_kernel((weir_dtype)step->dtype);
    weiri_quantize_step args = *step;
    int before;
    if (!kernel)
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "weir_allreduce_quantized: no kernel for %s",
                          weir_dtype_name((weir_dtype)step->dtype));
    weir_status status = weiri_cuda_ready(comm, stream, &before);
    if (status != WEIR_OK)
        return status;
    weiri_gpu_shape shape = weiri_gpu_quantize_shape(step->count, weiri_cuda_of(comm)->processors);
    shape.blocks = weiri_budget_limit(comm->budget, shape.blocks);
    status = weiri_cuda_launch(comm, stream, "weir_allreduce_quantized", kernel, shape, &args);
    weiri_cuda_leave(comm, before);
    return status;
}
