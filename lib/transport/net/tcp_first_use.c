/*
 * Prepared endpoints of the tcp transport: connections that are made when they are first used. An
 * unused endpoint is its struct alone, and does not cost progress anything.
 *
 * Keys. Every rank sends all others one address with its own secret. The key of a pair of
 * ranks is a MAC over both ranks and the higher one's secret, keyed with the lower one's.
 *
 * Calls. The rank that uses an endpoint first calls the peer: it connects, once per stream, one
 * after the other, and proves the key each time (boot/handshake.h). The peer accepts calls whenever
 * it makes progress. Nobody blocks, so ranks may use endpoints in any order. If two ranks call each
 * other, the call of the higher one is made:
 *
 *   the higher rank   answers that the call is crossed (WEIRI_REPLY_CROSSED)
 *   the lower rank    admits the call although its own is under way; once its own is answered, it
 *                     closes that connection
 *
 * A rank only calls while no call of the peer was admitted, so not both can be admitted. A call
 * that fails because the network or the peer is overloaded is repeated until the deadline.
 *
 * tcp_gate.c reports the sockets of calls and accepts those of peers.
 */
#include "transport/net/tcp.h"

#include "base/error.h"
#include "base/open_files.h"
#include "boot/link.h"
#include "boot/socket.h"
#include <weir/target.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define MAGIC_ADDRESS_OF_ALL 0x6c6c617072696577u

enum { FIRST_NAP_NS = 1000000, NAP_DOUBLINGS = 8 };

static weiri_tcp_net *net_of(const weiri_tcp_endpoint *end)
{
    return (weiri_tcp_net *)end->base.net;
}

/* --------------------------------------------------------------------- calls */

void weiri_tcp_drop_call(weiri_tcp_call *call)
{
    if (call && call->fd >= 0)
        close(call->fd); /* also removes it from the gate */
    free(call);
}

static void call_hang_up(weiri_tcp_call *call)
{
    if (call->fd >= 0)
        close(call->fd);
    call->fd = -1;
    call->is_established = 0;
    memset(&call->handshake, 0, sizeof call->handshake);
}

/* Whether this rank's call still decides how the endpoint becomes connected. */
static int call_counts(const weiri_tcp_endpoint *end)
{
    return end->state == WEIRI_TCP_CALLS;
}

static void call_retry(weiri_tcp_call *call)
{
    call_hang_up(call);
    call->retry_ns = weir_clock_ns() + ((uint64_t)FIRST_NAP_NS << call->naps);
    call->naps += call->naps < NAP_DOUBLINGS;
}

/* Why a call could not be connected; WEIR_OK if it is worth another attempt. */
static weir_status call_judge(const weiri_tcp_endpoint *end, int error_number)
{
    char where[WEIRI_ADDRESS_TEXT_BYTES], who[96];
    weiri_address_text(&end->listens, where);
    if (error_number == ECONNREFUSED)
        return weiri_fail(WEIR_ERR_PEER, "rank %d: nothing listens at %s: rank %d has ended",
                          end->job.rank, where, end->base.peer);
    if (error_number == EMFILE) {
        snprintf(who, sizeof who, "rank %d connects to rank %d", end->job.rank, end->base.peer);
        return weiri_open_files_more(who);
    }
    return weiri_socket_error_may_pass(error_number)
               ? WEIR_OK
               : weiri_fail_errno(WEIR_ERR_SYSTEM, error_number,
                                  "rank %d cannot connect to rank %d at %s", end->job.rank,
                                  end->base.peer, where);
}

static void call_lost(weiri_tcp_endpoint *end, int error_number)
{
    weir_status status = call_judge(end, error_number);
    if (status == WEIR_OK)
        call_retry(end->call);
    else
        weiri_tcp_fail_endpoint(end, status);
}

/* Begins to connect the next stream. */
static void call_begin(weiri_tcp_endpoint *end)
{
    weiri_tcp_net *net = net_of(end);
    weiri_tcp_call *call = end->call;
    weiri_address source;
    const weiri_socket_call details = weiri_tcp_socket_call(end, &end->listens, &source);
    call->retry_ns = 0;
    int error_number = weiri_socket_begin(&details, &call->fd);
    if (error_number != EINPROGRESS) {
        call_lost(end, error_number);
        return;
    }
    weir_status status = weiri_tcp_gate_watch(net, EPOLL_CTL_ADD, call->fd, EPOLLOUT, end);
    if (status != WEIR_OK)
        weiri_tcp_fail_endpoint(end, status);
}

/* All streams are connections: what was queued is sent. */
static void first_use_connected(weiri_tcp_endpoint *end)
{
    int moved;
    weir_status status = weiri_tcp_watch_streams(end);
    end->state = WEIRI_TCP_CONNECTED;
    end->is_connected = status == WEIR_OK;
    end->base.is_connecting = status != WEIR_OK;
    end->moved_ns = weir_clock_ns();
    for (int i = 0; i < end->nstreams; i++)
        end->streams[i]->is_full = 0;
    if (end->call && end->call->fd < 0) {
        weiri_tcp_drop_call(end->call);
        end->call = NULL;
    }
    if (status == WEIR_OK)
        status = weiri_tcp_write(end, &moved);
    if (status != WEIR_OK)
        weiri_tcp_fail_endpoint(end, status);
}

