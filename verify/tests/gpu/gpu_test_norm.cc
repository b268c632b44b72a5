/*
 * Proves the kernels of weir_allreduce_norm in the emulator, against the host's arithmetic
 * (compute/norm.c): the same bits for all types, kinds and outputs, 1 to 8 ranks, rows shared by
 * several blocks, rows that are no multiple of a line, in place, any grid, and launches in
 * immediate succession; the bits of a row alone and among others. The comparison finds a result of
 * which one bit is wrong.
 */
#include "verify/tests/support/gpu_emulator.hh"
#include "verify/tests/support/gpu_tap.hh"

#include "coll/cuda/norm.h"
#include "compute/norm.h"
extern "C" {
#include "compute/reduce.h"
}

#include <cstring>
#include <deque>
#include <string>
#include <vector>

using namespace emulator;

typedef void (*norm_kernel)(weiri_norm_launch);

struct one_launch {
    norm_kernel kernel;
    weiri_norm_launch launch;
};

static void run_launch(weiri_gpu_args args)
{
    const one_launch *one = (const one_launch *)(uintptr_t)args.in;
    one->kernel(one->launch);
}

/* A call, the same on all ranks. */
struct call {
    weiri_norm_protocol protocol;
    weir_norm_kind kind;
    weir_norm_output output;
    weir_dtype dtype;
    uint32_t rows, hidden;
    bool residual, weight, in_place;
    int blocks; /* multiprocessors */
};

static size_t element_of(const call &c)
{
    return weir_dtype_bytes(c.dtype);
}

struct rank_buffers {
    buffer in, residual, weight, bias, out, scales;
    std::vector<char> given, residual_before;
};

struct running {
    call what;
    std::vector<rank_buffers> ranks;
};

class scene {
  public:
    scene(int nranks, uint64_t seed) : m(nranks, seed)
    {
    }
    void add(const call &what);
    std::string run();
    void fill(const call &c, buffer b, size_t count, uint64_t seed);

    machine m;
    std::deque<running> calls;

  private:
    std::deque<one_launch> launches_;
};

/* Numbers of both signs; the same for the same seed, whatever surrounds them. */
void scene::fill(const call &c, buffer b, size_t count, uint64_t seed)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
    std::vector<float> values(count);
    for (float &value : values) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        value = (float)((double)(int64_t)(state >> 40) / 4194304.0 - 2.0);
    }
    weiri_norm_host_round(c.dtype, values.data(), count, b.data);
}

void scene::add(const call &what)
{
    const size_t all = (size_t)what.rows * what.hidden, element = element_of(what);
    const bool is_fp8 = what.output != WEIR_NORM_PLAIN;
    const uint64_t shared = m.random(1000);
    calls.push_back({what, {}});
    for (int rank = 0; rank < m.nranks(); rank++) {
        rank_buffers b;
        b.in = m.alloc(rank, all * element, 0, PLAIN);
        b.residual = m.alloc(rank, all * element, 0, PLAIN);
        b.weight = m.alloc_input(rank, what.hidden * element, 0, PLAIN);
        b.bias = m.alloc_input(rank, what.hidden * element, 0, PLAIN);
        b.out = what.in_place ? b.in : m.alloc(rank, is_fp8 ? all : all * element, 0, PLAIN);
        b.scales = m.alloc(rank, (all / 8 + 1) * sizeof(float), 0, PLAIN);
        fill(what, b.in, all, (uint64_t)rank + 7);
        fill(what, b.residual, all, shared + 100);
        fill(what, b.weight, what.hidden, 3);
        fill(what, b.bias, what.hidden, 4);
        *(float *)b.scales.data = 0.0625f;
        b.given.assign(b.in.data, b.in.data + all * element);
        b.residual_before.assign(b.residual.data, b.residual.data + all * element);
        one_launch one = {(norm_kernel)weiri_gpu_norm_kernel(what.protocol, what.dtype, m.nranks()),
                          {}};
        const buffer none = {NULL, 0, WEIRI_GPU_UNMAPPED};
        weiri_gpu_args wrapped = m.args(rank, none, none);
        one.launch.view = wrapped.view;
        one.launch.in = b.in.data;
        one.launch.weight = what.weight ? b.weight.data : NULL;
        one.launch.bias = what.kind == WEIR_NORM_LAYER && what.weight ? b.bias.data : NULL;
        one.launch.residual = what.residual ? b.residual.data : NULL;
        one.launch.out = b.out.data;
        one.launch.scales = is_fp8 ? (float *)b.scales.data : NULL;
        one.launch.rows = what.rows;
        one.launch.hidden = what.hidden;
        one.launch.epsilon = 1e-5f;
        one.launch.kind = what.kind;
        one.launch.output = what.output;
        const weiri_gpu_shape shape = weiri_gpu_norm_shape(&one.launch, what.blocks, what.blocks);
        launches_.push_back(one);
        wrapped.in = (const char *)&launches_.back();
        m.launch(rank, "allreduce_norm", (const void *)run_launch, shape, wrapped);
        calls.back().ranks.push_back(b);
    }
}

