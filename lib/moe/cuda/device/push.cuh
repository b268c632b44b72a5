/*
 * Rows that dispatch sends ahead.
 *
 * While choices are counted, other blocks store each token into the inboxes of the ranks of its
 * experts: once for each, at a place that only the sender and the token's number determine. So
 * nothing needs to be known of the other ranks' tokens. The receiver copies a row from its inbox to
 * where it belongs when it knows that place.
 *
 * An inbox has room for the tokens of each other rank and, with fp8, for this rank's own. Rows are
 * sent in slices; a slice has arrived when its word has the number of the call, which is stored
 * after a fence.
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
    uint64_t *arrivals; /* of its slices; NULL: the row is not in an inbox */
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

/* Stores one slice of a token into the inboxes. dtype: of tokens that are sent as fp8; WEIR_INT8:
 * tokens are sent as they are. */
template <int dtype>
WEIRI_GPU_FN void moe_push_slice(const moe_gpu_args &a, size_t token, int slice, uint32_t ranks,
                                 int lane)
{
    const char *from = a.in + token * a.shape.row_bytes;
    const uint32_t bytes = a.shape.sent_row_bytes;
    if (dtype == WEIR_INT8) {
        moe_slice data;
        moe_slice_load(&data, from, bytes, slice, lane);
        moe_push_each(a, token, ranks, [&](const moe_delivery &to) {
            moe_slice_store(&data, to.row, bytes, slice, lane);
        });
    } else {
        enum { TYPE = dtype != WEIR_INT8 ? dtype : WEIR_FLOAT };
        typedef moe_fp8_vector<TYPE> fp8;
        const int vectors = (int)(moe_slice_bytes(bytes) / fp8::EACH);
#pragma unroll 2
        for (int at = slice * vectors; at < (slice + 1) * vectors; at += MOE_WARP) {
            const fp8 vector = moe_to_fp8<TYPE>(a, from, at + lane);
            moe_push_each(a, token, ranks, [&](const moe_delivery &to) {
                moe_store_fp8(a, vector, to.row, to.scales, at + lane);
            });
        }
    }
}

/* Sends all tokens ahead, when all ranks have finished with what was sent before. */
template <int dtype> WEIRI_GPU_FN void moe_push(const moe_gpu_args &a, const moe_launch &l)
{
    const int slices = moe_slices(a.shape.sent_row_bytes);
    const uint32_t share = (uint32_t)a.tokens * (uint32_t)slices / (uint32_t)(l.warps * 2);
    moe_cut cut = {slices, share < 1 ? 1 : share < (uint32_t)slices ? (int)share : slices, 1};
    cut.parts = (slices + cut.each - 1) / cut.each;
    const uint32_t units = (uint32_t)a.tokens * (uint32_t)cut.parts;
#pragma unroll 1
    for (uint32_t unit = (uint32_t)l.warp; unit < units; unit += (uint32_t)l.warps) {
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

#endif
