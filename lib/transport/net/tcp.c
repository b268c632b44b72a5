/*
 * The tcp network transport: memory of peers over sockets, for nodes without RDMA.
 *
 * An endpoint has several connections to its peer, called streams. Long puts are cut into stripes,
 * which go over all streams but the first. Short operations use the first stream, so that they
 * never queue after megabytes of data. Each stream carries frames: a header, possibly followed by
 * a payload, which the kernel copies directly from and into registered memory.
 *
 * Order. Streams are independent of each other. Both sides count the frames of each stream. A
 * fence in one stream holds counts for the other streams: the next frame of this stream is
 * processed only after that many frames of the others have been. A fence is sent
 *
 *   - before anything on the first stream if the other streams carry frames that the peer has not
 *     acknowledged, so that a signal never overtakes a stripe;
 *   - before the stripes of a put that overlaps an outstanding operation, so that the later of two
 *     puts to the same place prevails.
 *
 * A fence waits for earlier operations only, and each stream is in posting order, so the earliest
 * operation that has not arrived is never delayed.
 *
 * Acknowledgements carry the counts of processed frames. They are sent in front of other data, or
 * once many frames or bytes are unacknowledged, or when nothing more arrives, or before the thread
 * sleeps.
 *
 * End. A peer that destroys its endpoint sends a bye frame; any other closing of a connection is a
 * failure, as is an invalid frame. A failed endpoint sends its peer the reason, closes the
 * connections, and returns the same reason from every later call. Outstanding operations have a
 * deadline, which is renewed whenever the peer accepts data.
 */
#include "transport/net/tcp.h"

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include <weir/target.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define MAGIC_KEY 0x3179656b72696577u

enum {
    DEFAULT_STREAMS = 4,
    RANKS_FEW = 64,         /* with more, one stream per peer: there are many peers to share it */
    OWED_FRAMES = 64,       /* unacknowledged: an acknowledgement is sent at once */
    OWED_BYTES = 512 << 10, /* likewise */
    IDLE_PASSES = 24,       /* progress calls before an acknowledgement is sent alone; until
                               then an answer may carry it */
    GRACE_MS = 500,         /* from a connection's end until it counts as a failure */
    EVENTS = 64,
};

_Static_assert(sizeof(weiri_tcp_key) <= WEIRI_NET_KEY_BYTES, "a key fits");
_Static_assert(sizeof(weiri_tcp_frame) == 32, "frames have no padding");
_Static_assert(sizeof(weiri_tcp_frame) == offsetof(weiri_tcp_item, counts),
               "counts follow their frame immediately");

/* -------------------------------------------------------- events and failures */

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

/* Drops what is queued. */
static void stream_drop_items(weiri_tcp_stream *stream)
{
    stream->endpoint->nqueued -= stream->count;
    stream->count = 0;
}

void weiri_tcp_hang_up(weiri_tcp_endpoint *end)
{
    for (int i = 0; i < end->nstreams; i++) {
        weiri_tcp_stream *stream = end->streams[i];
        if (stream->fd >= 0)
            close(stream->fd); /* also removes it from epoll */
        stream->fd = -1;
        stream_drop_items(stream);
    }
}

void weiri_tcp_fail_endpoint(weiri_tcp_endpoint *end, weir_status status)
{
    int moved;
    if (end->base.failed != WEIR_OK)
        return;
    end->reason = strdup(weir_last_error());
    end->base.failed = status;
    weiri_tcp_drop_call(end->call);
    end->call = NULL;
    weiri_tcp_stream *first = end->streams[0];
    if (end->is_connected && !end->has_left && first->fd >= 0 && first->head_sent == 0) {
        stream_drop_items(first); /* replaced by the bye frame */
        if (weiri_tcp_queue_bye(end, status, weir_last_error()) == WEIR_OK)
            weiri_tcp_write(end, &moved);
    }
    weiri_tcp_hang_up(end);
}

weir_status weiri_tcp_return_failure(const weiri_tcp_endpoint *end)
{
    return weiri_fail(end->base.failed, "transport tcp: %s",
                      end->reason ? end->reason : "an endpoint has failed, and there is no memory");
}

