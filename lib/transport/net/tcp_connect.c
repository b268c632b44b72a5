/*
 * Connection set-up of the tcp transport, by endpoint_connect; tcp_first_use.c has that of prepared
 * endpoints. A network listens on one port. Of two ranks the higher one connects, once per stream,
 * and each time proves (boot/handshake.h) that it knows the key that the lower rank generated for
 * this endpoint and sent in its address. So one port serves all endpoints, and connections from
 * other programs are refused.
 *
 * A rank that waits for one peer also accepts the connections of its other endpoints. As ranks
 * connect to lower ranks only, the lowest waiting rank can always continue, whatever order the
 * ranks connect in.
 */
#include "transport/net/tcp.h"

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "boot/link.h"
#include "boot/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define MAGIC_ADDRESS 0x3170637472696577u

/* The kernel doubles it. Longer ones are faster in some calls and exceed the window in others. */
enum { SEND_BUFFER_BYTES = 64 << 10 };

_Static_assert(sizeof(weiri_tcp_address) <= WEIRI_NET_ADDRESS_BYTES, "an address fits");

/* ------------------------------------------------------------------- listen */

static weir_status choose_address(weiri_tcp_net *net)
{
    const char *variable = NULL, *named = NULL;
    char text[WEIRI_ADDRESS_TEXT_BYTES], name[IF_NAMESIZE];
    weir_status status = weiri_interface_wish(&named, &variable);
    if (status == WEIR_OK)
        status = weiri_interface_address(named, NULL, &net->listens);
    if (status != WEIR_OK)
        return weiri_fail_context(status, "the tcp transport of rank %d%s%s", net->base.rank,
                                  named ? ": " : "", named ? variable : "");
    net->has_source = named != NULL;
    weiri_interface_name(&net->listens, name);
    weiri_log(WEIRI_LOG_INFO,
              "transport tcp: interface %s, address %s, because %s%s; %d streams per peer", name,
              weiri_address_text(&net->listens, text),
              named ? variable : "it is most likely reachable from other nodes, by ",
              named ? " names it" : variable, net->nstreams);
    return WEIR_OK;
}

/* Whether the endpoint still waits for connections of its peer. */
static int expects_guests(const weiri_tcp_endpoint *end)
{
    return end->state == WEIRI_TCP_BLOCKING && end->job.rank < end->base.peer &&
           !end->is_connected && end->base.failed == WEIR_OK &&
           end->nstreams < WEIRI_TCP_MOST_STREAMS;
}

static const weiri_job *tcp_recognise_guest(void *context, const weiri_guest *who)
{
    const weiri_tcp_net *net = context;
    const weiri_tcp_endpoint *prepared = weiri_tcp_prepared_for(net, who);
    if (prepared)
        return &prepared->job;
    for (const weiri_tcp_endpoint *end = net->endpoints; end; end = end->next)
        if (expects_guests(end) && weiri_hello_proven(&end->job, &who->challenge, &who->hello))
            return &end->job;
    return NULL;
}

static weiri_tcp_endpoint *endpoint_of(const weiri_job *job)
{
    const char *at = (const char *)job - offsetof(weiri_tcp_endpoint, job);
    return (weiri_tcp_endpoint *)(uintptr_t)at;
}

static int guest_is_crossing(void *context, const weiri_job *job)
{
    (void)context;
    return weiri_tcp_guest_is_crossing(endpoint_of(job));
}

static weir_status check_guest(void *context, const weiri_job *job, const weiri_guest *who)
{
    weiri_tcp_endpoint *end = endpoint_of(job);
    weiri_tcp_net *net = context;
    weir_status status = WEIR_OK;
    if (who->hello.rank != end->base.peer || who->hello.nranks != job->nranks)
        status = weiri_fail(
            WEIR_ERR_MISMATCH, "%s says that it is rank %d of %d; rank %d expected rank %d of %d",
            who->where, who->hello.rank, who->hello.nranks, job->rank, end->base.peer, job->nranks);
    else if (end->state != WEIRI_TCP_BLOCKING)
        status = weiri_tcp_admit_guest(end);
    net->check_failed |= status != WEIR_OK;
    return status;
}

/* ------------------------------------------------------------------ streams */

/* Detects a peer whose whole node has disappeared after about the timeout. A peer that merely
 * accepts no data is detected earlier, by the endpoint's deadline. */
