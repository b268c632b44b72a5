/* A build without CUDA: there is no GPU. */
#include "base/error.h"
#include "transport/net/ib.h"

weir_status weiri_ib_gpu_register(weiri_ib_net *ib, void *base, size_t bytes, struct ibv_mr **mr)
{
    (void)ib, (void)base, (void)bytes, (void)mr;
    return weiri_fail(WEIR_ERR_UNSUPPORTED,
                      "transport ib: this build has no CUDA, so no memory of GPUs");
}

int weiri_ib_gpu_address(char address[16])
{
    (void)address;
    return 0;
}
