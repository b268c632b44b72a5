/*
 * Runs GPU kernels without a GPU: all threads of all blocks of all ranks run interleaved in one
 * thread, in an order drawn from a seed. The kernels are the same sources that nvcc compiles
 * (gpu_words.h explains how). Ranks run ahead of one another as far as the kernels allow: every
 * rank has a queue of launches and begins the next one when its last has ended, whatever the others
 * do.
 *
 *     machine m(4, seed);                       4 ranks
 *     buffer in = m.alloc(rank, bytes, 0, MAPPED), out = ...;
 *     weiri_gpu_args args = m.args(rank, in, out);   view, pointers, descs
 *     args.count = ...;
 *     m.launch(rank, "allreduce_packet", kernel, {blocks, threads}, args);
 *     ...                                       more launches, of all ranks
 *     if (!m.run()) puts(m.report().c_str());   which waits failed, and more
 *
 * What it finds: missing waits and messages, slots and signals that are reused too early, blocks
 * that do not synchronize, data in the wrong place, stores before or after a buffer, loads after an
 * input, launches that do not advance the epoch exactly once, barriers that not all threads reach,
 * misaligned accesses of 16 bytes. Threads yield at polls, at barriers and after stores to shared
 * words (the two halves of a packet are two stores). Now and then a rank, a block, a thread, or all
 * ranks but one are frozen for long.
 *
 * What it does not find: stores and loads become visible in program order, so a missing fence,
 * acquire or release goes unnoticed, as does the order of plain stores between two points where
 * threads yield.
 *
 * Time stands still while any thread stores anything. When only unsuccessful polls have happened
 * for long, that is a deadlock, and the clock advances until all waits have ended at their
 * deadline.
 *
 * Each test is a file verify/tests/gpu/gpu_test_*.cc, a program that all of lib/coll/cuda is linked
 * into; gpu_tap.hh prints TAP.
 */
#ifndef VERIFY_TESTS_SUPPORT_GPU_EMULATOR_HH
#define VERIFY_TESTS_SUPPORT_GPU_EMULATOR_HH

#include "coll/cuda/kernels.h"

#include <cstdint>
#include <memory>
#include <string>

namespace emulator {

/* Whether peers can map a buffer; the desc of others is WEIRI_GPU_UNMAPPED. */
enum kind { PLAIN, MAPPED };

/* Memory of one rank between canaries; lives as long as its machine. */
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
    /* A number of the sequence that the schedule is drawn from. */
    uint64_t random(uint64_t below);
    /* data % 16 == misalignment % 16; filled with garbage. */
    buffer alloc(int rank, size_t bytes, size_t misalignment, kind kind);
    /* Likewise for memory that is only read: addresses 16 bytes or more after its end are not
     * mapped, so that loads there cause a segmentation fault. */
    buffer alloc_input(int rank, size_t bytes, size_t misalignment, kind kind);
    /* All zero except for the view, the buffers and their descs. */
    weiri_gpu_args args(int rank, const buffer &in, const buffer &out);
    /* Queues a launch. kernel: what weiri_gpu_<name>_kernel returns; name must be static. */
    void launch(int rank, const char *name, const void *kernel, weiri_gpu_shape shape,
                const weiri_gpu_args &args);
    /* Launches keep their own state, and leave the epoch as it is. */
    void expect_no_epochs();
    /* Each scheduling step takes so long, for kernels that wait for the clock alone. */
    void let_time_pass(uint64_t ns_per_step);
    /* Runs all queues until they are empty. Returns whether no wait failed, epochs and barriers
     * were correct, and all canaries are intact. */
    bool run();
    /* The problems that run() found, one per line; empty if none. */
    const std::string &report() const;
    /* Scheduling steps so far. */
    uint64_t steps() const;
    /* The most thread blocks that a rank has had resident at once. */
    int most_blocks() const;

private:
    std::unique_ptr<machine_state> its;
};

} // namespace emulator

#endif