static void keep_alive(int fd, int timeout_ms)
{
    enum { PROBES = 3 };
    int on = 1, probes = PROBES, user_ms = timeout_ms > INT32_MAX / 2 ? INT32_MAX : 2 * timeout_ms;
    int idle_s = timeout_ms / 2000 > 1 ? timeout_ms / 2000 : 1;
    int between_s = idle_s / PROBES > 1 ? idle_s / PROBES : 1;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_ms, sizeof user_ms);
}

/* Whether the connection's congestion control is bbr, of any version. */
static int tcp_uses_bbr(int fd)
{
    static const char prefix[] = "bbr";
    char name[16] = ""; /* TCP_CA_NAME_MAX */
    socklen_t length = sizeof name;
    return getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0 &&
           strncmp(name, prefix, sizeof prefix - 1) == 0;
}

/* Between peers of one kernel, what exceeds the congestion window leaves when an acknowledgement
 * arrives, on the peer's core, and overtakes what this core still sends; the kernel takes that for
 * a loss and sends it again, and bbr then paces by too low a bandwidth. With a send buffer that is
 * shorter than the window, this rank waits instead and sends everything itself. With other
 * congestion controls the limit only costs time, and networks need longer buffers. If a call fails,
 * only speed is lost. */
static void tcp_limit_send_buffer(int fd)
{
    const int bytes = SEND_BUFFER_BYTES;
    if (tcp_uses_bbr(fd))
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

weiri_tcp_stream *weiri_tcp_add_stream(weiri_tcp_endpoint *end)
{
    weiri_tcp_stream *stream = malloc(sizeof *stream);
    if (!stream) {
        weiri_fail(WEIR_ERR_NO_MEMORY, "rank %d: no memory for a stream to rank %d", end->job.rank,
                   end->base.peer);
        return NULL;
    }
    /* The receive buffer need not be cleared. */
    memset(stream, 0, offsetof(weiri_tcp_stream, in));
    stream->endpoint = end;
    stream->fd = -1;
    stream->index = end->nstreams;
    end->streams[end->nstreams++] = stream;
    return stream;
}

weir_status weiri_tcp_take_stream(weiri_tcp_endpoint *end, int fd)
{
    if (end->nmade == end->nstreams && !weiri_tcp_add_stream(end)) {
        close(fd);
        return WEIR_ERR_NO_MEMORY;
    }
    keep_alive(fd, end->job.timeout_ms);
    if (end->base.shares_kernel)
        tcp_limit_send_buffer(fd);
    end->streams[end->nmade++]->fd = fd;
    return WEIR_OK;
}

static void take_guest(void *context, const weiri_job *job, const weiri_guest *who)
{
    weiri_tcp_endpoint *end = endpoint_of(job);
    const weiri_tcp_net *net = context;
    memcpy(end->where, who->where, sizeof end->where);
    if (net->gate >= 0)
        epoll_ctl(net->gate, EPOLL_CTL_DEL, who->fd, NULL);
    weir_status status = weiri_tcp_take_stream(end, who->fd);
    if (status != WEIR_OK)
        end->base.failed = status;
    else if (end->state != WEIRI_TCP_BLOCKING)
        weiri_tcp_guest_came(end);
}

weir_status weiri_tcp_listen(weiri_tcp_net *net)
{
    const weiri_guests_host host = {.context = net,
                                    .recognise = tcp_recognise_guest,
                                    .is_crossing = guest_is_crossing,
                                    .check = check_guest,
                                    .take = take_guest};
    weir_status status = choose_address(net);
    if (status == WEIR_OK)
        status = weiri_socket_listen(&net->listens, &net->listener);
    if (status == WEIR_OK)
        status = weiri_socket_address(net->listener, &net->listens);
    if (status == WEIR_OK)
        status = weiri_guests_open(&net->job, &host, net->listener, net->job.nranks, &net->guests);
    return status;
}

/* ------------------------------------------------------------------ connect */

weiri_socket_call weiri_tcp_socket_call(const weiri_tcp_endpoint *end, const weiri_address *to,
                                        weiri_address *source)
{
    const weiri_tcp_net *net = (const weiri_tcp_net *)end->base.net;
    *source = net->listens;
    source->port = 0;
    return (weiri_socket_call){.rank = end->job.rank,
                               .peer = end->base.peer,
                               .to = to,
                               .source = net->has_source ? source : NULL};
}

static weir_status tcp_connect_streams(weiri_tcp_endpoint *end, const weiri_tcp_address *peers,
                                       const weiri_deadline *deadline)
{
    const weiri_tcp_net *net = (const weiri_tcp_net *)end->base.net;
    weiri_address source;
    const weiri_socket_call details = weiri_tcp_socket_call(end, &peers->listens, &source);
    weir_status status = WEIR_OK;
    while (end->nmade < net->nstreams && status == WEIR_OK) {
        int fd = -1;
        status = weiri_socket_connect(&details, deadline, &fd);
        if (status != WEIR_OK)
            break;
        status = weiri_handshake_call(&end->job, fd, end->base.peer, &peers->listens, &net->listens,
                                      deadline);
        if (status == WEIR_OK)
            status = weiri_tcp_take_stream(end, fd);
        else
            close(fd);
    }
    return status;
}

static weir_status fail_late(const weiri_tcp_endpoint *end, const weiri_tcp_net *net)
{
    char where[WEIRI_ADDRESS_TEXT_BYTES];
    return weiri_fail(WEIR_ERR_TIMEOUT,
                      "rank %d has not called rank %d at %s after %d ms (connections refused "
                      "there: %d%s%s); is it running, does a firewall let the port through, is "
                      "%s right?",
                      end->base.peer, end->job.rank, weiri_address_text(&net->listens, where),
                      end->job.timeout_ms, net->guests.refused,
                      net->guests.refused ? ", the last: " : "", net->guests.last_refusal,
                      weiri_env_name(WEIRI_ENV_SOCKET_IFNAME));
}

/* Accepts connections, for all endpoints, until this endpoint has its streams. */
static weir_status tcp_accept_streams(weiri_tcp_endpoint *end, int nstreams,
                                      const weiri_deadline *deadline)
{
    weiri_tcp_net *net = (weiri_tcp_net *)end->base.net;
    struct pollfd *set = calloc((size_t)weiri_guests_most_watched(&net->guests), sizeof *set);
    weir_status status = WEIR_OK;
    if (!set)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "rank %d: no memory to await rank %d", end->job.rank,
                          end->base.peer);
    while (end->nmade < nstreams && status == WEIR_OK && end->base.failed == WEIR_OK) {
        int entries = weiri_guests_watch(&net->guests, set);
        int left_ms = weiri_deadline_left_ms(deadline);
        int ready = poll(set, (nfds_t)entries, weiri_guests_wait_ms(&net->guests, left_ms));
        if (ready < 0 && errno != EINTR)
            status = weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "rank %d waits for rank %d",
                                      end->job.rank, end->base.peer);
        else if (ready > 0)
            status = weiri_guests_act(&net->guests, set, entries);
        else if (ready == 0 && left_ms == 0)
            status = fail_late(end, net);
    }
    free(set);
    weiri_tcp_watch_guests(net);
    if (end->base.failed != WEIR_OK)
        return weiri_fail(end->base.failed, "rank %d: no memory for streams to rank %d",
                          end->job.rank, end->base.peer);
    return status;
}

