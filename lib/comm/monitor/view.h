/*
 * What is known about communicators and their ranks at one moment: what this process sees, and what
 * other processes have reported. The printers of the status read it (status.h), and records.c sends
 * it between processes.
 */
#ifndef WEIR_COMM_MONITOR_VIEW_H
#define WEIR_COMM_MONITOR_VIEW_H

#include "comm/monitor/monitor.h"
#include "comm/monitor/straggler.h"

#include <stdio.h>

typedef enum weiri_seen {
    WEIRI_SEEN_NOT, /* nothing is known yet */
    WEIRI_SEEN_RUNNING,
    WEIRI_SEEN_STOPPED, /* by a signal */
    WEIRI_SEEN_SILENT,  /* its process has not answered in time */
    WEIRI_SEEN_DEAD
} weiri_seen;

enum { WEIRI_VIEW_HOST_BYTES = 64, WEIRI_VIEW_COMMS = 1024 };

typedef struct weiri_view_rank {
    weiri_seen seen;
    weiri_monitor_peer peer;
    char host[WEIRI_VIEW_HOST_BYTES]; /* IP address, or name */
    int device;                       /* -1: host memory */
    int is_aborted, is_finished;
    int awaited;                      /* the rank that it waits for in a slow wait; -1: none */
    uint64_t awaited_ns;              /* for how long */
    char phase[WEIRI_TEXT_BYTES + 1]; /* the step that this wait is part of */
    uint64_t call;                    /* count << 8 | weir_collective, as in weiri_where */
    uint64_t counts[WEIRI_MONITOR_COUNTS];
    weiri_monitored_call *calls; /* timed ones; owned */
    int ncalls;
} weiri_view_rank;

typedef struct weiri_view_comm {
    uint64_t hash;
    int nranks, nnodes;
    int is_own; /* this process has a rank of it */
    char name[WEIRI_MONITOR_NAME_BYTES];
    weiri_view_rank *ranks; /* owned */
} weiri_view_comm;

typedef struct weiri_view {
    weiri_view_comm *comms; /* owned */
    int ncomms;
    int is_full;  /* there are more communicators than WEIRI_VIEW_COMMS */
    int timeouts; /* processes that have not answered in time */
    int straggler_calls;
    uint64_t took_ns;
} weiri_view;

/* Adds a communicator, or returns the one with this hash. NULL if memory is exhausted, there are
 * too many, or the number of ranks differs. */
weiri_view_comm *weiri_view_comm_of(weiri_view *view, uint64_t hash, int nranks);
/* Adds what this process sees of its communicators. */
void weiri_view_look(weiri_view *view);
/* Frees the contents. */
void weiri_view_free(weiri_view *view);

/* Returns 1 if a rank is missing: nothing is heard of it. */
static inline int weiri_view_is_missing(const weiri_view_rank *rank)
{
    return rank->seen != WEIRI_SEEN_RUNNING;
}

/* Returns the rank on which a rank's wait depends: follows the ranks being waited on to one that is
 * not in a slow wait. -1: the rank is in no slow wait, or the waits form a circle. */
int weiri_view_blocker(const weiri_view_comm *comm, int rank);
weiri_straggler weiri_view_straggler(const weiri_view *view, const weiri_view_comm *comm);

/* --------------------------------------------------- between processes (records.c) */

/* Writes the ranks of this node, without the communicators of which known has the hashes. */
void weiri_records_write(const weiri_view *view, const uint64_t *known, int nknown, FILE *to);
/* Adds the records of a process, which end with the line "end". Text that is malformed, or that
 * contradicts what is known, is ignored. Returns 0 if the end is missing. */
int weiri_records_read(weiri_view *view, char *text);

#endif
