/*
 * Proves the reducing kernels against the reference in the emulator: all types and operations, 2 to
 * 8 ranks, odd counts, buffers of every alignment, in place and out of place, mapped by peers or
 * not, grids that change from one launch to the next, and launches of different kernels in
 * immediate succession.
 */
#include "verify/tests/support/gpu_emulator.hh"
#include "verify/tests/support/gpu_tap.hh"
#include "verify/tests/support/long_part.h"

extern "C" {
#include "verify/tests/support/reduce_model.h"
}

#include <string>
#include <vector>

using namespace emulator;

struct algo {
    const char *name;
    weir_collective collective;
    weiri_gpu_kernel kernel;
    weiri_gpu_shape_of shape;
    weiri_gpu_serves serves;
    int least_threads; /* 32: blocks of full warps only */
};

#define ALGO(name, collective, least_threads)                                                      \
    {                                                                                              \
        #name, collective, weiri_gpu_##name##_kernel, weiri_gpu_##name##_shape,                    \
            weiri_gpu_##name##_serves, least_threads                                               \
    }
static const algo algos[] = {
    ALGO(allreduce_packet, WEIR_COLL_ALLREDUCE, 8),
    ALGO(allreduce_ll128_one, WEIR_COLL_ALLREDUCE, 32),
    ALGO(ll128, WEIR_COLL_ALLREDUCE, 32),
    ALGO(reduce_ring, WEIR_COLL_ALLREDUCE, 32),
    ALGO(push, WEIR_COLL_ALLREDUCE, 8),
    ALGO(reduce_scatter_packet, WEIR_COLL_REDUCE_SCATTER, 8),
    ALGO(ll128, WEIR_COLL_REDUCE_SCATTER, 32),
    ALGO(reduce_ring, WEIR_COLL_REDUCE_SCATTER, 32),
    ALGO(push, WEIR_COLL_REDUCE_SCATTER, 8),
    ALGO(reduce_scatter_direct, WEIR_COLL_REDUCE_SCATTER, 8),
    ALGO(reduce_packet, WEIR_COLL_REDUCE, 8),
    ALGO(ll128, WEIR_COLL_REDUCE, 32),
    ALGO(reduce_ll128_chain, WEIR_COLL_REDUCE, 32),
    ALGO(reduce_chain, WEIR_COLL_REDUCE, 8),
    ALGO(push, WEIR_COLL_REDUCE, 8),
};
enum { NALGOS = sizeof algos / sizeof algos[0] };

/* A call, the same on all ranks. */
struct call {
    const algo *of;
    weir_dtype dtype;
    weir_op op;
    size_t count;
    int root;
    weiri_gpu_shape shape;
};

/* How a call's buffers are placed: fixed for all ranks, or drawn for each. */
struct placing {
    enum { ALIGNED, ODD } where;
    enum { ALL_MAPPED, ALL_PLAIN, SOME_PLAIN } kinds;
    bool in_place;
};

struct rank_buffers {
    buffer in, out;
    std::vector<uint8_t> given; /* the input before the call */
};

struct running {
    call what;
    placing how;
    std::vector<rank_buffers> ranks;
};

/* ------------------------------------------------------------------ the data */

/* Any bits, or numbers whose sums and products stay in range. */
static void fill(machine &m, weir_dtype dtype, char *data, size_t count)
{
    format f;
    for (size_t i = 0; i < count; i++) {
        double mild = ((double)m.random(64) - 32) / 8;
        float mild_float = (float)mild;
        uint64_t bits = m.random(~0ull);
        if (m.random(4) && dtype == WEIR_DOUBLE)
            memcpy(&bits, &mild, sizeof mild);
        else if (m.random(4) && dtype == WEIR_FLOAT)
            memcpy(&bits, &mild_float, sizeof mild_float);
        else if (m.random(4) && format_of(dtype, &f))
            bits = model_encode(f, mild);
        put_bits(dtype, (uint8_t *)data, i, bits);
    }
}

static size_t in_count(const call &what, int nranks)
{
    return what.of->collective == WEIR_COLL_REDUCE_SCATTER ? what.count * (size_t)nranks
                                                           : what.count;
}