/* Fails the endpoint if a deadline has passed. */
static void tcp_check_deadline(weiri_tcp_endpoint *end)
{
    if (end->base.failed != WEIR_OK || end->base.is_connecting ||
        (end->count == 0 && !end->ended_ns))
        return;
    uint64_t now = weir_clock_ns();
    uint64_t timeout_ns = (uint64_t)end->base.net->timeout_ms * 1000000u;
    if (end->ended_ns && now - end->ended_ns > GRACE_MS * 1000000u)
        weiri_tcp_fail_endpoint(
            end, weiri_fail(WEIR_ERR_PEER,
                            end->has_left ? "rank %d at %s has ended its endpoint while rank %d "
                                            "had outstanding operations; let both finish first"
                                          : "rank %d at %s is gone: it closed a connection to "
                                            "rank %d; see its own messages",
                            end->base.peer, end->where, end->job.rank));
    else if (end->count > 0 && !end->has_left && now - end->moved_ns > timeout_ns)
        weiri_tcp_fail_endpoint(
            end, weiri_fail(WEIR_ERR_TIMEOUT,
                            "rank %d at %s has accepted no data for %d ms, with %llu "
                            "operations of rank %d outstanding; is it stuck, cut off, "
                            "or slower than WEIR_TIMEOUT_MS allows?",
                            end->base.peer, end->where, end->base.net->timeout_ms,
                            (unsigned long long)end->count, end->job.rank));
}

/* --------------------------------------------------------------- open, close */

static void tcp_close(weiri_net *base)
{
    weiri_tcp_net *net = (weiri_tcp_net *)base;
    if (!net)
        return;
    while (net->endpoints)
        weiri_tcp_endpoint_destroy(&net->endpoints->base);
    weiri_tcp_close_gate(net);
    for (uint32_t i = 0; i < net->nmems; i++)
        free(net->mems[i]);
    free(net->mems);
    weiri_staging_close(&net->stage);
    if (net->guests.list)
        weiri_guests_close(&net->guests);
    if (net->listener >= 0)
        close(net->listener);
    if (net->timer >= 0)
        close(net->timer);
    if (net->epoll >= 0)
        close(net->epoll);
    pthread_mutex_destroy(&net->base.lock);
    free(net);
}

/* Opens the descriptor that idle threads poll: it covers all streams and the next deadline. */
static weir_status open_descriptors(weiri_tcp_net *net)
{
    struct epoll_event watch = {.events = EPOLLIN};
    net->epoll = epoll_create1(EPOLL_CLOEXEC);
    net->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (net->epoll < 0 || net->timer < 0 ||
        epoll_ctl(net->epoll, EPOLL_CTL_ADD, net->timer, &watch) != 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "rank %d: transport tcp: epoll%s",
                                net->base.rank, errno == EMFILE ? "; raise 'ulimit -n'" : "");
    return WEIR_OK;
}

static weir_status tcp_open(int rank, int nranks, int timeout_ms, weiri_net **opened)
{
    long nstreams = 0;
    weir_status status = weiri_env_long(WEIRI_ENV_SOCKET_STREAMS, 1, WEIRI_TCP_MOST_STREAMS,
                                        nranks > RANKS_FEW ? 1 : DEFAULT_STREAMS, &nstreams);
    if (status != WEIR_OK)
        return status;
    weiri_tcp_net *net = calloc(1, sizeof *net);
    if (!net)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "rank %d: no memory for the tcp transport", rank);
    net->base = (weiri_net){
        .ops = &weiri_net_tcp, .rank = rank, .nranks = nranks, .timeout_ms = timeout_ms};
    pthread_mutex_init(&net->base.lock, NULL);
    net->job = (weiri_job){.rank = rank, .nranks = nranks, .timeout_ms = timeout_ms};
    net->nstreams = (int)nstreams;
    net->base.descriptors_each = (int)nstreams;
    net->stage.ops = weiri_staging_ops_get();
    net->listener = net->epoll = net->timer = net->gate = -1;
    status = open_descriptors(net);
    if (status == WEIR_OK)
        status = weiri_tcp_listen(net);
    if (status == WEIR_OK)
        *opened = &net->base;
    else
        tcp_close(&net->base);
    return status;
}

/* -------------------------------------------------------------------- memory */

weiri_tcp_mem *weiri_tcp_mem_of(const weiri_tcp_net *net, uint64_t id)
{
    uint32_t slot = (uint32_t)id;
    if (slot >= net->nmems || !net->mems[slot] || net->mems[slot]->id != id)
        return NULL;
    return net->mems[slot];
}