weir_status weiri_tcp_check_address(const weiri_tcp_endpoint *end, const weiri_tcp_address *peers,
                                    uint64_t magic)
{
    if (peers->magic != magic || peers->nstreams < 1 || peers->nstreams > WEIRI_TCP_MOST_STREAMS)
        return weiri_fail(WEIR_ERR_INVALID,
                          "rank %d: the address given for rank %d is not one of this version's tcp "
                          "transport",
                          end->job.rank, end->base.peer);
    if (peers->rank != end->base.peer || peers->nranks != end->job.nranks)
        return weiri_fail(WEIR_ERR_MISMATCH,
                          "rank %d: the address given for rank %d of %d is that of rank %d of %d",
                          end->job.rank, end->base.peer, end->job.nranks, peers->rank,
                          peers->nranks);
    return WEIR_OK;
}

weir_status weiri_tcp_watch_streams(weiri_tcp_endpoint *end)
{
    const weiri_tcp_net *net = (const weiri_tcp_net *)end->base.net;
    for (int i = 0; i < end->nstreams; i++) {
        struct epoll_event watch = {.events = EPOLLIN, .data.ptr = end->streams[i]};
        end->streams[i]->events = EPOLLIN;
        if (epoll_ctl(net->epoll, EPOLL_CTL_ADD, end->streams[i]->fd, &watch) != 0)
            return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "rank %d watches rank %d",
                                    end->job.rank, end->base.peer);
    }
    return weiri_tcp_staging_prepare(end);
}

