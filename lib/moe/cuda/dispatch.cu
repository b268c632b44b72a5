/*
 * Dispatch on GPUs, one launch.
 *
 * Send. Choices are counted and placed in the windows of their receivers (device/count.cuh). Tokens
 * that peers cannot read in place, and fp8 rows (device/fp8.cuh), go to staging. Then the last
 * block publishes (device/call.cuh).
 *
 * Complete. Block 0 places rows (device/place.cuh); the others wait for it. All warps take units of
 * source, token and slice: they load a slice of the token once, from the source's memory, and store
 * it to each of the token's rows here. If any rank has a problem, or a capacity is exceeded, rows
 * are not written, and counts are 0.
 */
#include "moe/cuda/device/count.cuh"
#include "moe/cuda/device/fp8.cuh"
#include "moe/cuda/device/place.cuh"

/* -------------------------------------------------------------------- send */

/* dtype: of tokens that are sent as fp8; WEIR_INT8: tokens are sent as they are. */
template <int dtype> WEIRI_GPU_FN void moe_stage_tokens(const moe_gpu_args &a, const moe_launch &l)
{
    if (dtype != WEIR_INT8) {
        moe_stage_fp8<dtype != WEIR_INT8 ? dtype : WEIR_FLOAT>(a, l);
    } else if (a.desc == WEIRI_GPU_UNMAPPED) {
        moe_turns turns = moe_turns_of(l);
        moe_copy_rows(&turns, a.windows[a.view.rank] + a.shape.at.tokens, a.in, a.tokens,
                      a.shape.row_bytes, l.lane);
    }
}

template <int dtype> WEIRI_GPU_FN void moe_dispatch_send(const moe_gpu_args &a, const moe_launch &l)
{
    const bool is_new = a.dispatch.topk_experts != nullptr;
    moe_gpu_header header = {};
    if (a.desc == WEIRI_GPU_UNMAPPED)
        moe_await_done(a, moe_state(a)->staged[MOE_DISPATCH]);
    if (is_new) {
        moe_await_done(a, moe_routing_of(a)->call);
        moe_send_routing(a, l);
    }
    moe_stage_tokens<dtype>(a, l);
    header.what = moe_what(a);
    header.rows = a.desc;
    header.tokens = a.tokens;
    header.has_weights =
        is_new ? a.dispatch.topk_weights != nullptr : moe_routing_of(a)->has_weights;
    header.wants_weights = a.dispatch.row_weights != nullptr;
    if (!is_new && !moe_routing_of(a)->is_valid)
        header.problem = MOE_NO_ROUTING;
    header.values[0] = a.handle;
    header.values[1] = a.tokens;
    moe_publish(a, l, header, a.desc == WEIRI_GPU_UNMAPPED);
}

/* ----------------------------------------------------------------- receiving */

/* Writes the weights, experts and scales of a token's row or, by expert, rows. `row` is that of
 * each lane's choice. */
WEIRI_GPU_FN void moe_receive_values(const moe_gpu_args &a, const moe_gpu_choice &choice, int row,
                                     const float *scales, uint32_t rows, int lane)
{
    const moe_gpu_dispatch_part &d = a.dispatch;
    const bool is_here = choice.expert >= 0;
    if (lane < a.shape.topk && moe_by_expert(a)) {
        if (d.row_weights && is_here)
            d.row_weights[row] = choice.weight;
    } else if (lane < a.shape.topk) {
        const size_t at = (size_t)row * (size_t)a.shape.topk + (size_t)lane;
        if (d.row_weights)
            d.row_weights[at] = is_here ? choice.weight : 0.0f;
        if (d.row_experts)
            d.row_experts[at] = choice.expert;
    }
    const int count = a.shape.scales_per_row;
    for (uint32_t left = count ? rows : 0; left; left &= left - 1) {
        float *to = d.row_scales +
                    (size_t)__shfl_sync(0xffffffff, row, __ffs((int)left) - 1) * (size_t)count;
        for (int i = lane; i < count; i += MOE_WARP)
            to[i] = scales[i];
    }
}

/* One slice of a token. */
WEIRI_GPU_FN void moe_receive_slice(const moe_gpu_args &a, const moe_gpu_choice *choices,
                                    const int32_t *first, const char *from, const float *scales,
                                    int slice, int lane)
{
    moe_gpu_choice choice = {-1, 0, 0, 0};
    if (lane < a.shape.topk) {
        const weiri_gpu_vector v = weiri_gpu_load16_cached((const char *)(choices + lane));
        choice.expert = (int32_t)v.word[0];
        choice.position = (int32_t)(v.word[0] >> 32);
        choice.weight = weiri_float_from_bits((uint32_t)v.word[1]);
    }
    const bool is_here = choice.expert >= 0;
    uint32_t rows = __ballot_sync(0xffffffff, is_here);
    if (!rows)
        return;
    moe_slice data;
    moe_slice_load(&data, from, a.shape.sent_row_bytes, slice, lane);
    int row = is_here || !moe_by_expert(a) ? choice.position : 0;
    if (is_here)
        row += first[moe_by_expert(a) ? choice.expert : 0];
    if (!moe_by_expert(a)) {
        row = __shfl_sync(0xffffffff, row, __ffs((int)rows) - 1);
        rows &= 0u - rows;
    }
    if (slice == 0)
        moe_receive_values(a, choice, row, scales, rows, lane);
    for (uint32_t left = rows; left; left &= left - 1) {
        const size_t to = (size_t)__shfl_sync(0xffffffff, row, __ffs((int)left) - 1);
        moe_slice_store(&data, a.dispatch.rows + to * a.shape.sent_row_bytes,
                        a.shape.sent_row_bytes, slice, lane);
    }
}

