/*
 * The floor of transfers between nodes: as many bytes through a TCP connection for each route, over
 * loopback, from one buffer into one buffer. No page changes, so nothing is checked.
 */
#define _GNU_SOURCE
#include "bench/blocks/blocks_trial.h"

#include "bench/job/exchange.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 18, WAIT_MS = 10000 };

/* rank: of the group; the message has the job's. */
static weir_status socket_fail(const blocks_trial *t, const char *what, int rank)
{
    return bench_job_note(t->job, WEIR_ERR_SYSTEM,
                          "--peer socket: %s rank %d over loopback: %s; start all ranks on one "
                          "machine",
                          what, t->names[rank], strerror(errno));
}

/* Returns a socket that listens on a free port of the loopback interface; -1: errno. */
static int socket_listen(struct sockaddr_in *at)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t bytes = sizeof *at;
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd >= 0 && bind(fd, (struct sockaddr *)at, bytes) == 0 && listen(fd, SOMAXCONN) == 0 &&
        getsockname(fd, (struct sockaddr *)at, &bytes) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Connects to the receiver of a route, and says which rank calls. */
static weir_status socket_call(const blocks_trial *t, blocks_route *r, uint16_t port)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int32_t rank = t->rank;
    r->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (r->fd < 0 || connect(r->fd, (struct sockaddr *)&at, sizeof at) != 0 ||
        write(r->fd, &rank, sizeof rank) != sizeof rank)
        return socket_fail(t, "no connection to", r->to);
    return WEIR_OK;
}

/* Accepts a connection, of whichever route. */
static weir_status socket_accept(blocks_trial *t, int listener)
{
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    int32_t rank = -1;
    const int fd = poll(&ready, 1, WAIT_MS) == 1 ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
    ready = (struct pollfd){.fd = fd, .events = POLLIN};
    if (fd >= 0 && poll(&ready, 1, WAIT_MS) == 1 && read(fd, &rank, sizeof rank) == sizeof rank)
        for (int i = 0; i < t->nreceives; i++)
            if (t->receives[i].from == rank && t->receives[i].fd < 0) {
                t->receives[i].fd = fd;
                return WEIR_OK;
            }
    if (fd >= 0)
        close(fd);
    return socket_fail(t, "no connection at", t->rank);
}

weir_status blocks_socket_open(blocks_trial *t)
{
    struct sockaddr_in at;
    const size_t n = (size_t)t->job->nranks;
    const int listener = socket_listen(&at);
    uint16_t *ports = calloc(n, sizeof *ports), port = at.sin_port;
    t->stream = malloc(BUFFER_BYTES);
    weir_status status = WEIR_OK;
    if (t->nsends + t->nreceives > 2 * BLOCKS_PEERS_MOST)
        status = bench_job_note(t->job, WEIR_ERR_INVALID,
                                "--peer socket: a rank has at most %d connections; start fewer "
                                "ranks",
                                2 * BLOCKS_PEERS_MOST);
    else if (listener < 0 || !ports || !t->stream)
        status = socket_fail(t, "no port for", t->rank);
    status = bench_job_agree(t->job, status, "socket");
    if (status == WEIR_OK) {
        bench_exchange_gather(t->job, &port, sizeof port, ports);
        bench_exchange_broadcast(t->job, ports, n * sizeof *ports, 0);
    }
    for (int i = 0; i < t->nsends && status == WEIR_OK; i++)
        status = socket_call(t, &t->sends[i], ports[t->names[t->sends[i].to]]);
    for (int i = 0; i < t->nreceives && status == WEIR_OK; i++)
        status = socket_accept(t, listener);
    if (listener >= 0)
        close(listener);
    free(ports);
    return bench_job_agree(t->job, status, "socket");
}

void blocks_socket_close(blocks_trial *t)
{
    for (int i = 0; i < t->nsends; i++)
        if (t->sends[i].fd >= 0)
            close(t->sends[i].fd);
    for (int i = 0; i < t->nreceives; i++)
        if (t->receives[i].fd >= 0)
            close(t->receives[i].fd);
    free(t->stream);
}

/* Moves as much of a route as its socket takes or has. Returns 0, or errno. */
static int socket_move(const blocks_trial *t, blocks_route *r)
{
    const int is_receive = r->to == t->rank;
    const size_t bytes = r->left < BUFFER_BYTES ? r->left : BUFFER_BYTES;
    const ssize_t moved = is_receive ? recv(r->fd, t->stream, bytes, MSG_DONTWAIT)
                                     : send(r->fd, t->stream, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (moved < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : errno;
    r->left -= (size_t)moved;
    return moved == 0 ? ECONNRESET : 0;
}

weir_status blocks_socket_run(blocks_trial *t)
{
    const int count = t->nsends + t->nreceives;
    struct pollfd ready[2 * BLOCKS_PEERS_MOST];
    for (int i = 0; i < count; i++) {
        blocks_route *r = i < t->nsends ? &t->sends[i] : &t->receives[i - t->nsends];
        r->left = r->count * t->block_bytes * t->dims[0].count * t->dims[1].count;
        ready[i] = (struct pollfd){.fd = r->fd, .events = i < t->nsends ? POLLOUT : POLLIN};
    }
    for (int left = count; left;) {
        left = 0;
        for (int i = 0; i < count; i++) {
            blocks_route *r = i < t->nsends ? &t->sends[i] : &t->receives[i - t->nsends];
            errno = r->left ? socket_move(t, r) : 0;
            if (errno)
                return socket_fail(t, "lost", r->from == t->rank ? r->to : r->from);
            left += r->left > 0;
            ready[i].fd = r->left ? r->fd : -1;
        }
        if (left && poll(ready, (nfds_t)count, WAIT_MS) == 0) {
            errno = ETIMEDOUT;
            return socket_fail(t, "nothing from the peers of", t->rank);
        }
    }
    return WEIR_OK;
}
