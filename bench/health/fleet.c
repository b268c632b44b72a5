/*
 * The coordinator of a fleet: sends commands to the agents and collects their results. Its own
 * node's agent is a process that it forks at the start, before it has threads.
 */
#include "bench/health/fleet.h"

#include "base/error.h"
#include "bench/health/deviation.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLACK_MS = 5000 }; /* of an agent beyond the exchange's deadline; includes its own slack */

struct fleet_nodes {
    weir_boot *boot;
    fleet_options options;
    int count;
    fleet_facts *nodes;
    char *silent;
    int own, agent; /* the socket to, and the process of, the agent of this node */
    int rounds;
};

int fleet_count(const fleet_nodes *fleet)
{
    return fleet->count;
}

const fleet_facts *fleet_node(const fleet_nodes *fleet, int node)
{
    return &fleet->nodes[node];
}

int fleet_rounds(const fleet_nodes *fleet)
{
    return fleet->rounds;
}

double fleet_least_deviation(const fleet_nodes *fleet)
{
    int busy = 0;
    for (int node = 0; node < fleet->count; node++)
        busy |= fleet->nodes[node].busy;
    return busy ? DEVIATION_LEAST_BUSY : DEVIATION_LEAST;
}

int fleet_is_silent(const fleet_nodes *fleet, int node)
{
    return fleet->silent[node];
}

/* The agent of the coordinator's node. Ends with the coordinator. */
static void fleet_own_agent(int to)
{
    fleet_command command;
    fleet_result result;
    int child;
    while (read(to, &command, sizeof command) == (ssize_t)sizeof command && !command.is_end) {
        const int from = fleet_agent_start(&command, &child);
        fleet_agent_finish(from, child, command.timeout_ms, &result);
        if (write(to, &result, sizeof result) != (ssize_t)sizeof result)
            break;
    }
    _exit(0);
}

static weir_status fleet_start_own(fleet_nodes *fleet)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return weiri_fail(WEIR_ERR_SYSTEM, "cannot create a socket pair");
    fleet->agent = fork();
    if (fleet->agent == 0) {
        close(ends[0]);
        fleet_own_agent(ends[1]);
    }
    close(ends[1]);
    fleet->own = ends[0];
    return fleet->agent < 0 ? weiri_fail(WEIR_ERR_SYSTEM, "cannot fork") : WEIR_OK;
}

weir_status fleet_open(weir_boot *boot, const fleet_options *options, fleet_nodes **opened)
{
    fleet_nodes *made = calloc(1, sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a fleet");
    *made = (fleet_nodes){
        .boot = boot, .options = *options, .count = weir_boot_nranks(boot), .own = -1};
    made->nodes = calloc((size_t)made->count, sizeof *made->nodes);
    made->silent = calloc((size_t)made->count, 1);
    weir_status status = made->nodes && made->silent ? fleet_start_own(made) : WEIR_ERR_NO_MEMORY;
    if (status != WEIR_OK) {
        fleet_close(made);
        return status;
    }
    fleet_facts_read(&made->nodes[0]);
    weir_boot_set_timeout(boot, options->timeout_ms);
    for (int node = 1; node < made->count; node++)
        if (weir_boot_recv(boot, &made->nodes[node], sizeof made->nodes[node], node, 0) !=
            WEIR_OK) {
            made->silent[node] = 1;
            snprintf(made->nodes[node].host, sizeof made->nodes[node].host, "process %d", node);
        }
    *opened = made;
    return WEIR_OK;
}

static void fleet_send(fleet_nodes *fleet, int node, const fleet_command *command)
{
    if (node == 0)
        fleet->silent[0] |=
            send(fleet->own, command, sizeof *command, MSG_NOSIGNAL) != (ssize_t)sizeof *command;
    else if (weir_boot_send(fleet->boot, command, sizeof *command, node, 1) != WEIR_OK)
        fleet->silent[node] = 1;
}

void fleet_close(fleet_nodes *fleet)
{
    const fleet_command end = {.is_end = 1};
    if (!fleet)
        return;
    for (int node = 0; node < fleet->count && fleet->own >= 0; node++)
        if (fleet->silent && !fleet->silent[node])
            fleet_send(fleet, node, &end);
    if (fleet->own >= 0)
        close(fleet->own);
    if (fleet->agent > 0) {
        kill(fleet->agent, SIGTERM);
        while (waitpid(fleet->agent, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    free(fleet->nodes);
    free(fleet->silent);
    free(fleet);
}

/* ------------------------------------------------------------------ rounds */

/* Receives a node's result before the end of the round. */
static void fleet_receive(fleet_nodes *fleet, int node, double end_s, fleet_result *result)
{
    const double left_s = end_s - weiri_clock_s();
    const int left_ms = left_s > 1e-3 ? (int)(left_s * 1e3) : 1;
    fleet_result found;
    int is_here;
    if (node == 0) {
        const struct timeval limit = {left_ms / 1000, left_ms % 1000 * 1000};
        setsockopt(fleet->own, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        is_here = recv(fleet->own, &found, sizeof found, 0) == (ssize_t)sizeof found;
    } else {
        weir_boot_set_timeout(fleet->boot, left_ms);
        is_here = weir_boot_recv(fleet->boot, &found, sizeof found, node, 2) == WEIR_OK;
    }
    if (is_here) {
        *result = found;
        return;
    }
    *result = (fleet_result){.outcome = FLEET_SILENT, .wrong_from = -1};
    fleet->silent[node] = 1;
}

static void fleet_start_group(fleet_nodes *fleet, const fleet_group *group)
{
    fleet_command command = {.nmembers = group->count, .timeout_ms = fleet->options.timeout_ms};
    if (weir_unique_id_create(&command.id) != WEIR_OK) {
        fprintf(stderr, "weir-check: %s\n", weir_last_error());
        exit(3);
    }
    weir_boot_set_timeout(fleet->boot, fleet->options.timeout_ms);
    for (int i = 0; i < group->count; i++) {
        command.index = i;
        command.flips = group->nodes[i] == fleet->options.flips;
        fleet_send(fleet, group->nodes[i], &command);
    }
}

void fleet_round(fleet_nodes *fleet, const fleet_group *groups, int ngroups, fleet_result *results)
{
    char what[64];
    snprintf(what, sizeof what, "round %d", ++fleet->rounds);
    weiri_progress_show(fleet->options.progress, what, 0);
    for (int g = 0; g < ngroups; g++)
        fleet_start_group(fleet, &groups[g]);
    const double end_s = weiri_clock_s() + (fleet->options.timeout_ms + SLACK_MS) * 1e-3;
    for (int g = 0; g < ngroups; g++)
        for (int i = 0; i < groups[g].count; i++) {
            const int node = groups[g].nodes[i];
            fleet_receive(fleet, node, end_s, &results[node]);
        }
}
