/*
 * What all kernels share: the epoch, packets of 16 bytes, and meetings of the
 * blocks that have one index on all ranks.
 *
 * A kernel is a function of one argument, weiri_gpu_args by value. It
 *
 *   1. reads the epoch (weiri_gpu_epoch): every thread for itself,
 *   2. sends what it can without waiting,
 *   3. calls weiri_gpu_turn in all threads of all blocks, exactly once, which
 *      is __syncthreads and steps the epoch for the next launch: in the shadow of
 *      what was sent, not at the end,
 *   4. waits and works.
 *
 * Waits that fail (deadline, abort) leave their reason behind, and the kernel
 * goes on without data: control flow never depends on them, so no block is
 * left alone at a barrier.
 *
 * Order of memory. Packets carry their own flags, so they are relaxed. A desc
 * sent at entry tells that the sender's earlier kernels have ended, whose
 * stores are thus performed; its reader fences before it loads a peer's
 * memory. weiri_gpu_signal follows __syncthreads and releases what all threads
 * of the block have stored; weiri_gpu_await acquires.
 */
#ifndef WEIR_COLL_CUDA_FRAME_CUH
#define WEIR_COLL_CUDA_FRAME_CUH

#include "coll/cuda/args.h"

#define WEIRI_GPU_FN static __device__ __forceinline__
/* Rare work, whose instructions lie apart from the others. */
#define WEIRI_GPU_COLD_FN static __device__ __attribute__((noinline, unused))

/* Before an access of 16 bytes by the host's code, which would go anywhere. */
#if defined(WEIR_EMULATED)
#define WEIRI_GPU_ACCESS16(at) weir_emulated_access16(at)
#else
#define WEIRI_GPU_ACCESS16(at) (void)(at)
#endif

/* -------------------------------------------------------------------- epoch */

/* What is to be under way at the same time is loaded before: the first use of the
 * epoch, a shift, waits for it. Blocks have one dimension, so threadIdx.y is 0: it
 * keeps the epoch out of uniform registers, where a warp stalls for a loaded value
 * on its way there, before the loads of its input are under way. */
WEIRI_GPU_FN uint64_t weiri_gpu_epoch(const weiri_gpu_view &view)
{
    return weir_load_relaxed(&view.state->turns + threadIdx.y) >> WEIRI_GPU_TURN_SHIFT;
}

/* Keeps what is computed from the epoch behind the loads that stand before the
 * call, for the same reason. */
WEIRI_GPU_FN void weiri_gpu_settle(uint64_t *epoch)
{
#if WEIR_ON_DEVICE
    asm volatile("" : "+l"(*epoch)::"memory");
#else
    (void)epoch;
#endif
}

/* All threads of all blocks, once a launch, after all of them have the epoch.
 * Every block adds its part of one epoch, so the last one to come completes it,
 * and none waits for the sum. */
WEIRI_GPU_FN void weiri_gpu_turn(const weiri_gpu_view &view, uint64_t epoch)
{
    const uint64_t one = (uint64_t)1 << WEIRI_GPU_TURN_SHIFT;
    uint64_t *turns = &view.state->turns;
    __syncthreads();
    if (threadIdx.x)
        return;
    if (gridDim.x == 1)
        *turns = (epoch + 1) << WEIRI_GPU_TURN_SHIFT;
    else
        atomicAdd((unsigned long long *)turns, blockIdx.x ? 1 : one - (gridDim.x - 1));
}

/* ------------------------------------------------------------------ waiting */

/* A wait has failed, ranks disagree, or counts on the device are impossible: the
 * reason stays for the host, and all other waits of this rank end, too. */
WEIRI_GPU_FN void weiri_gpu_fail(const weiri_gpu_view &view, int status, int peer, uint64_t kind,
                                 uint64_t expected, uint64_t seen)
{
    weir_wait_record *record = view.guard.record;
    if (status != WEIR_ERR_TIMEOUT && status != WEIR_ERR_MISMATCH && status != WEIR_ERR_INVALID)
        return;
    if (record) {
        weir_store_relaxed(&record->peer, (uint64_t)(int64_t)peer);
        weir_store_relaxed(&record->expected, expected);
        weir_store_relaxed(&record->seen, seen);
        weir_store_release(&record->kind, kind);
    }
    weir_store_release((uint64_t *)view.guard.abort_word, WEIR_ABORTED_BY_KERNEL);
}

