/* The text of a report on where the ranks stand, from what report.c has found out about each. */
#ifndef WEIR_COMM_REPORT_TEXT_H
#define WEIR_COMM_REPORT_TEXT_H

#include "comm/comm.h"

typedef enum weiri_life { WEIRI_RUNS, WEIRI_STOPPED, WEIRI_DEAD } weiri_life;

typedef struct weiri_report_rank {
    weiri_life life;
    int pid, node;            /* node: -1 if all ranks are on one node */
    int unknown;              /* on another node, and its record has not arrived */
    int answered;             /* the record is final */
    const weiri_where *where; /* its record; not read if unknown */
} weiri_report_rank;

typedef struct weiri_report {
    int nranks;
    uint64_t timeout_ms;
    int aborted; /* the communicator was aborted: running ranks have been asked for final records */
    const weiri_report_rank *ranks;
} weiri_report;

/* Finds out where a rank stands (report.c). Local, non-blocking, thread-safe while the communicator
 * exists. */
weiri_report_rank weiri_report_look_at(const weir_comm *comm, int rank);

/* Up to so many ranks have a line each; of more, ranks in the same position share one. */
enum { WEIRI_REPORT_LINES = 32 };

/* Writes the text, cut off at bytes, with its end. Returns the length of the whole text. */
int weiri_report_print(const weiri_report *report, char *text, size_t bytes);

#endif
