/*
 * Dispatch on GPUs, one launch.
 *
 * Send. Choices are counted and placed in the windows of their receivers (device/count.cuh). Other
 * blocks send the rows of a short call into the receivers' inboxes meanwhile (device/push.cuh). In
 * a long call, tokens that peers cannot read in place, and fp8 rows (device/fp8.cuh), go to
 * staging. Headers go to all ranks (device/call.cuh).
 *
 * Complete. Blocks compute where rows are (device/place.cuh). All warps take units of token, source
 * and slices: they load a slice of the token once, from the inbox or the source's memory, and store
 * it to each of the token's rows here. If any rank has a problem, or a capacity is exceeded,
 * rows are not written, and counts are 0.
 */
#include "moe/cuda/device/count.cuh"
#include "moe/cuda/device/fp8.cuh"
#include "moe/cuda/device/place.cuh"
#include "moe/cuda/device/push.cuh"
#include "moe/cuda/device/rows.cuh"

/* -------------------------------------------------------------------- send */

/* dtype: of tokens that are sent as fp8; WEIR_INT8: tokens are sent as they are. */
template <int dtype> WEIRI_GPU_FN void moe_stage_tokens(const moe_gpu_args &a, const moe_launch &l)
{
    if constexpr (dtype != WEIR_INT8) {
        moe_stage_fp8<dtype>(a, l);
    } else if (a.desc == WEIRI_GPU_UNMAPPED) {
        moe_turns turns = moe_turns_of(l);
        moe_copy_rows(&turns, a.windows[a.view.rank] + a.shape.at.tokens, a.in, a.tokens,
                      a.shape.row_bytes, l.lane);
    }
}

WEIRI_GPU_FN moe_header moe_dispatch_header(const moe_gpu_args &a, bool is_new)
{
    moe_header header = {moe_what(a), (uint32_t)a.tokens, 0, a.desc};
    const bool has_weights =
        is_new ? a.dispatch.topk_weights != nullptr : moe_routing_of(a)->has_weights;
    header.notes = (has_weights ? MOE_HAS_WEIGHTS : 0) |
                   (a.dispatch.row_weights ? MOE_WANTS_WEIGHTS : 0) |
                   (moe_sends_ahead(&a) ? MOE_IS_AHEAD : 0) |
                   (is_new || moe_routing_of(a)->is_valid ? MOE_NO_PROBLEM : MOE_NO_ROUTING);
    return header;
}

/* The segments of this rank's tokens; a block counts each. */
WEIRI_GPU_FN int moe_counters(const moe_gpu_args &a)
{
    return a.dispatch.topk_experts ? moe_segments(a) : 1;
}

template <int dtype>
WEIRI_GPU_FN void moe_dispatch_send(const moe_gpu_args &a, const moe_launch &l,
                                    const moe_roles &roles, int32_t (*numbers)[MOE_RANGE])
{
    const bool is_new = a.dispatch.topk_experts != nullptr;
    const bool is_ahead = moe_sends_ahead(&a);
    const bool is_staged = a.desc == WEIRI_GPU_UNMAPPED && !is_ahead;
    const int block = (int)blockIdx.x, segments = moe_counters(a);
    const int senders = is_staged ? (int)gridDim.x : segments;
    if (block >= senders && roles.pusher < 0)
        return;
    const uint64_t staged = is_staged || is_ahead ? moe_state(a)->staged[MOE_DISPATCH] : 0;
    const uint64_t routed = is_new ? moe_routing_of(a)->call : 0;
    const moe_watch watch = moe_watch_done(a, staged > routed ? staged : routed);
    const moe_header header = moe_dispatch_header(a, is_new);
    if (is_new && block < segments) {
        moe_send_routing(a, l, segments, watch, header, !is_staged, numbers);
    } else {
        moe_await_watched(a, watch);
        __syncthreads();
        if (!is_staged && block == 0)
            moe_announce(a, l, header, false);
    }
    if (roles.pusher >= 0)
        moe_push<dtype>(a, moe_launch_as(l, roles.pusher, roles.pushers));
    if (!is_staged)
        return;
    moe_stage_tokens<dtype>(a, l);
    if (moe_is_last(&moe_state(a)->arrived, senders))
        moe_announce(a, l, header, is_new);
}

