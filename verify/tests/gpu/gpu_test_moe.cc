/*
 * Proves the kernels of expert parallelism, in the emulator, against the oracle of verify/moe.h,
 * which the host implementation is tested with: all layouts and types, in place and staged, forward
 * and backward, in halves, with grids that differ between ranks and calls; with inboxes for all
 * tokens, for some and for none; ranks run ahead of one another through chains of calls. Invalid
 * ids, missing weights and exceeded capacities are reported on every rank, write no rows, and leave
 * the group usable; a rank that makes another call, or none, is reported too.
 */
#include "verify/tests/support/gpu_emulator.hh"
#include "verify/tests/support/gpu_tap.hh"

#include "moe/cuda/args.h"
#include "moe/problem.h"
extern "C" {
#include "verify/moe.h"
}

#include <cstring>
#include <deque>
#include <vector>

using namespace emulator;

/* The members that are 0 have defaults. */
struct shape {
    const char *name;
    int nranks, experts, topk, tokens, hidden;
    weir_moe_layout layout;
    weir_dtype dtype, dispatch_dtype;
    weirv_moe_spread spread;
    double parameter;
    int alignment, expert_capacity, recv_rows, is_registered, has_wide_ids;
    unsigned inbox_bytes; /* 1: no inboxes */
};

enum { HANDLES = 2 };

struct one_launch {
    moe_gpu_args args;
    const void *kernel;
};

static void run_launch(weiri_gpu_args args)
{
    const one_launch *launch = (const one_launch *)(uintptr_t)args.in;
    ((void (*)(moe_gpu_args))launch->kernel)(launch->args);
}

/* Where a rank's counts are while they are late: in staging that dispatch does not use. */
static uint64_t late_place(const moe_gpu_args &a)
{
    return a.shape.at.outputs;
}

/* A kernel: brings a rank's counts of rows into all windows, and later those of experts. */
static void bring_counts(moe_gpu_args a)
{
    const size_t experts = (size_t)a.shape.experts, each = experts + (size_t)a.view.nranks;
    const size_t at = ((size_t)a.handle * (size_t)a.view.nranks + (size_t)a.view.rank) * each;
    if (blockIdx.x || threadIdx.x)
        return;
    for (int is_late = 0; is_late < 2; is_late++) {
        const size_t first = (at + (is_late ? 0 : experts)) * 8;
        for (int i = 1; i <= 1000 * is_late; i++) {
            weir_emulated_relax();
            if (i % 100 == 0)
                weir_emulated_stored(); /* the others' waits are no deadlock */
        }
        for (int peer = 0; peer < a.view.nranks; peer++)
            memcpy(a.windows[peer] + a.shape.at.counts + first,
                   a.windows[peer] + late_place(a) + first,
                   (is_late ? experts : each - experts) * 8);
        weir_emulated_stored();
    }
}

/* The buffers of one rank in one dispatch and combine. */
struct buffers {
    buffer x, rows, outputs, out, ids, weights, scales, row_weights, row_experts, counts, offsets,
        sources, grads, weight_grads;
};

/* One dispatch and combine on all ranks. */
struct pair {
    int version, data, handle, is_weighted, has_grads;
    std::vector<buffers> of;
};

class scene {
  public:
    scene(const shape &how, uint64_t seed);
    ~scene()
    {
        weirv_moe_close(oracle_);
    }
    /* Queues a pair; is_backward: by the routing of the handle, with gradients. */
    pair &queue(int version, int handle, bool is_backward, bool in_halves);
    void queue_dispatch(const pair &p, int rank, bool is_backward, int phases,
                        moe_problem problem = MOE_NO_PROBLEM);
    void queue_combine(const pair &p, int rank, int phases, moe_problem problem = MOE_NO_PROBLEM,
                       bool is_other_under_way = false);
    /* A dispatch whose counts arrive after everything else that the rank sends. */
    void queue_late_dispatch(const pair &p, int rank);
    pair &make_pair(int version, int handle, bool is_backward);
    std::string run();
    std::string check(const pair &p);
    std::string check_rows(const pair &p, int rank);
    moe_gpu_args args(int rank, int phases, int kind, const buffer &in, int version);
    moe_gpu_args dispatch_args(const pair &p, int rank, bool is_backward, int phases,
                               moe_problem problem);
    void launch(int rank, const moe_gpu_args &args, void (*other)(moe_gpu_args) = NULL);
    int recv_rows() const
    {
        return recv_rows_;
    }

    machine m;
    weir_moe_config config = WEIR_MOE_CONFIG_INIT;
    shape how;
    weirv_moe *oracle_ = nullptr;
    std::vector<moe_gpu_report> reports;

  private:
    moe_gpu_shape shape_ = {};
    int recv_rows_;
    std::vector<buffer> windows_;
    std::deque<one_launch> launches_;
    std::deque<pair> pairs_;

    bool by_expert() const
    {
        return config.layout == WEIR_MOE_EXPERT_MAJOR;
    }
    buffers make_buffers(int rank, const pair &p);
    void fill_grads(const pair &p, int rank);
    std::string check_grads(const pair &p, int rank);
};

