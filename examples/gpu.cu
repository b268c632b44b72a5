/*
 * gpu: kernels on two GPUs of one node exchange data over a memory channel, as the host
 * threads of channels.c do. It compiles without a GPU; to run, it needs two and a weir with CUDA.
 *
 *     nvcc -forward-unknown-to-host-compiler gpu.cu -o gpu $(pkg-config --cflags --libs weir)
 *     ./gpu
 *
 * The threads of a block share the puts; one of them signals and waits. The block needs a barrier
 * between its puts and the signal, and between the wait and its loads.
 */
#include <weir/kernel.h>

#include <stdio.h>
#include <stdlib.h>

enum { NRANKS = 2, ROUNDS = 1000, WORDS = 4096, BYTES = WORDS * sizeof(int) };

static __device__ void signal_and_wait(weir_memchan_dev *chan, int *status)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        weir_signal(chan);
        *status = weir_wait(chan);
        if (*status)
            weir_kernel_fail(&chan->guard, *status); /* weir_comm_check returns it */
    }
    __syncthreads();
}

/* buffer has two halves, and a counter of wrong words after them. */
static __global__ void exchange(weir_memchan_dev *chan, int *buffer, int rank)
{
    __shared__ int status;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = (int)threadIdx.x; i < WORDS; i += (int)blockDim.x)
            buffer[i] = round * NRANKS + rank + i;
        __syncthreads();
        weir_put(chan, BYTES, 0, BYTES, threadIdx.x, blockDim.x);
        signal_and_wait(chan, &status); /* the peer's data has arrived */
        if (status)
            return;
        for (int i = (int)threadIdx.x; i < WORDS; i += (int)blockDim.x)
            if (buffer[WORDS + i] != round * NRANKS + (1 - rank) + i)
                atomicAdd(buffer + 2 * WORDS, 1);
        signal_and_wait(chan, &status); /* the peer has read this rank's data */
        if (status)
            return;
    }
}

/* Ends this rank if a call failed. The waits of the other rank notice that it has ended. */
static void need(weir_status status)
{
    if (status != WEIR_OK) {
        fprintf(stderr, "gpu (needs two GPUs): %s\n", weir_last_error());
        exit(weir_status_exit_code(status));
    }
}

static int rank_main(weir_boot *boot, void *argument)
{
    (void)argument;
    int rank = weir_boot_rank(boot), wrong = 0;
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_CUDA;
    weir_comm *comm = NULL;
    weir_mem *mem = NULL, *mems[NRANKS];
    weir_conn *conn = NULL;
    weir_sem *sem = NULL;
    weir_memchan *chan = NULL;
    need(weir_comm_create(boot, &config, &comm));
    cudaSetDevice(weir_comm_device(comm));
    need(weir_mem_alloc(comm, 2 * BYTES + sizeof wrong, &mem)); /* zeroed, on the GPU */
    need(weir_mem_exchange(comm, mem, mems));
    need(weir_connect(comm, 1 - rank, 0, WEIR_TRANSPORT_AUTO, &conn));
    need(weir_sem_create(conn, &sem));
    need(weir_memchan_create(sem, mems[1 - rank], mem, NULL, &chan));
    exchange<<<1, 512>>>(weir_memchan_device(chan), (int *)weir_mem_pointer(mem), rank);
    const cudaError_t error = cudaDeviceSynchronize();
    need(weir_comm_check(comm));
    need(weir_mem_read(mem, 2 * BYTES, &wrong, sizeof wrong));
    need(weir_comm_barrier(comm)); /* the peer uses neither memory nor semaphore any more */
    printf("rank %d: %d rounds over %s, %d words wrong, %s\n", rank, ROUNDS,
           weir_transport_name(weir_conn_transport(conn)), wrong, cudaGetErrorString(error));
    weir_memchan_free(chan);
    weir_sem_free(sem);
    weir_conn_free(conn);
    weir_mem_free(mems[1 - rank]);
    weir_mem_free(mem);
    need(weir_comm_destroy(comm));
    return wrong || error != cudaSuccess;
}

int main(void)
{
    int codes[NRANKS];
    need(weir_boot_fork_run(NRANKS, rank_main, NULL, 0, codes)); /* no limit of time */
    return codes[0] > codes[1] ? codes[0] : codes[1];
}
