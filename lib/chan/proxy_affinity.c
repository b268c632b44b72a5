/*
 * The processors that a proxy's thread runs on: the one that its configuration names, else those
 * near the GPU or near the NIC of an open network transport, within the affinity of the thread
 * that started the proxy.
 */
#define _GNU_SOURCE
#include "chan/port.h"

#include "base/fd.h"
#include "base/log.h"
#include "comm/gpu/gpu.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Adds a sysfs processor list ("0-3,8") to a set. Returns whether it named any. */
static int parse_cpus(const char *text, cpu_set_t *cpus)
{
    int any = 0;
    while (isdigit((unsigned char)*text)) {
        char *end;
        long first = strtol(text, &end, 10), last = first;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        for (long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++, any = 1)
            CPU_SET((size_t)cpu, cpus);
        text = *end == ',' ? end + 1 : end;
    }
    return any;
}

/* The processors near a device, given the device's sysfs folder. */
static int cpus_near(const char *folder, cpu_set_t *cpus)
{
    char path[320], text[1024] = "";
    snprintf(path, sizeof path, "%s/local_cpulist", folder);
    int file = weiri_fd_raise(open(path, O_RDONLY | O_CLOEXEC));
    if (file < 0)
        return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = '\0';
    return parse_cpus(text, cpus);
}

/* The processors near the GPU, else near the NIC of an open network transport. */
static int proxy_preferred_cpus(const weir_comm *comm, cpu_set_t *cpus)
{
    const weir_comm *node_comm = comm->host_comm ? comm->host_comm : comm;
    char folder[300] = "/sys/bus/pci/devices/";
    CPU_ZERO(cpus);
    if (comm->gpu) {
        const char *bus = node_comm->peers[node_comm->rank].page->gpu.bus;
        size_t at = strlen(folder);
        for (; *bus && at < sizeof folder - 1; bus++)
            folder[at++] = (char)tolower((unsigned char)*bus);
        folder[at] = '\0';
        return cpus_near(folder, cpus);
    }
    for (int network = 0; network < WEIRI_NETWORKS; network++) {
        const weiri_net *net = weiri_comm_open_net(comm, network);
        if (!net || !net->nic_path || !*net->nic_path)
            continue;
        snprintf(folder, sizeof folder, "/sys%s", net->nic_path);
        if (cpus_near(folder, cpus))
            return 1;
    }
    return 0;
}

/* If the caller is bound to a single core, the proxy is also allowed other cores, so that the two
 * need not share it. */
void weiri_proxy_bind(const weir_comm *comm, int cpu)
{
    cpu_set_t mine, near, both;
    if (cpu >= 0) {
        CPU_ZERO(&mine);
        CPU_SET((size_t)cpu, &mine);
        if (sched_setaffinity(0, sizeof mine, &mine) < 0)
            weiri_log(WEIRI_LOG_WARN, "the proxy cannot run on processor %d: %s", cpu,
                      strerror(errno));
        return;
    }
    if (sched_getaffinity(0, sizeof mine, &mine) < 0)
        return;
    int known = proxy_preferred_cpus(comm, &near);
    CPU_AND(&both, &mine, &near);
    if (known && CPU_COUNT(&both) > 1) {
        mine = both;
    } else if (CPU_COUNT(&mine) == 1) {
        memset(&mine, known ? 0 : 0xff, sizeof mine);
        CPU_OR(&mine, &mine, &near);
    }
    if (sched_setaffinity(0, sizeof mine, &mine) < 0)
        weiri_log(WEIRI_LOG_DEBUG, "the proxy stays where its creator runs: %s", strerror(errno));
}
