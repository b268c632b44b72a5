/*
 * Proves the kernel that imitates computation in the emulator: every thread computes for as long as
 * it is told, not longer than the deadline, and one that ends early is detected.
 */
#include "bench/gpu/busy.cuh"

#include "verify/tests/support/gpu_emulator.hh"
#include "verify/tests/support/gpu_tap.hh"

using namespace emulator;

enum { BLOCKS = 3, THREADS = 32, MOST_NS = 2000000 };

/* Each thread writes for how long it has computed. args.count: nanoseconds; args.bytes: those that
 * a fault leaves out. */
static void kernel(weiri_gpu_args args)
{
    float result;
    const uint64_t ns = bench_gpu_busy(args.count - args.bytes, MOST_NS, &result);
    ((uint64_t *)args.out)[blockIdx.x * blockDim.x + threadIdx.x] = result > 0 ? ns : 0;
}

/* Runs it on two ranks for `ns`. Returns what is wrong: a thread that computed for less than
 * `least` or more than `most`. */
static std::string run(uint64_t seed, uint64_t ns, uint64_t leaves_out, uint64_t least,
                       uint64_t most)
{
    machine m(2, seed);
    buffer outs[2];
    m.expect_no_epochs();
    m.let_time_pass(500);
    for (int rank = 0; rank < 2; rank++) {
        const buffer in = m.alloc(rank, 16, 0, PLAIN);
        outs[rank] = m.alloc(rank, BLOCKS * THREADS * sizeof(uint64_t), 0, PLAIN);
        weiri_gpu_args args = m.args(rank, in, outs[rank]);
        args.count = ns;
        args.bytes = leaves_out;
        m.launch(rank, "busy", (const void *)kernel, {BLOCKS, THREADS}, args);
    }
    if (!m.run())
        return m.report();
    for (const buffer &out : outs)
        for (int i = 0; i < BLOCKS * THREADS; i++) {
            const uint64_t passed = ((const uint64_t *)out.data)[i];
            if (passed < least || passed > most)
                return "a thread computed for " + std::to_string(passed) + " ns";
        }
    return "";
}

int main()
{
    const uint64_t ms = 1000000, endless = UINT64_MAX;
    std::string why;
    for (uint64_t seed = 1; seed <= 8 && why.empty(); seed++)
        why = run(seed, ms, 0, ms, ms + MOST_NS);
    ok(why.empty(), why, "threads compute for a millisecond");
    why = run(1, endless, 0, MOST_NS, 2 * MOST_NS);
    ok(why.empty(), why, "an endless computation ends at the deadline");
    why = run(1, ms, ms, ms, ms + MOST_NS);
    ok(!why.empty(), why, "detected: a computation that ends early");
    return tap_done();
}
