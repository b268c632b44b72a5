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

typedef struct rig {
    weir_comm *comm;
    int rank;
    weir_conn *conn;
    weir_sem *sem, *packet_sem;
    weir_mem *data, *packets, *peer_data, *peer_packets;
    weir_memchan *chan, *packet_chan; /* to the peer's data and to its packets */
    unsigned char *memory;            /* data: inputs, then outputs */
    unsigned char *mirror;
    int *status; /* pinned memory */
} rig;

static weir_status open_channels(rig *r)
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

static int open_rig(rig *r, weir_boot *boot, int timeout_ms)
{
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.timeout_ms = timeout_ms;
    config.backend = WEIR_BACKEND_CUDA;
    memset(r, 0, sizeof *r);
    weir_status status = weir_comm_create(boot, &config, &r->comm);
    if (status == WEIR_OK) {
        r->rank = weir_comm_rank(r->comm);
        cudaSetDevice(weir_comm_device(r->comm));
        status = open_channels(r);
    }
    if (status != WEIR_OK) {
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

static int close_rig(rig *r, int failures)
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
    return failures;
}

/* Writes the input at an odd address, and canaries where the output goes. */
static void fill(rig *r, size_t bytes, int round)
{
    boot_fill(r->mirror, bytes, r->rank, round);
    cudaMemcpy(r->memory, r->mirror, bytes, cudaMemcpyHostToDevice);
    cudaMemset(r->memory + HALF, CANARY, bytes + 2 * MARGIN);
    cudaDeviceSynchronize();
    weir_comm_barrier(r->comm);
}

/* Whether the peer's bytes are at MARGIN of the output, and canaries around them. */
static int arrived(rig *r, size_t bytes, int round)
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

static int transfers(weir_boot *boot, void *argument)
{
    rig r;
    int failures = 0;
    (void)argument;
    if (open_rig(&r, boot, 5000))
        return 1;
    weir_memchan_dev *chan = weir_memchan_device(r.chan);
    for (int i = 0; i < LENGTHS && !failures; i++) {
        fill(&r, lengths[i], i);
        gpu_channels_put_and_wait(chan, HALF + MARGIN, 0, lengths[i], r.status);
        EXPECT(&failures, arrived(&r, lengths[i], i));
        fill(&r, lengths[i], i + 100);
        gpu_channels_wait_and_get(chan, HALF + MARGIN, 0, lengths[i], r.status);
        EXPECT(&failures, arrived(&r, lengths[i], i + 100));
        weir_comm_barrier(r.comm); /* no kernel reads the input any more */
    }
    return close_rig(&r, failures);
}

static int in_packets(weir_boot *boot, void *argument)
{
    rig r;
    int failures = 0;
    uint32_t flag = 0;
    (void)argument;
    if (open_rig(&r, boot, 5000))
        return 1;
    weir_memchan_dev *chan = weir_memchan_device(r.packet_chan);
    for (int wide = 0; wide < 2; wide++) {
        cudaMemset(weir_mem_pointer(r.packets), 0, PACKETS);
        for (int i = 0; i < LENGTHS && !failures; i++) {
            fill(&r, lengths[i], i);
            gpu_channels_packets(chan, HALF + MARGIN, 0, lengths[i], ++flag, wide, r.status);
            EXPECT(&failures, arrived(&r, lengths[i], i));
        }
    }
    return close_rig(&r, failures);
}

/* Barriers, then one that the peer does not enter. */
static int barriers(weir_boot *boot, void *argument)
{
    rig r;
    int failures = 0;
    (void)argument;
    if (open_rig(&r, boot, 500))
        return 1;
    weir_memchan_dev *chan = weir_memchan_device(r.chan);
    gpu_channels_barriers(chan, 1000, r.status);
    EXPECT(&failures, cudaDeviceSynchronize() == cudaSuccess && *r.status == 0);
    weir_comm_barrier(r.comm);
    if (r.rank == 0) {
        gpu_channels_barriers(chan, 1, r.status);
        EXPECT(&failures, cudaDeviceSynchronize() == cudaSuccess);
        EXPECT(&failures, *r.status == WEIR_ERR_TIMEOUT);
    } else {
        usleep(800000);
    }
    return close_rig(&r, failures);
}

static void run_body(void **state)
{
    int (*body)(weir_boot * boot, void *argument) = *(int (**)(weir_boot *, void *)) * state;
    need_gpus(2);
    run_ranks(2, body, NULL);
}

static int (*bodies[])(weir_boot *boot, void *argument) = {transfers, in_packets, barriers};

int main(void)
{
    const struct CMUnitTest tests[] = {
        AT("put and get by kernels", run_body, &bodies[0]),
        AT("packets of 8 and of 128 bytes", run_body, &bodies[1]),
        AT("barriers, and a wait for an absent peer that ends at its deadline", run_body,
           &bodies[2]),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("tests", tests, NULL, NULL);
}
