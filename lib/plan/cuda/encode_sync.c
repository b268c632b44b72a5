/*
 * Decides where the threads of a block synchronize (image.h): before an item if what precedes it
 * since the last block barrier requires it.
 */
#include "plan/cuda/encoder.h"

enum { MOVES_MOST = 32 }; /* between two block barriers, to bound the search for conflicts */

/* The bytes of its buffer that an operand of a step covers. */
typedef struct extent {
    uint32_t base;
    uint64_t begin, end;
} extent;

static extent extent_of(const weiri_encoder *of, const weiri_item *one, uint32_t i)
{
    const weiri_image_operand *operand =
        (const weiri_image_operand *)of->operands.at + one->first + i;
    const weiri_image_step *step = &one->step;
    const int is_dst = i >= step->nsrcs;
    const int is_first = i == 0 || i == step->nsrcs;
    const int bit = is_dst ? WEIRI_IMAGE_TO_PACKETS : WEIRI_IMAGE_FROM_PACKETS;
    const int packets = (step->flags & bit) && !(step->kind == WEIRI_IMAGE_REDUCE && is_first);
    return (extent){operand->base, operand->offset + (step->run_begin << packets),
                    operand->offset + (step->run_end << packets)};
}

/* In a plan for use in place, input and output of a rank are the same memory, at any offset;
 * otherwise the executor keeps them apart. */
static int overlap(const weiri_encoder *of, extent a, extent b)
{
    const uint32_t buffers = WEIRI_IMAGE_BUFFERS, scratch = WEIRI_IMAGE_BUFFERS - 1;
    if (a.base / buffers != b.base / buffers)
        return 0;
    if (a.base != b.base)
        return of->in_place && a.base % buffers != scratch && b.base % buffers != scratch;
    return a.begin < b.end && b.begin < a.end;
}

static int conflict(const weiri_encoder *of, const weiri_item *a, const weiri_item *b)
{
    const uint32_t na = (uint32_t)a->step.nsrcs + a->step.ndsts;
    const uint32_t nb = (uint32_t)b->step.nsrcs + b->step.ndsts;
    for (uint32_t i = 0; i < na; i++)
        for (uint32_t j = 0; j < nb; j++)
            if ((i >= a->step.nsrcs || j >= b->step.nsrcs) &&
                overlap(of, extent_of(of, a, i), extent_of(of, b, j)))
                return 1;
    return 0;
}

int weiri_encoder_conflicts(const weiri_encoder *of, const weiri_item *move, uint32_t end)
{
    if (!of->moved)
        return 0;
    if (end - of->first_move > MOVES_MOST)
        return 1;
    for (uint32_t i = of->first_move; i < end; i++) {
        const weiri_item *before = weiri_item_at(of, i);
        if (before->step.kind <= WEIRI_IMAGE_REDUCE && conflict(of, before, move))
            return 1;
    }
    return 0;
}

void weiri_encoder_sync(weiri_encoder *to, weiri_item *before)
{
    before->step.flags |= WEIRI_IMAGE_SYNC;
    to->moved = to->waited = to->fenced = 0;
    to->syncs++;
}

void weiri_encoder_sync_if_needed(weiri_encoder *to, weiri_effect what)
{
    weiri_item *last = weiri_item_at(to, to->items.count - 1);
    int must = to->waited || to->fenced;
    if (what == WEIRI_WAITS)
        must = 0;
    else if (what == WEIRI_MOVES)
        must = must || weiri_encoder_conflicts(to, last, to->items.count - 1);
    else if (what != WEIRI_ORDERS_NOTHING)
        must = must || to->moved;
    if (must)
        weiri_encoder_sync(to, last);
    if (what == WEIRI_MOVES && !to->moved)
        to->first_move = to->items.count - 1;
    to->moved |= what == WEIRI_MOVES;
    to->waited |= what == WEIRI_WAITS || last->step.kind == WEIRI_IMAGE_BARRIER;
}
