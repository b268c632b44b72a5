/* Passes descriptors of segments over a Unix socket; see descriptor.h. */
#define _GNU_SOURCE /* struct ucred */
#include "transport/mapped/descriptor.h"

#include "base/config.h"
#include "base/fd.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/mac.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { NAME_BYTES = 32, PEERS_WAITING = 128, REQUEST_MS = 1000, PAUSE_MS = 10 };

/* What the handle of a key contains. */
typedef struct descriptor_ticket {
    char name[NAME_BYTES]; /* of the socket, without the leading zero; empty: none */
    uint8_t secret[WEIRI_MAC_BYTES];
} descriptor_ticket;
_Static_assert(sizeof(descriptor_ticket) <= WEIRI_KEY_HANDLE_BYTES, "a ticket fits into a key");

/* A peer's message; the answer is one byte, with the descriptor if it is offered. */
typedef struct descriptor_request {
    uint8_t secret[WEIRI_MAC_BYTES];
    uint64_t inode;
    int32_t fd;
} descriptor_request;

typedef struct descriptor_offered {
    struct descriptor_offered *next;
    uint64_t inode;
    int fd;
} descriptor_offered;

typedef struct descriptor_service {
    descriptor_ticket ticket;
    descriptor_offered *offered; /* under service_lock */
    pthread_t thread;
    int listener;
    int forks; /* of weiri_fork_count(): a child has no thread */
    int has_to_end;
} descriptor_service;

static pthread_mutex_t service_lock = PTHREAD_MUTEX_INITIALIZER;
static descriptor_service *service; /* NULL while nothing is offered */

/* 1 if /proc lists this process under its own number: not if there is none, or if it is that of
 * another pid namespace ('unshare --pid' without --mount-proc). */
static int descriptor_proc_is_own(void)
{
    char path[32], number[16] = "";
    snprintf(path, sizeof path, "/proc/%d/fd", (int)getpid());
    return readlink("/proc/self", number, sizeof number - 1) > 0 && atoi(number) == (int)getpid() &&
           access(path, X_OK) == 0;
}

int weiri_descriptor_needs_passing(void)
{
    return prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 1 || !descriptor_proc_is_own();
}