/* What a rank's buffers must hold: computed by the host's functions. */
static std::string check(const running &r, int rank)
{
    const call &c = r.what;
    const size_t all = (size_t)c.rows * c.hidden, element = element_of(c);
    const rank_buffers &b = r.ranks[(size_t)rank];
    std::vector<const void *> sources;
    for (const rank_buffers &each : r.ranks)
        sources.push_back(each.given.data());
    std::vector<char> sums(all * element), out(all * element), residual = b.residual_before;
    std::vector<float> scales(all / 8 + 1), x(c.hidden), old(c.hidden), weight(c.hidden),
        bias(c.hidden);
    weiri_reduce(sums.data(), sources.data(), (int)sources.size(), all, c.dtype, WEIR_SUM, 1, 0);
    weir_norm_args args = WEIR_NORM_ARGS_INIT;
    args.kind = c.kind, args.output = c.output, args.dtype = c.dtype, args.rows = c.rows;
    args.hidden = c.hidden, args.epsilon = 1e-5f, args.out = out.data();
    scales[0] = 0.0625f;
    args.scales = scales.data();
    weiri_norm_host_load(c.dtype, b.weight.data, c.hidden, weight.data());
    weiri_norm_host_load(c.dtype, b.bias.data, c.hidden, bias.data());
    for (size_t row = 0; row < c.rows; row++) {
        const size_t at = row * c.hidden * element;
        weiri_norm_host_load(c.dtype, sums.data() + at, c.hidden, x.data());
        if (c.residual) {
            weiri_norm_host_load(c.dtype, residual.data() + at, c.hidden, old.data());
            for (size_t i = 0; i < c.hidden; i++)
                x[i] += old[i];
            weiri_norm_host_round(c.dtype, x.data(), c.hidden, residual.data() + at);
            weiri_norm_host_load(c.dtype, residual.data() + at, c.hidden, x.data());
        }
        weiri_norm_host(&args, x.data(), c.weight ? weight.data() : NULL,
                        c.weight && c.kind == WEIR_NORM_LAYER ? bias.data() : NULL);
        weiri_norm_host_store(&args, row, x.data());
    }
    const size_t groups = c.output == WEIR_NORM_FP8_TOKEN   ? c.rows
                          : c.output == WEIR_NORM_FP8_BLOCK ? all / 128
                                                            : 0;
    if (c.residual && memcmp(residual.data(), b.residual.data, all * element))
        return "the residual is wrong";
    if (memcmp(out.data(), b.out.data, c.output == WEIR_NORM_PLAIN ? all * element : all))
        return "the output is wrong";
    if (memcmp(scales.data(), b.scales.data, groups * sizeof(float)))
        return "the scales are wrong";
    return "";
}

static std::string describe(const call &c, int nranks, int rank)
{
    char text[200];
    snprintf(text, sizeof text,
             "%s, %s, output %d, %s, %u rows of %u, %d ranks, %d blocks, rank %d%s: ",
             c.protocol == WEIRI_NORM_LINES ? "lines" : "packet",
             c.kind == WEIR_NORM_RMS ? "rms" : "layer", (int)c.output, weir_dtype_name(c.dtype),
             c.rows, c.hidden, nranks, c.blocks, rank, c.in_place ? ", in place" : "");
    return text;
}

std::string scene::run()
{
    if (!m.run())
        return describe(calls[0].what, m.nranks(), 0) + "and what follows:\n" + m.report();
    for (const running &r : calls)
        for (int rank = 0; rank < m.nranks(); rank++) {
            const std::string why = check(r, rank);
            if (!why.empty())
                return describe(r.what, m.nranks(), rank) + why;
        }
    return "";
}

