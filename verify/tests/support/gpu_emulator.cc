/*
 * The emulator of gpu_emulator.hh. One thread; `now` is the machine that runs.
 *
 * A fiber of the pool is one GPU thread while its launch lasts. Those that can
 * run are in `runnable`; a fiber that waits at a barrier is in none. Whoever
 * gives way draws the next one from there and switches to it directly; main gets
 * its turn back when no fiber is left.
 */
#include "verify/tests/support/gpu_words.h"

#include "verify/tests/support/gpu_emulator.hh"
#include "verify/tests/support/gpu_fibers.hh"

#include <algorithm>
#include <cstdarg>
#include <deque>
#include <link.h>
#include <unistd.h>
#include <vector>

dim3 threadIdx, blockIdx, blockDim, gridDim;

/* Of the library, types.c is linked alone, as thread-local variables of the rest
 * would become shared memory of blocks. */
extern "C" weir_status weiri_fail(weir_status status, const char *, ...)
{
    return status;
}

namespace {

using emulator::fiber;

enum {
    WARP = 32,
    CANARY_BYTES = 256,
    CANARY = 0xc5,
    RUBBISH = 0xa7,
    TIMEOUT_NS = 1000000,
    /* Turns for each runnable thread without any store: everybody who stood
     * still is let go; all have polled in vain. */
    PATIENCE = 40,
    DEADLOCK = 200,
};

struct block;

struct gpu_thread : fiber {
    block *of = nullptr;
    dim3 index = {0, 0, 0};
    size_t place = 0; /* in runnable */
};

/* Where some threads of a block meet. */
struct meeting {
    std::vector<gpu_thread *> waiting;
    uint32_t members = 0;
    uint64_t sum = 0, result = 0; /* of a block */
    uint64_t given[WARP] = {}, lanes[WARP] = {};
};

struct launched;

struct block {
    launched *of = nullptr;
    dim3 index = {0, 0, 0};
    uint32_t left = 0; /* threads that have not ended */
    meeting whole, further[2]; /* barriers 0, and 1 and 2 */
    std::vector<meeting> warps;
    std::vector<char> shared;
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

/* A buffer: canaries before it and behind it, then a page that is not there. */
struct guarded {
    char *room, *data;
    size_t room_bytes, bytes, behind;
    int rank;
};

struct rank_state {
    char *scratch = nullptr;
    weiri_gpu_state state = {};
    uint64_t abort_word = 0, launches = 0;
    int regions = 0;
    weir_wait_record record = {};
    std::deque<std::unique_ptr<launched>> queue;
};

} // namespace

/* ------------------------------------------------------------------ machine */

struct emulator::machine_state {
    int nranks;
    uint64_t seed, steps = 0, quiet = 0, clock_ns = 1, misaligned = 0;
    std::vector<rank_state> ranks;
    std::vector<char *> regions;
    std::vector<guarded> buffers;
    std::string report;
    std::vector<std::unique_ptr<gpu_thread>> pool;
    std::vector<gpu_thread *> idle, runnable;
    gpu_thread main_thread;
    gpu_thread *current = &main_thread;
    /* Who stands still: a rank, block or thread, or all ranks but one. */
    enum { NOBODY, RANK, BLOCK, THREAD, OTHERS } still = NOBODY;
    int still_rank = 0;
    const void *still_one = nullptr;
    uint64_t still_until = 0;

