/*
 * Two GPUs connected by a port channel, for the tests on GPUs and the measuring program. Each
 * rank's memory has two halves: the source of its puts, and the destination of its peer's.
 */
#ifndef VERIFY_TESTS_SUPPORT_GPU_PORT_PAIR_H
#define VERIFY_TESTS_SUPPORT_GPU_PORT_PAIR_H

#include "verify/tests/gpu/gpu_ports.h"
#include "verify/tests/support/gpu_ranks.h"

enum { GPU_PORT_HALF = 4 << 20 };

typedef struct gpu_port_end {
    weir_comm *comm;
    int rank;
    weir_proxy *proxy;
    weir_conn *conn;
    weir_sem *sem;
    weir_mem *mem, *peer_mem;
    weir_portchan *chan;
    weir_portchan_dev *port; /* in device memory */
    char *memory;
    int *status;  /* pinned memory: status of kernels */
    uint64_t *ns; /* likewise, their times */
} gpu_port_end;

enum { GPU_PORT_BATCHES_MAX = 256 };

static inline weir_status gpu_port_connect(gpu_port_end *r)
{
    int peer = 1 - r->rank;
    weir_status status = weir_connect(r->comm, peer, 1, WEIR_TRANSPORT_AUTO, &r->conn);
    if (status == WEIR_OK)
        status = weir_mem_alloc(r->comm, 2 * GPU_PORT_HALF, &r->mem);
    if (status == WEIR_OK)
        status = weir_mem_send(r->comm, r->mem, peer, 2);
    if (status == WEIR_OK)
        status = weir_mem_recv(r->comm, peer, 2, &r->peer_mem);
    if (status == WEIR_OK)
        status = weir_sem_create(r->conn, &r->sem);
    if (status == WEIR_OK)
        status = weir_portchan_create(r->proxy, r->sem, r->peer_mem, r->mem, &r->chan);
    if (status == WEIR_OK)
        status = weir_proxy_start(r->proxy);
    return status;
}

/* Returns 0, or prints why not. */
static inline int gpu_port_open(gpu_port_end *r, weir_boot *boot, int timeout_ms,
                                const weir_proxy_config *how)
{
    memset(r, 0, sizeof *r);
    if (!(r->comm = open_gpu_comm(boot, timeout_ms)))
        return 1;
    r->rank = weir_comm_rank(r->comm);
    if (weir_proxy_create(r->comm, how, &r->proxy) != WEIR_OK || gpu_port_connect(r) != WEIR_OK) {
        fprintf(stderr, "# rank %d: %s\n", r->rank, weir_last_error());
        return 1;
    }
    gpu_ports_load();
    r->port = weir_portchan_device(r->chan);
    r->memory = weir_mem_pointer(r->mem);
    if (cudaHostAlloc((void **)&r->status, sizeof *r->status, cudaHostAllocMapped) != cudaSuccess ||
        cudaHostAlloc((void **)&r->ns, GPU_PORT_BATCHES_MAX * sizeof *r->ns, cudaHostAllocMapped) !=
            cudaSuccess)
        return 1;
    *r->status = 0;
    return weir_comm_barrier(r->comm) != WEIR_OK;
}

/* Both ranks' kernels must have ended. Returns failures, plus one if the proxy failed. */
static inline int gpu_port_close(gpu_port_end *r, int failures)
{
    cudaDeviceSynchronize();
    if (weir_proxy_stop(r->proxy) != WEIR_OK && !failures++)
        fprintf(stderr, "# rank %d: %s\n", r->rank, weir_last_error());
    weir_comm_barrier(r->comm);
    weir_portchan_free(r->chan);
    weir_sem_free(r->sem);
    weir_mem_free(r->peer_mem);
    weir_mem_free(r->mem);
    weir_conn_free(r->conn);
    weir_proxy_free(r->proxy);
    weir_comm_destroy(r->comm);
    return failures;
}

/* Whether this rank's kernels have ended without an error. */
static inline int gpu_port_ended(const gpu_port_end *r)
{
    return cudaDeviceSynchronize() == cudaSuccess && *r->status == 0;
}

#endif
