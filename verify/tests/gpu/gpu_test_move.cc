/*
 * Proves the kernels that move data in the emulator: allgather, broadcast, alltoall, alltoallv and
 * sendrecv, in several launches without synchronization between them, of one algorithm and of
 * alternating ones. Lengths are odd, buffers have any alignment and may be mapped or not, and grids
 * change from launch to launch and, where an algorithm allows it, from rank to rank. Every byte of
 * every output is compared, including those that must not change.
 */
#include "coll/cuda/device/ll128.cuh"
#include "coll/cuda/device/stage.cuh"

#include "verify/tests/support/gpu_emulator.hh"
#include "verify/tests/support/gpu_tap.hh"
#include "verify/tests/support/long_part.h"

#include <cstring>
#include <vector>

using namespace emulator;

/* What a rank's output must hold at the end. */
struct expectation {
    std::string name;
    int rank;
    buffer out;
    std::vector<char> bytes, before;
};

/* Which buffers of a launch peers can map. */
enum places { ALL_MAPPED, ALL_PLAIN, MIXED };

struct scene {
    machine m;
    std::vector<expectation> expected;
    places where = MIXED;
    bool aligned = false;
    int blocks = 0; /* the most blocks of a grid; 0: few */
    int launches = 0;
    scene(int nranks, uint64_t seed) : m(nranks, seed) {}
};

struct setting {
    const char *name;
    weiri_gpu_kernel kernel;
    weiri_gpu_serves serves;
    int warps; /* whether blocks must consist of full warps */
};

#define SETTING(name) {#name, weiri_gpu_##name##_kernel, weiri_gpu_##name##_serves, 0}
#define SETTING_OF_WARPS(name) {#name, weiri_gpu_##name##_kernel, weiri_gpu_##name##_serves, 1}

/* Byte i of a rank's input in a launch. */
static char byte_of(int launch, int rank, size_t i)
{
    uint64_t x = ((uint64_t)launch * 8 + (uint64_t)rank) * 0x9e3779b97f4a7c15u + i;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return (char)(x >> 56);
}

static kind kind_of(scene &s)
{
    return s.where == MIXED ? (kind)s.m.random(2) : s.where == ALL_PLAIN ? PLAIN : MAPPED;
}

static buffer buffer_for(scene &s, int rank, size_t bytes)
{
    return s.m.alloc(rank, bytes, s.aligned ? 0 : s.m.random(16), kind_of(s));
}

static buffer input_for(scene &s, int rank, size_t bytes)
{
    return s.m.alloc_input(rank, bytes, s.aligned ? 0 : s.m.random(16), kind_of(s));
}

static void fill(const scene &s, int rank, char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = byte_of(s.launches, rank, i);
}

/* A block has at least one thread per peer. */
static weiri_gpu_shape shape_for(scene &s, const setting &it)
{
    if (s.blocks)
        return {s.blocks - (int)s.m.random((uint64_t)s.blocks / 2 + 1), it.warps ? 32 : 8};
    if (it.warps)
        return {1 + (int)s.m.random(5), 32 * (1 + (int)s.m.random(3))};
    const int few = 8 + (int)s.m.random(3) * 13, many = 64 + 32 * (int)s.m.random(5);
    return {1 + (int)s.m.random(5), s.m.random(8) ? few : many};
}

/* Records the current contents of a rank's output as expected. */
static std::vector<char> &expect(scene &s, const char *name, int rank, const buffer &out)
{
    std::vector<char> before(out.data, out.data + out.bytes);
    s.expected.push_back({std::string(name) + ", launch " + std::to_string(s.launches), rank, out,
                          before, before});
    return s.expected.back().bytes;
}

static void queue(scene &s, const setting &it, int rank, weiri_gpu_shape shape,
                  weiri_gpu_args &args)
{
    args.dtype = WEIR_INT8;
    args.element_bytes = 1;
    if (!it.serves(&args))
        printf("# %s does not serve this call\n", it.name);
    s.m.launch(rank, it.name, it.kernel(WEIR_INT8, s.m.nranks()), shape, args);
}

/* -------------------------------------------------------------- collectives */

