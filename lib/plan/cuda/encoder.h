/*
 * What the two passes of the encoder share: a list of every block's steps, which encode.c
 * makes and pages.c puts into pages.
 */
#ifndef WEIR_PLAN_CUDA_ENCODER_H
#define WEIR_PLAN_CUDA_ENCODER_H

#include "plan/cuda/encode.h"

/* A step before it has a page. */
typedef struct weiri_item {
    weiri_image_step step;
    uint32_t first, count; /* of the encoder's operands or ids */
    uint32_t target;       /* turn: the item of the body's first step */
} weiri_item;

typedef struct weiri_list {
    void *at;
    uint32_t count, most;
} weiri_list;

typedef struct weiri_encoder {
    const weiri_program *program;
    const char *name;
    weir_status status;
    weiri_list items, operands, ids, begins; /* begins: each block's first item */
    /* Since the block's threads met last: */
    int moved, waited, fenced;
    uint32_t first_move; /* item */
    uint32_t meetings;   /* so far */
    uint32_t *met;       /* [2 * channel + is a wait]: meetings when it was used last, plus 1 */
    uint32_t *users;     /* likewise: the block that uses it, plus 1; SEVERAL */
} weiri_encoder;

static inline weiri_item *weiri_item_at(const weiri_encoder *of, uint32_t index)
{
    return (weiri_item *)of->items.at + index;
}

/* Puts the list into pages, as long as the longest block's steps, and at most page_most. Errors
 * as weiri_image_encode's. */
weir_status weiri_image_make_pages(const weiri_encoder *of, uint32_t page_most,
                                   weiri_image *image);

#endif
