/*
 * Proves that kernels can push triggers to a proxy, in the emulator: the FIFO between many threads
 * and a proxy, which is a thread of another rank that runs the proxy's end of the FIFO; and a mesh
 * in which every rank puts to all others through port channels, flushes, and waits for all. Faults
 * injected into the FIFO must be detected.
 */
#include "coll/cuda/device/protocol.cuh"

#include "chan/fifo.h"
#include "verify/tests/support/gpu_emulator.hh"
#include "verify/tests/support/gpu_tap.hh"

#include <vector>

using namespace emulator;

enum fault {
    NONE,
    NO_ROOM,   /* a producer does not check whether its slot is free */
    NO_LAP,    /* any nonzero word counts as a trigger of this lap */
    HALF_SLOT, /* the proxy checks the lap of the first word only */
    EARLY_POP, /* the proxy frees the slot before it has read it */
};

/* --------------------------------------------------------------------- FIFO */

enum { SHIFT = 2, BLOCKS = 2, THREADS = 5, EACH = 12, ALL = BLOCKS * THREADS * EACH };

/* What producers and their proxy share. */
struct ring {
    alignas(128) uint64_t slots[WEIR_FIFO_WORDS << SHIFT];
    uint64_t head, tail_seen, tail;
    weir_fifo_dev fifo;
    weiri_fifo_end end;
    uint64_t next[BLOCKS * THREADS]; /* by producer: what the proxy expects next */
    uint64_t wrong;
};

static weir_trigger trigger_of(uint32_t producer, uint64_t i)
{
    return {WEIR_TRIGGER_CUSTOM, producer, i << 40 | producer, ~i >> 1, i};
}

template <int fault>
static int push(const weir_fifo_dev *fifo, const weir_trigger *trigger, uint64_t *ticket)
{
    if (fault != NO_ROOM)
        return weir_fifo_push(fifo, trigger, ticket);
    *ticket = weir_fetch_add(fifo->head, 1);
    weir_fifo_commit(fifo, *ticket, trigger);
    return 0;
}

template <int fault> static void produce(weiri_gpu_args args)
{
    ring *of = (ring *)(uintptr_t)args.in;
    const uint32_t me = blockIdx.x * blockDim.x + threadIdx.x;
    const uint64_t epoch = weiri_gpu_epoch(args.view);
    for (uint64_t i = 0; i < EACH; i++) {
        const weir_trigger trigger = trigger_of(me, i);
        uint64_t ticket = 0;
        int status = push<fault>(&of->fifo, &trigger, &ticket);
        if (!status && i % 5 == 4)
            status = weir_fifo_wait(&of->fifo, ticket);
        of->wrong += status != 0;
    }
    weiri_gpu_advance_epoch(args.view, epoch);
}

template <int fault> static int peek(const weiri_fifo_end *end, weir_trigger *trigger)
{
    const uint64_t *slot = end->slots + (end->taken & 3) * WEIR_FIFO_WORDS;
    const uint64_t lap = weir_fifo_lap(end->taken, end->shift), first = weir_load_acquire(slot);
    if (fault == NO_LAP ? first == 0 : (first & WEIR_FIFO_LAP) != lap)
        return 0;
    const uint64_t rest = WEIR_FIFO_LAP - 1;
    *trigger = {(uint32_t)((first & rest) >> 32), (uint32_t)first, slot[1] & rest, slot[2] & rest,
                slot[3] & rest};
    return 1;
}

