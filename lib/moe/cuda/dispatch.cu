/*
 * Dispatch on GPUs, one launch.
 *
 * Send. Warps take bins: a warp counts one expert's choices, or one rank's tokens, in order, so
 * that positions do not depend on the grid. It stores each choice, with its position and weight,
 * straight into the window of the receiving rank, and the count into all windows. Tokens that peers
 * cannot read in place, and fp8 rows, go to staging. Then the last block publishes
 * (device/call.cuh).
 *
 * Complete. Block 0 waits until all ranks have published, adds up all counts and places rows: those
 * that it receives (source_row) and its own on other ranks (first_row). It then stores `placed`,
 * for which the other blocks wait. All warps take units of source, token and slice: they load a
 * slice of the token once, from the source's memory, and store it to each of the token's rows here.
 * If any rank has a problem, or a capacity is exceeded, every rank finds that in the same data:
 * rows are not written, and counts are 0.
 */
#include "coll/cuda/device/vector.cuh"
#include "moe/cuda/device/call.cuh"

/* -------------------------------------------------------------------- send */

WEIRI_GPU_FN int64_t moe_id_at(const moe_gpu_args &a, int64_t i)
{
    return a.dispatch.has_wide_ids ? ((const int64_t *)a.dispatch.topk_experts)[i]
                                   : ((const int32_t *)a.dispatch.topk_experts)[i];
}

/* Stores the experts of all choices, looks for invalid ones, and in layout expert marks each choice
 * as absent on the ranks that it is not for. */
WEIRI_GPU_FN void moe_store_experts(const moe_gpu_args &a, const moe_launch &l)
{
    const int64_t choices = (int64_t)a.tokens * a.shape.topk;
    int32_t *experts = moe_experts(a);
    for (int64_t i = (int64_t)l.warp * MOE_WARP + l.lane; i < choices;
         i += (int64_t)l.warps * MOE_WARP) {
        const int64_t id = moe_id_at(a, i);
        const int32_t expert = id < 0 || id >= a.shape.experts ? -1 : (int32_t)id;
        const int rank = expert < 0 ? -1 : expert / a.shape.local_experts;
        experts[i] = expert;
        if (id >= a.shape.experts)
            atomicMax((unsigned long long *)&moe_state(a)->wrong,
                      (1ull << 63) - (unsigned long long)i);
        for (int peer = 0; moe_by_expert(a) && peer < a.view.nranks; peer++)
            if (peer != rank)
                moe_choices(a, peer, a.view.rank)[i].expert = -1;
    }
}

WEIRI_GPU_FN void moe_store_choice(const moe_gpu_args &a, int rank, int64_t i, int32_t expert,
                                   int32_t position)
{
    const float weight = a.dispatch.topk_weights ? a.dispatch.topk_weights[i] : 0.0f;
    weiri_gpu_vector v;
    v.word[0] = (uint32_t)expert | (uint64_t)(uint32_t)position << 32;
    v.word[1] = weiri_float_bits(weight);
    weiri_gpu_store16((char *)(moe_choices(a, rank, a.view.rank) + i), v);
}

WEIRI_GPU_FN void moe_store_count(const moe_gpu_args &a, int lane, int index, int32_t count)
{
    if (lane < a.view.nranks)
        moe_counts(a, lane, a.view.rank)[index] = count;
}

WEIRI_GPU_FN uint32_t moe_lanes_before(int lane)
{
    return (1u << lane) - 1;
}

/* Counts an expert's choices and, in layout expert, places them. One warp. */
WEIRI_GPU_FN void moe_count_expert(const moe_gpu_args &a, int lane, int expert)
{
    enum { AHEAD = 4 };
    const int64_t choices = (int64_t)a.tokens * a.shape.topk;
    const int rank = expert / a.shape.local_experts;
    int32_t *positions = moe_positions(a);
    int32_t count = 0;
    for (int64_t first = 0; first < choices; first += AHEAD * MOE_WARP) {
        int64_t ids[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const int64_t i = first + j * MOE_WARP + lane;
            ids[j] = i < choices ? moe_id_at(a, i) : -1;
        }
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const int64_t i = first + j * MOE_WARP + lane;
            const bool is_this = ids[j] == expert;
            const uint32_t all = __ballot_sync(0xffffffff, is_this);
            const int32_t position = count + __popc(all & moe_lanes_before(lane));
            count += __popc(all);
            if (!is_this || !moe_by_expert(a))
                continue;
            positions[i] = position;
            moe_store_choice(a, rank, i, expert % a.shape.local_experts, position);
        }
    }
    moe_store_count(a, lane, expert, count);
}

