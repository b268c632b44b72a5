/*
 * The host's side of a TCP job: it takes in the higher ranks, in whatever order
 * they come, among strangers who may say nothing, rubbish, or the wrong secret.
 * Nobody is waited for alone, so nobody can hold up the others. A stranger is
 * refused and logged with its address.
 */
#ifndef WEIR_BOOT_RECEPTION_H
#define WEIR_BOOT_RECEPTION_H

#include "boot/handshake.h"

/* Waits for all ranks above job->rank at the listening socket. Blocks until the
 * deadline. fds (nranks entries, -1 where nobody is) gets their connections,
 * also when it fails, for the caller to close; listens (nranks entries or NULL)
 * gets the addresses they listen at.
 * WEIR_ERR_TIMEOUT names who is missing; WEIR_ERR_MISMATCH: a rank that knows
 * the secret came twice or counts the ranks differently, so that the job cannot
 * come about; WEIR_ERR_PEER: a rank that had joined is gone. */
weir_status weiri_reception_run(const weiri_job *job, int listener,
                                const weiri_deadline *deadline, int *fds,
                                weiri_address *listens);

#endif
