/* Connections between two ranks, made on first use, and the messages over them. */
#define _GNU_SOURCE
#include "boot/direct.h"

#include "base/fd.h"
#include "base/error.h"
#include "boot/deadline.h"
#include "boot/link.h"
#include "boot/socket.h"

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

/* The first bytes of a connection. */
typedef struct direct_greeting {
    int32_t from, to;
    uint8_t mac[WEIRI_MAC_BYTES]; /* over the ranks, with the job's key */
} direct_greeting;

/* An accepted connection whose greeting has not arrived yet. */
typedef struct direct_guest {
    int fd;
    direct_greeting greeting;
    size_t bytes; /* of the greeting received so far */
    uint64_t came_ns;
} direct_guest;

typedef struct direct_peer {
    int out, in;        /* -1: not connected */
    direct_frame frame; /* the header being received */
    size_t frame_bytes; /* bytes of it received so far */
    int is_cut_off;     /* a message was received in part */
} direct_peer;

enum { GUESTS = 32, GUEST_MS = 1000 }; /* a full list drops its oldest guest after this time */

struct weiri_direct {
    weiri_direct_job job;
    int listener, shut;
    weiri_address *table; /* TCP: where ranks listen; Unix: NULL */
    weiri_address source; /* TCP: local address of connections, if has_source */
    int has_source;
    int nguests;
    direct_guest guests[GUESTS]; /* in order of arrival */
    direct_peer peers[];
};

/* ------------------------------------------------------------------- set-up */

/* The abstract name of a rank's listening socket. */
static socklen_t direct_name(const weiri_direct *direct, int rank, struct sockaddr_un *name)
{
    char text[sizeof name->sun_path - 1];
    size_t used = (size_t)snprintf(text, sizeof text, "weir-");
    for (int i = 0; i < WEIRI_KEY_BYTES; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%02x", direct->job.key[i]);
    used += (size_t)snprintf(text + used, sizeof text - used, "-%d", rank);
    memset(name, 0, sizeof *name);
    name->sun_family = AF_UNIX;
    memcpy(name->sun_path + 1, text, used);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + used);
}

