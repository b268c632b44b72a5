/*
 * Monitoring of communicators: counts and times of calls, for the service that answers RAS clients
 * (ras.c), files of metrics (metrics.h) and the report of stragglers (straggler.h). Off unless the
 * environment asks for it (settings.h); then comm->monitor is NULL.
 *
 * What other ranks need is in this rank's page (weiri_monitored), so that a rank that is stopped is
 * still described. One process has at most two threads for all its communicators: one answers RAS
 * clients and writes metrics, the other describes this process to the services of other processes.
 * They exist while there are communicators.
 *
 * Cost. Each call adds one to a counter, on or off; off, and in calls that are part of another one,
 * to one that nobody reads. On the host a timed call reads the clock twice; on a GPU it records two
 * events. Of calls in quick succession only every 2nd, 4th, ... or
 * 1024th (GPUs: 256th) is timed, by the number of the call, so that ranks time the same ones.
 */
#ifndef WEIR_COMM_MONITOR_MONITOR_H
#define WEIR_COMM_MONITOR_MONITOR_H

#include "boot/address.h"
#include "comm/monitor/settings.h"

struct weiri_placement;
struct weiri_metrics;

/* Functions by which calls are counted: the collectives of weir_collective, then sends and
 * receives. */
enum { WEIRI_MONITOR_SEND = WEIR_COLL_COUNT, WEIRI_MONITOR_RECV };

enum { WEIRI_MONITOR_TIMERS = 16, WEIRI_MONITOR_NAME_BYTES = 64, WEIRI_MONITOR_ALGO_BYTES = 24 };

/* A call as it is measured. */
typedef struct weiri_monitor_call {
    int function;           /* a weir_collective, WEIRI_MONITOR_SEND or _RECV */
    int peer;               /* of a send or receive */
    uint64_t bytes;         /* per rank, as NCCL's Inspector counts them */
    uint64_t traffic_bytes; /* of the larger buffer, of which the bandwidth is computed */
    uint64_t number;
    char algo[WEIRI_MONITOR_ALGO_BYTES];
} weiri_monitor_call;

/* Where a rank runs, and where its process describes itself. */
typedef struct weiri_monitor_peer {
    uint64_t host;
    int pid;
    weiri_address address; /* port 0: nowhere */
} weiri_monitor_peer;

/* A call on a GPU, or a group of sends and receives, whose end has not been seen yet. */
typedef struct weiri_monitor_pending {
    void *timer;               /* NULL: free */
    weiri_monitor_call *calls; /* ncalls of them; owned */
    size_t ncalls;
} weiri_monitor_pending;

/* Which calls are timed: calls whose number has none of the bits of mask. The mean time between
 * calls since another call, a few timed calls ago, decides the mask. */
typedef struct weiri_monitor_pace {
    uint64_t mask;
    uint64_t number, begin_ns; /* of that call */
    int ntimed;                /* calls since then */
} weiri_monitor_pace;

typedef struct weiri_monitor {
    weiri_monitor_pace pace;       /* of collectives */
    weiri_monitored *shared;       /* in this rank's page */
    int is_inside;                 /* within a monitored call: calls that it makes are part of it */
    weiri_monitor_pace pairs_pace; /* of groups of sends and receives */
    uint64_t npairs;               /* groups of sends and receives so far */
    weir_comm *comm;
    weiri_monitor_settings settings;
    weiri_monitor_peer *peers; /* nranks */
    char name[WEIRI_MONITOR_NAME_BYTES];
    struct weiri_metrics *metrics; /* NULL if none are written */
    uint64_t report_ns;            /* the last report of stragglers in the log */
    weiri_monitor_pending pending[WEIRI_MONITOR_TIMERS];
    void *timers[WEIRI_MONITOR_TIMERS]; /* free ones, and their number */
    int ntimers, ntimers_made;
    void *timer;                /* of the call that is being started */
    struct weiri_monitor *next; /* in the process's list */
} weiri_monitor;

/* Before the placements of a communicator's ranks are exchanged: starts the threads if the
 * environment asks for them. *address becomes where this process describes itself, or all zeros. */
void weiri_monitor_prepare(weiri_address *address);
/* After a communicator was created, or failed to be (comm NULL): begins to monitor it. */
void weiri_monitor_open(weir_comm *comm, const struct weiri_placement *placements);
/* Before a communicator is destroyed: writes its metrics. The last one's ends the threads. */
void weiri_monitor_close(weir_comm *comm);
/* The name that a program gave to the communicator. */
void weiri_monitor_name(weir_comm *comm, const char *name);

