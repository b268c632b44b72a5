/* Internals of plan execution on GPUs, shared by run_cuda.c, context_cuda.c and ports_cuda.c. */
#ifndef WEIR_PLAN_CUDA_DEVICE_H
#define WEIR_PLAN_CUDA_DEVICE_H

#include "plan/cuda/encode.h"
#include "plan/cuda/kernels.h"
#include "plan/execute/executor.h"

enum { WEIRI_DEVICE_THREADS_LEAST = 64 }; /* of a block, at least */

/* The executor's backend data. */
typedef struct weiri_device {
    weiri_plan_ports ports;
} weiri_device;

/* A staging buffer, used where the caller's buffer cannot be. */
typedef struct weiri_staging {
    char *at;            /* NULL: not allocated */
    weiri_gpu_desc desc; /* PLAIN: peers do not know it */
    weir_mem *own;       /* NULL: it lies in the segment */
} weiri_staging;

/* A context's backend data. */
typedef struct weiri_device_context {
    weiri_image image;             /* pages: NULL once they are on the device */
    weir_mem *segment, **segments; /* segment: this rank's; segments: of all ranks */
    weiri_staging staging[2];      /* of input and output, or of the one region */
    void *kept;                    /* device memory: state, counters, pages */
    weir_sem **sems;               /* by channel; NULL for memory channels */
    weir_portchan **ports;
    struct weir_portchan_dev **port_views; /* as the kernel sees them */
    int threads;                           /* per block */
    const void *fits[WEIR_DTYPE_COUNT];    /* by type: the kernel whose blocks are known to be all
                                            * resident at once */
    weiri_image_args args;                 /* except for what a call sets */
} weiri_device_context;

/* The backend's functions for contexts; see executor.h. */
weir_status weiri_device_admit(const weir_executor *executor, const weir_plan *plan,
                               const weir_call *call);
weir_status weiri_device_prepare(weir_executor *executor, const weir_plan *plan,
                                 weiri_plan_context *context);
void weiri_device_release(weir_executor *executor, weiri_plan_context *context);

/* A call's buffers; which: 0 for the input or the one region, 1 for the output. All are local: the
 * buffer's length; the pointer that the placement requests, NULL if it requests staging; and
 * whether a pointer can be used as it is (*can), with its description for peers (*desc). */
uint64_t weiri_device_staging_bytes(const weiri_plan_context *context, int which);
const char *weiri_device_requested(const weiri_placement *placement, int which);
weir_status weiri_device_check_buffer(weir_executor *executor, const weiri_plan_context *context,
                                      int which, const char *pointer, weiri_gpu_desc *desc,
                                      int *can);

/* The kernel for a call. */
const void *weiri_device_kernel(const weiri_plan_context *context, const weir_call *call);
/* Checks that all blocks of a type's kernel are resident at once, as they wait for each other.
 * Loads the type's kernels. The device must be current. Local. */
weir_status weiri_device_check_fit(const weir_executor *executor, const weiri_plan_context *context,
                                   const void *kernel, weir_dtype dtype);

/* weiri_device_ports_connect creates semaphores for a context's port channels, and the proxy and
 * connections that do not exist yet. It is collective: every rank calls it, whatever failed before.
 * weiri_device_ports_create creates the channels once the segments are exchanged; it and
 * weiri_device_ports_free are local. */
weir_status weiri_device_ports_connect(weir_executor *executor, weiri_plan_context *context);
weir_status weiri_device_ports_create(weir_executor *executor, weiri_plan_context *context);
void weiri_device_ports_free(weiri_plan_context *context);

#endif