static call any_call(machine &m)
{
    static const weir_dtype dtypes[] = {WEIR_BFLOAT16, WEIR_HALF, WEIR_FLOAT};
    static const int blocks[] = {1, 2, 3, 5, 8};
    call c;
    c.protocol = (weiri_norm_protocol)m.random(WEIRI_NORM_PROTOCOLS);
    c.kind = (weir_norm_kind)m.random(2);
    c.output = (weir_norm_output)m.random(WEIR_NORM_OUTPUTS);
    c.dtype = dtypes[m.random(3)];
    c.hidden = c.output == WEIR_NORM_FP8_BLOCK ? 128 * (1 + (uint32_t)m.random(12))
                                               : 8 * (1 + (uint32_t)m.random(200));
    c.rows = 1 + (uint32_t)m.random(c.hidden > 600 ? 2 : 9);
    c.residual = m.random(3);
    c.weight = m.random(4);
    c.in_place = c.output == WEIR_NORM_PLAIN && m.random(2);
    c.blocks = blocks[m.random(5)];
    return c;
}

static void all_variants()
{
    std::string why;
    for (int nranks = 1; nranks <= 8 && why.empty(); nranks += nranks <= 2   ? 1
                                                               : nranks == 3 ? 1
                                                                             : 4)
        for (uint64_t seed = 1; seed <= 3 && why.empty(); seed++) {
            scene s(nranks, seed * 100 + (uint64_t)nranks);
            for (int i = 0; i < 5; i++)
                s.add(any_call(s.m));
            why = s.run();
        }
    ok(why.empty(), why, "allreduce_norm: all types, kinds and outputs");
}

/* Rows shared by blocks, with both exchanges between these. */
static void shared_rows()
{
    std::string why;
    for (int blocks = 2; blocks <= 8 && why.empty(); blocks *= 2)
        for (int protocol = 0; protocol < WEIRI_NORM_PROTOCOLS && why.empty(); protocol++) {
            scene s(2, (uint64_t)blocks);
            s.add({(weiri_norm_protocol)protocol, WEIR_NORM_LAYER, WEIR_NORM_FP8_TOKEN,
                   WEIR_BFLOAT16, 1, 128 * 33 - 8, true, true, false, blocks});
            s.add({(weiri_norm_protocol)protocol, WEIR_NORM_RMS, WEIR_NORM_PLAIN, WEIR_FLOAT, 1,
                   128 * 16, true, true, true, blocks});
            why = s.run();
        }
    ok(why.empty(), why, "allreduce_norm: rows that several blocks share");
}

/* The first row of a call alone and among others, through both protocols and on any grid. */
static void same_bits_alone()
{
    std::string why;
    std::vector<char> first;
    for (int protocol = 0; protocol < WEIRI_NORM_PROTOCOLS && why.empty(); protocol++)
        for (uint32_t rows = 1; rows <= 4 && why.empty(); rows += 3)
            for (int blocks = 1; blocks <= 6 && why.empty(); blocks += 5) {
                scene s(3, rows);
                call c = {(weiri_norm_protocol)protocol,
                          WEIR_NORM_RMS,
                          WEIR_NORM_PLAIN,
                          WEIR_BFLOAT16,
                          rows,
                          1160,
                          false,
                          true,
                          false,
                          blocks};
                s.add(c);
                why = s.run();
                const char *out = s.calls[0].ranks[1].out.data;
                if (first.empty())
                    first.assign(out, out + 2320);
                if (why.empty() && memcmp(out, first.data(), first.size()))
                    why = describe(c, 3, 1) + "other bits";
            }
    ok(why.empty(), why, "allreduce_norm: the same bits alone and among other rows");
}

/* The checks above are not blind: one bit of any result is found. */
static void faults_are_found()
{
    std::string why;
    scene s(2, 9);
    s.add({WEIRI_NORM_PACKET, WEIR_NORM_RMS, WEIR_NORM_FP8_BLOCK, WEIR_BFLOAT16, 2, 256, true, true,
           false, 2});
    why = s.run();
    rank_buffers &b = s.calls[0].ranks[1];
    const buffer results[] = {b.out, b.residual, b.scales};
    for (const buffer &each : results) {
        each.data[3] ^= 1;
        if (check(s.calls[0], 1).empty())
            why = "a wrong bit is not found";
        each.data[3] ^= 1;
    }
    ok(why.empty(), why, "allreduce_norm: the comparison finds single bits");
}

int main()
{
    all_variants();
    shared_rows();
    same_bits_alone();
    faults_are_found();
    return tap_done();
}
