/* The agent of a node: takes commands, forks a child for each exchange, returns its result. */
#define _GNU_SOURCE /* pipe2 */
#include "bench/health/fleet.h"

#include "bench/health/busy.h"
#include "bench/health/checks.h"
#include "topo/topo.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLACK_MS = 2000 }; /* beyond the deadline of the exchange, for its end and its report */

void fleet_facts_read(fleet_facts *facts)
{
    weiri_topo *topo;
    weiri_topo_counts counts;
    memset(facts, 0, sizeof *facts);
    if (gethostname(facts->host, sizeof facts->host - 1) != 0)
        snprintf(facts->host, sizeof facts->host, "?");
    health_report looked = {0};
    health_busy_look(&looked);
    facts->busy = looked.busy;
    health_describe_versions(facts->version, sizeof facts->version);
    if (weiri_topo_discover(&topo) != WEIR_OK)
        return;
    weiri_topo_count(topo, &counts);
    facts->cores = counts.usable_cores;
    facts->gpus = counts.gpus;
    facts->nics = counts.nics;
    weiri_topo_summary(topo, facts->hardware, sizeof facts->hardware);
    weiri_topo_destroy(topo);
}

int fleet_agent_start(const fleet_command *command, int *child)
{
    int ends[2];
    *child = -1;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    *child = fork();
    if (*child == 0) {
        fleet_result result;
        close(ends[0]);
        fleet_measure(command, &result);
        const ssize_t written = write(ends[1], &result, sizeof result);
        _exit(written == (ssize_t)sizeof result ? 0 : 3);
    }
    close(ends[1]);
    if (*child < 0) {
        close(ends[0]);
        return -1;
    }
    return ends[0];
}

void fleet_agent_finish(int from, int child, int timeout_ms, fleet_result *result)
{
    const double end_s = weiri_clock_s() + (timeout_ms + SLACK_MS) * 1e-3;
    ssize_t bytes = 0;
    int ready = 0;
    *result = (fleet_result){.outcome = FLEET_FAILED, .wrong_from = -1};
    if (from < 0) {
        snprintf(result->text, sizeof result->text, "cannot start a process: %s", strerror(errno));
        return;
    }
    for (double left_s; !ready && (left_s = end_s - weiri_clock_s()) > 0;) {
        struct pollfd input = {.fd = from, .events = POLLIN};
        ready = poll(&input, 1, (int)(left_s * 1e3) + 1) > 0;
    }
    fleet_result found;
    if (ready)
        bytes = read(from, &found, sizeof found); /* less than PIPE_BUF: all or nothing */
    if (bytes == (ssize_t)sizeof found)
        *result = found;
    else
        snprintf(result->text, sizeof result->text, "%s",
                 ready ? "the exchange's process ended without a result"
                       : "the exchange did not end before its deadline");
    kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    close(from);
}

/* Waits for the next command. A coordinator may be busy with other nodes for long. */
static weir_status agent_receive(weir_boot *boot, fleet_command *command)
{
    enum { HOUR_MS = 3600000 };
    const weir_status status = weir_boot_set_timeout(boot, HOUR_MS);
    return status == WEIR_OK ? weir_boot_recv(boot, command, sizeof *command, 0, 1) : status;
}

int fleet_agent_serve(weir_boot *boot)
{
    fleet_facts facts;
    fleet_facts_read(&facts);
    weir_status status = weir_boot_send(boot, &facts, sizeof facts, 0, 0);
    for (;;) {
        fleet_command command;
        fleet_result result;
        int child;
        if (status == WEIR_OK)
            status = agent_receive(boot, &command);
        if (status != WEIR_OK)
            return -1;
        if (command.is_end)
            return 0;
        const int from = fleet_agent_start(&command, &child);
        fleet_agent_finish(from, child, command.timeout_ms, &result);
        status = weir_boot_send(boot, &result, sizeof result, 0, 2);
    }
}
