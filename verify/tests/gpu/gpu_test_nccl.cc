/*
 * Proves the sends and receives of the NCCL-compatible library in the emulator: ranks launch
 * different sets of messages, some ranks none, with lengths around the limits of packets, parts,
 * pieces and lanes (p2p.cuh defines these), in several launches, by blocks that serve one lane or
 * several. Lengths that differ are reported. Injected faults, a sender that does not wait for room
 * and a receiver that does not wait for data, are detected.
 */
#include "nccl/p2p/p2p.cuh"

#include "verify/tests/support/gpu_emulator.hh"
#include "verify/tests/support/gpu_tap.hh"

#include <cstdlib>
#include <vector>

using namespace emulator;

enum { RANKS_MAX = 4, ROUNDS = 3, LAUNCHES = 2, EACH = 2 };
enum fault { NONE, NO_ROOM, NO_DATA, LENGTH };

static void kernel(weiri_gpu_args args)
{
    const uint64_t epoch = weiri_gpu_epoch(args.view);
    weiri_p2p_args mine = *(const weiri_p2p_args *)(uintptr_t)args.in;
    mine.guard = args.view.guard;
    if (weiri_p2p_are_short(&mine))
        weiri_p2p_exchange<true>(mine);
    else
        weiri_p2p_exchange<false>(mine);
    weiri_gpu_advance_epoch(args.view, epoch);
}

/* The length of message i of a round; ~0 if it is not sent. */
static uint64_t length_of(uint64_t seed, int round, int from, int to, int i)
{
    static const uint64_t lengths[] = {0,   1,   63,  64,  65,   127,  128,  129,
                                       256, 257, 384, 385, 1024, 2049, 5000, 769};
    uint64_t which = seed * 31 + (uint64_t)(round * 64 + from * 16 + to * 4 + i);
    uint64_t mixed = which * 0x9e3779b97f4a7c15u;
    return mixed >> 61 == 0 ? ~(uint64_t)0 : lengths[(mixed >> 33) % 16];
}

static char byte_of(int round, int from, int to, int i, uint64_t at)
{
    return (char)(at * 7 + at / 251 + (uint64_t)(round * 89 + from * 23 + to * 5 + i));
}

static buffer make_mailbox(machine &m, int rank, weiri_p2p_lanes lanes)
{
    const size_t boxes = (size_t)m.nranks() - 1;
    buffer mailbox = m.alloc(rank, boxes * weiri_p2p_box_bytes(lanes), 0, MAPPED);
    memset(mailbox.data, 0, mailbox.bytes);
    return mailbox;
}

/* Draws how many of `all` lanes also have packets. */
static weiri_p2p_lanes lanes_of(int all, uint64_t seed)
{
    return {all, 1 + (int)(seed / 3) % all};
}

/* Adds one more call to the last flow. */
static void add_call(weiri_p2p_args &args, const buffer &data, int peer, int sends)
{
    args.call[args.ncalls++] = {data.data, data.bytes, peer, sends};
    const int used = weiri_p2p_lanes_of(data.bytes, args.lanes);
    args.blocks_each = used > args.blocks_each ? used : args.blocks_each;
}

/* Queues a launch; the caller keeps args. Blocks for long messages serve one lane each, or several
 * as long as each has a thread. */
static void queue(machine &m, weiri_p2p_args &args, int threads)
{
    const int lanes = args.blocks_each, fewest = (lanes - 1) / threads + 1;
    if (!weiri_p2p_are_short(&args))
        args.blocks_each = fewest + (int)m.random((uint64_t)(lanes - fewest + 1));
    buffer none = m.alloc(args.rank, 16, 0, PLAIN);
    weiri_gpu_args launched = m.args(args.rank, none, none);
    launched.in = (const char *)&args;
    m.launch(args.rank, "exchange", (const void *)kernel,
             {args.nflows * args.blocks_each + args.own.blocks, threads}, launched);
}

struct message {
    buffer data;
    int round, from, to, i;
    uint64_t bytes;
};

struct scene {
    machine &m;
    uint64_t seed;
    weiri_p2p_lanes lanes;
    std::vector<char *> mailboxes;
    std::vector<std::unique_ptr<weiri_p2p_args>> kept;
    std::vector<message> received;
};

