/*
 * Proves that the emulator finds what it claims to find: small kernels that are correct must pass
 * under every schedule; the same kernels with one fault each must fail under at least one of a few
 * schedules.
 */
#include "coll/cuda/device/protocol.cuh"

#include "verify/tests/support/gpu_emulator.hh"
#include "verify/tests/support/gpu_tap.hh"

#include <csignal>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace emulator;

enum fault {
    NONE,
    ONE_PARITY,     /* packets of all epochs use the same buffer */
    HALF_A_PACKET,  /* only the first flag of a packet is checked */
    NO_ANSWER,       /* the other ranks do not answer, and rank 0 does not wait for answers */
    EPOCH_NOT_ADVANCED,        /* one block does not advance the epoch */
    SKIPPED_WAIT,   /* one rank does not wait for another one */
    NO_LAST_BARRIER,   /* ends before the peers have read its input */
    SAME_SIGNAL,    /* the second barrier reuses the first one's number */
    SIGNAL_EARLY,   /* signals before all threads of the block have stored */
    LONE_BARRIER,   /* a barrier that one thread does not reach */
    OVERRUN,        /* a store beyond the output */
    ONE_MEMORY,     /* all blocks use the same words in place of shared memory */
};

/* All-to-all by packets: out[peer * threads of the grid + i] = in[i] of peer. */
template <int fault> static void by_packets(weiri_gpu_args args)
{
    const weiri_gpu_view &view = args.view;
    uint64_t epoch = weiri_gpu_epoch(view);
    uint64_t slots = fault == ONE_PARITY ? epoch & ~1ull : epoch;
    size_t threads = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
    const uint64_t *in = (const uint64_t *)args.in;
    uint64_t *out = (uint64_t *)args.out;
    for (int peer = 0; peer < view.nranks; peer++)
        weiri_gpu_send(weiri_gpu_slot(view, peer, view.rank, slots, 0), i, epoch, in[i]);
    if (fault != EPOCH_NOT_ADVANCED || blockIdx.x)
        weiri_gpu_advance_epoch(view, epoch);
    if (fault == LONE_BARRIER && threadIdx.x)
        __syncthreads();
    for (int peer = 0; peer < view.nranks; peer++) {
        const char *slot = weiri_gpu_slot(view, view.rank, peer, slots, 0);
        if (fault == SKIPPED_WAIT && view.rank == 1 && peer == 0) {
            out[i] = ((const uint64_t *)slot)[2 * i] & 0xffffffff;
            continue;
        }
        uint64_t word = 0;
        if (fault == HALF_A_PACKET) {
            const uint64_t *packet = (const uint64_t *)slot + 2 * i;
            while ((uint32_t)(weir_load_relaxed(packet) >> 32) != (uint32_t)epoch)
                weir_relax();
            word = (packet[1] << 32) | (uint32_t)packet[0];
        } else {
            word = weiri_gpu_receive(view, slot, i, epoch, peer);
        }
        out[(size_t)peer * threads + i + (fault == OVERRUN)] = word;
    }
}

/* Rank 0 sends its words to all; the others answer with a packet, for which it waits. */
template <int fault> static void from_root(weiri_gpu_args args)
{
    const weiri_gpu_view &view = args.view;
    uint64_t epoch = weiri_gpu_epoch(view);
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    const uint64_t *in = (const uint64_t *)args.in;
    uint64_t *out = (uint64_t *)args.out;
    if (view.rank == 0) {
        for (int peer = 1; peer < view.nranks; peer++)
            weiri_gpu_send(weiri_gpu_slot(view, peer, 0, epoch, 0), i, epoch, in[i]);
        out[i] = in[i];
    } else if (fault != NO_ANSWER) {
        weiri_gpu_send(weiri_gpu_slot(view, 0, view.rank, epoch, 0), i, epoch, 0);
    }
    weiri_gpu_advance_epoch(view, epoch);
    if (view.rank)
        out[i] = weiri_gpu_receive(view, weiri_gpu_slot(view, view.rank, 0, epoch, 0), i, epoch, 0);
    else if (fault != NO_ANSWER)
        for (int peer = 1; peer < view.nranks; peer++)
            weiri_gpu_receive(view, weiri_gpu_slot(view, 0, peer, epoch, 0), i, epoch, peer);
}

