/*
 * A proxy and its port channels inside. The proxy's thread takes triggers from the
 * FIFO (proxy_serve.c), and rests when there is nothing to do (proxy_rest.c). How a
 * channel's bytes move is a table of three operations, one for each kind of connection
 * (port_ways.c): the proxy itself copies to mapped host memory, the copy engine to mapped
 * memory of a GPU, a wire to what is not mapped.
 */
#ifndef WEIR_CHAN_PORT_H
#define WEIR_CHAN_PORT_H

#include "chan/chan.h"
#include "chan/fifo.h"

#include <pthread.h>

/* Called by the proxy's thread, which holds the proxy's lock. */
typedef struct weiri_port_way {
    /* Begins a copy; the offsets are within the memories. */
    weir_status (*put)(weir_portchan *chan, uint64_t to, uint64_t from, uint64_t bytes);
    /* Stores value into the peer's inbound word behind all that was put before. */
    weir_status (*signal)(weir_portchan *chan, uint64_t value);
    /* What tells that all of the connection's puts before have arrived. */
    weir_status (*flush)(weir_portchan *chan, weiri_port_mark *mark);
    /* Whether it has: *there. Fails if it never will. */
    weir_status (*reached)(weir_portchan *chan, const weiri_port_mark *mark, int *there);
} weiri_port_way;

struct weir_portchan {
    weir_proxy *proxy;
    uint32_t id;
    weir_sem *sem;
    const weiri_port_way *way;
    char *remote, *local; /* mapped ways */
    size_t remote_bytes, local_bytes;
    weiri_net_key remote_key; /* over a wire */
    const weiri_net_mem *local_wired;
    weir_portchan_dev device;
    void *kept; /* on GPUs: its copy in device memory */
};

/* The way of a connection, with what it needs of the two memories. Local. */
weir_status weiri_port_choose(weir_portchan *chan, const weir_mem *remote, const weir_mem *local);

/* A flush that was asked for and is not done. */
typedef struct weiri_port_flush {
    weir_portchan *chan;
    uint64_t ticket, since_ns;
    weiri_port_mark mark;
} weiri_port_flush;

struct weir_proxy {
    weir_comm *comm;
    weir_proxy_config config;
    weiri_fifo fifo;
    void *kept_fifo; /* on GPUs: the producers' view in device memory */
    pthread_mutex_t lock; /* of the channels and the failure */
    weir_portchan **chans; /* by number; NULL: free */
    uint32_t nchans;
    weiri_port_flush *flushes;
    uint64_t nflushes, most_flushes;
    int polls; /* flushes are under way that only a poll tells of; the thread's */
    weir_status status; /* the first failure, and its text */
    char why[512];

    pthread_t thread;
    int running;
    int naps;                 /* its producers are kernels, which wake nobody */
    int lost;                 /* its thread did not end */
    int unfilled, unfinished; /* what a stop has found */
    int wake;         /* an eventfd */
    uint64_t woken;   /* 1: work is about to come */
    uint64_t asleep;  /* 1: whoever pushes is to write to wake */
    uint64_t stop_ns; /* 0: goes on; else stops by then at the latest */
    uint64_t ended;   /* 1: the thread touches nothing any more */
};

/* Keeps the first failure, with the last error as its text, and aborts the communicator. */
void weiri_proxy_fail(weir_proxy *proxy, weir_status status);
/* One round of all that there is to do: whether there was anything. */
int weiri_proxy_serve(weir_proxy *proxy);
/* Whether triggers, flushes or a network's operations are under way. */
int weiri_proxy_is_busy(weir_proxy *proxy);

/* When a thread had something to do last. */
typedef struct weiri_proxy_rest {
    uint64_t moved_ns;
} weiri_proxy_rest;
/* After a round: polls on, or sleeps for a while or until something comes. */
void weiri_proxy_rest_after(weir_proxy *proxy, weiri_proxy_rest *rest, int moved);
/* Keeps the calling thread on the processors that it is to run on. */
void weiri_proxy_bind(const weir_proxy *proxy);

#endif
