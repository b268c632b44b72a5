/* The communicator as kernels see it: plain data. */
#ifndef WEIR_COMM_GPU_GPU_VIEW_H
#define WEIR_COMM_GPU_GPU_VIEW_H

#include <weir/device.h>

enum {
    WEIRI_GPU_RANKS_MAX = WEIR_GPU_RANKS_MAX,
    WEIRI_GPU_REGIONS_MAX = 512, /* live allocations per rank */
    WEIRI_GPU_EPOCH_SHIFT = 16,  /* a launch has fewer blocks than 2^16 */
};

/* The changing state of a communicator, in this rank's device memory. Kernels of one communicator
 * do not overlap. */
typedef struct weiri_gpu_state {
    uint64_t turns; /* the epoch (number, from 1) of the next launch << WEIRI_GPU_EPOCH_SHIFT,
                       plus, while a launch runs, what its blocks have added */
} weiri_gpu_state;

/* The communicator on one rank. */
typedef struct weiri_gpu_view {
    int32_t rank, nranks;
    weiri_gpu_state *state;
    char *scratch[WEIRI_GPU_RANKS_MAX]; /* every rank's, mapped here */
    char *const *regions; /* device memory: [rank * WEIRI_GPU_REGIONS_MAX + region], mapped here */
    weir_guard guard;
} weiri_gpu_view;

#endif
