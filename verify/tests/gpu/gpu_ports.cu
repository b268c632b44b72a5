/*
 * Kernels that use port channels as a caller's CUDA code does: for test_gpu_ports.c, the mesh test
 * and the measuring program.
 */
#include "verify/tests/gpu/gpu_ports.h"

static __device__ void note(int seen, int *status)
{
    if (seen)
        *status = seen;
}

/* ----------------------------------------------------------------- for tests */

static __global__ void mesh(const gpu_ports_mesh_args args)
{
    const int tid = (int)threadIdx.x;
    weir_portchan_dev *chan = tid < args.nranks && tid != args.rank ? args.chans[tid] : nullptr;
    const uint64_t own = (uint64_t)args.part_bytes * (uint64_t)args.rank;
    for (int round = 0; round < args.rounds; round++) {
        __syncthreads();
        if (!chan)
            continue;
        note(weir_port_put_with_signal_and_flush(chan, own, own, args.part_bytes), args.status);
        note(weir_port_wait(chan), args.status);
        note(weir_port_signal(chan), args.status);
        note(weir_port_wait(chan), args.status);
    }
}

static __global__ void put_and_wait(weir_portchan_dev *chan, size_t to, size_t from, size_t bytes,
                                    int flush, int *status)
{
    note(flush ? weir_port_put_with_signal_and_flush(chan, to, from, bytes)
               : weir_port_put_with_signal(chan, to, from, bytes),
         status);
    note(weir_port_wait(chan), status);
}

static __global__ void flood(weir_portchan_dev *chan, size_t to, size_t from, int *status)
{
    const size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    note(weir_port_put_with_signal(chan, to + 8 * i, from + 8 * i, 8), status);
}

static __global__ void take_signals(weir_portchan_dev *chan, int count, int *status)
{
    int seen = 0;
    for (int i = 0; i < count && !seen; i++)
        seen = weir_port_wait(chan);
    note(seen, status);
}

/* ----------------------------------------------------------- for measurements */

static __global__ void triggers(const weir_fifo_dev *fifo, int ordered, int in_a_row,
                                gpu_ports_timing timing)
{
    const weir_trigger trigger = {WEIR_TRIGGER_CUSTOM, 0, 0, 0, 0};
    const weir_fifo_dev near = *fifo;
    int seen = 0;
    for (int batch = 0; batch < timing.batches && !seen; batch++) {
        const uint64_t begin = weir_clock_ns();
        for (int round = 0; round < timing.rounds && !seen; round++) {
            uint64_t ticket;
            seen = ordered ? weir_fifo_push(&near, &trigger, &ticket)
                           : weir_fifo_push_relaxed(&near, &trigger, &ticket);
            if (!seen && (!in_a_row || round == timing.rounds - 1))
                seen = weir_fifo_wait(&near, ticket);
        }
        timing.ns[batch] = weir_clock_ns() - begin;
    }
    note(seen, timing.status);
}

static __global__ void ping_pong(weir_portchan_dev *chan, int first, size_t to, size_t from,
                                 long long put_bytes, gpu_ports_timing timing)
{
    int seen = 0;
    for (int batch = 0; batch < timing.batches && !seen; batch++) {
        const uint64_t begin = weir_clock_ns();
        for (int round = 0; round < timing.rounds && !seen; round++) {
            if (!first)
                seen = weir_port_wait(chan);
            if (!seen)
                seen = put_bytes < 0
                           ? weir_port_signal(chan)
                           : weir_port_put_with_signal(chan, to, from, (uint64_t)put_bytes);
            if (first && !seen)
                seen = weir_port_wait(chan);
        }
        timing.ns[batch] = weir_clock_ns() - begin;
    }
    note(seen, timing.status);
}

/* ------------------------------------------------------------------- launches */

void gpu_ports_load(void)
{
    const void *const all[] = {(const void *)mesh,     (const void *)put_and_wait,
                               (const void *)flood,    (const void *)take_signals,
                               (const void *)triggers, (const void *)ping_pong};
    for (const void *kernel : all) {
        cudaFuncAttributes loaded;
        cudaFuncGetAttributes(&loaded, kernel);
    }
}

void gpu_ports_mesh(const gpu_ports_mesh_args *args)
{
    mesh<<<1, 512>>>(*args);
}

void gpu_ports_put_and_wait(weir_portchan_dev *chan, size_t to, size_t from, size_t bytes,
                            int flush, int *status)
{
    put_and_wait<<<1, 1>>>(chan, to, from, bytes, flush, status);
}

void gpu_ports_flood(weir_portchan_dev *chan, size_t to, size_t from, int blocks, int threads,
                     int *status)
{
    flood<<<blocks, threads>>>(chan, to, from, status);
    take_signals<<<1, 1>>>(chan, blocks * threads, status);
}

void gpu_ports_triggers(const weir_fifo_dev *fifo, int ordered, int in_a_row,
                        const gpu_ports_timing *timing)
{
    triggers<<<1, 1>>>(fifo, ordered, in_a_row, *timing);
}

void gpu_ports_ping_pong(weir_portchan_dev *chan, int first, size_t to, size_t from,
                         long long put_bytes, const gpu_ports_timing *timing)
{
    ping_pong<<<1, 1>>>(chan, first, to, from, put_bytes, *timing);
}
