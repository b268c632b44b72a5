/* A build without CUDA: no communicator has the cuda backend. */
#include "coll/quantized.h"

#include "base/error.h"

weir_status weiri_quantize_gpu(weir_comm *comm, const weiri_quantize_step *step, weir_stream stream)
{
    (void)comm;
    (void)step;
    (void)stream;
    return weiri_fail(WEIR_ERR_UNSUPPORTED, "weir_allreduce_quantized: this build has no CUDA");
}
