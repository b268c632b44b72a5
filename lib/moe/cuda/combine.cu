/*
 * Combine on GPUs, one launch.
 *
 * Send. Expert outputs that peers cannot read in place are sent ahead (device/push.cuh) or, with
 * many tokens, go to staging, at the same rows, as do gradients of weights. Headers go to all ranks
 * (device/call.cuh).
 *
 * Complete. Every block waits until all ranks have published. Warps take units of token and part of
 * a row: they load the part of each of the token's rows from the ranks of its experts, add them in
 * the order of the choices in float, rounding each product and sum, and store the result, rounded
 * once.
 */
#include "coll/cuda/device/vector.cuh"
#include "moe/cuda/device/push.cuh"
#include "moe/cuda/device/rows.cuh"

/* --------------------------------------------------------------------- send */

/* Copies the gradients of the weights of one part of this rank's rows. The first of these threads
 * (thread of threads) takes the first value. */
WEIRI_GPU_FN void moe_copy_grads(const moe_gpu_args &a, int first, int rows, int thread,
                                 int threads)
{
    const size_t values = (size_t)a.shape.row_values, begin = (size_t)first * values;
    float *to = (float *)(a.windows[a.view.rank] + a.shape.at.grads) + begin;
    const float *from = a.combine.row_weight_grads + begin;
    for (size_t i = (size_t)thread; i < (size_t)rows * values; i += (size_t)threads)
        to[i] = from[i];
}

/* Copies one part of this rank's rows. */
WEIRI_GPU_FN void moe_stage_part(const moe_gpu_args &a, const moe_launch &l, moe_turns *turns,
                                 int first, int rows)
{
    const size_t at = (size_t)first * a.shape.row_bytes;
    if (a.desc == WEIRI_GPU_UNMAPPED)
        moe_copy_rows(turns, a.windows[a.view.rank] + a.shape.at.outputs + at, a.in + at, rows,
                      a.shape.row_bytes, l.lane);
    if (a.combine.row_weight_grads)
        moe_copy_grads(a, first, rows, l.warp * MOE_WARP + l.lane, l.warps * MOE_WARP);
}

/* Copies rows of experts with gaps between them. */
WEIRI_GPU_FN void moe_stage_experts(const moe_gpu_args &a, const moe_launch &l, moe_turns *turns)
{
    const int experts = a.shape.own_bins;
#pragma unroll 1
    for (int begin = 0; a.desc == WEIRI_GPU_UNMAPPED && begin < experts; begin += MOE_WARP) {
        const int own = begin + l.lane;
        const int32_t rows = own < experts ? moe_bin_rows(a)[own] : 0;
        moe_copy_parts(turns, a.windows[a.view.rank] + a.shape.at.outputs, a.in,
                       rows ? moe_source_row(a, 0)[own] : 0, rows, a.shape.row_bytes, l.lane);
    }
#pragma unroll 1
    for (int own = l.warp; a.combine.row_weight_grads && own < experts; own += l.warps)
        moe_copy_grads(a, moe_source_row(a, 0)[own], moe_bin_rows(a)[own], l.lane, MOE_WARP);
}

/* Rows that follow each other are copied with the padding between them. */
WEIRI_GPU_FN void moe_stage_outputs(const moe_gpu_args &a, const moe_launch &l)
{
    const int last = a.shape.own_bins - 1;
    moe_turns turns = moe_turns_of(l);
    if (a.shape.layout == WEIR_MOE_RANK_MAJOR)
        for (int from = 0; from < a.view.nranks; from++)
            moe_stage_part(a, l, &turns, moe_source_row(a, from)[0],
                           moe_count_at(moe_rows_from(a, from, a.view.rank)));
    else if (a.shape.expert_capacity)
        moe_stage_experts(a, l, &turns);
    else
        moe_stage_part(a, l, &turns, 0, moe_source_row(a, 0)[last] + moe_bin_rows(a)[last]);
}

