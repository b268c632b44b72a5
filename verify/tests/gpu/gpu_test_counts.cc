/*
 * Proves alltoallv with counts in device memory, in the emulator: launches with fixed arguments
 * while the arrays they point to are rewritten, as in replays of a graph; and wrong counts. A block
 * beyond its buffer, a length in bytes that wraps to a small number, and counts that differ between
 * sender and receiver must be reported by the rank that has them, change nothing outside of the
 * expected blocks, leave other pairs' data correct, and let no rank wait until its deadline.
 */
#include "verify/tests/support/gpu_emulator.hh"
#include "verify/tests/support/gpu_tap.hh"

#include <cstring>
#include <vector>

using namespace emulator;

enum { RANKS_MAX = 8, PACKET_BYTES = 64 };

/* A rank's arguments and buffers, the same in all launches. */
struct side {
    buffer in, out, arrays;
    weiri_gpu_args args;
    std::vector<char> expected;
};

struct scene {
    machine m;
    uint64_t each; /* bytes of an element */
    uint64_t elements; /* of every buffer */
    std::vector<side> sides;
    uint64_t counts[RANKS_MAX][RANKS_MAX] = {}; /* [from][to] */

    scene(int nranks, uint64_t seed, uint64_t each_bytes, uint64_t room);
    uint64_t *array(int rank, int which)
    {
        return (uint64_t *)sides[(size_t)rank].arrays.data + which * m.nranks();
    }
    void write_arrays();
    void fill();
    void launch();
    std::string difference();
};

enum { SEND, SEND_AT, RECV, RECV_AT };

static char byte_of(int rank, uint64_t i, uint64_t seed)
{
    uint64_t x = (seed * 8 + (uint64_t)rank) * 0x9e3779b97f4a7c15u + i;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return (char)(x >> 56);
}

scene::scene(int nranks, uint64_t seed, uint64_t each_bytes, uint64_t room)
    : m(nranks, seed), each(each_bytes), elements(room), sides((size_t)nranks)
{
    for (int rank = 0; rank < nranks; rank++) {
        side &s = sides[(size_t)rank];
        s.in = m.alloc_input(rank, room * each, m.random(16), (kind)m.random(2));
        s.out = m.alloc(rank, room * each, m.random(16), (kind)m.random(2));
        s.arrays = m.alloc(rank, 4 * 8 * (size_t)nranks, 0, PLAIN);
        s.args = m.args(rank, s.in, s.out);
        const uint64_t *words = (const uint64_t *)s.arrays.data;
        s.args.counts = {words, words + nranks, words + 2 * nranks, words + 3 * nranks, room, room};
        s.args.dtype = WEIR_INT8;
        s.args.element_bytes = (uint32_t)each;
        s.args.collective = WEIR_COLL_ALLTOALLV;
        s.args.packet_bytes = PACKET_BYTES;
    }
}

/* Lays blocks side by side, with gaps where there is room; displacements of empty blocks are
 * arbitrary. */
void scene::write_arrays()
{
    for (int rank = 0; rank < m.nranks(); rank++) {
        for (int side_of = 0; side_of < 2; side_of++) {
            uint64_t sum = 0, at = 0;
            for (int peer = 0; peer < m.nranks(); peer++)
                sum += side_of ? counts[peer][rank] : counts[rank][peer];
            for (int peer = 0; peer < m.nranks(); peer++) {
                uint64_t count = side_of ? counts[peer][rank] : counts[rank][peer];
                uint64_t gap = m.random(elements - sum + 1) / 2;
                array(rank, side_of ? RECV : SEND)[peer] = count;
                array(rank, side_of ? RECV_AT : SEND_AT)[peer] =
                    count ? at + gap : m.random(1ull << 62) * 4;
                at += count + (count ? gap : 0);
                sum += count ? gap : 0;
            }
        }
    }
}

