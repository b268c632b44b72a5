/*
 * Proves the kernels of transfers of blocks, in the emulator, against a model that copies byte by
 * byte: lists of 2 and 3 words, dimensions, any alignment and number of parts; a rank that waits
 * for a tag forwards what it received, so a tag that came before its data would be seen. Entries
 * that exceed a pool are reported, are not copied, and keep the tag from being stored; a wait
 * without a tag ends at its deadline.
 */
#include "verify/tests/support/gpu_emulator.hh"
#include "verify/tests/support/gpu_tap.hh"

#include "blocks/cuda/args.h"

#include <cstring>
#include <deque>
#include <vector>

using namespace emulator;

enum { POOL = 6000, SLOTS = 2 };

struct one_launch {
    const void *kernel;
    blocks_gpu_args copy;
    blocks_gpu_wait wait;
    bool is_wait;
};

static void run_launch(weiri_gpu_args args)
{
    const one_launch *launch = (const one_launch *)(uintptr_t)args.in;
    if (launch->is_wait)
        ((void (*)(blocks_gpu_wait))launch->kernel)(launch->wait);
    else
        ((void (*)(blocks_gpu_args))launch->kernel)(launch->copy);
}

/* One rank: its pool, its tags with the counters of its launches, and its report. */
struct place {
    buffer pool, words, report;
    std::vector<uint8_t> expected;
};

class scene {
  public:
    scene(int nranks, uint64_t seed, bool is_aligned);
    void copy(int rank, int from, int to, const std::vector<uint64_t> &list, uint64_t block_bytes,
              const std::vector<weir_blocks_dim> &dims, int slot, uint64_t tag, int parts_log = 0);
    void wait(int rank, int source, int slot, uint64_t tag);
    std::string check(bool is_run_right = true);
    uint64_t *tag(int rank, int source, int slot)
    {
        return (uint64_t *)places[(size_t)rank].words.data + source * SLOTS + slot;
    }
    const blocks_gpu_report *report(int rank)
    {
        return (const blocks_gpu_report *)places[(size_t)rank].report.data;
    }

    machine m;
    std::vector<place> places;

  private:
    void launch(int rank, const one_launch &what);
    std::deque<one_launch> launches_;
    std::deque<buffer> lists_;
};

scene::scene(int nranks, uint64_t seed, bool is_aligned) : m(nranks, seed)
{
    m.expect_no_epochs();
    for (int rank = 0; rank < nranks; rank++) {
        place p;
        p.pool = m.alloc(rank, POOL, is_aligned ? 0 : m.random(16), MAPPED);
        p.words = m.alloc(rank, ((size_t)nranks * SLOTS * 2 + 1) * 8, 0, MAPPED);
        p.report = m.alloc(rank, sizeof(blocks_gpu_report), 0, MAPPED);
        memset(p.words.data, 0, p.words.bytes);
        memset(p.report.data, 0, p.report.bytes);
        for (size_t i = 0; i < POOL; i++)
            p.pool.data[i] = (char)m.random(256);
        p.expected.assign(p.pool.data, p.pool.data + POOL);
        places.push_back(p);
    }
}

void scene::launch(int rank, const one_launch &what)
{
    const buffer none = {NULL, 0, WEIRI_GPU_UNMAPPED};
    launches_.push_back(what);
    weiri_gpu_args wrapped = m.args(rank, none, none);
    wrapped.in = (const char *)&launches_.back();
    m.launch(
        rank, what.is_wait ? "wait" : "copy", (const void *)run_launch,
        {what.is_wait ? 1 : 1 + (int)m.random(3), what.is_wait ? 1 : 32 * (1 + (int)m.random(2))},
        wrapped);
}

