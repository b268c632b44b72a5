/*
 * Proves the kernel of weir_allreduce_quantized in the emulator, against the host's arithmetic
 * (compute/quantize.c): the same bits for all types and formats, from elements to packs, sums of
 * packs to elements and to packs, shares of several ranks, any length, alignment and grid, numbers
 * that are not finite. Nothing beyond the output is written, and the comparison finds single bits.
 */
#include "verify/tests/support/gpu_emulator.hh"
#include "verify/tests/support/gpu_tap.hh"

#include "coll/cuda/quantize.h"

#include <cstring>
#include <deque>
#include <string>
#include <vector>

using namespace emulator;

typedef void (*quantize_kernel)(weiri_quantize_step);

struct one_launch {
    quantize_kernel kernel;
    weiri_quantize_step step;
};

static void run_launch(weiri_gpu_args args)
{
    const one_launch *one = (const one_launch *)(uintptr_t)args.in;
    one->kernel(one->step);
}

/* A step; out: what the kernel wrote, with a margin. */
struct running {
    weiri_quantize_step step;
    std::vector<char> in;
    size_t out_bytes;
    buffer out;
    size_t shift;
    one_launch launch;
};

enum { MARGIN = 32 };

class scene {
  public:
    scene(uint64_t seed) : m(1, seed)
    {
        m.expect_no_epochs();
    }
    void add(bool from_packs, bool to_packs);
    std::string run();

    machine m;
    std::deque<running> steps;

  private:
    std::vector<char> elements(weir_dtype dtype, size_t count);
    std::vector<char> packs(const weiri_quantize_step &step, size_t each);
};

/* Numbers of all magnitudes, among them some that are not finite. */
std::vector<char> scene::elements(weir_dtype dtype, size_t count)
{
    std::vector<float> x(count);
    std::vector<char> stored(count * weir_dtype_bytes(dtype));
    const float infinity = weiri_float_from_bits(0x7f800000);
    for (float &one : x) {
        const uint64_t kind = m.random(60);
        one = ((float)m.random(2000001) / 1000000.0f - 1.0f) * (m.random(4) ? 1.0f : 3000.0f);
        one = kind == 0   ? weiri_float_from_bits(0x7fc00000)
              : kind == 1 ? infinity
              : kind == 2 ? -infinity
              : kind == 3 ? 0.0f
              : kind == 4 ? -one * 0x1p-14f
                          : one;
    }
    weiri_norm_host_round(dtype, x.data(), count, stored.data());
    return stored;
}

/* Packs of so many elements each, made by the host. */
std::vector<char> scene::packs(const weiri_quantize_step &step, size_t each)
{
    const size_t count = step.parts > 1 ? (size_t)step.parts : (step.count + each - 1) / each;
    std::vector<char> made(count * step.pack);
    for (size_t i = 0; i < count; i++) {
        const std::vector<char> x = elements(WEIR_FLOAT, each);
        weiri_quantize_step one = step;
        one.in = x.data();
        one.out = made.data() + i * step.pack;
        one.count = each;
        one.dtype = WEIR_FLOAT;
        one.from_packs = 0;
        one.to_packs = 1;
        weiri_quantize_host(&one);
    }
    return made;
}