/* Fills new inputs and computes what the outputs must hold after the exchange. */
void scene::fill()
{
    uint64_t seed = m.random(1 << 20);
    for (int rank = 0; rank < m.nranks(); rank++) {
        side &s = sides[(size_t)rank];
        for (uint64_t i = 0; i < s.in.bytes; i++)
            s.in.data[i] = byte_of(rank, i, seed);
        s.expected.assign(s.out.data, s.out.data + s.out.bytes);
    }
    for (int from = 0; from < m.nranks(); from++)
        for (int to = 0; to < m.nranks(); to++)
            for (uint64_t i = 0; i < counts[from][to] * each; i++)
                sides[(size_t)to].expected[array(to, RECV_AT)[from] * each + i] =
                    byte_of(from, array(from, SEND_AT)[to] * each + i, seed);
}

void scene::launch()
{
    for (int rank = 0; rank < m.nranks(); rank++) {
        m.launch(rank, "exchange_direct", weiri_gpu_exchange_direct_kernel(WEIR_INT8, m.nranks()),
                 {1 + (int)m.random(5), 8 + (int)m.random(3) * 13}, sides[(size_t)rank].args);
    }
}

std::string scene::difference()
{
    for (int rank = 0; rank < m.nranks(); rank++) {
        const side &s = sides[(size_t)rank];
        for (size_t i = 0; i < s.expected.size(); i++)
            if (s.out.data[i] != s.expected[i])
                return "rank " + std::to_string(rank) + " has wrong data at byte " +
                       std::to_string(i) + "\n";
    }
    return "";
}

/* ------------------------------------------------------------------- replays */

static void draw_counts(scene &s)
{
    uint64_t most = s.elements / (uint64_t)s.m.nranks() / 2;
    for (int from = 0; from < s.m.nranks(); from++)
        for (int to = 0; to < s.m.nranks(); to++)
            s.counts[from][to] = s.m.random(3) == 0   ? 0
                                 : s.m.random(2) == 0 ? s.m.random(most + 1)
                                                      : s.m.random(2 * PACKET_BYTES / s.each);
}

static std::string replays_of(int nranks, uint64_t seed)
{
    scene s(nranks, seed, 1ull << seed % 4, (20000 + (seed % 5) * 9000) >> seed % 4);
    for (int round = 0; round < 4; round++) {
        draw_counts(s);
        s.write_arrays();
        s.fill();
        s.launch();
        std::string why = s.m.run() ? s.difference() : s.m.report();
        if (!why.empty())
            return why + std::to_string(nranks) + " ranks, seed " + std::to_string(seed) +
                   ", round " + std::to_string(round);
    }
    return "";
}

static void replays(uint64_t seeds)
{
    std::string why;
    for (int nranks = 1; nranks <= RANKS_MAX && why.empty(); nranks++)
        for (uint64_t seed = 1; seed <= seeds && why.empty(); seed++)
            why = replays_of(nranks, seed * 8 + (uint64_t)nranks);
    ok(why.empty(), why, "counts rewritten between launches, 1 to 8 ranks");
}

/* -------------------------------------------------------------------- faults */

/* What is wrong between the sender, rank 0, and rank 1. */
enum fault {
    SEND_BEHIND, SEND_FAR, SEND_WRAPS, RECV_BEHIND, RECV_FAR, RECV_WRAPS, SENDS_LESS, SENDS_MORE,
    SELF_DIFFERS, FAULTS
};

static const char *const fault_names[] = {
    "a send beyond the input", "a send at a wrapping address", "a send whose bytes wrap",
    "a receive beyond the output", "a receive at a wrapping address",
    "a receive whose bytes wrap", "a sender of less", "a sender of more",
    "a rank's counts for itself",
};

/* Makes counts wrong; returns what the record of the culprit must say. */
static const char *inject(scene &s, int fault, int *culprit)
{
    uint64_t *send = s.array(0, SEND) + 1, *send_at = s.array(0, SEND_AT) + 1;
    uint64_t *recv = s.array(1, RECV), *recv_at = s.array(1, RECV_AT);
    *culprit = fault >= RECV_BEHIND && fault <= SENDS_MORE;
    switch (fault) {
    case SEND_BEHIND:
        *send_at = s.elements - *send + 1;
        return "a shorter send";
    case SEND_FAR:
        *send_at = ~0ull - *send + 1; /* their sum is 0 */
        return "a shorter send";
    case SEND_WRAPS:
        *send += ~0ull / s.each + 1; /* the same number of bytes modulo 2^64 */
        return "a shorter send";
    case RECV_BEHIND:
        *recv_at = s.elements - *recv + 1;
        return "a shorter receive";
    case RECV_FAR:
        *recv_at = ~0ull - *recv + 1;
        return "a shorter receive";
    case RECV_WRAPS:
        *recv += ~0ull / s.each + 1;
        return "a shorter receive";
    case SENDS_LESS:
        *send = *send / 3;
        return "other counts";
    case SENDS_MORE:
        *recv = *recv / 3;
        return "other counts";
    default:
        ++*s.array(0, SEND);
        return "other counts";
    }
}

