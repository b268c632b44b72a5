/*
 * What the environment asks of monitoring: weir's variables, and under libweir_nccl.so also NCCL's.
 * An invalid value is logged as a warning and ignored, because monitoring never fails a job.
 */
#ifndef WEIR_COMM_MONITOR_SETTINGS_H
#define WEIR_COMM_MONITOR_SETTINGS_H

#include "comm/comm.h"

enum { WEIRI_RAS_ADDRESS_BYTES = 128, WEIRI_METRICS_FOLDER_BYTES = 1024 };

typedef struct weiri_monitor_settings {
    int serves;                            /* RAS clients */
    char address[WEIRI_RAS_ADDRESS_BYTES]; /* host:port of the service */
    int writes_prom, writes_json;          /* files of metrics */
    char folder[WEIRI_METRICS_FOLDER_BYTES];
    int64_t interval_us;  /* between two writes; negative: at the end only */
    uint64_t least_bytes; /* of messages in metrics */
    int has_pairs;        /* sends and receives are in metrics */
    int ncalls;           /* timed calls in the report of stragglers */
    int reports;          /* stragglers are logged */
} weiri_monitor_settings;

/* From now on NCCL's variables are read, too. version: of NCCL's interface, "2.28.9"; a constant.
 * Thread-safe. */
void weiri_monitor_use_nccl(const char *version);
/* Returns that version, or NULL. */
const char *weiri_monitor_nccl_version(void);

/* Reads the environment. Returns 0 if nothing is asked for. */
int weiri_monitor_settings_read(weiri_monitor_settings *settings);

#endif