static void allgather(scene &s, const setting &it, size_t bytes, uint32_t packet_bytes = 0)
{
    int n = s.m.nranks(), in_place = (int)s.m.random(2);
    weiri_gpu_shape shape = shape_for(s, it);
    for (int rank = 0; rank < n; rank++) {
        buffer out = buffer_for(s, rank, bytes * (size_t)n), in = input_for(s, rank, bytes);
        weiri_gpu_args args = s.m.args(rank, in, out);
        if (in_place)
            args.in = out.data + bytes * (size_t)rank;
        fill(s, rank, (char *)args.in, bytes);
        std::vector<char> &bytes_of_all = expect(s, it.name, rank, out);
        for (size_t i = 0; i < bytes_of_all.size(); i++)
            bytes_of_all[i] = byte_of(s.launches, (int)(i / bytes), i % bytes);
        args.count = args.bytes = bytes;
        args.packet_bytes = packet_bytes;
        args.collective = WEIR_COLL_ALLGATHER;
        queue(s, it, rank, shape, args);
    }
    s.launches++;
}

static void broadcast(scene &s, const setting &it, size_t bytes)
{
    int n = s.m.nranks(), in_place = (int)s.m.random(2), root = (int)s.m.random((uint64_t)n);
    weiri_gpu_shape shape = shape_for(s, it);
    for (int rank = 0; rank < n; rank++) {
        buffer out = buffer_for(s, rank, bytes), in = input_for(s, rank, bytes);
        weiri_gpu_args args = s.m.args(rank, in, out);
        if (in_place)
            args.in = out.data;
        if (rank == root)
            fill(s, rank, (char *)args.in, bytes);
        std::vector<char> &bytes_of_root = expect(s, it.name, rank, out);
        for (size_t i = 0; i < bytes; i++)
            bytes_of_root[i] = byte_of(s.launches, root, i);
        args.count = args.bytes = bytes;
        args.root = root;
        args.collective = WEIR_COLL_BROADCAST;
        queue(s, it, rank, shape, args);
    }
    s.launches++;
}

/* The bytes that ranks send to each other, with gaps between them in the buffers. */
struct matrix {
    size_t bytes[8][8];      /* [from][to] */
    size_t send_at[8][8];    /* [from][to] */
    size_t recv_at[8][8];    /* [to][from] */
    size_t in[8], out[8];    /* of the buffers */
};

static void lay_out(scene &s, matrix &x, size_t gap)
{
    int n = s.m.nranks();
    for (int rank = 0; rank < n; rank++) {
        x.in[rank] = x.out[rank] = 0;
        for (int peer = 0; peer < n; peer++) {
            x.send_at[rank][peer] = x.in[rank];
            x.in[rank] += x.bytes[rank][peer] + (gap ? s.m.random(gap) : 0);
            x.recv_at[rank][peer] = x.out[rank];
            x.out[rank] += x.bytes[peer][rank] + (gap ? s.m.random(gap) : 0);
        }
    }
}

/* Passes the same pairs as arrays that only the device reads. */
static void pass_pairs_in_memory(scene &s, int rank, size_t in_bytes, size_t out_bytes,
                       weiri_gpu_args &args)
{
    size_t n = (size_t)s.m.nranks();
    buffer arrays = s.m.alloc(rank, 4 * n * 8, 0, PLAIN);
    uint64_t *words = (uint64_t *)arrays.data;
    for (size_t peer = 0; peer < n; peer++) {
        words[peer] = args.pairs[peer].send_bytes;
        words[n + peer] = args.pairs[peer].send_at;
        words[2 * n + peer] = args.pairs[peer].recv_bytes;
        words[3 * n + peer] = args.pairs[peer].recv_at;
    }
    args.counts = {words, words + n, words + 2 * n, words + 3 * n, in_bytes, out_bytes};
    memset(args.pairs, 0, sizeof args.pairs);
}

static const setting exchange_short = SETTING(exchange_short);

/* Launches an exchange; ranks with short messages may use a different kernel. sent, expected:
 * what rank 0 sends to rank 1, and what rank 1 expects, if they differ. */
