/*
 * One-sided calls in their most frequent shape take a shorter path: outside groups, with one peer
 * on the same node, on host memory, for puts with a window that was used before, and
 * unless calls are logged.
 * These functions return 0, without an effect or an error text, where the general path must
 * decide (rma_calls.c); so all errors are reported there.
 */
#ifndef WEIR_NCCL_RMA_QUICK_H
#define WEIR_NCCL_RMA_QUICK_H

#include "nccl/rma/rma.h"

/* The words about a rank, by index; all NULL for ranks of other nodes. */
typedef struct weiri_rma_peer {
    uint64_t *there; /* the peer's `arrived` */
    uint64_t *sent, *arrived, *taken;
} weiri_rma_peer;

enum { WEIRI_RMA_RECENT = 8 };

typedef struct weiri_rma_quick {
    unsigned contexts, signals; /* 0: the short path serves nothing */
    unsigned rank, nranks;
    weiri_rma_peer *peers; /* nranks */
    /* Windows of this communicator that puts have used, by their address; NULL: none. */
    _Atomic(weiri_registration *) recent[WEIRI_RMA_RECENT];
} weiri_rma_quick;

/* Fills them; WEIR_ERR_NO_MEMORY. Frees them. */
weir_status weiri_rma_quick_open(weiri_nccl_comm *comm);
void weiri_rma_quick_close(weiri_nccl_rma *rma);

/* Offers a window, which a put has just used, to later ones; and withdraws it before it is freed.
 */
void weiri_rma_quick_keep(const weiri_nccl_comm *comm, weiri_registration *window);
void weiri_rma_quick_forget(const weiri_nccl_comm *comm, const weiri_registration *window);

/* A put with its signal, and a signal alone. They return whether it is done. */
int weiri_rma_quick_put(ncclComm_t handle, int peer, ncclWindow_t window, uint64_t offset,
                        const void *from, uint64_t bytes, int signal, int context);
int weiri_rma_quick_signal(ncclComm_t handle, int peer, int signal, int context);
/* A wait for one descriptor. Returns whether it is done, with *result. */
int weiri_rma_quick_wait(ncclComm_t handle, const ncclWaitSignalDesc_t *desc, ncclResult_t *result);

#endif
