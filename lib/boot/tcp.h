/* Internal functions of the TCP bootstrap: other timeouts, and ending its waits from another
 * thread. */
#ifndef WEIR_BOOT_TCP_H
#define WEIR_BOOT_TCP_H

#include <weir/weir.h>

/* weir_boot_tcp_create with another timeout, for its own steps and for the bootstrap's waits. */
weir_status weiri_boot_tcp_create(const weir_unique_id *id, int rank, int nranks, int timeout_ms,
                                  weir_boot **boot);
/* weir_boot_tcp_create_at for the ranks of a named job: they do not join ranks of another one, even
 * if both have the same secret, or none. */
weir_status weiri_boot_tcp_create_at(const char *interface_ip_port, const char *job, int rank,
                                     int nranks, weir_boot **boot);
/* Ends the rendezvous server of a unique id that will not be used, if its process still runs. Use
 * it instead of any other call with the id. Blocks for at most one second. */
void weiri_boot_tcp_cancel(const weir_unique_id *id);
/* Ends all waits of the bootstrap, here and of peers that wait for this rank, with WEIR_ERR_PEER;
 * the bootstrap is unusable afterwards. Local, thread-safe until weir_boot_destroy. */
void weiri_boot_tcp_shut(weir_boot *boot);

#endif
