/*
 * Proves the one-sided calls of the NCCL-compatible library in the emulator: every rank puts into
 * the windows of all others, with lengths and alignments of all kinds, waits for their signals, and
 * copies what has arrived. Waits take one signal or several. Injected faults, a signal before its
 * data and a wait that does not wait, are detected, and a signal that never comes ends at the
 * deadline.
 */
#include "nccl/rma/rma.cuh"

#include "verify/tests/support/gpu_emulator.hh"
#include "verify/tests/support/gpu_tap.hh"

#include <cstdlib>
#include <vector>

using namespace emulator;

enum { RANKS_MAX = 4, ROUNDS = 4, ROOM = 5120 };
enum fault { NONE, EARLY_SIGNAL, NO_WAIT, NO_SIGNAL };

/* What a launch does. */
struct step {
    enum { PUT, WAIT, READ } kind;
    int fault;
    weiri_rma_out_args out;
    weiri_rma_wait_args wait;
};

static void kernel(weiri_gpu_args args)
{
    const uint64_t epoch = weiri_gpu_epoch(args.view);
    step mine = *(const step *)(uintptr_t)args.in;
    mine.wait.guard = args.view.guard;
    if (mine.kind == step::READ) {
        weir_copy_shared(mine.out.to, mine.out.from, mine.out.bytes, threadIdx.x, blockDim.x);
    } else if (mine.kind == step::WAIT) {
        if (mine.fault != NO_WAIT)
            weiri_rma_wait(mine.wait);
    } else {
        const uint64_t bytes = mine.out.bytes;
        if (mine.fault == EARLY_SIGNAL) {
            mine.out.bytes = 0;
            weiri_rma_put(mine.out);
            weir_copy_shared(mine.out.to, mine.out.from, bytes, threadIdx.x, blockDim.x);
        } else if (mine.fault != NO_SIGNAL) {
            weiri_rma_put(mine.out);
        }
    }
    weiri_gpu_advance_epoch(args.view, epoch);
}

static uint64_t length_of(uint64_t seed, int round, int from, int to)
{
    static const uint64_t lengths[] = {0, 1, 15, 16, 17, 128, 1000, 4096, 5000};
    const uint64_t which = seed * 31 + (uint64_t)(round * 64 + from * 8 + to);
    return lengths[(which * 0x9e3779b97f4a7c15u >> 33) % 9];
}

static char byte_of(int round, int from, int to, uint64_t at)
{
    return (char)(at * 7 + at / 251 + (uint64_t)(round * 89 + from * 23 + to * 5));
}

/* The copy of what a rank was sent in a round. */
struct arrival {
    buffer data;
    int round, from, to;
    uint64_t bytes;
};

struct scene {
    machine &m;
    uint64_t seed;
    int fault;
    std::vector<buffer> words, windows;
    std::vector<std::unique_ptr<step>> kept;
    std::vector<arrival> arrivals;
};

/* The counts of a rank about a peer: arrived, sent, taken. */
static uint64_t *word(scene &s, int owner, int peer, int which)
{
    return (uint64_t *)(void *)s.words[(size_t)owner].data + 3 * peer + which;
}

static char *place(scene &s, int owner, int from, int round)
{
    return s.windows[(size_t)owner].data + ((from * ROUNDS + round) * ROOM) + round;
}

static step &queue(scene &s, int rank, const step &what, int threads)
{
    s.kept.emplace_back(new step(what));
    buffer none = s.m.alloc(rank, 16, 0, PLAIN);
    weiri_gpu_args launched = s.m.args(rank, none, none);
    launched.in = (const char *)s.kept.back().get();
    s.m.launch(rank, "onesided", (const void *)kernel, {1, threads}, launched);
    return *s.kept.back();
}

static void queue_put(scene &s, int round, int rank, int peer)
{
    static const int threads[] = {1, 33, 64, 96};
    const uint64_t bytes = length_of(s.seed, round, rank, peer);
    buffer from = s.m.alloc_input(rank, bytes, (size_t)s.m.random(16), PLAIN);
    for (uint64_t at = 0; at < bytes; at++)
        from.data[at] = byte_of(round, rank, peer, at);
    step put = {step::PUT, s.fault, {}, {}};
    put.out = {place(s, peer, rank, round), from.data, bytes, word(s, rank, peer, 1),
               word(s, peer, rank, 0)};
    queue(s, rank, put, threads[s.m.random(4)]);
}