/* All-to-all by reading: each rank marks its input, all read it and remove the mark, and each
 * clears its input at the end, as the next user of a buffer might. */
template <int fault> static void by_reading(weiri_gpu_args args)
{
    WEIRI_GPU_SHARED(weiri_gpu_desc, ins, [WEIRI_GPU_RANKS_MAX]);
    const weiri_gpu_view &view = args.view;
    const uint64_t mark = 1ull << 63;
    uint64_t epoch = weiri_gpu_epoch(view);
    size_t threads = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
    int peer = (int)threadIdx.x;
    uint64_t *in = (uint64_t *)args.in;
    if (fault == SIGNAL_EARLY && peer < view.nranks)
        weiri_gpu_signal(view, peer, epoch, 1);
    in[i] |= mark;
    if (peer < view.nranks)
        weiri_gpu_send_descs(view, peer, epoch, args.in_desc, 0);
    weiri_gpu_advance_epoch(view, epoch);
    if (peer < view.nranks) {
        weiri_gpu_desc out;
        weiri_gpu_receive_descs(view, peer, epoch, &ins[peer], &out);
        weiri_gpu_fence();
        if (fault != SIGNAL_EARLY)
            weiri_gpu_signal(view, peer, epoch, 1);
        weiri_gpu_await(view, peer, epoch, 1);
    }
    __syncthreads();
    for (int r = 0; r < view.nranks; r++) {
        const uint64_t *from = (const uint64_t *)weiri_gpu_address(view, r, ins[r]);
        ((uint64_t *)args.out)[(size_t)r * threads + i] = from[i] ^ mark;
    }
    if (fault != NO_LAST_BARRIER)
        weiri_gpu_barrier(view, epoch, fault == SAME_SIGNAL ? 1 : 2);
    in[i] = 0;
}

/* The same, with words that another thread of the block has put into shared memory, which holds
 * garbage before. */
template <int fault> static void by_shared_memory(weiri_gpu_args args)
{
    WEIRI_GPU_SHARED(uint64_t, of_block, [8]);
    static uint64_t of_all[8];
    uint64_t *words = fault == ONE_MEMORY ? of_all : of_block;
    const weiri_gpu_view &view = args.view;
    uint64_t epoch = weiri_gpu_epoch(view);
    size_t threads = gridDim.x * blockDim.x, first = blockIdx.x * blockDim.x;
    size_t mine = threadIdx.x, other = blockDim.x - 1 - threadIdx.x;
    const bool is_garbage = of_block[mine] == 0xa7a7a7a7a7a7a7a7;
    words[mine] = is_garbage ? ((const uint64_t *)args.in)[first + mine] : 0;
    weiri_gpu_advance_epoch(view, epoch);
    for (int peer = 0; peer < view.nranks; peer++)
        weiri_gpu_send(weiri_gpu_slot(view, peer, view.rank, epoch, 0), first + other, epoch,
                       words[other]);
    for (int peer = 0; peer < view.nranks; peer++)
        ((uint64_t *)args.out)[(size_t)peer * threads + first + mine] = weiri_gpu_receive(
            view, weiri_gpu_slot(view, view.rank, peer, epoch, 0), first + mine, epoch, peer);
}

/* ---------------------------------------------------------------- schedules */

typedef void (*kernel_of)(weiri_gpu_args);

static uint64_t word_of(int rank, int round, size_t i)
{
    return (uint64_t)(rank + 1) << 40 | (uint64_t)round << 20 | (i + 1);
}

/* Several launches in a row on all ranks, with separate buffers; rooted: only rank 0's words are
 * expected. Returns what went wrong, or "". */
