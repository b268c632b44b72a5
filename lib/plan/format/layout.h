/*
 * Which bytes a chunk is.
 *
 * A collective's buffers consist of blocks: the input of an alltoall or a reduce_scatter and
 * the output of an allgather or an alltoall have one for each rank, every other buffer is a
 * single one. All blocks of a call have the same length, and a plan divides each of them into
 * the same number of chunks. A chunk has
 *
 *   chunk_bytes = block_bytes / chunks of a block, rounded up to the alignment,
 *
 * where the alignment is the plan's, or an element's bytes if those are more; the last
 * chunks of a block may be shorter, or empty. So no length is refused, nothing is dropped,
 * the longest chunk is as short as any division makes it, and where the lengths divide, the
 * offsets are those of MSCCL++.
 *
 * Scratch consists of slots, one for each of its chunks, each as long as a chunk: twice that
 * in a plan with packets, of which each 4 bytes take 8. With double_scratch there are two
 * halves, which launches use in turn.
 *
 * An operation handles its references chunk by chunk: the k-th chunk of one goes with the
 * k-th of the others, as far as the shortest of those that are in blocks. Packets are sent
 * and awaited for whole chunks: what lies behind a block's end is zeros there, so that
 * whatever order the packets of a plan establish, they establish for every length.
 *
 * Where an operation handles a part (of a group of thread blocks, of a pipeline's turns), it
 * is one of the line that its chunks form, whole ones, one behind the other: byte v of the
 * line is byte v % chunk_bytes of chunk v / chunk_bytes.
 */
#ifndef WEIR_PLAN_FORMAT_LAYOUT_H
#define WEIR_PLAN_FORMAT_LAYOUT_H

#include "plan/format/plan.h"

typedef struct weiri_plan_layout {
    uint64_t in_bytes, out_bytes;
    uint64_t block_bytes, block_chunks;
    uint64_t chunk_bytes;
    uint64_t alignment;     /* which that is a multiple of */
    uint64_t slot_bytes;    /* of scratch */
    uint64_t half_bytes;    /* of all slots of the rank with the most */
    uint64_t scratch_bytes; /* of both halves, if there are two */
} weiri_plan_layout;

/* The layout of a call, which every rank computes alike. WEIR_ERR_INVALID: lengths outside
 * the plan's range, that do not fit the collective, or no multiple of the element. */
weir_status weiri_plan_lay_out(const weir_plan *plan, uint64_t in_bytes, uint64_t out_bytes,
                               size_t element_bytes, weiri_plan_layout *layout);

/* Whether one rank's part in the collective is another than the others'. */
static inline int weiri_plan_has_root(const weir_plan *plan)
{
    return plan->collective == WEIR_COLL_BROADCAST || plan->collective == WEIR_COLL_REDUCE;
}

/* How many blocks the collective's input or output has; 1 for scratch. */
uint32_t weiri_plan_blocks(const weir_plan *plan, weir_plan_buffer buffer);
/* Chunks of one block; validated to be the same wherever a rank has chunks. */
uint32_t weiri_plan_block_chunks(const weir_plan *plan);

/* Where a chunk begins in its buffer, in bytes; of scratch within a half. */
uint64_t weiri_plan_offset(const weiri_plan_layout *layout, weir_plan_buffer buffer,
                           uint32_t index);
/* Bytes of data of that chunk; of scratch always chunk_bytes. */
uint64_t weiri_plan_chunk_bytes(const weiri_plan_layout *layout, weir_plan_buffer buffer,
                                uint32_t index);

/* How often a pipeline's body runs. */
uint64_t weiri_plan_turns(const weiri_plan_layout *layout, const weiri_plan_op *op);

/* The part of an operation's line that it handles, [first, end) in bytes: its block's part of
 * a group of thread blocks, whole units of alignment, and of that the turn of a pipeline. */
typedef struct weiri_plan_span {
    uint64_t first, end;
} weiri_plan_span;
/* turn_bytes 0: not in a pipeline. */
weiri_plan_span weiri_plan_part(const weiri_plan_layout *layout, const weiri_plan_op *op,
                                uint32_t size, uint64_t turn, uint64_t turn_bytes);

#endif