static socklen_t descriptor_address(const descriptor_ticket *ticket, struct sockaddr_un *address)
{
    const size_t length = strnlen(ticket->name, sizeof ticket->name);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path + 1, ticket->name, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

static void descriptor_limit_waits(int socket_fd, int milliseconds)
{
    const struct timeval limit = {.tv_sec = milliseconds / 1000,
                                  .tv_usec = (suseconds_t)(milliseconds % 1000) * 1000};
    setsockopt(socket_fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(socket_fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/* ----------------------------------------------------------------- the owner */

/* Sends the answer; fd is -1 if the request is refused. */
static void descriptor_answer(int peer, int fd)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    char byte = 0;
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        *rights = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
        memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    }
    ssize_t sent = sendmsg(peer, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent; /* a peer that does not take the answer reports that itself */
}

/* Serves one connection. The lock keeps the descriptor open until it has been sent. */
static void descriptor_serve(descriptor_service *self, int peer)
{
    struct ucred user = {.uid = (uid_t)-1};
    socklen_t length = sizeof user;
    descriptor_request request;
    if (getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &user, &length) != 0 || user.uid != geteuid())
        return;
    descriptor_limit_waits(peer, REQUEST_MS);
    if (recv(peer, &request, sizeof request, 0) != (ssize_t)sizeof request ||
        !weiri_mac_equal(request.secret, self->ticket.secret))
        return;
    pthread_mutex_lock(&service_lock);
    const descriptor_offered *one = self->offered;
    while (one && (one->fd != request.fd || one->inode != request.inode))
        one = one->next;
    descriptor_answer(peer, one ? one->fd : -1);
    pthread_mutex_unlock(&service_lock);
}

static void *descriptor_run(void *argument)
{
    descriptor_service *self = argument;
    while (!__atomic_load_n(&self->has_to_end, __ATOMIC_ACQUIRE)) {
        const int peer = weiri_fd_raise(accept4(self->listener, NULL, NULL, SOCK_CLOEXEC));
        if (peer >= 0) {
            descriptor_serve(self, peer);
            close(peer);
        } else if (errno != EINTR) {
            poll(NULL, 0, PAUSE_MS); /* the limit of open files may be temporary */
        }
    }
    return NULL;
}

/* The thread blocks all signals, which are for the program's own threads. */
static int descriptor_start_thread(descriptor_service *self)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error_number = pthread_create(&self->thread, NULL, descriptor_run, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error_number;
}

static weir_status descriptor_listen(descriptor_service *self)
{
    uint64_t random[2];
    struct sockaddr_un address;
    weir_status status = weiri_random(random, sizeof random);
    if (status == WEIR_OK)
        status = weiri_random(self->ticket.secret, sizeof self->ticket.secret);
    if (status != WEIR_OK)
        return status;
    snprintf(self->ticket.name, sizeof self->ticket.name, "weir-%08x%016llx", (unsigned)random[0],
             (unsigned long long)random[1]);
    const socklen_t length = descriptor_address(&self->ticket, &address);
    self->listener = weiri_fd_raise(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (self->listener < 0 ||
        bind(self->listener, (const struct sockaddr *)&address, length) != 0 ||
        listen(self->listener, PEERS_WAITING) != 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno,
                                "cannot listen at a Unix socket, over which a process that is not "
                                "dumpable shares memory");
    return WEIR_OK;
}

static void descriptor_free(descriptor_service *self)
{
    if (self->listener >= 0)
        close(self->listener);
    free(self);
}

static void descriptor_log_once(void)
{
    static int is_logged;
    if (!__atomic_exchange_n(&is_logged, 1, __ATOMIC_RELAXED))
        weiri_log(WEIRI_LOG_INFO,
                  "process %d is not dumpable (prctl PR_SET_DUMPABLE, or a setuid or unreadable "
                  "program), or /proc is not of its pid namespace: it passes its shared memory to "
                  "peers over a Unix socket",
                  (int)getpid());
}

static weir_status descriptor_start(descriptor_service **started)
{
    descriptor_service *self = calloc(1, sizeof *self);
    if (!self)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a service of descriptors");
    self->forks = weiri_fork_count();
    self->listener = -1;
    weir_status status = descriptor_listen(self);
    if (status == WEIR_OK) {
        const int error_number = descriptor_start_thread(self);
        if (error_number)
            status = weiri_fail_errno(WEIR_ERR_SYSTEM, error_number,
                                      "cannot start the thread that passes descriptors");
    }
    if (status != WEIR_OK) {
        descriptor_free(self);
        return status;
    }
    descriptor_log_once();
    *started = self;
    return WEIR_OK;
}

weir_status weiri_descriptor_offer(weiri_segment_key *key)
{
    descriptor_offered *made = malloc(sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a descriptor");
    *made = (descriptor_offered){.fd = key->fd, .inode = key->inode};
    weir_status status = WEIR_OK;
    pthread_mutex_lock(&service_lock);
    if (service && weiri_fork_is_child(service->forks))
        service = NULL; /* the parent's */
    if (!service)
        status = descriptor_start(&service);
    if (status == WEIR_OK) {
        made->next = service->offered;
        service->offered = made;
        memcpy(key->handle, &service->ticket, sizeof service->ticket);
    }
    pthread_mutex_unlock(&service_lock);
    if (status != WEIR_OK)
        free(made);
    return status;
}

/* Removes an offer. Returns the service if it was the last one: the caller ends it. */
static descriptor_service *descriptor_remove(int fd)
{
    descriptor_service *last = NULL;
    pthread_mutex_lock(&service_lock);
    descriptor_offered **at = service ? &service->offered : NULL;
    while (at && *at && (*at)->fd != fd)
        at = &(*at)->next;
    if (at && *at) {
        descriptor_offered *one = *at;
        *at = one->next;
        free(one);
        if (!service->offered) {
            last = service;
            service = NULL;
        }
    }
    pthread_mutex_unlock(&service_lock);
    return last;
}

void weiri_descriptor_withdraw(int fd)
{
    descriptor_service *last = descriptor_remove(fd);
    if (!last)
        return;
    if (!weiri_fork_is_child(last->forks)) {
        __atomic_store_n(&last->has_to_end, 1, __ATOMIC_RELEASE);
        shutdown(last->listener, SHUT_RDWR); /* wakes the thread */
        pthread_join(last->thread, NULL);
    }
    descriptor_free(last);
}

/* ------------------------------------------------------------------ the peer */

/* Receives the answer. Returns the descriptor, or -1 with errno. */
static int descriptor_receive(int owner)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    char byte;
    int fd = -1;
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    const ssize_t received = recvmsg(owner, &message, MSG_CMSG_CLOEXEC);
    if (received < 0)
        return -1;
    const struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    if (rights && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(rights), sizeof fd);
    if (fd < 0)
        errno = message.msg_flags & MSG_CTRUNC ? EMFILE : received ? ENOENT : EACCES;
    return fd;
}

int weiri_descriptor_take(const weiri_segment_key *key)
{
    descriptor_ticket ticket;
    struct sockaddr_un address;
    memcpy(&ticket, key->handle, sizeof ticket);
    descriptor_request request = {.inode = key->inode, .fd = key->fd};
    memcpy(request.secret, ticket.secret, sizeof request.secret);
    const socklen_t length = descriptor_address(&ticket, &address);
    const int owner = weiri_fd_raise(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (owner < 0)
        return -1;
    descriptor_limit_waits(owner, weiri_config_timeout_ms());
    int fd = -1;
    if (connect(owner, (const struct sockaddr *)&address, length) == 0 &&
        send(owner, &request, sizeof request, MSG_NOSIGNAL) == (ssize_t)sizeof request)
        fd = descriptor_receive(owner);
    const int error_number = errno == EAGAIN ? ETIMEDOUT : errno;
    close(owner);
    errno = error_number;
    return fd;
}
