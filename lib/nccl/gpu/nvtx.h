/*
 * NVTX ranges around the calls on GPUs, in the domain "NCCL", where profilers look for them.
 * Without a profiler there is no domain, and a call costs two branches. nvtx_cuda.c has the
 * ranges, nvtx_none.c is for builds without CUDA.
 */
#ifndef WEIR_NCCL_NVTX_H
#define WEIR_NCCL_NVTX_H

#include "nccl/abi.h"

/* Asks for the domain, unless NCCL_NVTX_DISABLE is set. Once, before the first range. */
void weiri_nccl_nvtx_open(void);
void weiri_nccl_nvtx_push(const char *name, uint64_t bytes);
void weiri_nccl_nvtx_pop(void);

/* Begin and end a range of the calling thread. name is a function of NCCL's interface, and bytes
 * the size of its message. Each begin has one end. */
static inline void weiri_nccl_nvtx_begin(const weiri_nccl_comm *comm, const char *name,
                                         uint64_t bytes)
{
    if (comm->device >= 0)
        weiri_nccl_nvtx_push(name, bytes);
}

static inline void weiri_nccl_nvtx_end(const weiri_nccl_comm *comm)
{
    if (comm->device >= 0)
        weiri_nccl_nvtx_pop();
}

#endif