/* The proxy; a single thread. */
template <int fault> static void consume(weiri_gpu_args args)
{
    ring *of = (ring *)(uintptr_t)args.in;
    const uint64_t epoch = weiri_gpu_epoch(args.view);
    weir_waiter waiter = {0, 0};
    while (of->end.taken < ALL) {
        weir_trigger got = {};
        if (fault == EARLY_POP && (weir_load_acquire(of->slots + (of->end.taken & 3) * 4) &
                                   WEIR_FIFO_LAP) == weir_fifo_lap(of->end.taken, SHIFT)) {
            weiri_fifo_pop(&of->end);
            of->end.taken--;
            weir_relax();
        }
        const int there = fault == NO_LAP || fault == HALF_SLOT ? peek<fault>(&of->end, &got)
                                                                : weiri_fifo_peek(&of->end, &got);
        if (!there) {
            if (weir_waiter_step(&waiter, &of->fifo.guard))
                break;
            continue;
        }
        const uint32_t who = got.chan < BLOCKS * THREADS ? got.chan : 0;
        const weir_trigger good = trigger_of(got.chan, of->next[who]++);
        of->wrong += memcmp(&good, &got, sizeof good) != 0;
        weiri_fifo_pop(&of->end);
    }
    weiri_gpu_advance_epoch(args.view, epoch);
}

static void net_up(ring *of, uint32_t shift, const weir_guard &guard)
{
    of->fifo = {};
    of->fifo.slots = of->slots;
    of->fifo.head = &of->head;
    of->fifo.tail_seen = &of->tail_seen;
    of->fifo.tail = &of->tail;
    of->fifo.shift = shift;
    of->fifo.guard = guard;
    of->end = {of->slots, &of->tail, 0, shift};
}

template <int fault> static std::string through_fifo(uint64_t seed)
{
    machine m(2, seed);
    std::unique_ptr<ring> of(new ring());
    buffer none = m.alloc(0, 16, 0, PLAIN);
    for (int rank = 0; rank < 2; rank++) {
        weiri_gpu_args args = m.args(rank, none, none);
        if (rank == 0)
            net_up(of.get(), SHIFT, args.view.guard);
        args.in = (const char *)of.get();
        if (rank == 0)
            m.launch(rank, "produce", (const void *)produce<fault>, {BLOCKS, THREADS}, args);
        else
            m.launch(rank, "consume", (const void *)consume<fault>, {1, 1}, args);
    }
    if (!m.run())
        return m.report();
    if (of->wrong)
        return "wrong triggers";
    for (uint64_t next : of->next)
        if (next != EACH)
            return "triggers lost";
    return of->tail == ALL ? "" : "a wrong tail";
}

/* --------------------------------------------------------------------- mesh */

enum { RANKS_MAX = 4, PART = 24, ROUNDS = 7 };

/* One rank: its memory, with a part for each rank, and its proxy's FIFO and channels. */
struct rank_memory {
    ring fifo;
    unsigned char memory[RANKS_MAX * PART];
    alignas(64) uint64_t inbound[RANKS_MAX], flushed[RANKS_MAX], expected[RANKS_MAX];
    uint64_t sent[RANKS_MAX];
    weir_portchan_dev chans[RANKS_MAX];
    uint64_t failures;
};

struct mesh {
    int nranks;
    rank_memory memories[RANKS_MAX];
};

static unsigned char byte_of(int rank, int round, int i)
{
    return (unsigned char)(rank * 61 + round * 7 + i + 1);
}

/* One thread per peer: puts this rank's part to it, flushes, and waits for the peer's part. */
static void exchange(weiri_gpu_args args)
{
    mesh *all = (mesh *)(uintptr_t)args.in;
    const int me = args.view.rank, peer = (int)threadIdx.x;
    rank_memory *own = &all->memories[me];
    const uint64_t epoch = weiri_gpu_epoch(args.view);
    for (int round = 0; round < ROUNDS; round++) {
        if (peer == me)
            for (int i = 0; i < PART; i++)
                own->memory[me * PART + i] = byte_of(me, round, i);
        __syncthreads();
        if (peer != me) {
            weir_portchan_dev *chan = &own->chans[peer];
            const uint64_t at = (uint64_t)(me * PART);
            own->failures += weir_port_put_with_signal_and_flush(chan, at, at, PART) != 0;
            own->failures += weir_port_wait(chan) != 0;
            for (int i = 0; i < PART; i++)
                own->failures += own->memory[peer * PART + i] != byte_of(peer, round, i);
            own->failures += weir_port_signal(chan) != 0; /* reports that the part has been read */
            own->failures += weir_port_wait(chan) != 0;
        }
        __syncthreads();
    }
    weiri_gpu_advance_epoch(args.view, epoch);
}

