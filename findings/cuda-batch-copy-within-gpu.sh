#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs_gpu
says "a batch of copies within one GPU (cuMemcpyBatchAsync) is no single operation: the calling thread pays microseconds for each block, and a kernel that fills the GPU holds the batch up"
cat >batch.cu <<'C'
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cuda.h>
#include <unistd.h>
#include <vector>

static const size_t BLOCK = 4096, MOST = 10000;

__global__ void spin(uint64_t ns)
{
    uint64_t begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - begin < ns);
}

static char *to, *from;

static int copy(size_t count, cudaStream_t stream)
{
    std::vector<CUdeviceptr> dst(count), src(count);
    std::vector<size_t> bytes(count, BLOCK);
    size_t first = 0;
    CUmemcpyAttributes attributes = {};
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    for (size_t i = 0; i < count; i++) {
        dst[i] = (CUdeviceptr)(to + i * BLOCK);
        src[i] = (CUdeviceptr)(from + i * 7919 % count * BLOCK);
    }
    return cuMemcpyBatchAsync(dst.data(), src.data(), bytes.data(), count, &attributes, &first, 1, stream);
}

static double seconds()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main()
{
    cudaStream_t filled, other;
    int processors, early = 0;
    double least = 1;
    cudaStreamCreateWithFlags(&filled, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaMalloc(&to, MOST * BLOCK);
    cudaMalloc(&from, MOST * BLOCK);
    for (int i = 0; i < 5; i++) {
        cudaDeviceSynchronize();
        const double begin = seconds();
        if (copy(MOST, other))
            return 2;
        const double taken = seconds() - begin;
        least = taken < least ? taken : least;
    }
    cudaDeviceSynchronize();
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
    spin<<<1, 1, 0, filled>>>(1000);
    cudaDeviceSynchronize();
    spin<<<2 * processors, 1024, 0, filled>>>(100000000);
    usleep(10000);
    copy(2, other);
    while (!early && cudaStreamQuery(filled) == cudaErrorNotReady)
        early = cudaStreamQuery(other) == cudaSuccess && cudaStreamQuery(filled) == cudaErrorNotReady;
    cudaDeviceSynchronize();
    fprintf(stderr, "%.2f us of the calling thread for each block of 4 KiB\n", 1e6 * least / MOST);
    printf("%d %d\n", least / MOST > 1e-6, early);
    return 0;
}
C
cuda batch
expect "more than 1 us a block, passes a full GPU" "1 0" "$(./batch)"
finish