static rank_buffers place(machine &m, const call &what, const placing &how, int rank)
{
    size_t element = weir_dtype_bytes(what.dtype);
    size_t in_bytes = in_count(what, m.nranks()) * element, out_bytes = what.count * element;
    bool plain = how.kinds == placing::ALL_PLAIN ||
                 (how.kinds == placing::SOME_PLAIN && m.random(3) == 0);
    const kind where = plain ? PLAIN : MAPPED;
    size_t shift = how.where == placing::ALIGNED ? 0 : m.random(16);
    rank_buffers made;
    made.in = how.in_place ? m.alloc(rank, in_bytes, shift, where)
                           : m.alloc_input(rank, in_bytes, shift, where);
    if (how.in_place) {
        bool block = what.of->collective == WEIR_COLL_REDUCE_SCATTER;
        size_t at = block ? (size_t)rank * out_bytes : 0;
        made.out = {made.in.data + at, out_bytes, plain ? made.in.desc : made.in.desc + at};
    } else {
        shift = how.where == placing::ALIGNED ? 0 : m.random(16);
        made.out = m.alloc(rank, out_bytes, shift, where);
    }
    fill(m, what.dtype, made.in.data, in_count(what, m.nranks()));
    made.given.assign(made.in.data, made.in.data + in_bytes);
    return made;
}

static running launch(machine &m, const call &what, const placing &how)
{
    running made = {what, how, {}};
    for (int rank = 0; rank < m.nranks(); rank++) {
        made.ranks.push_back(place(m, what, how, rank));
        weiri_gpu_args args = m.args(rank, made.ranks.back().in, made.ranks.back().out);
        args.count = what.count;
        args.bytes = what.count * weir_dtype_bytes(what.dtype);
        args.dtype = what.dtype;
        args.op = what.op;
        args.root = what.root;
        args.collective = what.of->collective;
        if (what.of->collective == WEIR_COLL_REDUCE && rank != what.root)
            args.out_desc = WEIRI_GPU_UNMAPPED;
        m.launch(rank, what.of->name, what.of->kernel(what.dtype, m.nranks()), what.shape, args);
    }
    return made;
}

/* ------------------------------------------------------------------ checking */

static bool is_ring(const algo *of)
{
    return of->kernel == weiri_gpu_reduce_ring_kernel;
}

/* Whether partial results travel from rank to rank. */
static bool is_chain(const algo *of)
{
    return of->kernel == weiri_gpu_reduce_chain_kernel ||
           of->kernel == weiri_gpu_reduce_ll128_chain_kernel || is_ring(of);
}

/* The rank whose input comes first in an element of a rank's output: a chain begins with the rank
 * after its root, a ring of reduce_scatter with the rank after the one that keeps the element, and
 * of allreduce, whose parts are whole lines, with the rank that has the number of the part. */
static size_t first_rank(const call &what, size_t nranks, int rank, size_t element)
{
    const size_t element_bytes = weir_dtype_bytes(what.dtype);
    const size_t lines = (what.count * element_bytes + 127) / 128;
    if (!is_chain(what.of))
        return 0;
    if (what.of->collective == WEIR_COLL_REDUCE)
        return ((size_t)what.root + 1) % nranks;
    if (what.of->collective == WEIR_COLL_REDUCE_SCATTER)
        return ((size_t)rank + 1) % nranks;
    return element * element_bytes / ((lines + nranks - 1) / nranks * 128);
}

static std::vector<uint8_t> expected(const running &done, int rank)
{
    const call &what = done.what;
    bool scatter = what.of->collective == WEIR_COLL_REDUCE_SCATTER;
    size_t first = scatter ? (size_t)rank * what.count : 0, nranks = done.ranks.size();
    std::vector<uint8_t> result(what.count * weir_dtype_bytes(what.dtype));
    for (size_t i = 0; i < what.count; i++) {
        uint64_t values[MODEL_MAX_NSRC];
        const size_t leads = first_rank(what, nranks, rank, i);
        for (size_t r = 0; r < nranks; r++)
            values[r] = get_bits(what.dtype,
                                 done.ranks[(leads + r) % nranks].given.data(), first + i);
        put_bits(what.dtype, result.data(), i,
                 model_element(what.dtype, what.op, values, (int)nranks, nranks));
    }
    return result;
}

static std::string describe(const running &done, int rank)
{
    char text[256];
    snprintf(text, sizeof text,
             "%s of %zu %s, %s, %zu ranks, %d x %d threads, rank %d of root %d%s%s: ",
             done.what.of->name, done.what.count, weir_dtype_name(done.what.dtype),
             weir_op_name(done.what.op), done.ranks.size(), done.what.shape.blocks,
             done.what.shape.threads, rank, done.what.root, done.how.in_place ? ", in place" : "",
             done.how.kinds == placing::ALL_MAPPED ? "" : ", plain");
    return text;
}

