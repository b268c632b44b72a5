/*
 * The protocol that all kernels share: the epoch of a launch, LL packets, buffer descriptors, and
 * signals and barriers between the thread blocks that have the same index on all ranks.
 *
 * A kernel takes one argument, weiri_gpu_args, by value. Every kernel
 *
 *   1. reads the epoch (weiri_gpu_epoch) in every thread,
 *   2. sends whatever it can send without waiting,
 *   3. calls weiri_gpu_advance_epoch exactly once in all threads of all blocks, which is a
 *      __syncthreads and advances the epoch for the next launch. It is called here
 *      rather than at the end so that its latency overlaps with the packets in flight,
 *   4. waits for its peers and does the rest of its work.
 *
 * A wait that fails (deadline or abort) records the reason and returns; the kernel continues
 * without the data. Control flow never depends on the outcome of a wait, so no block is left alone
 * at a barrier.
 *
 * Memory order. Packets carry their own flags, so all their accesses are relaxed. A descriptor sent
 * at entry also proves that the sender's earlier kernels have ended and that their stores have been
 * performed; its reader executes a fence before it loads a peer's memory. weiri_gpu_signal follows
 * a __syncthreads and releases the stores of the whole block; weiri_gpu_await acquires.
 */
#ifndef WEIR_COLL_CUDA_PROTOCOL_CUH
#define WEIR_COLL_CUDA_PROTOCOL_CUH

#include "coll/cuda/args.h"

#define WEIRI_GPU_FN static __device__ __forceinline__
/* Code for rare cases, kept apart from the hot instructions. */
#define WEIRI_GPU_COLD_FN static __device__ __attribute__((noinline, unused))

/* Declares a variable of the block's shared memory; of an array, the bounds follow the name. The
 * emulator returns the memory of the block that runs. */
