/*
 * Internal structs of a proxy and its port channels. The proxy's thread takes triggers from the
 * FIFO (proxy_triggers.c) and sleeps when there is nothing to do (proxy_idle.c). A channel's bytes
 * move by one of three ops tables, one per kind of connection (port_ops.c): the proxy itself copies
 * to mapped host memory, the copy engine copies to mapped GPU memory, and a network transport
 * serves memory that is not mapped.
 */
#ifndef WEIR_CHAN_PORT_H
#define WEIR_CHAN_PORT_H

#include "chan/chan.h"
#include "chan/fifo.h"

#include <pthread.h>

/* How the bytes of a port channel move. Called by the proxy's thread, which holds the proxy's
 * lock. No function blocks. */
typedef struct weiri_port_ops {
    /* Starts a copy; to and from are offsets in the channel's remote and local memory. */
    weir_status (*put)(weir_portchan *chan, uint64_t to, uint64_t from, uint64_t bytes);
    /* Stores value into the peer's inbound counter, after all earlier puts. */
    weir_status (*signal)(weir_portchan *chan, uint64_t value);
    /* Fills a mark that is reached once all earlier puts of the connection have arrived. */
    weir_status (*flush)(weir_portchan *chan, weiri_port_mark *mark);
    /* Sets *there if the mark has been reached; fails if it never will be. */
    weir_status (*reached)(weir_portchan *chan, const weiri_port_mark *mark, int *there);
} weiri_port_ops;

struct weir_portchan {
    weir_proxy *proxy;
    uint32_t id;
    weir_sem *sem;
    const weiri_port_ops *ops;
    char *remote, *local; /* mapped memory only */
    size_t remote_bytes, local_bytes;
    weiri_net_key remote_key;           /* network only */
    const weiri_net_mem *local_net_mem; /* network only: the local memory as registered there */
    weir_portchan_dev device;
    void *kept; /* GPUs only: copy of device in GPU memory */
};

/* Chooses the channel's ops and prepares both memories for them. Local. */
weir_status weiri_port_choose(weir_portchan *chan, const weir_mem *remote, const weir_mem *local);

/* An outstanding flush. */
typedef struct weiri_port_flush {
    weir_portchan *chan;
    uint64_t ticket, since_ns;
    weiri_port_mark mark;
} weiri_port_flush;

struct weir_proxy {
    weir_comm *comm;
    weir_proxy_config config;
    weiri_fifo fifo;
    void *kept_fifo;       /* GPUs only: the producers' view of the FIFO in GPU memory */
    pthread_mutex_t lock;  /* protects chans, flushes, status and why */
    weir_portchan **chans; /* by channel number; NULL if free */
    uint32_t nchans;
    weiri_port_flush *flushes;
    uint64_t nflushes, most_flushes;
    int polls;          /* some flushes complete without waking the thread; used by it alone */
    weir_status status; /* the first failure, */
    char why[512];      /* and its text */

    pthread_t thread;
    int running;
    int naps;                 /* producers are kernels, which cannot wake the thread */
    int lost;                 /* the thread did not end before the deadline */
    int unfilled, unfinished; /* found by stop: tickets without trigger, operations outstanding */
    int wake;                 /* an eventfd */
    uint64_t woken;           /* 1: weir_proxy_wake announced work */
    uint64_t asleep;          /* 1: a host producer must write to wake */
    uint64_t stop_ns;         /* 0 while running; else the deadline for stopping */
    uint64_t ended;           /* 1: the thread no longer accesses anything */
};

/* Records the first failure with the last error as its text, and aborts the communicator. */
void weiri_proxy_fail(weir_proxy *proxy, weir_status status);
/* Performs one round of all pending work; returns whether there was any. */
int weiri_proxy_run_triggers(weir_proxy *proxy);
/* Whether triggers, flushes or network operations are outstanding. */
int weiri_proxy_is_busy(weir_proxy *proxy);

typedef struct weiri_proxy_idle_state {
    uint64_t moved_ns; /* when there was work last */
} weiri_proxy_idle_state;
/* Called after each round: returns at once, or sleeps for a while or until work arrives. */
void weiri_proxy_idle(weir_proxy *proxy, weiri_proxy_idle_state *state, int moved);
/* Binds the calling thread to the processors that the proxy should run on. */
void weiri_proxy_bind(const weir_comm *comm, int cpu);

#endif