/* Counts a rank's tokens and, in layouts other than expert, places them. One warp; each lane takes
 * a token. */
WEIRI_GPU_FN void moe_count_rank(const moe_gpu_args &a, int lane, int rank)
{
    const int32_t begin = rank * a.shape.local_experts, end = begin + a.shape.local_experts;
    const int k = a.shape.topk;
    int32_t *positions = moe_positions(a);
    int32_t count = 0;
    for (int first = 0; first < a.tokens; first += MOE_WARP) {
        const int token = first + lane;
        uint32_t here = 0;
        for (int choice = 0; token < a.tokens && choice < k; choice++) {
            const int64_t id = moe_id_at(a, (int64_t)token * k + choice);
            here |= (uint32_t)(id >= begin && id < end) << choice;
        }
        const uint32_t all = __ballot_sync(0xffffffff, here != 0);
        const int32_t position = count + __popc(all & moe_lanes_before(lane));
        count += __popc(all);
        for (int choice = 0; token < a.tokens && choice < k && !moe_by_expert(a); choice++) {
            const int64_t i = (int64_t)token * k + choice;
            const bool is_here = here >> choice & 1;
            moe_store_choice(a, rank, i, is_here ? (int32_t)moe_id_at(a, i) - begin : -1, position);
            if (is_here)
                positions[i] = here & ((1u << choice) - 1) ? ~position : position;
        }
    }
    moe_store_count(a, lane, a.shape.experts + rank, count);
}

WEIRI_GPU_FN void moe_send_routing(const moe_gpu_args &a, const moe_launch &l)
{
    moe_store_experts(a, l);
    for (int bin = l.warp; bin < a.shape.experts + a.view.nranks; bin += l.warps)
        if (bin < a.shape.experts)
            moe_count_expert(a, l.lane, bin);
        else
            moe_count_rank(a, l.lane, bin - a.shape.experts);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        moe_gpu_routing *routing = moe_routing_of(a);
        routing->tokens = a.tokens;
        routing->has_weights = a.dispatch.topk_weights != nullptr;
        routing->is_valid = 0;
    }
}

/* ---------------------------------------------------------------------- fp8 */

/* The largest magnitude in a vector, as float bits; NaN does not count. */
template <int dtype>
WEIRI_GPU_FN uint32_t moe_magnitude(const float (&values)[2][weiri_gpu_lanes<dtype>::COUNT])
{
    uint32_t most = 0;
#pragma unroll
    for (int w = 0; w < 2; w++)
#pragma unroll
        for (int i = 0; i < weiri_gpu_lanes<dtype>::COUNT; i++) {
            const uint32_t bits = weiri_float_bits(values[w][i]) & 0x7fffffff;
            most = bits > most && bits <= 0x7f800000 ? bits : most;
        }
    return most;
}

/* Converts a token's vector of 16 bytes; the lanes of a block of elements share a scale. The
 * arithmetic is that of weir/moe.h. */
