/* Connections between two ranks of one node, made on first use, and the messages over them. */
#define _GNU_SOURCE
#include "boot/direct.h"

#include "base/error.h"
#include "boot/deadline.h"
#include "boot/link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

typedef struct direct_frame {
    int32_t tag, unused;
    uint64_t bytes;
} direct_frame;

typedef struct direct_peer {
    int out, in;        /* -1: not connected */
    direct_frame frame; /* the header being received */
    size_t frame_bytes; /* bytes of it received so far */
} direct_peer;

struct weiri_direct {
    int rank, nranks, timeout_ms, listener;
    uint8_t key[WEIRI_KEY_BYTES];
    direct_peer peers[];
};

/* The abstract name of a rank's listening socket. */
static socklen_t direct_name(const weiri_direct *direct, int rank, struct sockaddr_un *name)
{
    char text[sizeof name->sun_path - 1];
    size_t used = (size_t)snprintf(text, sizeof text, "weir-");
    for (int i = 0; i < WEIRI_KEY_BYTES; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%02x", direct->key[i]);
    used += (size_t)snprintf(text + used, sizeof text - used, "-%d", rank);
    memset(name, 0, sizeof *name);
    name->sun_family = AF_UNIX;
    memcpy(name->sun_path + 1, text, used);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + used);
}

static int direct_socket(void)
{
    return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static weir_status direct_listen(weiri_direct *direct)
{
    struct sockaddr_un name;
    socklen_t length = direct_name(direct, direct->rank, &name);
    direct->listener = direct_socket();
    if (direct->listener < 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "rank %d cannot create a socket%s",
                                direct->rank, errno == EMFILE ? "; raise 'ulimit -n'" : "");
    if (bind(direct->listener, (const struct sockaddr *)&name, length) != 0 ||
        listen(direct->listener, direct->nranks) != 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "rank %d cannot listen for other ranks",
                                direct->rank);
    return WEIR_OK;
}

weir_status weiri_direct_create(int rank, int nranks, int timeout_ms,
                                const uint8_t key[WEIRI_KEY_BYTES], weiri_direct **direct)
{
    weiri_direct *made = calloc(1, sizeof *made + (size_t)nranks * sizeof made->peers[0]);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "rank %d: no memory for a bootstrap of %d ranks",
                          rank, nranks);
    made->rank = rank;
    made->nranks = nranks;
    made->timeout_ms = timeout_ms;
    memcpy(made->key, key, sizeof made->key);
    for (int peer = 0; peer < nranks; peer++)
        made->peers[peer].out = made->peers[peer].in = -1;
    weir_status status = direct_listen(made);
    if (status == WEIR_OK)
        *direct = made;
    else
        weiri_direct_destroy(made);
    return status;
}

void weiri_direct_set_timeout(weiri_direct *direct, int timeout_ms)
{
    direct->timeout_ms = timeout_ms;
}

void weiri_direct_destroy(weiri_direct *direct)
{
    if (!direct)
        return;
    for (int peer = 0; peer < direct->nranks; peer++) {
        if (direct->peers[peer].out >= 0)
            close(direct->peers[peer].out);
        if (direct->peers[peer].in >= 0)
            close(direct->peers[peer].in);
    }
    if (direct->listener >= 0)
        close(direct->listener);
    free(direct);
}

/* --------------------------------------------------------------- connecting */

/* Connects to a listening rank; retries while its queue of connections is full. */
static weir_status direct_dial(const weiri_direct *direct, int peer, const weiri_deadline *deadline,
                               int fd)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    struct sockaddr_un name;
    socklen_t length = direct_name(direct, peer, &name);
    while (connect(fd, (const struct sockaddr *)&name, length) != 0) {
        if (errno == ECONNREFUSED)
            return weiri_fail(WEIR_ERR_PEER, "rank %d is gone: it does not listen any more", peer);
        if (errno != EAGAIN && errno != EINTR)
            return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "connection to rank %d", peer);
        if (weiri_deadline_left_ms(deadline) == 0)
            return weiri_fail(WEIR_ERR_TIMEOUT, "rank %d has not accepted a connection after %d ms",
                              peer, deadline->timeout_ms);
        nanosleep(&nap, NULL);
    }
    return WEIR_OK;
}

/* Connects for sending, unless that is done. */
static weir_status direct_open(weiri_direct *direct, int peer, const weiri_deadline *deadline)
{
    if (direct->peers[peer].out >= 0)
        return WEIR_OK;
    int fd = direct_socket();
    if (fd < 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "socket to rank %d%s", peer,
                                errno == EMFILE ? "; raise 'ulimit -n'" : "");
    int32_t own = direct->rank;
    struct iovec hello = {&own, sizeof own};
    size_t done = 0;
    weir_status status = direct_dial(direct, peer, deadline, fd);
    if (status == WEIR_OK)
        status = weiri_link_write(fd, peer, &hello, 1, deadline, &done);
    if (status == WEIR_OK)
        direct->peers[peer].out = fd;
    else
        close(fd);
    return status;
}

