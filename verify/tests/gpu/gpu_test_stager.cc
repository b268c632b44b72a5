/*
 * Proves that the kernel of calls between nodes (coll/internode/stager_kernel.h) moves pieces to
 * the lanes and results back, with several blocks for each lane and several threads in each block,
 * in the emulator: collectives with and without a block that stays on the GPU, and exchanges whose
 * counts are in device memory. A thread of another rank plays each lane. Faults injected into lanes
 * must be detected.
 */
#include "coll/cuda/device/protocol.cuh"

#include "coll/internode/stager.h"
#include "verify/tests/support/gpu_emulator.hh"
#include "verify/tests/support/gpu_tap.hh"

#include <cstdlib>
#include <memory>

using namespace emulator;

extern "C" void weiri_stager_move(const weiri_stager_args args);

enum fault {
    NONE,
    ONE_BLOCK, /* a lane does not wait for the other blocks of the kernel */
    EARLY,     /* it announces a result before that is complete */
};

enum { LANES = 2, BLOCKS = 2, THREADS = 5, PIECE = 256, RANKS = 3, ME = 1, LAUNCHES = 5 };

/* A launch, and the memory that its counts are in. */
struct launch {
    weiri_stager_args args;
    uint64_t counts[RANKS], displs[RANKS], pieces;
};

struct job {
    launch launches[LAUNCHES];
    unsigned char remote[RANKS];
    std::unique_ptr<char, decltype(&free)> memory{nullptr, free};
    size_t lane_bytes, head_bytes;
    uint64_t wrong;
};

struct lane {
    job *of;
    uint32_t number;
};

static char changed(char byte, uint64_t block)
{
    return (char)(byte ^ (char)(31 * block + 1));
}

static void move(weiri_gpu_args args)
{
    weiri_stager_move(*(const weiri_stager_args *)(const void *)args.in);
}

/* --------------------------------------------------------------------- lanes */

static bool await(const uint64_t *word, uint64_t target, const weir_guard *guard)
{
    weir_waiter waiter = {0, 0};
    while (weir_load_acquire(word) < target)
        if (weir_waiter_step(&waiter, guard))
            return false;
    return true;
}

/* What a call does to a piece of a block. */
static void change(char *out, const char *in, uint64_t bytes, uint64_t block)
{
    for (uint64_t i = 0; i < bytes; i++)
        out[i] = changed(in[i], block);
}

static void perform(const launch *of, const weiri_stager_lane *words, char *in, char *out,
                    uint64_t k)
{
    const weiri_stager_request *r = &words->request;
    if (r->kind == WEIRI_STAGER_SPLITS) {
        for (int peer = 0; peer < RANKS; peer++) {
            const uint64_t at = weiri_stager_pair_at(r, peer);
            const uint64_t bytes = weiri_stager_pair_bytes(r, words->bytes, RANKS, peer, 0);
            change(out + at, in + at, weiri_stager_span_of(bytes, r->most_bytes, LANES, k).bytes,
                   (uint64_t)peer);
        }
        return;
    }
    const uint64_t bytes =
        weiri_stager_span_of(of->args.request.block_bytes, r->most_bytes, LANES, k).bytes;
    if (r->own)
        in = out + (r->own - 1) * bytes;
    for (uint64_t block = 0; block < r->out_blocks; block++)
        if (block + 1 != r->own)
            change(out + block * bytes, in, bytes, block);
}

/* Serves all requests that have a piece for this lane. */
template <int fault> static void serve(weiri_gpu_args args)
{
    const lane *self = (const lane *)(const void *)args.in;
    job *of = self->of;
    const uint64_t own_epoch = weiri_gpu_epoch(args.view);
    char *base = of->memory.get() + self->number * of->lane_bytes;
    weiri_stager_lane *words = (weiri_stager_lane *)(void *)base;
    for (uint64_t epoch = 1; epoch <= LAUNCHES; epoch++) {
        const launch *one = &of->launches[epoch - 1];
        if (self->number >= one->pieces || !await(&words->asked, epoch, &args.view.guard))
            continue;
        of->wrong += memcmp(&words->request, &one->args.request, sizeof words->request) != 0;
        for (uint64_t k = self->number; k < one->pieces; k += LANES) {
            const uint64_t step = weiri_stager_step(epoch, k + 1);
            for (uint64_t block = 0; block < (fault == ONE_BLOCK ? 1 : BLOCKS); block++)
                await(&words->filled[block], step, &args.view.guard);
            if (fault == EARLY) {
                weir_store_release(&words->done, step);
                weir_relax();
            }
            perform(one, words, weiri_stager_buffer(base, of->head_bytes, k, LANES, 0),
                    weiri_stager_buffer(base, of->head_bytes, k, LANES, 1), k);
            weir_store_release(&words->done, step);
        }
    }
    weiri_gpu_advance_epoch(args.view, own_epoch);
}

/* ------------------------------------------------------------------- launches */

