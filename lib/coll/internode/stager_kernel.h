/*
 * The kernel of calls between nodes on GPU buffers (stager.h), as functions that compile as CUDA,
 * in the emulator, and as C for a stand-in of a GPU, where a block is one thread. Who includes this
 * defines
 *
 *   WEIRI_STAGER_FN                                 for functions of the kernel
 *   WEIRI_STAGER_SYNC()                             a barrier of the block
 *   WEIRI_STAGER_SHARED(type, name)                 a variable in the block's shared memory
 *   WEIRI_STAGER_COPY(to, from, bytes, worker, n)   copies as worker `worker` of n
 *   WEIRI_STAGER_MOST(word, value)                  raises a shared word to value, atomically
 *   WEIRI_STAGER_END(state, epoch)                  advances the epoch, in all threads of all
 * blocks
 *
 * Phases of a block, which serves one lane. It publishes the request and fills the lane's first
 * piece. Then, for each piece: it fills the next one, waits for the result, and copies it to the
 * output. Copies are plain; the block's barrier and the release of `filled` order them before the
 * thread's reads, and the acquire of `done` and another barrier order the results before the
 * block's. A wait that fails ends the block, in all of its threads.
 */
#ifndef WEIR_COLL_INTERNODE_STAGER_KERNEL_H
#define WEIR_COLL_INTERNODE_STAGER_KERNEL_H

#include "coll/internode/stager.h"

/* One thread of one block. */
typedef struct weiri_stager_self {
    const weiri_stager_args *args;
    char *base; /* of the lane */
    weiri_stager_lane *lane;
    uint32_t block;        /* of the lane's */
    uint32_t tid;          /* in the block */
    uint32_t worker, many; /* among the threads of the lane */
    uint64_t epoch;
} weiri_stager_self;

/* As weiri_gpu_fail, for the host to report. */
WEIRI_STAGER_FN void weiri_stager_fail(const weir_guard *guard, int status, int peer, uint64_t kind,
                                       uint64_t expected, uint64_t seen)
{
    if (status != WEIR_ERR_TIMEOUT && status != WEIR_ERR_INVALID && status != WEIR_ERR_MISMATCH)
        return;
    if (guard->record) {
        weir_store_relaxed(&guard->record->peer, (uint64_t)(int64_t)peer);
        weir_store_relaxed(&guard->record->expected, expected);
        weir_store_relaxed(&guard->record->seen, seen);
        weir_store_release(&guard->record->kind, kind);
    }
    weir_store_release((uint64_t *)guard->abort_word, WEIR_ABORTED_BY_KERNEL);
}

/* ------------------------------------------------------------------- splits */

/* The bytes of a split; 0, and the communicator is aborted, if it is not within its buffer. */
WEIRI_STAGER_FN uint64_t weiri_stager_split_bytes(const weiri_stager_args *a, int peer,
                                                  int receives)
{
    const weiri_gpu_counts *of = &a->counts;
    const uint64_t count = (receives ? of->recv_counts : of->send_counts)[peer];
    const uint64_t displ = (receives ? of->recv_displs : of->send_displs)[peer];
    const uint64_t elements = receives ? of->out_elements : of->in_elements;
    if (!count || (displ <= elements && count <= elements - displ))
        return count * a->element_bytes;
    weiri_stager_fail(&a->guard, WEIR_ERR_INVALID, peer, receives ? WEIR_WAIT_RECV : WEIR_WAIT_SEND,
                      elements * a->element_bytes, (displ + count) * a->element_bytes);
    return 0;
}

/* The bytes of this rank's split for itself; 0, and the communicator is aborted, if its two counts
 * differ. */
WEIRI_STAGER_FN uint64_t weiri_stager_own_split(const weiri_stager_args *a)
{
    const uint64_t sent = a->counts.send_counts[a->rank], expected = a->counts.recv_counts[a->rank];
    if (sent == expected)
        return weiri_stager_split_bytes(a, a->rank, 0) ? weiri_stager_split_bytes(a, a->rank, 1)
                                                       : 0;
    weiri_stager_fail(&a->guard, WEIR_ERR_MISMATCH, a->rank, WEIR_WAIT_COUNTS,
                      expected * a->element_bytes, sent * a->element_bytes);
    return 0;
}

/* Copies the lengths of this rank's blocks into the lane, and returns the largest number of pieces
 * of any. All threads of the block call it. */
