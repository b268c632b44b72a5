/*
 * Progress of the tcp transport: which sockets are read and written in a pass, when
 * acknowledgements are sent, and the descriptor that a thread polls before it sleeps, with the
 * time until which it may.
 */
#include "transport/net/tcp.h"

#include "base/error.h"
#include <weir/target.h>

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
    OWED_FRAMES = 64,       /* unacknowledged: an acknowledgement is sent at once */
    OWED_BYTES = 512 << 10, /* likewise */
    IDLE_PASSES = 24,       /* progress calls before an acknowledgement is sent alone; until
                               then an answer may carry it */
    EVENTS = 64,
};

void weiri_tcp_watch(weiri_tcp_stream *stream)
{
    const weiri_tcp_net *net = (const weiri_tcp_net *)stream->endpoint->base.net;
    uint32_t events = EPOLLIN;
    if (stream->is_stalled || stream->awaits_copy || stream->is_ended)
        events = 0;
    if (stream->count > 0 && stream->is_full && !stream->write_failed)
        events |= EPOLLOUT;
    if (stream->fd < 0 || events == stream->events)
        return;
    struct epoll_event watch = {.events = events, .data.ptr = stream};
    /* epoll reports a closed connection regardless of the requested events. */
    if (stream->is_ended)
        epoll_ctl(net->epoll, EPOLL_CTL_DEL, stream->fd, NULL);
    else
        epoll_ctl(net->epoll, EPOLL_CTL_MOD, stream->fd, &watch);
    stream->events = events;
}

/* Handles the events of a stream. */
static void tcp_serve(weiri_tcp_stream *stream, uint32_t events, int *moved)
{
    weiri_tcp_endpoint *end = stream->endpoint;
    if (end->base.failed != WEIR_OK || end->has_left || stream->fd < 0)
        return;
    if (events & EPOLLOUT)
        stream->is_full = 0;
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    weir_status status = weiri_tcp_read(stream, moved);
    weiri_tcp_watch(stream);
    if (status == WEIR_OK)
        status = weiri_tcp_resume(end, moved);
    if (status != WEIR_OK)
        weiri_tcp_fail_endpoint(end, status);
    else if (end->has_left)
        weiri_tcp_hang_up(end);
}

/* Handles the events of all streams. Returns whether any stream but a first one had events. */
static int tcp_serve_epoll(weiri_tcp_net *net, int *moved)
{
    struct epoll_event ready[EVENTS];
    int count = epoll_wait(net->epoll, ready, EVENTS, 0), others = 0;
    for (int i = 0; i < count; i++) {
        weiri_tcp_stream *stream = ready[i].data.ptr;
        uint64_t expirations;
        if (ready[i].data.ptr == &net->gate) {
            weiri_tcp_serve_gate(net);
            *moved = 1;
        } else if (stream) {
            others |= stream->index > 0;
            tcp_serve(stream, ready[i].events, moved);
        } else if (read(net->timer, &expirations, sizeof expirations) > 0) {
            continue; /* every pass that moves nothing looks at the deadlines */
        }
    }
    return others;
}

/* With one peer, and if lately only first streams had events, reads that one without calling
 * epoll_wait, which saves a system call per small message. With more peers, one epoll_wait is
 * cheaper than a read of each that finds nothing. */
static void tcp_serve_streams(weiri_tcp_net *net, int *moved)
{
    enum { PASSES_BETWEEN_LOOKS = 8 };
    weiri_tcp_endpoint *end = net->endpoints;
    if (!end || end->next || net->passes++ % PASSES_BETWEEN_LOOKS == 0) {
        if (tcp_serve_epoll(net, moved))
            net->passes = 0; /* call epoll_wait again in the next pass */
        return;
    }
    if (end->is_connected && end->streams[0]->events & EPOLLIN)
        tcp_serve(end->streams[0], EPOLLIN, moved);
}

weir_status weiri_tcp_progress(weiri_net *base, int *moved)
{
    weiri_tcp_net *net = (weiri_tcp_net *)base;
    weiri_tcp_endpoint *worst = NULL;
    *moved = 0;
    tcp_serve_streams(net, moved);
    for (weiri_tcp_endpoint *end = net->endpoints; end; end = end->next) {
        if (end->is_connected && end->base.failed == WEIR_OK && !end->has_left) {
            int due = end->owed_frames >= OWED_FRAMES || end->owed_bytes >= OWED_BYTES;
            weir_status status = WEIR_OK;
            if (end->owed_frames > 0 && (due || end->idle_passes++ >= IDLE_PASSES))
                weiri_tcp_acknowledge(end);
            if (net->stage.context)
                status = weiri_tcp_settle_copies(end, moved);
            if (status == WEIR_OK && end->nqueued > 0)
                status = weiri_tcp_write(end, moved);
            if (status != WEIR_OK)
                weiri_tcp_fail_endpoint(end, status);
        }
        if (end->base.is_connecting)
            weiri_tcp_check_call(end);
        if (!*moved)
            weiri_tcp_check_deadline(end);
        if (end->base.failed != WEIR_OK)
            worst = end;
    }
    if (worst)
        return weiri_tcp_return_failure(worst);
    return net->base.failed == WEIR_OK ? WEIR_OK : weiri_fail(net->base.failed, "%s", net->failure);
}

/* The earliest deadline of any endpoint; UINT64_MAX if there is none. */
static uint64_t next_deadline(const weiri_tcp_net *net)
{
    uint64_t first = UINT64_MAX;
    for (const weiri_tcp_endpoint *end = net->endpoints; end; end = end->next) {
        uint64_t at = UINT64_MAX;
        if (end->base.failed != WEIR_OK)
            continue;
        if (end->base.is_connecting)
            at = weiri_tcp_call_due(end);
        else if (end->ended_ns)
            at = end->ended_ns + WEIRI_TCP_GRACE_MS * 1000000u;
        else if (end->count > 0 && !end->has_left)
            at = end->moved_ns + (uint64_t)end->base.net->timeout_ms * 1000000u;
        first = at < first ? at : first;
    }
    return first;
}

int weiri_tcp_arm(weiri_net *base, int *descriptor)
{
    weiri_tcp_net *net = (weiri_tcp_net *)base;
    struct itimerspec when = {.it_value = {0}};
    int moved = 0;
    for (weiri_tcp_endpoint *end = net->endpoints; end; end = end->next) {
        if (!end->is_connected || end->base.failed != WEIR_OK || end->has_left)
            continue;
        weiri_tcp_acknowledge(end);
        weir_status status = weiri_tcp_write(end, &moved);
        if (status != WEIR_OK)
            weiri_tcp_fail_endpoint(end, status);
        /* Copies of GPU memory and data that are ready to be written have no descriptor. */
        for (int i = 0; i < end->nstreams; i++)
            if (status != WEIR_OK || weiri_tcp_staging_copies(end->streams[i]) ||
                (end->streams[i]->count > 0 && !end->streams[i]->is_full))
                return 0;
    }
    uint64_t at = next_deadline(net);
    if (at != UINT64_MAX) {
        at += 1000000u; /* the deadline must have passed when the timer expires */
        when.it_value.tv_sec = (time_t)(at / 1000000000u);
        when.it_value.tv_nsec = (long)(at % 1000000000u);
    }
    timerfd_settime(net->timer, TFD_TIMER_ABSTIME, &when, NULL);
    *descriptor = net->epoll;
    return 1;
}
