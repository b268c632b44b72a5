/*
 * Rows that are sent ahead.
 *
 * Dispatch. While choices are counted, other blocks store each token into the inboxes of the ranks
 * of its experts: once for each, at a place that only the sender and the token's number determine.
 * So nothing needs to be known of the other ranks' tokens. The receiver copies a row from its inbox
 * to where it belongs when it knows that place.
 *
 * An inbox has room for the tokens of each other rank and, with fp8, for this rank's own. Rows are
 * sent in slices; a slice has arrived when its word has the number of the call, which is stored
 * after a fence.
 *
 * Combine. Rows that peers cannot read in place are stored into the memory of the tokens' ranks, at
 * the place of the token's choice, as the choices in this rank's window say.
 */
#ifndef WEIRI_MOE_CUDA_PUSH_CUH
#define WEIRI_MOE_CUDA_PUSH_CUH

#include "moe/cuda/device/fp8.cuh"
#include "moe/cuda/device/rows.cuh"

/* ------------------------------------------------------------------- inboxes */

/* A token in an inbox. */
typedef struct moe_delivery {
    char *row;
    float *scales;
    uint64_t *arrivals; /* of its slices, in an inbox */
} moe_delivery;

WEIRI_GPU_FN moe_delivery moe_delivery_at(const moe_gpu_args &a, int at, int from, size_t token)
{
    const int behind = from - at - 1;
    const size_t slot = (size_t)(behind < 0 ? behind + a.view.nranks : behind);
    const size_t nth = slot * (size_t)a.shape.inbox_tokens + token;
    char *window = a.windows[at];
    return {window + a.shape.at.inbox + nth * a.shape.sent_row_bytes,
            (float *)(window + a.shape.at.inbox_scales) + nth * (size_t)a.shape.scales_per_row,
            (uint64_t *)(window + a.shape.at.arrivals) +
                nth * (size_t)moe_slices(a.shape.sent_row_bytes)};
}

/* Waits for slices of a token. All lanes of a warp. */
WEIRI_GPU_FN void moe_await_slices(const moe_gpu_args &a, const moe_launch &l,
                                   const moe_delivery &delivery, moe_span slices, int from)
{
#pragma unroll 1
    for (int slice = slices.begin + l.lane; slice < slices.end; slice += MOE_WARP)
        moe_await_word(a, delivery.arrivals + slice, l.call, from);
    __syncwarp();
}

/* --------------------------------------------------------------------- roles */

/* What a block does: its number among the blocks that send rows ahead, and among those that receive
 * rows; -1: it does not. */
typedef struct moe_roles {
    int pusher, pushers, receiver, receivers;
} moe_roles;

/* Some of the blocks keep the links busy, more where tokens are cast to fp8. These follow the first
 * `others`, which have more urgent work: blocks on which other ranks wait come first,
 * because the GPU may not have room for all at once. If there are too few, each does everything. */
WEIRI_GPU_FN moe_roles moe_roles_of(const moe_gpu_args &a, bool is_ahead, int others)
{
    const int blocks = (int)gridDim.x, block = (int)blockIdx.x;
    if (!is_ahead || !(a.phases & MOE_GPU_SEND))
        return {-1, 0, block, blocks};
    const int left = blocks - others, nth = block - others;
    const int share = a.kind == MOE_DISPATCH && a.shape.is_fp8 ? MOE_CAST_SHARE : MOE_PUSH_SHARE;
    const int wanted = (blocks + share - 1) / share, pushers = left < wanted ? left : wanted;
    if (pushers < 1 || pushers == blocks || !(a.phases & MOE_GPU_COMPLETE))
        return {block, blocks, block, blocks};
    if (nth >= 0 && nth < pushers)
        return {nth, pushers, -1, blocks - pushers};
    return {-1, pushers, nth < 0 ? block : block - pushers, blocks - pushers};
}

/* ---------------------------------------------------------------------- push */

/* The ranks to whose inboxes a token goes, as bits. All lanes of a warp. */
WEIRI_GPU_FN uint32_t moe_receivers_of(const moe_gpu_args &a, size_t token, int lane)
{
    const size_t i = token * (size_t)a.shape.topk + (size_t)lane;
    int64_t expert = -1;
    if (lane < a.shape.topk)
        expert = a.dispatch.topk_experts ? moe_id_at(a, (int64_t)i) : moe_experts(a)[i];
    const bool is_there = expert >= 0 && expert < a.shape.experts;
    const int rank = is_there ? (int)expert / a.shape.local_experts : a.view.rank;
    return moe_or_lanes(is_there && (rank != a.view.rank || a.shape.is_fp8) ? 1u << rank : 0);
}

