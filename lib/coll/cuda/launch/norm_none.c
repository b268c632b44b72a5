/* A build without CUDA: no communicator has the cuda backend. */
#include "coll/norm.h"

#include "base/error.h"

weir_status weiri_norm_gpu_run(weiri_coll *coll, const weir_norm_args *args)
{
    (void)coll;
    (void)args;
    return weiri_fail(WEIR_ERR_UNSUPPORTED, "weir_allreduce_norm: this build has no CUDA");
}