WEIRI_STAGER_FN uint64_t weiri_stager_count_splits(const weiri_stager_self *s, uint32_t nthreads)
{
    const weiri_stager_args *a = s->args;
    WEIRI_STAGER_SHARED(uint64_t, most);
    if (!s->tid)
        most = 0;
    WEIRI_STAGER_SYNC();
    for (int i = (int)s->tid; i < 2 * a->nranks; i += (int)nthreads) {
        const int receives = i >= a->nranks, peer = receives ? i - a->nranks : i;
        const uint64_t bytes = a->remote[peer] ? weiri_stager_split_bytes(a, peer, receives) : 0;
        if (!s->block)
            s->lane->bytes[i] = bytes;
        WEIRI_STAGER_MOST(&most, bytes);
    }
    WEIRI_STAGER_SYNC();
    return most;
}

/* -------------------------------------------------------------------- copies */

/* Copies piece k of a block between a buffer and a staging buffer. */
WEIRI_STAGER_FN void weiri_stager_copy_span(const weiri_stager_self *s, char *buffer, char *staged,
                                            uint64_t block_bytes, uint64_t k, int to_out)
{
    const weiri_stager_args *a = s->args;
    const weiri_stager_span span =
        weiri_stager_span_of(block_bytes, a->request.most_bytes, a->lanes, k);
    if (!span.bytes)
        return;
    if (to_out)
        WEIRI_STAGER_COPY(buffer + span.at, staged, span.bytes, s->worker, s->many);
    else
        WEIRI_STAGER_COPY(staged, buffer + span.at, span.bytes, s->worker, s->many);
}

/* Where a pair's block, or this rank's own one, begins in its input or output. */
WEIRI_STAGER_FN uint64_t weiri_stager_block_at(const weiri_stager_args *a, int peer, int is_out)
{
    if (a->request.kind == WEIRI_STAGER_EQUAL)
        return a->request.block_bytes * (uint64_t)peer;
    if (a->request.kind == WEIRI_STAGER_BLOCKWISE)
        return is_out ? a->request.block_bytes * (a->request.own - 1) : 0;
    if (a->request.kind == WEIRI_STAGER_SPLITS)
        return (is_out ? a->counts.recv_displs : a->counts.send_displs)[peer] * a->element_bytes;
    return 0;
}

WEIRI_STAGER_FN void weiri_stager_copy_pair(const weiri_stager_self *s, int peer, uint64_t k,
                                            int is_out)
{
    const weiri_stager_args *a = s->args;
    char *staged = weiri_stager_buffer(s->base, a->head_bytes, k, a->lanes, is_out);
    char *buffer = is_out ? a->out : (char *)(uintptr_t)a->in;
    if (!a->remote[peer])
        return;
    /* The lane's lengths may yet have to be stored by another block. */
    const uint64_t bytes =
        a->request.kind == WEIRI_STAGER_SPLITS
            ? weiri_stager_split_bytes(a, peer, is_out)
            : weiri_stager_pair_bytes(&a->request, s->lane->bytes, a->nranks, peer, is_out);
    if (bytes)
        weiri_stager_copy_span(s, buffer + weiri_stager_block_at(a, peer, is_out),
                               staged + weiri_stager_pair_at(&a->request, peer), bytes, k, is_out);
}

/* Copies piece k of all blocks from the input, or to the output. */
WEIRI_STAGER_FN void weiri_stager_copy(const weiri_stager_self *s, uint64_t k, int is_out)
{
    const weiri_stager_args *a = s->args;
    const weiri_stager_request *r = &a->request;
    if (r->kind == WEIRI_STAGER_SENDRECV) {
        const uint64_t peer = is_out ? r->source : r->destination;
        if (peer != WEIRI_STAGER_NOBODY)
            weiri_stager_copy_pair(s, (int)peer - 1, k, is_out);
        return;
    }
    if (r->kind != WEIRI_STAGER_BLOCKWISE) {
        for (int i = 1; i < a->nranks; i++)
            weiri_stager_copy_pair(s, (a->rank + i) % a->nranks, k, is_out);
        return;
    }
    const weiri_stager_span span = weiri_stager_span_of(r->block_bytes, r->most_bytes, a->lanes, k);
    const int stays = r->own != WEIRI_STAGER_NOBODY;
    char *staged = weiri_stager_buffer(s->base, a->head_bytes, k, a->lanes, is_out || stays) +
                   (stays && !is_out ? (r->own - 1) * span.bytes : 0);
    char *buffer = is_out ? a->out : (char *)(uintptr_t)a->in;
    for (uint64_t i = 0; i < (is_out ? r->out_blocks : r->in_blocks); i++)
        if (!is_out || i + 1 != r->own)
            weiri_stager_copy_span(s, buffer + i * r->block_bytes, staged + i * span.bytes,
                                   r->block_bytes, k, is_out);
}