static int most_rows(const shape &how)
{
    const int local = how.experts / how.nranks;
    if (how.recv_rows)
        return how.recv_rows;
    if (how.expert_capacity)
        return how.expert_capacity * local;
    if (how.layout != WEIR_MOE_EXPERT_MAJOR)
        return how.nranks * how.tokens;
    return how.nranks * how.tokens * how.topk + (how.alignment > 1 ? how.alignment * local : 0);
}

scene::scene(const shape &of, uint64_t seed)
    : m(of.nranks, seed), how(of), reports((size_t)of.nranks), recv_rows_(most_rows(of))
{
    char problem[WEIRV_MOE_MESSAGE];
    config.experts = how.experts;
    config.topk = how.topk;
    config.max_tokens = how.tokens;
    config.hidden = how.hidden;
    config.dtype = how.dtype;
    config.dispatch_dtype = how.dispatch_dtype ? how.dispatch_dtype : how.dtype;
    config.layout = how.layout;
    config.alignment = how.alignment ? how.alignment : 1;
    config.expert_capacity = how.expert_capacity;
    config.handles = HANDLES;
    config.registered = how.is_registered;
    const weirv_moe_shape shape = {how.nranks, config, how.spread, how.parameter, NULL, seed};
    if (weirv_moe_open(&shape, &oracle_, problem)) {
        fprintf(stderr, "%s\n", problem);
        exit(3);
    }
    m.expect_no_epochs();
    weiri_moe_gpu_shape_make(&config, how.nranks, recv_rows_,
                             how.inbox_bytes ? how.inbox_bytes : 1 << 20, &shape_);
    for (int rank = 0; rank < how.nranks; rank++) {
        windows_.push_back(m.alloc(rank, shape_.at.bytes, 0, PLAIN));
        memset(windows_.back().data, 0, shape_.at.bytes);
    }
}

moe_gpu_args scene::args(int rank, int phases, int kind, const buffer &in, int version)
{
    moe_gpu_args a = {};
    const buffer none = {NULL, 0, WEIRI_GPU_UNMAPPED};
    a.view = m.args(rank, none, none).view;
    a.shape = shape_;
    for (int peer = 0; peer < how.nranks; peer++)
        a.windows[peer] = windows_[(size_t)peer].data;
    a.report = &reports[(size_t)rank];
    a.phases = phases;
    a.kind = kind;
    a.tokens = weirv_moe_tokens(oracle_, version, rank);
    a.in = in.data;
    a.desc = kind == MOE_DISPATCH && (shape_.is_fp8 || moe_sends_ahead(&a)) ? WEIRI_GPU_UNMAPPED
                                                                            : in.desc;
    return a;
}

/* other: a kernel in place of dispatch or combine. */
void scene::launch(int rank, const moe_gpu_args &args, void (*other)(moe_gpu_args))
{
    const void *kernel = other ? (const void *)other
                         : args.kind == MOE_DISPATCH
                             ? weiri_moe_gpu_dispatch_kernel(config.dtype, shape_.is_fp8)
                             : weiri_moe_gpu_combine_kernel(config.dtype);
    const buffer none = {NULL, 0, WEIRI_GPU_UNMAPPED};
    launches_.push_back({args, kernel});
    weiri_gpu_args wrapped = m.args(rank, none, none);
    wrapped.in = (const char *)&launches_.back();
    m.launch(rank, args.kind == MOE_DISPATCH ? "dispatch" : "combine", (const void *)run_launch,
             {1 + (int)m.random(3), 32 * (1 + (int)m.random(2))}, wrapped);
}

buffers scene::make_buffers(int rank, const pair &p)
{
    const size_t rows = (size_t)recv_rows_, k = (size_t)how.topk, tokens = (size_t)how.tokens;
    const size_t local = (size_t)shape_.local_experts;
    const kind place = how.is_registered ? MAPPED : (kind)m.random(2);
    const int32_t *experts = weirv_moe_experts(oracle_, p.version, rank);
    buffers b;
    b.x = m.alloc_input(rank, tokens * shape_.row_bytes, 0, place);
    b.rows = m.alloc(rank, (rows + 1) * shape_.sent_row_bytes, 0, PLAIN);
    b.outputs = m.alloc_input(rank, rows * shape_.row_bytes, 0, place);
    b.out = m.alloc(rank, tokens * shape_.row_bytes, 0, PLAIN);
    b.ids = m.alloc_input(rank, tokens * k * (how.has_wide_ids ? 8 : 4), 0, PLAIN);
    b.weights = m.alloc_input(rank, tokens * k * 4, 0, PLAIN);
    b.scales = m.alloc(rank, rows * (size_t)shape_.scales_per_row * 4, 0, PLAIN);
    b.row_weights = m.alloc(rank, rows * (by_expert() ? 1 : k) * 4, 0, PLAIN);
    b.row_experts = m.alloc(rank, rows * k * 4, 0, PLAIN);
    b.counts = m.alloc(rank, local * 4, 0, PLAIN);
    b.offsets = m.alloc(rank, local * 4, 0, PLAIN);
    b.sources = m.alloc(rank, (size_t)how.nranks * 4, 0, PLAIN);
    b.grads = m.alloc_input(rank, rows * (by_expert() ? 1 : k) * 4, 0, PLAIN);
    b.weight_grads = m.alloc(rank, tokens * k * 4, 0, PLAIN);
    weirv_moe_fill_tokens(oracle_, p.version, p.data, rank, b.x.data);
    weirv_moe_fill_outputs(oracle_, p.version, rank, b.outputs.data);
    memcpy(b.weights.data, weirv_moe_weights(oracle_, p.version, rank), tokens * k * 4);
    for (size_t i = 0; i < tokens * k; i++)
        if (how.has_wide_ids)
            ((int64_t *)b.ids.data)[i] = experts[i] < 0 ? INT64_MIN : experts[i];
        else
            ((int32_t *)b.ids.data)[i] = experts[i];
    const int end = weirv_moe_end_row(oracle_, p.version, rank);
    if (end <= recv_rows_)
        memset(b.rows.data + (size_t)end * shape_.sent_row_bytes, WEIRV_MOE_GUARD,
               shape_.sent_row_bytes);
    return b;
}

