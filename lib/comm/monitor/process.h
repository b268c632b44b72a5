/*
 * The monitored communicators of this process, and its threads. The list is locked while the
 * threads read it; a communicator is removed before it is destroyed.
 */
#ifndef WEIR_COMM_MONITOR_PROCESS_H
#define WEIR_COMM_MONITOR_PROCESS_H

#include "comm/monitor/monitor.h"

void weiri_process_add(weiri_monitor *monitor);
void weiri_process_remove(weiri_monitor *monitor);
void weiri_process_name(weiri_monitor *monitor, const char *name);
/* Ends the use of the threads that weiri_monitor_prepare began; they end if there is no
 * communicator. */
void weiri_process_release(void);

/* Lock the list, and return its first element. */
weiri_monitor *weiri_process_lock(void);
void weiri_process_unlock(void);

#endif
