/*
 * Users of communicators without atomic read-modify-writes, for calls that take less time than
 * those would. A thread that has a record notes in it the slot of the handle that it uses (a plain
 * store), and reads the handle's generation and state afterwards. A thread that ends a communicator
 * changes these first, then has the kernel execute a memory barrier on all threads of the process
 * (membarrier), and reads the records then. So either the thread sees the change, or it is seen.
 * Threads without a record, and processes whose kernel has no membarrier, count themselves in the
 * slot (handle.c).
 */
#ifndef WEIR_NCCL_USERS_H
#define WEIR_NCCL_USERS_H

#include "nccl/abi.h"
#include <weir/target.h>

/* The latest one-sided call of a thread with a peer, and what was found for it (rma_quick.c). It
 * holds as long as no communicator or window of the process has ended (epoch). */
typedef struct weiri_nccl_memo {
    ncclComm_t handle; /* NULL: none */
    int peer, signal, context;
    int forks;     /* of weiri_fork_count() */
    unsigned slot; /* as in weiri_nccl_user */
    uint64_t epoch;
    weiri_nccl_comm *comm;
    uint64_t *there, *sent, *arrived, *taken; /* as in weiri_rma_peer, of the index */
    ncclWindow_t window;                      /* of the latest put; NULL: none */
    char *mapped;                             /* the peer's memory of that, and its length */
    uint64_t bytes;
} weiri_nccl_memo;

enum { WEIRI_NCCL_MEMOS = 8 }; /* by peer */

/* A thread's record: only this thread writes it, and only `slot` is read by others. Records are
 * reused, and never freed. */
typedef struct weiri_nccl_user {
    _Alignas(2 * WEIR_LINE_BYTES) atomic_uint slot; /* 1 + the slot in use; 0: none */
    atomic_int is_owned;                            /* by a thread that runs */
    struct weiri_nccl_user *next;
    weiri_nccl_memo memos[WEIRI_NCCL_MEMOS];
} weiri_nccl_user;

/* How often communicators and windows have ended, or were suspended, in this process; grows before
 * weiri_nccl_users_fence. */
extern _Atomic uint64_t weiri_nccl_epoch __attribute__((visibility("hidden")));

static inline void weiri_nccl_epoch_end(void)
{
    atomic_fetch_add(&weiri_nccl_epoch, 1);
}

/* Gives the calling thread a record, if it has none and the system allows it. */
void weiri_nccl_user_prepare(void);
/* The barrier: afterwards weiri_nccl_users_of sees all users that have not seen an earlier change
 * of this thread. */
void weiri_nccl_users_fence(void);
/* How many records name a slot. */
unsigned weiri_nccl_users_of(unsigned slot);

/* As weiri_nccl_enter, for code that leaves in the same function, outside groups; user: the
 * calling thread's. Returns NULL, without an error text, if weiri_nccl_enter must decide: the
 * thread has no record or uses it already, or the handle is not valid or not ready. */
weiri_nccl_comm *weiri_nccl_enter_quick(ncclComm_t handle, weiri_nccl_user *user);

static inline void weiri_nccl_leave_quick(weiri_nccl_user *user)
{
    atomic_store_explicit(&user->slot, 0, memory_order_release);
}

#endif
