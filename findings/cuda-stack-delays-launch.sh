#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs_gpu
says "a kernel that calls printf is loaded by cudaFuncGetAttributes, and still does not start next to a running kernel at its first launch; at its second it does"
cat >late.cu <<'C'
#include <cstdint>
#include <cstdio>

__device__ uint64_t now()
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

__global__ void spin(uint64_t ns)
{
    const uint64_t end = now() + ns;
    while (now() < end)
        ;
}

__global__ void talk(int loud)
{
    if (loud)
        printf("never\n");
}

__global__ void quiet()
{
}

/* Whether the kernel in stream b ends while another one runs in stream a for 300 ms. */
template <typename Launch> static int ends_beside(cudaStream_t a, cudaStream_t b, Launch launch)
{
    cudaDeviceSynchronize();
    spin<<<1, 1, 0, a>>>(300000000);
    launch(b);
    for (int i = 0; i < 1000 && cudaStreamQuery(a) == cudaErrorNotReady; i++)
        if (cudaStreamQuery(b) == cudaSuccess)
            return cudaStreamQuery(a) == cudaErrorNotReady;
    while (cudaStreamQuery(a) == cudaErrorNotReady)
        if (cudaStreamQuery(b) == cudaSuccess)
            return cudaStreamQuery(a) == cudaErrorNotReady;
    return 0;
}

int main()
{
    cudaFuncAttributes loaded;
    cudaStream_t a, b;
    cudaFuncGetAttributes(&loaded, spin);
    cudaFuncGetAttributes(&loaded, talk);
    cudaFuncGetAttributes(&loaded, quiet);
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    const auto run_talk = [](cudaStream_t s) { talk<<<1, 1, 0, s>>>(0); };
    const auto run_quiet = [](cudaStream_t s) { quiet<<<1, 1, 0, s>>>(); };
    const int plain = ends_beside(a, b, run_quiet), first = ends_beside(a, b, run_talk);
    const int second = ends_beside(a, b, run_talk);
    printf("%d %d %d\n", plain, first, second);
    return 0;
}
C
cuda late
expect "whether it ends beside the running one: a kernel without printf, with printf at first, the second time" "1 0 1" "$(./late)"
finish
