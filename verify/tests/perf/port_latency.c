/*
 * Prints the latency of port channels between two GPUs of this node. Run by hand:
 *
 *   a trigger     a kernel pushes one, the proxy executes it, the kernel sees that; also many in a
 *                 row
 *   a signal      round trip, by stores of the two proxies
 *   put+signal    round trip, by the copy engine
 *
 * Prints the median of batches and the fastest batch, in microseconds per round. Ends within 10
 * seconds, with 1 if there are no numbers. The first process never touches CUDA.
 */
#include "verify/tests/support/gpu_port_pair.h"

enum { BATCHES = 60, ROUNDS = 100, WHOLE_MS = 9000, WAIT_MS = 1500 };

static weir_status answer(void *argument, const weir_trigger *trigger)
{
    (void)argument, (void)trigger;
    return WEIR_OK;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* One line of the table, from rank 0's times: 0, or 1 if there are none. */
static int print_batches(const gpu_port_end *r, const char *what, double goal_us)
{
    int ended = gpu_port_ended(r);
    if (!ended)
        fprintf(stderr, "rank %d: %s: %s\n", r->rank, what,
                *r->status ? weir_status_name((weir_status)*r->status) : "a CUDA error");
    if (!ended || r->rank)
        return !ended;
    qsort(r->ns, BATCHES, sizeof *r->ns, by_size);
    printf("%-44s %8.2f %8.2f", what, (double)r->ns[BATCHES / 2] / 1e3 / ROUNDS,
           (double)r->ns[0] / 1e3 / ROUNDS);
    if (goal_us > 0)
        printf("   <= %.1f", goal_us);
    printf("\n");
    fflush(stdout);
    return 0;
}

static int measure(weir_boot *boot, void *argument)
{
    static const struct {
        int ordered, in_a_row;
        const char *what;
        double goal_us;
    } triggers[] = {{0, 0, "trigger and answer", 2.0},
                    {1, 0, "trigger and answer, after data", 0},
                    {0, 1, "triggers in a row, each", 2.0}};
    static const struct {
        long long bytes;
        const char *what;
        double goal_us;
    } pongs[] = {{-1, "signal there and back", 0},
                 {8, "put+signal there and back, 8 B", 14.0},
                 {4096, "put+signal there and back, 4 KiB", 0},
                 {65536, "put+signal there and back, 64 KiB", 0},
                 {1 << 20, "put+signal there and back, 1 MiB", 0}};
    weir_proxy_config config = WEIR_PROXY_CONFIG_INIT;
    config.handler = answer;
    gpu_port_end r;
    int failures = 0;
    (void)argument;
    if (gpu_port_open(&r, boot, WAIT_MS, &config))
        return 1;
    const gpu_ports_timing timing = {ROUNDS, BATCHES, r.ns, r.status};
    for (size_t i = 0; i < sizeof triggers / sizeof *triggers && !failures; i++) {
        if (r.rank == 0)
            gpu_ports_triggers(weir_proxy_fifo(r.proxy), triggers[i].ordered, triggers[i].in_a_row,
                               &timing);
        failures += print_batches(&r, triggers[i].what, triggers[i].goal_us);
        weir_comm_barrier(r.comm);
    }
    for (size_t i = 0; i < sizeof pongs / sizeof *pongs && !failures; i++) {
        failures += weir_comm_barrier(r.comm) != WEIR_OK;
        gpu_ports_ping_pong(r.port, r.rank == 0, GPU_PORT_HALF, 0, pongs[i].bytes, &timing);
        failures += print_batches(&r, pongs[i].what, pongs[i].goal_us);
    }
    if (weir_proxy_status(r.proxy) != WEIR_OK)
        fprintf(stderr, "%s\n", weir_last_error());
    if (failures)
        weir_comm_abort(r.comm);
    return gpu_port_close(&r, failures);
}

int main(void)
{
    int codes[2] = {1, 1};
    if (count_gpus() < 2) {
        fprintf(stderr, "port_latency needs 2 GPUs\n");
        return 1;
    }
    printf("# %-42s %8s %8s   goal\n", "us a round, 2 GPUs of one node", "median", "least");
    fflush(stdout);
    if (weir_boot_fork_run(2, measure, NULL, WHOLE_MS, codes) != WEIR_OK)
        fprintf(stderr, "%s\n", weir_last_error());
    return codes[0] || codes[1];
}
