#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs_gpu
says "a copy within one GPU runs as a kernel, whatever its size: next to a kernel that fills the GPU it waits, while copies to the host, from it and to another GPU pass, and so do short memsets"
cat >full.cu <<'C'
#include <cstdint>
#include <cstdio>
#include <unistd.h>

static const size_t LONG = 16 << 20;

__global__ void spin(uint64_t ns)
{
    uint64_t begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - begin < ns);
}

static cudaStream_t filled, other;
static char *near_memory, *next_to_it, *far_memory, *host;

/* Starts a kernel on every thread slot of the GPU. */
static void fill()
{
    int processors;
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
    spin<<<2 * processors, 1024, 0, filled>>>(100000000);
    usleep(10000);
}

/* 1: what the other stream has ends while the kernel runs. */
static int passes()
{
    int early = 0;
    while (!early && cudaStreamQuery(filled) == cudaErrorNotReady)
        early = cudaStreamQuery(other) == cudaSuccess && cudaStreamQuery(filled) == cudaErrorNotReady;
    cudaDeviceSynchronize();
    return early;
}

static int copy(void *to, const void *from, size_t bytes)
{
    fill();
    cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, other);
    return passes();
}

static int set(size_t bytes)
{
    fill();
    cudaMemsetAsync(near_memory, 1, bytes, other);
    return passes();
}

int main()
{
    int devices;
    cudaGetDeviceCount(&devices);
    if (devices > 1) {
        cudaSetDevice(1);
        cudaMalloc(&far_memory, LONG);
    }
    cudaSetDevice(0);
    cudaStreamCreateWithFlags(&filled, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaMalloc(&near_memory, LONG);
    cudaMalloc(&next_to_it, LONG);
    cudaMallocHost(&host, LONG);
    /* first uses load what they need */
    cudaMemcpy(next_to_it, near_memory, LONG, cudaMemcpyDefault);
    cudaMemset(near_memory, 0, LONG);
    fill();
    cudaDeviceSynchronize();
    printf("within the GPU %d %d, to the host %d %d, from it %d %d, memset %d %d, to another GPU", copy(next_to_it, near_memory, 4),
           copy(next_to_it, near_memory, LONG), copy(host, near_memory, 4), copy(host, near_memory, LONG), copy(near_memory, host, 4),
           copy(near_memory, host, LONG), set(1024), set(LONG));
    if (far_memory)
        printf(" %d %d\n", copy(far_memory, near_memory, 4), copy(far_memory, near_memory, LONG));
    else
        printf(" -\n");
    return 0;
}
C
cuda full
seen=$(./full)
expect "4 B and 16 MiB pass a full GPU (memset: 1 KiB and 16 MiB)" "within the GPU 0 0, to the host 1 1, from it 1 1, memset 1 0" "${seen%, to another GPU*}"
[ "${seen##*GPU }" = - ] || expect "the same to another GPU" "1 1" "${seen##*GPU }"
finish
