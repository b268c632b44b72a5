/*
 * The emulator of gpu_emulator.hh. It runs in one thread; `now` is the machine that runs.
 *
 * While a launch lasts, each of its GPU threads is a fiber from the pool. Those that can run are in
 * `runnable`; a fiber that waits at a barrier is not. A fiber that yields draws the next one from
 * `runnable` and switches to it directly; main continues when no fiber is left.
 */
#include "verify/tests/support/gpu_words.h"

#include "verify/tests/support/gpu_emulator.hh"
#include "verify/tests/support/gpu_fibers.hh"

#include <cstdarg>
#include <deque>
#include <unistd.h>
#include <vector>

dim3 threadIdx, blockIdx, blockDim, gridDim;

/* Only types.c of the library is linked. */
extern "C" weir_status weiri_fail(weir_status status, const char *, ...)
{
    return status;
}

namespace {

using emulator::fiber;

enum {
    WARP = 32,
    GARBAGE = 0xa7, /* the bytes of memory to which nothing has been written */
    CANARY_BYTES = 256,
    CANARY = 0xc5,
    TIMEOUT_NS = 1000000,
    /* Steps of each runnable thread without any store after which frozen threads continue, and
     * after which all threads are considered to poll in vain. */
    PATIENCE = 40,
    DEADLOCK = 200,
    VOTES_MOST = 1 << 19, /* likewise, votes of threads in warps */
};

struct block;

struct gpu_thread : fiber {
    block *of = nullptr;
    dim3 index = {0, 0, 0};
    size_t runnable_index = 0;
};

/* A barrier of some threads of a block. */
struct barrier_state {
    std::vector<gpu_thread *> waiting;
    uint32_t members = 0;
    uint64_t sum = 0, result = 0; /* of a whole block */
    uint64_t given[WARP] = {}, lanes[WARP] = {};
};

struct launched;

/* A variable in the shared memory of a block. It is aligned like the strictest kernels demand. */
struct shared_variable {
    struct alignas(128) line {
        char byte[128];
    };
    const void *key;
    std::vector<line> lines;
};

struct block {
    launched *of = nullptr;
    dim3 index = {0, 0, 0};
    uint32_t left = 0; /* threads that have not ended */
    barrier_state all_threads, further[2]; /* barriers 0, and 1 and 2 */
    std::vector<barrier_state> warps;
    std::vector<shared_variable> shared;
};

struct launched {
    int rank;
    const char *name;
    void (*kernel)(weiri_gpu_args);
    weiri_gpu_shape shape;
    weiri_gpu_args args;
    uint64_t number;
    uint32_t left; /* threads */
    std::vector<std::unique_ptr<block>> blocks;
};

/* A buffer: canaries before and after it, then an inaccessible page. */
struct guarded {
    char *room, *data;
    size_t room_bytes, bytes, canary_bytes;
    int rank;
};

struct rank_state {
    char *scratch = nullptr;
    weiri_gpu_state state = {};
    uint64_t abort_word = 0, launches = 0;
    int regions = 0, resident = 0, most_resident = 0; /* thread blocks */
    weir_wait_record record = {};
    std::deque<std::unique_ptr<launched>> queue;
};

} // namespace

/* ------------------------------------------------------------------ machine */

struct emulator::machine_state {
    int nranks;
    uint64_t seed, steps = 0, quiet = 0, votes = 0, clock_ns = 1, step_ns = 0, misaligned = 0;
    std::vector<rank_state> ranks;
    std::vector<char *> regions;
    std::vector<guarded> buffers;
    std::string report;
    bool has_epochs = true;
    std::vector<std::unique_ptr<gpu_thread>> pool;
    std::vector<gpu_thread *> idle, runnable;
    gpu_thread main_thread;
    gpu_thread *current = &main_thread;
    /* What is frozen: one rank, block or thread, or all ranks but one. */
    enum { NOTHING, RANK, BLOCK, THREAD, OTHERS } frozen = NOTHING;
    int frozen_rank = 0;
    const void *frozen_one = nullptr;
    uint64_t frozen_until = 0;