pair &scene::make_pair(int version, int handle, bool is_backward)
{
    pairs_.push_back({version,
                      is_backward ? (version + 1) % WEIRV_MOE_VERSIONS : version,
                      handle,
                      by_expert() && !is_backward,
                      is_backward,
                      {}});
    pair &p = pairs_.back();
    for (int rank = 0; rank < how.nranks; rank++) {
        p.of.push_back(make_buffers(rank, p));
        fill_grads(p, rank);
    }
    return p;
}

moe_gpu_args scene::dispatch_args(const pair &p, int rank, bool is_backward, int phases,
                                  moe_problem problem)
{
    const buffers &b = p.of[(size_t)rank];
    moe_gpu_args a = args(rank, phases, MOE_DISPATCH, b.x, p.version);
    a.problem = problem;
    a.values[0] = 9;
    a.values[1] = 4;
    a.handle = p.handle;
    a.dispatch.topk_experts = is_backward ? NULL : b.ids.data;
    a.dispatch.topk_weights = is_backward ? NULL : (const float *)b.weights.data;
    a.dispatch.has_wide_ids = how.has_wide_ids;
    a.dispatch.rows = b.rows.data;
    a.dispatch.row_scales = (float *)b.scales.data;
    a.dispatch.row_weights = (float *)b.row_weights.data;
    a.dispatch.row_experts = by_expert() ? NULL : (int32_t *)b.row_experts.data;
    a.dispatch.expert_counts = (int32_t *)b.counts.data;
    a.dispatch.expert_offsets = by_expert() ? (int32_t *)b.offsets.data : NULL;
    a.dispatch.source_counts = (int32_t *)b.sources.data;
    return a;
}

void scene::queue_dispatch(const pair &p, int rank, bool is_backward, int phases,
                           moe_problem problem)
{
    launch(rank, dispatch_args(p, rank, is_backward, phases, problem));
}

void scene::queue_late_dispatch(const pair &p, int rank)
{
    moe_gpu_args send = dispatch_args(p, rank, false, MOE_GPU_SEND, MOE_NO_PROBLEM);
    const moe_gpu_args late = send;
    send.shape.at.counts = late_place(send);
    launch(rank, send);
    launch(rank, late, bring_counts);
    queue_dispatch(p, rank, false, MOE_GPU_COMPLETE);
}

void scene::queue_combine(const pair &p, int rank, int phases, moe_problem problem,
                          bool is_other_under_way)
{
    const buffers &b = p.of[(size_t)rank];
    moe_gpu_args a = args(rank, phases, MOE_COMBINE, b.outputs, p.version);
    a.problem = problem;
    a.is_other_under_way = is_other_under_way;
    a.handle = p.handle;
    a.combine.weights = p.is_weighted ? (const float *)b.weights.data : NULL;
    a.combine.row_weight_grads = p.has_grads ? (const float *)b.grads.data : NULL;
    a.combine.weight_grads = p.has_grads ? (float *)b.weight_grads.data : NULL;
    a.combine.out = b.out.data;
    launch(rank, a);
}

pair &scene::queue(int version, int handle, bool is_backward, bool in_halves)
{
    const int both = MOE_GPU_SEND | MOE_GPU_COMPLETE;
    pair &p = make_pair(version, handle, is_backward);
    for (int rank = 0; rank < how.nranks; rank++) {
        queue_dispatch(p, rank, is_backward, in_halves ? (int)MOE_GPU_SEND : both);
        if (in_halves)
            queue_dispatch(p, rank, is_backward, MOE_GPU_COMPLETE);
        queue_combine(p, rank, in_halves ? (int)MOE_GPU_SEND : both);
        if (in_halves)
            queue_combine(p, rank, MOE_GPU_COMPLETE);
    }
    return p;
}

/* ------------------------------------------------------------------- checks */

static float grad_of(int source, int token, int choice)
{
    return (float)(source * 65536 + token * 16 + choice);
}

void scene::fill_grads(const pair &p, int rank)
{
    const int count = weirv_moe_received(oracle_, p.version, rank);
    float *grads = (float *)p.of[(size_t)rank].grads.data;
    for (int i = 0; i < count; i++) {
        int source, token, choice;
        const int row = weirv_moe_row(oracle_, p.version, rank, i, &source, &token, &choice);
        for (int k = 0; row < recv_rows_ && k < (by_expert() ? 1 : how.topk); k++)
            grads[by_expert() ? row : row * how.topk + k] =
                grad_of(source, token, by_expert() ? choice : k);
    }
}

