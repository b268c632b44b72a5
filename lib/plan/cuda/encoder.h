/*
 * What the encoder's parts share: a list of every block's steps, which encode.c makes with
 * encode_moves.c and encode_meets.c, and pages.c puts into pages.
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

/* Who uses something: nobody (0), thread block user - 1, or several. */
#define WEIRI_SEVERAL UINT32_MAX
static inline uint32_t weiri_one_more_user(uint32_t user, uint32_t block)
{
    return user == 0 || user == block + 1 ? block + 1 : WEIRI_SEVERAL;
}

typedef struct weiri_encoder {
    const weiri_program *program;
    const char *name;
    int in_place; /* the plan is for that */
    int nvlink;   /* several blocks can signal through one channel */
    weir_status status;
    weiri_list items, operands, ids, begins; /* begins: each block's first item */
    /* Since the block's threads met last: */
    int moved, waited, fenced;
    uint32_t first_move; /* item */
    uint32_t meetings;   /* so far */
    uint32_t *met;       /* [2 * channel + is a wait]: meetings when it was used last, plus 1 */
    uint32_t *users;     /* likewise: who uses it */
    unsigned char *needless; /* likewise: the first one is still to be left out */
} weiri_encoder;

/* What a step does, for where the block meets. */
typedef enum weiri_effect {
    WEIRI_MOVES,
    WEIRI_WAITS,
    WEIRI_ORDERS,         /* tells others that what was moved before is there */
    WEIRI_ORDERS_NOTHING, /* a relaxed signal */
    WEIRI_LOOPS,
} weiri_effect;

static inline weiri_item *weiri_item_at(const weiri_encoder *of, uint32_t index)
{
    return (weiri_item *)of->items.at + index;
}

/* Room for one more element of a list, zeroed; NULL: an error is in to->status, or was before. */
void *weiri_encoder_append(weiri_encoder *to, weiri_list *of, size_t element_bytes);
/* The next item, which may move when another one is added; NULL likewise. */
weiri_item *weiri_encoder_add_item(weiri_encoder *to, weiri_image_kind kind,
                                   const weiri_step *from);
/* A step that moves data, of whatever kind of the image's. */
void weiri_encoder_add_move(weiri_encoder *to, weiri_image_kind kind, const weiri_step *step);

/* Whether a move reads what one of the items before `end` writes, or writes what one reads or
 * writes, since the block met last. */
int weiri_encoder_conflicts(const weiri_encoder *of, const weiri_item *move, uint32_t end);
/* The block meets before an item. */
void weiri_encoder_meet(weiri_encoder *to, weiri_item *before);
/* The same before the last item, which is complete, if it must. */
void weiri_encoder_place_meeting(weiri_encoder *to, weiri_effect what);

/* Whether ranks tell each other at entry (weiri_image's tells), and if so, which of a rank's
 * signals and waits that makes needless: those of memory channels by which a rank says that its
 * launch has begun, in the first signal of a launch, which no peer may miss if it is left out
 * at both ends. needless: [2 * channel + is a wait], to be freed by the caller whatever the
 * outcome. WEIR_ERR_NO_MEMORY. */
weir_status weiri_image_settle_entry(const weir_plan *plan, int rank, uint32_t nchannels,
                                     int *must_tell, unsigned char **needless);

/* Puts the list into pages, as long as the longest block's steps, and at most page_most. Errors
 * as weiri_image_encode's. */
weir_status weiri_image_make_pages(const weiri_encoder *of, uint32_t page_most,
                                   weiri_image *image);

#endif