    buffer add(int rank, size_t bytes, size_t misalignment, kind kind, size_t canary_bytes);
    uint64_t random(uint64_t below);
    void report_problem(const char *format, ...) __attribute__((format(printf, 2, 3)));
    void begin(int rank);
    void end_thread();
    void end_launch(int rank);
    void wake(gpu_thread *thread);
    void sleep();
    bool is_frozen(const gpu_thread *thread) const;
    void freeze_something();
    gpu_thread *draw();
    void yield();
    void enter(gpu_thread *next);
    void release(barrier_state *at);
    void check_canaries();
    void report_waits();
    void explain_deadlock();
};

namespace {

emulator::machine_state *now;

void thread_body()
{
    fiber::begun(&now->main_thread);
    for (;;) {
        launched *of = now->current->of->of;
        of->kernel(of->args);
        now->end_thread();
    }
}

} // namespace

uint64_t emulator::machine_state::random(uint64_t below)
{
    uint64_t z = seed += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (z ^ z >> 31) % below;
}

void emulator::machine_state::report_problem(const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    report += line;
    report += '\n';
}

/* ----------------------------------------------------------------- launches */

/* Begins the first launch in a rank's queue. */
void emulator::machine_state::begin(int rank)
{
    launched *launch = ranks[rank].queue.front().get();
    uint32_t threads = (uint32_t)launch->shape.threads;
    launch->left = threads * (uint32_t)launch->shape.blocks;
    for (int b = 0; b < launch->shape.blocks; b++) {
        launch->blocks.push_back(std::make_unique<block>());
        block *made = launch->blocks.back().get();
        made->of = launch;
        made->index = {(uint32_t)b, 0, 0};
        made->left = made->all_threads.members = threads;
        made->warps.resize((threads + WARP - 1) / WARP);
        ranks[rank].resident++;
        for (uint32_t t = 0; t < threads; t++) {
            if (idle.empty()) {
                pool.push_back(std::make_unique<gpu_thread>());
                pool.back()->make(thread_body);
                idle.push_back(pool.back().get());
            }
            gpu_thread *thread = idle.back();
            idle.pop_back();
            thread->of = made;
            thread->index = {t, 0, 0};
            made->warps[t / WARP].members++;
            wake(thread);
        }
    }
    if (ranks[rank].resident > ranks[rank].most_resident)
        ranks[rank].most_resident = ranks[rank].resident;
}

/* Called when the current thread's kernel has returned. */
void emulator::machine_state::end_thread()
{
    block *of = current->of;
    launched *launch = of->of;
    quiet = votes = 0;
    if (!--of->left)
        ranks[launch->rank].resident--;
    if (!of->all_threads.waiting.empty())
        report_problem("rank %d, %s, block %u: thread %u ended while others wait in a barrier",
                       launch->rank, launch->name, of->index.x, current->index.x);
    of->all_threads.members--;
    of->warps[current->index.x / WARP].members--;
    if (of->all_threads.members && of->all_threads.waiting.size() == of->all_threads.members)
        release(&of->all_threads);
    sleep();
    current->of = nullptr;
    idle.push_back(current);
    if (--launch->left == 0)
        end_launch(launch->rank);
    yield();
}

void emulator::machine_state::end_launch(int rank)
{
    rank_state &of = ranks[rank];
    const launched *launch = of.queue.front().get();
    const uint64_t epoch_word = (launch->number + has_epochs) << WEIRI_GPU_EPOCH_SHIFT;
    if (of.state.turns != epoch_word)
        report_problem("rank %d, %s: launch %llu left epoch word %#llx", rank, launch->name,
                 (unsigned long long)launch->number, (unsigned long long)of.state.turns);
    of.state.turns = (launch->number + 1) << WEIRI_GPU_EPOCH_SHIFT;
    of.queue.pop_front();
    if (!of.queue.empty())
        begin(rank);
}

/* ----------------------------------------------------------------- schedule */

void emulator::machine_state::wake(gpu_thread *thread)
{
    thread->runnable_index = runnable.size();
    runnable.push_back(thread);
}

/* Removes the current thread from the runnable ones. */
void emulator::machine_state::sleep()
{
    runnable[current->runnable_index] = runnable.back();
    runnable[current->runnable_index]->runnable_index = current->runnable_index;
    runnable.pop_back();
}

