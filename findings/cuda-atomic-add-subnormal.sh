#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs_gpu
says "atomicAdd of float flushes subnormal numbers to zero in global memory, even when it adds 0, without -ftz; in shared memory it keeps them"
cat >add.cu <<'C'
#include <cstdint>
#include <cstdio>
#include <cstring>

__global__ void add(float *global, float *shared_result)
{
    __shared__ float shared;
    shared = *global;
    atomicAdd(global, 0.0f);
    atomicAdd(&shared, 0.0f);
    *shared_result = shared;
}

int main()
{
    const uint32_t bits = 1000; /* a subnormal number */
    float *memory;
    uint32_t after[2];
    cudaMalloc(&memory, 2 * sizeof *memory);
    cudaMemcpy(memory, &bits, sizeof bits, cudaMemcpyDefault);
    add<<<1, 1>>>(memory, memory + 1);
    if (cudaMemcpy(after, memory, sizeof after, cudaMemcpyDefault) != cudaSuccess)
        return 1;
    printf("%u %u\n", after[0], after[1]);
    return 0;
}
C
cuda add
expect "1000 units of the smallest float after adding 0, in global and in shared memory" "0 1000" "$(./add)"
finish
