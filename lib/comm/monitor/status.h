/*
 * The answer to STATUS: the text and the JSON document of NCCL's RAS service, with what weir knows
 * beyond it. docs/developer/monitoring.md describes both.
 */
#ifndef WEIR_COMM_MONITOR_STATUS_H
#define WEIR_COMM_MONITOR_STATUS_H

#include "comm/monitor/view.h"

void weiri_status_text(const weiri_view *view, FILE *to);
void weiri_status_json(const weiri_view *view, FILE *to);

/* Of a communicator: ranks that are missing. */
int weiri_status_missing(const weiri_view_comm *comm);
/* The ranks that wait for a rank, directly or through others, and the longest of these waits. */
int weiri_status_waiting(const weiri_view_comm *comm, int rank, uint64_t *longest_ns);
/* CUDA's versions as CUDA encodes them; 0 without CUDA. */
void weiri_status_cuda(int *runtime, int *driver);

#endif
