/*
 * What a member of a group does: it exchanges messages with all others by an alltoall, few bytes
 * for latency, many for bandwidth, and checks every byte that it receives.
 */
#include "bench/health/fleet.h"

#include <stdlib.h>
#include <string.h>

enum {
    SMALL_BYTES = 64,      /* per peer */
    LARGE_BYTES = 1 << 20, /* per peer */
    SMALL_REPEATS = 40,
    LARGE_REPEATS = 6,
    LONG_MS = 300 /* large exchanges are not repeated beyond this time */
};

typedef struct exchange {
    weir_comm *comm;
    const fleet_command *command;
    fleet_result *result;
    char *send, *recv;
} exchange;

/* The byte that `from` sends to `to` at a position in a repetition. */
static unsigned char exchange_byte(int from, int to, size_t at, int repeat)
{
    return (unsigned char)(from * 31 + to * 17 + repeat * 7 + (int)(at % 251));
}

static void exchange_fill(const exchange *of, size_t bytes, int repeat)
{
    for (int to = 0; to < of->command->nmembers; to++)
        for (size_t at = 0; at < bytes; at++)
            of->send[(size_t)to * bytes + at] =
                (char)exchange_byte(of->command->index, to, at, repeat);
    if (of->command->flips)
        for (int to = 0; to < of->command->nmembers; to++)
            of->send[(size_t)to * bytes + bytes / 2] ^= 4;
}

/* Counts wrong bytes from other members, and remembers from whom. */
static void exchange_verify(const exchange *of, size_t bytes, int repeat)
{
    for (int from = 0; from < of->command->nmembers; from++)
        for (size_t at = 0; from != of->command->index && at < bytes; at++)
            if ((unsigned char)of->recv[(size_t)from * bytes + at] !=
                exchange_byte(from, of->command->index, at, repeat)) {
                of->result->outcome = FLEET_WRONG;
                of->result->wrong_from = from;
                of->result->wrong_bytes++;
            }
}

/* One exchange; *seconds is its time. */
static weir_status exchange_once(const exchange *of, size_t bytes, int repeat, double *seconds)
{
    exchange_fill(of, bytes, repeat);
    memset(of->recv, 0xff, bytes * (size_t)of->command->nmembers);
    weir_status status = weir_comm_barrier(of->comm);
    const double began = weiri_clock_s();
    if (status == WEIR_OK)
        status = weir_alltoall(of->comm, of->send, of->recv, bytes, WEIR_UINT8, NULL);
    *seconds = weiri_clock_s() - began;
    if (status == WEIR_OK)
        exchange_verify(of, bytes, repeat);
    return status;
}

/* Repeats exchanges and stores the fastest time. The slowest member's time is the time of an
 * exchange, because the last member to leave the barrier may find its data there already. All
 * members repeat equally often, until LONG_MS have been spent. */
static weir_status exchange_best(const exchange *of, size_t bytes, int repeats, double *best_s)
{
    weir_status status = WEIR_OK;
    double spent_s = 0;
    *best_s = 0;
    for (int i = 0; i < repeats && status == WEIR_OK && spent_s * 1e3 < LONG_MS; i++) {
        double seconds;
        status = exchange_once(of, bytes, i, &seconds);
        if (status == WEIR_OK)
            status = weir_allreduce(of->comm, &seconds, &seconds, 1, WEIR_DOUBLE, WEIR_MAX, NULL);
        *best_s = i == 0 || seconds < *best_s ? seconds : *best_s;
        spent_s += seconds;
    }
    return status;
}

static weir_status exchange_run(const exchange *of)
{
    double seconds;
    const int npeers = of->command->nmembers - 1;
    weir_status status = exchange_best(of, SMALL_BYTES, SMALL_REPEATS, &seconds);
    of->result->latency_us = seconds * 1e6 / npeers;
    if (status == WEIR_OK)
        status = exchange_best(of, LARGE_BYTES, LARGE_REPEATS, &seconds);
    of->result->gbs = seconds > 0 ? (double)LARGE_BYTES * npeers / seconds / 1e9 : 0;
    return status;
}

static weir_status exchange_open(exchange *of, weir_boot **boot)
{
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    const size_t bytes = (size_t)LARGE_BYTES * (size_t)of->command->nmembers;
    config.timeout_ms = of->command->timeout_ms;
    config.backend = WEIR_BACKEND_HOST;
    of->send = malloc(bytes);
    of->recv = malloc(bytes);
    if (!of->send || !of->recv)
        return WEIR_ERR_NO_MEMORY;
    weir_status status =
        weir_boot_tcp_create(&of->command->id, of->command->index, of->command->nmembers, boot);
    return status == WEIR_OK ? weir_comm_create(*boot, &config, &of->comm) : status;
}

void fleet_measure(const fleet_command *command, fleet_result *result)
{
    exchange of = {.command = command, .result = result};
    weir_boot *boot = NULL;
    char timeout[16];
    *result = (fleet_result){.wrong_from = -1};
    snprintf(timeout, sizeof timeout, "%d", command->timeout_ms);
    setenv("WEIR_TIMEOUT_MS", timeout, 1); /* the bootstrap reads it */
    weir_status status = exchange_open(&of, &boot);
    if (status == WEIR_OK)
        status = exchange_run(&of);
    if (status != WEIR_OK && result->outcome == FLEET_RIGHT) {
        result->outcome = FLEET_FAILED;
        snprintf(result->text, sizeof result->text, "%s", weir_last_error());
    }
    weir_comm_destroy(of.comm);
    weir_boot_destroy(boot);
    free(of.send);
    free(of.recv);
}
