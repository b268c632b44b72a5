/* Queries of the CUDA driver about GPU memory that a user passes in. */
#ifndef WEIR_TRANSPORT_MAPPED_CUDA_IPC_H
#define WEIR_TRANSPORT_MAPPED_CUDA_IPC_H

#include <stddef.h>
#include <stdint.h>

typedef struct weiri_cuda_range {
    uintptr_t begin, end;
    int is_whole; /* an allocation of cudaMalloc or cudaMallocAsync, which ends there; to a piece
                     that was mapped into a range of addresses, others may be joined */
} weiri_cuda_range;

/* Finds the allocation that contains an address. Returns 0, or -1 if the driver does not know it.
 * Local; takes some hundred nanoseconds. */
int weiri_cuda_range_of(uintptr_t address, weiri_cuda_range *range);

#endif