/* ----------------------------------------------------------------- receiving */

/* A choice that concerns this rank; expert -1: none. */
typedef struct moe_choice {
    int32_t expert, position;
    float weight;
} moe_choice;

/* Loads a choice; one of a new routing may have yet to arrive. */
WEIRI_GPU_FN moe_choice moe_choice_at(const moe_gpu_args &a, const moe_launch &l, int source,
                                      size_t i)
{
    const uint64_t *packet = moe_choices(a, a.view.rank, source)[i].packet;
    uint64_t low, high;
    weir_load_pair(packet, &low, &high);
    if (a.dispatch.topk_experts) {
        low = moe_await_packet(a, l, packet, low, source);
        high = moe_await_packet(a, l, packet + 1, high, source);
        if (low >> 32 != (uint32_t)l.call || high >> 32 != (uint32_t)l.call)
            low = 0;
    }
    const moe_place_of_choice place = moe_decode(a, (uint32_t)low);
    return {place.expert, place.position, weiri_float_from_bits((uint32_t)high)};
}

/* Writes the weights, experts and scales of a token's row or, by expert, rows. `row` is that of
 * each lane's choice. */
WEIRI_GPU_FN void moe_receive_values(const moe_gpu_args &a, const moe_choice &choice, int row,
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
#pragma unroll 1
    for (int from = 0; from < count; from += MOE_WARP) {
        const int i = from + lane;
        const float scale = i < count ? scales[i] : 0.0f;
#pragma unroll 1
        for (uint32_t left = rows; left; left &= left - 1) {
            const size_t to = (size_t)__shfl_sync(0xffffffff, row, __ffs((int)left) - 1);
            if (i < count)
                d.row_scales[to * (size_t)count + (size_t)i] = scale;
        }
    }
}

/* Some slices of a token: loads each, and stores it to each of the token's rows. */
WEIRI_GPU_FN void moe_receive_slices(const moe_gpu_args &a, const moe_choice &choice,
                                     const int32_t *first, const moe_delivery &from,
                                     moe_span slices, int lane)
{
    const bool is_here = choice.expert >= 0;
    uint32_t rows = __ballot_sync(0xffffffff, is_here);
    int row = choice.position;
    if (is_here)
        row += first[moe_by_expert(a) ? choice.expert : 0];
    if (!moe_by_expert(a)) {
        row = __shfl_sync(0xffffffff, row, __ffs((int)rows) - 1);
        rows &= 0u - rows;
    }
    if (slices.begin == 0)
        moe_receive_values(a, choice, row, from.scales, rows, lane);
#pragma unroll 1
    for (int slice = slices.begin; slice < slices.end; slice++) {
        moe_slice data;
        moe_slice_load(&data, from.row, a.shape.sent_row_bytes, slice, lane);
#pragma unroll 1
        for (uint32_t left = rows; left; left &= left - 1) {
            const size_t to = (size_t)__shfl_sync(0xffffffff, row, __ffs((int)left) - 1);
            moe_slice_store(&data, a.dispatch.rows + to * a.shape.sent_row_bytes,
                            a.shape.sent_row_bytes, slice, lane);
        }
    }
}

/* Where a source's token is, when these slices of it and, for the first ones, its scales can be
 * read. */
WEIRI_GPU_FN moe_delivery moe_await_token(const moe_gpu_args &a, const moe_launch &l,
                                          const moe_parts &parts, int source, size_t token,
                                          moe_span slices)
{
    if (!parts.rows[source]) {
        const moe_delivery delivery = moe_delivery_at(a, a.view.rank, source, token);
        if (a.shape.is_fp8 && slices.begin == 0)
            slices.end = moe_slices(a.shape.sent_row_bytes);
        moe_await_slices(a, l, delivery, slices, source);
        return delivery;
    }
    return {(char *)parts.rows[source] + token * a.shape.sent_row_bytes,
            (float *)(a.windows[source] + a.shape.at.scales) +
                token * (size_t)a.shape.scales_per_row,
            nullptr};
}

