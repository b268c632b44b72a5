/* Makes images (image.h) of programs. Nothing here needs a GPU. */
#ifndef WEIR_PLAN_CUDA_ENCODE_H
#define WEIR_PLAN_CUDA_ENCODE_H

#include "plan/cuda/image.h"
#include "plan/format/plan.h"

typedef struct weiri_image {
    char *pages;
    uint32_t npages, page_bytes;
    uint32_t nblocks; /* at least 1: a rank without thread blocks has one without steps */
    /* Whether ranks announce their buffers to each other at the entry of every launch, which also
     * means that all their earlier launches have ended: 0 on all ranks or on none. Needed if a rank
     * accesses a peer's input or output, or if packets could otherwise overwrite those of a launch
     * that a peer is still in; the latter is impossible if scratch alternates and every rank awaits
     * packets of every other rank. WEIRI_IMAGE_ANNOUNCES, or _FOR_LOADS. */
    int announces;
    uint32_t does; /* WEIRI_IMAGE_DOES_* */
} weiri_image;

/* Local. program: the plan's, for one rank. page_bytes: the longest page that the kernel takes.
 * nvlink: NVLink connects all GPUs. On success the caller frees pages with free(). Fails with
 * WEIR_ERR_NO_MEMORY, with WEIR_ERR_INVALID if a step needs more than a page, or with
 * WEIR_ERR_UNSUPPORTED if the kernel does not take so many ranks, if several thread blocks wait on
 * one port channel or, without NVLink, if several signal through one memory channel. */
weir_status weiri_image_encode(const weir_plan *plan, const weiri_program *program,
                               uint32_t page_bytes, int nvlink, weiri_image *image);

/* Fills in a rank's memory channels as its kernel needs them, in the program's order. segments: of
 * all ranks, as mapped on this rank. channels: program->nchannels, all zero. Local. */
void weiri_image_fill_channels(const weiri_program *program, char *const *segments,
                               weiri_image_channel *channels);

#endif
