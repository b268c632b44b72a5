/*
 * Progress for transfers that a rank does not wait for, such as one-sided calls and blocks between
 * nodes: a thread that polls the network while the program makes no calls. As long as the program's
 * own waits drive the network, the thread sleeps; otherwise it waits for the network's descriptor.
 */
#define _GNU_SOURCE
#include "comm/internode/internode.h"

#include "base/fd.h"
#include "base/error.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    NAP_MS = 1,        /* while others drive the network, and if it has no descriptor */
    DRIVEN_NAP_MS = 2, /* while a thread has said that it drives it */
    SLEEP_MS = 1000,   /* the longest sleep */
    BUSY_MOST = 1000,  /* times in a row that it drives the network without a sleep */
};

typedef struct weiri_internode_progress {
    weiri_internode *internode;
    pthread_t thread;
    int wake; /* an eventfd: ends the thread's sleep */
    int ends;
} weiri_internode_progress;

/* Whether the network's descriptor may be waited for; *descriptor: -1 if there is none. */
static int progress_arm(const weiri_internode *internode, int *descriptor)
{
    weiri_net *net = internode->net;
    *descriptor = -1;
    weiri_net_lock(net);
    const int armed = net->ops->arm(net, descriptor);
    weiri_net_unlock(net);
    return armed;
}

static uint64_t progress_polls(const weiri_internode *internode)
{
    weiri_net_lock(internode->net);
    const uint64_t polls = internode->polls;
    weiri_net_unlock(internode->net);
    return polls;
}

void weiri_internode_drive_begin(const weiri_internode *internode)
{
    __atomic_add_fetch(&internode->services->drivers, 1, __ATOMIC_RELAXED);
}

void weiri_internode_drive_end(const weiri_internode *internode)
{
    __atomic_sub_fetch(&internode->services->drivers, 1, __ATOMIC_RELAXED);
}

void weiri_internode_drive_rest(const weiri_internode *internode)
{
    struct pollfd file = {.fd = -1, .events = POLLIN};
    weiri_internode_serve(internode);
    if (progress_arm(internode, &file.fd) && file.fd >= 0)
        poll(&file, 1, NAP_MS);
}

static int progress_is_driven(const weiri_internode *internode)
{
    return __atomic_load_n(&internode->services->drivers, __ATOMIC_RELAXED) > 0;
}

/* Drives the network. Returns how long the thread may sleep, until *descriptor is readable. */
static int progress_drive(weiri_internode *internode, int *descriptor, int *busy)
{
    weiri_internode_poll(internode);
    weiri_internode_serve(internode);
    if (progress_arm(internode, descriptor)) {
        *busy = 0;
        return *descriptor < 0 ? NAP_MS : SLEEP_MS;
    }
    *descriptor = -1;
    return ++*busy < BUSY_MOST ? 0 : NAP_MS;
}

static void *progress_main(void *opaque)
{
    const weiri_internode_progress *own = opaque;
    struct pollfd files[2] = {{.fd = own->wake, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
    uint64_t seen = 0, wakes;
    int timeout_ms = 0, busy = 0;
    while (!__atomic_load_n(&own->ends, __ATOMIC_ACQUIRE)) {
        if (poll(files, 2, timeout_ms) > 0 && files[0].revents)
            (void)!read(own->wake, &wakes, sizeof wakes);
        files[1].fd = -1;
        timeout_ms = DRIVEN_NAP_MS;
        if (progress_is_driven(own->internode))
            continue;
        const uint64_t polls = progress_polls(own->internode);
        timeout_ms = NAP_MS;
        if (polls == seen)
            timeout_ms = progress_drive(own->internode, &files[1].fd, &busy);
        seen = polls == seen ? progress_polls(own->internode) : polls;
    }
    return NULL;
}

weir_status weiri_internode_progress_start(weiri_internode *internode,
                                           weiri_internode_progress **made)
{
    weiri_internode_progress *own = calloc(1, sizeof *own);
    if (!own)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a thread");
    own->internode = internode;
    own->wake = weiri_fd_raise(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    int error_number =
        own->wake < 0 ? errno : pthread_create(&own->thread, NULL, progress_main, own);
    if (error_number) {
        if (own->wake >= 0)
            close(own->wake);
        free(own);
        return weiri_fail_errno(WEIR_ERR_SYSTEM, error_number,
                                "cannot start the thread that drives the network");
    }
    *made = own;
    return WEIR_OK;
}

void weiri_internode_progress_wake(const weiri_internode_progress *own)
{
    const uint64_t one = 1;
    (void)!write(own->wake, &one, sizeof one); /* fails only if as good as endless wakes wait */
}

void weiri_internode_progress_stop(weiri_internode_progress *own)
{
    if (!own)
        return;
    __atomic_store_n(&own->ends, 1, __ATOMIC_RELEASE);
    weiri_internode_progress_wake(own);
    pthread_join(own->thread, NULL);
    close(own->wake);
    free(own);
}