static std::string check(const running &done)
{
    for (int rank = 0; rank < (int)done.ranks.size(); rank++) {
        const rank_buffers &of = done.ranks[(size_t)rank];
        bool written = done.what.of->collective != WEIR_COLL_REDUCE || rank == done.what.root;
        std::vector<uint8_t> right = expected(done, rank);
        if (!written && !done.how.in_place)
            right.assign(right.size(), 0xa7);
        if (written || !done.how.in_place) {
            if (!same_values(done.what.dtype, (const uint8_t *)of.out.data, right.data(),
                             written ? done.what.count : 0) ||
                (!written && memcmp(of.out.data, right.data(), right.size())))
                return describe(done, rank) + "wrong data";
        }
        if ((!done.how.in_place || !written) &&
            memcmp(of.in.data, of.given.data(), of.given.size()))
            return describe(done, rank) + "the input has changed";
    }
    return "";
}

/* Chains and rings decline types that round, if there are more than two ranks. */
static bool may_decline(const machine &m, const call &what)
{
    const bool rounded = what.dtype == WEIR_HALF || what.dtype == WEIR_BFLOAT16 ||
                         what.dtype == WEIR_FP8_E4M3 || what.dtype == WEIR_FP8_E5M2;
    return is_chain(what.of) && m.nranks() > 2 && rounded;
}

static bool is_served(const machine &m, const call &what)
{
    weiri_gpu_args args = {};
    args.view.nranks = m.nranks();
    args.nvlink = 1;
    args.bytes = what.count * weir_dtype_bytes(what.dtype);
    args.dtype = what.dtype;
    args.collective = what.of->collective;
    return what.of->serves(&args);
}

/* Queues all calls without synchronization between them, except those that an algorithm declines,
 * and runs them. Returns what went wrong, or "". */
static std::string run_all(machine &m, const std::vector<call> &calls,
                           const std::vector<placing> &hows)
{
    std::vector<running> all;
    std::string why;
    for (size_t i = 0; i < calls.size(); i++) {
        if (is_served(m, calls[i]) == may_decline(m, calls[i]))
            return std::string(calls[i].of->name) + " serves what it should decline, or declines";
        if (is_served(m, calls[i]))
            all.push_back(launch(m, calls[i], hows[i % hows.size()]));
    }
    if (!m.run())
        return describe(all[0], 0) + "and what follows:\n" + m.report();
    for (size_t i = 0; i < all.size() && why.empty(); i++)
        why = check(all[i]);
    return why;
}

/* --------------------------------------------------------------------- tests */

static weiri_gpu_shape any_shape(machine &m, const algo *of)
{
    static const int blocks[] = {1, 2, 3, 6}; /* with 6, several lanes of each kind */
    const int drawn = blocks[m.random(4)];
    if (!m.random(6))
        return {drawn, 96}; /* a warp that signals beside two that move data */
    return {drawn, of->least_threads << m.random(2)};
}

static placing any_placing(machine &m)
{
    placing how;
    how.where = m.random(2) ? placing::ALIGNED : placing::ODD;
    how.kinds = (decltype(how.kinds))m.random(3);
    how.in_place = m.random(2);
    return how;
}

/* Short counts, and some that exceed all stages together. */
static size_t any_count(machine &m, weir_dtype dtype)
{
    size_t bytes = m.random(6) ? 1 + m.random(300) : 1 + m.random(9000);
    size_t count = bytes / weir_dtype_bytes(dtype);
    return count ? count : 1;
}

static void all_types_and_ops(const algo *of)
{
    std::string why;
    for (int dtype = 0; dtype < WEIR_DTYPE_COUNT && why.empty(); dtype++) {
        for (int nranks = 2 + dtype % 3; nranks <= 8 && why.empty();
             nranks += is_long_run() ? 3 : 6) {
            machine m(nranks, (uint64_t)(dtype * 8 + nranks));
            std::vector<call> calls;
            std::vector<placing> hows;
            for (int op = 0; op < WEIR_OP_COUNT; op++) {
                size_t count = any_count(m, (weir_dtype)dtype);
                calls.push_back({of, (weir_dtype)dtype, (weir_op)op, count,
                                 (int)m.random((uint64_t)nranks), any_shape(m, of)});
                hows.push_back(any_placing(m));
            }
            why = run_all(m, calls, hows);
        }
    }
    ok(why.empty(), why, "%s: all types and operations", of->name);
}

