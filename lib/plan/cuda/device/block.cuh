/*
 * What a thread block of a plan works with: its page, the addresses of all buffers, and how it
 * waits, signals and synchronizes.
 *
 * Memory order: before a signal the block synchronizes (__syncthreads), and one thread signals with
 * release semantics, so the signal covers the stores of all threads of the block. A wait's thread
 * acquires, and the block synchronizes after it. Where ranks announce their buffers' addresses at
 * entry, an announcement also means that all earlier launches of the announcing rank have ended.
 * Packets carry their flags and are relaxed.
 *
 * A wait that fails records its reason and its position. The block and all other waits of this rank
 * then continue without data, so that every block reaches its end.
 */
#ifndef WEIR_PLAN_CUDA_BLOCK_CUH
#define WEIR_PLAN_CUDA_BLOCK_CUH

#include "coll/cuda/device/vector.cuh"
#include "plan/cuda/image.h"
#include <weir/port_device.h>

struct __align__(16) weiri_image_block
{
    char page[WEIRI_IMAGE_PAGE_BYTES];
    char *bases[WEIRI_IMAGE_BASES];
    int failed; /* a wait of this block has failed */
};

/* The launch, as every step needs it. */
struct weiri_image_launch {
    const weiri_image_args *args;
    weiri_image_block *block;
    uint64_t epoch;
    uint32_t flag; /* of packets: never 0 in 2^32 launches, and unlike small numbers */
};

/* Spreads the epoch over all bits, so that data that an earlier launch with other lengths left
 * where packets are now is very unlikely to be taken for a flag. The inverse recovers the epoch. */
#define WEIRI_IMAGE_FLAG_FACTOR 2654435769u
#define WEIRI_IMAGE_FLAG_INVERSE 340573321u

WEIRI_GPU_FN const weiri_image_page *weiri_image_page_of(const weiri_image_block *block)
{
    return (const weiri_image_page *)block->page;
}

WEIRI_GPU_FN const weiri_image_step *weiri_image_steps(const weiri_image_block *block)
{
    return (const weiri_image_step *)(block->page + sizeof(weiri_image_page));
}

WEIRI_GPU_FN weiri_image_operand *weiri_image_operands(weiri_image_block *block)
{
    return (weiri_image_operand *)(weiri_image_steps(block) + weiri_image_page_of(block)->nsteps);
}

WEIRI_GPU_FN const uint32_t *weiri_image_ids(const weiri_image_block *block)
{
    return (const uint32_t *)(block->page + weiri_image_page_of(block)->ids_at);
}

/* ------------------------------------------------------------------- failures */

WEIRI_GPU_FN int weiri_image_has_failed(const weiri_image_launch &run)
{
    return *(volatile int *)&run.block->failed;
}

/* Records a failed wait. op: the operation that waited; UINT32_MAX: the entry. The recorded
 * position is that of a wait that timed out, or else of one that was aborted. */
WEIRI_GPU_FN void weiri_image_fail(const weiri_image_launch &run, uint32_t op, int status, int peer,
                                   uint64_t kind, uint64_t expected, uint64_t seen)
{
    *(volatile int *)&run.block->failed = 1;
    if (status == WEIR_ERR_TIMEOUT || !weir_load_relaxed(run.args->failed_at))
        weir_store_relaxed(run.args->failed_at, (uint64_t)(blockIdx.x + 1) << 32 | op);
    weiri_gpu_fail(run.args->view, status, peer, kind, expected, seen);
}

/* How often a waiting thread reads the awaited word before it calls weiri_image_poll. */
enum { WEIRI_IMAGE_POLLS = 16 };

/* Checks the abort flag and the deadline; if the wait is over, the block has failed afterwards. */
WEIRI_GPU_COLD_FN weir_waiter weiri_image_poll(const weiri_image_launch run, weir_waiter waiter,
                                               uint32_t op, int peer, uint64_t kind,
                                               uint64_t expected, uint64_t seen)
{
    const int status = weir_waiter_step(&waiter, &run.args->view.guard);
    if (status)
        weiri_image_fail(run, op, status, peer, kind, expected, seen);
    return waiter;
}

/* Waits until a word has reached its target. peer -1: other blocks of this rank. */
template <bool relaxed>
WEIRI_GPU_FN void weiri_image_await(const weiri_image_launch &run, uint32_t op,
                                    const uint64_t *word, uint64_t target, int peer)
{
    weir_waiter waiter = {0, 0};
    uint64_t seen;
    for (uint32_t polls = 1;; polls++) {
        seen = relaxed ? weir_load_relaxed(word) : weir_load_acquire(word);
        if (seen >= target)
            return;
        if (polls % WEIRI_IMAGE_POLLS)
            continue;
        if (weiri_image_has_failed(run))
            return;
        waiter = weiri_image_poll(run, waiter, op, peer, WEIR_WAIT_SEMAPHORE, target, seen);
    }
}

