/*
 * The encoder's list of every block's steps. Layers, each of which uses only those before it:
 * encoder.c (the lists), encode_sync.c (block barriers), encode_moves.c (steps that move data),
 * encode.c (everything else, and the public functions). entry.c provides its input, and pages.c
 * packs the lists into pages.
 */
#ifndef WEIR_PLAN_CUDA_ENCODER_H
#define WEIR_PLAN_CUDA_ENCODER_H

#include "plan/cuda/encode.h"

/* A step before it has a page. */
typedef struct weiri_item {
    weiri_image_step step;
    uint32_t first, count; /* in the encoder's operands or ids */
    uint32_t target;       /* end of a loop: the item of the body's first step; port put: the
                            * channel's id */
} weiri_item;

typedef struct weiri_list {
    void *at;
    uint32_t count, most;
} weiri_list;

/* The user of a channel: none (0), thread block user - 1, or several. */
#define WEIRI_SEVERAL UINT32_MAX
static inline uint32_t weiri_one_more_user(uint32_t user, uint32_t block)
{
    return user == 0 || user == block + 1 ? block + 1 : WEIRI_SEVERAL;
}

typedef struct weiri_encoder {
    const weiri_program *program;
    const char *name;
    int in_place; /* the plan is for use in place */
    int nvlink;   /* several blocks can signal through one channel */
    weir_status status;
    weiri_list items, operands, ids, begins; /* begins: each block's first item */
    /* Since the last block barrier: */
    int moved, waited, fenced;
    uint32_t first_move;      /* index of an item */
    uint32_t syncs;           /* block barriers so far */
    uint32_t *last_sync;      /* [2 * channel + is a wait]: syncs at the last use, plus 1 */
    uint32_t *users;          /* likewise, the blocks that use it */
    unsigned char *redundant; /* likewise, whether its next use, the first one, is left out */
} weiri_encoder;

/* What a step does, as far as block barriers depend on it. */
typedef enum weiri_effect {
    WEIRI_MOVES,
    WEIRI_WAITS,
    WEIRI_ORDERS,         /* publishes what was moved before */
    WEIRI_ORDERS_NOTHING, /* a relaxed signal */
    WEIRI_LOOPS,
} weiri_effect;

static inline weiri_item *weiri_item_at(const weiri_encoder *of, uint32_t index)
{
    return (weiri_item *)of->items.at + index;
}

/* Appends a zeroed element to a list. NULL: to->status has the error. */
void *weiri_encoder_append(weiri_encoder *to, weiri_list *of, size_t element_bytes);
/* Appends an item, which may move when another one is added. NULL likewise. */
weiri_item *weiri_encoder_add_item(weiri_encoder *to, weiri_image_kind kind,
                                   const weiri_step *from);
/* Adds the items of a step that moves data. */
void weiri_encoder_add_move(weiri_encoder *to, weiri_image_kind kind, const weiri_step *step);

/* Whether a move conflicts with one of the items between the last block barrier and `end`: one
 * reads or writes what the other writes. */
int weiri_encoder_conflicts(const weiri_encoder *of, const weiri_item *move, uint32_t end);
/* Makes the block synchronize before an item. */
void weiri_encoder_sync(weiri_encoder *to, weiri_item *before);
/* Likewise before the last item, which must be complete, if it needs that. */
void weiri_encoder_sync_if_needed(weiri_encoder *to, weiri_effect what);

/* Decides whether ranks announce their buffers at entry (announces of weiri_image) and, if so,
 * which of a rank's signals and waits that makes redundant: those of memory channels whose first
 * signal of a launch only means that the launch has begun; they are left out at both ends.
 * redundant: [2 * channel + is a wait]; the caller frees it even after an error.
 * WEIR_ERR_NO_MEMORY. */
weir_status weiri_image_plan_entry(const weir_plan *plan, int rank, uint32_t nchannels,
                                   int *must_announce, unsigned char **redundant);

/* Packs the items into pages, as long as the longest block's list and at most page_most. Errors as
 * weiri_image_encode. */
weir_status weiri_image_make_pages(const weiri_encoder *of, uint32_t page_most, weiri_image *image);

#endif
