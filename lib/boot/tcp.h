/*
 * The TCP bootstrap for callers who wait longer than others, and whose waits another thread
 * may end.
 */
#ifndef WEIR_BOOT_TCP_H
#define WEIR_BOOT_TCP_H

#include <weir/weir.h>

/* weir_boot_tcp_create with a deadline of its own for each step, here and of what is made. */
weir_status weiri_boot_tcp_create(const weir_unique_id *id, int rank, int nranks, int timeout_ms,
                                  weir_boot **boot);
/* An id that nobody will use: its thread and its port are given back, where its process still is.
 * Instead of all calls with it; blocks for a second at most. */
void weiri_boot_tcp_cancel(const weir_unique_id *id);
/* Ends what waits in such a bootstrap, here and where a peer waits for this rank, with
 * WEIR_ERR_PEER; it serves nothing any more. Local, any thread, before weir_boot_destroy. */
void weiri_boot_tcp_shut(weir_boot *boot);

#endif