/* Queues a copy, and applies it to the expected pools: valid entries only. */
void scene::copy(int rank, int from, int to, const std::vector<uint64_t> &list,
                 uint64_t block_bytes, const std::vector<weir_blocks_dim> &dims, int slot,
                 uint64_t tag_value, int parts_log)
{
    const buffer none = {NULL, 0, WEIRI_GPU_UNMAPPED};
    const size_t nranks = places.size(), words = block_bytes ? 2 : 3;
    const int peer = from == rank ? to : from;
    buffer kept = m.alloc_input(rank, list.size() * 8, 0, MAPPED);
    uint64_t *own = (uint64_t *)places[(size_t)rank].words.data + nranks * SLOTS;
    one_launch l = {};
    blocks_gpu_args &a = l.copy;
    memcpy(kept.data, list.data(), list.size() * 8);
    l.kernel = weiri_blocks_gpu_copy_kernel();
    a.view = m.args(rank, none, none).view;
    a.list.entries = (const uint64_t *)kept.data;
    a.list.count = list.size() / words;
    a.list.block_bytes = block_bytes;
    a.list.words = (int)words;
    a.list.repetitions = 1;
    for (const weir_blocks_dim &dim : dims) {
        a.list.dims[a.list.ndims++] = dim;
        a.list.repetitions *= dim.count;
        a.reach[0] += (dim.count - 1) * dim.source_stride;
        a.reach[1] += (dim.count - 1) * dim.destination_stride;
    }
    a.parts_log = parts_log;
    a.ranks[0] = from, a.ranks[1] = to;
    a.is_put = from == rank;
    for (int side = 0; side < 2; side++) {
        a.pools[side] = places[(size_t)a.ranks[side]].pool.data;
        a.pool_bytes[side] = POOL;
    }
    a.tag = tag_value;
    if (tag_value) {
        a.tag_at = tag(peer, rank, slot);
        a.arrived = own + peer * SLOTS + slot;
    }
    a.claimed = own + nranks * SLOTS;
    a.report = (blocks_gpu_report *)places[(size_t)rank].report.data;
    launch(rank, l);
    for (uint64_t r = 0; r < a.list.repetitions; r++)
        for (uint64_t e = 0; e < a.list.count; e++) {
            const blocks_entry entry = blocks_entry_at(&a.list, e),
                               shift = blocks_shift(&a.list, r);
            if (entry.bytes > POOL || entry.source > POOL - entry.bytes ||
                entry.destination > POOL - entry.bytes)
                continue;
            memcpy(places[(size_t)to].expected.data() + entry.destination + shift.destination,
                   places[(size_t)from].expected.data() + entry.source + shift.source, entry.bytes);
        }
}

void scene::wait(int rank, int source, int slot, uint64_t tag_value)
{
    const buffer none = {NULL, 0, WEIRI_GPU_UNMAPPED};
    one_launch l = {};
    l.is_wait = true;
    l.kernel = weiri_blocks_gpu_wait_kernel();
    l.wait = {m.args(rank, none, none).view, tag(rank, source, slot), tag_value, source};
    launch(rank, l);
}

std::string scene::check(bool is_run_right)
{
    std::string why;
    if (m.run() != is_run_right)
        why += is_run_right ? m.report() : "the run did not fail\n";
    for (size_t rank = 0; rank < places.size(); rank++)
        for (size_t i = 0; i < POOL; i++)
            if ((uint8_t)places[rank].pool.data[i] != places[rank].expected[i]) {
                why += "rank " + std::to_string(rank) + " byte " + std::to_string(i) + "\n";
                break;
            }
    return why;
}

/* Cells of the second half of a pool, in random order, from anywhere in the first half. */
static std::vector<uint64_t> draw_list(scene &s, size_t count, uint64_t block_bytes, uint64_t unit)
{
    const uint64_t cell = POOL / 2 / count / unit * unit;
    std::vector<uint64_t> cells, list;
    for (size_t e = 0; e < count; e++)
        cells.push_back(POOL / 2 + e * cell);
    for (size_t e = count; e-- > 1;)
        std::swap(cells[e], cells[s.m.random(e + 1)]);
    for (size_t e = 0; e < count; e++) {
        const uint64_t bytes = block_bytes ? block_bytes : s.m.random(cell + 1) / unit * unit;
        list.push_back(s.m.random(POOL / 2 - bytes + 1) / unit * unit);
        list.push_back(cells[e] + s.m.random(cell - bytes + 1) / unit * unit);
        if (!block_bytes)
            list.push_back(bytes);
    }
    return list;
}

/* Rank 0 puts to rank 1, which waits and forwards what it got to rank 2; rank 2 gets from rank 0.
 */
