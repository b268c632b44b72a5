/* Reads and writes on a stream socket, with deadlines, in terms of ranks. */
#include "boot/link.h"

#include "base/error.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

static weir_status link_fail_gone(int peer, int error_number)
{
    if (error_number == 0)
        return weiri_fail(WEIR_ERR_PEER, "rank %d is gone: it closed the connection", peer);
    if (error_number == EPIPE || error_number == ECONNRESET || error_number == ETIMEDOUT)
        return weiri_fail_errno(WEIR_ERR_PEER, error_number, "rank %d is gone", peer);
    return weiri_fail_errno(WEIR_ERR_SYSTEM, error_number, "connection to rank %d", peer);
}

/* Calls recv once. *moved is 0 if no data has arrived. */
static weir_status link_read_once(int fd, int peer, void *data, size_t bytes, size_t *moved)
{
    ssize_t got;
    do
        got = recv(fd, data, bytes, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        *moved = 0;
        return WEIR_OK;
    }
    if (got <= 0)
        return link_fail_gone(peer, got == 0 ? 0 : errno);
    *moved = (size_t)got;
    return WEIR_OK;
}

weir_status weiri_link_read_some(int fd, int peer, void *data, size_t bytes, size_t *done)
{
    while (*done < bytes) {
        size_t moved;
        weir_status status = link_read_once(fd, peer, (char *)data + *done, bytes - *done, &moved);
        if (status != WEIR_OK || moved == 0)
            return status;
        *done += moved;
    }
    return WEIR_OK;
}

weir_status weiri_link_discard_some(int fd, int peer, uint64_t bytes, uint64_t *done)
{
    char scratch[4096];
    while (*done < bytes) {
        uint64_t left = bytes - *done;
        size_t moved;
        weir_status status = link_read_once(
            fd, peer, scratch, left < sizeof scratch ? (size_t)left : sizeof scratch, &moved);
        if (status != WEIR_OK || moved == 0)
            return status;
        *done += moved;
    }
    return WEIR_OK;
}

/* Removes the first done bytes from the parts; returns the number of parts that remain. */
static int link_remaining_parts(const struct iovec *parts, int nparts, size_t done,
                                struct iovec left[2])
{
    int count = 0;
    for (int i = 0; i < nparts; i++) {
        size_t skip = done < parts[i].iov_len ? done : parts[i].iov_len;
        done -= skip;
        if (skip < parts[i].iov_len)
            left[count++] =
                (struct iovec){(char *)parts[i].iov_base + skip, parts[i].iov_len - skip};
    }
    return count;
}

weir_status weiri_link_write_some(int fd, int peer, const struct iovec *parts, int nparts,
                                  size_t *done)
{
    struct iovec left[2];
    int count;
    while ((count = link_remaining_parts(parts, nparts, *done, left)) > 0) {
        struct msghdr message = {.msg_iov = left, .msg_iovlen = (size_t)count};
        ssize_t put = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return WEIR_OK;
        if (put < 0)
            return link_fail_gone(peer, errno);
        *done += (size_t)put;
    }
    return WEIR_OK;
}

static weir_status link_await(int fd, int peer, short events, const weiri_deadline *deadline)
{
    for (;;) {
        struct pollfd one = {.fd = fd, .events = events};
        int left_ms = weiri_deadline_left_ms(deadline);
        int ready = poll(&one, 1, left_ms);
        if (ready > 0)
            return WEIR_OK;
        if (ready < 0 && errno != EINTR)
            return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "poll on rank %d", peer);
        if (left_ms == 0)
            return weiri_fail(WEIR_ERR_TIMEOUT,
                              "rank %d has not answered after %d ms; is it stuck, or slower than "
                              "WEIR_TIMEOUT_MS allows?",
                              peer, deadline->timeout_ms);
    }
}

weir_status weiri_link_read(int fd, int peer, void *data, size_t bytes,
                            const weiri_deadline *deadline, size_t *done)
{
    for (;;) {
        weir_status status = weiri_link_read_some(fd, peer, data, bytes, done);
        if (status != WEIR_OK || *done == bytes)
            return status;
        status = link_await(fd, peer, POLLIN, deadline);
        if (status != WEIR_OK)
            return status;
    }
}

weir_status weiri_link_discard(int fd, int peer, uint64_t bytes, const weiri_deadline *deadline)
{
    uint64_t done = 0;
    for (;;) {
        weir_status status = weiri_link_discard_some(fd, peer, bytes, &done);
        if (status != WEIR_OK || done == bytes)
            return status;
        status = link_await(fd, peer, POLLIN, deadline);
        if (status != WEIR_OK)
            return status;
    }
}

weir_status weiri_link_write(int fd, int peer, const struct iovec *parts, int nparts,
                             const weiri_deadline *deadline, size_t *done)
{
    size_t bytes = 0;
    for (int i = 0; i < nparts; i++)
        bytes += parts[i].iov_len;
    for (;;) {
        weir_status status = weiri_link_write_some(fd, peer, parts, nparts, done);
        if (status != WEIR_OK || *done == bytes)
            return status;
        status = link_await(fd, peer, POLLOUT, deadline);
        if (status != WEIR_OK)
            return status;
    }
}

void weiri_link_close_all(int *fds, int count)
{
    for (int i = 0; i < count; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}