std::string scene::check_grads(const pair &p, int rank)
{
    const int32_t *experts = weirv_moe_experts(oracle_, p.version, rank);
    const float *got = (const float *)p.of[(size_t)rank].weight_grads.data;
    const int choices = weirv_moe_tokens(oracle_, p.version, rank) * how.topk;
    for (int i = 0; p.has_grads && i < choices; i++) {
        const float expected = experts[i] < 0 ? 0 : grad_of(rank, i / how.topk, i % how.topk);
        if (got[i] != expected)
            return "rank " + std::to_string(rank) + ": gradient of weight " + std::to_string(i) +
                   " is " + std::to_string(got[i]) + ", expected " + std::to_string(expected);
    }
    return "";
}

std::string scene::check_rows(const pair &p, int rank)
{
    const weirv_moe_sample all = {1, 0};
    char message[WEIRV_MOE_MESSAGE];
    const buffers &b = p.of[(size_t)rank];
    const int end = weirv_moe_end_row(oracle_, p.version, rank);
    const weirv_moe_received_rows got = {b.rows.data,
                                         shape_.scales_per_row ? (const float *)b.scales.data
                                                               : NULL,
                                         (const float *)b.row_weights.data,
                                         by_expert() ? NULL : (const int32_t *)b.row_experts.data,
                                         (const int32_t *)b.counts.data,
                                         by_expert() ? (const int32_t *)b.offsets.data : NULL,
                                         (const int32_t *)b.sources.data,
                                         b.rows.data + (size_t)end * shape_.sent_row_bytes,
                                         NULL};
    if (weirv_moe_check_dispatch(oracle_, p.version, p.data, rank, &got, all, message))
        return message;
    return "";
}

std::string scene::check(const pair &p)
{
    const weirv_moe_sample all = {1, 0};
    char message[WEIRV_MOE_MESSAGE];
    for (int rank = 0; rank < how.nranks; rank++) {
        std::string why = check_rows(p, rank);
        if (!why.empty())
            return why;
        if (weirv_moe_check_combine(oracle_, p.version, rank, p.of[(size_t)rank].out.data,
                                    WEIRV_MOE_OUTPUTS, p.is_weighted, 0, all, message))
            return message;
        why = check_grads(p, rank);
        if (!why.empty())
            return why;
    }
    return "";
}

std::string scene::run()
{
    if (!m.run())
        return m.report();
    for (size_t rank = 0; rank < reports.size(); rank++)
        if (reports[rank].problem)
            return "rank " + std::to_string(rank) + " reports problem " +
                   std::to_string(reports[rank].problem);
    return "";
}

/* ------------------------------------------------------------- right results */

#define EXPERT WEIR_MOE_EXPERT_MAJOR
#define RANK WEIR_MOE_RANK_MAJOR
#define FLAT WEIR_MOE_FLAT
#define BF16 WEIR_BFLOAT16
#define HALF WEIR_HALF
#define FP32 WEIR_FLOAT
#define FP8 WEIR_FP8_E4M3
#define SAME ((weir_dtype)0)
#define UNIFORM WEIRV_MOE_UNIFORM