/* Which of a round's launches contains a message. With even seeds the first one has only the short
 * messages. */
static int launch_of(const scene &s, uint64_t bytes)
{
    return s.seed % 2 == 0 && !weiri_p2p_is_short(bytes, s.lanes);
}

/* Adds one direction of a pair to a rank's launch. */
static void add_flow(scene &s, weiri_p2p_args &args, int round, int number, int from, int to,
                     int sends, int fault)
{
    int before = args.ncalls, rank = sends ? from : to;
    for (int i = 0; i < EACH; i++) {
        uint64_t bytes = length_of(s.seed, round, from, to, i);
        if (bytes == ~(uint64_t)0 || launch_of(s, bytes) != number)
            continue;
        if (fault == LENGTH && !sends && from == 0 && to == 1 && round == 1)
            bytes++;
        buffer data = s.m.alloc(rank, bytes, (size_t)s.m.random(16), MAPPED);
        for (uint64_t at = 0; sends && at < bytes; at++)
            data.data[at] = byte_of(round, from, to, i, at);
        if (!sends)
            s.received.push_back({data, round, from, to, i, bytes});
        add_call(args, data, sends ? to : from, sends);
    }
    if (args.ncalls > before)
        args.first[args.nflows++] = before;
    args.first[args.nflows] = args.ncalls;
}

/* Adds what a rank sends to itself, by one block or more. */
static void add_own(scene &s, weiri_p2p_args &args, int round, int rank)
{
    static const uint64_t lengths[] = {1, 16, 127, 128, 129, 1000, 4099};
    const uint64_t bytes = lengths[s.m.random(7)];
    buffer from = s.m.alloc_input(rank, bytes, (size_t)s.m.random(16), PLAIN);
    buffer to = s.m.alloc(rank, bytes, (size_t)s.m.random(16), PLAIN);
    for (uint64_t at = 0; at < bytes; at++)
        from.data[at] = byte_of(round, rank, rank, 0, at);
    args.own = {to.data, from.data, bytes, 1 + (int)s.m.random(4)};
    s.received.push_back({to, round, rank, rank, 0, bytes});
}

static void launch(scene &s, int rank, int round, int number, int fault)
{
    s.kept.emplace_back(new weiri_p2p_args());
    weiri_p2p_args &args = *s.kept.back();
    args.rank = rank;
    args.lanes = s.lanes;
    for (int i = 0; i < s.m.nranks(); i++)
        args.mailbox[i] = s.mailboxes[(size_t)i];
    for (int peer = 0; peer < s.m.nranks(); peer++) {
        if (peer == rank)
            continue;
        add_flow(s, args, round, number, rank, peer, 1, fault);
        add_flow(s, args, round, number, peer, rank, 0, fault);
    }
    if (!args.ncalls)
        return;
    if (s.m.random(2))
        add_own(s, args, round, rank);
    const int threads[] = {1, 33, 64, 96};
    queue(s.m, args, threads[s.m.random(4)]);
}

/* Injects a fault by storing what peers would have sent. */
static void inject(scene &s, int fault)
{
    for (int rank = 0; rank < s.m.nranks(); rank++)
        for (int peer = 0; peer < s.m.nranks(); peer++)
            for (int lane = 0; peer != rank && lane < s.lanes.all; lane++) {
                char *box = weiri_p2p_box(s.mailboxes[(size_t)rank], rank, peer, s.lanes);
                weiri_p2p_lane *at = weiri_p2p_lane_at(box, lane);
                at->taken = fault == NO_ROOM ? 1 << 20 : 0;
                at->sent = fault == NO_DATA ? 1 << 20 : 0;
            }
}

static std::string check(const scene &s)
{
    for (const message &got : s.received)
        for (uint64_t at = 0; at < got.bytes; at++)
            if (got.data.data[at] != byte_of(got.round, got.from, got.to, got.i, at))
                return "wrong data from " + std::to_string(got.from) + " to " +
                       std::to_string(got.to) + " at " + std::to_string(at);
    return "";
}