/* The handshake of this rank's call has ended. */
static void call_ended(weiri_tcp_endpoint *end, weiri_handshake_end how)
{
    weiri_tcp_call *call = end->call;
    int fd = call->fd;
    if (how == WEIRI_HANDSHAKE_ADMITTED && call_counts(end)) {
        epoll_ctl(net_of(end)->gate, EPOLL_CTL_DEL, fd, NULL);
        call->fd = -1;
        weir_status status = weiri_tcp_take_stream(end, fd);
        call_hang_up(call);
        call->naps = 0;
        if (status != WEIR_OK)
            weiri_tcp_fail_endpoint(end, status);
        else if (end->nmade == end->nstreams)
            first_use_connected(end);
        else
            call_begin(end);
        return;
    }
    call_hang_up(call);
    if (end->state == WEIRI_TCP_CALLS)
        end->state = WEIRI_TCP_IS_CALLED;
    if (end->state == WEIRI_TCP_CONNECTED) {
        weiri_tcp_drop_call(call);
        end->call = NULL;
    }
}

/* The call's socket has an event. A connection that the peer closes before it has answered is
 * repeated: it may have had too many guests. If the peer has ended, the next attempt is refused. */
void weiri_tcp_call_advance(weiri_tcp_endpoint *end)
{
    weiri_tcp_call *call = end->call;
    weiri_handshake_end how;
    if (!call || call->fd < 0)
        return;
    if (!call->is_established) {
        int error_number = weiri_socket_finish(call->fd);
        if (error_number == EINPROGRESS)
            return;
        call->is_established = error_number == 0;
        if (error_number == 0 &&
            weiri_tcp_gate_watch(net_of(end), EPOLL_CTL_MOD, call->fd, EPOLLIN, end) != WEIR_OK)
            weiri_tcp_fail_endpoint(end, WEIR_ERR_SYSTEM);
        if (error_number == 0)
            return;
        if (call_counts(end))
            call_lost(end, error_number);
        else
            call_ended(end, WEIRI_HANDSHAKE_CROSSED);
        return;
    }
    weir_status status = weiri_handshake_advance(&end->job, call->fd, end->base.peer, &end->listens,
                                                 &net_of(end)->listens, &call->handshake, &how);
    if (status == WEIR_OK && how != WEIRI_HANDSHAKE_GOES_ON)
        call_ended(end, how);
    else if (status != WEIR_OK && !call_counts(end))
        call_ended(end, WEIRI_HANDSHAKE_CROSSED);
    else if (status == WEIR_ERR_PEER)
        call_retry(call);
    else if (status != WEIR_OK)
        weiri_tcp_fail_endpoint(end, status);
}

void weiri_tcp_check_call(weiri_tcp_endpoint *end)
{
    weiri_tcp_call *call = end->call;
    char where[WEIRI_ADDRESS_TEXT_BYTES];
    if (!call || end->base.failed != WEIR_OK)
        return;
    uint64_t now_ns = weir_clock_ns();
    if (now_ns > call->end_ns)
        weiri_tcp_fail_endpoint(
            end, weiri_fail(WEIR_ERR_TIMEOUT,
                            "rank %d has no connection to rank %d at %s after %d ms; is it running "
                            "and in a call of weir, and does a firewall let the port through?",
                            end->job.rank, end->base.peer, weiri_address_text(&end->listens, where),
                            end->base.net->timeout_ms));
    else if (call->retry_ns && now_ns >= call->retry_ns && call_counts(end))
        call_begin(end);
}

uint64_t weiri_tcp_call_due(const weiri_tcp_endpoint *end)
{
    const weiri_tcp_call *call = end->call;
    if (!call)
        return UINT64_MAX;
    return call->retry_ns && call->retry_ns < call->end_ns ? call->retry_ns : call->end_ns;
}

/* ---------------------------------------------------------------- first use */

/* Makes an unused endpoint ready for operations, which wait until it is connected. */
static weir_status first_use(weiri_tcp_endpoint *end, weiri_tcp_state state)
{
    weiri_tcp_net *net = net_of(end);
    end->state = state;
    end->base.is_connecting = 1;
    end->next = net->endpoints;
    net->endpoints = end;
    end->call = calloc(1, sizeof *end->call);
    weiri_tcp_stream *stream = NULL;
    while (end->call && end->nstreams < end->streams_wanted) {
        if (!(stream = weiri_tcp_add_stream(end)))
            break;
        stream->is_full = 1;
    }
    if (!end->call || !stream)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "rank %d: no memory for a connection to rank %d",
                          end->job.rank, end->base.peer);
    end->call->fd = -1;
    end->call->end_ns = weir_clock_ns() + (uint64_t)net->base.timeout_ms * 1000000u;
    weiri_address_text(&end->listens, end->where);
    return net->base.used ? net->base.used(net->base.context, &end->base) : WEIR_OK;
}