WEIRI_GPU_FN void moe_receive(const moe_gpu_args &a, const moe_launch &l, moe_turns *turns,
                              int source)
{
    const int slices = moe_slices(a.shape.sent_row_bytes), k = a.shape.topk;
    const int64_t units = (int64_t)moe_header(a, source, l.call)->tokens * slices;
    const char *rows = moe_rows_of(a, l, source, a.shape.at.tokens);
    const float *scales = (const float *)(a.windows[source] + a.shape.at.scales);
    const moe_gpu_choice *choices = moe_choices(a, a.view.rank, source);
    const int32_t *first = moe_source_row(a, source);
    for (int64_t unit = turns->next; unit < units; unit += turns->warps) {
        const size_t token = (size_t)(unit / slices);
        moe_receive_slice(
            a, choices + token * (size_t)k, first, rows + token * a.shape.sent_row_bytes,
            scales + token * (size_t)a.shape.scales_per_row, (int)(unit % slices), l.lane);
    }
    moe_turns_end(turns, units);
}

/* Sets the rows from an expert's last one to the next multiple of the alignment to zero. */
WEIRI_GPU_FN void moe_pad(const moe_gpu_args &a, const moe_launch &l)
{
    const uint32_t bytes = a.shape.sent_row_bytes;
    for (int own = 0; a.shape.alignment > 1 && own < a.shape.own_bins; own++) {
        const int rows = moe_bin_rows(a)[own], alignment = a.shape.alignment;
        const int gap = (alignment - rows % alignment) % alignment;
        const size_t first = (size_t)(moe_source_row(a, 0)[own] + rows);
        for (int i = l.warp; i < gap; i += l.warps) {
            char *row = a.dispatch.rows + (first + (size_t)i) * bytes;
            float *scales = a.dispatch.row_scales + (first + (size_t)i) * a.shape.scales_per_row;
            for (uint32_t at = (uint32_t)l.lane * 4; at < bytes; at += MOE_WARP * 4)
                *(uint32_t *)(row + at) = 0;
            for (int j = l.lane; j < a.shape.scales_per_row; j += MOE_WARP)
                scales[j] = 0;
            if (a.dispatch.row_weights && l.lane == 0)
                a.dispatch.row_weights[first + (size_t)i] = 0;
        }
    }
}

/* Writes all counts, or zeros. */
WEIRI_GPU_FN void moe_write_counts(const moe_gpu_args &a, const moe_launch &l, bool is_placed)
{
    const moe_gpu_dispatch_part &d = a.dispatch;
    const int first = a.view.rank * a.shape.local_experts, step = l.warps * MOE_WARP;
    const int thread = l.warp * MOE_WARP + l.lane;
    for (int own = thread; own < a.shape.local_experts; own += step) {
        int32_t count = 0;
        for (int from = 0; from < a.view.nranks; from++)
            count += moe_counts(a, a.view.rank, from)[first + own];
        if (d.expert_counts)
            d.expert_counts[own] = is_placed ? count : 0;
        if (d.expert_offsets)
            d.expert_offsets[own] = is_placed ? moe_source_row(a, 0)[own] : 0;
    }
    for (int from = l.warp; d.source_counts && from < a.view.nranks; from += l.warps) {
        int32_t count = 0;
        for (int own = l.lane; own < a.shape.own_bins; own += MOE_WARP)
            count += moe_rows_from(a, from, a.view.rank * a.shape.own_bins + own);
        count = moe_sum_lanes(count);
        if (l.lane == 0)
            d.source_counts[from] = is_placed ? count : 0;
    }
}

WEIRI_GPU_FN void moe_dispatch_complete(const moe_gpu_args &a, const moe_launch &l)
{
    if (blockIdx.x == 0)
        moe_place(a, l);
    const bool is_placed = moe_await_placed(a, l);
    moe_turns turns = moe_turns_of(l);
    for (int step = 0; is_placed && step < a.view.nranks; step++)
        moe_receive(a, l, &turns, weiri_gpu_nth_after(a.view.rank, step, a.view.nranks));
    if (is_placed)
        moe_pad(a, l);
    moe_write_counts(a, l, is_placed);
    moe_finish(a, l);
}

template <int dtype>
static __global__ void __launch_bounds__(MOE_GPU_THREADS)
    moe_dispatch(const __grid_constant__ moe_gpu_args a)
{
    const moe_launch l = moe_begin(a);
    if (a.problem) {
        moe_refuse(a, l);
        return;
    }
    if (a.phases & MOE_GPU_SEND)
        moe_dispatch_send<dtype>(a, l);
    if (a.phases & MOE_GPU_COMPLETE)
        moe_dispatch_complete(a, l);
}

const void *moe_gpu_dispatch_kernel(weir_dtype dtype, int is_fp8)
{
    if (!is_fp8)
        return (const void *)&moe_dispatch<WEIR_INT8>;
#if WEIR_FEW_KERNELS
    return dtype == WEIR_BFLOAT16 ? (const void *)&moe_dispatch<WEIR_BFLOAT16> : nullptr;
#else
    return dtype == WEIR_FLOAT      ? (const void *)&moe_dispatch<WEIR_FLOAT>
           : dtype == WEIR_HALF     ? (const void *)&moe_dispatch<WEIR_HALF>
           : dtype == WEIR_BFLOAT16 ? (const void *)&moe_dispatch<WEIR_BFLOAT16>
                                    : nullptr;
#endif
}