/* Of rows in inboxes, where warps have many units, each has two slices at least: they take little
 * time beside the loads of the choices before them. */
WEIRI_GPU_FN moe_cut moe_cut_received(const moe_gpu_args &a, const moe_launch &l, uint32_t rows)
{
    const int slices = moe_slices(a.shape.sent_row_bytes);
    const moe_cut cut = moe_cut_rows(rows, slices, l.warps, MOE_PARTS);
    const bool has_many = rows * (uint32_t)slices >= (uint32_t)(l.warps * MOE_PARTS);
    return has_many && moe_sends_ahead(&a) && cut.each < 2 ? moe_cut_into(slices, 2) : cut;
}

/* Warps take units: a token of a source, and some of its slices, so that each warp gets several
 * units. All sources take turns, beginning with this rank's, so that all links are in use, and no
 * source serves all ranks at the same time. */
WEIRI_GPU_FN void moe_receive(const moe_gpu_args &a, const moe_launch &l, const moe_parts &parts,
                              const moe_places &places)
{
    const uint32_t n = (uint32_t)a.view.nranks;
    const uint32_t rows = (uint32_t)moe_most_tokens(a, parts) * n;
    const moe_cut cut = moe_cut_received(a, l, rows);
    const uint32_t units = rows * (uint32_t)cut.parts;
#pragma unroll 1
    for (uint32_t unit = (uint32_t)l.warp; unit < units; unit += (uint32_t)l.warps) {
        const uint32_t row = unit / (uint32_t)cut.parts, token = row / n;
        const int source = weiri_gpu_nth_after(a.view.rank, (int)(row - token * n), (int)n);
        if (token >= (uint32_t)parts.tokens[source])
            continue;
        moe_choice choice = {-1, 0, 0};
        if (l.lane < a.shape.topk)
            choice =
                moe_choice_at(a, l, source, (size_t)token * (size_t)a.shape.topk + (size_t)l.lane);
        if (!__any_sync(0xffffffff, choice.expert >= 0))
            continue;
        const moe_span slices = moe_pieces_of(cut, (int)(unit - row * (uint32_t)cut.parts));
        moe_receive_slices(a, choice, places.first + source * a.shape.own_bins,
                           moe_await_token(a, l, parts, source, token, slices), slices, l.lane);
    }
}

/* Sets the rows from an expert's last one to the next multiple of the alignment to zero. */
WEIRI_GPU_FN void moe_pad(const moe_gpu_args &a, const moe_launch &l, const moe_places &places)
{
    const uint32_t alignment = (uint32_t)a.shape.alignment;
    if (alignment <= 1)
        return;
    const uint64_t units = (uint64_t)a.shape.own_bins * alignment;
#pragma unroll 1
    for (uint64_t unit = (uint64_t)l.warp; unit < units; unit += (uint64_t)l.warps) {
        const uint32_t own = (uint32_t)(unit / alignment), nth = (uint32_t)unit - own * alignment;
        const uint32_t rows = (uint32_t)places.rows[own];
        if (rows + nth >= moe_round_up(rows, alignment))
            continue;
        const size_t at = (size_t)((uint32_t)places.first[own] + rows + nth);
        uint32_t *row = (uint32_t *)(a.dispatch.rows + at * a.shape.sent_row_bytes);
        float *scales = a.dispatch.row_scales + at * (size_t)a.shape.scales_per_row;
#pragma unroll 1
        for (uint32_t word = (uint32_t)l.lane; word < a.shape.sent_row_bytes / 4; word += MOE_WARP)
            row[word] = 0;
#pragma unroll 1
        for (int i = l.lane; i < a.shape.scales_per_row; i += MOE_WARP)
            scales[i] = 0;
        if (a.dispatch.row_weights && l.lane == 0)
            a.dispatch.row_weights[at] = 0;
    }
}

/* A count from a rank; one of a new routing may have yet to arrive: rows need not have waited for
 * it. */
