/*
 * Proves that kernels can use memory channels between two GPUs: put, get, signal, wait, packets of
 * 8 and of 128 bytes, barriers, and a wait that ends at its deadline. Needs two GPUs; the parent
 * process never touches CUDA, because its children do.
 */
#include "verify/tests/gpu/gpu_channels.h"
#include "verify/tests/support/gpu_ranks.h"

#include <stdlib.h>
#include <string.h>

enum { HALF = 1 << 20, PACKETS = 1 << 21, MARGIN = 64, CANARY = 0xA5 };

typedef struct channel_end {
    weir_comm *comm;
    int rank;
    weir_conn *conn;
    weir_sem *sem, *packet_sem;
    weir_mem *data, *packets, *peer_data, *peer_packets;
    weir_memchan *chan, *packet_chan; /* to the peer's data and to its packets */
    unsigned char *memory;            /* data: inputs, then outputs */
    unsigned char *mirror;
    int *status; /* pinned memory */
} channel_end;

static weir_status open_channels(channel_end *r)
{
    int peer = 1 - r->rank;
    weir_status status = weir_connect(r->comm, peer, 1, WEIR_TRANSPORT_AUTO, &r->conn);
    if (status == WEIR_OK)
        status = weir_mem_alloc(r->comm, 2 * HALF, &r->data);
    if (status == WEIR_OK)
        status = weir_mem_alloc(r->comm, PACKETS, &r->packets);
    if (status == WEIR_OK)
        status = weir_mem_send(r->comm, r->data, peer, 2);
    if (status == WEIR_OK)
        status = weir_mem_send(r->comm, r->packets, peer, 3);
    if (status == WEIR_OK)
        status = weir_mem_recv(r->comm, peer, 2, &r->peer_data);
    if (status == WEIR_OK)
        status = weir_mem_recv(r->comm, peer, 3, &r->peer_packets);
    if (status == WEIR_OK)
        status = weir_sem_create(r->conn, &r->sem);
    if (status == WEIR_OK)
        status = weir_memchan_create(r->sem, r->peer_data, r->data, NULL, &r->chan);
    if (status == WEIR_OK)
        status = weir_sem_create(r->conn, &r->packet_sem);
    if (status == WEIR_OK)
        status = weir_memchan_create(r->packet_sem, r->peer_packets, r->data, r->packets,
                                     &r->packet_chan);
    return status;
}

static int channel_end_open(channel_end *r, weir_boot *boot, int timeout_ms)
{
    memset(r, 0, sizeof *r);
    if (!(r->comm = open_gpu_comm(boot, timeout_ms)))
        return 1;
    r->rank = weir_comm_rank(r->comm);
    if (open_channels(r) != WEIR_OK) {
        fprintf(stderr, "# rank %d: %s\n", r->rank, weir_last_error());
        return 1;
    }
    r->memory = weir_mem_pointer(r->data);
    r->mirror = malloc(HALF);
    if (cudaHostAlloc((void **)&r->status, sizeof *r->status, cudaHostAllocMapped) != cudaSuccess)
        return 1;
    *r->status = 0;
    return 0;
}

static void channel_end_close(channel_end *r)
{
    cudaDeviceSynchronize();
    weir_comm_barrier(r->comm);
    weir_memchan_free(r->packet_chan);
    weir_memchan_free(r->chan);
    weir_sem_free(r->packet_sem);
    weir_sem_free(r->sem);
    weir_conn_free(r->conn);
    weir_mem_free(r->peer_packets);
    weir_mem_free(r->peer_data);
    weir_mem_free(r->packets);
    weir_mem_free(r->data);
    weir_comm_destroy(r->comm);
    free(r->mirror);
}

/* A check and the deadline of its communicator. */
typedef struct channel_case {
    void (*check)(channel_end *r, int *failures);
    int timeout_ms;
} channel_case;

