/* GPU memory of the ib transport in a build without CUDA: none is accepted. */
#include "base/error.h"
#include "transport/net/ib.h"

weir_status weiri_ib_gpu_register(weiri_ib_net *ib, void *base, size_t bytes, struct ibv_mr **mr)
{
    (void)ib, (void)base, (void)bytes, (void)mr;
    return weiri_fail(WEIR_ERR_UNSUPPORTED,
                      "transport ib: this build has no CUDA, so it accepts no GPU memory");
}

int weiri_ib_gpu_address(char address[16])
{
    (void)address;
    return 0;
}
