/*
 * What identifies a job on its node: the same for all ranks that a launcher started there, and
 * different for every other job, in other containers and after a restart as well. Names in places
 * that processes share (abstract sockets) are derived from it.
 *
 * It is a hash of the launcher's process and of the values that the launcher gives to each of
 * its ranks. A process is identified by the boot of the kernel, its pid namespace, number and
 * start time. The addresses at which the kernel placed the process are part of the hash where they
 * can be read, which only its own user can: other users then cannot predict a name.
 *
 * The launcher is the nearest ancestor that is no rank itself. A wrapper (timeout, strace -f,
 * numactl, a shell) was started as a rank, so the launcher's variables are in its environment.
 */
#ifndef WEIR_BASE_JOB_IDENTITY_H
#define WEIR_BASE_JOB_IDENTITY_H

#include "base/launchers.h"
#include "base/mac.h"

typedef struct weiri_job_identity {
    uint8_t key[WEIRI_KEY_BYTES];
    int launcher; /* its process id; 0: not visible from here */
} weiri_job_identity;

/* row is that of the launcher; NULL: the ranks are children of one process, without variables.
 * Local. */
void weiri_job_identity_find(const weiri_launcher_row *row, weiri_job_identity *identity);

enum { WEIRI_JOB_NAME_BYTES = 2 * WEIRI_MAC_BYTES + 1 };
/* Writes a name of hexadecimal digits for a purpose: differs between purposes, numbers, and jobs.
 */
void weiri_job_identity_name(const weiri_job_identity *identity, const char *purpose, int number,
                             char name[WEIRI_JOB_NAME_BYTES]);

#endif