    buffer add(int rank, size_t bytes, size_t misalignment, kind kind, size_t behind);
    uint64_t random(uint64_t below);
    void complain(const char *format, ...) __attribute__((format(printf, 2, 3)));
    void begin(int rank);
    void end_thread();
    void end_launch(int rank);
    void wake(gpu_thread *thread);
    void sleep();
    bool stands_still(const gpu_thread *thread) const;
    void freeze_somebody();
    gpu_thread *draw();
    void go_on();
    void enter(gpu_thread *next);
    void release(meeting *at);
    void check_canaries();
    void tell_waits();
    void explain_deadlock();
};

namespace {

emulator::machine_state *now;

/* The program's thread-local variables: what __shared__ stands for. */
struct shared_memory {
    char *at;
    size_t bytes;
};

int find_shared(struct dl_phdr_info *info, size_t, void *result)
{
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS)
            *(shared_memory *)result = {(char *)info->dlpi_tls_data, info->dlpi_phdr[i].p_memsz};
    return 1; /* the program itself comes first */
}

const shared_memory &shared()
{
    static const shared_memory found = [] {
        shared_memory memory = {nullptr, 0};
        dl_iterate_phdr(find_shared, &memory);
        return memory;
    }();
    return found;
}

/* Whose shared memory is in place: a block's, or the main program's. A program has that of many
 * kernels, and a block begins with rubbish in all of it: between blocks only those parts are
 * copied in which some block of the machine has written. */
struct in_place {
    enum { PART = 1024 };
    std::vector<char> of_main;
    std::vector<char> *of = &of_main; /* nullptr: of a block that has ended */
    std::vector<char> written;        /* a flag for each part */

    static size_t bytes_of(size_t part)
    {
        return std::min<size_t>(PART, shared().bytes - part * PART);
    }
    static bool is_rubbish(const char *at, size_t bytes)
    {
        return *at == (char)RUBBISH && memcmp(at, at + 1, bytes - 1) == 0;
    }
    void save_parts()
    {
        for (size_t part = 0; part * PART < shared().bytes; part++) {
            const char *at = shared().at + part * PART;
            written[part] = written[part] || !is_rubbish(at, bytes_of(part));
            if (written[part])
                memcpy(of->data() + part * PART, at, bytes_of(part));
        }
    }
    void load_parts()
    {
        for (size_t part = 0; part * PART < shared().bytes; part++)
            if (written[part])
                memcpy(shared().at + part * PART, of->data() + part * PART, bytes_of(part));
    }
    void swap_to(std::vector<char> *next)
    {
        const bool between_blocks = of && of != &of_main && next != &of_main;
        if (of == next)
            return;
        if (of == &of_main)
            of->assign(shared().at, shared().at + shared().bytes);
        else if (of)
            save_parts();
        of = next;
        if (between_blocks)
            load_parts();
        else if (!of->empty())
            memcpy(shared().at, of->data(), of->size());
    }
    void forget()
    {
        written.assign(shared().bytes / PART + 1, 0);
    }
} placed;

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

void emulator::machine_state::complain(const char *format, ...)
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

/* Begins the first launch of a rank's queue. */
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
        made->left = made->whole.members = threads;
        made->warps.resize((threads + WARP - 1) / WARP);
        made->shared.assign(shared().bytes, (char)RUBBISH);
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
}

/* The current thread's kernel has returned. */
void emulator::machine_state::end_thread()
{
    block *of = current->of;
    launched *launch = of->of;
    quiet = 0;
    of->left--;
    if (!of->whole.waiting.empty())
        complain("rank %d, %s, block %u: thread %u ended while others meet", launch->rank,
                 launch->name, of->index.x, current->index.x);
    of->whole.members--;
    of->warps[current->index.x / WARP].members--;
    if (of->whole.members && of->whole.waiting.size() == of->whole.members)
        release(&of->whole);
    sleep();
    current->of = nullptr;
    idle.push_back(current);
    if (--launch->left == 0)
        end_launch(launch->rank);
    go_on();
}

void emulator::machine_state::end_launch(int rank)
{
    rank_state &of = ranks[rank];
    const launched *launch = of.queue.front().get();
    const uint64_t turns = (launch->number + 1) << WEIRI_GPU_TURN_SHIFT;
    if (of.state.turns != turns)
        complain("rank %d, %s: launch %llu left turns %#llx", rank, launch->name,
                 (unsigned long long)launch->number, (unsigned long long)of.state.turns);
    of.state.turns = turns;
    of.queue.pop_front();
    placed.of = nullptr;
    if (!of.queue.empty())
        begin(rank);
}

