/*
 * The receiving half of the tcp transport gets arbitrary bytes from its peer: it performs valid
 * frames within the registered memory, and fails the stream with a reason for all others. The first
 * byte divides the bytes into pieces, which arrive one at a time.
 */
#include "verify/tests/support/fuzz_input.h"

#include "transport/net/tcp.h"

#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MEMORY_BYTES = 256, GUARD_BYTES = 64, GUARD = 0xA5 };

static weiri_net *net;
static unsigned char memory[MEMORY_BYTES + 2 * GUARD_BYTES] __attribute__((aligned(8)));

static void open_net(void)
{
    const weiri_net_ops *ops = weiri_net_ops_of(WEIR_TRANSPORT_TCP);
    weiri_net_mem *mem = NULL;
    FUZZ_DEMAND(ops->open(0, 2, 1000, &net) == WEIR_OK);
    FUZZ_DEMAND(ops->mem_register(net, memory + GUARD_BYTES, MEMORY_BYTES, WEIRI_NET_HOST, &mem) ==
                WEIR_OK);
}

/* An endpoint whose only stream ends in the returned socket. */
static int open_stream(weiri_tcp_endpoint *end, weiri_tcp_stream *stream)
{
    int pair[2];
    FUZZ_DEMAND(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    memset(stream, 0, offsetof(weiri_tcp_stream, in));
    *end = (weiri_tcp_endpoint){.base = {.net = net, .peer = 1},
                                .job = {.rank = 0, .nranks = 2, .timeout_ms = 1000},
                                .nstreams = 1,
                                .is_connected = 1,
                                .streams = {stream},
                                .where = "somewhere"};
    stream->endpoint = end;
    stream->fd = pair[0];
    return pair[1];
}

static int is_guarded(const unsigned char *from)
{
    for (int i = 0; i < GUARD_BYTES; i++)
        if (from[i] != GUARD)
            return 0;
    return 1;
}

void fuzz_input(const uint8_t *data, size_t bytes)
{
    weiri_tcp_endpoint end;
    weiri_tcp_stream *stream = malloc(sizeof *stream);
    if (!net)
        open_net();
    FUZZ_DEMAND(stream);
    memset(memory, GUARD, sizeof memory);
    int peer = open_stream(&end, stream);
    size_t piece = bytes ? (size_t)data[0] + 1 : 1;
    weir_status status = WEIR_OK;
    for (size_t at = 1; at < bytes && status == WEIR_OK; at += piece) {
        int moved = 0;
        size_t length = bytes - at < piece ? bytes - at : piece;
        if (send(peer, data + at, length, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)length)
            break;
        status = weiri_tcp_read(stream, &moved);
        if (status == WEIR_OK)
            status = weiri_tcp_resume(&end, &moved);
    }
    FUZZ_DEMAND(status == WEIR_OK || *weir_last_error());
    FUZZ_DEMAND(is_guarded(memory) && is_guarded(memory + GUARD_BYTES + MEMORY_BYTES));
    close(peer);
    close(stream->fd);
    free(stream->items);
    free(stream);
}