/* A free slot for registered memory; net->nmems if there is no memory for one. */
static uint32_t tcp_free_mem_slot(weiri_tcp_net *net)
{
    uint32_t slot = 0;
    while (slot < net->nmems && net->mems[slot])
        slot++;
    if (slot < net->nmems)
        return slot;
    uint32_t wider = net->nmems ? 2 * net->nmems : 8;
    weiri_tcp_mem **mems = realloc(net->mems, wider * sizeof *mems);
    if (!mems)
        return slot;
    memset(mems + net->nmems, 0, (wider - net->nmems) * sizeof *mems);
    net->mems = mems;
    net->nmems = wider;
    return slot;
}

static weir_status tcp_mem_register(weiri_net *base, void *memory, size_t bytes,
                                    weiri_net_place place, weiri_net_mem **registered)
{
    weiri_tcp_net *net = (weiri_tcp_net *)base;
    if (bytes == 0)
        place = WEIRI_NET_HOST; /* an empty range needs no staging */
    weir_status status = WEIR_OK;
    if (place == WEIRI_NET_CUDA)
        status = weiri_tcp_staging_add(net, memory);
    if (status != WEIR_OK)
        return status;
    weiri_tcp_mem *mem = calloc(1, sizeof *mem);
    uint32_t slot = mem ? tcp_free_mem_slot(net) : 0;
    if (!mem || slot == net->nmems) {
        free(mem);
        return weiri_fail(WEIR_ERR_NO_MEMORY, "rank %d: no memory to register %zu bytes",
                          base->rank, bytes);
    }
    mem->id = (uint64_t)++net->generation << 32 | slot;
    mem->place = place;
    mem->base = (weiri_net_mem){.net = base, .base = memory, .bytes = bytes};
    const weiri_tcp_key key = {.magic = MAGIC_KEY,
                               .id = mem->id,
                               .bytes = bytes,
                               .rank = base->rank,
                               .place = (uint32_t)place};
    memcpy(mem->base.key.bytes, &key, sizeof key);
    net->mems[slot] = mem;
    *registered = &mem->base;
    return WEIR_OK;
}

static void tcp_mem_deregister(weiri_net_mem *base)
{
    weiri_tcp_mem *mem = (weiri_tcp_mem *)base;
    weiri_tcp_net *net = (weiri_tcp_net *)base->net;
    net->mems[(uint32_t)mem->id] = NULL;
    free(mem);
}

/* ---------------------------------------------------------------- operations */

/* Checks that the endpoint can take an operation on [to, to + bytes) of the key's memory, and
 * begins to connect it if it is prepared and this is its first use. */
static weir_status tcp_check_operation(weiri_tcp_endpoint *end, const weiri_net_key *given,
                                       uint64_t to, uint64_t bytes, weiri_tcp_key *key)
{
    memcpy(key, given->bytes, sizeof *key);
    if (end->base.failed != WEIR_OK)
        return weiri_tcp_return_failure(end);
    if (end->has_left)
        return weiri_fail(WEIR_ERR_PEER, "transport tcp: rank %d at %s has ended its endpoint",
                          end->base.peer, end->where);
    if (!end->is_connected && end->state == WEIRI_TCP_BLOCKING)
        return weiri_fail(WEIR_ERR_INVALID, "transport tcp: rank %d is not connected to rank %d",
                          end->job.rank, end->base.peer);
    if (key->magic != MAGIC_KEY || key->rank != end->base.peer)
        return weiri_fail(WEIR_ERR_INVALID,
                          "transport tcp: the key does not name memory of rank %d; use one that "
                          "that rank has sent",
                          end->base.peer);
    if (to > key->bytes || bytes > key->bytes - to)
        return weiri_fail(
            WEIR_ERR_INVALID,
            "transport tcp: %llu bytes at offset %llu exceed the memory of rank %d, which "
            "has %llu bytes",
            (unsigned long long)bytes, (unsigned long long)to, end->base.peer,
            (unsigned long long)key->bytes);
    return end->is_connected ? WEIR_OK : weiri_tcp_endpoint_begin(&end->base);
}