/* ----------------------------------------------------------------- schedule */

void emulator::machine_state::wake(gpu_thread *thread)
{
    thread->place = runnable.size();
    runnable.push_back(thread);
}

/* The current thread leaves the runnable ones. */
void emulator::machine_state::sleep()
{
    runnable[current->place] = runnable.back();
    runnable[current->place]->place = current->place;
    runnable.pop_back();
}

bool emulator::machine_state::stands_still(const gpu_thread *thread) const
{
    switch (still) {
    case RANK:
        return thread->of->of->rank == still_rank;
    case OTHERS:
        return thread->of->of->rank != still_rank;
    case BLOCK:
        return thread->of == still_one;
    case THREAD:
        return thread == still_one;
    default:
        return false;
    }
}

void emulator::machine_state::freeze_somebody()
{
    const gpu_thread *victim = runnable[random(runnable.size())];
    still = (decltype(still))random(OTHERS + 1);
    still_rank = (int)random((uint64_t)nranks);
    still_one = still == BLOCK ? (const void *)victim->of : victim;
    still_until = steps + (runnable.size() << random(7));
}

gpu_thread *emulator::machine_state::draw()
{
    gpu_thread *drawn = nullptr;
    steps++;
    if (++quiet > PATIENCE * runnable.size()) {
        still = NOBODY;
        still_until = steps + 1;
    } else if (steps > still_until) {
        freeze_somebody();
    }
    if (quiet > DEADLOCK * runnable.size()) {
        if (clock_ns == 1)
            explain_deadlock();
        clock_ns += TIMEOUT_NS / 4;
    }
    for (int i = 0; i < 32; i++) {
        drawn = runnable[random(runnable.size())];
        if (!stands_still(drawn))
            break;
    }
    return drawn;
}