weir_status weiri_tcp_endpoint_connect(weiri_endpoint *endpoint, const weiri_net_address *given)
{
    weiri_tcp_endpoint *end = (weiri_tcp_endpoint *)endpoint;
    weiri_deadline deadline = weiri_deadline_in(end->job.timeout_ms);
    weiri_tcp_address peers;
    memcpy(&peers, given->bytes, sizeof peers);
    weir_status status = weiri_tcp_check_address(end, &peers, MAGIC_ADDRESS);
    if (status != WEIR_OK)
        return status;
    if (end->job.rank > endpoint->peer) {
        memcpy(end->job.key, peers.key, sizeof end->job.key);
        weiri_address_text(&peers.listens, end->where);
        status = tcp_connect_streams(end, &peers, &deadline);
    } else {
        status = tcp_accept_streams(end, peers.nstreams, &deadline);
    }
    if (status == WEIR_OK)
        status = weiri_tcp_watch_streams(end);
    end->is_connected = status == WEIR_OK;
    return status == WEIR_OK ? status : weiri_fail_context(status, "transport tcp");
}

/* ------------------------------------------------------------------- create */

weir_status weiri_tcp_endpoint_create(weiri_net *base, int peer, weiri_endpoint **endpoint,
                                      weiri_net_address *own)
{
    weiri_tcp_net *net = (weiri_tcp_net *)base;
    if (peer < 0 || peer >= base->nranks || peer == base->rank)
        return weiri_fail(WEIR_ERR_INVALID,
                          "transport tcp of rank %d of %d: no endpoint to rank %d", base->rank,
                          base->nranks, peer);
    weiri_tcp_endpoint *end = calloc(1, sizeof *end);
    if (!end)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "rank %d: no memory for an endpoint to rank %d",
                          base->rank, peer);
    end->base.net = base;
    end->base.peer = peer;
    end->job = net->job;
    weir_status status = weiri_random(end->job.key, sizeof end->job.key);
    if (status != WEIR_OK) {
        free(end);
        return status;
    }
    weiri_tcp_address address = {.magic = MAGIC_ADDRESS,
                                 .rank = base->rank,
                                 .nranks = base->nranks,
                                 .nstreams = net->nstreams,
                                 .listens = net->listens};
    memcpy(address.key, end->job.key, sizeof address.key);
    memset(own, 0, sizeof *own);
    memcpy(own->bytes, &address, sizeof address);
    end->next = net->endpoints;
    net->endpoints = end;
    *endpoint = &end->base;
    return WEIR_OK;
}

/* Sends a bye frame and shuts the streams down. If a frame is only partly written, the bye frame
 * cannot be sent either, and the peer reports a failure, as it should. Unread data would make the
 * system reset the connection, and the peer would lose the last data sent to it; hence they are
 * read. */
static void tcp_leave(weiri_tcp_endpoint *end)
{
    enum { MOST_READS = 1000 };
    char scratch[4096];
    int moved, reads = 0;
    if (!end->is_connected || end->base.failed != WEIR_OK || end->has_left)
        return;
    weiri_tcp_acknowledge(end);
    if (weiri_tcp_queue_bye(end, WEIR_OK, "") == WEIR_OK)
        weiri_tcp_write(end, &moved);
    for (int i = 0; i < end->nstreams; i++)
        shutdown(end->streams[i]->fd, SHUT_WR);
    for (int i = 0; i < end->nstreams; i++)
        while (reads < MOST_READS &&
               recv(end->streams[i]->fd, scratch, sizeof scratch, MSG_DONTWAIT) > 0)
            reads++;
}

void weiri_tcp_endpoint_destroy(weiri_endpoint *endpoint)
{
    weiri_tcp_endpoint *end = (weiri_tcp_endpoint *)endpoint;
    weiri_tcp_net *net = (weiri_tcp_net *)endpoint->net;
    tcp_leave(end);
    weiri_tcp_hang_up(end);
    weiri_tcp_drop_call(end->call);
    weiri_tcp_endpoint **at = &net->endpoints;
    while (*at && *at != end)
        at = &(*at)->next;
    if (*at)
        *at = end->next;
    if (end->state != WEIRI_TCP_BLOCKING)
        net->prepared[endpoint->peer] = NULL;
    for (int i = 0; i < end->nstreams; i++) {
        weiri_tcp_staging_drop(end->streams[i]);
        free(end->streams[i]->items);
        free(end->streams[i]);
    }
    free(end->landings);
    free(end->reason);
    free(end->ops);
    free(end);
}