/* Calls store(inbox) for each of the ranks; the next one's comes first. */
template <class STORE>
WEIRI_GPU_FN void moe_push_each(const moe_gpu_args &a, size_t token, uint32_t ranks, STORE store)
{
#pragma unroll 1
    for (int nth = 1; nth <= a.view.nranks; nth++) {
        const int rank = weiri_gpu_nth_after(a.view.rank, nth % a.view.nranks, a.view.nranks);
        if (ranks >> rank & 1)
            store(moe_delivery_at(a, rank, a.view.rank, token));
    }
}

/* Stores one slice of a token into the inboxes as fp8. */
template <int dtype>
WEIRI_GPU_FN void moe_push_fp8(const moe_gpu_args &a, size_t token, int slice, uint32_t ranks,
                               int lane)
{
    enum { AT_ONCE = MOE_VECTORS / moe_fp8_input<dtype>::VECTORS };
    const char *from = a.in + token * a.shape.row_bytes;
    const int numbers = (int)moe_slice_bytes(a.shape.sent_row_bytes) / MOE_FP8_EACH;
    const int end = (slice + 1) * numbers;
#pragma unroll 1
    for (int first = slice * numbers; first < end; first += AT_ONCE * MOE_WARP) {
        moe_fp8_input<dtype> input[AT_ONCE];
        moe_fp8 cast[AT_ONCE];
        float scale = 0;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            input[i] = moe_fp8_load<dtype>(a, from, first + i * MOE_WARP + lane);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            cast[i] = moe_cast<dtype>(input[i]);
            const float other =
                __shfl_sync(0xffffffff, cast[i].scale, lane % MOE_FP8_SCALES * MOE_FP8_LANES);
            scale = lane / MOE_FP8_SCALES == i ? other : scale;
        }
        const int block = first / MOE_FP8_LANES + lane;
        const bool has_scale = lane < AT_ONCE * MOE_FP8_SCALES && block * MOE_FP8_LANES < end &&
                               block < a.shape.scales_per_row;
        moe_push_each(a, token, ranks, [&](const moe_delivery &to) {
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++)
                if (first + i * MOE_WARP < end)
                    moe_fp8_store(a, cast[i], to.row, first + i * MOE_WARP + lane);
            if (has_scale)
                to.scales[block] = scale;
        });
    }
}

/* Stores one slice of a token into the inboxes. dtype: of tokens that are sent as fp8; WEIR_INT8:
 * tokens are sent as they are. */
template <int dtype>
WEIRI_GPU_FN void moe_push_slice(const moe_gpu_args &a, size_t token, int slice, uint32_t ranks,
                                 int lane)
{
    const char *from = a.in + token * a.shape.row_bytes;
    const uint32_t bytes = a.shape.sent_row_bytes;
    if constexpr (dtype == WEIR_INT8) {
        moe_slice data;
        moe_slice_load(&data, from, bytes, slice, lane);
        moe_push_each(a, token, ranks, [&](const moe_delivery &to) {
            moe_slice_store(&data, to.row, bytes, slice, lane);
        });
    } else {
        moe_push_fp8<dtype>(a, token, slice, ranks, lane);
    }
}

/* How tokens are divided into units, each of which ends with a fence. Receivers wait for it, so
 * units are short, but what all warps have under way must fill the links: about STORED slices of
 * each, if its token has as many receivers as it can have. */
WEIRI_GPU_FN moe_cut moe_cut_pushed(const moe_gpu_args &a, const moe_launch &l)
{
    enum { PARTS = 2, STORED = 4 };
    const moe_cut cut =
        moe_cut_rows((uint32_t)a.tokens, moe_slices(a.shape.sent_row_bytes), l.warps, PARTS);
    const int others = a.view.nranks - 1;
    const int receivers = a.shape.topk < others ? a.shape.topk : others;
    const int most = receivers < 1 ? STORED : receivers < STORED ? STORED / receivers : 1;
    return cut.each > most ? moe_cut_into(cut.pieces, most) : cut;
}

/* Sends all tokens ahead, when all ranks have finished with what was sent before. Units are
 * claimed: a token without other receivers takes no time. */