static void test_transfers(uint64_t seeds)
{
    std::string why;
    for (uint64_t seed = 0; seed < 40 * seeds && why.empty(); seed++) {
        const bool is_aligned = seed % 2;
        const uint64_t unit = is_aligned ? 16 : 1, block = seed % 3 ? 0 : 32 + (is_aligned ? 0 : 5);
        const size_t count = 1 + seed % 40;
        scene s(3, seed, is_aligned);
        const int parts_log = (int)s.m.random(4);
        s.copy(0, 0, 1, draw_list(s, count, block, unit), block, {}, 0, 7, parts_log);
        s.wait(1, 0, 0, 7);
        s.copy(1, 1, 2, {POOL / 2, 0, 1000, 4500, 1500, 1500}, 0, {}, 1, 3, parts_log);
        s.wait(2, 1, 1, 2);
        s.copy(2, 0, 2, {0, 1200, 300, 77, 1501, 11, 5, 1600, 0}, 0, {}, 0, 1);
        s.wait(0, 2, 0, 1);
        why = s.check();
        if (why.empty() && (*s.tag(1, 0, 0) != 7 || *s.tag(2, 1, 1) != 3 || *s.tag(0, 2, 0) != 1))
            why = "a tag is missing\n";
        if (!why.empty())
            why += "seed " + std::to_string(seed) + "\n";
    }
    ok(why.empty(), why, "lists are copied, and tags come after their data");
}

static void test_dimensions()
{
    std::string why;
    for (uint64_t seed = 0; seed < 8 && why.empty(); seed++) {
        scene s(2, seed, seed % 2);
        s.copy(0, 0, 1, {0, 96, 64, 0, 128, 32}, 32, {{4, 1000, 160}, {2, 300, 2000}}, 0, 1, 1);
        s.copy(0, 0, 1, {0, 1000}, 32, {{4, 1000, 160}}, 0, 2, 0); /* the counters are free again */
        s.wait(1, 0, 0, 2);
        why = s.check();
    }
    ok(why.empty(), why, "dimensions repeat a list");
}

/* The other entries are copied; the tag is not stored, also not by the launch before. */
static void test_bad_entries()
{
    static const struct {
        std::vector<uint64_t> list;
        uint64_t problem, entry;
    } rows[] = {
        {{0, 3000, 16, POOL - 7, 3100, 8, 64, 3200, 16}, BLOCKS_GPU_SOURCE, 1},
        {{0, 3000, 16, 32, 3100, 8, 64, POOL - 15, 16}, BLOCKS_GPU_DESTINATION, 2},
        {{0, UINT64_MAX - 3, 16}, BLOCKS_GPU_DESTINATION, 0},
        {{0, 0, UINT64_MAX}, BLOCKS_GPU_SOURCE, 0},
    };
    std::string why;
    for (const auto &row : rows) {
        scene s(2, 5, true);
        s.copy(0, 0, 1, row.list, 0, {}, 0, 4, 1);
        why += s.check();
        if (s.report(0)->problem != row.problem || s.report(0)->entry != row.entry ||
            s.report(0)->rank != (row.problem == BLOCKS_GPU_SOURCE ? 0 : 1))
            why += "reported " + std::to_string(s.report(0)->problem) + " of entry " +
                   std::to_string(s.report(0)->entry) + "\n";
        if (*s.tag(1, 0, 0))
            why += "the tag was stored\n";
        s.copy(0, 0, 1, {0, 3000, 16}, 0, {}, 0, 5);
        why += s.check();
        if (*s.tag(1, 0, 0) != 5)
            why += "the next call stored no tag\n";
    }
    ok(why.empty(), why, "entries that exceed a pool are reported and not copied");
}

static void test_deadline()
{
    scene s(2, 1, true);
    s.copy(0, 0, 1, {0, 3000, 16}, 0, {}, 0, 4);
    s.wait(1, 0, 0, 5);
    const std::string why = s.check(false);
    ok(why.empty(), why, "a wait without a tag ends at its deadline");
}

int main(int argc, char **argv)
{
    test_transfers(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    test_dimensions();
    test_bad_entries();
    test_deadline();
    return tap_done();
}