/* -------------------------------------------------------------------- signals */

/* Adds 1 to a peer's counter that several blocks signal. */
WEIRI_GPU_FN void weiri_image_add_remote(uint64_t *word, bool relaxed)
{
#if WEIR_ON_DEVICE
    if (relaxed)
        asm volatile("red.relaxed.sys.global.add.u64 [%0], 1;" ::"l"(word) : "memory");
    else
        asm volatile("red.release.sys.global.add.u64 [%0], 1;" ::"l"(word) : "memory");
#else
    (void)relaxed;
    atomicAdd((unsigned long long *)word, 1ull);
#endif
}

/* Called by all threads. Each handles some of the ids; the same thread handles a channel until the
 * block synchronizes. */
WEIRI_GPU_FN void weiri_image_signal(const weiri_image_launch &run, const weiri_image_step *step)
{
    const uint32_t *ids = weiri_image_ids(run.block) + step->first;
    const bool relaxed = step->flags & WEIRI_IMAGE_RELAXED;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < step->nids; i += blockDim.x) {
        const uint32_t id = ids[i];
        weiri_image_channel *channel =
            run.args->channels + ((id & ~WEIRI_IMAGE_SHARED) >> WEIRI_IMAGE_ID_SHIFT);
        if (id & WEIRI_IMAGE_SHARED) {
            weiri_image_add_remote(channel->outbound, relaxed);
            continue;
        }
        const uint64_t signals = channel->signals + 1;
        if (relaxed)
            weir_store_relaxed(channel->outbound, signals);
        else
            weir_store_release(channel->outbound, signals);
        channel->signals = signals;
    }
}

WEIRI_GPU_FN void weiri_image_wait(const weiri_image_launch &run, const weiri_image_step *step)
{
    const uint32_t *ids = weiri_image_ids(run.block) + step->first;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < step->nids; i += blockDim.x) {
        const uint32_t id = ids[i];
        weiri_image_channel *channel =
            run.args->channels + ((id & ~WEIRI_IMAGE_SHARED) >> WEIRI_IMAGE_ID_SHIFT);
        const int peer = (int)(id & ((1u << WEIRI_IMAGE_ID_SHIFT) - 1));
        uint64_t waits;
        if (id & WEIRI_IMAGE_SHARED)
            waits = weir_fetch_add(&channel->waits, 1) + 1;
        else
            channel->waits = waits = channel->waits + 1;
        if (step->flags & WEIRI_IMAGE_RELAXED)
            weiri_image_await<true>(run, step->op, channel->inbound, waits, peer);
        else
            weiri_image_await<false>(run, step->op, channel->inbound, waits, peer);
    }
}

/* ---------------------------------------------- barriers, semaphores, iterations */

/* Which of the two sets of semaphores, barriers and announcements this launch uses. */
WEIRI_GPU_FN uint32_t weiri_image_parity(const weiri_image_launch &run)
{
    return (uint32_t)run.epoch & 1;
}

/* The block must synchronize before and after it. */
WEIRI_GPU_FN void weiri_image_barrier(const weiri_image_launch &run, const weiri_image_step *step)
{
    if (threadIdx.x)
        return;
    uint64_t *word =
        run.args->barriers + weiri_image_parity(run) * run.args->nbarriers + step->slot;
    weiri_gpu_fence();
    const uint32_t before = (uint32_t)weir_fetch_add(word, 1);
    weiri_image_await<false>(run, step->op, word,
                             (uint64_t)(before / step->nblocks + 1) * step->nblocks,
                             run.args->view.rank);
    weiri_gpu_fence();
}

WEIRI_GPU_FN uint64_t *weiri_image_semaphore(const weiri_image_launch &run, uint32_t id)
{
    return run.args->semaphores + weiri_image_parity(run) * run.args->nsemaphores + id;
}

WEIRI_GPU_FN void weiri_image_release(const weiri_image_launch &run, const weiri_image_step *step)
{
    const uint32_t *ids = weiri_image_ids(run.block) + step->first;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < step->nids; i += blockDim.x) {
        weiri_gpu_fence();
        weir_fetch_add(weiri_image_semaphore(run, ids[i]), 1);
    }
}

