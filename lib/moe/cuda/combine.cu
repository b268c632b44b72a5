/*
 * Combine on GPUs, one launch.
 *
 * Send. Expert outputs that peers cannot read in place, and gradients of weights, go to staging, at
 * the same rows. Then the last block publishes (device/call.cuh).
 *
 * Complete. Every block waits until all ranks have published. Warps take units of token and slice:
 * they load the slice of each of the token's rows from the ranks of its experts, add them in the
 * order of the choices in float, rounding each product and sum, and store the result, rounded once.
 */
#include "coll/cuda/device/vector.cuh"
#include "moe/cuda/device/call.cuh"

/* --------------------------------------------------------------------- send */

WEIRI_GPU_FN void moe_copy_grads(const moe_gpu_args &a, const moe_launch &l, int first, int rows)
{
    const size_t values = (size_t)a.shape.row_values, begin = (size_t)first * values;
    float *to = (float *)(a.windows[a.view.rank] + a.shape.at.grads) + begin;
    const float *from = a.combine.row_weight_grads + begin;
    for (size_t i = (size_t)l.warp * MOE_WARP + (size_t)l.lane; i < (size_t)rows * values;
         i += (size_t)l.warps * MOE_WARP)
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
        moe_copy_grads(a, l, first, rows);
}

WEIRI_GPU_FN void moe_stage_outputs(const moe_gpu_args &a, const moe_launch &l)
{
    moe_turns turns = moe_turns_of(l);
    if (a.shape.layout == WEIR_MOE_RANK_MAJOR)
        for (int from = 0; from < a.view.nranks; from++)
            moe_stage_part(a, l, &turns, moe_source_row(a, from)[0],
                           moe_rows_from(a, from, a.view.rank));
    else
        for (int own = 0; own < a.shape.own_bins; own++)
            moe_stage_part(a, l, &turns, moe_source_row(a, 0)[own], moe_bin_rows(a)[own]);
}

WEIRI_GPU_FN void moe_combine_send(const moe_gpu_args &a, const moe_launch &l)
{
    moe_gpu_header header = {};
    const bool is_valid = moe_routing_of(a)->is_valid;
    const bool is_staged = a.desc == WEIRI_GPU_UNMAPPED || a.combine.row_weight_grads;
    if (is_staged) {
        moe_await_done(a, moe_state(a)->staged[MOE_COMBINE]);
        if (is_valid)
            moe_stage_outputs(a, l);
    }
    header.what = moe_what(a);
    header.rows = a.desc;
    header.problem = is_valid ? MOE_NO_PROBLEM : MOE_NO_ROUTING;
    header.values[0] = a.handle;
    moe_publish(a, l, header, is_staged);
}

/* ----------------------------------------------------------------- complete */

enum { MOE_TERMS = 8 }; /* that are loaded at the same time */

/* A choice of a token, in the lane of its number. */
typedef struct moe_term {
    const char *row; /* NULL: nothing to add */
    float weight, grad;
} moe_term;