bool emulator::machine_state::is_frozen(const gpu_thread *thread) const
{
    switch (frozen) {
    case RANK:
        return thread->of->of->rank == frozen_rank;
    case OTHERS:
        return thread->of->of->rank != frozen_rank;
    case BLOCK:
        return thread->of == frozen_one;
    case THREAD:
        return thread == frozen_one;
    default:
        return false;
    }
}

void emulator::machine_state::freeze_something()
{
    const gpu_thread *victim = runnable[random(runnable.size())];
    frozen = (decltype(frozen))random(OTHERS + 1);
    frozen_rank = (int)random((uint64_t)nranks);
    frozen_one = frozen == BLOCK ? (const void *)victim->of : victim;
    frozen_until = steps + (runnable.size() << random(7));
}

gpu_thread *emulator::machine_state::draw()
{
    gpu_thread *drawn = nullptr;
    steps++;
    clock_ns += step_ns;
    quiet = step_ns ? 0 : quiet;
    if (++quiet > PATIENCE * runnable.size()) {
        frozen = NOTHING;
        frozen_until = steps + 1;
    } else if (steps > frozen_until) {
        freeze_something();
    }
    if (quiet > DEADLOCK * runnable.size() || votes > VOTES_MOST) {
        if (clock_ns == 1)
            explain_deadlock();
        clock_ns += TIMEOUT_NS / 4;
    }
    for (int i = 0; i < 32; i++) {
        drawn = runnable[random(runnable.size())];
        if (!is_frozen(drawn))
            break;
    }
    return drawn;
}

/* Yields; the current thread itself may be drawn next. */
void emulator::machine_state::yield()
{
    gpu_thread *next = &main_thread;
    if (!runnable.empty())
        next = draw();
    else
        for (const rank_state &rank : ranks)
            if (!rank.queue.empty())
                report_problem("rank %d: threads of %s wait in a barrier of their block forever",
                         rank.queue.front()->rank, rank.queue.front()->name);
    enter(next);
}

void emulator::machine_state::enter(gpu_thread *next)
{
    gpu_thread *last = current;
    block *of = next->of;
    if (of) {
        threadIdx = next->index;
        blockIdx = of->index;
        blockDim = {(uint32_t)of->of->shape.threads, 1, 1};
        gridDim = {(uint32_t)of->of->shape.blocks, 1, 1};
    }
    if (next == last)
        return;
    current = next;
    last->switch_to(next);
}

/* ----------------------------------------------------------------- barriers */

void emulator::machine_state::release(barrier_state *at)
{
    at->result = at->sum;
    at->sum = 0;
    memcpy(at->lanes, at->given, sizeof at->lanes);
    memset(at->given, 0, sizeof at->given);
    for (gpu_thread *thread : at->waiting)
        if (thread != current)
            wake(thread);
    at->waiting.clear();
    quiet = 0;
}

static void wait_at_barrier(barrier_state *at)
{
    at->waiting.push_back(now->current);
    now->quiet = 0; /* fewer threads can run: count their polls anew */
    if (at->waiting.size() == at->members) {
        now->release(at);
    } else {
        now->quiet = 0;
        now->sleep();
    }
    now->yield();
}

uint64_t weir_emulated_block_sum(uint64_t mine)
{
    barrier_state *at = &now->current->of->all_threads;
    at->sum += mine;
    wait_at_barrier(at);
    return at->result;
}

void weir_emulated_barrier(unsigned barrier, unsigned threads)
{
    barrier_state *at = &now->current->of->further[barrier - 1];
    at->members = threads;
    wait_at_barrier(at);
}

void weir_emulated_warp(uint64_t mine, uint64_t lanes[32])
{
    barrier_state *at = &now->current->of->warps[threadIdx.x / WARP];
    at->given[threadIdx.x % WARP] = mine;
    now->votes++; /* in each poll of a warp, so that it is no progress */
    wait_at_barrier(at);
    memcpy(lanes, at->lanes, sizeof at->lanes);
}

