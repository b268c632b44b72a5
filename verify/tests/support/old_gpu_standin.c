/*
 * Test double: a GPU of the compute capability in STANDIN_SM (80: 8.0), for which the build has no
 * kernels. It takes the place of the CUDA runtime's functions that the choice of a GPU calls (the
 * linker's --wrap), as the runtime does not accept a driver that is a test double.
 */
#include <cuda_runtime_api.h>

#include <stdio.h>
#include <stdlib.h>

cudaError_t __wrap_cudaGetDeviceCount(int *count);
cudaError_t __wrap_cudaDeviceGetPCIBusId(char *bus, int bytes, int device);
cudaError_t __wrap_cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device);

cudaError_t __wrap_cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}

cudaError_t __wrap_cudaDeviceGetPCIBusId(char *bus, int bytes, int device)
{
    snprintf(bus, (size_t)bytes, "0000:5a:00.%d", device);
    return cudaSuccess;
}

cudaError_t __wrap_cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    const char *sm = getenv("STANDIN_SM");
    const int capability = sm ? atoi(sm) : 0;
    (void)device;
    *value = attribute == cudaDevAttrComputeCapabilityMajor   ? capability / 10
             : attribute == cudaDevAttrComputeCapabilityMinor ? capability % 10
                                                              : 0;
    return cudaSuccess;
}