static void queue_wait(scene &s, int rank, uint64_t count)
{
    step wait = {step::WAIT, s.fault, {}, {}};
    for (int peer = 0; peer < s.m.nranks(); peer++) {
        const int i = wait.wait.count++;
        wait.wait.wait[i].arrived = word(s, rank, peer, 0);
        wait.wait.wait[i].taken = word(s, rank, peer, 2);
        wait.wait.wait[i].count = count;
        wait.wait.wait[i].peer = peer;
    }
    queue(s, rank, wait, s.m.random(2) ? 32 : 1);
}

static void queue_read(scene &s, int round, int rank, int peer)
{
    const uint64_t bytes = length_of(s.seed, round, peer, rank);
    buffer to = s.m.alloc(rank, bytes, (size_t)s.m.random(16), PLAIN);
    step read = {step::READ, s.fault, {}, {}};
    read.out.to = to.data;
    read.out.from = place(s, rank, peer, round);
    read.out.bytes = bytes;
    queue(s, rank, read, 32);
    s.arrivals.push_back({to, round, peer, rank, bytes});
}

/* Rounds first to last - 1 of a rank: puts to all, one wait for all signals of all, reads. */
static void queue_rounds(scene &s, int rank, int first, int last)
{
    for (int round = first; round < last; round++)
        for (int peer = 0; peer < s.m.nranks(); peer++)
            queue_put(s, round, rank, (peer + rank) % s.m.nranks());
    queue_wait(s, rank, (uint64_t)(last - first));
    for (int round = first; round < last; round++)
        for (int peer = 0; peer < s.m.nranks(); peer++)
            queue_read(s, round, rank, peer);
}

static std::string check(const scene &s)
{
    for (const arrival &got : s.arrivals)
        for (uint64_t at = 0; at < got.bytes; at++)
            if (got.data.data[at] != byte_of(got.round, got.from, got.to, at))
                return "wrong data from " + std::to_string(got.from) + " to " +
                       std::to_string(got.to) + " at " + std::to_string(at);
    return "";
}

static std::string run(int nranks, uint64_t seed, int fault)
{
    machine m(nranks, seed);
    scene s = {m, seed, fault, {}, {}, {}, {}};
    for (int rank = 0; rank < nranks; rank++) {
        s.words.push_back(m.alloc(rank, (size_t)nranks * 3 * sizeof(uint64_t), 0, MAPPED));
        memset(s.words.back().data, 0, s.words.back().bytes);
        s.windows.push_back(m.alloc(rank, (size_t)nranks * ROUNDS * ROOM, 0, MAPPED));
    }
    for (int rank = 0; rank < nranks; rank++) {
        queue_rounds(s, rank, 0, 1);
        queue_rounds(s, rank, 1, ROUNDS - 1);
        queue_rounds(s, rank, ROUNDS - 1, ROUNDS);
    }
    if (!m.run())
        return m.report();
    for (int rank = 0; rank < nranks; rank++)
        for (int peer = 0; peer < nranks; peer++)
            if (*word(s, rank, peer, 2) != ROUNDS && fault == NONE)
                return "wrong count of signals";
    return check(s);
}

int main(int argc, char **argv)
{
    const uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 8;
    for (int nranks = 1; nranks <= RANKS_MAX; nranks++) {
        std::string why;
        for (uint64_t seed = 1; seed <= seeds && why.empty(); seed++)
            why = run(nranks, seed, NONE);
        ok(why.empty(), why, "puts and signals among %d ranks", nranks);
    }
    static const char *const faults[] = {"", "a signal before its data",
                                         "a wait that does not wait"};
    for (int fault = EARLY_SIGNAL; fault <= NO_WAIT; fault++) {
        bool found = false;
        for (uint64_t seed = 1; seed <= seeds && !found; seed++)
            found = !run(3, seed, fault).empty();
        ok(found, "", "detected: %s", faults[fault]);
    }
    std::string report = run(2, 1, NO_SIGNAL);
    ok(!report.empty(), report, "a signal that never comes ends its wait");
    return tap_done();
}