/* Kernels that reduce are compiled for exact numbers of ranks, and with 0 for any: loops over
 * the most ranks there can be cost ll128 1.2 us of 5 with two (2 GPUs). */
template <int exact> WEIRI_GPU_FN int weiri_gpu_nranks(const weiri_gpu_view &view)
{
    return exact ? exact : view.nranks;
}

/* The nth rank after one, round the ranks: who sends to all begins with the next, since
 * all would send to one GPU at a time if they began with the same. */
WEIRI_GPU_FN int weiri_gpu_nth_after(int rank, int nth, int nranks)
{
    return rank + nth < nranks ? rank + nth : rank + nth - nranks;
}

/* ------------------------------------------------------------------ packets */

/* Where in a scratch segment the slot is that rank `from` writes. */
WEIRI_GPU_FN size_t weiri_gpu_slot_at(int from, uint64_t epoch, int phase)
{
    unsigned index = ((unsigned)epoch % 2 * WEIRI_GPU_PHASES + (unsigned)phase);
    return WEIRI_GPU_PACKETS_AT +
           (size_t)(index * WEIRI_GPU_RANKS_MAX + (unsigned)from) * WEIRI_GPU_SLOT_BYTES;
}

/* The slot that rank `from` writes in rank `at`'s scratch. */
WEIRI_GPU_FN char *weiri_gpu_slot(const weiri_gpu_view &view, int at, int from, uint64_t epoch,
                                  int phase)
{
    return view.scratch[at] + weiri_gpu_slot_at(from, epoch, phase);
}

/* Waits for packet number `index` of a slot in the own scratch: 8 bytes; otherwise
 * if it does not come. */
WEIRI_GPU_FN uint64_t weiri_gpu_receive(const weiri_gpu_view &view, const char *slot, size_t index,
                                        uint64_t epoch, int from, uint64_t otherwise = 0)
{
    const uint64_t *packet = (const uint64_t *)slot + 2 * index;
    weir_waiter waiter = {0, 0};
    uint64_t data = otherwise;
    while (!weir_packet16_read(packet, (uint32_t)epoch, &data)) {
        int status = weir_waiter_step(&waiter, &view.guard);
        if (status) {
            weiri_gpu_fail(view, status, from, WEIR_WAIT_PACKET, epoch,
                           weir_load_relaxed(packet) >> 32);
            break;
        }
    }
    return data;
}

WEIRI_GPU_FN void weiri_gpu_send(char *slot, size_t index, uint64_t epoch, uint64_t data)
{
    weir_packet16_write((uint64_t *)slot + 2 * index, (uint32_t)epoch, data);
}

/* ----------------------------------------------------------------- meetings */

WEIRI_GPU_FN weiri_gpu_cell *weiri_gpu_cell_at(const weiri_gpu_view &view, int at, int from,
                                               uint32_t index)
{
    return (weiri_gpu_cell *)view.scratch[at] + (size_t)index * WEIRI_GPU_RANKS_MAX + from;
}

WEIRI_GPU_FN weiri_gpu_cell *weiri_gpu_cell_of(const weiri_gpu_view &view, int at, int from)
{
    return weiri_gpu_cell_at(view, at, from, blockIdx.x);
}

/* Tells one peer where this rank's buffers are. One thread a peer. */
WEIRI_GPU_FN void weiri_gpu_tell(const weiri_gpu_view &view, int peer, uint64_t epoch,
                                 weiri_gpu_desc in, weiri_gpu_desc out)
{
    weiri_gpu_cell *cell = weiri_gpu_cell_of(view, peer, view.rank);
    weir_packet16_write(cell->in, (uint32_t)epoch, in);
    weir_packet16_write(cell->out, (uint32_t)epoch, out);
}

/* Reads what a peer has told in a cell, both packets with loads that are under way at
 * once: 1, or 0 if not both are of this epoch. */
WEIRI_GPU_FN int weiri_gpu_read_told(const weiri_gpu_cell *cell, uint64_t epoch, uint64_t *in,
                                     uint64_t *out)
{
    uint64_t low[2], high[2];
    weir_load_pair(cell->in, &low[0], &high[0]);
    weir_load_pair(cell->out, &low[1], &high[1]);
    for (int i = 0; i < 2; i++)
        if ((uint32_t)(low[i] >> 32) != (uint32_t)epoch ||
            (uint32_t)(high[i] >> 32) != (uint32_t)epoch)
            return 0;
    *in = high[0] << 32 | (uint32_t)low[0];
    *out = high[1] << 32 | (uint32_t)low[1];
    return 1;
}

