/*
 * How a proxy's thread waits for work. It polls for a while after the last work. Then it sets
 * asleep, checks for work once more, and sleeps until a host thread that pushes a trigger sees
 * asleep and writes to the eventfd, or until a network's descriptor becomes readable. Kernels
 * cannot wake a thread, so on GPUs the proxy naps instead, for longer the longer it has been idle.
 */
#define _GNU_SOURCE
#include "chan/port.h"

#include <poll.h>
#include <sched.h>
#include <unistd.h>

enum {
    POLL_NS = 50000,       /* polling time if producers are host threads, which may need the core */
    POLL_GPU_NS = 1000000, /* polling time if kernels are waiting */
    NAP_MIN_NS = 20000,
    NAP_MAX_NS = 10000000,
    BLIND_NAP_NS = 1000000, /* longest nap if a network has no descriptor to poll */
    SLEEP_NS =
        200000000, /* longest sleep if producers wake it: the abort flag is checked as often */
};

/* Adds the networks' descriptors to those that wake the thread. Returns 0 if a network has work. */
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

static void proxy_drain_eventfd(int wake)
{
    uint64_t count;
    while (read(wake, &count, sizeof count) > 0)
        ;
}

static void proxy_sleep(weir_proxy *proxy, uint64_t nap_ns)
{
    struct pollfd files[1 + WEIRI_NETWORKS] = {{.fd = proxy->wake, .events = POLLIN}};
    nfds_t count = 1;
    weir_trigger trigger;
    weir_store_relaxed(&proxy->asleep, 1);
    weir_fence_system(); /* a later push sees asleep; an earlier one is seen below */
    if (!weiri_fifo_peek(&proxy->fifo.end, &trigger) && !weir_load_acquire(&proxy->stop_ns) &&
        arm_nets(proxy, files, &count, &nap_ns)) {
        const struct timespec nap = {.tv_sec = (time_t)(nap_ns / 1000000000u),
                                     .tv_nsec = (long)(nap_ns % 1000000000u)};
        if (ppoll(files, count, &nap, NULL) > 0 && files[0].revents)
            proxy_drain_eventfd(proxy->wake);
    }
    weir_store_relaxed(&proxy->asleep, 0);
}

void weiri_proxy_idle(weir_proxy *proxy, weiri_proxy_idle_state *state, int moved)
{
    const weir_comm *comm = proxy->comm;
    uint64_t now_ns = weir_clock_ns();
    if (moved || !state->moved_ns) {
        state->moved_ns = now_ns;
        return;
    }
    uint64_t idle_ns = now_ns - state->moved_ns, nap_ns = SLEEP_NS;
    if (proxy->polls || idle_ns < (proxy->naps ? POLL_GPU_NS : POLL_NS)) {
        if (comm->oversubscribed)
            sched_yield();
        else
            weir_pause();
        return;
    }
    if (proxy->naps) {
        nap_ns = idle_ns / 16;
        nap_ns = nap_ns < NAP_MIN_NS ? NAP_MIN_NS : nap_ns > NAP_MAX_NS ? NAP_MAX_NS : nap_ns;
    }
    if (weir_load_relaxed(&proxy->woken)) {
        weir_store_relaxed(&proxy->woken, 0);
        state->moved_ns = now_ns;
        return;
    }
    proxy_sleep(proxy, nap_ns);
}
