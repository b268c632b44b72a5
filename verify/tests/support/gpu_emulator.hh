/*
 * Runs GPU kernels without a GPU: all threads of all blocks of all ranks take
 * turns in one thread, in an order drawn from a seed. The kernels are the very
 * sources that nvcc compiles (gpu_words.h says how). Ranks run ahead of one
 * another as far as the kernels let them: every rank has a queue of launches and
 * begins the next one when its last has ended, whatever the others do.
 *
 *     machine m(4, seed);                       4 ranks
 *     buffer in = m.alloc(rank, bytes, 0, MAPPED), out = ...;
 *     weiri_gpu_args args = m.args(rank, in, out);   view, pointers, descs
 *     args.count = ...;
 *     m.launch(rank, "allreduce_packet", kernel, {blocks, threads}, args);
 *     ...                                       more launches, of all ranks
 *     if (!m.run()) puts(m.report().c_str());   who waited for what
 *
 * What it finds: a missing wait or message, slots and signals used again too early,
 * blocks that do not meet, data in the wrong place, stores before or behind a
 * buffer, loads behind an input, turns not taken exactly once, barriers that not all
 * threads reach, accesses of 16 bytes that are not aligned. Threads give way at polls, at
 * barriers and after stores to shared words (both halves of a packet are two stores). Now and
 * then a rank, a block or a thread, or all other ranks, stand still for long.
 * What it does not find: stores and loads are seen in program order, so a
 * missing fence, acquire or release goes unnoticed, as does the order of plain
 * stores between two of the above points.
 *
 * Time stands still for as long as any thread stores anything; when nothing but
 * unsuccessful polls has happened for long, that is a deadlock, and the clock
 * runs on until all waits have ended by their deadline.
 *
 * A test is a file verify/tests/gpu_test_*.cc, a program of its own in which all
 * of lib/coll/cuda/ is linked; TAP by gpu_tap.hh.
 */
#ifndef VERIFY_TESTS_SUPPORT_GPU_EMULATOR_HH
#define VERIFY_TESTS_SUPPORT_GPU_EMULATOR_HH

#include "coll/cuda/kernels.h"

#include <cstdint>
#include <memory>
#include <string>

namespace emulator {

/* Whether peers can map a buffer: else its desc is WEIRI_GPU_PLAIN. */
enum kind { PLAIN, MAPPED };

/* Memory of one rank, with canaries around it; lives as long as its machine. */
struct buffer {
    char *data;
    size_t bytes;
    weiri_gpu_desc desc;
};

struct machine_state;

class machine {
public:
    machine(int nranks, uint64_t seed);
    ~machine();
    machine(const machine &) = delete;
    machine &operator=(const machine &) = delete;

    int nranks() const;
    /* A number of the same sequence that the schedule is drawn from. */
    uint64_t random(uint64_t below);
    /* data % 16 == misalignment % 16, filled with rubbish. */
    buffer alloc(int rank, size_t bytes, size_t misalignment, kind kind);
    /* The same for what is only read: 16 bytes behind its end there is nothing any more, and
     * what reads there ends with a segmentation fault. */
    buffer alloc_input(int rank, size_t bytes, size_t misalignment, kind kind);
    /* All zero but the view, the buffers and their descs. */
    weiri_gpu_args args(int rank, const buffer &in, const buffer &out);
    /* Queues a launch; kernel as weiri_gpu_<name>_kernel gives it, name static. */
    void launch(int rank, const char *name, const void *kernel, weiri_gpu_shape shape,
                const weiri_gpu_args &args);
    /* Runs all queues until they are empty: whether no wait failed, turns and
     * barriers were kept, and all canaries are whole. */
    bool run();
    /* What run() found, a line each; empty if nothing. */
    const std::string &report() const;
    /* Turns taken so far. */
    uint64_t steps() const;

private:
    std::unique_ptr<machine_state> its;
};

} // namespace emulator

#endif