void *weir_emulated_shared(const void *key, size_t bytes)
{
    std::vector<shared_variable> &shared = now->current->of->shared;
    for (shared_variable &one : shared)
        if (one.key == key)
            return one.lines.data();
    shared_variable::line garbage;
    memset(garbage.byte, GARBAGE, sizeof garbage.byte);
    const size_t lines = (bytes - 1) / sizeof garbage + 1;
    shared.push_back({key, std::vector<shared_variable::line>(lines, garbage)});
    return shared.back().lines.data();
}

extern "C" void weir_emulated_relax(void)
{
    now->yield();
}

extern "C" void weir_emulated_stored(void)
{
    now->quiet = now->votes = 0;
    if (now->random(4) == 0)
        now->yield();
}

extern "C" uint64_t weir_emulated_clock_ns(void)
{
    return now->clock_ns;
}

extern "C" void weir_emulated_access16(const void *at)
{
    if ((uintptr_t)at % 16 && now->misaligned++ == 0)
        now->report_problem("rank %d: an access of 16 bytes at an address that ends in %x",
                      now->current->of->of->rank, (unsigned)((uintptr_t)at % 16));
}

/* ------------------------------------------------------------------ reports */

void emulator::machine_state::explain_deadlock()
{
    report_problem("deadlock after %llu steps", (unsigned long long)steps);
    for (const rank_state &rank : ranks) {
        if (rank.queue.empty())
            continue;
        const launched *launch = rank.queue.front().get();
        size_t in_barrier = 0;
        for (const auto &one : launch->blocks)
            in_barrier += one->all_threads.waiting.size();
        report_problem(
            "rank %d: launch %llu, %s, %d x %d threads: %u have not ended, %zu are in a barrier",
            launch->rank, (unsigned long long)launch->number, launch->name, launch->shape.blocks,
            launch->shape.threads, launch->left, in_barrier);
    }
}

void emulator::machine_state::report_waits()
{
    static const char *const kinds[] = {"nothing", "a word", "a signal", "a packet",
                                        "other counts", "a shorter send", "a shorter receive"};
    for (int r = 0; r < nranks; r++) {
        const weir_wait_record &record = ranks[r].record;
        if (record.kind)
            report_problem("rank %d waited for %s from rank %d: expected %#llx, saw %#llx", r,
                     kinds[record.kind <= WEIR_WAIT_RECV ? record.kind : 0], (int)record.peer,
                     (unsigned long long)record.expected, (unsigned long long)record.seen);
        else if (ranks[r].abort_word)
            report_problem("rank %d has aborted", r);
    }
}

void emulator::machine_state::check_canaries()
{
    for (const guarded &one : buffers) {
        const auto is_whole = [](const char *canaries, size_t bytes) {
            for (size_t i = 0; i < bytes; i++)
                if ((unsigned char)canaries[i] != CANARY)
                    return false;
            return true;
        };
        const bool before = is_whole(one.data - CANARY_BYTES, CANARY_BYTES);
        if (!before || !is_whole(one.data + one.bytes, one.canary_bytes))
            report_problem("rank %d: a buffer of %zu bytes was overrun %s", one.rank, one.bytes,
                     before ? "after its end" : "before its begin");
    }
}

/* --------------------------------------------------------- public interface */

