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

#include "base/fd.h"
#include "base/env.h"
#include "base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
    DEFAULT_STREAMS = 4,
    RANKS_FEW = 64, /* with more, one stream per peer: there are many peers to share it */
};

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
    net->epoll = weiri_fd_raise(epoll_create1(EPOLL_CLOEXEC));
    net->timer = weiri_fd_raise(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
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
    .mem_register = weiri_tcp_mem_register,
    .mem_deregister = weiri_tcp_mem_deregister,
    .put = weiri_tcp_put,
    .signal = weiri_tcp_signal,
    .put_from = weiri_tcp_put_from,
    .forget = weiri_tcp_forget,
    .land = weiri_tcp_land,
    .landed = weiri_tcp_landed,
    .progress = weiri_tcp_progress,
    .arm = weiri_tcp_arm,
};