static const shape shapes[] = {
    {"expert", 2, 8, 2, 6, 256, EXPERT, BF16, SAME, UNIFORM, 0, 0, 0, 0, 0, 0, 0},
    {"rank", 4, 8, 4, 5, 256, RANK, BF16, SAME, UNIFORM, 0, 0, 0, 0, 0, 0, 1},
    {"flat, half", 3, 6, 4, 5, 264, FLAT, HALF, SAME, WEIRV_MOE_RAGGED, 0, 0, 0, 0, 0, 1, 3168},
    {"aligned", 4, 16, 4, 5, 256, EXPERT, BF16, SAME, WEIRV_MOE_ZIPF, 1.2, 4, 0, 0, 0, 1, 1},
    {"fixed stride, float", 3, 6, 3, 4, 136, EXPERT, FP32, SAME, UNIFORM, 0, 4, 12, 0, 0, 0, 0},
    {"fp8", 4, 16, 8, 4, 392, EXPERT, BF16, FP8, WEIRV_MOE_MASKED, 0.4, 4, 0, 0, 0, 0, 0},
    {"fp8, flat, float", 3, 6, 5, 5, 132, FLAT, FP32, FP8, WEIRV_MOE_RAGGED, 0, 0, 0, 0, 0, 0, 792},
    {"fp8, rank, half", 2, 6, 3, 5, 512, RANK, HALF, FP8, WEIRV_MOE_EMPTY, 0, 0, 0, 0, 0, 0, 0},
    {"registered", 4, 8, 2, 5, 1280, EXPERT, BF16, SAME, UNIFORM, 0, 0, 0, 0, 1, 0, 1},
    {"registered, flat", 2, 8, 8, 6, 256, FLAT, BF16, SAME, WEIRV_MOE_HOT, 0, 0, 0, 0, 1, 0, 0},
    {"registered, rank, fp8", 2, 4, 2, 6, 256, RANK, BF16, FP8, UNIFORM, 0, 0, 0, 0, 1, 0, 1},
    {"fp8, several slices", 2, 4, 2, 5, 1288, EXPERT, BF16, FP8, UNIFORM, 0, 0, 0, 0, 0, 0, 0},
    {"fp8, several slices, rank", 2, 4, 2, 6, 1288, RANK, BF16, FP8, UNIFORM, 0, 0, 0, 0, 0, 0, 0},
    {"fp8, several slices, flat", 4, 4, 2, 4, 2312, FLAT, BF16, FP8, UNIFORM, 0, 0, 0, 0, 0, 0, 0},
    {"fp8, long slices", 2, 4, 2, 3, 4112, EXPERT, BF16, FP8, UNIFORM, 0, 0, 0, 0, 0, 0, 0},
    {"fp8, long slices, float", 2, 4, 2, 3, 2064, FLAT, FP32, FP8, UNIFORM, 0, 0, 0, 0, 0, 0, 0},
    {"shortest rows", 2, 32, 16, 5, 8, EXPERT, BF16, SAME, WEIRV_MOE_RAGGED, 0, 0, 0, 0, 0, 0, 0},
    {"one choice", 3, 3, 1, 40, 4, RANK, FP32, SAME, WEIRV_MOE_MASKED, 0.5, 0, 0, 0, 0, 0, 1},
    {"one choice, fp8", 2, 2, 1, 40, 8, FLAT, HALF, FP8, WEIRV_MOE_MASKED, 0.5, 0, 0, 0, 0, 0, 0},
    {"more choices than experts", 2, 2, 5, 4, 256, EXPERT, BF16, SAME, UNIFORM, 0, 0, 0, 0, 0, 0,
     0},
    {"one rank", 1, 70, 3, 20, 128, EXPERT, BF16, FP8, UNIFORM, 0, 8, 0, 0, 0, 0, 0},
    {"one rank, fixed stride", 1, 70, 3, 20, 64, EXPERT, BF16, SAME, UNIFORM, 0, 0, 8, 0, 0, 0, 0},
    {"all masked", 2, 4, 2, 5, 128, FLAT, BF16, SAME, WEIRV_MOE_MASKED, 1.1, 0, 0, 0, 0, 0, 0},
    {"segments, expert", 2, 8, 8, 135, 8, EXPERT, BF16, SAME, WEIRV_MOE_MASKED, 0.8, 0, 0, 0, 0, 1,
     1},
    {"segments, rank", 2, 8, 8, 140, 8, RANK, BF16, SAME, WEIRV_MOE_MASKED, 0.3, 0, 0, 0, 0, 0, 0},
    {"8 ranks", 8, 16, 8, 3, 128, EXPERT, BF16, SAME, WEIRV_MOE_RAGGED, 0, 0, 0, 0, 0, 0, 3584},
};

/* Two rounds of all versions, forward and backward, queued at once. */
static std::string right(const shape &how, uint64_t seed)
{
    scene s(how, seed);
    std::vector<pair *> pairs;
    for (int i = 0; i < 2 * WEIRV_MOE_VERSIONS; i++) {
        const int version = i % WEIRV_MOE_VERSIONS, handle = i % HANDLES;
        pairs.push_back(&s.queue(version, handle, false, s.m.random(2)));
        pairs.push_back(&s.queue(version, handle, true, s.m.random(2)));
    }
    std::string why = s.run();
    for (size_t i = 0; why.empty() && i < pairs.size(); i++)
        if (!(why = s.check(*pairs[i])).empty())
            why = "pair " + std::to_string(i) + ": " + why;
    return why.empty() ? why : why + "\nseed " + std::to_string(seed);
}

static void test_right(uint64_t seeds)
{
    for (const shape &how : shapes) {
        std::string why;
        for (uint64_t seed = 1; seed <= seeds && why.empty(); seed++)
            why = right(how, seed);
        ok(why.empty(), why, "%s: rows, counts, weights, sums and gradients", how.name);
    }
}

/* Dispatches that follow each other, so that only done says when an inbox is free. */
static void test_dispatches(uint64_t seeds)
{
    std::string why;
    for (uint64_t seed = 1; seed <= 4 * seeds && why.empty(); seed++) {
        scene s(shapes[0], seed);
        std::vector<pair *> pairs;
        for (int i = 0; i < 6; i++) {
            pairs.push_back(&s.make_pair(i % WEIRV_MOE_VERSIONS, i % HANDLES, false));
            for (int rank = 0; rank < s.how.nranks; rank++)
                s.queue_dispatch(*pairs.back(), rank, false, MOE_GPU_SEND | MOE_GPU_COMPLETE);
        }
        why = s.run();
        for (const pair *p : pairs)
            for (int rank = 0; rank < s.how.nranks && why.empty(); rank++)
                why = s.check_rows(*p, rank);
    }
    ok(why.empty(), why, "dispatches without combines between them");
}

/* Routings replaced in device memory between launches with the same arguments, as in replays of a
 * graph. */