/* This rank's block for itself, copied by all blocks of the launch. */
WEIRI_STAGER_FN void weiri_stager_copy_own(const weiri_stager_self *s, uint32_t worker,
                                           uint32_t many)
{
    const weiri_stager_args *a = s->args;
    uint64_t bytes = a->request.block_bytes;
    if (a->request.kind == WEIRI_STAGER_SPLITS)
        bytes = weiri_stager_own_split(a);
    if (a->request.kind == WEIRI_STAGER_SENDRECV)
        bytes = a->request.send_bytes;
    char *to = a->out + weiri_stager_block_at(a, a->rank, 1);
    const char *from = a->in + weiri_stager_block_at(a, a->rank, 0);
    if (to != from && bytes)
        WEIRI_STAGER_COPY(to, from, bytes, worker, many);
}

/* -------------------------------------------------------------------- pieces */

WEIRI_STAGER_FN void weiri_stager_publish(const weiri_stager_self *s, uint32_t nthreads)
{
    const uint64_t *from = (const uint64_t *)(const void *)&s->args->request;
    uint64_t *to = (uint64_t *)(void *)&s->lane->request;
    for (uint32_t i = s->tid; i < sizeof s->lane->request / sizeof *to; i += nthreads)
        weir_store_relaxed(to + i, from[i]);
}

WEIRI_STAGER_FN void weiri_stager_fill(const weiri_stager_self *s, uint64_t k)
{
    weiri_stager_copy(s, k, 0);
    WEIRI_STAGER_SYNC();
    if (!s->tid)
        weir_store_release(&s->lane->filled[s->block], weiri_stager_step(s->epoch, k + 1));
}

/* Waits until the thread has completed piece k. Returns 0 or the error, in all threads. */
WEIRI_STAGER_FN int weiri_stager_await(const weiri_stager_self *s, uint64_t k)
{
    const weir_guard *guard = &s->args->guard;
    const uint64_t target = weiri_stager_step(s->epoch, k + 1);
    WEIRI_STAGER_SHARED(int, failed);
    weir_waiter waiter = {0, 0};
    WEIRI_STAGER_SYNC();
    if (!s->tid) {
        uint64_t seen;
        failed = 0;
        while (!failed && (seen = weir_load_acquire(&s->lane->done)) < target)
            failed = weir_waiter_step(&waiter, guard);
        if (failed)
            weiri_stager_fail(guard, failed, -1, WEIR_WAIT_SEMAPHORE, target, seen);
    }
    WEIRI_STAGER_SYNC();
    return failed;
}

WEIRI_STAGER_FN uint64_t weiri_stager_count_pieces(const weiri_stager_self *s, uint32_t nthreads)
{
    const weiri_stager_args *a = s->args;
    const weiri_stager_request *r = &a->request;
    uint64_t most = r->block_bytes;
    if (r->kind == WEIRI_STAGER_SENDRECV)
        most = r->send_bytes > r->recv_bytes ? r->send_bytes : r->recv_bytes;
    if (r->kind == WEIRI_STAGER_SPLITS)
        most = weiri_stager_count_splits(s, nthreads);
    most = weiri_stager_pieces(most, r->most_bytes, a->lanes);
    return most ? most : 1;
}

/* Block `index` of nblocks; tid: the calling thread, of nthreads. */
WEIRI_STAGER_FN void weiri_stager_run(const weiri_stager_args *a, uint32_t index, uint32_t nblocks,
                                      uint32_t tid, uint32_t nthreads)
{
    const uint32_t each = (uint32_t)a->request.blocks, number = index / each;
    char *base = a->memory + number * a->lane_bytes;
    const weiri_stager_self s = {
        a,
        base,
        (weiri_stager_lane *)(void *)base,
        index % each,
        tid,
        index % each * nthreads + tid,
        each * nthreads,
        weir_load_relaxed(&a->state->turns) >> WEIRI_GPU_EPOCH_SHIFT,
    };
    const uint64_t pieces = weiri_stager_count_pieces(&s, nthreads);
    const uint64_t lanes = (uint64_t)a->lanes;
    if (!s.block)
        weiri_stager_publish(&s, nthreads);
    WEIRI_STAGER_END(a->state, s.epoch);
    if (number < pieces)
        weiri_stager_fill(&s, number);
    if (!s.block && !tid && number < pieces)
        weir_store_release(&s.lane->asked, s.epoch);
    if (a->copies_own)
        weiri_stager_copy_own(&s, index * nthreads + tid, nblocks * nthreads);
    for (uint64_t k = number; k < pieces; k += lanes) {
        if (k + lanes < pieces)
            weiri_stager_fill(&s, k + lanes);
        if (weiri_stager_await(&s, k))
            break;
        weiri_stager_copy(&s, k, 1);
    }
}

#endif
