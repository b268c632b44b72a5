/*
 * The thread that drives a communicator's network so that puts and signals of other nodes arrive
 * while the program makes no calls. As long as the program's own waits drive the network, the
 * thread sleeps; otherwise it waits for the network's descriptor.
 */
#define _GNU_SOURCE
#include "nccl/rma/rma.h"

#include "base/fd.h"
#include "base/error.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    NAP_MS = 1,       /* while others drive the network, and if it has no descriptor */
    SLEEP_MS = 1000,  /* the longest sleep */
    BUSY_MOST = 1000, /* times in a row that it drives the network without a sleep */
};

typedef struct weiri_rma_progress {
    weiri_internode *internode;
    pthread_t thread;
    int wake; /* an eventfd: ends the thread */
} weiri_rma_progress;

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

/* Drives the network. Returns how long the thread may sleep, until *descriptor is readable. */
static int progress_drive(weiri_internode *internode, int *descriptor, int *busy)
{
    weiri_internode_poll(internode);
    if (progress_arm(internode, descriptor)) {
        *busy = 0;
        return *descriptor < 0 ? NAP_MS : SLEEP_MS;
    }
    *descriptor = -1;
    return ++*busy < BUSY_MOST ? 0 : NAP_MS;
}

static void *progress_main(void *opaque)
{
    const weiri_rma_progress *own = opaque;
    struct pollfd files[2] = {{.fd = own->wake, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
    uint64_t seen = 0;
    int timeout_ms = 0, busy = 0;
    while (poll(files, 2, timeout_ms) <= 0 || !files[0].revents) {
        const uint64_t polls = progress_polls(own->internode);
        files[1].fd = -1;
        timeout_ms = NAP_MS;
        if (polls == seen)
            timeout_ms = progress_drive(own->internode, &files[1].fd, &busy);
        seen = polls == seen ? progress_polls(own->internode) : polls;
    }
    return NULL;
}

weir_status weiri_rma_progress_start(weiri_internode *internode, weiri_rma_progress **made)
{
    weiri_rma_progress *own = calloc(1, sizeof *own);
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
                                "cannot start the thread of one-sided calls between nodes");
    }
    *made = own;
    return WEIR_OK;
}

void weiri_rma_progress_stop(weiri_rma_progress *own)
{
    const uint64_t one = 1;
    if (!own)
        return;
    if (write(own->wake, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(own->thread, NULL);
    close(own->wake);
    free(own);
}