static std::string several(kernel_of kernel, int nranks, uint64_t seed, bool rooted)
{
    enum { ROUNDS = 6, THREADS = 8 };
    machine m(nranks, seed);
    std::vector<buffer> outs;
    for (int round = 0; round < ROUNDS; round++) {
        int blocks = 1 + (int)m.random(3);
        size_t words = (size_t)(blocks * THREADS);
        for (int r = 0; r < nranks; r++) {
            buffer in = m.alloc(r, words * 8, 0, MAPPED);
            for (size_t i = 0; i < words; i++)
                ((uint64_t *)in.data)[i] = word_of(r, round, i);
            outs.push_back(m.alloc(r, (rooted ? 1 : (size_t)nranks) * words * 8, 0, MAPPED));
            m.launch(r, "test", (const void *)kernel, {blocks, THREADS},
                     m.args(r, in, outs.back()));
        }
    }
    if (!m.run())
        return m.report();
    for (size_t at = 0; at < outs.size(); at++) {
        size_t words = outs[at].bytes / 8 / (rooted ? 1 : (size_t)nranks);
        for (size_t i = 0; i < outs[at].bytes / 8; i++)
            if (((uint64_t *)outs[at].data)[i] !=
                word_of((int)(i / words), (int)at / nranks, i % words))
                return "wrong data";
    }
    return "";
}

static void passes(kernel_of kernel, const char *name, bool rooted)
{
    std::string why;
    for (int nranks = 2; nranks <= 5; nranks++)
        for (uint64_t seed = 1; seed <= 15 && why.empty(); seed++)
            why = several(kernel, nranks, seed, rooted);
    ok(why.empty(), why, "%s passes with 2 to 5 ranks", name);
}

/* At least one schedule must expose the fault, with the expected report. */
static void detects(kernel_of kernel, const char *name, const char *word, bool rooted)
{
    std::string why;
    uint64_t seed = 0;
    while (++seed <= 60 && why.find(word) == std::string::npos)
        why = several(kernel, 3, seed, rooted);
    ok(why.find(word) != std::string::npos, why, "detected: %s", name);
}

/* A load beyond an input ends the process, so it runs in a child. */
static void detects_load_after_input()
{
    std::string why;
    for (size_t bytes = 1; bytes < 40; bytes++) {
        const pid_t child = fork();
        if (!child) {
            machine m(2, bytes);
            const buffer in = m.alloc_input(0, bytes, bytes % 7, PLAIN);
            const volatile char *data = in.data;
            signal(SIGSEGV, SIG_DFL); /* the address sanitizer handles it otherwise */
            if (data[bytes - 1] == data[bytes + 15])
                _exit(1);
            _exit(0);
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child || !WIFSIGNALED(status) ||
            WTERMSIG(status) != SIGSEGV)
            why = std::to_string(bytes) + " bytes: nothing happened";
    }
    ok(why.empty(), why, "detected: a load after an input");
}

int main()
{
    passes(by_packets<NONE>, "packets from all to all", false);
    passes(from_root<NONE>, "packets from one rank to all, with answers", true);
    passes(by_reading<NONE>, "peers' buffers, described in-band", false);
    passes(by_shared_memory<NONE>, "shared memory of blocks", false);
    detects(by_shared_memory<ONE_MEMORY>, "shared memory that all blocks have in common",
            "wrong data", false);
    detects(by_packets<ONE_PARITY>, "packets of all epochs in one buffer", "waited for a packet",
          false);
    detects(by_packets<HALF_A_PACKET>, "a check of only one of a packet's flags", "wrong data",
            false);
    detects(from_root<NO_ANSWER>, "a sender that runs ahead of its readers", "waited for a packet",
            true);
    detects(by_packets<EPOCH_NOT_ADVANCED>, "a block that does not advance the epoch",
            "left epoch word", false);
    detects(by_packets<SKIPPED_WAIT>, "a missing wait", "wrong data", false);
    detects(by_packets<LONE_BARRIER>, "a barrier that one thread does not reach",
          "ended while others wait in a barrier", false);
    detects(by_packets<OVERRUN>, "a store after the output", "overrun after its end", false);
    detects(by_reading<NO_LAST_BARRIER>, "a kernel that ends before peers have read its input",
            "wrong data", false);
    detects(by_reading<SAME_SIGNAL>, "a barrier's number used twice", "wrong data", false);
    detects(by_reading<SIGNAL_EARLY>, "a signal that precedes the data", "wrong data", false);
    detects_load_after_input();
    return tap_done();
}
