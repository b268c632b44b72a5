/*
 * The memory that weir's calls get in bench_moe: on the host a candidate's own buffers, on a GPU
 * device memory, of which the candidate's buffers are mirrors. Faults are injected, and results
 * checked, in mirrors.
 */
#ifndef BENCH_MOE_DEVICE_H
#define BENCH_MOE_DEVICE_H

#include "bench/gpu/gpu.h"
#include "bench/moe/moe_trial.h"

enum { MOE_DEVICE_BUFFERS = 32 };

typedef struct moe_inputs {
    char *x, *outputs;
    float *weights;
    int32_t *experts; /* -1 for tokens that a rank lacks */
} moe_inputs;

typedef struct moe_device {
    moe_inputs versions[WEIRV_MOE_VERSIONS];
    moe_inputs slots[WEIRV_MOE_VERSIONS]; /* what calls read: the same, or, if calls are captured,
                                             copies, whose outputs are one buffer */
    char *rows, *out;
    float *scales, *row_weights;
    int32_t *row_experts, *counts, *offsets;
    size_t mirror_rows; /* rows of the mirrors, fewer than the group can receive */
    weir_mem *memory[MOE_DEVICE_BUFFERS];
    void *allocated[MOE_DEVICE_BUFFERS];
    int nmemory, nallocated;
} moe_device;

/* Finds or allocates the memory of a candidate that has its group's info, and copies tokens,
 * weights and experts. Collective; agreed. */
weir_status bench_moe_device_open(moe_candidate *candidate, moe_device *device);
void bench_moe_device_close(moe_candidate *candidate, moe_device *device);
/* Copy parts (MOE_PART_*) from mirrors to the GPU, and back; nothing on the host. */
weir_status bench_moe_device_store(moe_candidate *candidate, moe_device *device, int version,
                                   int parts);
weir_status bench_moe_device_fetch(moe_candidate *candidate, moe_device *device, int parts);
/* Enqueues copies of parts of a version to a slot. */
weir_status bench_moe_device_place(moe_candidate *candidate, moe_device *device, int slot,
                                   int version, int parts);
/* Measures the time in which the GPU copies memory, with so many bytes read and written in all. */
weir_status bench_moe_device_copy_us(moe_candidate *candidate, moe_device *device, double bytes,
                                     double *us);

#endif