static void test_replays(uint64_t seeds)
{
    std::string why;
    for (uint64_t seed = 1; seed <= seeds && why.empty(); seed++)
        for (int round = 0; round < 1; round++) {
            scene s(shapes[3], seed);
            pair &fixed = s.make_pair(0, 0, false);
            for (int replay = 0; replay < 5 && why.empty(); replay++) {
                const pair &fresh = s.make_pair(replay % WEIRV_MOE_VERSIONS, 0, false);
                fixed.version = fresh.version;
                fixed.data = fresh.data;
                for (int rank = 0; rank < s.how.nranks; rank++) {
                    buffers &to = fixed.of[(size_t)rank];
                    const buffers &from = fresh.of[(size_t)rank];
                    memcpy(to.ids.data, from.ids.data, to.ids.bytes);
                    memcpy(to.weights.data, from.weights.data, to.weights.bytes);
                    memcpy(to.x.data, from.x.data, to.x.bytes);
                    memcpy(to.outputs.data, from.outputs.data, to.outputs.bytes);
                    memcpy(to.rows.data, from.rows.data, to.rows.bytes);
                    s.queue_dispatch(fixed, rank, false, MOE_GPU_SEND | MOE_GPU_COMPLETE);
                    s.queue_combine(fixed, rank, MOE_GPU_SEND | MOE_GPU_COMPLETE);
                }
                why = s.run();
                why = why.empty() ? s.check(fixed) : why;
            }
        }
    ok(why.empty(), why, "routings that change between launches with the same arguments");
}

static const shape nan_shape = {"fp8, NaN", 2, 4, 2, 3, 392, EXPERT, BF16, FP8,
                                UNIFORM,    0, 0, 0, 0, 0,   0,      0};

/* The rows and scales of a dispatch as fp8 on two ranks, where element `nan` of each token of rank
 * 0 is NaN; -1: none is. */
static std::string cast_with_nan(int nan, uint64_t seed, std::vector<std::string> *results)
{
    scene s(nan_shape, seed);
    const pair &p = s.make_pair(0, 0, false);
    uint16_t *x = (uint16_t *)(void *)p.of[0].x.data;
    for (size_t at = (size_t)nan; nan >= 0 && at < p.of[0].x.bytes / 2;
         at += (size_t)nan_shape.hidden)
        x[at] = 0x7fc0;
    for (int rank = 0; rank < nan_shape.nranks; rank++)
        s.queue_dispatch(p, rank, false, MOE_GPU_SEND | MOE_GPU_COMPLETE);
    const std::string why = s.run();
    for (const buffers &b : p.of) {
        results->emplace_back(b.rows.data, b.rows.bytes);
        results->emplace_back(b.scales.data, b.scales.bytes);
    }
    return why;
}

/* A NaN becomes one, and its block keeps the scale of the other elements. */
static void test_nan(uint64_t seeds)
{
    const size_t hidden = (size_t)nan_shape.hidden;
    std::string why;
    for (uint64_t seed = 1; seed <= seeds && why.empty(); seed++) {
        std::vector<std::string> before, now;
        why = cast_with_nan(-1, seed, &before);
        int same_scales = 0, changed = 0, others = 0;
        for (int nan = 130; nan < 130 + 8 && why.empty(); nan++) {
            now.clear();
            why = cast_with_nan(nan, seed, &now);
            same_scales += now[1] == before[1] && now[3] == before[3];
            for (size_t i = 0; i < 4; i += 2)
                for (size_t at = 0; at < now[i].size(); at++)
                    if (at % hidden == (size_t)nan)
                        changed += (now[i][at] & 0x7f) == 0x7f;
                    else if (at % hidden / 128 != (size_t)nan / 128)
                        others += now[i][at] != before[i][at];
        }
        if (why.empty() && (same_scales < 8 - nan_shape.tokens ||
                            changed != 8 * nan_shape.tokens * nan_shape.topk || others))
            why = std::to_string(same_scales) + " of 8 leave the scales as they are, " +
                  std::to_string(changed) + " NaN, " + std::to_string(others) +
                  " changes in other blocks";
    }
    ok(why.empty(), why, "NaN in a token that is cast to fp8");
}

/* ------------------------------------------------------------------ failures */

/* What is wrong on rank 1 of 3, in a dispatch, and what every rank must report. */
struct fault {
    const char *name;
    void (*inject)(scene &s, pair &p);
    moe_problem problem;
    uint64_t rank;
    int64_t values[3];
    int tokens; /* 0: those of faulty_shape, which are one segment, and 30 rows to receive */
};

static const shape faulty_shape = {"faulty", 3, 6, 3, 4, 64, EXPERT, BF16, SAME,
                                   UNIFORM,  0, 0, 0, 0, 0,  0,      0};

static void inject_expert(scene &s, pair &p)
{
    (void)s;
    ((int32_t *)p.of[1].ids.data)[2 * 3 + 1] = 6;
    ((int32_t *)p.of[1].ids.data)[3 * 3 + 1] = 1 << 30;
}

static void inject_hot(scene &s, pair &p)
{
    for (int rank = 0; rank < s.how.nranks; rank++)
        for (int i = 0; i < s.how.tokens * s.how.topk; i++)
            ((int32_t *)p.of[(size_t)rank].ids.data)[i] = 3;
}

static const fault faults[] = {
    {"an expert that does not exist", inject_expert, MOE_BAD_EXPERT, 1, {2, 1, 6}, 0},
    {"an exceeded capacity", inject_hot, MOE_OVERFLOW, 1, {3, 36, 30}, 0},
    {"an expert in the first of several segments that does not exist",
     inject_expert,
     MOE_BAD_EXPERT,
     1,
     {2, 1, 6},
     24},
};

static bool is_untouched(const buffer &b, const std::vector<char> &before)
{
    return !memcmp(b.data, before.data(), b.bytes);
}

static bool are_zero(const buffer &b)
{
    for (size_t i = 0; i < b.bytes; i++)
        if (b.data[i])
            return false;
    return true;
}

