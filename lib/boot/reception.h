/*
 * Authenticates higher ranks of a TCP job at this rank's listening socket, in any order, among
 * connections that may send nothing, invalid data or a wrong secret. It never waits for a single
 * connection, so that none can delay the others. A further process that claims to be one of the
 * ranks ends the job if it comes before all ranks have joined; later it is only rejected.
 */
#ifndef WEIR_BOOT_RECEPTION_H
#define WEIR_BOOT_RECEPTION_H

#include "boot/handshake.h"

/* Waits until the expected ranks above job->rank have connected. Blocks until the deadline.
 * expects(rank, other, nranks) is 1 if rank `rank` expects `other`; NULL: all. fds (nranks
 * entries, initially -1) gets their connections, which the caller closes, also on failure; listens
 * (nranks entries or NULL) gets their listening addresses. WEIR_ERR_TIMEOUT names the missing
 * ranks; WEIR_ERR_MISMATCH if an authenticated rank joined twice or passed another number of ranks;
 * WEIR_ERR_PEER if a rank that had joined has ended. */
weir_status weiri_reception_run(const weiri_job *job, int listener, const weiri_deadline *deadline,
                                int (*expects)(int rank, int other, int nranks), int *fds,
                                weiri_address *listens);

#endif
