/* What the driver tells of memory of a GPU, for those who are given some. */
#ifndef WEIR_TRANSPORT_MAPPED_CUDA_IPC_H
#define WEIR_TRANSPORT_MAPPED_CUDA_IPC_H

#include <stddef.h>
#include <stdint.h>

typedef struct weiri_cuda_range {
    uintptr_t begin, end;
    int is_whole; /* an allocation of cudaMalloc, which ends there; to a piece that was mapped into
                     a range of addresses, others may be joined */
} weiri_cuda_range;

/* The allocation that an address lies in. Returns 0; -1 where the driver does not tell. Local; some
 * hundred nanoseconds. */
int weiri_cuda_range_of(uintptr_t address, weiri_cuda_range *range);

#endif