static std::string check_report(const scene &s, int rank, const fault &f)
{
    const moe_gpu_report &r = s.reports[(size_t)rank];
    if (r.problem == (uint64_t)f.problem && r.rank == f.rank && r.kind == MOE_DISPATCH &&
        !memcmp(r.values, f.values, sizeof r.values))
        return "";
    return "rank " + std::to_string(rank) + " reports problem " + std::to_string(r.problem) +
           " of rank " + std::to_string(r.rank) + ": " + std::to_string(r.values[0]) + ", " +
           std::to_string(r.values[1]) + ", " + std::to_string(r.values[2]);
}

static std::string faulty(const fault &f, uint64_t seed)
{
    shape how = faulty_shape;
    how.recv_rows = f.tokens ? 0 : 30;
    how.tokens = f.tokens ? f.tokens : how.tokens;
    how.is_registered = f.tokens != 0; /* staged rows are announced otherwise */
    scene s(how, seed);
    pair &bad = s.make_pair(0, 0, false);
    std::vector<std::vector<char>> before;
    f.inject(s, bad);
    for (int rank = 0; rank < how.nranks; rank++) {
        const buffer &rows = bad.of[(size_t)rank].rows;
        before.emplace_back(rows.data, rows.data + rows.bytes);
        s.queue_dispatch(bad, rank, false, MOE_GPU_SEND | MOE_GPU_COMPLETE);
    }
    std::string why = s.m.run() ? "" : s.m.report();
    for (int rank = 0; rank < how.nranks && why.empty(); rank++) {
        const buffers &b = bad.of[(size_t)rank];
        why = check_report(s, rank, f);
        if (why.empty() && !is_untouched(b.rows, before[(size_t)rank]))
            why = "rows were written";
        if (why.empty() && (!are_zero(b.counts) || !are_zero(b.sources)))
            why = "counts are not 0";
        s.reports[(size_t)rank] = {};
    }
    const pair &good = s.queue(1, 0, false, false);
    why = why.empty() ? s.run() : why;
    return why.empty() ? s.check(good) : why;
}

static void test_faults(uint64_t seeds)
{
    for (const fault &f : faults) {
        std::string why;
        /* Small seeds begin with a grid of one block, which is one segment. */
        for (uint64_t seed = 1; seed <= seeds && why.empty(); seed++)
            why = faulty(f, f.tokens ? seed * 0x9e3779b97f4a7c15u : seed);
        ok(why.empty(), why, "%s is reported by all ranks, and the group goes on", f.name);
    }
}

/* A combine on a handle without a routing, and rows received with weights that a rank lacks. */
static void test_refusals(uint64_t seeds)
{
    std::string why;
    for (uint64_t seed = 1; seed <= seeds && why.empty(); seed++) {
        scene s(faulty_shape, seed);
        const fault no_routing = {"", NULL, MOE_NO_ROUTING, 0, {1, 0, 0}, 0};
        pair &p = s.make_pair(0, 1, false);
        for (int rank = 0; rank < s.how.nranks; rank++)
            s.queue_combine(p, rank, MOE_GPU_SEND | MOE_GPU_COMPLETE);
        why = s.m.run() ? "" : s.m.report();
        for (int rank = 0; rank < s.how.nranks && why.empty(); rank++) {
            if (s.reports[(size_t)rank].problem != no_routing.problem)
                why = check_report(s, rank, no_routing);
            s.reports[(size_t)rank] = {};
        }
        const pair &good = s.queue(1, 1, false, false);
        why = why.empty() ? s.run() : why;
        why = why.empty() ? s.check(good) : why;
    }
    ok(why.empty(), why, "combine without a routing is reported, and the group goes on");
}

/* Rank 1 cannot take part in a combine, while a dispatch is under way, and in a dispatch. */
static std::string refused(uint64_t seed)
{
    scene s(faulty_shape, seed);
    const fault tokens = {"", NULL, MOE_BAD_TOKENS, 1, {9, 4, 0}, 0};
    const pair &first = s.queue(0, 0, false, false), &second = s.make_pair(1, 1, false);
    for (int rank = 0; rank < s.how.nranks; rank++) {
        s.queue_dispatch(second, rank, false, MOE_GPU_SEND);
        s.queue_combine(first, rank, MOE_GPU_SEND, rank == 1 ? MOE_BAD_OUT : MOE_NO_PROBLEM, true);
        s.queue_dispatch(second, rank, false, MOE_GPU_COMPLETE);
        if (rank != 1)
            s.queue_combine(first, rank, MOE_GPU_COMPLETE);
        s.queue_combine(second, rank, MOE_GPU_SEND | MOE_GPU_COMPLETE);
    }
    std::string why = s.m.run() ? s.check(second) : s.m.report();
    for (int rank = 0; rank < s.how.nranks && why.empty(); rank++) {
        if (s.reports[(size_t)rank].problem != (rank == 1 ? MOE_NO_PROBLEM : MOE_BAD_OUT))
            why = check_report(s, rank, tokens);
        s.reports[(size_t)rank] = {};
    }
    const pair &third = s.make_pair(2, 0, false);
    for (int rank = 0; rank < s.how.nranks; rank++)
        s.queue_dispatch(third, rank, false, MOE_GPU_SEND | MOE_GPU_COMPLETE,
                         rank == 1 ? MOE_BAD_TOKENS : MOE_NO_PROBLEM);
    why = why.empty() && !s.m.run() ? s.m.report() : why;
    for (int rank = 0; rank < s.how.nranks && why.empty(); rank++) {
        if (rank != 1)
            why = check_report(s, rank, tokens);
        s.reports[(size_t)rank] = {};
    }
    const pair &good = s.queue(1, 0, false, true);
    why = why.empty() ? s.run() : why;
    return why.empty() ? s.check(good) : why;
}