/* Waits until a peer has told. One thread a peer; before others use what it
 * returns to read a peer's memory, weiri_gpu_fence and __syncthreads. */
WEIRI_GPU_FN void weiri_gpu_hear(const weiri_gpu_view &view, int peer, uint64_t epoch,
                                 weiri_gpu_desc *in, weiri_gpu_desc *out)
{
    const weiri_gpu_cell *cell = weiri_gpu_cell_of(view, view.rank, peer);
    weir_waiter waiter = {0, 0};
    while (!weiri_gpu_read_told(cell, epoch, in, out)) {
        int status = weir_waiter_step(&waiter, &view.guard);
        if (status) {
            weiri_gpu_fail(view, status, peer, WEIR_WAIT_PACKET, epoch,
                           weir_load_relaxed(cell->in) >> 32);
            *in = *out = WEIRI_GPU_PLAIN;
            return;
        }
    }
}

/* The address of what a rank described, mapped here; not for WEIRI_GPU_PLAIN. */
WEIRI_GPU_FN char *weiri_gpu_address(const weiri_gpu_view &view, int rank, weiri_gpu_desc desc)
{
    size_t region = (size_t)(desc >> 48) - 1;
    return view.regions[(size_t)rank * WEIRI_GPU_REGIONS_MAX + region] +
           (desc & (((uint64_t)1 << 48) - 1));
}

/* Orders this thread's later loads behind what it has seen. */
WEIRI_GPU_FN void weiri_gpu_fence(void)
{
    weir_fence_system();
}

/* The nth signal (1, 2, ...) of this epoch to a peer's block of this index,
 * after __syncthreads. One thread a peer. */
WEIRI_GPU_FN void weiri_gpu_signal(const weiri_gpu_view &view, int peer, uint64_t epoch, int nth)
{
    weir_store_release(&weiri_gpu_cell_of(view, peer, view.rank)->signal,
                       epoch << WEIRI_GPU_SIGNAL_SHIFT | (uint64_t)nth);
}

/* Waits until a peer has stepped a word of this rank's cells that far; acquires. */
WEIRI_GPU_FN void weiri_gpu_await_word(const weiri_gpu_view &view, const uint64_t *word,
                                       uint64_t target, int peer)
{
    uint64_t seen;
    weir_waiter waiter = {0, 0};
    while ((seen = weir_load_acquire(word)) < target) {
        int status = weir_waiter_step(&waiter, &view.guard);
        if (status) {
            weiri_gpu_fail(view, status, peer, WEIR_WAIT_SEMAPHORE, target, seen);
            return;
        }
    }
}

/* What a cell's staged and taken count, within an epoch. */
WEIRI_GPU_FN uint64_t weiri_gpu_step(uint64_t epoch, uint64_t pieces)
{
    return epoch << WEIRI_GPU_STEP_SHIFT | pieces;
}

/* Waits until a peer has counted so many in such a word of this rank's cells; acquires. */
WEIRI_GPU_FN void weiri_gpu_await_step(const weiri_gpu_view &view, const uint64_t *word,
                                       uint64_t epoch, uint64_t pieces, int peer)
{
    weiri_gpu_await_word(view, word, weiri_gpu_step(epoch, pieces), peer);
}

WEIRI_GPU_FN void weiri_gpu_await(const weiri_gpu_view &view, int peer, uint64_t epoch, int nth)
{
    weiri_gpu_await_word(view, &weiri_gpu_cell_of(view, view.rank, peer)->signal,
                         epoch << WEIRI_GPU_SIGNAL_SHIFT | (uint64_t)nth, peer);
}

/* All threads of a block: what they stored is seen by the same block of all
 * ranks, and theirs here. */
WEIRI_GPU_FN void weiri_gpu_barrier(const weiri_gpu_view &view, uint64_t epoch, int nth)
{
    int peer = (int)threadIdx.x;
    __syncthreads();
    if (peer < view.nranks && peer != view.rank) {
        weiri_gpu_signal(view, peer, epoch, nth);
        weiri_gpu_await(view, peer, epoch, nth);
    }
    __syncthreads();
}

#endif
