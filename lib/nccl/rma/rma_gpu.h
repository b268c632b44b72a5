/*
 * The arguments of the kernels of one-sided calls, which are passed by value. rma_cuda.c launches
 * the kernels of rma.cuh.
 */
#ifndef WEIR_NCCL_RMA_GPU_H
#define WEIR_NCCL_RMA_GPU_H

#include <weir/device.h>

/* A put by one block, followed by a signal. */
typedef struct weiri_rma_out_args {
    char *to;
    const char *from;
    uint64_t bytes;    /* 0: only the signal */
    uint64_t *sent;    /* this rank's count */
    uint64_t *arrived; /* the peer's */
} weiri_rma_out_args;

/* Waits of one launch, for different counts: each by one thread. */
enum { WEIRI_RMA_WAITS_MAX = 64 };
typedef struct weiri_rma_wait_args {
    weir_guard guard;
    int32_t count;
    struct {
        const uint64_t *arrived;
        uint64_t *taken;
        uint64_t count;
        int32_t peer; /* its number on the node */
    } wait[WEIRI_RMA_WAITS_MAX];
} weiri_rma_wait_args;

#endif
