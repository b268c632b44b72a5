/*
 * The monitored communicators of this process (list.c), and its threads (process.c). The list is
 * locked while the threads read it; a communicator is removed before it is destroyed.
 */
#ifndef WEIR_COMM_MONITOR_PROCESS_H
#define WEIR_COMM_MONITOR_PROCESS_H

#include "comm/monitor/monitor.h"

/* Add to the list and remove from it, and begin and end the use of the threads. */
void weiri_process_add(weiri_monitor *monitor);
void weiri_process_remove(weiri_monitor *monitor);
/* Ends the use of the threads that weiri_monitor_prepare began; they end if there is no
 * communicator. */
void weiri_process_release(void);

/* Lock the list, and return its first element. */
weiri_monitor *weiri_monitor_list_lock(void);
void weiri_monitor_list_unlock(void);
void weiri_monitor_list_add(weiri_monitor *monitor);
void weiri_monitor_list_remove(weiri_monitor *monitor);
/* Copies the name that a program gives to a communicator, without characters that need quotes. */
void weiri_monitor_list_name(weiri_monitor *monitor, const char *name);
/* In a forked child: forgets the parent's communicators. */
void weiri_monitor_list_forget(void);

#endif