static int run_channel_case(weir_boot *boot, void *argument)
{
    const channel_case *c = argument;
    int failures = 0;
    channel_end r;
    if (channel_end_open(&r, boot, c->timeout_ms))
        return 1;
    c->check(&r, &failures);
    channel_end_close(&r);
    return failures;
}

/* Writes the input at an odd address, and canaries where the output goes. */
static void fill(channel_end *r, size_t bytes, int round)
{
    boot_fill(r->mirror, bytes, r->rank, round);
    cudaMemcpy(r->memory, r->mirror, bytes, cudaMemcpyHostToDevice);
    cudaMemset(r->memory + HALF, CANARY, bytes + 2 * MARGIN);
    cudaDeviceSynchronize();
    weir_comm_barrier(r->comm);
}

/* Whether the peer's bytes are at MARGIN of the output, and canaries around them. */
static int arrived(channel_end *r, size_t bytes, int round)
{
    if (cudaDeviceSynchronize() != cudaSuccess || *r->status)
        return 0;
    cudaMemcpy(r->mirror, r->memory + HALF, bytes + 2 * MARGIN, cudaMemcpyDeviceToHost);
    for (size_t i = 0; i < MARGIN; i++)
        if (r->mirror[i] != CANARY || r->mirror[MARGIN + bytes + i] != CANARY)
            return 0;
    return boot_filled(r->mirror + MARGIN, bytes, 1 - r->rank, round);
}

static const size_t lengths[] = {1, 7, 8, 120, 121, 479, 480, 481, 4096, 30001, 500000};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static void transfers(channel_end *r, int *failures)
{
    weir_memchan_dev *chan = weir_memchan_device(r->chan);
    for (int i = 0; i < LENGTHS && !*failures; i++) {
        fill(r, lengths[i], i);
        gpu_channels_put_and_wait(chan, HALF + MARGIN, 0, lengths[i], r->status);
        EXPECT(failures, arrived(r, lengths[i], i));
        fill(r, lengths[i], i + 100);
        gpu_channels_wait_and_get(chan, HALF + MARGIN, 0, lengths[i], r->status);
        EXPECT(failures, arrived(r, lengths[i], i + 100));
        weir_comm_barrier(r->comm); /* no kernel reads the input any more */
    }
}

static void in_packets(channel_end *r, int *failures)
{
    uint32_t flag = 0;
    weir_memchan_dev *chan = weir_memchan_device(r->packet_chan);
    for (int wide = 0; wide < 2; wide++) {
        cudaMemset(weir_mem_pointer(r->packets), 0, PACKETS);
        for (int i = 0; i < LENGTHS && !*failures; i++) {
            fill(r, lengths[i], i);
            gpu_channels_packets(chan, HALF + MARGIN, 0, lengths[i], ++flag, wide, r->status);
            EXPECT(failures, arrived(r, lengths[i], i));
        }
    }
}

/* Barriers, then one that the peer does not enter. */
static void barriers(channel_end *r, int *failures)
{
    weir_memchan_dev *chan = weir_memchan_device(r->chan);
    gpu_channels_barriers(chan, 1000, r->status);
    EXPECT(failures, cudaDeviceSynchronize() == cudaSuccess && *r->status == 0);
    weir_comm_barrier(r->comm);
    if (r->rank == 0) {
        gpu_channels_barriers(chan, 1, r->status);
        EXPECT(failures, cudaDeviceSynchronize() == cudaSuccess);
        EXPECT(failures, *r->status == WEIR_ERR_TIMEOUT);
    } else {
        usleep(800000);
    }
}

#define CHANNEL_TEST(name, check, timeout_ms)                                                      \
    TWO_GPUS_TEST(name, run_channel_case, (&(channel_case){check, timeout_ms}))

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHANNEL_TEST("put and get by kernels", transfers, 5000),
        CHANNEL_TEST("packets of 8 and of 128 bytes", in_packets, 5000),
        CHANNEL_TEST("barriers, and a wait for an absent peer that ends at its deadline", barriers,
                     500),
    };
    return RUN_TESTS("channels on GPUs", tests);
}
