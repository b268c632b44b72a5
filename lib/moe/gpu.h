/*
 * Expert parallelism on GPUs, as the calls of weir/moe.h use it: gpu_cuda.c, or gpu_none.c in
 * builds without CUDA. A call becomes one launch (cuda/args.h). The host checks arguments that it
 * can see; a rank that cannot take part launches a kernel that says so to the others. What kernels
 * find is reported by weir_moe_check.
 */
#ifndef WEIR_MOE_GPU_H
#define WEIR_MOE_GPU_H

#include "moe/group.h"

/* Returns 1 if this build has kernels. */
int weiri_moe_gpu_is_built(void);
/* Sets up group->gpu, after the sizes of the group are known. Collective; agreed. */
weir_status weiri_moe_gpu_open(weir_moe *group);
/* After a barrier. */
void weiri_moe_gpu_close(weir_moe *group);

/* Enqueue a call, or one half of it, on its stream. */
weir_status weiri_moe_gpu_dispatch(weir_moe *group, const moe_call *call, int phases);
weir_status weiri_moe_gpu_combine(weir_moe *group, const moe_call *call, int phases);
/* Returns the first failure that kernels have found since the last call. */
weir_status weiri_moe_gpu_check(weir_moe *group);
/* The same as weir_moe_locate; blocking. */
weir_status weiri_moe_gpu_locate(const weir_moe *group, int handle, int token, int choice,
                                 int *rank, int *row);

#endif