WEIRI_GPU_FN bool moe_is_staged(const moe_gpu_args &a)
{
    return (a.desc == WEIRI_GPU_UNMAPPED && !moe_returns_ahead(a)) || a.combine.row_weight_grads;
}

WEIRI_GPU_FN void moe_combine_send(const moe_gpu_args &a, const moe_launch &l,
                                   const moe_roles &roles)
{
    const bool is_staged = moe_is_staged(a), is_valid = moe_routing_of(a)->is_valid;
    if (blockIdx.x && !is_staged && roles.pusher < 0)
        return;
    if (is_staged) {
        moe_await_watched(a, moe_watch_done(a, moe_state(a)->staged[MOE_COMBINE]));
        __syncthreads();
        if (is_valid)
            moe_stage_outputs(a, l);
        if (!moe_is_last(&moe_state(a)->arrived, (int)gridDim.x))
            return;
    }
    if (blockIdx.x == 0 || is_staged) {
        const uint32_t notes = (is_valid ? MOE_NO_PROBLEM : MOE_NO_ROUTING) |
                               (moe_returns_ahead(a) ? MOE_IS_AHEAD : 0);
        moe_announce(a, l, {moe_what(a), 0, notes, a.desc}, false);
    }
    if (roles.pusher < 0)
        return;
    moe_await_watched(a, moe_watch_done(a, moe_state(a)->staged[MOE_COMBINE]));
    __syncthreads();
    if (is_valid)
        moe_push_returns(a, moe_launch_as(l, roles.pusher, roles.pushers));
}

/* ----------------------------------------------------------------- complete */

enum { MOE_TERMS = 8 }; /* that are loaded at the same time */

/* A choice of a token, in the lane of its number. */
typedef struct moe_term {
    int32_t rank;  /* -1: the choice has no expert */
    int32_t row;   /* on that rank */
    bool is_first; /* of the token's choices in that row, which is added once */
    float weight;
} moe_term;

/* Finds a choice in the routing, before anything is known of the other ranks. */
WEIRI_GPU_FN moe_term moe_find_term(const moe_gpu_args &a, size_t token, int lane)
{
    moe_term term = {-1, 0, false, 1.0f};
    const size_t i = token * (size_t)a.shape.topk + (size_t)lane;
    const int32_t expert = lane < a.shape.topk ? moe_experts(a)[i] : -1;
    if (expert < 0)
        return term;
    const int32_t position = moe_positions(a)[i];
    term.rank = expert / a.shape.local_experts;
    term.row = moe_first_row(a)[moe_by_expert(a) ? expert : term.rank] +
               (position < 0 ? ~position : position);
    term.is_first = position >= 0;
    if (a.combine.weights)
        term.weight = a.combine.weights[i];
    return term;
}

/* Copies the gradient of a choice's weight from the rank of its expert. */
WEIRI_GPU_FN void moe_copy_grad(const moe_gpu_args &a, const moe_term &term, size_t token, int lane)
{
    const float *grads =
        (const float *)(a.windows[term.rank < 0 ? 0 : term.rank] + a.shape.at.grads) +
        (size_t)term.row * (size_t)a.shape.row_values;
    if (lane < a.shape.topk)
        a.combine.weight_grads[token * (size_t)a.shape.topk + (size_t)lane] =
            term.rank < 0 ? 0.0f : grads[moe_by_expert(a) ? 0 : lane];
}

WEIRI_GPU_FN float moe_product(float a, float b)
{
#if WEIR_ON_DEVICE
    return __fmul_rn(a, b);
#else
    return a * b;
#endif
}

WEIRI_GPU_FN float moe_sum(float a, float b)
{
#if WEIR_ON_DEVICE
    return __fadd_rn(a, b);
#else
    return a + b;
#endif
}