/* Fills the request of a launch: the kind alternates, and so does what its longest block needs. */
static void set_up(machine *m, job *of, launch *one, int number, weiri_gpu_args *args)
{
    static const uint64_t lengths[LAUNCHES] = {1, 3 * PIECE + 17, 5 * PIECE, 2 * PIECE - 1, 700};
    const uint64_t bytes = lengths[(uint64_t)number];
    const bool is_splits = number % 3 == 2;
    weiri_stager_args *a = &one->args;
    weiri_stager_request *r = &a->request;
    r->kind = is_splits ? WEIRI_STAGER_SPLITS : WEIRI_STAGER_BLOCKWISE;
    r->blocks = BLOCKS;
    r->in_blocks = 1;
    r->out_blocks = number % 3 ? RANKS : 1;
    r->own = number % 3 == 1 ? ME + 1 : 0;
    r->block_bytes = is_splits ? 0 : bytes;
    r->most_bytes = PIECE;
    for (int peer = 0; peer < RANKS; peer++) {
        one->counts[peer] = bytes / (uint64_t)(peer + 1);
        one->displs[peer] = bytes * (uint64_t)peer;
    }
    buffer in = m->alloc_input(0, RANKS * bytes, m->random(16), PLAIN);
    buffer out = m->alloc(0, RANKS * bytes, m->random(16), PLAIN);
    *args = m->args(0, in, out);
    a->rank = ME;
    a->nranks = RANKS;
    a->lanes = LANES;
    a->element_bytes = 1;
    a->copies_own = is_splits || r->own;
    a->state = args->view.state;
    a->in = in.data;
    a->out = out.data;
    a->counts = {one->counts, one->displs, one->counts, one->displs, RANKS * bytes, RANKS * bytes};
    a->memory = of->memory.get();
    a->lane_bytes = of->lane_bytes;
    a->head_bytes = of->head_bytes;
    a->remote = of->remote;
    a->guard = args->view.guard;
    one->pieces = weiri_stager_pieces(bytes, PIECE, LANES);
    args->in = (const char *)(const void *)a;
}

static uint64_t count_wrong(const launch *one)
{
    const weiri_stager_args *a = &one->args;
    const weiri_stager_request *r = &a->request;
    const bool is_splits = r->kind == WEIRI_STAGER_SPLITS;
    uint64_t wrong = 0;
    for (uint64_t block = 0; block < (is_splits ? (uint64_t)RANKS : r->out_blocks); block++) {
        const bool stays = is_splits ? block == ME : block + 1 == r->own;
        const uint64_t bytes = is_splits ? one->counts[block] : r->block_bytes;
        const char *in = a->in + (is_splits ? one->displs[block] : 0);
        const char *out = a->out + (is_splits ? one->displs[block] : block * bytes);
        for (uint64_t i = 0; i < bytes; i++)
            wrong += out[i] != (stays ? in[i] : changed(in[i], block));
    }
    return wrong;
}

template <int fault> static std::string through_lanes(uint64_t seed)
{
    machine m(1 + LANES, seed);
    std::unique_ptr<job> of(new job());
    lane lanes[LANES];
    of->head_bytes = 4096;
    of->lane_bytes = of->head_bytes + (size_t)WEIRI_STAGER_SLOTS * 2 * WEIRI_STAGER_BYTES;
    of->memory.reset((char *)calloc(LANES, of->lane_bytes));
    for (int rank = 0; rank < RANKS; rank++)
        of->remote[rank] = rank != ME;
    for (int i = 0; i < LAUNCHES; i++) {
        weiri_gpu_args args;
        set_up(&m, of.get(), &of->launches[i], i, &args);
        const uint64_t pieces = of->launches[i].pieces;
        m.launch(0, "stager", (const void *)move,
                 {(pieces < LANES ? (int)pieces : LANES) * BLOCKS, THREADS}, args);
    }
    buffer none = m.alloc(1, 16, 0, PLAIN);
    for (uint32_t i = 0; i < LANES; i++) {
        lanes[i] = {of.get(), i};
        weiri_gpu_args args = m.args(1 + (int)i, none, none);
        args.in = (const char *)(const void *)&lanes[i];
        m.launch(1 + (int)i, "lane", (const void *)serve<fault>, {1, 1}, args);
    }
    if (!m.run())
        return m.report();
    uint64_t wrong = of->wrong;
    for (const launch &one : of->launches)
        wrong += count_wrong(&one);
    return wrong ? std::to_string(wrong) + " wrong bytes" : "";
}

/* -------------------------------------------------------------------- tests */

template <int fault> static void detects(const char *name)
{
    std::string why;
    for (uint64_t seed = 1; seed <= 60 && why.empty(); seed++)
        why = through_lanes<fault>(seed);
    ok(!why.empty(), "", "detected: %s", name);
}

int main()
{
    std::string why;
    for (uint64_t seed = 1; seed <= 100 && why.empty(); seed++)
        why = through_lanes<NONE>(seed);
    ok(why.empty(), why, "launches of several kinds pass through two lanes");
    detects<ONE_BLOCK>("a lane that does not wait for all blocks");
    detects<EARLY>("a result that is announced too early");
    return tap_done();
}