static std::string run(int nranks, uint64_t seed, int fault)
{
    machine m(nranks, seed);
    scene s = {m, seed, lanes_of(1 + (int)(seed % 3), seed), {}, {}, {}};
    for (int rank = 0; rank < nranks; rank++)
        s.mailboxes.push_back(make_mailbox(m, rank, s.lanes).data);
    if (fault == NO_ROOM || fault == NO_DATA)
        inject(s, fault);
    for (int round = 0; round < ROUNDS; round++)
        for (int rank = 0; rank < nranks; rank++)
            for (int number = 0; number < LAUNCHES; number++)
                launch(s, rank, round, number, fault);
    if (!m.run())
        return m.report();
    return check(s);
}

/* Two ranks with several lanes; rank 0 sends to rank 1. */
struct pair {
    machine m;
    weiri_p2p_lanes lanes;
    buffer mailboxes[2];
    std::vector<std::unique_ptr<weiri_p2p_args>> launches[2];

    pair(uint64_t seed, int all) : m(2, seed), lanes(lanes_of(all, seed))
    {
        for (int rank = 0; rank < 2; rank++)
            mailboxes[rank] = make_mailbox(m, rank, lanes);
    }
    char *box(int rank) { return weiri_p2p_box(mailboxes[rank].data, rank, 1 - rank, lanes); }
    weiri_p2p_args &begin(int rank)
    {
        launches[rank].emplace_back(new weiri_p2p_args());
        weiri_p2p_args &args = *launches[rank].back();
        args.rank = rank;
        args.lanes = lanes;
        args.nflows = 1;
        for (int other = 0; other < 2; other++)
            args.mailbox[other] = mailboxes[other].data;
        return args;
    }
    /* Adds a message to the rank's last launch, or to a new one if that contains other messages. */
    buffer add(int rank, uint64_t bytes, bool mixed = false)
    {
        if (launches[rank].empty() ||
            (!mixed && weiri_p2p_is_short(launches[rank].back()->call[0].bytes, lanes) !=
                           weiri_p2p_is_short(bytes, lanes)))
            begin(rank);
        return add_to_last_flow(*launches[rank].back(), bytes, rank == 0);
    }
    /* Adds one more call to the last flow. */
    buffer add_to_last_flow(weiri_p2p_args &args, uint64_t bytes, int sends)
    {
        buffer data = m.alloc(args.rank, bytes, 0, MAPPED);
        for (uint64_t at = 0; at < bytes; at++)
            data.data[at] = byte_of(0, 0, 1, args.ncalls, at);
        add_call(args, data, 1 - args.rank, sends);
        args.first[args.nflows] = args.ncalls;
        return data;
    }
    void launch(int rank, int threads)
    {
        for (auto &args : launches[rank])
            queue(m, *args, threads);
    }
};

/* A sender whose receiver never comes gives up at its deadline and does not overwrite what the
 * receiver may still read: pieces of one message, and parts of several. */
static std::string absent_receiver(uint64_t seed, int threads)
{
    pair t(seed, 1);
    buffer data = t.add(0, (WEIRI_P2P_SLOTS + 1) * WEIRI_P2P_SLOT_BYTES);
    t.launch(0, threads);
    if (t.m.run())
        return "no rank reported it";
    const weiri_p2p_lane *lane = weiri_p2p_lane_at(t.box(1), 0);
    for (uint64_t at = 0; at < WEIRI_P2P_SLOTS * WEIRI_P2P_SLOT_BYTES; at++)
        if (lane->slot[at / WEIRI_P2P_SLOT_BYTES].data[at % WEIRI_P2P_SLOT_BYTES] !=
            data.data[at])
            return "byte " + std::to_string(at) + " was overwritten";
    return lane->sent == WEIRI_P2P_SLOTS ? "" : "pieces were announced that were not stored";
}

static std::string absent_receiver_of_parts(uint64_t seed, int threads)
{
    pair t(seed, 1);
    for (int i = 0; i <= WEIRI_P2P_SLOTS; i++)
        t.add(0, WEIRI_P2P_PART_BYTES);
    t.launch(0, threads);
    if (t.m.run())
        return "no rank reported it";
    const weiri_p2p_packets *packets = weiri_p2p_packets_at(t.box(1), t.lanes, 0);
    for (uint64_t i = 0; i < WEIRI_P2P_SLOTS; i++)
        for (int packet = 0; packet < 8 + WEIRI_P2P_PACKETS; packet++) {
            uint64_t word;
            if ((packet == 0 || packet >= 8) &&
                !weir_packet16_read(&packets->words[i][2 * packet], (uint32_t)i + 1, &word))
                return "packet " + std::to_string(packet) + " was overwritten";
        }
    return "";
}

