/*
 * The layout of a call: which bytes each chunk covers.
 *
 * A buffer consists of blocks of equal length: the input of an alltoall or reduce_scatter and the
 * output of an allgather or alltoall have one block for each rank, every other buffer has one
 * block. A plan divides each block into the same number of chunks, of
 *
 *   chunk_bytes = block_bytes / chunks of a block, rounded up to the alignment,
 *
 * where the alignment is the plan's, or the element size if that is larger. The last chunks of a
 * block may be shorter or empty. So every length is accepted, no data is dropped, and where
 * lengths divide evenly, the offsets equal those of MSCCL++.
 *
 * Scratch consists of slots, one for each chunk, of chunk_bytes each; in a plan with packets of
 * twice that, because a packet takes 8 bytes for 4 bytes of data. With double_scratch there are
 * two halves, which launches use alternately.
 *
 * An operation handles its references chunk by chunk: the k-th chunk of each reference goes with
 * the k-th of the others, up to the shortest of those that are not in scratch. Packets are sent
 * and awaited for whole chunks; beyond the end of a block they carry zeros. So the order that
 * packets establish does not depend on the length.
 *
 * The chunks of a reference, each of chunk_bytes, concatenated, are called its line: byte v of the
 * line is byte v % chunk_bytes of chunk v / chunk_bytes. Thread blocks of a group and turns of a
 * pipeline each handle a part of the line.
 */
#ifndef WEIR_PLAN_FORMAT_LAYOUT_H
#define WEIR_PLAN_FORMAT_LAYOUT_H

#include "base/contract.h"
#include "plan/format/plan.h"

typedef struct weiri_plan_layout {
    uint64_t in_bytes, out_bytes, block_bytes, block_chunks, chunk_bytes;
    uint64_t alignment;     /* chunk_bytes is a multiple of it */
    uint64_t slot_bytes;    /* of a slot of scratch */
    uint64_t half_bytes;    /* of all slots, on the rank that has the most */
    uint64_t scratch_bytes; /* of scratch: half_bytes, or twice that with double_scratch */
} weiri_plan_layout;

/* Computes the layout of a call; every rank computes the same. WEIR_ERR_INVALID: the lengths are
 * outside the plan's range, do not fit the collective, or are no multiple of the element. */
weir_status weiri_plan_lay_out(const weir_plan *plan, uint64_t in_bytes, uint64_t out_bytes,
                               size_t element_bytes, weiri_plan_layout *layout);

/* 1 if the collective has a root. */
static inline int weiri_plan_has_root(const weir_plan *plan)
{
    return weiri_contract_of(plan->collective)->has_root;
}

/* Blocks of the collective's input or output; 1 for scratch. */
uint32_t weiri_plan_blocks(const weir_plan *plan, weir_plan_buffer buffer);
/* Chunks of one block; validation makes sure that all ranks and buffers agree. 1 for a plan of an
 * unknown collective that has neither input nor output; 0: there are too few for its blocks. */
uint32_t weiri_plan_block_chunks(const weir_plan *plan);

/* Offset of a chunk in its buffer, in bytes; in scratch, within a half. */
uint64_t weiri_plan_offset(const weiri_plan_layout *layout, weir_plan_buffer buffer,
                           uint32_t index);
/* Bytes of data in that chunk; always chunk_bytes in scratch. */
uint64_t weiri_plan_chunk_bytes(const weiri_plan_layout *layout, weir_plan_buffer buffer,
                                uint32_t index);

/* Number of turns of a pipeline. */
uint64_t weiri_plan_turns(const weiri_plan_layout *layout, const weiri_plan_op *op);

/* The bytes [first, end) of its line that an operation handles: the part of its thread block in
 * its group, in whole units of the alignment, and of that part those of the given turn. */
typedef struct weiri_plan_span {
    uint64_t first, end;
} weiri_plan_span;
/* size: chunks of the line. turn_bytes 0: the operation is not in a pipeline. */
weiri_plan_span weiri_plan_part(const weiri_plan_layout *layout, const weiri_plan_op *op,
                                uint32_t size, uint64_t turn, uint64_t turn_bytes);

#endif