weir_status weiri_tcp_endpoint_begin(weiri_endpoint *endpoint)
{
    weiri_tcp_endpoint *end = (weiri_tcp_endpoint *)endpoint;
    if (end->state == WEIRI_TCP_UNUSED) {
        weir_status status = first_use(end, WEIRI_TCP_CALLS);
        if (status == WEIR_OK)
            call_begin(end);
        else
            weiri_tcp_fail_endpoint(end, status);
    }
    return end->base.failed == WEIR_OK ? WEIR_OK : weiri_tcp_return_failure(end);
}

weiri_tcp_endpoint *weiri_tcp_prepared_for(const weiri_tcp_net *net, const weiri_guest *who)
{
    int rank = who->hello.rank;
    if (!net->prepared || rank < 0 || rank >= net->base.nranks || !net->prepared[rank])
        return NULL;
    weiri_tcp_endpoint *end = net->prepared[rank];
    return weiri_hello_proven(&end->job, &who->challenge, &who->hello) ? end : NULL;
}

int weiri_tcp_guest_is_crossing(const weiri_tcp_endpoint *end)
{
    return end->base.failed == WEIR_OK &&
           (end->state == WEIRI_TCP_CONNECTED ||
            (end->state == WEIRI_TCP_CALLS && (end->job.rank > end->base.peer || end->nmade > 0)));
}

weir_status weiri_tcp_admit_guest(weiri_tcp_endpoint *end)
{
    if (end->base.failed != WEIR_OK)
        return weiri_tcp_return_failure(end);
    if (end->state == WEIRI_TCP_UNUSED) {
        weir_status status = first_use(end, WEIRI_TCP_IS_CALLED);
        if (status != WEIR_OK)
            weiri_tcp_fail_endpoint(end, status);
        return status;
    }
    end->state = WEIRI_TCP_IS_CALLED;
    end->call->retry_ns = 0;
    return WEIR_OK;
}

void weiri_tcp_guest_came(weiri_tcp_endpoint *end)
{
    if (end->nmade == end->nstreams)
        first_use_connected(end);
}

/* ------------------------------------------------------------------- prepare */

weir_status weiri_tcp_address_own(weiri_net *base, weiri_net_address *own)
{
    weiri_tcp_net *net = (weiri_tcp_net *)base;
    weir_status status = weiri_random(net->secret, sizeof net->secret);
    if (status == WEIR_OK)
        status = weiri_tcp_gate_open(net);
    if (status != WEIR_OK)
        return status;
    weiri_tcp_address address = {.magic = MAGIC_ADDRESS_OF_ALL,
                                 .rank = base->rank,
                                 .nranks = base->nranks,
                                 .nstreams = net->nstreams,
                                 .listens = net->listens};
    memcpy(address.key, net->secret, sizeof address.key);
    memset(own, 0, sizeof *own);
    memcpy(own->bytes, &address, sizeof address);
    return WEIR_OK;
}

/* The key of a pair of ranks, which both derive from their secrets. */
static void derive_key(const weiri_tcp_net *net, const weiri_tcp_address *peers,
                       uint8_t key[WEIRI_KEY_BYTES])
{
    const int is_lower = net->base.rank < peers->rank;
    struct {
        uint64_t magic;
        int32_t lower, higher;
        uint8_t secret[WEIRI_KEY_BYTES];
    } pair = {.magic = MAGIC_ADDRESS_OF_ALL,
              .lower = is_lower ? net->base.rank : peers->rank,
              .higher = is_lower ? peers->rank : net->base.rank};
    memcpy(pair.secret, is_lower ? peers->key : net->secret, sizeof pair.secret);
    weiri_mac(is_lower ? net->secret : peers->key, &pair, sizeof pair, key);
}

weir_status weiri_tcp_endpoint_prepare(weiri_net *base, int peer, const weiri_net_address *given,
                                       weiri_endpoint **endpoint)
{
    weiri_tcp_net *net = (weiri_tcp_net *)base;
    weiri_net_address unused;
    weiri_endpoint *made = NULL;
    weiri_tcp_address peers;
    memcpy(&peers, given->bytes, sizeof peers);
    weir_status status = weiri_tcp_endpoint_create(base, peer, &made, &unused);
    if (status != WEIR_OK)
        return status;
    weiri_tcp_endpoint *end = (weiri_tcp_endpoint *)made;
    status = weiri_tcp_check_address(end, &peers, MAGIC_ADDRESS_OF_ALL);
    if (status != WEIR_OK || net->prepared[peer]) {
        weiri_tcp_endpoint_destroy(made);
        return status != WEIR_OK
                   ? status
                   : weiri_fail(WEIR_ERR_INVALID, "rank %d: the endpoint to rank %d exists already",
                                base->rank, peer);
    }
    net->endpoints = end->next; /* until it is used */
    end->next = NULL;
    derive_key(net, &peers, end->job.key);
    end->state = WEIRI_TCP_UNUSED;
    end->listens = peers.listens;
    end->streams_wanted = base->rank > peer ? net->nstreams : peers.nstreams;
    net->prepared[peer] = end;
    *endpoint = made;
    return WEIR_OK;
}
