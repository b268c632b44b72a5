/*
 * Kernels of test_gpu_channels.c, which use weir/device.h as a caller's CUDA code does. Each launch
 * has one block; the status of a failed wait goes to *status.
 */
#include "verify/tests/gpu/gpu_channels.h"

/* Combines the statuses of all threads' waits and synchronizes the block. */
static __device__ void together(int seen, int *status)
{
    if (seen)
        *status = seen;
    __syncthreads();
}

static __global__ void put_and_wait(weir_memchan_dev *chan, size_t to, size_t from, size_t bytes,
                                    int *status)
{
    weir_put(chan, to, from, bytes, threadIdx.x, blockDim.x);
    __syncthreads();
    int seen = 0;
    if (threadIdx.x == 0) {
        weir_signal(chan);
        seen = weir_wait(chan);
    }
    together(seen, status);
}

static __global__ void wait_and_get(weir_memchan_dev *chan, size_t to, size_t from, size_t bytes,
                                    int *status)
{
    int seen = 0;
    if (threadIdx.x == 0) {
        weir_signal(chan); /* covers what this stream did before */
        seen = weir_wait(chan);
    }
    together(seen, status);
    weir_get(chan, to, from, bytes, threadIdx.x, blockDim.x);
}

static __global__ void packets(weir_memchan_dev *chan, size_t to, size_t from, size_t bytes,
                               uint32_t flag, int wide, int *status)
{
    int seen;
    if (wide) {
        weir_put_packets128(chan, 0, from, bytes, threadIdx.x, blockDim.x, flag);
        seen = weir_get_packets128(chan, to, 0, bytes, threadIdx.x, blockDim.x, flag);
    } else {
        weir_put_packets(chan, 0, from, bytes, threadIdx.x, blockDim.x, flag);
        seen = weir_get_packets(chan, to, 0, bytes, threadIdx.x, blockDim.x, flag);
    }
    together(seen, status);
}

static __global__ void barriers(weir_memchan_dev *chan, int rounds, int *status)
{
    weir_memchan_dev *chans[] = {chan};
    for (int round = 0; round < rounds; round++) {
        __syncthreads();
        together(weir_barrier(chans, 1, threadIdx.x, blockDim.x), status);
    }
}

void gpu_channels_put_and_wait(weir_memchan_dev *chan, size_t to, size_t from, size_t bytes,
                               int *status)
{
    put_and_wait<<<1, 256>>>(chan, to, from, bytes, status);
}

void gpu_channels_wait_and_get(weir_memchan_dev *chan, size_t to, size_t from, size_t bytes,
                               int *status)
{
    wait_and_get<<<1, 256>>>(chan, to, from, bytes, status);
}

void gpu_channels_packets(weir_memchan_dev *chan, size_t to, size_t from, size_t bytes,
                          uint32_t flag, int wide, int *status)
{
    packets<<<1, 256>>>(chan, to, from, bytes, flag, wide, status);
}

void gpu_channels_barriers(weir_memchan_dev *chan, int rounds, int *status)
{
    barriers<<<1, 64>>>(chan, rounds, status);
}
