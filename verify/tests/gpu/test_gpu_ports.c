/*
 * Proves that kernels can use port channels between two GPUs, through the copy engine: puts of
 * every length with signals and flushes, signals alone, more producers than the FIFO has slots, a
 * wait that ends at its deadline, and a put that must be rejected. Needs two GPUs; the parent
 * process never touches CUDA, because its children do.
 */
#include "verify/tests/support/gpu_port_rig.h"

enum { MARGIN = 64, CANARY = 0xA5 };

static unsigned char mirror[RIG_HALF];

static void fill(port_rig *r, size_t bytes, int round)
{
    boot_fill(mirror, bytes, r->rank, round);
    cudaMemcpy(r->memory, mirror, bytes, cudaMemcpyHostToDevice);
    cudaMemset(r->memory + RIG_HALF, CANARY, bytes + 2 * MARGIN);
    cudaDeviceSynchronize();
    weir_comm_barrier(r->comm);
}

/* Whether the peer's bytes are at MARGIN of the second half, and canaries around them. */
static int arrived(port_rig *r, size_t bytes, int round)
{
    if (!rig_ended(r))
        return 0;
    cudaMemcpy(mirror, r->memory + RIG_HALF, bytes + 2 * MARGIN, cudaMemcpyDeviceToHost);
    for (size_t i = 0; i < MARGIN; i++)
        if (mirror[i] != CANARY || mirror[MARGIN + bytes + i] != CANARY)
            return 0;
    return boot_filled(mirror + MARGIN, bytes, 1 - r->rank, round);
}

static int transfers(weir_boot *boot, void *argument)
{
    static const size_t lengths[] = {0, 1, 7, 8, 120, 4096, 30001, 500000, RIG_HALF - 128};
    port_rig r;
    int failures = 0;
    (void)argument;
    if (rig_open(&r, boot, 5000, NULL))
        return 1;
    for (int round = 0; round < 20 && !failures; round++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths && !failures; i++) {
            fill(&r, lengths[i], round);
            gpu_ports_put_and_wait(r.port, RIG_HALF + MARGIN, 0, lengths[i], round % 2, r.status);
            EXPECT(&failures, arrived(&r, lengths[i], round));
        }
    return rig_close(&r, failures);
}

/* 4 x 256 threads share 8 slots; all their signals arrive, after all their data. */
static int overflow(weir_boot *boot, void *argument)
{
    enum { BLOCKS = 4, THREADS = 256, BYTES = 8 * BLOCKS * THREADS };
    weir_proxy_config few = WEIR_PROXY_CONFIG_INIT;
    few.fifo_slots = 8;
    port_rig r;
    int failures = 0;
    (void)argument;
    if (rig_open(&r, boot, 5000, &few))
        return 1;
    for (int round = 0; round < 10 && !failures; round++) {
        fill(&r, BYTES, round);
        gpu_ports_flood(r.port, RIG_HALF + MARGIN, 0, BLOCKS, THREADS, r.status);
        EXPECT(&failures, arrived(&r, BYTES, round));
    }
    return rig_close(&r, failures);
}

static weir_status count(void *argument, const weir_trigger *trigger)
{
    *(uint64_t *)argument += trigger->op == WEIR_TRIGGER_CUSTOM;
    return WEIR_OK;
}

/* Custom triggers, and a ping-pong of signals alone, which are plain stores. */
static int triggers(weir_boot *boot, void *argument)
{
    uint64_t seen = 0;
    weir_proxy_config config = WEIR_PROXY_CONFIG_INIT;
    config.handler = count;
    config.argument = &seen;
    port_rig r;
    int failures = 0;
    (void)argument;
    if (rig_open(&r, boot, 5000, &config))
        return 1;
    const gpu_ports_timing timing = {100, 10, r.ns, r.status};
    gpu_ports_triggers(weir_proxy_fifo(r.proxy), 1, 0, &timing);
    EXPECT(&failures, rig_ended(&r) && seen == 1000);
    weir_comm_barrier(r.comm);
    gpu_ports_ping_pong(r.port, r.rank == 0, 0, 0, -1, &timing);
    EXPECT(&failures, rig_ended(&r));
    usleep(200000); /* the proxy sleeps by then */
    weir_comm_barrier(r.comm);
    gpu_ports_ping_pong(r.port, r.rank == 0, RIG_HALF, 0, 64, &timing);
    EXPECT(&failures, rig_ended(&r));
    return rig_close(&r, failures);
}

/* Rank 1 does not take part: rank 0's kernel ends at its deadline. */
static int absent_peer(weir_boot *boot, void *argument)
{
    port_rig r;
    int failures = 0;
    (void)argument;
    if (rig_open(&r, boot, 500, NULL))
        return 1;
    if (r.rank == 0) {
        gpu_ports_put_and_wait(r.port, RIG_HALF, 0, 64, 1, r.status);
        EXPECT(&failures, cudaDeviceSynchronize() == cudaSuccess);
        EXPECT(&failures, *r.status == WEIR_ERR_TIMEOUT);
    } else {
        usleep(800000);
    }
    return rig_close(&r, failures);
}

/* A kernel's put beyond the registered memory: the proxy rejects it, and both kernels end. */
static int beyond_memory(weir_boot *boot, void *argument)
{
    port_rig r;
    int failures = 0;
    (void)argument;
    if (rig_open(&r, boot, 5000, NULL))
        return 1;
    gpu_ports_put_and_wait(r.port, r.rank ? 0 : 2 * RIG_HALF - 8, 0, 64, r.rank == 0, r.status);
    EXPECT(&failures, cudaDeviceSynchronize() == cudaSuccess);
    EXPECT(&failures, *r.status == WEIR_ERR_ABORTED);
    if (r.rank == 0) {
        EXPECT(&failures, weir_proxy_status(r.proxy) == WEIR_ERR_INVALID);
        EXPECT(&failures, boot_last_error_has("exceeds the memory"));
    }
    rig_close(&r, 1); /* of an aborted communicator */
    return failures;
}

static int (*bodies[])(weir_boot *boot, void *argument) = {transfers, overflow, triggers,
                                                           absent_peer, beyond_memory};

static void run_body(void **state)
{
    need_gpus(2);
    run_ranks(2, *(int (**)(weir_boot *, void *)) * state, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AT("puts through the copy engine", run_body, &bodies[0]),
        AT("more producers than slots", run_body, &bodies[1]),
        AT("triggers and signals alone, also while the proxy sleeps", run_body, &bodies[2]),
        AT("a wait for an absent peer ends at its deadline", run_body, &bodies[3]),
        AT("a put beyond the memory is rejected", run_body, &bodies[4]),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("tests", tests, NULL, NULL);
}