static void exchange(scene &s, const setting &it, weir_collective collective, const matrix &x,
                     uint32_t packet_bytes, size_t sent = 0, size_t expected = 0)
{
    int n = s.m.nranks(), hidden = collective == WEIR_COLL_ALLTOALLV && s.m.random(3) == 0;
    weiri_gpu_shape shape = shape_for(s, it);
    for (int rank = 0; rank < n; rank++) {
        buffer in = input_for(s, rank, x.in[rank]), out = buffer_for(s, rank, x.out[rank]);
        weiri_gpu_args args = s.m.args(rank, in, out);
        fill(s, rank, in.data, in.bytes);
        std::vector<char> &received = expect(s, it.name, rank, out);
        for (int peer = 0; peer < n; peer++) {
            args.pairs[peer] = {x.send_at[rank][peer], x.bytes[rank][peer], x.recv_at[rank][peer],
                                x.bytes[peer][rank]};
            for (size_t i = 0; i < x.bytes[peer][rank]; i++)
                received[x.recv_at[rank][peer] + i] =
                    byte_of(s.launches, peer, x.send_at[peer][rank] + i);
        }
        if (sent != expected && rank == 0)
            args.pairs[1].send_bytes = sent;
        if (sent != expected && rank == 1)
            args.pairs[0].recv_bytes = expected;
        args.collective = collective;
        args.packet_bytes = packet_bytes;
        if (collective == WEIR_COLL_ALLTOALL)
            args.count = args.bytes = x.bytes[0][0];
        if (hidden)
            pass_pairs_in_memory(s, rank, x.in[rank], x.out[rank], args);
        if (collective != WEIR_COLL_ALLTOALL)
            shape = shape_for(s, it);
        int may_be_short = collective != WEIR_COLL_ALLTOALL && s.m.random(2);
        int is_short = may_be_short && weiri_gpu_exchange_short_serves(&args);
        queue(s, is_short ? exchange_short : it, rank, shape, args);
    }
    s.launches++;
}

static void alltoall(scene &s, const setting &it, size_t bytes, uint32_t packet_bytes)
{
    matrix x;
    for (int from = 0; from < 8; from++)
        for (int to = 0; to < 8; to++)
            x.bytes[from][to] = bytes;
    lay_out(s, x, 0);
    exchange(s, it, WEIR_COLL_ALLTOALL, x, packet_bytes);
}

/* Many pairs exchange nothing, some a little, few a lot. */
static void alltoallv(scene &s, const setting &it, size_t most, uint32_t packet_bytes)
{
    matrix x;
    for (int from = 0; from < 8; from++)
        for (int to = 0; to < 8; to++)
            x.bytes[from][to] = s.m.random(3) == 0   ? 0
                                : s.m.random(3) == 0 ? s.m.random(most)
                                                     : s.m.random(2 * packet_bytes);
    lay_out(s, x, 40);
    exchange(s, it, WEIR_COLL_ALLTOALLV, x, packet_bytes);
}

/* Each rank sends to the next but one; some send nothing. */
static void sendrecv(scene &s, const setting &it, size_t most, uint32_t packet_bytes)
{
    matrix x;
    int n = s.m.nranks();
    memset(&x, 0, sizeof x);
    for (int from = 0; from < n; from++)
        if (s.m.random(4))
            x.bytes[from][(from + 2) % n] = 1 + s.m.random(most);
    lay_out(s, x, 0);
    exchange(s, it, WEIR_COLL_SENDRECV, x, packet_bytes);
}

/* -------------------------------------------------------------------- cases */

static const setting allgather_packet = SETTING(allgather_packet);
static const setting allgather_ll128 = SETTING_OF_WARPS(allgather_ll128);
static const setting allgather_ring = SETTING_OF_WARPS(allgather_ring);
static const setting allgather_direct = SETTING(allgather_direct);
static const setting broadcast_packet = SETTING(broadcast_packet);
static const setting broadcast_ll128 = SETTING_OF_WARPS(broadcast_ll128);
static const setting broadcast_chain = SETTING(broadcast_chain);
static const setting broadcast_direct = SETTING(broadcast_direct);
static const setting exchange_packet = SETTING(exchange_packet);
static const setting exchange_ll128 = SETTING_OF_WARPS(exchange_ll128);
static const setting alltoall_rotation = SETTING_OF_WARPS(alltoall_rotation);
static const setting exchange_direct = SETTING(exchange_direct);