/* Adds one vector of a term. */
template <int dtype>
WEIRI_GPU_FN void moe_add(float (&total)[2][weiri_gpu_lanes<dtype>::COUNT],
                          const weiri_gpu_vector &vector, float weight, bool is_weighted,
                          bool is_first)
{
    typedef weiri_gpu_lanes<dtype> lanes;
#pragma unroll
    for (int w = 0; w < 2; w++) {
        float values[lanes::COUNT];
        lanes::unpack(vector.word[w], values);
#pragma unroll
        for (int i = 0; i < lanes::COUNT; i++) {
            const float value = is_weighted ? moe_product(values[i], weight) : values[i];
            total[w][i] = is_first ? value : moe_sum(total[w][i], value);
        }
    }
}

/* A row that is added, in the lane of its number. */
typedef struct moe_summand {
    const char *row;
    float weight;
} moe_summand;

/* Where a term's row is, when these vectors of it can be read. sources: the address of each rank's
 * rows, in its memory; NULL: they are sent ahead. */
WEIRI_GPU_FN const char *moe_await_term(const moe_gpu_args &a, const moe_launch &l,
                                        const char *const *sources, const moe_term &term,
                                        size_t token, moe_span vectors)
{
    if (sources[term.rank])
        return sources[term.rank] + (size_t)term.row * a.shape.row_bytes;
    const moe_delivery delivery = moe_return_at(a, a.view.rank, token, l.lane);
    const int last = (vectors.end - 1) / MOE_VECTORS;
#pragma unroll 1
    for (int slice = vectors.begin / MOE_VECTORS; slice <= last; slice++)
        moe_await_word(a, delivery.arrivals + slice, l.call, term.rank);
    return delivery.row;
}

/* Moves the rows to the first lanes, in order; returns how many there are. row: that of a lane's
 * term. */
WEIRI_GPU_FN int moe_gather_terms(const moe_term &term, const char *row, moe_summand *summand,
                                  int lane)
{
    uint32_t left = __ballot_sync(0xffffffff, term.is_first);
    const int count = __popc(left);
    for (int nth = 0; nth < lane && left; nth++)
        left &= left - 1;
    const int from = left ? __ffs((int)left) - 1 : 0;
    summand->row = (const char *)__shfl_sync(0xffffffff, (uint64_t)(uintptr_t)row, from);
    summand->weight = __shfl_sync(0xffffffff, term.weight, from);
    return count;
}

/* Adds one vector of up to MOE_TERMS terms, which are loaded at the same time. */
template <int dtype>
WEIRI_GPU_FN void moe_add_terms(float (&total)[2][weiri_gpu_lanes<dtype>::COUNT],
                                const moe_summand &summand, int first, int count, uint32_t at,
                                bool is_weighted)
{
    weiri_gpu_vector vectors[MOE_TERMS];
#pragma unroll
    for (int n = 0; n < MOE_TERMS; n++) {
        const uint64_t row = (uint64_t)(uintptr_t)summand.row;
        const char *from = (const char *)__shfl_sync(0xffffffff, row, first + n);
        if (first + n < count)
            vectors[n] = weiri_gpu_load16(from + at);
    }
#pragma unroll
    for (int n = 0; n < MOE_TERMS; n++) {
        const float weight = __shfl_sync(0xffffffff, summand.weight, first + n);
        if (first + n < count)
            moe_add<dtype>(total, vectors[n], weight, is_weighted, first + n == 0);
    }
}

/* Adds the terms of a vector for each lane, and stores the sums. Lanes after the end of the row
 * load its last vector. */
template <int dtype>
WEIRI_GPU_FN void moe_add_vector(const moe_gpu_args &a, const moe_summand &summand, int count,
                                 char *out, uint32_t at)
{
    typedef weiri_gpu_lanes<dtype> lanes;
    const uint32_t last = a.shape.row_bytes - 16;
    float total[2][lanes::COUNT] = {};
#pragma unroll 1
    for (int first = 0; first < count; first += MOE_TERMS)
        moe_add_terms<dtype>(total, summand, first, count, at < last ? at : last,
                             a.combine.weights != nullptr);
    if (at <= last) {
        weiri_gpu_vector sum;
        sum.word[0] = lanes::pack(total[0]);
        sum.word[1] = lanes::pack(total[1]);
        weiri_gpu_store16(out + at, sum);
    }
}