template <int dtype>
WEIRI_GPU_FN void moe_to_fp8(const moe_gpu_args &a, const char *row, char *to, float *scales,
                             int vector, int lane)
{
    typedef weiri_gpu_lanes<dtype> lanes;
    enum { EACH = 2 * lanes::COUNT, GROUP = WEIR_MOE_SCALE_BLOCK / EACH };
    const bool is_there = (uint32_t)vector * 16 < a.shape.row_bytes;
    float values[2][lanes::COUNT];
    weiri_gpu_vector v = {{0, 0}};
    if (is_there)
        v = weiri_gpu_load16(row + (size_t)vector * 16);
    lanes::unpack(v.word[0], values[0]);
    lanes::unpack(v.word[1], values[1]);
    uint32_t most = moe_magnitude<dtype>(values);
#pragma unroll
    for (int flip = GROUP / 2; flip; flip /= 2) {
        const uint32_t other = __shfl_xor_sync(0xffffffff, most, flip);
        most = other > most ? other : most;
    }
    const uint32_t least = 0x0d800000; /* 2^-100 */
    const float magnitude = weiri_float_from_bits(most > least ? most : least);
    const float factor = 448.0f / magnitude;
    if (!is_there)
        return;
    if (lane % GROUP == 0)
        scales[vector / GROUP] = magnitude / 448.0f;
#pragma unroll
    for (int i = 0; i < EACH; i += 4) {
        float four[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
            four[j] = values[(i + j) / lanes::COUNT][(i + j) % lanes::COUNT] * factor;
        *(uint32_t *)(to + (size_t)vector * EACH + i) =
            (uint32_t)weiri_gpu_fp8_pair<WEIR_FP8_E4M3>::pair_of(four) |
            (uint32_t)weiri_gpu_fp8_pair<WEIR_FP8_E4M3>::pair_of(four + 2) << 16;
    }
}

/* Writes all tokens as fp8 into staging. */
template <int dtype> WEIRI_GPU_FN void moe_stage_fp8(const moe_gpu_args &a, const moe_launch &l)
{
    char *window = a.windows[a.view.rank];
    const int vectors = (int)(a.shape.row_bytes / 16);
    const int parts = (vectors + MOE_WARP - 1) / MOE_WARP;
    for (int64_t unit = l.warp; unit < (int64_t)a.tokens * parts; unit += l.warps) {
        const size_t token = (size_t)(unit / parts);
        moe_to_fp8<dtype>(a, a.in + token * a.shape.row_bytes,
                          window + a.shape.at.tokens + token * a.shape.sent_row_bytes,
                          (float *)(window + a.shape.at.scales) +
                              token * (size_t)a.shape.scales_per_row,
                          (int)(unit % parts) * MOE_WARP + l.lane, l.lane);
    }
}

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

/* ------------------------------------------------------------------- placing */

/* The sum of a value over the lanes before this one, and over all. */
WEIRI_GPU_FN int64_t moe_sum_before(int64_t value, int lane, int64_t *all)
{
    int64_t sum = value;
#pragma unroll
    for (int step = 1; step < MOE_WARP; step *= 2) {
        const int64_t before = __shfl_sync(0xffffffff, sum, lane < step ? lane : lane - step);
        sum += lane < step ? 0 : before;
    }
    *all = __shfl_sync(0xffffffff, sum, MOE_WARP - 1);
    return sum - value;
}

/* The first capacity that is exceeded: by rank, then by expert. */
typedef struct moe_overflow {
    int rank, expert;
    int64_t rows, capacity;
} moe_overflow;

/* The rows of bin `own` of a rank: of all sources, and of those before this rank. */
WEIRI_GPU_FN int64_t moe_bin_sum(const moe_gpu_args &a, int bin, int32_t *before)
{
    int64_t total = 0;
    *before = 0;
    for (int from = 0; from < a.view.nranks; from++) {
        const int32_t rows = moe_rows_from(a, from, bin);
        total += rows;
        *before += from < a.view.rank ? rows : 0;
    }
    return total;
}

/* Stores where the rows of bin `own` begin on this rank, by source. */
WEIRI_GPU_FN void moe_place_sources(const moe_gpu_args &a, int own, int64_t first, int64_t total)
{
    const int bin = a.view.rank * a.shape.own_bins + own;
    int32_t at = (int32_t)first;
    moe_bin_rows(a)[own] = (int32_t)total;
    for (int from = 0; from < a.view.nranks; from++) {
        moe_source_row(a, from)[own] = at;
        at += moe_rows_from(a, from, bin);
    }
}

/* Places all bins of a rank, in layouts expert and flat. One warp. */
WEIRI_GPU_FN void moe_place_rank(const moe_gpu_args &a, int rank, int lane, moe_overflow *overflow)
{
    const int64_t capacity = a.shape.expert_capacity, alignment = a.shape.alignment;
    int64_t first = 0;
    for (int begin = 0; begin < a.shape.own_bins; begin += MOE_WARP) {
        const int own = begin + lane, bin = rank * a.shape.own_bins + own;
        const bool is_there = own < a.shape.own_bins;
        int32_t before = 0;
        const int64_t total = is_there ? moe_bin_sum(a, bin, &before) : 0;
        const int64_t room = !is_there  ? 0
                             : capacity ? capacity
                                        : (total + alignment - 1) / alignment * alignment;
        int64_t all;
        const int64_t at = first + moe_sum_before(room, lane, &all);
        const bool is_full = is_there && capacity && total > capacity;
        const bool is_over = is_full || (is_there && at + room > a.shape.recv_rows);
        const uint32_t over = __ballot_sync(0xffffffff, is_over);
        if (over && lane == __ffs((int)over) - 1 && overflow->rank < 0)
            *overflow = {rank, moe_by_expert(a) ? bin : -1, is_full ? total : at + room,
                         is_full ? capacity : a.shape.recv_rows};
        first += all;
        if (!is_there)
            continue;
        moe_first_row(a)[bin] = (int32_t)(at + before);
        if (rank == a.view.rank)
            moe_place_sources(a, own, at, total);
    }
}

/* Places the rows of layout rank, which cannot overflow. */
WEIRI_GPU_FN void moe_place_by_source(const moe_gpu_args &a)
{
    const int rank = (int)threadIdx.x;
    if (rank >= a.view.nranks)
        return;
    moe_first_row(a)[rank] = a.view.rank * a.shape.max_tokens;
    moe_source_row(a, rank)[0] = rank * a.shape.max_tokens;
    if (rank == 0) {
        int32_t before;
        moe_bin_rows(a)[0] = (int32_t)moe_bin_sum(a, a.view.rank, &before);
    }
}

/* Finds the lowest rank with a problem, or that lacks weights which another one wants. One thread.
 * Returns whether there is one. */
WEIRI_GPU_FN bool moe_find_problem(const moe_gpu_args &a, const moe_launch &l)
{
    int wanting = -1, lacking = -1;
    for (int rank = 0; rank < a.view.nranks; rank++) {
        const moe_gpu_header *header = moe_header(a, rank, l.call);
        if (!moe_has_published(a, l, rank))
            return true; /* the wait has failed */
        if (header->problem) {
            moe_report(a, header->problem, rank, header->values[0], header->values[1],
                       header->values[2]);
            return true;
        }
        wanting = header->wants_weights && wanting < 0 ? rank : wanting;
        lacking = !header->has_weights && lacking < 0 ? rank : lacking;
    }
    if (wanting < 0 || lacking < 0)
        return false;
    moe_report(a, MOE_NO_WEIGHTS, lacking, wanting, 0, 0);
    return true;
}

/* Places all rows. Block 0. */
WEIRI_GPU_FN void moe_place(const moe_gpu_args &a, const moe_launch &l)
{
    __shared__ moe_overflow overflows[WEIRI_GPU_RANKS_MAX];
    __shared__ int is_failed;
    const int warp = (int)threadIdx.x / MOE_WARP, warps = (int)blockDim.x / MOE_WARP;
    const bool is_new = a.dispatch.topk_experts != nullptr;
    moe_await_published(a, l.call);
    if (threadIdx.x < WEIRI_GPU_RANKS_MAX)
        overflows[threadIdx.x].rank = -1;
    const bool is_same = moe_is_same(a, l);
    if (threadIdx.x == 0 && !is_same)
        moe_report_other(a, l);
    if (threadIdx.x == 0)
        is_failed = !is_same || moe_find_problem(a, l);
    __syncthreads();
    if (is_new && a.shape.layout == WEIR_MOE_RANK_MAJOR)
        moe_place_by_source(a);
    else if (is_new)
        for (int rank = warp; rank < a.view.nranks; rank += warps)
            moe_place_rank(a, rank, l.lane, &overflows[rank]);
    __syncthreads();
    if (threadIdx.x)
        return;
    for (int rank = 0; rank < a.view.nranks && !is_failed; rank++)
        if (overflows[rank].rank >= 0) {
            moe_report(a, MOE_OVERFLOW, rank, overflows[rank].expert, overflows[rank].rows,
                       overflows[rank].capacity);
            is_failed = 1;
        }
    if (is_new)
        moe_routing_of(a)->is_valid = !is_failed;
    weiri_gpu_fence();
    weir_store_release(&moe_state(a)->placed, 2 * l.epoch + (uint64_t)is_failed);
}

/* Waits for block 0; returns whether rows are placed. All threads of a block. */
WEIRI_GPU_FN bool moe_await_placed(const moe_gpu_args &a, const moe_launch &l)
{
    __shared__ int is_placed;
    if (threadIdx.x == 0) {
        const uint64_t *word = &moe_state(a)->placed;
        weiri_gpu_await_word(a.view, word, 2 * l.epoch, a.view.rank);
        is_placed = weir_load_acquire(word) == 2 * l.epoch;
    }
    __syncthreads();
    return is_placed;
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
    for (int from = thread; d.source_counts && from < a.view.nranks; from += step) {
        int32_t count = 0;
        for (int own = 0; own < a.shape.own_bins; own++)
            count += moe_rows_from(a, from, a.view.rank * a.shape.own_bins + own);
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
    return dtype == WEIR_FLOAT      ? (const void *)&moe_dispatch<WEIR_FLOAT>
           : dtype == WEIR_HALF     ? (const void *)&moe_dispatch<WEIR_HALF>
           : dtype == WEIR_BFLOAT16 ? (const void *)&moe_dispatch<WEIR_BFLOAT16>
                                    : nullptr;
}
