/*
 * How a proxy's thread waits for work. It polls for a while after it last had some.
 * Then it says that it is asleep, looks once more, and sleeps: until a host thread that
 * has pushed a trigger sees that and writes to its eventfd, or until a network has
 * something. Kernels can wake nobody, so on GPUs it naps instead, the longer the longer
 * nothing has come.
 */
#define _GNU_SOURCE
#include "chan/port.h"

#include "base/log.h"
#include "comm/gpu/gpu.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HOT_NS = 50000,       /* polls so long where others may want its core */
    HOT_GPU_NS = 1000000, /* and so long where kernels wait */
    LEAST_NAP_NS = 20000,
    MOST_NAP_NS = 10000000,
    BLIND_NAP_NS = 1000000, /* beside a network that has no descriptor */
    SLEEP_NS = 200000000,   /* where whoever comes wakes it: a look at the abort word */
};

/* Whatever wakes it besides its eventfd. 0: there is something to do already. */
static int arm_nets(weir_proxy *proxy, struct pollfd *files, nfds_t *count, uint64_t *nap_ns)
{
    for (int network = 0; network < WEIRI_NETWORKS; network++) {
        weiri_net *net = weiri_comm_open_net(proxy->comm, network);
        int descriptor = -1, armed = 1;
        if (!net)
            continue;
        weiri_net_lock(net);
        armed = net->ops->arm(net, &descriptor);
        weiri_net_unlock(net);
        if (!armed)
            return 0;
        if (descriptor >= 0)
            files[(*count)++] = (struct pollfd){.fd = descriptor, .events = POLLIN};
        else if (*nap_ns > BLIND_NAP_NS)
            *nap_ns = BLIND_NAP_NS;
    }
    return 1;
}

static void drain(int wake)
{
    uint64_t count;
    while (read(wake, &count, sizeof count) > 0)
        ;
}

static void sleep_for(weir_proxy *proxy, uint64_t nap_ns)
{
    struct pollfd files[1 + WEIRI_NETWORKS] = {{.fd = proxy->wake, .events = POLLIN}};
    nfds_t count = 1;
    weir_trigger trigger;
    weir_store_relaxed(&proxy->asleep, 1);
    weir_fence_system(); /* whoever pushes from here on sees it, or is seen below */
    if (!weiri_fifo_peek(&proxy->fifo.end, &trigger) && !weir_load_acquire(&proxy->stop_ns) &&
        arm_nets(proxy, files, &count, &nap_ns)) {
        const struct timespec nap = {.tv_sec = (time_t)(nap_ns / 1000000000u),
                                     .tv_nsec = (long)(nap_ns % 1000000000u)};
        if (ppoll(files, count, &nap, NULL) > 0 && files[0].revents)
            drain(proxy->wake);
    }
    weir_store_relaxed(&proxy->asleep, 0);
}

void weiri_proxy_rest_after(weir_proxy *proxy, weiri_proxy_rest *rest, int moved)
{
    const weir_comm *comm = proxy->comm;
    uint64_t now_ns = weir_clock_ns();
    if (moved || !rest->moved_ns) {
        rest->moved_ns = now_ns;
        return;
    }
    uint64_t idle_ns = now_ns - rest->moved_ns, nap_ns = SLEEP_NS;
    if (proxy->polls || idle_ns < (proxy->naps ? HOT_GPU_NS : HOT_NS)) {
        if (comm->oversubscribed)
            sched_yield();
        else
            weir_pause();
        return;
    }
    if (proxy->naps) {
        nap_ns = idle_ns / 16;
        nap_ns = nap_ns < LEAST_NAP_NS ? LEAST_NAP_NS : nap_ns > MOST_NAP_NS ? MOST_NAP_NS : nap_ns;
    }
    if (weir_load_relaxed(&proxy->woken)) {
        weir_store_relaxed(&proxy->woken, 0);
        rest->moved_ns = now_ns;
        return;
    }
    sleep_for(proxy, nap_ns);
}

/* ------------------------------------------------------------------- binding */

/* Adds a list as sysfs writes it, "0-3,8", to a set: whether there was anything. */
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

/* The processors that are near a device, of which this is the folder in sysfs. */
static int cpus_near(const char *folder, cpu_set_t *cpus)
{
    char path[320], text[1024] = "";
    snprintf(path, sizeof path, "%s/local_cpulist", folder);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = '\0';
    return parse_cpus(text, cpus);
}

/* Near the GPU, else near the network card of a wire that is open. */
static int cpus_wanted(const weir_comm *comm, cpu_set_t *cpus)
{
    const weir_comm *here = comm->host_comm ? comm->host_comm : comm;
    char folder[300] = "/sys/bus/pci/devices/";
    CPU_ZERO(cpus);
    if (comm->gpu) {
        const char *bus = here->peers[here->rank].page->gpu.bus;
        size_t at = strlen(folder);
        for (; *bus && at < sizeof folder - 1; bus++)
            folder[at++] = (char)tolower((unsigned char)*bus);
        folder[at] = '\0';
        return cpus_near(folder, cpus);
    }
    for (int network = 0; network < WEIRI_NETWORKS; network++) {
        const weiri_net *net = weiri_comm_open_net(comm, network);
        if (!net || !net->card || !*net->card)
            continue;
        snprintf(folder, sizeof folder, "/sys%s", net->card);
        if (cpus_near(folder, cpus))
            return 1;
    }
    return 0;
}

/* A caller that is kept on one core is not to share it with its proxy. */
void weiri_proxy_bind(const weir_proxy *proxy)
{
    cpu_set_t mine, near, both;
    if (proxy->config.cpu >= 0) {
        CPU_ZERO(&mine);
        CPU_SET((size_t)proxy->config.cpu, &mine);
        if (sched_setaffinity(0, sizeof mine, &mine) < 0)
            weiri_log(WEIRI_LOG_WARN, "the proxy cannot run on processor %d: %s",
                      proxy->config.cpu, strerror(errno));
        return;
    }
    if (sched_getaffinity(0, sizeof mine, &mine) < 0)
        return;
    int knows = cpus_wanted(proxy->comm, &near);
    CPU_AND(&both, &mine, &near);
    if (knows && CPU_COUNT(&both) > 1) {
        mine = both;
    } else if (CPU_COUNT(&mine) == 1) {
        memset(&mine, knows ? 0 : 0xff, sizeof mine);
        CPU_OR(&mine, &mine, &near);
    }
    if (sched_setaffinity(0, sizeof mine, &mine) < 0)
        weiri_log(WEIRI_LOG_DEBUG, "the proxy stays where its creator runs: %s", strerror(errno));
}