/* The proxy of rank `rank - nranks`. */
static void serve(weiri_gpu_args args)
{
    mesh *all = (mesh *)(uintptr_t)args.in;
    const int me = args.view.rank - all->nranks;
    rank_memory *own = &all->memories[me];
    const uint64_t epoch = weiri_gpu_epoch(args.view);
    const uint64_t every = (uint64_t)(2 * ROUNDS * (all->nranks - 1));
    weir_waiter waiter = {0, 0};
    while (own->fifo.end.taken < every) {
        weir_trigger got;
        if (!weiri_fifo_peek(&own->fifo.end, &got)) {
            if (weir_waiter_step(&waiter, &own->fifo.fifo.guard))
                break;
            continue;
        }
        rank_memory *peer = &all->memories[got.chan];
        if (got.op & WEIR_TRIGGER_PUT)
            memcpy(peer->memory + got.to, own->memory + got.from, got.bytes);
        if (got.op & WEIR_TRIGGER_SIGNAL)
            weir_store_release(&peer->inbound[me], ++own->sent[got.chan]);
        if (got.op & WEIR_TRIGGER_FLUSH)
            weir_store_release(&own->flushed[got.chan], own->fifo.end.taken + 1);
        weiri_fifo_pop(&own->fifo.end);
    }
    weiri_gpu_advance_epoch(args.view, epoch);
}

static std::string through_mesh(int nranks, uint64_t seed)
{
    machine m(2 * nranks, seed);
    std::unique_ptr<mesh> all(new mesh());
    buffer none = m.alloc(0, 16, 0, PLAIN);
    all->nranks = nranks;
    for (int rank = 0; rank < 2 * nranks; rank++) {
        weiri_gpu_args args = m.args(rank, none, none);
        args.in = (const char *)all.get();
        if (rank >= nranks) {
            m.launch(rank, "serve", (const void *)serve, {1, 1}, args);
            continue;
        }
        rank_memory *own = &all->memories[rank];
        net_up(&own->fifo, 1, args.view.guard);
        for (uint32_t peer = 0; peer < (uint32_t)nranks; peer++)
            own->chans[peer] = {own->fifo.fifo,
                                &own->inbound[peer],
                                &own->flushed[peer],
                                &own->expected[peer],
                                peer,
                                PART,
                                PART};
        m.launch(rank, "exchange", (const void *)exchange, {1, nranks}, args);
    }
    if (!m.run())
        return m.report();
    for (int rank = 0; rank < nranks; rank++)
        if (all->memories[rank].failures)
            return "wrong data";
    return "";
}

/* -------------------------------------------------------------------- tests */

template <int fault> static void detects(const char *name)
{
    std::string why;
    for (uint64_t seed = 1; seed <= 60 && why.empty(); seed++)
        why = through_fifo<fault>(seed);
    ok(!why.empty(), "", "detected: %s", name);
}

int main()
{
    std::string why;
    for (uint64_t seed = 1; seed <= 60 && why.empty(); seed++)
        why = through_fifo<NONE>(seed);
    ok(why.empty(), why, "10 threads push through 4 slots");
    why = "";
    for (int nranks = 2; nranks <= RANKS_MAX; nranks++)
        for (uint64_t seed = 1; seed <= 20 && why.empty(); seed++)
            why = through_mesh(nranks, seed);
    ok(why.empty(), why, "a mesh of 2 to 4 ranks puts, flushes and waits");
    detects<NO_ROOM>("a producer that does not wait for room");
    detects<NO_LAP>("a slot of the previous lap taken for a new one");
    detects<HALF_SLOT>("half a slot taken for a trigger");
    detects<EARLY_POP>("a slot freed before it is read");
    return tap_done();
}
