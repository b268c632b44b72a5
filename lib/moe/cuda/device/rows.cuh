/*
 * Rows of expert parallelism: their division among warps, and how a warp copies a part of one.
 */
#ifndef WEIR_MOE_CUDA_ROWS_CUH
#define WEIR_MOE_CUDA_ROWS_CUH

#include "moe/cuda/device/call.cuh"

/*
 * Rows are divided into slices (moe_slices of args.h). Units (a row and a slice) are numbered over
 * all rows that a launch moves, and warps take them in turn.
 */
typedef struct moe_turns {
    int next, warps; /* this warp's next unit, counted from the beginning of the current part */
} moe_turns;

WEIRI_GPU_FN moe_turns moe_turns_of(const moe_launch &l)
{
    moe_turns turns = {l.warp, l.warps};
    return turns;
}

/* Ends a part of so many units, after all of this warp's units in it. */
WEIRI_GPU_FN void moe_turns_end(moe_turns *turns, int64_t units)
{
    turns->next -= (int)(units % turns->warps);
    turns->next += turns->next < 0 ? turns->warps : 0;
}

/* The range [begin, end). */
typedef struct moe_span {
    int begin, end;
} moe_span;

/* How rows are divided: into parts of so many pieces, which are slices, or vectors for each lane.
 */
typedef struct moe_cut {
    int pieces, each, parts;
} moe_cut;

WEIRI_GPU_FN moe_cut moe_cut_into(int pieces, int each)
{
    return {pieces, each, (int)((uint32_t)(pieces + each - 1) / (uint32_t)each)};
}

/* As long as rows can be divided, each warp gets so many parts at least. */
WEIRI_GPU_FN moe_cut moe_cut_rows(uint32_t rows, int pieces, int warps, int parts)
{
    if (rows >= (uint32_t)(warps * parts))
        return moe_cut_into(pieces, pieces);
    const uint32_t share = rows * (uint32_t)pieces / (uint32_t)(warps * parts);
    return moe_cut_into(pieces, share < 1 ? 1 : (int)share);
}

/* Parts of a warp that receives rows: so many that all warps end at about the same time. */
enum { MOE_PARTS = 8 };

WEIRI_GPU_FN moe_span moe_pieces_of(const moe_cut &cut, int part)
{
    moe_span pieces = {part * cut.each, part * cut.each + cut.each};
    pieces.end = pieces.end < cut.pieces ? pieces.end : cut.pieces;
    return pieces;
}

/* Returns the next unit of a work that no warp has begun yet. Each warp begins with the unit of its
 * number; where units take different times, the warps that end first then claim what is left. All
 * lanes of a warp. */
WEIRI_GPU_FN uint32_t moe_claim(const moe_gpu_args &a, const moe_launch &l, int work,
                                uint32_t units)
{
    unsigned long long *claimed = (unsigned long long *)&moe_state(a)->claimed[work];
    uint32_t nth = 0;
    if (units <= (uint32_t)l.warps)
        return units;
    if (l.lane == 0)
        nth = (uint32_t)atomicAdd(claimed, 1ull);
    return (uint32_t)l.warps + __shfl_sync(0xffffffff, nth, 0);
}

/* A lane's part of a slice. Of rows that are not multiples of 16 bytes, only the lower half of a
 * vector's first word is used. */
struct moe_slice {
    weiri_gpu_vector vectors[MOE_VECTORS];
};

/* Calls move(index, place in the row, whether it has 16 bytes or 4) for the lane's vectors. */
template <class MOVE>
WEIRI_GPU_FN void moe_slice_each(uint32_t row_bytes, int slice, int lane, MOVE move)
{
    const uint32_t vector = moe_vector_bytes(row_bytes);
    const uint32_t first = (uint32_t)slice * moe_slice_bytes(row_bytes) + (uint32_t)lane * vector;
#pragma unroll
    for (uint32_t i = 0; i < MOE_VECTORS; i++) {
        const uint32_t at = first + i * MOE_WARP * vector;
        if (at < row_bytes)
            move(i, at, vector == 16);
    }
}

WEIRI_GPU_FN void moe_slice_load(moe_slice *s, const char *row, uint32_t row_bytes, int slice,
                                 int lane)
{
    moe_slice_each(row_bytes, slice, lane, [=](uint32_t i, uint32_t at, bool is_wide) {
        if (is_wide)
            s->vectors[i] = weiri_gpu_load16(row + at);
        else
            s->vectors[i].word[0] = *(const volatile uint32_t *)(row + at);
    });
}

WEIRI_GPU_FN void moe_slice_store(const moe_slice *s, char *row, uint32_t row_bytes, int slice,
                                  int lane)
{
    moe_slice_each(row_bytes, slice, lane, [=](uint32_t i, uint32_t at, bool is_wide) {
        if (is_wide)
            weiri_gpu_store16(row + at, s->vectors[i]);
        else
            *(uint32_t *)(row + at) = (uint32_t)s->vectors[i].word[0];
    });
}

WEIRI_GPU_FN void moe_copy_slice(char *to, const char *from, uint32_t row_bytes, int slice,
                                 int lane)
{
    moe_slice s;
    moe_slice_load(&s, from, row_bytes, slice, lane);
    moe_slice_store(&s, to, row_bytes, slice, lane);
}

/* Copies rows that follow each other. */
WEIRI_GPU_FN void moe_copy_rows(moe_turns *turns, char *to, const char *from, int rows,
                                uint32_t row_bytes, int lane)
{
    const int slices = moe_slices(row_bytes);
    const int64_t units = (int64_t)rows * slices;
    for (int64_t unit = turns->next; unit < units; unit += turns->warps) {
        const size_t at = (size_t)(unit / slices) * row_bytes;
        moe_copy_slice(to + at, from + at, row_bytes, (int)(unit % slices), lane);
    }
    moe_turns_end(turns, units);
}

/* Copies the rows of as many parts of a buffer as a warp has lanes. first, rows: those of a lane's
 * part. */
WEIRI_GPU_FN void moe_copy_parts(moe_turns *turns, char *to, const char *from, int32_t first,
                                 int32_t rows, uint32_t row_bytes, int lane)
{
    const int slices = moe_slices(row_bytes);
    const uint32_t end = moe_sum_through((uint32_t)rows, lane);
    const uint32_t shift = (uint32_t)first - (end - (uint32_t)rows); /* of a row's number */
    const int64_t units = (int64_t)__shfl_sync(0xffffffff, end, MOE_WARP - 1) * slices;
#pragma unroll 1
    for (int64_t unit = turns->next; unit < units; unit += turns->warps) {
        const uint32_t nth = (uint32_t)(unit / slices);
        const int part = __popc(__ballot_sync(0xffffffff, end <= nth));
        const size_t at = (size_t)(nth + __shfl_sync(0xffffffff, shift, part)) * row_bytes;
        moe_copy_slice(to + at, from + at, row_bytes, (int)(unit % slices), lane);
    }
    moe_turns_end(turns, units);
}

#endif
