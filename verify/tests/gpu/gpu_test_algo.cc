/*
 * Proves the example of a user's kernel, lib/algo/examples/allgather.cu, in the emulator: several
 * blocks on every rank, messages that fill the slots many times, and launches in immediate
 * succession. Also that faults in the example's barrier are detected: one that does not wait, and
 * one that waits for only one peer.
 */
#include "coll/cuda/device/protocol.cuh"

#include "verify/tests/support/gpu_emulator.hh"
#include "verify/tests/support/gpu_tap.hh"

#include <vector>

#include "algo/examples/allgather.cu"

/* Signals all peers, but waits for only `waits` of them. */
static int faulty_barrier(weir_memchan_dev *const *chans, uint32_t count, uint32_t tid,
                            uint32_t nthreads, uint32_t waits)
{
    int status = 0;
    for (uint32_t i = tid; i < count; i += nthreads)
        weir_signal(chans[i]);
    for (uint32_t i = tid; i < count && i < waits && !status; i += nthreads)
        status = weir_wait(chans[i]);
    return status;
}

static int no_wait(weir_memchan_dev *const *chans, uint32_t count, uint32_t tid, uint32_t nthreads)
{
    return faulty_barrier(chans, count, tid, nthreads, 0);
}

static int one_wait(weir_memchan_dev *const *chans, uint32_t count, uint32_t tid,
                    uint32_t nthreads)
{
    return faulty_barrier(chans, count, tid, nthreads, 1);
}

#define allgather allgather_no_wait
#define rank_barrier rank_barrier_no_wait
#define weir_barrier no_wait
#include "algo/examples/allgather.cu"
#undef allgather
#undef rank_barrier
#undef weir_barrier
#define allgather allgather_one_wait
#define rank_barrier rank_barrier_one_wait
#define weir_barrier one_wait
#include "algo/examples/allgather.cu"
#undef allgather
#undef rank_barrier
#undef weir_barrier

using namespace emulator;

enum { RANKS_MAX = 5, BLOCKS_MAX = 3, SLOT = 384 * BLOCKS_MAX, LAUNCHES = 4 };

typedef void (*kernel_of)(const weir_kernel_args);

/* One end of a semaphore. */
struct words {
    uint64_t inbound, outbound, expected;
};

/* What weir_algo_from_file creates for a rank. */
struct rank_memory {
    alignas(128) char scratch[RANKS_MAX * SLOT];
    words sems[BLOCKS_MAX][RANKS_MAX]; /* by the peer's rank */
    weir_memchan_dev dev[BLOCKS_MAX * RANKS_MAX];
    weir_memchan_dev *chans[BLOCKS_MAX * RANKS_MAX];
    weir_kernel_args args[LAUNCHES];
};

static void connect(std::vector<rank_memory> &memories, int rank, int nranks, int blocks,
                    const weir_guard &guard)
{
    rank_memory &own = memories[(size_t)rank];
    for (int block = 0; block < blocks; block++)
        for (int i = 0; i < nranks - 1; i++) {
            const int peer = (rank + 1 + i) % nranks, at = block * (nranks - 1) + i;
            rank_memory &other = memories[(size_t)peer];
            words &mine = own.sems[block][peer];
            own.dev[at] = {{&other.sems[block][rank].inbound, &mine.inbound, &mine.outbound,
                            &mine.expected},
                           guard,
                           other.scratch,
                           own.scratch,
                           own.scratch,
                           sizeof own.scratch,
                           sizeof own.scratch,
                           sizeof own.scratch};
            own.chans[at] = &own.dev[at];
        }
}

/* The kernel in the form that the emulator launches; `in` is its argument. */
template <kernel_of kernel> static void emulated(weiri_gpu_args args)
{
    const weir_kernel_args *own = (const weir_kernel_args *)(const void *)args.in;
    const uint64_t epoch = weiri_gpu_epoch(args.view);
    kernel(*own);
    weiri_gpu_advance_epoch(args.view, epoch);
}

static char byte_of(int rank, int round, size_t i)
{
    return (char)(rank * 57 + round * 13 + (int)(i % 251) + 1);
}

static weir_kernel_args args_of(const buffer &in, const buffer &out, int rank, int nranks,
                                int blocks, const weir_guard &guard)
{
    weir_kernel_args args;
    memset(&args, 0, sizeof args);
    args.in = in.data;
    args.out = out.data;
    args.in_bytes = in.bytes;
    args.out_bytes = out.bytes;
    args.rank = rank;
    args.nranks = nranks;
    args.blocks = (uint32_t)blocks;
    args.slot_bytes = SLOT;
    args.guard = guard;
    return args;
}

/* Several launches in a row with separate buffers. Returns what went wrong, or "". */
template <kernel_of kernel> static std::string run_launches(int nranks, int blocks, uint64_t seed)
{
    static const size_t lengths[LAUNCHES] = {5, 384, 3000, 1537};
    machine m(nranks, seed);
    std::vector<rank_memory> memories((size_t)nranks);
    std::vector<buffer> outs;
    buffer none = m.alloc(0, 16, 0, PLAIN);
    for (int round = 0; round < LAUNCHES; round++)
        for (int rank = 0; rank < nranks; rank++) {
            const size_t bytes = lengths[round];
            weiri_gpu_args args = m.args(rank, none, none);
            if (round == 0)
                connect(memories, rank, nranks, blocks, args.view.guard);
            buffer in = m.alloc_input(rank, bytes, m.random(16), PLAIN);
            outs.push_back(m.alloc(rank, (size_t)nranks * bytes, m.random(16), PLAIN));
            for (size_t i = 0; i < bytes; i++)
                in.data[i] = byte_of(rank, round, i);
            weir_kernel_args &own = memories[(size_t)rank].args[round];
            own = args_of(in, outs.back(), rank, nranks, blocks, args.view.guard);
            own.chans = memories[(size_t)rank].chans;
            args.in = (const char *)(const void *)&own;
            m.launch(rank, "allgather", (const void *)emulated<kernel>, {blocks, 8}, args);
        }
    if (!m.run())
        return m.report();
    for (size_t at = 0; at < outs.size(); at++) {
        const int round = (int)at / nranks;
        const size_t bytes = lengths[round];
        for (size_t i = 0; i < outs[at].bytes; i++)
            if (outs[at].data[i] != byte_of((int)(i / bytes), round, i % bytes))
                return "wrong data";
    }
    return "";
}

template <kernel_of kernel> static void detects(const char *name)
{
    std::string why;
    for (uint64_t seed = 1; seed <= 40 && why.empty(); seed++)
        why = run_launches<kernel>(4, 2, seed);
    ok(!why.empty(), "", "detected: %s", name);
}

int main()
{
    std::string why;
    for (int nranks = 1; nranks <= RANKS_MAX; nranks++)
        for (uint64_t seed = 1; seed <= 8 && why.empty(); seed++)
            why = run_launches<allgather>(nranks, 1 + (int)seed % BLOCKS_MAX, seed);
    ok(why.empty(), why, "the example computes an allgather of 1 to %d ranks", (int)RANKS_MAX);
    detects<allgather_no_wait>("a barrier that does not wait");
    detects<allgather_one_wait>("a barrier that waits for only one peer");
    return tap_done();
}