WEIRI_GPU_FN void weiri_image_acquire(const weiri_image_launch &run, const weiri_image_step *step)
{
    const uint32_t *ids = weiri_image_ids(run.block) + step->first;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < step->nids; i += blockDim.x) {
        unsigned long long *word = (unsigned long long *)weiri_image_semaphore(run, ids[i]);
        unsigned long long seen;
        do {
            weiri_image_await<false>(run, step->op, (uint64_t *)word, 1, run.args->view.rank);
            seen = weir_load_relaxed((uint64_t *)word);
        } while (!weiri_image_has_failed(run) &&
                 (!seen || atomicCAS(word, seen, seen - 1) != seen));
        weiri_gpu_fence();
    }
}

/* Called by the first block; resets the set that the next launch uses. */
WEIRI_GPU_FN void weiri_image_reset_next(const weiri_image_launch &run)
{
    const weiri_image_args &args = *run.args;
    const uint32_t next = 1 - weiri_image_parity(run);
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < args.nsemaphores; i += blockDim.x)
        args.semaphores[next * args.nsemaphores + i] = args.initial[i];
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < args.nbarriers; i += blockDim.x)
        args.barriers[next * args.nbarriers + i] = 0;
}

/* ----------------------------------------------------------------------- ports */

/* Called by the block's first thread. */
WEIRI_GPU_COLD_FN void weiri_image_port(const weiri_image_launch run, const weiri_image_step *step,
                                        uint32_t id, uint64_t to, uint64_t from, uint64_t bytes)
{
    const int peer = (int)(id & ((1u << WEIRI_IMAGE_ID_SHIFT) - 1));
    weir_portchan_dev *port = run.args->ports[(id & ~WEIRI_IMAGE_SHARED) >> WEIRI_IMAGE_ID_SHIFT];
    int status = 0;
    if (weiri_image_has_failed(run))
        return;
    if (step->kind == WEIRI_IMAGE_PORT_PUT)
        status = weir_port_put(port, to, from, bytes);
    else if (step->kind == WEIRI_IMAGE_PORT_SIGNAL)
        status = weir_port_signal(port);
    else if (step->kind == WEIRI_IMAGE_PORT_WAIT)
        status = weir_port_wait(port);
    else
        status = weir_port_flush(port);
    if (status)
        weiri_image_fail(run, step->op, status, peer, WEIR_WAIT_SEMAPHORE, 0, 0);
}

WEIRI_GPU_FN void weiri_image_port_ids(const weiri_image_launch &run, const weiri_image_step *step)
{
    const uint32_t *ids = weiri_image_ids(run.block) + step->first;
    if (threadIdx.x)
        return;
#pragma unroll 1
    for (uint32_t i = 0; i < step->nids; i++)
        weiri_image_port(run, step, ids[i], 0, 0, 0);
}

/* ----------------------------------------------------------------------- entry */

/* The announcement that rank `at` receives from rank `from` in this launch. */
WEIRI_GPU_FN weiri_image_announcement *weiri_image_announcement_at(const weiri_image_launch &run,
                                                                   int at, int from)
{
    return (weiri_image_announcement *)run.args->segment[at] +
           weiri_image_parity(run) * WEIRI_GPU_RANKS_MAX + from;
}

/* The first block announces this rank's buffers to all peers. Announcements alternate between two
 * sets: a rank announces epoch e + 2 only after it has received the peer's announcement of e + 1,
 * which means that the peer's epoch e has ended. */
WEIRI_GPU_FN void weiri_image_announce(const weiri_image_launch &run)
{
    const weiri_gpu_view &view = run.args->view;
#pragma unroll 1
    for (int peer = (int)threadIdx.x; peer < view.nranks; peer += (int)blockDim.x) {
        if (peer == view.rank)
            continue;
        weiri_image_announcement *announcement = weiri_image_announcement_at(run, peer, view.rank);
        weir_packet16_write(announcement->in, (uint32_t)run.epoch, run.args->in_desc);
        weir_packet16_write(announcement->out, (uint32_t)run.epoch, run.args->out_desc);
    }
}

/* Waits for a peer's announcement. If none arrives, the block has failed and must not access any
 * buffer. */
