/*
 * A full mesh of port channels: every rank connects to all others, registers memory and sends its
 * handle, creates semaphores and port channels, starts its proxy, and launches a kernel in which
 * one thread per peer puts this rank's part to that peer with a signal, flushes, and waits for the
 * peer's part. On the host backend the calling thread does the same. Then each rank checks all
 * parts. For port_mesh.sh:
 *
 *   mpirun -np 4 port_mesh [--transport NAME] [--backend host|cuda] [--rounds N]
 *   port_mesh --at lo:127.0.0.1:50000 RANK NRANKS ...      the ranks connect by TCP
 *
 * Exits with the exit code of the result; rank 0 prints "mesh of N ranks: passed".
 */
#include <weir/weir.h>
#include <weir/port_device.h>

#include "base/mpi_names.h"
#include "base/mpi_open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if WEIR_HAVE_CUDA
#include "verify/tests/gpu/gpu_ports.h"

#include <cuda_runtime_api.h>
#endif

enum { RANKS_MAX = 8, PART_BYTES = 50000, TAG = 5 };

typedef struct options {
    const char *at; /* NULL: MPI */
    int rank, nranks, rounds;
    weir_transport transport;
    weir_backend backend;
} options;

typedef struct mesh {
    int rank, nranks;
    weir_comm *comm;
    weir_proxy *proxy;
    weir_mem *memory; /* a part for each rank */
    weir_mem *peers[RANKS_MAX];
    weir_conn *conns[RANKS_MAX];
    weir_sem *sems[RANKS_MAX];
    weir_portchan *chans[RANKS_MAX];
} mesh;

/* ------------------------------------------------------------------- set-up */

/* Neighbours in ascending order, so that no cycle of ranks waits for one another. */
static weir_status connect_all(mesh *m, weir_transport transport)
{
    weir_status status = WEIR_OK;
    for (int r = 0; r < m->nranks && status == WEIR_OK; r++)
        if (r != m->rank)
            status = weir_connect(m->comm, r, TAG, transport, &m->conns[r]);
    return status;
}

static weir_status exchange_memory(mesh *m)
{
    weir_status status = WEIR_OK;
    for (int r = 0; r < m->nranks && status == WEIR_OK; r++)
        if (r != m->rank)
            status = weir_mem_send(m->comm, m->memory, r, TAG);
    for (int r = 0; r < m->nranks && status == WEIR_OK; r++)
        if (r != m->rank)
            status = weir_mem_recv(m->comm, r, TAG, &m->peers[r]);
    return status;
}

static weir_status build_channels(mesh *m)
{
    weir_status status = WEIR_OK;
    for (int r = 0; r < m->nranks && status == WEIR_OK; r++) {
        if (r == m->rank)
            continue;
        status = weir_sem_create(m->conns[r], &m->sems[r]);
        if (status == WEIR_OK)
            status =
                weir_portchan_create(m->proxy, m->sems[r], m->peers[r], m->memory, &m->chans[r]);
    }
    return status;
}

static weir_status set_up(mesh *m, weir_boot *boot, const options *how)
{
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = how->backend;
    m->rank = weir_boot_rank(boot);
    m->nranks = weir_boot_nranks(boot);
    weir_status status = weir_comm_create(boot, &config, &m->comm);
    if (status == WEIR_OK)
        status = weir_proxy_create(m->comm, NULL, &m->proxy);
    if (status == WEIR_OK)
        status = weir_mem_alloc(m->comm, (size_t)m->nranks * PART_BYTES, &m->memory);
    if (status == WEIR_OK)
        status = connect_all(m, how->transport);
    if (status == WEIR_OK)
        status = exchange_memory(m);
    if (status == WEIR_OK)
        status = build_channels(m);
    return status == WEIR_OK ? weir_proxy_start(m->proxy) : status;
}