/* A rank that has aborted may have anything in the blocks that it expected, but nowhere else. */
static void ignore_aborted_blocks(scene &s, int rank)
{
    side &it = s.sides[(size_t)rank];
    for (int from = 0; from < s.m.nranks(); from++) {
        uint64_t at = s.array(rank, RECV_AT)[from], count = s.array(rank, RECV)[from];
        if (at > s.elements || count > s.elements - at)
            continue; /* rejected */
        for (uint64_t i = at * s.each; i < (at + count) * s.each; i++)
            it.expected[i] = it.out.data[i];
    }
}

/* Checks the reports: the culprit's is right, and no rank has a wrong one. */
static std::string check_reports(const scene &s, const char *words, int culprit)
{
    const std::string line = "rank " + std::to_string(culprit) + " waited for " + words;
    const std::string &report = s.m.report();
    if (report.find(line) == std::string::npos)
        return "rank " + std::to_string(culprit) + " did not report it\n" + report;
    for (const char *wrong : {"overrun", "waited for a packet", "waited for a signal"})
        if (report.find(wrong) != std::string::npos)
            return report;
    return "";
}

static std::string faulty(int fault, uint64_t count, uint64_t seed)
{
    enum { NRANKS = 3, ELEMENTS = 4000 };
    scene s(NRANKS, seed, 4, ELEMENTS);
    int culprit;
    for (int from = 0; from < NRANKS; from++)
        for (int to = 0; to < NRANKS; to++)
            s.counts[from][to] = 3 + s.m.random(10);
    s.counts[0][1] = count;
    s.write_arrays();
    s.fill();
    const char *words = inject(s, fault, &culprit);
    for (int rank = 0; rank < 2; rank++)
        s.sides[(size_t)rank].expected.assign(s.sides[(size_t)rank].out.data,
                                              s.sides[(size_t)rank].out.data + ELEMENTS * 4);
    s.launch();
    s.m.run();
    std::string why = check_reports(s, words, culprit);
    ignore_aborted_blocks(s, 0);
    ignore_aborted_blocks(s, 1);
    return why.empty() ? s.difference() : why;
}

static void faults(uint64_t seeds)
{
    static const uint64_t lengths[] = {3, 16, 40, 3000}; /* 16 elements are a short message, 17 a
                                                          * long one */
    for (int fault = 0; fault < FAULTS; fault++) {
        std::string why;
        for (uint64_t seed = 1; seed <= 2 * seeds && why.empty(); seed++)
            for (uint64_t count : lengths)
                if (why.empty() && !(why = faulty(fault, count, seed)).empty())
                    why += "\n" + std::to_string(count) + " elements, seed " + std::to_string(seed);
        ok(why.empty(), why, "%s is reported and changes nothing outside of the blocks",
           fault_names[fault]);
    }
}

/* Both ranks send long messages that the other does not expect: neither grants a credit, and
 * neither may wait for one. */
static void crossed(uint64_t seeds)
{
    std::string why;
    for (uint64_t seed = 1; seed <= 3 * seeds && why.empty(); seed++) {
        scene s(2, seed, 1, 9000);
        s.counts[0][1] = s.counts[1][0] = 8000;
        s.write_arrays();
        s.fill();
        s.array(0, RECV)[1] = s.array(1, RECV)[0] = seed % 2 ? 10 : 0;
        s.launch();
        s.m.run();
        why = check_reports(s, "other counts", 0) + check_reports(s, "other counts", 1);
    }
    ok(why.empty(), why, "unexpected long messages in both directions end without a deadline");
}

int main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 4;
    replays(seeds);
    faults(seeds);
    crossed(seeds);
    return tap_done();
}