/* sources: the address of each rank's rows, in its memory. */
WEIRI_GPU_FN moe_term moe_find_term(const moe_gpu_args &a, const char *const *sources, size_t token,
                                    int lane, bool has_grads)
{
    moe_term term = {nullptr, 1.0f, 0.0f};
    const size_t i = token * (size_t)a.shape.topk + (size_t)lane;
    const int32_t expert = lane < a.shape.topk ? moe_experts(a)[i] : -1;
    if (expert < 0)
        return term;
    const int32_t position = moe_positions(a)[i];
    const int rank = expert / a.shape.local_experts;
    const size_t row = (size_t)(moe_first_row(a)[moe_by_expert(a) ? expert : rank] +
                                (position < 0 ? ~position : position));
    if (position >= 0)
        term.row = sources[rank] + row * a.shape.row_bytes;
    if (a.combine.weights)
        term.weight = a.combine.weights[i];
    if (has_grads)
        term.grad = ((const float *)(a.windows[rank] +
                                     a.shape.at.grads))[row * (size_t)a.shape.row_values +
                                                        (size_t)(moe_by_expert(a) ? 0 : lane)];
    return term;
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

/* One vector of up to MOE_TERMS terms, on its way from memory. */
typedef struct moe_batch {
    weiri_gpu_vector vectors[MOE_TERMS];
} moe_batch;

/* Loads one vector of the first terms in `left`, which has a bit for each lane that has one. */
WEIRI_GPU_FN void moe_batch_load(moe_batch *batch, const moe_term &term, uint32_t left, uint32_t at,
                                 bool is_there)
{
#pragma unroll
    for (int n = 0; n < MOE_TERMS; n++) {
        const int lane = left ? __ffs((int)left) - 1 : 0;
        const char *row =
            (const char *)__shfl_sync(0xffffffff, (uint64_t)(uintptr_t)term.row, lane);
        if (left && is_there)
            batch->vectors[n] = weiri_gpu_load16(row + at);
        left &= left - 1;
    }
}

/* Adds the first terms in `left`. */
template <int dtype>
WEIRI_GPU_FN void moe_batch_add(float (&total)[2][weiri_gpu_lanes<dtype>::COUNT],
                                const moe_batch &batch, const moe_term &term, uint32_t left,
                                bool is_weighted, bool is_first)
{
#pragma unroll
    for (int n = 0; n < MOE_TERMS; n++) {
        if (!left)
            return;
        const float weight = __shfl_sync(0xffffffff, term.weight, __ffs((int)left) - 1);
        moe_add<dtype>(total, batch.vectors[n], weight, is_weighted, is_first && n == 0);
        left &= left - 1;
    }
}

/* The terms in `left` without the first batch. */
WEIRI_GPU_FN uint32_t moe_batch_after(uint32_t left)
{
#pragma unroll
    for (int n = 0; n < MOE_TERMS; n++)
        left &= left - 1;
    return left;
}

/* Adds the terms of a slice and stores the sums; the next batch is on its way while one is added.
 */
template <int dtype>
WEIRI_GPU_FN void moe_add_slice(const moe_gpu_args &a, const moe_term &term, char *out, int slice,
                                int lane)
{
    typedef weiri_gpu_lanes<dtype> lanes;
    const uint32_t terms = __ballot_sync(0xffffffff, term.row != nullptr), step = MOE_WARP * 16;
    const uint32_t end = a.shape.row_bytes;
    const bool is_weighted = a.combine.weights != nullptr;
    uint32_t at = (uint32_t)(slice * MOE_VECTORS * MOE_WARP + lane) * 16, left = terms;
    float total[2][lanes::COUNT] = {};
    moe_batch next = {};
    moe_batch_load(&next, term, left, at, at < end);
#pragma unroll 1
    for (int vector = 0; vector < MOE_VECTORS;) {
        const moe_batch batch = next;
        const uint32_t after = moe_batch_after(left);
        const bool is_last = !after;
        const uint32_t next_at = is_last ? at + step : at;
        moe_batch_load(&next, term, is_last ? terms : after, next_at,
                       next_at < end && vector + is_last < MOE_VECTORS);
        moe_batch_add<dtype>(total, batch, term, left, is_weighted, left == terms);
        if (is_last && at < end) {
            weiri_gpu_vector sum;
            sum.word[0] = lanes::pack(total[0]);
            sum.word[1] = lanes::pack(total[1]);
            weiri_gpu_store16(out + at, sum);
        }
        vector += is_last;
        left = is_last ? terms : after;
        at = next_at;
    }
}

template <int dtype>
WEIRI_GPU_FN void moe_combine_slice(const moe_gpu_args &a, const char *const *sources, size_t token,
                                    int slice, int lane)
{
    const bool has_grads = slice == 0 && a.combine.row_weight_grads && a.combine.weight_grads;
    const moe_term term = moe_find_term(a, sources, token, lane, has_grads);
    if (has_grads && lane < a.shape.topk)
        a.combine.weight_grads[token * (size_t)a.shape.topk + (size_t)lane] = term.grad;
    moe_add_slice<dtype>(a, term, a.combine.out + token * a.shape.row_bytes, slice, lane);
}

/* Waits for all ranks. Returns whether the rows can be added. All threads of a block. */
WEIRI_GPU_FN bool moe_combine_await(const moe_gpu_args &a, const moe_launch &l)
{
    __shared__ int is_wrong;
    moe_await_published(a, l.call);
    const bool is_same = moe_is_same(a, l);
    if (threadIdx.x == 0) {
        is_wrong = !is_same;
        if (!is_same && blockIdx.x == 0)
            moe_report_other(a, l);
        for (int rank = 0; rank < a.view.nranks && !is_wrong; rank++) {
            const moe_gpu_header *header = moe_header(a, rank, l.call);
            const bool is_late = !moe_has_published(a, l, rank);
            is_wrong = is_late || header->problem != 0;
            if (is_wrong && !is_late && blockIdx.x == 0)
                moe_report(a, header->problem, rank, header->values[0], header->values[1],
                           header->values[2]);
        }
    }
    __syncthreads();
    return !is_wrong && moe_routing_of(a)->is_valid;
}

template <int dtype>
WEIRI_GPU_FN void moe_combine_complete(const moe_gpu_args &a, const moe_launch &l)
{
    const int slices = moe_slices(a.shape.row_bytes);
    __shared__ const char *sources[WEIRI_GPU_RANKS_MAX];
    if (moe_combine_await(a, l)) {
        const int rank = (int)threadIdx.x;
        if (rank < a.view.nranks)
            sources[rank] = moe_rows_of(a, l, rank, a.shape.at.outputs);
        __syncthreads();
        for (int64_t unit = l.warp; unit < (int64_t)a.tokens * slices; unit += l.warps)
            moe_combine_slice<dtype>(a, sources, (size_t)(unit / slices), (int)(unit % slices),
                                     l.lane);
    }
    moe_finish(a, l);
}

template <int dtype>
static __global__ void __launch_bounds__(MOE_GPU_THREADS)
    moe_combine(const __grid_constant__ moe_gpu_args a)
{
    const moe_launch l = moe_begin(a);
    if (a.problem) {
        moe_refuse(a, l);
        return;
    }
    if (a.phases & MOE_GPU_SEND)
        moe_combine_send(a, l);
    if (a.phases & MOE_GPU_COMPLETE)
        moe_combine_complete<dtype>(a, l);
}

const void *moe_gpu_combine_kernel(weir_dtype dtype)
{
    return dtype == WEIR_FLOAT      ? (const void *)&moe_combine<WEIR_FLOAT>
           : dtype == WEIR_HALF     ? (const void *)&moe_combine<WEIR_HALF>
           : dtype == WEIR_BFLOAT16 ? (const void *)&moe_combine<WEIR_BFLOAT16>
                                    : nullptr;
}
