#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs_gpu
says "with the default eight connections, eight streams that hold a running kernel and an event with timing behind it keep a ninth stream's kernel from starting on an idle GPU; events without timing do not"
cat >streams.cu <<'C'
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

static int ninth_runs(unsigned flags)
{
    enum { STREAMS = 9 };
    cudaStream_t streams[STREAMS];
    cudaEvent_t event;
    cudaEventCreateWithFlags(&event, flags);
    for (int i = 0; i < STREAMS; i++)
        cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking);
    cudaDeviceSynchronize();
    for (int i = 0; i < STREAMS - 1; i++) {
        spin<<<1, 1, 0, streams[i]>>>(300000000);
        cudaEventRecord(event, streams[i]);
    }
    spin<<<1, 1, 0, streams[STREAMS - 1]>>>(1000);
    int early = 0;
    while (!early && cudaStreamQuery(streams[0]) == cudaErrorNotReady)
        early = cudaStreamQuery(streams[STREAMS - 1]) == cudaSuccess &&
                cudaStreamQuery(streams[0]) == cudaErrorNotReady;
    cudaDeviceSynchronize();
    for (int i = 0; i < STREAMS; i++)
        cudaStreamDestroy(streams[i]);
    cudaEventDestroy(event);
    return early;
}

int main()
{
    spin<<<1, 1>>>(1000);
    const int untimed = ninth_runs(cudaEventDisableTiming), timed = ninth_runs(cudaEventDefault);
    printf("%d %d\n", untimed, timed);
    return 0;
}
C
cuda streams
unset CUDA_DEVICE_MAX_CONNECTIONS
expect "the ninth kernel runs beside eight: events without timing, with timing" "1 0" "$(./streams)"
expect "the same with 32 connections" "1 1" "$(CUDA_DEVICE_MAX_CONNECTIONS=32 ./streams)"
finish