/* One rank's calls in one group match calls that the other makes one by one: short and long
 * messages of a launch do not wait for each other. */
static std::string group_against_single_calls(uint64_t seed, int lanes)
{
    const uint64_t small = 40, large = 2000;
    pair t(seed, lanes);
    weiri_p2p_args &group = t.begin(0);
    t.add_to_last_flow(group, small, 1);
    t.add_to_last_flow(group, large, 1);
    group.nflows = 2;
    t.add_to_last_flow(group, small, 0);
    t.add_to_last_flow(t.begin(1), small, 0);
    t.add_to_last_flow(t.begin(1), large, 0);
    t.add_to_last_flow(t.begin(1), small, 1);
    for (int rank = 0; rank < 2; rank++)
        t.launch(rank, 32);
    return t.m.run() ? "" : t.m.report();
}

/* Sender and receiver disagree: the receiver must report it instead of waiting for its deadline. */
static std::string mismatched(uint64_t sent, uint64_t expected, int lanes, bool mixed,
                              uint64_t seed)
{
    static const uint64_t before[] = {8, 300}; /* other messages of the same launch */
    pair t(seed, lanes);
    for (uint64_t bytes : before)
        for (int rank = 0; rank < 2; rank++)
            t.add(rank, bytes, mixed);
    t.add(0, sent, mixed);
    t.add(1, expected, mixed);
    for (int rank = 0; rank < 2; rank++)
        t.launch(rank, 64);
    const bool ended_well = t.m.run();
    const std::string &report = t.m.report();
    if (ended_well || report.find("rank 1 waited for other counts") == std::string::npos ||
        report.find("overrun") != std::string::npos)
        return std::to_string(sent) + " bytes sent, " + std::to_string(expected) + " expected, " +
               std::to_string(lanes) + " lanes: " + report;
    return "";
}

static std::string mismatches(uint64_t seeds)
{
    static const uint64_t lengths[] = {0, 7, 8, 64, 100, 130, 384, 400, 3000};
    std::string why;
    for (uint64_t seed = 1; seed <= seeds; seed++)
        for (uint64_t sent : lengths)
            for (uint64_t expected : lengths)
                for (int i = 0; i < 4 && sent != expected && why.empty(); i++)
                    why = mismatched(sent, expected, i % 2 ? 3 : 1, i / 2, seed);
    return why;
}

/* Every byte of a short message is in one lane's part, the part fits, and parts begin at words. */
static std::string divide_short(uint64_t bytes, weiri_p2p_lanes lanes)
{
    const int used = weiri_p2p_lanes_of(bytes, lanes);
    std::string what = std::to_string(bytes) + " bytes, " + std::to_string(lanes.with_packets) +
                       " lanes: ";
    uint64_t next = 0;
    if (used < 1 || used > lanes.with_packets)
        return what + "uses lanes that do not exist";
    for (int lane = 0; lane < used; lane++) {
        uint64_t at, length = weiri_p2p_part(bytes, used, lane, &at);
        if (length > WEIRI_P2P_PART_BYTES || at % 8 || (length && at != next))
            return what + "a part is too long or misplaced";
        next += length;
    }
    return next == bytes ? "" : what + "bytes are left over";
}

/* Every byte is in exactly one piece, no piece is longer than a slot, and one round less would not
 * suffice. */
static std::string divide(uint64_t bytes, weiri_p2p_lanes lanes)
{
    const weiri_p2p_division cut = weiri_p2p_divide(bytes, lanes);
    std::vector<int> pieces_with(bytes, 0);
    std::string what =
        std::to_string(bytes) + " bytes, " + std::to_string(lanes.all) + " lanes: ";
    if (cut.lanes < 1 || cut.lanes > lanes.all || !cut.rounds)
        return what + "lanes that do not exist, or no round";
    if ((uint64_t)cut.lanes * (cut.rounds - 1) * WEIRI_P2P_SLOT_BYTES >= bytes && cut.rounds > 1)
        return what + "a round too many";
    for (int lane = 0; lane < cut.lanes; lane++)
        for (uint32_t round = 0; round < cut.rounds; round++) {
            uint64_t at, length = weiri_p2p_piece(bytes, cut, lane, round, &at);
            if (length > WEIRI_P2P_SLOT_BYTES || (length && at + length > bytes))
                return what + "a piece is too long";
            for (uint64_t i = 0; i < length; i++)
                pieces_with[at + i]++;
        }
    for (int with : pieces_with)
        if (with != 1)
            return what + "a byte is in " + std::to_string(with) + " pieces";
    return "";
}