static int direct_socket(void)
{
    return weiri_fd_raise(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

static weir_status direct_listen(weiri_direct *direct)
{
    struct sockaddr_un name;
    socklen_t length = direct_name(direct, direct->job.rank, &name);
    direct->listener = direct_socket();
    if (direct->listener < 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "rank %d cannot create a socket%s",
                                direct->job.rank, errno == EMFILE ? "; raise 'ulimit -n'" : "");
    if (bind(direct->listener, (const struct sockaddr *)&name, length) != 0 ||
        listen(direct->listener, direct->job.nranks) != 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "rank %d cannot listen for other ranks",
                                direct->job.rank);
    return WEIR_OK;
}

/* Returns NULL without memory. */
static weiri_direct *direct_new(const weiri_direct_job *job)
{
    weiri_direct *direct =
        calloc(1, sizeof *direct + (size_t)job->nranks * sizeof direct->peers[0]);
    if (!direct) {
        weiri_fail(WEIR_ERR_NO_MEMORY, "rank %d: no memory for a bootstrap of %d ranks", job->rank,
                   job->nranks);
        return NULL;
    }
    direct->job = *job;
    direct->listener = -1;
    for (int peer = 0; peer < job->nranks; peer++)
        direct->peers[peer].out = direct->peers[peer].in = -1;
    return direct;
}

weir_status weiri_direct_create(const weiri_direct_job *job, weiri_direct **direct)
{
    weiri_direct *made = direct_new(job);
    if (!made)
        return WEIR_ERR_NO_MEMORY;
    weir_status status = direct_listen(made);
    if (status == WEIR_OK)
        *direct = made;
    else
        weiri_direct_destroy(made);
    return status;
}

weir_status weiri_direct_create_tcp(const weiri_direct_job *job, int listener,
                                    const weiri_address *table, const weiri_address *source,
                                    weiri_direct **direct)
{
    size_t bytes = (size_t)job->nranks * sizeof *table;
    weiri_direct *made = direct_new(job);
    if (!made)
        return WEIR_ERR_NO_MEMORY;
    made->table = malloc(bytes);
    if (!made->table) {
        weiri_direct_destroy(made);
        return weiri_fail(WEIR_ERR_NO_MEMORY, "rank %d: no memory for a table of %d ranks",
                          job->rank, job->nranks);
    }
    memcpy(made->table, table, bytes);
    if (source) {
        made->source = *source;
        made->has_source = 1;
    }
    made->listener = listener;
    *direct = made;
    return WEIR_OK;
}

void weiri_direct_set_timeout(weiri_direct *direct, int timeout_ms)
{
    direct->job.timeout_ms = timeout_ms;
}

void weiri_direct_shut(weiri_direct *direct)
{
    __atomic_store_n(&direct->shut, 1, __ATOMIC_SEQ_CST);
    shutdown(direct->listener, SHUT_RDWR); /* ends a poll */
    for (int peer = 0; peer < direct->job.nranks; peer++) {
        int ends[2] = {__atomic_load_n(&direct->peers[peer].out, __ATOMIC_SEQ_CST),
                       __atomic_load_n(&direct->peers[peer].in, __ATOMIC_SEQ_CST)};
        for (int i = 0; i < 2; i++)
            if (ends[i] >= 0)
                shutdown(ends[i], SHUT_RDWR);
    }
}

void weiri_direct_destroy(weiri_direct *direct)
{
    if (!direct)
        return;
    for (int peer = 0; peer < direct->job.nranks; peer++) {
        if (direct->peers[peer].out >= 0)
            close(direct->peers[peer].out);
        if (direct->peers[peer].in >= 0)
            close(direct->peers[peer].in);
    }
    for (int i = 0; i < direct->nguests; i++)
        close(direct->guests[i].fd);
    if (direct->listener >= 0)
        close(direct->listener);
    free(direct->table);
    free(direct);
}

/* --------------------------------------------------------------- connecting */

static void direct_sign(const weiri_direct *direct, direct_greeting *greeting)
{
    weiri_mac(direct->job.key, greeting, offsetof(direct_greeting, mac), greeting->mac);
}

/* Connects to a Unix socket; retries while its queue of connections is full. */
static weir_status direct_dial_unix(const weiri_direct *direct, int peer,
                                    const weiri_deadline *deadline, int *fd)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    struct sockaddr_un name;
    socklen_t length = direct_name(direct, peer, &name);
    *fd = direct_socket();
    if (*fd < 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "socket to rank %d%s", peer,
                                errno == EMFILE ? "; raise 'ulimit -n'" : "");
    while (connect(*fd, (const struct sockaddr *)&name, length) != 0) {
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

static weir_status direct_dial(const weiri_direct *direct, int peer, const weiri_deadline *deadline,
                               int *fd)
{
    if (!direct->table)
        return direct_dial_unix(direct, peer, deadline, fd);
    const weiri_socket_call call = {.rank = direct->job.rank,
                                    .peer = peer,
                                    .to = &direct->table[peer],
                                    .source = direct->has_source ? &direct->source : NULL};
    return weiri_socket_connect(&call, deadline, fd);
}

/* Connects for sending, unless that is done. */
static weir_status direct_open(weiri_direct *direct, int peer, const weiri_deadline *deadline)
{
    if (__atomic_load_n(&direct->shut, __ATOMIC_SEQ_CST))
        return weiri_fail(WEIR_ERR_PEER, "rank %d: the bootstrap was shut", direct->job.rank);
    if (direct->peers[peer].out >= 0)
        return WEIR_OK;
    int fd = -1;
    direct_greeting greeting = {.from = direct->job.rank, .to = peer};
    direct_sign(direct, &greeting);
    struct iovec part = {&greeting, sizeof greeting};
    size_t done = 0;
    weir_status status = direct_dial(direct, peer, deadline, &fd);
    if (status == WEIR_OK)
        status = weiri_link_write(fd, peer, &part, 1, deadline, &done);
    if (status == WEIR_OK)
        __atomic_store_n(&direct->peers[peer].out, fd, __ATOMIC_SEQ_CST);
    else if (fd >= 0)
        close(fd);
    return status;
}

static int direct_is_own_user(int fd)
{
    struct ucred who;
    socklen_t length = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.uid == geteuid();
}

/* Removes a guest from the list. Its descriptor is the caller's. */
static void direct_remove_guest(weiri_direct *direct, int index)
{
    direct->nguests--;
    memmove(&direct->guests[index], &direct->guests[index + 1],
            (size_t)(direct->nguests - index) * sizeof direct->guests[0]);
}

/* Accepts a connection, if there is any and room for it. */
static void direct_accept(weiri_direct *direct)
{
    if (direct->nguests == GUESTS) {
        if (weir_clock_ns() - direct->guests[0].came_ns < GUEST_MS * UINT64_C(1000000))
            return;
        close(direct->guests[0].fd);
        direct_remove_guest(direct, 0);
    }
    int fd = weiri_fd_raise(accept4(direct->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd < 0)
        return;
    if (direct->table)
        weiri_socket_no_delay(fd);
    if (direct->table || direct_is_own_user(fd))
        direct->guests[direct->nguests++] = (direct_guest){.fd = fd, .came_ns = weir_clock_ns()};
    else
        close(fd);
}

static int direct_believes(const weiri_direct *direct, const direct_greeting *greeting)
{
    direct_greeting expected = {.from = greeting->from, .to = direct->job.rank};
    direct_sign(direct, &expected);
    return weiri_mac_equal(expected.mac, greeting->mac) && greeting->to == direct->job.rank &&
           greeting->from >= 0 && greeting->from < direct->job.nranks &&
           direct->peers[greeting->from].in < 0;
}

/* Reads what a guest has sent. Returns 1 if it stays a guest. */
static int direct_hear(weiri_direct *direct, direct_guest *guest)
{
    weir_status status = weiri_link_read_some(guest->fd, direct->job.rank, &guest->greeting,
                                              sizeof guest->greeting, &guest->bytes);
    if (status == WEIR_OK && guest->bytes < sizeof guest->greeting)
        return 1;
    if (status == WEIR_OK && direct_believes(direct, &guest->greeting))
        __atomic_store_n(&direct->peers[guest->greeting.from].in, guest->fd, __ATOMIC_SEQ_CST);
    else
        close(guest->fd);
    return 0;
}

/* Waits for guests, for connections, and for the end of a connection (-1: none). Returns 1 if that
 * has ended, and sets *idle if nothing happened. */
static int direct_poll(weiri_direct *direct, int watched, int wait_ms, int *idle)
{
    struct pollfd set[2 + GUESTS] = {{.fd = direct->listener, .events = POLLIN},
                                     {.fd = watched, .events = POLLRDHUP}};
    const int count = direct->nguests;
    if (count == GUESTS) { /* until the oldest has had its time */
        uint64_t age_ms = (weir_clock_ns() - direct->guests[0].came_ns) / 1000000;
        set[0].fd = age_ms < GUEST_MS ? -1 : direct->listener;
        if (age_ms < GUEST_MS && wait_ms > (int)(GUEST_MS - age_ms))
            wait_ms = (int)(GUEST_MS - age_ms);
    }
    for (int i = 0; i < count; i++)
        set[2 + i] = (struct pollfd){.fd = direct->guests[i].fd, .events = POLLIN};
    *idle = poll(set, (nfds_t)(2 + count), wait_ms) <= 0;
    if (*idle)
        return 0;
    for (int i = count - 1; i >= 0; i--)
        if (set[2 + i].revents && !direct_hear(direct, &direct->guests[i]))
            direct_remove_guest(direct, i);
    if (set[0].revents)
        direct_accept(direct);
    return watched >= 0 && set[1].revents;
}

/* Waits until the peer has connected. This rank's connection to it shows whether it has ended. */
static weir_status direct_await(weiri_direct *direct, int peer, const weiri_deadline *deadline)
{
    int ended = 0, idle = 0;
    while (direct->peers[peer].in < 0) {
        weir_status status = direct_open(direct, peer, deadline);
        const int reached = status == WEIR_OK && !ended;
        int left_ms = weiri_deadline_left_ms(deadline);
        /* Once the peer has ended, hears only what it sent before. */
        ended |= direct_poll(direct, reached ? direct->peers[peer].out : -1, reached ? left_ms : 0,
                             &idle);
        if (!idle)
            continue;
        if (status != WEIR_OK)
            return status;
        if (ended)
            return weiri_fail(WEIR_ERR_PEER, "rank %d is gone: it closed the connection", peer);
        if (left_ms == 0)
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
    weiri_deadline deadline = weiri_deadline_in(direct->job.timeout_ms);
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
                              direct->job.rank, bytes, tag, peer);
}

/* Receives the payload of the current frame, or discards it if it does not match. After a failure
 * the stream has the rest of it, so nothing more is read. */
static weir_status direct_receive_payload(direct_peer *from, void *data, int matches, int peer,
                                          const weiri_deadline *deadline)
{
    const size_t bytes = (size_t)from->frame.bytes;
    size_t done = 0;
    weir_status status = matches ? weiri_link_read(from->in, peer, data, bytes, deadline, &done)
                                 : weiri_link_discard(from->in, peer, bytes, deadline);
    if (status != WEIR_OK) {
        from->is_cut_off = 1;
        shutdown(from->in, SHUT_RDWR); /* ends the peer's send */
    }
    return status;
}

static weir_status direct_receive(weiri_direct *direct, void *data, size_t bytes, int peer, int tag,
                                  const weiri_deadline *deadline)
{
    direct_peer *from = &direct->peers[peer];
    if (from->is_cut_off)
        return weiri_fail(WEIR_ERR_PEER, "a message of rank %d was received in part only", peer);
    weir_status status = direct_await(direct, peer, deadline);
    if (status == WEIR_OK)
        status = weiri_link_read(from->in, peer, &from->frame, sizeof from->frame, deadline,
                                 &from->frame_bytes);
    if (status != WEIR_OK)
        return status;
    from->frame_bytes = 0;
    const int matches = from->frame.tag == tag && from->frame.bytes == bytes;
    status = direct_receive_payload(from, data, matches, peer, deadline);
    if (matches || status != WEIR_OK)
        return status;
    return weiri_fail(WEIR_ERR_MISMATCH,
                      "rank %d expected %zu bytes with tag %d from rank %d, got %llu bytes with "
                      "tag %d; sends and receives of two ranks must match in order",
                      direct->job.rank, bytes, tag, peer, (unsigned long long)from->frame.bytes,
                      from->frame.tag);
}

weir_status weiri_direct_recv(weiri_direct *direct, void *data, size_t bytes, int peer, int tag)
{
    weiri_deadline deadline = weiri_deadline_in(direct->job.timeout_ms);
    weir_status status = direct_receive(direct, data, bytes, peer, tag, &deadline);
    if (status == WEIR_OK || status == WEIR_ERR_MISMATCH)
        return status;
    return weiri_fail_context(status, "rank %d receives %zu bytes with tag %d", direct->job.rank,
                              bytes, tag);
}