/* Counts around the limits of words, vectors, shares of ranks and pieces of stages. */
static void borders(const algo *of)
{
    static const size_t counts[] = {1,  2,  4,  7,  8,   9,   15,  16,  17,  31,
                                    33, 63, 64, 65, 127, 128, 129, 1025, 4095, 4096, 4097};
    std::string why;
    for (int nranks = 2; nranks <= WEIRI_GPU_RANKS_MAX && why.empty();
         nranks += is_long_run() ? 1 : 3) {
        for (int kinds = nranks % 3; kinds < 3 && why.empty(); kinds += 2) {
            machine m(nranks, (uint64_t)(nranks * 3 + kinds));
            std::vector<call> calls;
            placing how = {placing::ALIGNED, (decltype(how.kinds))kinds, kinds == 1};
            for (size_t count : counts) {
                call what = {of, nranks % 2 ? WEIR_UINT8 : WEIR_HALF, WEIR_SUM, count, nranks - 1,
                             any_shape(m, of)};
                if (may_decline(m, what))
                    what.dtype = WEIR_FLOAT;
                calls.push_back(what);
            }
            why = run_all(m, calls, {how});
        }
    }
    ok(why.empty(), why, "%s: counts around borders, 2 to 8 ranks", of->name);
}

/* The grids that the host would choose. */
static void own_shapes(const algo *of)
{
    std::string why;
    for (size_t bytes = 4; bytes <= 9000 && why.empty(); bytes = bytes * 5 + 4) {
        machine m(3, bytes);
        call what = {of, WEIR_FLOAT, WEIR_SUM, bytes / 4, 0, {0, 0}};
        weiri_gpu_args args = m.args(0, m.alloc(0, 8, 0, PLAIN), m.alloc(0, 8, 0, PLAIN));
        args.bytes = bytes;
        if (!of->serves(&args))
            why = "a short call is not served";
        what.shape = of->shape(&args, 4);
        if (why.empty())
            why = run_all(m, {what, what, what}, {{placing::ALIGNED, placing::ALL_MAPPED, false}});
    }
    ok(why.empty(), why, "%s: the grids of its shape function", of->name);
}

/* Budgets of 1 block and more: the grid that the library launches obeys them, and the data are
 * right. A preferred grid (of the tuning table or of the call) is bounded as well. */
static void budgets(const algo *of)
{
    static const weiri_budget all[] = {{0, 1, WEIR_BLOCKS_DEFAULT},
                                       {0, 2, WEIR_BLOCKS_DEFAULT},
                                       {3, 3, WEIR_BLOCKS_EFFICIENCY},
                                       {5, 3, WEIR_BLOCKS_ZERO}};
    const weiri_gpu_algo row = {of->kernel, of->shape, of->serves};
    std::string why;
    for (const weiri_budget &budget : all)
        for (size_t bytes = 512; bytes <= 8192 && why.empty(); bytes *= 4) {
            machine m(2, bytes + (size_t)budget.most);
            call what = {of, WEIR_FLOAT, WEIR_SUM, bytes / 4, 0, {0, 0}};
            weiri_gpu_args args = m.args(0, m.alloc(0, 8, 0, PLAIN), m.alloc(0, 8, 0, PLAIN));
            args.bytes = bytes;
            const weiri_gpu_shape preferred = bytes == 2048 ? weiri_gpu_shape{6, 64}
                                                            : weiri_gpu_shape{0, 0};
            what.shape = weiri_gpu_shape_within(&row, &args, 8, preferred, budget);
            why = run_all(m, {what, what}, {{placing::ALIGNED, placing::ALL_MAPPED, false}});
            if (why.empty() && (m.most_blocks() > budget.most ||
                                m.most_blocks() < (budget.least < budget.most ? budget.least
                                                                              : budget.most)))
                why = std::to_string(m.most_blocks()) + " blocks were resident, the budget is " +
                      std::to_string(budget.most);
        }
    ok(why.empty(), why, "%s: no more resident blocks than its budget", of->name);
}