static weir_status tcp_put(weiri_endpoint *endpoint, const weiri_net_mem *mem, uint64_t at,
                           const weiri_net_key *given, uint64_t to, uint64_t bytes)
{
    weiri_tcp_endpoint *end = (weiri_tcp_endpoint *)endpoint;
    weiri_tcp_key key;
    int moved;
    weir_status status = weiri_net_check_source(mem, at, bytes);
    if (status == WEIR_OK)
        status = tcp_check_operation(end, given, to, bytes, &key);
    if (status != WEIR_OK)
        return status;
    int is_staged = ((const weiri_tcp_mem *)mem)->place == WEIRI_NET_CUDA;
    status = weiri_tcp_queue_put(end, mem->base + at, is_staged, &key, to, bytes);
    /* A short put is sent together with the next operation, usually a signal. */
    int is_much =
        bytes > WEIRI_TCP_BUFFER_BYTES || end->streams[0]->queued_bytes > WEIRI_TCP_BUFFER_BYTES;
    if (status == WEIR_OK && is_much)
        status = weiri_tcp_write(end, &moved);
    if (status != WEIR_OK)
        weiri_tcp_fail_endpoint(end, status);
    return status;
}

static weir_status tcp_put_from(weiri_endpoint *endpoint, const char *from,
                                const weiri_net_key *given, uint64_t to, uint64_t bytes)
{
    weiri_tcp_endpoint *end = (weiri_tcp_endpoint *)endpoint;
    weiri_tcp_key key;
    weir_status status = tcp_check_operation(end, given, to, bytes, &key);
    if (status != WEIR_OK)
        return status;
    status = weiri_tcp_queue_put(end, from, 0, &key, to, bytes);
    if (status != WEIR_OK)
        weiri_tcp_fail_endpoint(end, status);
    return status;
}

static void tcp_forget(weiri_endpoint *endpoint)
{
    weiri_tcp_endpoint *end = (weiri_tcp_endpoint *)endpoint;
    if (end->base.failed == WEIR_OK && end->nsent < end->count)
        weiri_tcp_fail_endpoint(end,
                                WEIR_ERR_ABORTED); /* the reason is that of the caller's failure */
}

static weir_status tcp_signal(weiri_endpoint *endpoint, const weiri_net_key *given, uint64_t to,
                              uint64_t value)
{
    weiri_tcp_endpoint *end = (weiri_tcp_endpoint *)endpoint;
    weiri_tcp_key key;
    int moved;
    weir_status status = tcp_check_operation(end, given, to, sizeof value, &key);
    if (status == WEIR_OK && to % sizeof value != 0)
        status = weiri_fail(WEIR_ERR_INVALID,
                            "transport tcp: a signal's offset is %llu, expected a "
                            "multiple of 8",
                            (unsigned long long)to);
    if (status != WEIR_OK)
        return status;
    status = weiri_tcp_queue_signal(end, &key, to, value);
    weiri_tcp_acknowledge(end);
    if (status == WEIR_OK)
        status = weiri_tcp_write(end, &moved);
    if (status != WEIR_OK)
        weiri_tcp_fail_endpoint(end, status);
    return status;
}

/* ------------------------------------------------------------------ progress */

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

static weir_status tcp_progress(weiri_net *base, int *moved)
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
            tcp_check_deadline(end);
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
            at = end->ended_ns + GRACE_MS * 1000000u;
        else if (end->count > 0 && !end->has_left)
            at = end->moved_ns + (uint64_t)end->base.net->timeout_ms * 1000000u;
        first = at < first ? at : first;
    }
    return first;
}

static int tcp_arm(weiri_net *base, int *descriptor)
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

const weiri_net_ops weiri_net_tcp = {
    .transport = WEIR_TRANSPORT_TCP,
    .open = tcp_open,
    .close = tcp_close,
    .endpoint_create = weiri_tcp_endpoint_create,
    .endpoint_connect = weiri_tcp_endpoint_connect,
    .address = weiri_tcp_address_own,
    .endpoint_prepare = weiri_tcp_endpoint_prepare,
    .endpoint_begin = weiri_tcp_endpoint_begin,
    .endpoint_destroy = weiri_tcp_endpoint_destroy,
    .mem_register = tcp_mem_register,
    .mem_deregister = tcp_mem_deregister,
    .put = tcp_put,
    .signal = tcp_signal,
    .put_from = tcp_put_from,
    .forget = tcp_forget,
    .land = weiri_tcp_land,
    .landed = weiri_tcp_landed,
    .progress = tcp_progress,
    .arm = tcp_arm,
};