/* The current thread gives way, possibly to itself. */
void emulator::machine_state::go_on()
{
    gpu_thread *next = &main_thread;
    if (!runnable.empty())
        next = draw();
    else
        for (const rank_state &rank : ranks)
            if (!rank.queue.empty())
                complain("rank %d: threads of %s wait for others of their block for ever",
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
    placed.swap_to(of ? &of->shared : &placed.of_main);
    if (next == last)
        return;
    current = next;
    last->switch_to(next);
}

/* ----------------------------------------------------------------- meetings */

void emulator::machine_state::release(meeting *at)
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

static void meet(meeting *at)
{
    at->waiting.push_back(now->current);
    now->quiet = 0; /* fewer can run: what those have polled in vain counts anew */
    if (at->waiting.size() == at->members) {
        now->release(at);
    } else {
        now->quiet = 0;
        now->sleep();
    }
    now->go_on();
}

uint64_t weir_emulated_block_sum(uint64_t mine)
{
    meeting *at = &now->current->of->whole;
    at->sum += mine;
    meet(at);
    return at->result;
}

void weir_emulated_barrier(unsigned barrier, unsigned threads)
{
    meeting *at = &now->current->of->further[barrier - 1];
    at->members = threads;
    meet(at);
}

void weir_emulated_warp(uint64_t mine, uint64_t lanes[32])
{
    meeting *at = &now->current->of->warps[threadIdx.x / WARP];
    at->given[threadIdx.x % WARP] = mine;
    meet(at);
    memcpy(lanes, at->lanes, sizeof at->lanes);
}

extern "C" void weir_emulated_relax(void)
{
    now->go_on();
}

extern "C" void weir_emulated_stored(void)
{
    now->quiet = 0;
    if (now->random(4) == 0)
        now->go_on();
}

extern "C" uint64_t weir_emulated_clock_ns(void)
{
    return now->clock_ns;
}

extern "C" void weir_emulated_access16(const void *at)
{
    if ((uintptr_t)at % 16 && now->misaligned++ == 0)
        now->complain("rank %d: an access of 16 bytes at an address that ends in %x",
                      now->current->of->of->rank, (unsigned)((uintptr_t)at % 16));
}

/* ------------------------------------------------------------------ reports */

void emulator::machine_state::explain_deadlock()
{
    complain("deadlock after %llu turns", (unsigned long long)steps);
    for (const rank_state &rank : ranks) {
        if (rank.queue.empty())
            continue;
        const launched *launch = rank.queue.front().get();
        size_t meeting = 0;
        for (const auto &one : launch->blocks)
            meeting += one->whole.waiting.size();
        complain("rank %d: launch %llu, %s, %d x %d threads: %u have not ended, %zu of them meet",
                 launch->rank, (unsigned long long)launch->number, launch->name,
                 launch->shape.blocks, launch->shape.threads, launch->left, meeting);
    }
}

void emulator::machine_state::tell_waits()
{
    static const char *const kinds[] = {"nothing", "a word", "a signal", "a packet",
                                        "other counts", "a shorter send", "a shorter receive"};
    for (int r = 0; r < nranks; r++) {
        const weir_wait_record &record = ranks[r].record;
        if (record.kind)
            complain("rank %d waited for %s from rank %d: expected %#llx, saw %#llx", r,
                     kinds[record.kind <= WEIR_WAIT_RECV ? record.kind : 0], (int)record.peer,
                     (unsigned long long)record.expected, (unsigned long long)record.seen);
        else if (ranks[r].abort_word)
            complain("rank %d has aborted", r);
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
        if (!before || !is_whole(one.data + one.bytes, one.behind))
            complain("rank %d: a buffer of %zu bytes was overrun %s", one.rank, one.bytes,
                     before ? "behind it" : "before it");
    }
}

/* ------------------------------------------------------------ the interface */

namespace emulator {

machine::machine(int nranks, uint64_t seed) : its(new machine_state)
{
    placed.forget();
    its->nranks = nranks;
    its->seed = seed;
    its->ranks = std::vector<rank_state>((size_t)nranks);
    its->regions.resize(WEIRI_GPU_RANKS_MAX * (size_t)WEIRI_GPU_REGIONS_MAX);
    for (rank_state &rank : its->ranks) {
        rank.state.turns = (uint64_t)1 << WEIRI_GPU_TURN_SHIFT;
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

/* A buffer with so many bytes of canaries behind it at least, and up to 15 more. */
buffer machine_state::add(int rank, size_t bytes, size_t misalignment, kind kind, size_t behind)
{
    rank_state &of = ranks[(size_t)rank];
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t pages = (CANARY_BYTES + bytes + behind + 15 + page - 1) / page;
    char *room = (char *)mmap(nullptr, (pages + 1) * page, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED || mprotect(room + pages * page, page, PROT_NONE) ||
        (kind == MAPPED && of.regions == WEIRI_GPU_REGIONS_MAX)) {
        fprintf(stderr, "no room for one more buffer of rank %d\n", rank);
        exit(3);
    }
    size_t at = pages * page - behind - bytes;
    at -= (at - misalignment) % 16;
    behind = pages * page - at - bytes;
    memset(room + at - CANARY_BYTES, CANARY, CANARY_BYTES);
    memset(room + at, RUBBISH, bytes);
    memset(room + at + bytes, CANARY, behind);
    buffer made = {room + at, bytes, WEIRI_GPU_PLAIN};
    buffers.push_back({room, made.data, (pages + 1) * page, bytes, behind, rank});
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
        its->go_on();
    its->tell_waits();
    its->check_canaries();
    now = nullptr;
    return its->report.size() == said;
}

const std::string &machine::report() const
{
    return its->report;
}

uint64_t machine::steps() const
{
    return its->steps;
}

} // namespace emulator
