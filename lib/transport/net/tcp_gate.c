/*
 * Where connections of prepared endpoints (tcp_first_use.c) begin: the gate, an epoll set within
 * that of the network. It has the listener, the guests (boot/guests.h) and this rank's calls, so
 * that they cost a look at one descriptor, and nothing while no rank connects.
 */
#include "transport/net/tcp.h"

#include "base/fd.h"
#include "base/error.h"
#include "base/open_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

weir_status weiri_tcp_gate_watch(const weiri_tcp_net *net, int operation, int fd, uint32_t events,
                                 weiri_tcp_endpoint *end)
{
    struct epoll_event watch = {.events = events, .data.ptr = end};
    if (epoll_ctl(net->gate, operation, fd, &watch) == 0 || errno == EEXIST)
        return WEIR_OK;
    return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "rank %d: transport tcp: epoll",
                            net->base.rank);
}

weir_status weiri_tcp_gate_open(weiri_tcp_net *net)
{
    struct epoll_event watch = {.events = EPOLLIN, .data.ptr = &net->gate};
    net->gate = weiri_fd_raise(epoll_create1(EPOLL_CLOEXEC));
    if (net->gate < 0 || epoll_ctl(net->epoll, EPOLL_CTL_ADD, net->gate, &watch) != 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "rank %d: transport tcp: epoll%s",
                                net->base.rank, errno == EMFILE ? "; raise 'ulimit -n'" : "");
    net->gate_set = calloc((size_t)weiri_guests_most_watched(&net->guests), sizeof *net->gate_set);
    net->prepared = calloc((size_t)net->base.nranks, sizeof(weiri_tcp_endpoint *));
    if (!net->gate_set || !net->prepared)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "rank %d: no memory for the endpoints of %d ranks",
                          net->base.rank, net->base.nranks);
    return weiri_tcp_gate_watch(net, EPOLL_CTL_ADD, net->listener, EPOLLIN, NULL);
}

void weiri_tcp_close_gate(weiri_tcp_net *net)
{
    for (int rank = 0; net->prepared && rank < net->base.nranks; rank++)
        if (net->prepared[rank])
            weiri_tcp_endpoint_destroy(&net->prepared[rank]->base);
    free(net->prepared);
    free(net->gate_set);
    if (net->gate >= 0)
        close(net->gate);
    net->prepared = NULL;
    net->gate = -1;
}

/* Whether this process cannot open another file. */
static int has_no_file(void)
{
    const int fd = eventfd(0, EFD_CLOEXEC), error_number = errno;
    if (fd >= 0)
        close(fd);
    return fd < 0 && error_number == EMFILE;
}

/* No more connections can be accepted: a process without free files gets some more if the system
 * allows that; else no peer can connect any more, and the network says so. */
static void gate_fail(weiri_tcp_net *net, weir_status status)
{
    char who[64];
    snprintf(who, sizeof who, "rank %d accepts connections of other nodes", net->base.rank);
    if (has_no_file() && weiri_open_files_more(who) == WEIR_OK)
        return;
    epoll_ctl(net->gate, EPOLL_CTL_DEL, net->listener, NULL);
    snprintf(net->failure, sizeof net->failure, "transport tcp: %s", weir_last_error());
    net->base.failed = status;
}

/* Accepts connections and reads what guests say. A guest that is refused for another reason
 * (check_failed) is no failure of the network. */
static void gate_serve_guests(weiri_tcp_net *net)
{
    int entries = weiri_guests_watch(&net->guests, net->gate_set);
    net->check_failed = 0;
    if (poll(net->gate_set, (nfds_t)entries, 0) <= 0)
        return;
    weir_status status = weiri_guests_act(&net->guests, net->gate_set, entries);
    if (status != WEIR_OK && !net->check_failed)
        gate_fail(net, status);
    weiri_guests_expire(&net->guests);
    weiri_tcp_watch_guests(net);
}

void weiri_tcp_watch_guests(weiri_tcp_net *net)
{
    weir_status status = WEIR_OK;
    for (int i = 0; net->gate >= 0 && status == WEIR_OK && i < net->guests.count; i++)
        status = weiri_tcp_gate_watch(net, EPOLL_CTL_ADD, net->guests.list[i].fd, EPOLLIN, NULL);
    if (status != WEIR_OK)
        gate_fail(net, status); /* what a guest says would never be read */
}

void weiri_tcp_serve_gate(weiri_tcp_net *net)
{
    enum { EVENTS = 64 };
    struct epoll_event ready[EVENTS];
    int guests = 0, count = epoll_wait(net->gate, ready, EVENTS, 0);
    for (int i = 0; i < count; i++)
        if (ready[i].data.ptr)
            weiri_tcp_call_advance(ready[i].data.ptr);
        else
            guests = 1;
    if (guests)
        gate_serve_guests(net);
}
