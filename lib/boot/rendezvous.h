/*
 * The rendezvous of a unique id: a thread of the process that made the id answers at the id's
 * address. Rank 0, wherever it is, comes and says where it listens itself; every other rank comes,
 * before or after it, and is told. So an id can be made by any process that lives until all ranks
 * have met. Who comes must know the id's secret; strangers are refused.
 *
 * Rank 0 keeps its connection as long as ranks may come. When it closes, or rank 0 dies, the
 * rendezvous is over: who still waits there is hung up on, and nobody listens any more.
 */
#ifndef WEIR_BOOT_RENDEZVOUS_H
#define WEIR_BOOT_RENDEZVOUS_H

#include "boot/handshake.h"

/* What an id holds. */
typedef struct weiri_barrier_epoch {
    weiri_address address;
    uint8_t key[WEIRI_KEY_BYTES];
} weiri_barrier_epoch;

/* Serves the listener of this meeting, which passes to the thread unless this fails. Local, not
 * blocking. WEIR_ERR_NO_MEMORY; WEIR_ERR_SYSTEM: no thread. */
weir_status weiri_rendezvous_start(const weiri_barrier_epoch *meeting, int listener);

/* Rank job->rank, which is not 0, asks where rank 0 listens, on a fresh connection to the
 * rendezvous at *root, which becomes the answer. Blocks until rank 0 has come, or the deadline.
 * Fails as weiri_handshake_call(). */
weir_status weiri_rendezvous_ask(const weiri_job *job, int fd, const weiri_deadline *deadline,
                                 weiri_address *root);

#endif