enum subject {
    ALLGATHER_PACKET,
    ALLGATHER_LL128,
    ALLGATHER_RING,
    ALLGATHER_DIRECT,
    ALLGATHER_EXCHANGE,
    BROADCAST_PACKET,
    BROADCAST_LL128,
    BROADCAST_CHAIN,
    BROADCAST_DIRECT,
    ALLTOALL_PACKET,
    ALLTOALL_LL128,
    ALLTOALL_ROTATION,
    ALLTOALL_DIRECT,
    ALLTOALLV,
    SENDRECV,
    ALL_IN_TURN,
};

static const char *const subject_names[] = {
    "allgather (packet)", "allgather (ll128)",  "allgather (ring)",   "allgather (direct)",
    "allgather (exchange)",
    "broadcast (packet)", "broadcast (ll128)",  "broadcast (chain)",  "broadcast (direct)",
    "alltoall (packet)",  "alltoall (ll128)",   "alltoall (rotation)", "alltoall (direct)",
    "alltoallv",          "sendrecv",           "all, alternating",
};

static void queue_one(scene &s, int subject, size_t most)
{
    size_t bytes = 1 + s.m.random(s.m.random(2) ? most : 40);
    uint32_t packet_bytes = 1 + (uint32_t)s.m.random(64);
    switch (subject == ALL_IN_TURN ? (int)s.m.random(ALL_IN_TURN) : subject) {
    case ALLGATHER_PACKET:
        return allgather(s, allgather_packet, bytes);
    case ALLGATHER_LL128:
        return allgather(s, allgather_ll128, bytes);
    case ALLGATHER_RING:
        return allgather(s, allgather_ring, bytes);
    case ALLGATHER_DIRECT:
        return allgather(s, allgather_direct, bytes);
    case ALLGATHER_EXCHANGE:
        return allgather(s, exchange_direct, bytes, packet_bytes);
    case BROADCAST_PACKET:
        return broadcast(s, broadcast_packet, bytes);
    case BROADCAST_LL128:
        return broadcast(s, broadcast_ll128, bytes);
    case BROADCAST_CHAIN:
        return broadcast(s, broadcast_chain, bytes);
    case BROADCAST_DIRECT:
        return broadcast(s, broadcast_direct, bytes);
    case ALLTOALL_PACKET:
        return alltoall(s, exchange_packet, bytes, 0);
    case ALLTOALL_LL128:
        return alltoall(s, exchange_ll128, bytes, 0);
    case ALLTOALL_ROTATION:
        return alltoall(s, alltoall_rotation, bytes, 0);
    case ALLTOALL_DIRECT:
        return alltoall(s, exchange_direct, bytes, packet_bytes);
    case ALLTOALLV:
        return alltoallv(s, exchange_direct, most, packet_bytes);
    case SENDRECV:
        return sendrecv(s, exchange_direct, most, packet_bytes);
    }
}

/* Runs the queued launches and compares the outputs. Returns what went wrong, or "". */
static std::string run_and_compare(scene &s)
{
    std::string why;
    if (!s.m.run())
        why = s.m.report();
    for (const expectation &e : s.expected) {
        size_t at = 0;
        while (at < e.bytes.size() && e.bytes[at] == e.out.data[at])
            at++;
        if (at < e.bytes.size())
            return why + e.name + ": rank " + std::to_string(e.rank) + " has wrong data at byte " +
                   std::to_string(at) + " of " + std::to_string(e.bytes.size());
    }
    return why;
}

static std::string launches_of(int subject, int nranks, uint64_t seed, places where, size_t most)
{
    scene s(nranks, seed);
    s.where = where;
    s.aligned = seed % 4 == 0;
    for (int launch = 0; launch < 5; launch++)
        queue_one(s, subject, most);
    std::string why = run_and_compare(s);
    return why.empty() ? why
                       : why + "\n" + std::to_string(nranks) + " ranks, seed " +
                             std::to_string(seed) + ", places " + std::to_string(where);
}

