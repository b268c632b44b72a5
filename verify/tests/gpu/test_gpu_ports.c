/*
 * Proves that kernels can use port channels between two GPUs, through the copy engine: puts of
 * every length with signals and flushes, signals alone, more producers than the FIFO has slots, a
 * wait that ends at its deadline, and a put that must be rejected. Needs two GPUs; the parent
 * process never touches CUDA, because its children do.
 */
#include "verify/tests/support/gpu_port_pair.h"

enum { MARGIN = 64, CANARY = 0xA5 };

static unsigned char mirror[GPU_PORT_HALF];

static void fill(gpu_port_end *r, size_t bytes, int round)
{
    boot_fill(mirror, bytes, r->rank, round);
    cudaMemcpy(r->memory, mirror, bytes, cudaMemcpyHostToDevice);
    cudaMemset(r->memory + GPU_PORT_HALF, CANARY, bytes + 2 * MARGIN);
    cudaDeviceSynchronize();
    weir_comm_barrier(r->comm);
}

/* Whether the peer's bytes are at MARGIN of the second half, and canaries around them. */
static int arrived(gpu_port_end *r, size_t bytes, int round)
{
    if (!gpu_port_ended(r))
        return 0;
    cudaMemcpy(mirror, r->memory + GPU_PORT_HALF, bytes + 2 * MARGIN, cudaMemcpyDeviceToHost);
    for (size_t i = 0; i < MARGIN; i++)
        if (mirror[i] != CANARY || mirror[MARGIN + bytes + i] != CANARY)
            return 0;
    return boot_filled(mirror + MARGIN, bytes, 1 - r->rank, round);
}

static void transfers(gpu_port_end *r, int *failures)
{
    static const size_t lengths[] = {0, 1, 7, 8, 120, 4096, 30001, 500000, GPU_PORT_HALF - 128};
    for (int round = 0; round < 20 && !*failures; round++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths && !*failures; i++) {
            fill(r, lengths[i], round);
            gpu_ports_put_and_wait(r->port, GPU_PORT_HALF + MARGIN, 0, lengths[i], round % 2,
                                   r->status);
            EXPECT(failures, arrived(r, lengths[i], round));
        }
}

/* 4 x 256 threads share 8 slots; all their signals arrive, after all their data. */
static void overflow(gpu_port_end *r, int *failures)
{
    enum { BLOCKS = 4, THREADS = 256, BYTES = 8 * BLOCKS * THREADS };
    for (int round = 0; round < 10 && !*failures; round++) {
        fill(r, BYTES, round);
        gpu_ports_flood(r->port, GPU_PORT_HALF + MARGIN, 0, BLOCKS, THREADS, r->status);
        EXPECT(failures, arrived(r, BYTES, round));
    }
}

static uint64_t triggers_seen;

static weir_status count_trigger(void *argument, const weir_trigger *trigger)
{
    *(uint64_t *)argument += trigger->op == WEIR_TRIGGER_CUSTOM;
    return WEIR_OK;
}

/* Custom triggers, and a ping-pong of signals alone, which are stores. */
static void triggers(gpu_port_end *r, int *failures)
{
    const gpu_ports_timing timing = {100, 10, r->ns, r->status};
    gpu_ports_triggers(weir_proxy_fifo(r->proxy), 1, 0, &timing);
    EXPECT(failures, gpu_port_ended(r) && triggers_seen == 1000);
    weir_comm_barrier(r->comm);
    gpu_ports_ping_pong(r->port, r->rank == 0, 0, 0, -1, &timing);
    EXPECT(failures, gpu_port_ended(r));
    usleep(200000); /* the proxy sleeps by then */
    weir_comm_barrier(r->comm);
    gpu_ports_ping_pong(r->port, r->rank == 0, GPU_PORT_HALF, 0, 64, &timing);
    EXPECT(failures, gpu_port_ended(r));
}

/* The first calls of collectives, of several lengths and types, next to a kernel that waits for its
 * proxy all the time. They would not end if one of their kernels had to be loaded first. */