template <int dtype> WEIRI_GPU_FN void moe_push(const moe_gpu_args &a, const moe_launch &l)
{
    const moe_cut cut = moe_cut_pushed(a, l);
    const uint32_t units = (uint32_t)a.tokens * (uint32_t)cut.parts;
#pragma unroll 1
    for (uint32_t unit = (uint32_t)l.warp; unit < units;
         unit = moe_claim(a, l, MOE_PUSHED, units)) {
        const size_t token = unit / (uint32_t)cut.parts;
        const moe_span span = moe_pieces_of(cut, (int)(unit % (uint32_t)cut.parts));
        const uint32_t ranks = moe_receivers_of(a, token, l.lane);
        if (!ranks)
            continue;
#pragma unroll 1
        for (int slice = span.begin; slice < span.end; slice++)
            moe_push_slice<dtype>(a, token, slice, ranks, l.lane);
        weiri_gpu_fence();
        __syncwarp();
        moe_push_each(a, token, ranks, [&](const moe_delivery &to) {
            for (int slice = span.begin + l.lane; slice < span.end; slice += MOE_WARP)
                weir_store_relaxed(to.arrivals + slice, l.call);
        });
    }
}

/* ------------------------------------------------------------------- returns */

/* Whether this rank's rows of a combine are sent ahead, too: into the memory of the token's rank,
 * which adds them. Only those that would be staged: loads of rows in place take less time. */
WEIRI_GPU_FN bool moe_returns_ahead(const moe_gpu_args &a)
{
    return a.desc == WEIRI_GPU_UNMAPPED && !a.combine.row_weight_grads &&
           moe_routing_of(a)->most_tokens <= a.shape.return_tokens;
}

/* The row of a token's choice in the memory of rank `at`, whose token it is. */
WEIRI_GPU_FN moe_delivery moe_return_at(const moe_gpu_args &a, int at, size_t token, int choice)
{
    const size_t nth = token * (size_t)a.shape.topk + (size_t)choice;
    char *window = a.windows[at];
    return {window + a.shape.at.returns + nth * a.shape.row_bytes, nullptr,
            (uint64_t *)(window + a.shape.at.returned) +
                nth * (size_t)moe_slices(a.shape.row_bytes)};
}

/* This rank's row of a lane's choice of a source's token; -1: it has none. */
WEIRI_GPU_FN int moe_row_of(const moe_gpu_args &a, int source, size_t token, int lane)
{
    if (lane >= a.shape.topk)
        return -1;
    const moe_gpu_choice *choices = moe_choices(a, a.view.rank, source);
    const uint64_t seen =
        weir_load_relaxed(&choices[token * (size_t)a.shape.topk + (size_t)lane].packet[0]);
    /* A source without this token has left it from an earlier routing; one that has all of its rows
     * may have begun to write the next routing. */
    const uint32_t code = seen >> 32 == (uint32_t)moe_routing_of(a)->choice ? (uint32_t)seen : 0;
    const moe_place_of_choice place = moe_decode(a, code);
    if (place.expert < 0)
        return -1;
    return moe_source_row(a, source)[moe_by_expert(a) ? place.expert : 0] + place.position;
}

/* Sends the rows that other ranks add. A row of several choices goes to the place of the first. */
WEIRI_GPU_FN void moe_push_returns(const moe_gpu_args &a, const moe_launch &l)
{
    const uint32_t slices = (uint32_t)moe_slices(a.shape.row_bytes);
    const uint32_t others = (uint32_t)a.view.nranks - 1;
    const uint32_t units = (uint32_t)moe_routing_of(a)->most_tokens * others * slices;
#pragma unroll 1
    for (uint32_t unit = (uint32_t)l.warp; unit < units;
         unit = moe_claim(a, l, MOE_PUSHED, units)) {
        const uint32_t row = unit / slices, token = row / others;
        const int slice = (int)(unit - row * slices);
        const int source =
            weiri_gpu_nth_after(a.view.rank, (int)(row - token * others) + 1, a.view.nranks);
        const int here = moe_row_of(a, source, token, l.lane);
        uint32_t rows = __ballot_sync(0xffffffff, here >= 0);
        if (!moe_by_expert(a))
            rows &= 0u - rows;
        if (!rows)
            continue;
#pragma unroll 1
        for (uint32_t left = rows; left; left &= left - 1) {
            const int choice = __ffs((int)left) - 1;
            const size_t from = (size_t)__shfl_sync(0xffffffff, here, choice);
            moe_slice data;
            moe_slice_load(&data, a.in + from * a.shape.row_bytes, a.shape.row_bytes, slice,
                           l.lane);
            moe_slice_store(&data, moe_return_at(a, source, token, choice).row, a.shape.row_bytes,
                            slice, l.lane);
        }
        weiri_gpu_fence();
        __syncwarp();
        if (rows >> l.lane & 1)
            weir_store_relaxed(moe_return_at(a, source, token, l.lane).arrivals + slice, l.call);
    }
}

#endif