/* Numbers of ranks in steps, and all kinds of placement, which a step of 3 would not reach. */
static void test_sizes(int subject, size_t most, uint64_t seeds, int step)
{
    std::string why;
    for (int nranks = 2; nranks <= 8 && why.empty(); nranks += step)
        for (uint64_t seed = 1; seed <= seeds && why.empty(); seed++)
            why = launches_of(subject, nranks, seed * 8 + (uint64_t)nranks,
                              (places)((seed + (uint64_t)nranks) % 3), most);
    ok(why.empty(), why, "%s, up to %zu bytes, 2 to 8 ranks in steps of %d", subject_names[subject],
       most, step);
}

/* Much data in one block or in many: many rounds, and more blocks than lanes (parallel message
 * queues of a pair). */
static void test_many_blocks(int subject, int blocks, int nranks, size_t bytes)
{
    std::string why;
    for (int where = ALL_MAPPED; where <= MIXED && why.empty(); where++) {
        scene s(nranks, (uint64_t)(subject * 3 + where));
        s.where = (places)where;
        s.blocks = blocks;
        for (int launch = 0; launch < 2; launch++)
            queue_one(s, subject, bytes);
        why = run_and_compare(s);
    }
    ok(why.empty(), why, "%s, up to %zu bytes, %d ranks, up to %d blocks", subject_names[subject],
       bytes, nranks, blocks);
}

/* With more blocks than lanes, blocks without a lane receive no data, but must still receive their
 * peers' messages before they send the next ones. */
static void test_more_blocks_than_lanes(uint64_t seeds)
{
    enum { UNIT_BYTES = 2048, LAUNCHES = 12 };
    std::string why;
    for (uint64_t seed = 1; seed <= 60 * seeds && why.empty(); seed++) {
        scene s(2, seed);
        s.where = ALL_PLAIN;
        s.blocks = 2 * WEIRI_GPU_LANES_MAX;
        for (int launch = 0; launch < LAUNCHES; launch++)
            allgather(s, allgather_direct, (size_t)s.blocks * UNIT_BYTES);
        why = run_and_compare(s);
    }
    ok(why.empty(), why, "allgather by more blocks than lanes, in launches without a pause");
}

/* In a chain or a ring most ranks exchange no data with most others. Slots of packets are used
 * again two launches later, so each rank must have heard of all others meanwhile. */
static void test_chains_between_packets(uint64_t seeds)
{
    std::string why;
    for (uint64_t seed = 1; seed <= 40 * seeds && why.empty(); seed++) {
        scene s(4 + (int)(seed % 2), seed);
        s.blocks = 2;
        for (int launch = 0; launch < 7; launch++) {
            const size_t bytes = 1 + s.m.random(40);
            if (launch % 2 && seed % 3)
                broadcast(s, broadcast_chain, bytes);
            else if (launch % 2)
                allgather(s, allgather_ring, bytes);
            else
                broadcast(s, broadcast_packet, bytes);
        }
        why = run_and_compare(s);
    }
    ok(why.empty(), why, "broadcasts by chain, allgathers by ring, between broadcasts by packets");
}

/* The longest call that an LL128 kernel serves ends within its sender's slot, and the last slot
 * within the buffer of lines. Without NVLink such kernels serve no call. */