void scene::add(bool from_packs, bool to_packs)
{
    static const weir_dtype dtypes[] = {WEIR_BFLOAT16, WEIR_HALF, WEIR_FLOAT};
    const weir_dtype dtype = dtypes[m.random(3)];
    const size_t element = weir_dtype_bytes(dtype);
    steps.push_back({});
    running &r = steps.back();
    weiri_quantize_step &s = r.step;
    s.dtype = dtype;
    s.format = (int32_t)m.random(WEIR_QUANTIZATIONS);
    s.count = 1 + m.random(m.random(3) ? 900 : 6000);
    s.from_packs = from_packs;
    s.to_packs = to_packs;
    s.parts = from_packs ? 1 + (int32_t)m.random(4) : 1;
    s.divisor = m.random(2) ? 1 : 3;
    const size_t groups = (s.count + WEIR_QUANTIZED_GROUP - 1) / WEIR_QUANTIZED_GROUP;
    const size_t shares = s.parts > 1 || (from_packs && to_packs) ? 1 : 1 + m.random(3);
    s.part = (groups + shares - 1) / shares * WEIR_QUANTIZED_GROUP;
    s.pack = weiri_pack_bytes(s.part);
    const size_t packs_of_out = (s.count + s.part - 1) / s.part;
    r.in = from_packs ? packs(s, s.part) : elements(dtype, s.count);
    r.out_bytes = to_packs ? packs_of_out * s.pack : s.count * element;
    r.shift = to_packs ? 0 : m.random(3) * element;
    const size_t in_shift = from_packs ? 0 : m.random(3) * element;
    buffer in = m.alloc_input(0, r.in.size() + in_shift, 0, PLAIN);
    r.out = m.alloc(0, r.out_bytes + r.shift + MARGIN, 0, PLAIN);
    memcpy(in.data + in_shift, r.in.data(), r.in.size());
    memset(r.out.data, 0, r.out_bytes + r.shift + MARGIN);
    r.launch.kernel = (quantize_kernel)weiri_gpu_quantize_kernel(dtype);
    r.launch.step = s;
    r.launch.step.in = in.data + in_shift;
    r.launch.step.out = r.out.data + r.shift;
    const buffer none = {NULL, 0, WEIRI_GPU_UNMAPPED};
    weiri_gpu_args wrapped = m.args(0, none, none);
    wrapped.in = (const char *)&r.launch;
    weiri_gpu_shape shape = weiri_gpu_quantize_shape(s.count, 1 + (int)m.random(3));
    shape.blocks = 1 + (int)m.random((uint64_t)shape.blocks);
    m.launch(0, "quantize", (const void *)run_launch, shape, wrapped);
}

static std::string describe(const weiri_quantize_step &s)
{
    char text[200];
    snprintf(text, sizeof text, "%s, %s, %llu elements, %d parts of %llu, divisor %d, %s to %s: ",
             weir_dtype_name((weir_dtype)s.dtype), s.format == WEIR_QUANTIZED_FP8 ? "fp8" : "int8",
             (unsigned long long)s.count, s.parts, (unsigned long long)s.part, s.divisor,
             s.from_packs ? "packs" : "elements", s.to_packs ? "packs" : "elements");
    return text;
}

static std::string check(const running &r)
{
    std::vector<char> expected(r.shift + r.out_bytes + MARGIN);
    weiri_quantize_step step = r.step;
    step.in = r.in.data();
    step.out = expected.data() + r.shift;
    weiri_quantize_host(&step);
    return memcmp(expected.data(), r.out.data, expected.size())
               ? describe(r.step) + "other bits than on the host"
               : "";
}

std::string scene::run()
{
    if (!m.run())
        return describe(steps[0].step) + "and what follows:\n" + m.report();
    for (const running &r : steps)
        if (!check(r).empty())
            return check(r);
    return "";
}

static void all_steps()
{
    for (int kind = 1; kind < 4; kind++) {
        std::string why;
        for (uint64_t seed = 1; seed <= 12 && why.empty(); seed++) {
            scene s(seed * 10 + (uint64_t)kind);
            for (int i = 0; i < 4; i++)
                s.add(kind & 2, kind & 1);
            why = s.run();
        }
        ok(why.empty(), why,
           kind == 1   ? "elements become packs"
           : kind == 2 ? "packs become elements, added and not"
                       : "sums of packs become packs");
    }
}

static void faults_are_found()
{
    std::string why;
    scene s(5);
    s.add(false, true);
    why = s.run();
    for (size_t at : {(size_t)3, s.steps[0].out_bytes}) {
        s.steps[0].out.data[at] ^= 1;
        if (check(s.steps[0]).empty())
            why = "a wrong bit is not found";
        s.steps[0].out.data[at] ^= 1;
    }
    ok(why.empty(), why, "the comparison finds single bits, and bytes beyond the output");
}

int main()
{
    all_steps();
    faults_are_found();
    return tap_done();
}