#if defined(WEIR_EMULATED)
#define WEIRI_GPU_SHARED(type, name, ...)                                                          \
    typedef type name##_in_block __VA_ARGS__;                                                      \
    static char name##_key;                                                                        \
    name##_in_block &name =                                                                        \
        *(name##_in_block *)weir_emulated_shared(&name##_key, sizeof(name##_in_block))
#else
#define WEIRI_GPU_SHARED(type, name, ...) __shared__ type name __VA_ARGS__
#endif

/* Checks the address of a 16-byte access that host code performs on behalf of a kernel. */
#if defined(WEIR_EMULATED)
#define WEIRI_GPU_ACCESS16(at) weir_emulated_access16(at)
#else
#define WEIRI_GPU_ACCESS16(at) (void)(at)
#endif

/* -------------------------------------------------------------------- epoch */

/* The epoch of this launch. Loads that should be in flight at the same time must be issued before
 * the first use of the result, because that use (a shift) waits for it. Blocks are one-dimensional,
 * so threadIdx.y is 0; adding it keeps the epoch out of uniform registers, where a warp would stall
 * for the loaded value before its input loads are issued. */
WEIRI_GPU_FN uint64_t weiri_gpu_epoch(const weiri_gpu_view &view)
{
    return weir_load_relaxed(&view.state->turns + threadIdx.y) >> WEIRI_GPU_EPOCH_SHIFT;
}

/* Compiler barrier: values computed from the epoch stay after the loads that precede this call. */
WEIRI_GPU_FN void weiri_gpu_keep_after_loads(uint64_t *epoch)
{
#if WEIR_ON_DEVICE
    asm volatile("" : "+l"(*epoch)::"memory");
#else
    (void)epoch;
#endif
}

/* Advances the epoch. Called once per launch by all threads of all blocks, after all of them have
 * read the epoch. Every block adds its part of one epoch; the sum is complete when the last block
 * has added, and no block waits for it. */
WEIRI_GPU_FN void weiri_gpu_advance_epoch(const weiri_gpu_view &view, uint64_t epoch)
{
    const uint64_t one = (uint64_t)1 << WEIRI_GPU_EPOCH_SHIFT;
    uint64_t *turns = &view.state->turns;
    __syncthreads();
    if (threadIdx.x)
        return;
    if (gridDim.x == 1)
        *turns = (epoch + 1) << WEIRI_GPU_EPOCH_SHIFT;
    else
        atomicAdd((unsigned long long *)turns, blockIdx.x ? 1 : one - (gridDim.x - 1));
}

/* ------------------------------------------------------------------ waiting */

/* Records why a wait failed, why ranks disagree, or why device-side counts are invalid, for the
 * host to report, and ends all other waits of this rank. */
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

/* The number of ranks. Kernels that reduce are compiled for exact numbers of ranks and, with exact
 * == 0, for any number: loops over WEIRI_GPU_RANKS_MAX ranks dominate the time of short calls. */
template <int exact> WEIRI_GPU_FN int weiri_gpu_nranks(const weiri_gpu_view &view)
{
    return exact ? exact : view.nranks;
}

/* The nth rank after `rank`, cyclically. A rank that sends to all peers starts with the next one;
 * if all ranks started with the same peer, they would all send to one GPU at a time. */
WEIRI_GPU_FN int weiri_gpu_nth_after(int rank, int nth, int nranks)
{
    return rank + nth < nranks ? rank + nth : rank + nth - nranks;
}

/* ------------------------------------------------------------------ packets */

/* Offset in a scratch segment of the slot that rank `from` writes. */
WEIRI_GPU_FN size_t weiri_gpu_slot_at(int from, uint64_t epoch, int phase)
{
    unsigned index = ((unsigned)epoch % 2 * WEIRI_GPU_PHASES + (unsigned)phase);
    return WEIRI_GPU_PACKETS_AT +
           (size_t)(index * WEIRI_GPU_RANKS_MAX + (unsigned)from) * WEIRI_GPU_SLOT_BYTES;
}

/* Address of the slot that rank `from` writes in the scratch segment of rank `at`. */
WEIRI_GPU_FN char *weiri_gpu_slot(const weiri_gpu_view &view, int at, int from, uint64_t epoch,
                                  int phase)
{
    return view.scratch[at] + weiri_gpu_slot_at(from, epoch, phase);
}

/* Waits for packet `index` of a slot in this rank's scratch segment. Returns its 8 bytes, or
 * `otherwise` if it did not arrive. */
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

/* ------------------------------------ cells: descriptors, signals, barriers */

WEIRI_GPU_FN weiri_gpu_cell *weiri_gpu_cell_at(const weiri_gpu_view &view, int at, int from,
                                               uint32_t index)
{
    return (weiri_gpu_cell *)view.scratch[at] + (size_t)index * WEIRI_GPU_RANKS_MAX + from;
}

WEIRI_GPU_FN weiri_gpu_cell *weiri_gpu_cell_of(const weiri_gpu_view &view, int at, int from)
{
    return weiri_gpu_cell_at(view, at, from, blockIdx.x);
}

/* Sends one peer the descriptors of this rank's buffers. One thread per peer. */
WEIRI_GPU_FN void weiri_gpu_send_descs(const weiri_gpu_view &view, int peer, uint64_t epoch,
                                       weiri_gpu_desc in, weiri_gpu_desc out)
{
    weiri_gpu_cell *cell = weiri_gpu_cell_of(view, peer, view.rank);
    weir_packet16_write(cell->in, (uint32_t)epoch, in);
    weir_packet16_write(cell->out, (uint32_t)epoch, out);
}

/* Reads the descriptors that a peer has written to a cell, with both loads in flight at once.
 * Returns 1, or 0 unless both are of this epoch. */
WEIRI_GPU_FN int weiri_gpu_read_descs(const weiri_gpu_cell *cell, uint64_t epoch, uint64_t *in,
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

/* Waits for a peer's descriptors. One thread per peer. Before other threads read the peer's memory,
 * call weiri_gpu_fence and then __syncthreads. */
WEIRI_GPU_FN void weiri_gpu_receive_descs(const weiri_gpu_view &view, int peer, uint64_t epoch,
                                          weiri_gpu_desc *in, weiri_gpu_desc *out)
{
    const weiri_gpu_cell *cell = weiri_gpu_cell_of(view, view.rank, peer);
    weir_waiter waiter = {0, 0};
    while (!weiri_gpu_read_descs(cell, epoch, in, out)) {
        int status = weir_waiter_step(&waiter, &view.guard);
        if (status) {
            weiri_gpu_fail(view, status, peer, WEIR_WAIT_PACKET, epoch,
                           weir_load_relaxed(cell->in) >> 32);
            *in = *out = WEIRI_GPU_UNMAPPED;
            return;
        }
    }
}

/* The address, mapped on this rank, of what a rank's descriptor names; not for WEIRI_GPU_UNMAPPED.
 */
WEIRI_GPU_FN char *weiri_gpu_address(const weiri_gpu_view &view, int rank, weiri_gpu_desc desc)
{
    size_t region = (size_t)(desc >> 48) - 1;
    return view.regions[(size_t)rank * WEIRI_GPU_REGIONS_MAX + region] +
           (desc & (((uint64_t)1 << 48) - 1));
}

/* Orders this thread's later loads after what it has observed. */
WEIRI_GPU_FN void weiri_gpu_fence(void)
{
    weir_fence_system();
}

/* Sends signal number nth (1, 2, ...) of this epoch to the peer's block of the same index. Call
 * after __syncthreads, one thread per peer. */
WEIRI_GPU_FN void weiri_gpu_signal(const weiri_gpu_view &view, int peer, uint64_t epoch, int nth)
{
    weir_store_release(&weiri_gpu_cell_of(view, peer, view.rank)->signal,
                       epoch << WEIRI_GPU_SIGNAL_SHIFT | (uint64_t)nth);
}

/* Waits until a peer has advanced a word in this rank's cells to `target`; acquires. Returns the
 * word, which is less if the wait has failed. */
WEIRI_GPU_FN uint64_t weiri_gpu_await_word(const weiri_gpu_view &view, const uint64_t *word,
                                           uint64_t target, int peer)
{
    uint64_t seen;
    weir_waiter waiter = {0, 0};
    while ((seen = weir_load_acquire(word)) < target) {
        int status = weir_waiter_step(&waiter, &view.guard);
        if (status) {
            weiri_gpu_fail(view, status, peer, WEIR_WAIT_SEMAPHORE, target, seen);
            break;
        }
    }
    return seen;
}

/* The value of a cell's counters (staged, taken, drained) after `pieces` pieces of an epoch. */
WEIRI_GPU_FN uint64_t weiri_gpu_step(uint64_t epoch, uint64_t pieces)
{
    return epoch << WEIRI_GPU_STEP_SHIFT | pieces;
}

/* Waits until a peer has counted `pieces` pieces in such a counter of this rank; acquires. */
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

/* Barrier among the blocks of this index on all ranks: what each block stored before is visible to
 * the others after. All threads of the block call it. nth: 1 for the launch's first barrier. */
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
