/*
 * Files of metrics, in the formats of NCCL's Inspector: a Prometheus textfile per process, which is
 * replaced as a whole, and JSON lines, which are appended. Timed calls wait in a ring per
 * communicator until they are written; of more than fit, the oldest are lost.
 */
#ifndef WEIR_COMM_MONITOR_METRICS_H
#define WEIR_COMM_MONITOR_METRICS_H

#include "comm/monitor/monitor.h"
#include "comm/monitor/straggler.h"

#include <stdio.h>

enum { WEIRI_METRICS_RING = 1024 };

/* A timed call in the ring. */
typedef struct weiri_metrics_call {
    weiri_monitor_call call;
    uint64_t duration_ns;
} weiri_metrics_call;

/* What the lines of a communicator say about it. */
typedef struct weiri_metrics_labels {
    uint64_t hash;
    int rank, nranks, nnodes, device;
    char name[WEIRI_MONITOR_NAME_BYTES];
} weiri_metrics_labels;

/* Calls of one function, algorithm and range of sizes. */
typedef struct weiri_metrics_bucket {
    int function;
    uint64_t least_bytes; /* the lower end of the range */
    char algo[WEIRI_MONITOR_ALGO_BYTES];
    uint64_t count, nspeeds;
    double us, log_speeds; /* sums of times, and of logarithms of bus bandwidths in GB/s */
} weiri_metrics_bucket;

/* A communicator in the Prometheus file, also after it has ended. */
typedef struct weiri_metrics_comm {
    weiri_metrics_labels labels;
    uint64_t counts[WEIRI_MONITOR_COUNTS];
    weiri_straggler straggler;
    weiri_metrics_bucket *buckets; /* owned */
    int nbuckets;
    uint64_t ended_ns; /* when it ended; 0: it has not */
    struct weiri_metrics_comm *next;
} weiri_metrics_comm;

typedef struct weiri_metrics weiri_metrics;

/* Returns NULL, with a warning in the log, if memory is exhausted. */
weiri_metrics *weiri_metrics_create(const weiri_monitor *monitor);
void weiri_metrics_destroy(weiri_metrics *metrics);
/* Adds a timed call. */
void weiri_metrics_add(weiri_metrics *metrics, const weiri_monitor_call *call,
                       uint64_t duration_ns);
/* Writes the calls since the last time: of all communicators in the list, and of one that ends. */
void weiri_metrics_write_all(const weiri_monitor *list);
void weiri_metrics_write(weiri_metrics *metrics);
/* In a forked child: closes what belongs to the parent. */
void weiri_metrics_forget(void);

/* The bandwidth of a call as nccl-tests defines it, in GB/s, and the factor for bus bandwidth. */
double weiri_metrics_speed(const weiri_metrics_call *call);
double weiri_metrics_factor(int function, int nranks);

/* Write a whole Prometheus file (metrics_prom.c), and a line of JSON (metrics_json.c). */
void weiri_metrics_print_prom(const weiri_metrics_comm *list, FILE *to);
void weiri_metrics_print_json(const weiri_metrics_labels *labels, const weiri_metrics_call *call,
                              FILE *to);
/* Returns the lower end of the range of sizes that Inspector puts bytes in, and its text "4-5KB".
 */
uint64_t weiri_metrics_range(uint64_t bytes, char text[32]);

#endif