static std::string divide_all()
{
    std::string why;
    for (int lanes : {1, 2, 3, 16, 32})
        for (uint64_t slots = 0; slots < 80; slots++)
            for (uint64_t more = 0; more < 5 && why.empty(); more++)
                why = divide(slots * WEIRI_P2P_SLOT_BYTES / 2 + (more < 3 ? more : 125 + more),
                             {lanes, 1});
    for (int lanes : {1, 2, 3, 16, 32})
        for (uint64_t bytes = 0; weiri_p2p_is_short(bytes, {64, lanes}) && why.empty(); bytes++)
            why = divide_short(bytes, {64, lanes});
    return why;
}

/* The blocks of all flows fit, serve all lanes, and are no fewer than necessary. */
static std::string divide_blocks(int lanes, int nflows, int room)
{
    const int blocks = weiri_p2p_blocks_for(lanes, nflows, room);
    std::string what = std::to_string(lanes) + " lanes of " + std::to_string(nflows) +
                       " flows, room for " + std::to_string(room) + ": " + std::to_string(blocks) +
                       " blocks";
    if (!blocks)
        return room / nflows * WEIRI_P2P_LANES_EACH_MAX < lanes ? "" : what;
    const int lanes_each = (lanes - 1) / blocks + 1;
    if (blocks > lanes || blocks * nflows > room || lanes_each > WEIRI_P2P_LANES_EACH_MAX)
        return what;
    const bool could_serve_fewer = lanes_each > 1 && (lanes - 1) / (lanes_each - 1) < room / nflows;
    return could_serve_fewer ? what + " serve more lanes than they need to" : "";
}

static std::string share_all()
{
    std::string why;
    for (int lanes : {1, 16, 32, 64, 128})
        for (int nflows = 1; nflows <= 2 * (WEIRI_GPU_RANKS_MAX - 1); nflows++)
            for (int room = 1; room <= 264 && why.empty(); room++)
                why = divide_blocks(lanes, nflows, room);
    return why;
}

int main(int argc, char **argv)
{
    const uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 8;
    std::string uneven = divide_all();
    ok(uneven.empty(), uneven, "messages are divided among lanes");
    std::string crowded = share_all();
    ok(crowded.empty(), crowded, "lanes are divided among blocks");
    for (int nranks = 2; nranks <= RANKS_MAX; nranks++) {
        std::string why;
        for (uint64_t seed = 1; seed <= seeds && why.empty(); seed++)
            why = run(nranks, seed, NONE);
        ok(why.empty(), why, "messages among %d ranks", nranks);
    }
    for (int threads : {1, 64, 96}) {
        std::string why;
        for (uint64_t seed = 1; seed <= seeds && why.empty(); seed++)
            why = absent_receiver(seed, threads) + absent_receiver_of_parts(seed, threads);
        ok(why.empty(), why, "a sender without a receiver ends at its deadline, %d threads",
           threads);
    }
    std::string stuck;
    for (uint64_t seed = 1; seed <= seeds && stuck.empty(); seed++)
        stuck = group_against_single_calls(seed, 1 + (int)(seed % 3));
    ok(stuck.empty(), stuck, "a group matches single calls");
    std::string unreported = mismatches(seeds / 4 + 1);
    ok(unreported.empty(), unreported, "lengths that differ are reported");
    static const char *const faults[] = {"", "a sender that does not wait for room",
                                         "a receiver that does not wait for data",
                                         "lengths that differ"};
    for (int fault = NO_ROOM; fault <= LENGTH; fault++) {
        bool found = false;
        for (uint64_t seed = 1; seed <= seeds && !found; seed++)
            found = !run(3, seed, fault).empty();
        ok(found, "", "detected: %s", faults[fault]);
    }
    return tap_done();
}
