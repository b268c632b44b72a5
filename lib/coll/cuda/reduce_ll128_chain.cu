/*
 * reduce, ll128_chain: partial results travel from rank to rank as LL128 lines (ll128.cuh),
 * beginning after the root and ending at it. A hop takes one message latency, where a round of
 * `chain` takes several; every link carries the data once, and 1/15 more. With any memory.
 *
 * A warp has the same units on all ranks, one after another. For each of them it
 *
 *   1. waits for the predecessor's lines (its own input was loaded one unit earlier),
 *   2. reduces them with its own input,
 *   3. sends the result to the successor, or, at the root, stores it.
 *
 * Where lines are. A rank receives lines from one rank only, so these have the slots of all senders
 * and phases, of the launch's parity. They are divided into `depth` places for each warp; the k-th
 * unit of a warp uses place k % depth, in lap k / depth. Nothing is overwritten unread, and nothing
 * old is taken for new:
 *
 *   - Between launches. Every rank receives something from every other: ranks send each other
 *     empty packets at entry and wait for them at the end. A rank that starts epoch e + 2 has ended
 *     e + 1, so every other rank has ended e; no line of epoch e is on its way, or yet to be read.
 *   - Between laps. Before the k-th unit is stored, the receiver has counted k - depth + 1 units as
 *     read (the credit of the warp; it contains the epoch and only grows). It counts after a vote
 *     of the warp on what all its threads have loaded, and the sender stores after it has loaded
 *     the count: on both sides the later access depends on the outcome of the earlier one, which
 *     needs no fence.
 *   - Flags are the epoch and, in the upper bits, the lap. A place is used once per epoch and lap,
 *     so an earlier line there never has the flag that is awaited.
 *
 * Credits are given each half lap. A sender that waits before its k-th unit needs k - depth + 1.
 * The next credit at or above that follows unit k - depth / 2 at the latest, which has been sent,
 * so no rank waits for its successor in vain. The root waits for no credit.
 *
 * Partial results have the data's type. Types that are rounded when stored are served for two ranks
 * only, where the result is rounded once.
 */
#include "coll/cuda/kernels.h"
#include "coll/cuda/device/ll128.cuh"
#include "coll/cuda/device/types.cuh"

enum {
    LL128_CHAIN_THREADS_MAX = 512,
    CREDITS = 8, /* in a cell */
    WARPS_MAX = CREDITS * WEIRI_GPU_BLOCKS_MAX,
    LAP_SHIFT = 48, /* of a flag */
};

/* What the warps of a launch have in common, and this thread's part. */
struct line_chain {
    uint32_t units;
    uint32_t warp, step;  /* this warp's number, of how many */
    uint32_t depth;       /* even */
    uint32_t credits_end; /* credits below this number are awaited */
    int before, after;    /* ranks; -1: none */
    int op;               /* the operation on this rank: only the root divides an average */
    int in_aligned, out_aligned;
    weiri_gpu_line_part part;
};

template <int dtype>
static __device__ __forceinline__ line_chain plan_lines(const weiri_gpu_args &args)
{
    const int rank = args.view.rank, nranks = args.view.nranks;
    const uint32_t warps = gridDim.x * blockDim.x / 32;
    line_chain c;
    c.units = weiri_gpu_ll128_units(args.bytes);
    c.warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    c.step = warps < WARPS_MAX ? warps : (uint32_t)WARPS_MAX;
#if defined(WEIR_EMULATED)
    c.depth = 2; /* so that tests have many laps */
#else
    c.depth = (uint32_t)(nranks * WEIRI_GPU_PHASES) * weiri_gpu_ll128_slot_units(nranks) /
              (2 * c.step) * 2;
#endif
    const uint32_t count = c.warp < c.units ? (c.units - c.warp - 1) / c.step + 1 : 0;
    c.credits_end = count > c.depth ? count - c.depth / 2 : 0;
    c.before = weiri_gpu_nth_after(rank, nranks - 1, nranks);
    c.before = c.before == args.root ? -1 : c.before;
    c.after = rank == args.root ? -1 : weiri_gpu_nth_after(rank, 1, nranks);
    c.op = args.op == WEIR_AVG && c.after >= 0 ? WEIR_SUM : weiri_gpu_op_of<dtype>(args);
    c.in_aligned = (uintptr_t)args.in % 16 == 0;
    c.out_aligned = (uintptr_t)args.out % 16 == 0;
    c.part = weiri_gpu_line_part_of_thread();
    return c;
}