template <int dtype>
WEIRI_GPU_FN void moe_combine_part(const moe_gpu_args &a, const moe_launch &l,
                                   const char *const *sources, size_t token, const moe_term &term,
                                   moe_span vectors)
{
    const int lane = l.lane;
    const char *row = nullptr;
    moe_summand summand;
    char *out = a.combine.out + token * a.shape.row_bytes;
    if (vectors.begin == 0 && a.combine.row_weight_grads && a.combine.weight_grads)
        moe_copy_grad(a, term, token, lane);
    if (term.is_first)
        row = moe_await_term(a, l, sources, term, token, vectors);
    __syncwarp();
    const int count = moe_gather_terms(term, row, &summand, lane);
#pragma unroll 1
    for (int vector = vectors.begin; vector < vectors.end; vector++)
        moe_add_vector<dtype>(a, summand, count, out, (uint32_t)(vector * MOE_WARP + lane) * 16);
}

/* Whether warps claim units: these must have so much to load that a claim takes little time beside
 * them. */
WEIRI_GPU_FN bool moe_claims(const moe_gpu_args &a, const moe_cut &cut)
{
    return a.shape.topk >= 4 || cut.each > 1;
}

/* The terms of a warp's first part are found while headers are under way. */
template <int dtype>
WEIRI_GPU_FN void moe_combine_complete(const moe_gpu_args &a, const moe_launch &l)
{
    enum { VECTORS_BYTES = MOE_WARP * 16 };
    WEIRI_GPU_SHARED(moe_parts, parts);
    const bool is_valid = moe_routing_of(a)->is_valid;
    const moe_cut cut = moe_cut_rows((uint32_t)a.tokens,
                                     (int)((a.shape.row_bytes + VECTORS_BYTES - 1) / VECTORS_BYTES),
                                     l.warps, MOE_PARTS);
    const uint32_t units = (uint32_t)a.tokens * (uint32_t)cut.parts;
    bool has_parts = false;
#pragma unroll 1
    for (uint32_t unit = (uint32_t)l.warp;;
         unit = moe_claims(a, cut) ? moe_claim(a, l, MOE_ADDED, units) : unit + (uint32_t)l.warps) {
        const size_t token = unit / (uint32_t)cut.parts;
        moe_term term = {-1, 0, false, 1.0f};
        if (unit < units)
            term = moe_find_term(a, token, l.lane);
        if (!has_parts) {
            has_parts = true;
            moe_await_parts(a, l, a.shape.at.outputs, &parts);
            if (moe_find_refusal(a, l, parts) || !is_valid)
                return;
        }
        if (unit >= units)
            return;
        moe_combine_part<dtype>(a, l, parts.rows, token, term,
                                moe_pieces_of(cut, (int)(unit % (uint32_t)cut.parts)));
    }
}

template <int dtype>
static __global__ void __launch_bounds__(MOE_GPU_COMBINE_THREADS, 2)
    moe_combine(const __grid_constant__ moe_gpu_args a)
{
    const moe_launch l = moe_begin(a);
    if (a.problem) {
        weiri_moe_refuse(a, l);
        return;
    }
    const bool is_ahead = moe_returns_ahead(a);
    const moe_roles roles = moe_roles_of(a, is_ahead, 1);
    if (a.phases & MOE_GPU_SEND)
        moe_combine_send(a, l, roles);
    if (a.phases & MOE_GPU_COMPLETE && roles.receiver >= 0)
        moe_combine_complete<dtype>(a, moe_launch_as(l, roles.receiver, roles.receivers));
    moe_end(a, l, is_ahead || moe_is_staged(a));
}

const void *weiri_moe_gpu_combine_kernel(weir_dtype dtype)
{
    return dtype == WEIR_FLOAT      ? (const void *)&moe_combine<WEIR_FLOAT>
           : dtype == WEIR_HALF     ? (const void *)&moe_combine<WEIR_HALF>
           : dtype == WEIR_BFLOAT16 ? (const void *)&moe_combine<WEIR_BFLOAT16>
                                    : nullptr;
}
