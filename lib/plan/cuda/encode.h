/* Makes images of programs; see image.h. Nothing here needs a GPU. */
#ifndef WEIR_PLAN_CUDA_ENCODE_H
#define WEIR_PLAN_CUDA_ENCODE_H

#include "plan/cuda/image.h"
#include "plan/format/plan.h"

typedef struct weiri_image {
    char *pages;
    uint32_t npages, page_bytes;
    uint32_t nblocks; /* at least 1: a rank without thread blocks has one without steps */
    /* Whether ranks must tell each other at the entry of every launch where their buffers are,
     * which also tells that all their earlier launches have ended: where a rank reaches a peer's
     * input or output, or where packets would else overwrite those of a launch that a peer is
     * still in. The latter cannot be if scratch alternates and every rank waits for packets of
     * every other. Not 0 on all ranks or on none: WEIRI_IMAGE_TELLS, or _FOR_LOADS. */
    int tells;
    uint32_t does; /* WEIRI_IMAGE_DOES_*, TELLS included */
} weiri_image;

/* Local. program: the plan's, of one of its ranks. page_bytes: the longest page that the kernel
 * takes. nvlink: it joins all GPUs. On success the caller frees pages with free().
 * WEIR_ERR_NO_MEMORY; WEIR_ERR_UNSUPPORTED: more ranks, or operands of one step, than the kernel
 * takes, or several thread blocks that wait on one port channel or, without NVLink, signal
 * through one memory channel. */
weir_status weiri_image_encode(const weir_plan *plan, const weiri_program *program,
                               uint32_t page_bytes, int nvlink, weiri_image *image);

/* A rank's memory channels as its kernel has them, in the program's order: counters in every
 * rank's segment, as mapped here. channels: program->nchannels, all zeros. Local. */
void weiri_image_fill_channels(const weiri_program *program, char *const *segments,
                               weiri_image_channel *channels);

#endif