WEIRI_GPU_FN int32_t moe_count_from(const moe_gpu_args &a, const moe_launch &l,
                                    const uint64_t *packet, int from)
{
    const uint64_t seen = weir_load_relaxed(packet);
    const bool is_new = a.dispatch.topk_experts != nullptr;
    return (int32_t)(uint32_t)(is_new ? moe_await_packet(a, l, packet, seen, from) : seen);
}

/* Writes all counts, or zeros. */
WEIRI_GPU_FN void moe_write_counts(const moe_gpu_args &a, const moe_launch &l,
                                   const moe_places &places, bool is_placed)
{
    const moe_gpu_dispatch_part &d = a.dispatch;
    const int first = a.view.rank * a.shape.local_experts, step = l.warps * MOE_WARP;
    const int thread = l.warp * MOE_WARP + l.lane;
#pragma unroll 1
    for (int own = thread; own < a.shape.local_experts; own += step) {
        int32_t count = moe_by_expert(a) && is_placed ? places.rows[own] : 0;
#pragma unroll 1
        for (int from = 0; is_placed && !moe_by_expert(a) && from < a.view.nranks; from++)
            count += moe_count_from(a, l, moe_counts(a, a.view.rank, from) + first + own, from);
        if (d.expert_counts)
            d.expert_counts[own] = count;
        if (d.expert_offsets)
            d.expert_offsets[own] = is_placed ? places.first[own] : 0;
    }
#pragma unroll 1
    for (int from = l.warp; d.source_counts && from < a.view.nranks; from += l.warps) {
        int32_t count = 0;
#pragma unroll 1
        for (int own = l.lane; is_placed && own < a.shape.own_bins; own += MOE_WARP)
            count += moe_count_from(
                a, l, moe_rows_from(a, from, a.view.rank * a.shape.own_bins + own), from);
        count = moe_sum_lanes(count);
        if (l.lane == 0)
            d.source_counts[from] = count;
    }
}

/* Notes what combine must know of a new routing. One thread. */
WEIRI_GPU_FN void moe_note_routing(const moe_gpu_args &a, const moe_launch &l,
                                   const moe_parts &parts)
{
    moe_routing_of(a)->choice = l.call;
    moe_routing_of(a)->most_tokens = moe_most_tokens(a, parts);
}

WEIRI_GPU_FN void moe_dispatch_complete(const moe_gpu_args &a, const moe_launch &l,
                                        moe_placing *placing)
{
    WEIRI_GPU_SHARED(moe_parts, parts);
    moe_places places;
    moe_place_begin(a, placing);
    moe_await_parts(a, l, a.shape.at.tokens, &parts);
    if (blockIdx.x == 0 && threadIdx.x == 0 && a.dispatch.topk_experts)
        moe_note_routing(a, l, parts);
    const bool is_placed = !moe_find_problem(a, l, parts) && moe_place(a, l, placing, &places);
    if (is_placed) {
        moe_receive(a, l, parts, places);
        moe_pad(a, l, places);
    }
    moe_write_counts(a, l, places, is_placed);
}

template <int dtype>
static __global__ void __launch_bounds__(MOE_GPU_DISPATCH_THREADS, 2)
    moe_dispatch(const __grid_constant__ moe_gpu_args a)
{
    WEIRI_GPU_SHARED(moe_placing, placing);
    const moe_launch l = moe_begin(a);
    if (a.problem) {
        weiri_moe_refuse(a, l);
        return;
    }
    const moe_roles roles = moe_roles_of(a, moe_sends_ahead(&a), moe_counters(a));
    if (a.phases & MOE_GPU_SEND)
        moe_dispatch_send<dtype>(a, l, roles, placing.numbers);
    if (a.phases & MOE_GPU_COMPLETE && roles.receiver >= 0)
        moe_dispatch_complete(a, moe_launch_as(l, roles.receiver, roles.receivers), &placing);
    moe_end(a, l, a.desc == WEIRI_GPU_UNMAPPED);
}

const void *weiri_moe_gpu_dispatch_kernel(weir_dtype dtype, int is_fp8)
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