static void first_calls(gpu_port_end *r, int *failures)
{
    enum { BATCHES = 64, WARM_UP_US = 20000 };
    const int rounds =
        sharing_ranks() > 0 ? 4 : 500; /* ranks that share a GPU take turns of 2 ms */
    static const size_t counts[] = {2, 4096, 1 << 18};
    static const weir_dtype dtypes[] = {WEIR_FLOAT, WEIR_BFLOAT16, WEIR_INT32};
    const gpu_ports_timing timing = {rounds, BATCHES, r->ns, r->status};
    char *out = r->memory + GPU_PORT_HALF + GPU_PORT_HALF / 2;
    cudaStream_t stream;
    cudaEvent_t ended;
    EXPECT(failures, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess &&
                         cudaEventCreateWithFlags(&ended, cudaEventDisableTiming) == cudaSuccess);
    cudaMemset(r->memory, 0, GPU_PORT_HALF);
    cudaDeviceSynchronize();
    weir_comm_barrier(r->comm);
    gpu_ports_ping_pong(r->port, r->rank == 0, GPU_PORT_HALF, 0, 64, &timing);
    usleep(WARM_UP_US);
    for (int i = 0; i < 3; i++) {
        const size_t count = counts[i];
        const weir_dtype dtype = dtypes[i];
        EXPECT(failures, weir_allreduce(r->comm, r->memory, out, count, dtype, WEIR_SUM,
                                        (weir_stream)stream) == WEIR_OK);
        EXPECT(failures, weir_allgather(r->comm, r->memory, out, count / 2, dtype,
                                        (weir_stream)stream) == WEIR_OK);
        EXPECT(failures, weir_reduce_scatter(r->comm, r->memory, out, count / 2, dtype, WEIR_MAX,
                                             (weir_stream)stream) == WEIR_OK);
        EXPECT(failures, weir_alltoall(r->comm, r->memory, out, count / 2, dtype,
                                       (weir_stream)stream) == WEIR_OK);
        EXPECT(failures, weir_broadcast(r->comm, r->memory, out, count, dtype, 0,
                                        (weir_stream)stream) == WEIR_OK);
    }
    EXPECT(failures, cudaEventRecord(ended, stream) == cudaSuccess);
    EXPECT(failures,
           cudaStreamQuery(cudaStreamLegacy) == cudaErrorNotReady); /* the kernel still runs */
    EXPECT(failures, cudaEventSynchronize(ended) == cudaSuccess);
    EXPECT(failures, gpu_port_ended(r) && weir_comm_check(r->comm) == WEIR_OK);
    cudaEventDestroy(ended);
    cudaStreamDestroy(stream);
}

/* Rank 1 does not take part: rank 0's kernel ends at its deadline. */
static void absent_peer(gpu_port_end *r, int *failures)
{
    if (r->rank == 0) {
        gpu_ports_put_and_wait(r->port, GPU_PORT_HALF, 0, 64, 1, r->status);
        EXPECT(failures, cudaDeviceSynchronize() == cudaSuccess);
        EXPECT(failures, *r->status == WEIR_ERR_TIMEOUT);
    } else {
        usleep(800000);
    }
}

/* A kernel's put beyond the registered memory: the proxy rejects it, and both kernels end. */
static void beyond_memory(gpu_port_end *r, int *failures)
{
    gpu_ports_put_and_wait(r->port, r->rank ? 0 : 2 * GPU_PORT_HALF - 8, 0, 64, r->rank == 0,
                           r->status);
    EXPECT(failures, cudaDeviceSynchronize() == cudaSuccess);
    EXPECT(failures, *r->status == WEIR_ERR_ABORTED);
    if (r->rank == 0) {
        EXPECT(failures, weir_proxy_status(r->proxy) == WEIR_ERR_INVALID);
        EXPECT(failures, boot_last_error_has("exceeds the memory"));
    }
}

/* A check, and what its communicator and proxy differ in from the defaults. */
typedef struct port_case {
    void (*check)(gpu_port_end *r, int *failures);
    int timeout_ms;
    unsigned fifo_slots; /* 0: default */
    weir_trigger_handler handler;
    int aborts; /* the check aborts the communicator, so the proxy has failed */
} port_case;

static int run_port_case(weir_boot *boot, void *argument)
{
    const port_case *c = argument;
    weir_proxy_config config = WEIR_PROXY_CONFIG_INIT;
    gpu_port_end r;
    int failures = 0;
    if (c->fifo_slots)
        config.fifo_slots = c->fifo_slots;
    config.handler = c->handler;
    config.argument = &triggers_seen;
    if (gpu_port_open(&r, boot, c->timeout_ms, &config))
        return 1;
    c->check(&r, &failures);
    if (!c->aborts)
        return gpu_port_close(&r, failures);
    gpu_port_close(&r, 1);
    return failures;
}

#define PORT_TEST(name, ...)                                                                       \
    TWO_GPUS_TEST(name, run_port_case, (&(port_case){.check = __VA_ARGS__}))

int main(void)
{
    const struct CMUnitTest tests[] = {
        PORT_TEST("puts through the copy engine", transfers, 5000),
        PORT_TEST("more producers than slots", overflow, 5000, 8),
        PORT_TEST("triggers and signals alone, also while the proxy sleeps", triggers, 5000, 0,
                  count_trigger),
        PORT_TEST("first calls of collectives next to a kernel that waits for its proxy",
                  first_calls, 5000),
        PORT_TEST("a wait for an absent peer ends at its deadline", absent_peer, 500),
        PORT_TEST("a put beyond the memory is rejected", beyond_memory, 5000, .aborts = 1),
    };
    return RUN_TESTS("ports on GPUs", tests);
}
