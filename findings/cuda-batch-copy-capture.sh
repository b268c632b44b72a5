#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs_gpu
says "cuMemcpyBatchAsync is refused in a stream capture, and the capture goes on as if it had not been called: the graph that comes out lacks the copies"
cat >batch.cu <<'C'
#include <cstdio>
#include <cuda.h>

__global__ void nothing() {}

int main()
{
    char *memory;
    cudaStream_t stream;
    cudaGraph_t graph = nullptr;
    size_t bytes = 64, first = 0, nodes = 0;
    cudaMalloc(&memory, 2 * bytes);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    CUdeviceptr to = (CUdeviceptr)memory, from = to + bytes;
    CUmemcpyAttributes attributes = {};
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    const int outside = cuMemcpyBatchAsync(&to, &from, &bytes, 1, &attributes, &first, 1, stream);
    cudaStreamSynchronize(stream);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    nothing<<<1, 1, 0, stream>>>();
    const int inside = cuMemcpyBatchAsync(&to, &from, &bytes, 1, &attributes, &first, 1, stream);
    nothing<<<1, 1, 0, stream>>>();
    const int end = cudaStreamEndCapture(stream, &graph);
    if (graph)
        cudaGraphGetNodes(graph, nullptr, &nodes);
    printf("%d %d %d %zu\n", outside, inside, end, nodes);
    return 0;
}
C
cuda batch
expect "error outside, error within the capture, error of the capture's end, nodes" "0 900 0 2" "$(./batch)"
finish