static __device__ __forceinline__ weiri_gpu_vector load_own(const weiri_gpu_args &args,
                                                            const line_chain &c, uint32_t unit)
{
    return weiri_gpu_line_load(c.part, args.in, args.bytes, (size_t)unit * WEIRI_GPU_UNIT_DATA,
                               c.in_aligned);
}

/* The word in which rank `from` counts the units of this warp that it has read from rank `at`. */
static __device__ __forceinline__ uint64_t *credit_of(const weiri_gpu_view &view,
                                                      const line_chain &c, int at, int from)
{
    return weiri_gpu_cell_at(view, at, from, c.warp / CREDITS)->credit + c.warp % CREDITS;
}

/* Stores a credit by one thread of the warp; a predicated instruction, as weiri_gpu_store_if. */
static __device__ __forceinline__ void give_credit(uint64_t *word, uint64_t credit)
{
    const uint32_t wanted = threadIdx.x % 32 == 0;
#if WEIR_ON_DEVICE
    asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0;"
                 "@p st.relaxed.sys.global.u64 [%0], %1;}" ::"l"(word),
                 "l"(credit), "r"(wanted)
                 : "memory");
#else
    if (wanted)
        weir_store_relaxed(word, credit);
#endif
}

/* Waits for room for the k-th unit. *seen: the latest credit known, the same in all threads of the
 * warp, which all call it and leave it together. */
static __device__ __forceinline__ void await_credit(const weiri_gpu_view &view, const line_chain &c,
                                                    uint64_t epoch, uint32_t k, uint64_t *seen)
{
    const uint64_t target = weiri_gpu_step(epoch, k - c.depth + 1);
    weir_waiter waiter = {0, 0};
    int status = 0;
    while (*seen < target) {
        *seen = weir_load_relaxed(credit_of(view, c, view.rank, c.after));
        *seen = __shfl_sync(0xffffffff, *seen, 0);
        if (__reduce_or_sync(0xffffffff, status ? 1u : 0))
            break;
        if (*seen < target)
            status = weir_waiter_step(&waiter, &view.guard);
    }
    if (status)
        weiri_gpu_fail(view, status, c.after, WEIR_WAIT_SEMAPHORE, target, *seen);
}

/* Waits for the lines of a unit and loads this thread's part. All threads of the warp call it, and
 * leave it together. */
static __device__ __forceinline__ void await_unit(const weiri_gpu_view &view, const line_chain &c,
                                                  const char *unit, uint64_t flag,
                                                  uint64_t (&words)[2])
{
    const uint64_t *from = (const uint64_t *)(unit + c.part.slot_at);
    weir_waiter waiter = {0, 0};
    int status = 0;
    for (;;) {
        __syncwarp();
        weir_load_pair(from, &words[0], &words[1]);
        const unsigned state = (c.part.is_last && words[1] != flag ? 1u : 0) | (status ? 2u : 0);
        const unsigned states = __reduce_or_sync(0xffffffff, state);
#if !WEIR_ON_DEVICE
        weir_load_pair(from, &words[0], &words[1]); /* the emulator runs a line's threads one after
                                                     * another */
        __syncwarp();                               /* before the credit */
#endif
        if (!states)
            return;
        if (states & 2)
            break;
        status = weir_waiter_step(&waiter, &view.guard);
    }
    if (status)
        weiri_gpu_fail(view, status, c.before, WEIR_WAIT_PACKET, flag, words[1]);
}

