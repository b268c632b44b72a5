/* TCP sockets: listening, and connecting with retries until a deadline. */
#include "boot/socket.h"

#include "base/fd.h"
#include "base/error.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void weiri_socket_no_delay(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static int socket_open(const weiri_address *address)
{
    return weiri_fd_raise(socket(address->is_ipv6 ? AF_INET6 : AF_INET,
                                 SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

/* Binds, with retries for a second: the port may be in use for a moment by a process that tries to
 * connect to it, since the kernel assigns local ports of connections from the same range. Returns 0
 * or the errno. */
static int socket_bind_and_listen(int fd, const weiri_address *address)
{
    enum { BACKLOG = 1024, TRIES = 50 };
    struct timespec nap = {.tv_nsec = 20000000};
    struct sockaddr_storage name;
    socklen_t bytes = weiri_address_to_socket(address, &name);
    for (int try = 1;; try++) {
        if (bind(fd, (struct sockaddr *)&name, bytes) == 0)
            return listen(fd, BACKLOG) == 0 ? 0 : errno;
        if (errno != EADDRINUSE || address->port == 0 || try == TRIES)
            return errno;
        nanosleep(&nap, NULL);
    }
}

weir_status weiri_socket_listen(const weiri_address *address, int *fd)
{
    char text[WEIRI_ADDRESS_TEXT_BYTES];
    int on = 1;
    int made = socket_open(address);
    if (made < 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "socket for %s",
                                weiri_address_text(address, text));
    /* Allows a port whose last connections are in TIME_WAIT. */
    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    int error_number = socket_bind_and_listen(made, address);
    if (error_number != 0) {
        close(made);
        return weiri_fail_errno(WEIR_ERR_SYSTEM, error_number,
                                "cannot listen at %s; choose a free port and an address of this "
                                "node",
                                weiri_address_text(address, text));
    }
    *fd = made;
    return WEIR_OK;
}

weir_status weiri_socket_address(int fd, weiri_address *address)
{
    struct sockaddr_storage name = {0};
    socklen_t bytes = sizeof name;
    if (getsockname(fd, (struct sockaddr *)&name, &bytes) != 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "address of a socket");
    return weiri_address_from_socket(&name, address);
}

/* A socket can connect to itself if nothing listens at the port and the kernel assigns that port to
 * the connection. */
static int socket_is_connected_to_itself(int fd)
{
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t here_bytes = sizeof here, there_bytes = sizeof there;
    return getsockname(fd, (struct sockaddr *)&here, &here_bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &there_bytes) == 0 &&
           here_bytes == there_bytes && memcmp(&here, &there, here_bytes) == 0;
}

int weiri_socket_finish(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLOUT};
    int error_number = 0;
    socklen_t bytes = sizeof error_number;
    if (poll(&one, 1, 0) <= 0)
        return EINPROGRESS;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error_number, &bytes) != 0)
        return errno;
    if (error_number == 0 && socket_is_connected_to_itself(fd))
        return ECONNREFUSED;
    return error_number;
}

/* Returns 0, or the errno of the attempt; ETIME if the deadline has passed. */
static int socket_await_connection(int fd, const weiri_deadline *deadline)
{
    for (;;) {
        struct pollfd one = {.fd = fd, .events = POLLOUT};
        int left_ms = weiri_deadline_left_ms(deadline);
        int ready = poll(&one, 1, left_ms);
        if (ready < 0 && errno != EINTR)
            return errno;
        int outcome = ready > 0 ? weiri_socket_finish(fd) : EINPROGRESS;
        if (outcome != EINPROGRESS)
            return outcome;
        if (left_ms == 0)
            return ETIME;
    }
}

int weiri_socket_begin(const weiri_socket_call *call, int *fd)
{
    struct sockaddr_storage name;
    socklen_t bytes;
    int error_number = 0;
    int made = socket_open(call->to);
    if (made < 0)
        return errno;
    if (call->source) {
        /* The kernel then chooses the port in connect, so that bind does not reserve it. */
        const int on = 1;
        setsockopt(made, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
        bytes = weiri_address_to_socket(call->source, &name);
        if (bind(made, (struct sockaddr *)&name, bytes) != 0)
            error_number = errno;
    }
    if (error_number == 0) {
        weiri_socket_no_delay(made);
        bytes = weiri_address_to_socket(call->to, &name);
        if (connect(made, (struct sockaddr *)&name, bytes) != 0)
            error_number = errno;
    }
    if (error_number != 0 && error_number != EINPROGRESS) {
        close(made);
        return error_number;
    }
    *fd = made;
    return EINPROGRESS;
}

/* Makes one attempt. Returns 0 and *fd, or the errno. */
static int socket_attempt(const weiri_socket_call *call, const weiri_deadline *deadline, int *fd)
{
    int made = -1, error_number = weiri_socket_begin(call, &made);
    if (error_number != EINPROGRESS)
        return error_number;
    error_number = socket_await_connection(made, deadline);
    if (error_number != 0) {
        close(made);
        return error_number;
    }
    *fd = made;
    return 0;
}

int weiri_socket_error_may_pass(int error_number)
{
    return error_number == ECONNREFUSED || error_number == ECONNRESET ||
           error_number == ETIMEDOUT || error_number == EHOSTUNREACH ||
           error_number == ENETUNREACH || error_number == EINTR || error_number == EAGAIN;
}

weir_status weiri_socket_connect(const weiri_socket_call *call, const weiri_deadline *deadline,
                                 int *fd)
{
    enum { LONGEST_NAP_NS = 50000000 };
    char text[WEIRI_ADDRESS_TEXT_BYTES];
    struct timespec nap = {.tv_nsec = 1000000};
    for (;;) {
        int error_number = socket_attempt(call, deadline, fd);
        if (error_number == 0)
            return WEIR_OK;
        weiri_address_text(call->to, text);
        if (error_number == ETIME || weiri_deadline_left_ms(deadline) == 0)
            return weiri_fail_errno(WEIR_ERR_TIMEOUT, error_number,
                                    "rank %d could not reach rank %d at %s within %d ms; is it "
                                    "running, has its job not started without this process, and "
                                    "does a firewall let the port through?",
                                    call->rank, call->peer, text, deadline->timeout_ms);
        if (!call->patient && error_number == ECONNREFUSED)
            return weiri_fail(WEIR_ERR_PEER,
                              "rank %d: nothing listens at %s: rank %d has ended, or all its ranks "
                              "have connected, so that another process is rank %d",
                              call->rank, text, call->peer, call->rank);
        if (!weiri_socket_error_may_pass(error_number))
            return weiri_fail_errno(WEIR_ERR_SYSTEM, error_number,
                                    "rank %d cannot connect to rank %d at %s", call->rank,
                                    call->peer, text);
        nanosleep(&nap, NULL);
        if (nap.tv_nsec < LONGEST_NAP_NS)
            nap.tv_nsec *= 2;
    }
}
