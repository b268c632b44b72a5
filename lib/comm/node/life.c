/* Whether a process of the node has ended. */
#define _GNU_SOURCE
#include "comm/comm.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>

int weiri_comm_is_dead(const weir_comm *comm, int peer)
{
    const weiri_peer *process = &comm->peers[peer];
    if (peer == comm->rank)
        return 0;
    if (process->pidfd < 0)
        return kill(process->pid, 0) < 0 && errno == ESRCH;
    struct pollfd ended = {.fd = process->pidfd, .events = POLLIN};
    return poll(&ended, 1, 0) > 0;
}
