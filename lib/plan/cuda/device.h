/* What the parts of plans' execution on GPUs share on the host: run_cuda.c, context_cuda.c and
 * ports_cuda.c. */
#ifndef WEIR_PLAN_CUDA_DEVICE_H
#define WEIR_PLAN_CUDA_DEVICE_H

#include "plan/cuda/encode.h"
#include "plan/cuda/kernels.h"
#include "plan/execute/ports.h"

enum { WEIRI_DEVICE_THREADS_LEAST = 64 }; /* of a block, whatever it does */

/* The executor's own. */
typedef struct weiri_device {
    weiri_plan_ports ports;
} weiri_device;

/* A buffer that stands in for the caller's where that cannot be used. */
typedef struct weiri_stand_in {
    char *at;            /* NULL: there is none */
    weiri_gpu_desc desc; /* PLAIN: peers do not know it */
    weir_mem *own;       /* memory of its own; else it lies in the segment */
} weiri_stand_in;

/* A context's. */
typedef struct weiri_device_context {
    weiri_image image;      /* pages: NULL once they are on the device */
    weir_mem *segment, **segments; /* of all ranks; the own one is segment */
    weiri_stand_in stand_ins[2];   /* of input and output, or of the one region */
    void *kept;             /* device memory: state, counters, pages */
    weir_sem **sems;        /* by channel; NULL but for ports */
    weir_portchan **ports;
    struct weir_portchan_dev **port_views; /* where the kernel sees them */
    int threads;            /* of a block */
    const void *fits[WEIR_DTYPE_COUNT]; /* a type's kernel whose blocks all are resident at once */
    weiri_image_args args;  /* but for what a call adds */
} weiri_device_context;

/* The executor's functions that make and free contexts; executor.h. */
weir_status weiri_device_admit(const weir_executor *executor, const weir_plan *plan,
                               const weiri_plan_call *call);
weir_status weiri_device_prepare(weir_executor *executor, const weir_plan *plan,
                                 weiri_plan_context *context);
void weiri_device_release(weir_executor *executor, weiri_plan_context *context);

/* Buffers of a call; which: 0, the input or the one region; 1, the output. How long one is;
 * what the placement asks for, NULL: something must stand in; and whether that serves as it
 * is, with what peers are told of it. Local. */
uint64_t weiri_device_stand_in_bytes(const weiri_plan_context *context, int which);
const char *weiri_device_asked(const weiri_placement *placement, int which);
weir_status weiri_device_can_use(weir_executor *executor, const weiri_plan_context *context,
                                 int which, const char *pointer, weiri_gpu_desc *desc, int *can);

/* The kernel of a call. */
const void *weiri_device_kernel(const weiri_plan_context *context, const weiri_plan_call *call);
/* Whether all blocks of a type's kernel are on the device at once, as they wait for each other.
 * Loads the type's kernels. The device is current. Local. */
weir_status weiri_device_check_fit(const weir_executor *executor, const weiri_plan_context *context,
                                   const void *kernel, weir_dtype dtype);

/* Semaphores of a context's port channels, with a proxy and connections where there are none
 * yet; then the channels, once the segments are known. The first is collective: every rank
 * calls it, whatever happened before. weiri_device_ports_free is local. */
weir_status weiri_device_ports_connect(weir_executor *executor, weiri_plan_context *context);
weir_status weiri_device_ports_create(weir_executor *executor, weiri_plan_context *context);
void weiri_device_ports_free(weiri_plan_context *context);
/* Local: of the executor. */
void weiri_device_ports_close(weir_executor *executor);

#endif