namespace emulator {

machine::machine(int nranks, uint64_t seed) : its(new machine_state)
{
    its->nranks = nranks;
    its->seed = seed;
    its->ranks = std::vector<rank_state>((size_t)nranks);
    its->regions.resize(WEIRI_GPU_RANKS_MAX * (size_t)WEIRI_GPU_REGIONS_MAX);
    for (rank_state &rank : its->ranks) {
        rank.state.turns = (uint64_t)1 << WEIRI_GPU_EPOCH_SHIFT;
        void *scratch = mmap(nullptr, WEIRI_GPU_SCRATCH_BYTES, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (scratch == MAP_FAILED) {
            perror("mmap of a rank's scratch");
            exit(3);
        }
        rank.scratch = (char *)scratch;
    }
}

machine::~machine()
{
    for (rank_state &rank : its->ranks)
        munmap(rank.scratch, WEIRI_GPU_SCRATCH_BYTES);
    for (guarded &one : its->buffers)
        munmap(one.room, one.room_bytes);
}

int machine::nranks() const
{
    return its->nranks;
}

uint64_t machine::random(uint64_t below)
{
    return its->random(below);
}

/* Adds a buffer with at least canary_bytes bytes of canaries after it, and up to 15 more. */
buffer machine_state::add(int rank, size_t bytes, size_t misalignment, kind kind,
                          size_t canary_bytes)
{
    rank_state &of = ranks[(size_t)rank];
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t pages = (CANARY_BYTES + bytes + canary_bytes + 15 + page - 1) / page;
    char *room = (char *)mmap(nullptr, (pages + 1) * page, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED || mprotect(room + pages * page, page, PROT_NONE) ||
        (kind == MAPPED && of.regions == WEIRI_GPU_REGIONS_MAX)) {
        fprintf(stderr, "no address space for another buffer of rank %d\n", rank);
        exit(3);
    }
    size_t at = pages * page - canary_bytes - bytes;
    at -= (at - misalignment) % 16;
    canary_bytes = pages * page - at - bytes;
    memset(room + at - CANARY_BYTES, CANARY, CANARY_BYTES);
    memset(room + at, GARBAGE, bytes);
    memset(room + at + bytes, CANARY, canary_bytes);
    buffer made = {room + at, bytes, WEIRI_GPU_UNMAPPED};
    buffers.push_back({room, made.data, (pages + 1) * page, bytes, canary_bytes, rank});
    if (kind == MAPPED) {
        regions[(size_t)rank * WEIRI_GPU_REGIONS_MAX + (size_t)of.regions] = room;
        made.desc = (weiri_gpu_desc)++of.regions << 48 | at;
    }
    return made;
}

buffer machine::alloc(int rank, size_t bytes, size_t misalignment, kind kind)
{
    return its->add(rank, bytes, misalignment, kind, CANARY_BYTES);
}

buffer machine::alloc_input(int rank, size_t bytes, size_t misalignment, kind kind)
{
    return its->add(rank, bytes, misalignment, kind, 0);
}

weiri_gpu_args machine::args(int rank, const buffer &in, const buffer &out)
{
    rank_state &of = its->ranks[(size_t)rank];
    weiri_gpu_args args = {};
    args.view.rank = rank;
    args.view.nranks = its->nranks;
    args.view.state = &of.state;
    for (int peer = 0; peer < its->nranks; peer++)
        args.view.scratch[peer] = its->ranks[(size_t)peer].scratch;
    args.view.regions = its->regions.data();
    args.view.guard = {&of.abort_word, TIMEOUT_NS, 0, -1, &of.record};
    args.in = in.data;
    args.out = out.data;
    args.in_desc = in.desc;
    args.out_desc = out.desc;
    args.nvlink = 1;
    return args;
}

void machine::launch(int rank, const char *name, const void *kernel, weiri_gpu_shape shape,
                     const weiri_gpu_args &args)
{
    rank_state &of = its->ranks[(size_t)rank];
    std::unique_ptr<launched> launch(new launched);
    launch->rank = rank;
    launch->name = name;
    launch->kernel = (void (*)(weiri_gpu_args))kernel;
    launch->shape = shape;
    launch->args = args;
    launch->number = ++of.launches;
    of.queue.push_back(std::move(launch));
}

bool machine::run()
{
    size_t said = its->report.size();
    now = its.get();
    its->quiet = 0;
    for (int rank = 0; rank < its->nranks; rank++)
        if (!its->ranks[(size_t)rank].queue.empty())
            its->begin(rank);
    if (!its->runnable.empty())
        its->yield();
    its->report_waits();
    its->check_canaries();
    now = nullptr;
    return its->report.size() == said;
}

const std::string &machine::report() const
{
    return its->report;
}

void machine::let_time_pass(uint64_t ns_per_step)
{
    its->step_ns = ns_per_step;
}

void machine::expect_no_epochs()
{
    its->has_epochs = false;
}

int machine::most_blocks() const
{
    int most = 0;
    for (const rank_state &rank : its->ranks)
        most = rank.most_resident > most ? rank.most_resident : most;
    return most;
}

uint64_t machine::steps() const
{
    return its->steps;
}

} // namespace emulator