static void back_to_back()
{
    std::string why;
    for (uint64_t seed = 1; seed <= (is_long_run() ? 25 : 10) && why.empty(); seed++) {
        machine m(2 + (int)(seed % 4), seed);
        std::vector<call> calls;
        std::vector<placing> hows;
        for (int i = 0; i < 12; i++) {
            const algo *of = &algos[m.random(NALGOS)];
            weir_dtype dtype = (weir_dtype)m.random(WEIR_DTYPE_COUNT);
            calls.push_back({of, dtype, (weir_op)m.random(WEIR_OP_COUNT), any_count(m, dtype),
                             (int)m.random((uint64_t)m.nranks()), any_shape(m, of)});
            hows.push_back(any_placing(m));
        }
        why = run_all(m, calls, hows);
    }
    ok(why.empty(), why, "launches of all kernels without a pause");
}

/* Many rounds through the stages, by warps that run ahead of one another. */
static void many_rounds()
{
    std::string why;
    for (const algo &of : algos) {
        if (of.kernel != weiri_gpu_push_kernel && !is_chain(&of))
            continue;
        for (uint64_t seed = 1; seed <= (is_long_run() ? 12 : 6) && why.empty(); seed++) {
            machine m(2 + (int)(seed % 3), seed);
            call what = {&of, WEIR_INT32, WEIR_SUM, 2500, 0, {3, 64 + 32 * (int)(seed % 4)}};
            why = run_all(m, {what, what}, {{placing::ALIGNED, placing::ALL_PLAIN, false}});
        }
    }
    ok(why.empty(), why, "push, chains and rings: many rounds, and results that land in stages");
}

static const algo *algo_of(weiri_gpu_kernel kernel, weir_collective collective)
{
    for (const algo &of : algos)
        if (of.kernel == kernel && of.collective == collective)
            return &of;
    return nullptr;
}

/* In a chain or a ring most ranks exchange no data with most others. Slots of packets are used
 * again two launches later, so each rank must have heard of all others meanwhile. */
static void chains_between_packets()
{
    const algo *const packet = algo_of(weiri_gpu_allreduce_packet_kernel, WEIR_COLL_ALLREDUCE);
    std::string why;
    for (const algo &of : algos) {
        if (!is_chain(&of))
            continue;
        for (uint64_t seed = 1; seed <= (is_long_run() ? 80 : 30) && why.empty(); seed++) {
            machine m(4 + (int)(seed % 2), seed);
            std::vector<call> calls;
            for (int launch = 0; launch < 7; launch++)
                calls.push_back({launch % 2 ? &of : packet, WEIR_INT32, WEIR_SUM, 1 + m.random(9),
                                 0, {1, 32}});
            why = run_all(m, calls, {{placing::ALIGNED, placing::ALL_PLAIN, false}});
        }
    }
    ok(why.empty(), why, "reductions by chains and rings between reductions by packets");
}

/* Kernels count pieces in words of limited width; longer calls are left to others. */
static void longest_calls()
{
    std::string why;
    for (const algo &of : algos)
        for (int nranks = 3; nranks <= 8 && is_ring(&of); nranks++) {
            weiri_gpu_args args = {};
            args.view.nranks = nranks;
            args.dtype = WEIR_FLOAT;
            args.collective = of.collective;
            args.bytes = (uint64_t)1 << 27;
            const bool serves = of.serves(&args);
            args.bytes = (uint64_t)1 << 40;
            if (!serves || of.serves(&args))
                why += std::string(of.name) + " of " + std::to_string(nranks) + " ranks ";
        }
    ok(why.empty(), why, "rings serve what a lane can count");
}

/* LL128 lines arrive as a whole only over NVLink; without it other algorithms serve the calls. */
static void without_nvlink()
{
    std::string why;
    for (const algo &of : algos) {
        weiri_gpu_args args = {};
        args.view.nranks = 2;
        args.count = 1;
        args.bytes = 4;
        args.dtype = WEIR_FLOAT;
        args.collective = of.collective;
        if ((bool)of.serves(&args) == (strstr(of.name, "ll128") != nullptr))
            why += std::string(of.name) + " ";
    }
    ok(why.empty(), why, "without NVLink lines serve nothing");
}

int main()
{
    (void)long_part("types with 5 to 7 ranks, counts around borders with 3, 4, 6 and 7, more "
                    "random launches");
    for (const algo &of : algos) {
        all_types_and_ops(&of);
        borders(&of);
        own_shapes(&of);
        budgets(&of);
    }
    back_to_back();
    many_rounds();
    chains_between_packets();
    longest_calls();
    without_nvlink();
    return tap_done();
}
