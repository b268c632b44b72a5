/* The versions of CUDA's runtime and driver. */
#include "comm/monitor/status.h"

#include <cuda_runtime_api.h>

void weiri_status_cuda(int *runtime, int *driver)
{
    if (cudaRuntimeGetVersion(runtime) != cudaSuccess)
        *runtime = 0;
    if (cudaDriverGetVersion(driver) != cudaSuccess)
        *driver = 0;
    (void)cudaGetLastError();
}
