#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs_gpu
says "while a thread is in cudaFree beside a running kernel, other threads' cudaMemcpyAsync and launches block until that kernel ends; cuStreamWriteValue64 and cudaMallocAsync do not"
cat >held.cu <<'C'
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cuda.h>
#include <thread>

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

/* Whether a call takes more than 100 ms, made 50 ms after another thread has entered cudaFree next to a
 * kernel of 400 ms. */
template <typename Call> static int is_held(Call call)
{
    using namespace std::chrono;
    cudaStream_t a, b;
    void *memory;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaMalloc(&memory, 1 << 20);
    cudaDeviceSynchronize();
    spin<<<1, 1, 0, a>>>(400000000);
    std::thread freeing([memory] { cudaFree(memory); });
    std::this_thread::sleep_for(milliseconds(50));
    const auto begin = steady_clock::now();
    call(b);
    const int held = steady_clock::now() - begin > milliseconds(100);
    freeing.join();
    cudaDeviceSynchronize();
    return held;
}

int main()
{
    char *to, *from;
    void *word, *asynchronous;
    cudaMalloc(&to, 64);
    cudaMallocHost(&from, 64);
    cudaMalloc(&word, 64);
    spin<<<1, 1>>>(1000);
    cudaMallocAsync(&asynchronous, 64, 0);
    cudaDeviceSynchronize();
    const int copy = is_held([=](cudaStream_t s) { cudaMemcpyAsync(to, from, 64, cudaMemcpyDefault, s); });
    const int launch = is_held([](cudaStream_t s) { spin<<<1, 1, 0, s>>>(1000); });
    const int store = is_held([=](cudaStream_t s) { cuStreamWriteValue64(s, (CUdeviceptr)word, 1, 0); });
    const int allocation = is_held([](cudaStream_t s) {
        void *memory;
        cudaMallocAsync(&memory, 64, s);
    });
    printf("%d %d %d %d\n", copy, launch, store, allocation);
    return 0;
}
C
cuda held
expect "held up: copy, launch, write of a value, stream-ordered allocation" "1 1 0 0" "$(./held)"
finish