static int direct_is_own_user(int fd)
{
    struct ucred who;
    socklen_t length = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.uid == geteuid();
}

/* Accepts one connection, if there is any, and reads whose it is. */
static void direct_accept(weiri_direct *direct)
{
    enum { HELLO_MS = 1000 }; /* it is sent together with the connection */
    int fd = accept4(direct->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    int32_t from = -1;
    size_t done = 0;
    weiri_deadline deadline = weiri_deadline_in(HELLO_MS);
    if (!direct_is_own_user(fd) ||
        weiri_link_read(fd, direct->rank, &from, sizeof from, &deadline, &done) != WEIR_OK ||
        from < 0 || from >= direct->nranks || direct->peers[from].in >= 0)
        close(fd);
    else
        direct->peers[from].in = fd;
}

/* Waits until the peer has connected. This rank's connection to it shows whether it has ended. */
static weir_status direct_await(weiri_direct *direct, int peer, const weiri_deadline *deadline)
{
    int ended = 0;
    weir_status status = WEIR_OK;
    while (direct->peers[peer].in < 0) {
        status = direct_open(direct, peer, deadline);
        struct pollfd set[2] = {{.fd = direct->listener, .events = POLLIN},
                                {.fd = direct->peers[peer].out, .events = POLLRDHUP}};
        int left_ms = weiri_deadline_left_ms(deadline);
        int ready = poll(set, status == WEIR_OK ? 2 : 1, status == WEIR_OK ? left_ms : 0);
        if (ready > 0 && set[0].revents) {
            direct_accept(direct);
            continue;
        }
        if (status != WEIR_OK)
            return status;
        if (ready > 0 && set[1].revents && ended++)
            return weiri_fail(WEIR_ERR_PEER, "rank %d is gone: it closed the connection", peer);
        if (ready == 0 && left_ms == 0)
            return weiri_fail(WEIR_ERR_TIMEOUT,
                              "rank %d has not answered after %d ms; is it stuck, or slower than "
                              "WEIR_TIMEOUT_MS allows?",
                              peer, deadline->timeout_ms);
    }
    return WEIR_OK;
}

/* ----------------------------------------------------------------- messages */

weir_status weiri_direct_send(weiri_direct *direct, const void *data, size_t bytes, int peer,
                              int tag)
{
    direct_frame frame = {.tag = tag, .bytes = bytes};
    struct iovec parts[2] = {{&frame, sizeof frame}, {(void *)(uintptr_t)data, bytes}};
    weiri_deadline deadline = weiri_deadline_in(direct->timeout_ms);
    size_t done = 0;
    weir_status status = direct_open(direct, peer, &deadline);
    if (status == WEIR_OK)
        status = weiri_link_write(direct->peers[peer].out, peer, parts, 2, &deadline, &done);
    if (status == WEIR_OK)
        return WEIR_OK;
    if (done > 0) { /* the stream ends within a message */
        close(direct->peers[peer].out);
        direct->peers[peer].out = -1;
    }
    return weiri_fail_context(status, "rank %d sends %zu bytes with tag %d to rank %d",
                              direct->rank, bytes, tag, peer);
}

static weir_status direct_receive(weiri_direct *direct, void *data, size_t bytes, int peer, int tag,
                                  const weiri_deadline *deadline)
{
    direct_peer *from = &direct->peers[peer];
    weir_status status = direct_await(direct, peer, deadline);
    if (status == WEIR_OK)
        status = weiri_link_read(from->in, peer, &from->frame, sizeof from->frame, deadline,
                                 &from->frame_bytes);
    if (status != WEIR_OK)
        return status;
    from->frame_bytes = 0;
    size_t done = 0;
    if (from->frame.tag == tag && from->frame.bytes == bytes)
        return weiri_link_read(from->in, peer, data, bytes, deadline, &done);
    status = weiri_link_discard(from->in, peer, from->frame.bytes, deadline);
    if (status != WEIR_OK)
        return status;
    return weiri_fail(WEIR_ERR_MISMATCH,
                      "rank %d expected %zu bytes with tag %d from rank %d, got %llu bytes with "
                      "tag %d; sends and receives of two ranks must match in order",
                      direct->rank, bytes, tag, peer, (unsigned long long)from->frame.bytes,
                      from->frame.tag);
}

weir_status weiri_direct_recv(weiri_direct *direct, void *data, size_t bytes, int peer, int tag)
{
    weiri_deadline deadline = weiri_deadline_in(direct->timeout_ms);
    weir_status status = direct_receive(direct, data, bytes, peer, tag, &deadline);
    if (status == WEIR_OK || status == WEIR_ERR_MISMATCH)
        return status;
    return weiri_fail_context(status, "rank %d receives %zu bytes with tag %d", direct->rank,
                              bytes, tag);
}