WEIRI_GPU_FN void weiri_image_await_peer(const weiri_image_launch &run, int peer)
{
    const weiri_gpu_view &view = run.args->view;
    const weiri_image_announcement *announcement =
        weiri_image_announcement_at(run, view.rank, peer);
    char **bases = run.block->bases + WEIRI_IMAGE_BUFFERS * peer;
    uint64_t in = 0, out = 0;
    weir_waiter waiter = {0, 0};
    for (uint32_t polls = 1; !weir_packet16_read(announcement->in, (uint32_t)run.epoch, &in) ||
                             !weir_packet16_read(announcement->out, (uint32_t)run.epoch, &out);
         polls++) {
        if (polls % WEIRI_IMAGE_POLLS)
            continue;
        if (weiri_image_has_failed(run))
            return;
        waiter = weiri_image_poll(run, waiter, UINT32_MAX, peer, WEIR_WAIT_PACKET, run.epoch,
                                  weir_load_relaxed(announcement->in) >> 32);
    }
    if (run.args->announces == WEIRI_IMAGE_ANNOUNCES_FOR_LOADS)
        weiri_gpu_fence();
    if (in != WEIRI_GPU_UNMAPPED)
        bases[0] = weiri_gpu_address(view, peer, in);
    if (out != WEIRI_GPU_UNMAPPED)
        bases[1] = weiri_gpu_address(view, peer, out);
}

/* Called by all threads; each handles some of the peers. */
WEIRI_GPU_FN void weiri_image_await_peers(const weiri_image_launch &run)
{
    const weiri_gpu_view &view = run.args->view;
#pragma unroll 1
    for (int peer = (int)threadIdx.x; peer < view.nranks; peer += (int)blockDim.x)
        if (peer != view.rank)
            weiri_image_await_peer(run, peer);
}

/* ----------------------------------------------------------------------- pages */

/* Called by all threads: each copies its part of a page, from byte `at` on. */
WEIRI_GPU_FN void weiri_image_copy_page(const weiri_image_launch &run, uint32_t page, uint32_t at)
{
    const char *from = run.args->pages + (size_t)page * run.args->page_bytes;
#pragma unroll 1
    for (; at < run.args->page_bytes; at += 16 * blockDim.x) {
        const weiri_gpu_vector some = weiri_gpu_load16(from + at);
        memcpy(run.block->page + at, &some, sizeof some);
    }
}

/* Where a buffer begins, of scratch its first half; NULL if a peer will announce it. */
WEIRI_GPU_FN char *weiri_image_first_base(const weiri_image_args &args, uint32_t base)
{
    const uint32_t rank = base / WEIRI_IMAGE_BUFFERS, which = base % WEIRI_IMAGE_BUFFERS;
    if (rank >= (uint32_t)args.view.nranks)
        return nullptr;
    if (which == WEIRI_IMAGE_BUFFERS - 1)
        return args.segment[rank] + args.scratch_at;
    return rank != (uint32_t)args.view.rank ? nullptr : which ? args.out : (char *)args.in;
}

/* Sets the launch's epoch and the buffers' addresses and loads the block's first page. All loads
 * for these, arguments included, are issued before the first of them is used. */
WEIRI_GPU_FN void weiri_image_begin(weiri_image_launch *run)
{
    const weiri_image_args &args = *run->args;
    const uint32_t at = 16 * threadIdx.x;
    const char *from = args.pages + (size_t)blockIdx.x * args.page_bytes + at;
    weiri_gpu_vector some = {};
    if (at < args.page_bytes)
        some = weiri_gpu_load16(from);
    char *base = weiri_image_first_base(args, threadIdx.x);
    run->epoch = weiri_gpu_epoch(args.view);
    run->flag = (uint32_t)run->epoch * WEIRI_IMAGE_FLAG_FACTOR;
    const uint64_t half = weiri_image_parity(*run) * args.half_bytes;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < WEIRI_IMAGE_BASES;) {
        const bool is_scratch = i % WEIRI_IMAGE_BUFFERS == WEIRI_IMAGE_BUFFERS - 1;
        run->block->bases[i] = is_scratch ? base + half : base;
        i += blockDim.x;
        base = weiri_image_first_base(args, i);
    }
    if (at < args.page_bytes)
        memcpy(run->block->page + at, &some, sizeof some);
    weiri_image_copy_page(*run, blockIdx.x, at + 16 * blockDim.x);
}

/* Turns the operands of the page into addresses. The block must synchronize between the load of the
 * page and this, and after it. */
WEIRI_GPU_FN void weiri_image_resolve(const weiri_image_launch &run)
{
    weiri_image_operand *operands = weiri_image_operands(run.block);
    const uint32_t count = weiri_image_page_of(run.block)->noperands;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x)
        operands[i].line =
            (char *)((uintptr_t)run.block->bases[operands[i].base] + operands[i].offset);
}

#endif