static void tear_down(mesh *m)
{
    for (int r = 0; r < m->nranks; r++) {
        weir_portchan_free(m->chans[r]);
        weir_sem_free(m->sems[r]);
        weir_mem_free(m->peers[r]);
        weir_conn_free(m->conns[r]);
    }
    weir_mem_free(m->memory);
    weir_proxy_free(m->proxy);
    weir_comm_destroy(m->comm);
}

/* --------------------------------------------------------------------- rounds */

static unsigned char byte_of(int rank, size_t i)
{
    return (unsigned char)((size_t)rank * 89 + i * 3 + (i >> 8) + 1);
}

static weir_status fill(mesh *m)
{
    unsigned char part[PART_BYTES];
    for (size_t i = 0; i < PART_BYTES; i++)
        part[i] = byte_of(m->rank, i);
    return weir_mem_write(m->memory, (size_t)m->rank * PART_BYTES, part, PART_BYTES);
}

/* Says which part is wrong, if one is. */
static int is_right(mesh *m)
{
    unsigned char part[PART_BYTES];
    for (int r = 0; r < m->nranks; r++) {
        if (weir_mem_read(m->memory, (size_t)r * PART_BYTES, part, PART_BYTES) != WEIR_OK)
            return 0;
        for (size_t i = 0; i < PART_BYTES; i++)
            if (part[i] != byte_of(r, i)) {
                fprintf(stderr, "rank %d: byte %zu of rank %d's part is %#x, not %#x\n", m->rank, i,
                        r, part[i], byte_of(r, i));
                return 0;
            }
    }
    return 1;
}

/* What the kernel does, for all peers in turn. */
static weir_status exchange_on_host(mesh *m, int rounds)
{
    const uint64_t own = (uint64_t)m->rank * PART_BYTES;
    int status = WEIR_OK;
    for (int round = 0; round < rounds && !status; round++)
        for (int step = 0; step < 4; step++)
            for (int r = 0; r < m->nranks && !status; r++) {
                weir_portchan_dev *port = r == m->rank ? NULL : weir_portchan_device(m->chans[r]);
                if (port && step == 0)
                    status = weir_port_put_with_signal_and_flush(port, own, own, PART_BYTES);
                else if (port && step == 2)
                    status = weir_port_signal(port); /* its part has been taken */
                else if (port)
                    status = weir_port_wait(port);
            }
    return (weir_status)status;
}

static weir_status exchange_by_kernel(mesh *m, int rounds)
{
#if WEIR_HAVE_CUDA
    int *status = NULL;
    if (cudaSetDevice(weir_comm_device(m->comm)) != cudaSuccess ||
        cudaHostAlloc((void **)&status, sizeof *status, cudaHostAllocMapped) != cudaSuccess)
        return WEIR_ERR_SYSTEM;
    gpu_ports_load();
    gpu_ports_mesh_args args = {.rank = m->rank,
                                .nranks = m->nranks,
                                .part_bytes = PART_BYTES,
                                .rounds = rounds,
                                .status = status};
    for (int r = 0; r < m->nranks; r++)
        args.chans[r] = r == m->rank ? NULL : weir_portchan_device(m->chans[r]);
    *status = 0;
    gpu_ports_mesh(&args);
    weir_status ended =
        cudaDeviceSynchronize() == cudaSuccess ? (weir_status)*status : WEIR_ERR_SYSTEM;
    cudaFreeHost(status);
    return ended;
#else
    (void)m, (void)rounds;
    return WEIR_ERR_UNSUPPORTED;
#endif
}