static void test_refused(uint64_t seeds)
{
    std::string why;
    for (uint64_t seed = 1; seed <= 4 * seeds && why.empty(); seed++)
        why = refused(seed);
    ok(why.empty(), why, "a rank that cannot take part is reported by the others, who go on");
}

/* One rank makes another call, or none. */
static void test_other_calls(uint64_t seeds)
{
    std::string why;
    for (uint64_t seed = 1; seed <= seeds && why.empty(); seed++) {
        scene s(faulty_shape, seed);
        const pair &p = s.queue(0, 0, false, false);
        for (int rank = 0; rank < s.how.nranks; rank++)
            if (rank == 1)
                s.queue_combine(p, rank, MOE_GPU_SEND | MOE_GPU_COMPLETE);
            else
                s.queue_dispatch(p, rank, false, MOE_GPU_SEND | MOE_GPU_COMPLETE);
        if (s.m.run() || s.reports[0].problem != MOE_OTHER_CALL || s.reports[0].rank != 1)
            why = "rank 0 reports " + std::to_string(s.reports[0].problem) + " of rank " +
                  std::to_string(s.reports[0].rank) + "\n" + s.m.report();
    }
    ok(why.empty(), why, "a rank that makes another call is reported");
    why = "";
    for (uint64_t seed = 1; seed <= seeds && why.empty(); seed++) {
        scene s(faulty_shape, seed);
        const pair &p = s.make_pair(0, 0, false);
        for (int rank = 0; rank < 2; rank++)
            s.queue_dispatch(p, rank, false, MOE_GPU_SEND | MOE_GPU_COMPLETE);
        if (s.m.run() || s.m.report().find("waited for a packet from rank 2") == std::string::npos)
            why = "no rank waited for rank 2\n" + s.m.report();
    }
    ok(why.empty(), why, "a rank that makes no call is reported at the deadline");
}

/* The counts of rank 1 arrive after its choices and its header. In layouts rank and flat rows can
 * be placed without some of them, but they are returned. */
static void test_late_counts(uint64_t seeds)
{
    std::string why;
    for (const weir_moe_layout layout : {EXPERT, WEIR_MOE_RANK_MAJOR, WEIR_MOE_FLAT})
        for (uint64_t seed = 1; seed <= 4 * seeds && why.empty(); seed++) {
            shape how = faulty_shape;
            how.layout = layout;
            scene s(how, seed);
            pair &p = s.make_pair(0, 0, false);
            for (int rank = 0; rank < how.nranks; rank++) {
                if (rank == 1)
                    s.queue_late_dispatch(p, rank);
                else
                    s.queue_dispatch(p, rank, false, MOE_GPU_SEND | MOE_GPU_COMPLETE);
                s.queue_combine(p, rank, MOE_GPU_SEND | MOE_GPU_COMPLETE);
            }
            why = s.run();
            why = why.empty() ? s.check(p) : why;
        }
    ok(why.empty(), why, "counts that arrive late are awaited");
}

/* Groups whose choices have no room in a packet. */
static void test_limit(void)
{
    static const struct {
        int nranks, experts, topk, max_tokens, fits;
    } groups[] = {
        {1, 256, 8, 8192, 1},
        {8, 65528, 16, 1 << 15, 1}, /* 2^13 - 1 experts of a rank, 2^19 choices */
        {8, 65536, 16, 1 << 15, 0},
        {1, 4095, 16, 1 << 16, 1}, /* 2^20 choices */
        {1, 4096, 16, 1 << 16, 0},
        {1, 2048, 16, (1 << 16) + 1, 0}, /* 2^21 */
        {1, 65536, 16, 1 << 24, 0},
        {1, 1, 1, 1, 1},
    };
    std::string why;
    for (const auto &g : groups) {
        weir_moe_config config = WEIR_MOE_CONFIG_INIT;
        moe_gpu_shape shape;
        config.experts = g.experts;
        config.topk = g.topk;
        config.max_tokens = g.max_tokens;
        config.hidden = 64;
        config.dispatch_dtype = config.dtype;
        config.handles = 1;
        weiri_moe_gpu_shape_make(&config, g.nranks, 1, 1 << 20, &shape);
        if (weiri_moe_gpu_shape_fits(&shape) != g.fits)
            why += std::to_string(g.experts) + " experts, " + std::to_string(g.max_tokens) +
                   " tokens\n";
    }
    ok(why.empty(), why, "groups with too many choices for packets are found");
}

int main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    test_right(seeds);
    test_dispatches(seeds);
    test_replays(seeds);
    test_nan(seeds);
    test_faults(seeds);
    test_refusals(seeds);
    test_refused(seeds);
    test_other_calls(seeds);
    test_late_counts(seeds);
    test_limit();
    return tap_done();
}