/* All units of this warp. own: this rank's data of the first one. */
template <int dtype>
static __device__ __forceinline__ void pass_units(const weiri_gpu_args &args, const line_chain &c,
                                                  uint64_t epoch, weiri_gpu_vector own)
{
    const weiri_gpu_view &view = args.view;
    const size_t lines = weiri_gpu_ll128_slot_at<0>(view, 0, epoch, 0);
    uint64_t flag = epoch, seen = 0;
    uint32_t place = 0, k = 0;
    for (uint32_t unit = c.warp; unit < c.units; unit += c.step, k++) {
        const size_t at = lines + (size_t)(place * c.step + c.warp) * WEIRI_GPU_UNIT_BYTES;
        uint64_t words[2][2] = {{0, 0}, {own.word[0], own.word[1]}};
        uint64_t totals[2] = {own.word[0], own.word[1]};
        if (c.units - unit > c.step)
            own = load_own(args, c, unit + c.step);
        place = place + 1 < c.depth ? place + 1 : 0;
        if (c.before >= 0) {
            await_unit(view, c, view.scratch[view.rank] + at, flag, words[0]);
            if (k + 1 < c.credits_end && (!place || place == c.depth / 2))
                give_credit(credit_of(view, c, c.before, view.rank), weiri_gpu_step(epoch, k + 1));
            weiri_gpu_reduce_parts<dtype>(c.op, 2, words, totals, view.nranks);
        }
        if (c.after >= 0 && k >= c.depth)
            await_credit(view, c, epoch, k, &seen);
        if (c.after >= 0)
            weiri_gpu_send_lines(c.part, view.scratch[c.after] + at, flag, totals[0], totals[1]);
        else
            weiri_gpu_line_store(c.part, args.out, args.bytes, (size_t)unit * WEIRI_GPU_UNIT_DATA,
                                 c.out_aligned, totals);
        flag += place ? 0 : (uint64_t)1 << LAP_SHIFT;
    }
}

template <int dtype>
static __global__ void __launch_bounds__(LL128_CHAIN_THREADS_MAX, 2)
    reduce_ll128_chain(const __grid_constant__ weiri_gpu_args args)
{
    const weiri_gpu_view &view = args.view;
    const line_chain c = plan_lines<dtype>(args);
    const int peer = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    const bool sends_empty = peer < view.nranks && peer != view.rank;
    const bool works = c.warp < c.step && c.warp < c.units;
    weiri_gpu_vector own = {{0, 0}};
    if (works)
        own = load_own(args, c, c.warp);
    const uint64_t epoch = weiri_gpu_epoch(view);
    if (sends_empty)
        weiri_gpu_send(weiri_gpu_slot(view, peer, view.rank, epoch, 1), 0, epoch, 0);
    weiri_gpu_advance_epoch(view, epoch);
    if (works)
        pass_units<dtype>(args, c, epoch, own);
    if (sends_empty)
        weiri_gpu_receive(view, weiri_gpu_slot(view, view.rank, peer, epoch, 1), 0, epoch, peer);
}

WEIRI_GPU_DEFINE_OF_TYPES(reduce_ll128_chain)

weiri_gpu_shape weiri_gpu_reduce_ll128_chain_shape(const weiri_gpu_args *args, int processors)
{
    return weiri_gpu_packet_shape((uint64_t)weiri_gpu_ll128_units(args->bytes) * 32, processors,
                                  LL128_CHAIN_THREADS_MAX);
}

/* Counts of units have 24 bits, of laps 16. */
int weiri_gpu_reduce_ll128_chain_serves(const weiri_gpu_args *args)
{
    const uint64_t most = (uint64_t)1 << 30;
    return args->nvlink && args->bytes && args->bytes <= most &&
           (args->view.nranks == 2 || !weiri_is_rounded(args->dtype));
}