static weir_status run(weir_boot *boot, const options *how, int *wrong)
{
    mesh m = {0};
    weir_status status = set_up(&m, boot, how);
    if (status == WEIR_OK)
        status = fill(&m);
    if (status == WEIR_OK)
        status = weir_comm_barrier(m.comm);
    if (status == WEIR_OK) {
        status = weir_comm_backend(m.comm) == WEIR_BACKEND_CUDA
                     ? exchange_by_kernel(&m, how->rounds)
                     : exchange_on_host(&m, how->rounds);
        if (status != WEIR_OK && weir_proxy_status(m.proxy) == WEIR_OK)
            fprintf(stderr, "rank %d: a wait ended with %s\n", m.rank, weir_status_name(status));
        if (status == WEIR_ERR_TIMEOUT || status == WEIR_ERR_PEER || status == WEIR_ERR_ABORTED) {
            weir_comm_abort(m.comm);
            weir_comm_report_once(m.comm, STDERR_FILENO);
        }
    }
    if (status == WEIR_OK)
        status = weir_comm_barrier(m.comm);
    *wrong = status == WEIR_OK && !is_right(&m);
    if (status == WEIR_OK)
        status = weir_proxy_stop(m.proxy);
    if (status != WEIR_OK)
        fprintf(stderr, "rank %d: %s\n", m.rank, weir_last_error());
    tear_down(&m);
    return status;
}

/* -------------------------------------------------------------------- program */

static int parse_name(const char *text, const char *(*name_of)(int), int most, int *value)
{
    for (*value = 0; *value <= most; ++*value)
        if (strcmp(text, name_of(*value)) == 0)
            return 1;
    return 0;
}

static const char *transport_name(int value)
{
    return weir_transport_name((weir_transport)value);
}

static const char *backend_name(int value)
{
    return weir_backend_name((weir_backend)value);
}

static int parse(int argc, char **argv, options *how)
{
    int value = 0;
    *how = (options){.rounds = 20, .backend = WEIR_BACKEND_HOST};
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--at") == 0 && i + 3 < argc) {
            how->at = argv[++i];
            how->rank = atoi(argv[++i]);
            how->nranks = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--transport") == 0 &&
                   parse_name(next, transport_name, WEIR_TRANSPORT_TCP, &value)) {
            how->transport = (weir_transport)value;
            i++;
        } else if (strcmp(argv[i], "--backend") == 0 &&
                   parse_name(next, backend_name, WEIR_BACKEND_AUTO, &value)) {
            how->backend = (weir_backend)value;
            i++;
        } else if (strcmp(argv[i], "--rounds") == 0 && atoi(next) > 0) {
            how->rounds = atoi(argv[++i]);
        } else {
            fprintf(stderr, "port_mesh: what is '%s'?\n", argv[i]);
            return 0;
        }
    }
    return 1;
}

static int start_mpi(void)
{
    const weiri_launcher_row *launcher = weiri_launcher_of_process();
    int provided = 0;
    if (launcher && weiri_mpi_open(launcher) == WEIR_OK)
        return MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) == MPI_SUCCESS;
    fprintf(stderr, "port_mesh: %s\n", launcher ? weir_last_error() : "start it with mpirun");
    return 0;
}

int main(int argc, char **argv)
{
    options how;
    weir_boot *boot = NULL;
    int wrong = 0;
    if (!parse(argc, argv, &how))
        return 2;
    if (!how.at && !start_mpi())
        return 3;
    weir_status status = how.at ? weir_boot_tcp_create_at(how.at, how.rank, how.nranks, &boot)
                                : weir_boot_mpi_create_from(&weiri_mpi, MPI_COMM_WORLD, &boot);
    if (status == WEIR_OK && weir_boot_nranks(boot) > RANKS_MAX) {
        fprintf(stderr, "port_mesh: at most %d ranks\n", RANKS_MAX);
        status = WEIR_ERR_INVALID;
    } else if (status == WEIR_OK) {
        status = run(boot, &how, &wrong);
    } else {
        fprintf(stderr, "%s\n", weir_last_error());
    }
    if (status == WEIR_OK && !wrong && weir_boot_rank(boot) == 0)
        printf("mesh of %d ranks: passed\n", weir_boot_nranks(boot));
    weir_boot_destroy(boot);
    if (!how.at)
        MPI_Finalize();
    return wrong ? 1 : weir_status_exit_code(status);
}