/* Returns the name of a function in RAS and metrics: "AllReduce". */
const char *weiri_monitor_function_name(int function);

/* The out-of-line parts of the functions below. */
uint64_t weiri_monitor_start(weiri_monitor *monitor, weiri_monitor_pace *pace, uint64_t number,
                             weir_stream stream);
void weiri_monitor_stop(weiri_monitor *monitor, uint64_t begin_ns, const weiri_monitor_call *calls,
                        size_t ncalls, weir_stream stream);

static inline void weiri_monitor_count(weir_comm *comm, int function, uint64_t more)
{
    uint64_t *count = &comm->counts[function];
    weir_store_relaxed(count, *count + more);
}

static inline void weiri_monitor_count_calls(const weiri_monitor *monitor)
{
    monitor->comm->counts = monitor->shared->counts;
    monitor->comm->untimed = monitor->pace.mask;
}

static inline void weiri_monitor_go_inside(weiri_monitor *monitor)
{
    if (!monitor->is_inside++)
        weiri_comm_count_nothing(monitor->comm);
}

static inline void weiri_monitor_go_outside(weiri_monitor *monitor)
{
    if (!--monitor->is_inside)
        weiri_monitor_count_calls(monitor);
}

/* Counts a collective, after weiri_comm_enter. Returns 1 if it is to be timed, between
 * weiri_monitor_start_timed and weiri_monitor_end_timed; else nothing more is to be done. */
static inline int weiri_monitor_counts(weir_comm *comm, int function)
{
    weiri_monitor_count(comm, function, 1);
    return WEIRI_UNLIKELY(!(comm->calls & comm->untimed));
}

/* Returns the begin of a call in ns; 0: it cannot be timed, and weiri_monitor_end follows. */
static inline uint64_t weiri_monitor_start_timed(weiri_monitor *monitor, weir_stream stream)
{
    weiri_monitor_go_inside(monitor);
    return weiri_monitor_start(monitor, &monitor->pace, monitor->comm->calls, stream);
}

/* Begins a collective that may consist of other calls, which are part of it. Returns its begin in
 * ns; 0: it is not timed. */
static inline uint64_t weiri_monitor_begin(weiri_monitor *monitor, int function, weir_stream stream)
{
    if (weiri_monitor_counts(monitor->comm, function))
        return weiri_monitor_start_timed(monitor, stream);
    weiri_monitor_go_inside(monitor);
    return 0;
}

/* As weiri_monitor_begin, for a group of sends and receives. */
static inline uint64_t weiri_monitor_begin_pairs(weiri_monitor *monitor, uint64_t sends,
                                                 uint64_t receives, weir_stream stream)
{
    const int is_part = monitor->is_inside;
    weiri_monitor_count(monitor->comm, WEIRI_MONITOR_SEND, sends);
    weiri_monitor_count(monitor->comm, WEIRI_MONITOR_RECV, receives);
    weiri_monitor_go_inside(monitor);
    if (is_part)
        return 0;
    const uint64_t number = ++monitor->npairs;
    return WEIRI_LIKELY(number & monitor->pairs_pace.mask)
               ? 0
               : weiri_monitor_start(monitor, &monitor->pairs_pace, number, stream);
}

/* After the work of a call that is not timed, or has failed. */
static inline void weiri_monitor_end(weiri_monitor *monitor, uint64_t begin_ns, weir_stream stream)
{
    weiri_monitor_go_outside(monitor);
    if (WEIRI_UNLIKELY(begin_ns))
        weiri_monitor_stop(monitor, begin_ns, NULL, 0, stream);
}

/* After the work of a timed call; of a group of sends and receives, of all of them. */
static inline void weiri_monitor_end_timed(weiri_monitor *monitor, uint64_t begin_ns,
                                           const weiri_monitor_call *calls, size_t ncalls,
                                           weir_stream stream)
{
    weiri_monitor_go_outside(monitor);
    weiri_monitor_stop(monitor, begin_ns, calls, ncalls, stream);
}

/* After the work of a call that is described by its buffers, as plans and algorithms are; about has
 * function and algo. */
void weiri_monitor_end_buffers(weiri_monitor *monitor, uint64_t begin_ns, weir_status status,
                               weiri_monitor_call *about, uint64_t in_bytes, uint64_t out_bytes,
                               weir_stream stream);

#endif