static void test_lines_fit_slots()
{
    static const struct {
        const setting &it;
        weir_collective collective;
    } kernels[] = {{allgather_ll128, WEIR_COLL_ALLGATHER},
                   {exchange_ll128, WEIR_COLL_ALLTOALL},
                   {broadcast_ll128, WEIR_COLL_BROADCAST}};
    std::string why;
    for (const auto &kernel : kernels)
        for (int nranks = 2; nranks <= 8; nranks++) {
            weiri_gpu_args args = {};
            args.view.nranks = nranks;
            args.nvlink = 1;
            args.collective = kernel.collective;
            uint64_t served = 0;
            for (uint64_t step = 1 << 27; step; step /= 2) {
                args.bytes = served + step;
                served += kernel.it.serves(&args) ? step : 0;
            }
            const uint64_t slot = weiri_gpu_ll128_slot_at<0>(args.view, 1, 1, 0) -
                                  weiri_gpu_ll128_slot_at<0>(args.view, 0, 1, 0);
            const uint64_t shares = kernel.collective == WEIR_COLL_BROADCAST ? nranks - 1 : 1;
            const uint64_t room = slot / WEIRI_GPU_UNIT_BYTES * WEIRI_GPU_UNIT_DATA * shares;
            const uint64_t end = weiri_gpu_ll128_slot_at<0>(args.view, nranks - 1, 1, 0) + slot;
            args.bytes = 1;
            args.nvlink = 0;
            if (kernel.it.serves(&args) || served > room ||
                served + 2 * shares * WEIRI_GPU_UNIT_DATA < room ||
                end > WEIRI_GPU_LINES_AT + WEIRI_GPU_LINES_BYTES)
                why += std::string(kernel.it.name) + " serves " + std::to_string(served) + " of " +
                       std::to_string(room) + " bytes of " + std::to_string(nranks) + " ranks\n";
        }
    ok(why.empty(), why, "LL128 lines end within their slots");
}

/* Sender and receiver of one pair disagree on a length: the receiver must report it, no rank may
 * write outside of an output, all other pairs must get their data, and the kernels must end. */
static std::string mismatched(size_t sent, size_t expected, places where, uint64_t seed)
{
    enum { NRANKS = 3, PACKET_BYTES = 64 };
    scene s(NRANKS, seed);
    matrix x;
    s.where = where;
    for (int from = 0; from < NRANKS; from++)
        for (int to = 0; to < NRANKS; to++)
            x.bytes[from][to] = from == to ? 7 : 50;
    x.bytes[0][1] = sent > expected ? sent : expected; /* room for either */
    lay_out(s, x, 0);
    exchange(s, exchange_direct, WEIR_COLL_ALLTOALLV, x, PACKET_BYTES, sent, expected);
    const expectation &at_other = s.expected[2];
    bool ended_well = s.m.run();
    const std::string &report = s.m.report();
    std::string how = std::to_string(sent) + " bytes sent, " + std::to_string(expected) +
                      " expected, places " + std::to_string(where) + ": ";
    if (ended_well || report.find("waited for other counts") == std::string::npos)
        return how + "no rank reported it\n" + report;
    if (report.find("overrun") != std::string::npos)
        return how + report;
    if (memcmp(at_other.bytes.data(), at_other.out.data, at_other.bytes.size()))
        return how + "an uninvolved rank has wrong data\n" + report;
    const expectation &at_receiver = s.expected[1];
    for (size_t i = expected; i < x.bytes[0][1]; i++)
        if (at_receiver.out.data[i] != at_receiver.before[i])
            return how + "more was stored than expected\n" + report;
    return "";
}

static void mismatches()
{
    static const size_t lengths[] = {0, 9, 20, 64, 100, 3000};
    std::string why;
    uint64_t seed = 1;
    for (size_t sent : lengths)
        for (size_t expected : lengths)
            for (int where = ALL_MAPPED; where <= MIXED && why.empty(); where++)
                if (sent != expected)
                    why = mismatched(sent, expected, (places)where, seed++);
    ok(why.empty(), why, "counts that differ are reported");
}

int main(int argc, char **argv)
{
    const bool whole =
        argc > 1 || long_part("2 of 3 random schedules of each number of ranks, 60 blocks, 3 of 7 "
                              "numbers of ranks with long messages");
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : whole ? 3 : 1;
    for (int subject = 0; subject <= ALL_IN_TURN; subject++)
        test_sizes(subject, 3000, seeds, 1);
    for (int subject = 0; subject <= ALL_IN_TURN; subject++)
        test_sizes(subject, 40000, (seeds + 2) / 3, whole ? 1 : 2);
    for (int subject = 0; subject < ALL_IN_TURN; subject++) {
        test_many_blocks(subject, 1, 2, 300000);
        if (whole || subject % 2)
            test_many_blocks(subject, 60, 3, 200000);
    }
    test_more_blocks_than_lanes(seeds);
    test_chains_between_packets(seeds);
    test_lines_fit_slots();
    mismatches();
    return tap_done();
}
