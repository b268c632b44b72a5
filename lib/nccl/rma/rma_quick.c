/*
 * The short path of one-sided calls (rma_quick.h). A thread keeps what it has found for its latest
 * call with a peer (weiri_nccl_memo), so that calls in a loop only compare.
 */
#include "nccl/rma/rma_quick.h"

#include "nccl/p2p/p2p_host.h"
#include "nccl/comm/users.h"

#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

weir_status weiri_rma_quick_open(weiri_nccl_comm *comm)
{
    weiri_nccl_rma *rma = comm->rma;
    weiri_rma_quick *made = calloc(1, sizeof *made);
    weiri_rma_peer *peers = calloc((size_t)comm->nranks, sizeof *peers);
    rma->quick = made;
    if (made)
        made->peers = peers;
    if (!made || !peers) {
        free(made ? NULL : peers);
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for one-sided calls");
    }
    for (int rank = 0; rank < comm->nranks; rank++) {
        if (weiri_p2p_is_remote(comm, rank) || !rma->indices)
            continue;
        const int place = weiri_comm_node_rank(comm->comm, rank);
        peers[rank] = (weiri_rma_peer){weiri_rma_word(rma, place, WEIRI_RMA_ARRIVED, rma->place, 0),
                                       weiri_rma_word(rma, rma->place, WEIRI_RMA_SENT, place, 0),
                                       weiri_rma_word(rma, rma->place, WEIRI_RMA_ARRIVED, place, 0),
                                       weiri_rma_word(rma, rma->place, WEIRI_RMA_TAKEN, place, 0)};
    }
    made->rank = (unsigned)comm->rank;
    made->nranks = (unsigned)comm->nranks;
    if (comm->device < 0 && !comm->vendor && !weiri_log_enabled(WEIRI_LOG_INFO)) {
        made->contexts = (unsigned)comm->settings.contexts;
        made->signals = (unsigned)comm->settings.signals;
    }
    return WEIR_OK;
}

void weiri_rma_quick_close(weiri_nccl_rma *rma)
{
    if (rma->quick)
        free(rma->quick->peers);
    free(rma->quick);
    rma->quick = NULL;
}

/* ------------------------------------------------------------------- windows */

static _Atomic(weiri_registration *) *quick_place(weiri_rma_quick *quick, const void *window)
{
    return &quick->recent[((uintptr_t)window >> 6 ^ (uintptr_t)window >> 9) % WEIRI_RMA_RECENT];
}

void weiri_rma_quick_keep(const weiri_nccl_comm *comm, weiri_registration *window)
{
    if (window->is_window && window->peers && !window->alias)
        atomic_store(quick_place(comm->rma->quick, window), window);
}

void weiri_rma_quick_forget(const weiri_nccl_comm *comm, const weiri_registration *window)
{
    weiri_nccl_epoch_end();
    if (!comm->rma || !comm->rma->quick)
        return;
    _Atomic(weiri_registration *) *place = quick_place(comm->rma->quick, window);
    if (atomic_load(place) == window)
        atomic_store(place, NULL);
}

/* Finds where a put writes. Returns 0 if the general path decides. */
static int quick_find_window(weiri_rma_quick *quick, ncclWindow_t wanted, int peer,
                             weiri_nccl_memo *memo)
{
    const weiri_registration *window =
        atomic_load_explicit(quick_place(quick, wanted), memory_order_acquire);
    if (!window || (const void *)window != (const void *)wanted ||
        window->peers[peer].path != WEIRI_RMA_MAPPED)
        return 0;
    memo->window = wanted;
    memo->mapped = window->peers[peer].mapped;
    memo->bytes = window->peers[peer].bytes;
    return 1;
}

/* --------------------------------------------------------------------- calls */

/* Finds the words of a peer and index. Returns 0 if the general path decides. */
static int quick_find_peer(const weiri_nccl_comm *comm, weiri_nccl_memo *memo)
{
    const weiri_rma_quick *quick = comm->rma->quick;
    if ((unsigned)memo->context >= quick->contexts || (unsigned)memo->signal >= quick->signals ||
        (unsigned)memo->peer >= quick->nranks || (unsigned)memo->peer == quick->rank)
        return 0;
    const weiri_rma_peer *first = &quick->peers[memo->peer];
    const unsigned index = (unsigned)memo->context * quick->signals + (unsigned)memo->signal;
    if (!first->there)
        return 0;
    memo->there = first->there + index;
    memo->sent = first->sent + index;
    memo->arrived = first->arrived + index;
    memo->taken = first->taken + index;
    return 1;
}

/* Enters the communicator and fills the memo. Returns NULL, having left, if the general path
 * decides. */
static __attribute__((noinline)) weiri_nccl_memo *quick_fill(weiri_nccl_user *user,
                                                             ncclComm_t handle, int peer,
                                                             int signal, int context,
                                                             ncclWindow_t window)
{
    weiri_nccl_memo *memo = &user->memos[(unsigned)peer % WEIRI_NCCL_MEMOS];
    const uint64_t epoch = atomic_load(&weiri_nccl_epoch);
    weiri_nccl_comm *comm = weiri_nccl_enter_quick(handle, user);
    memo->handle = NULL;
    if (!comm)
        return NULL;
    *memo = (weiri_nccl_memo){.peer = peer,
                              .signal = signal,
                              .context = context,
                              .epoch = epoch,
                              .forks = comm->comm->forks,
                              .slot = comm->slot + 1,
                              .comm = comm};
    if (!quick_find_peer(comm, memo) ||
        (window && !quick_find_window(comm->rma->quick, window, peer, memo))) {
        weiri_nccl_leave_quick(user);
        return NULL;
    }
    memo->handle = handle;
    return memo;
}

/* The calling thread's record, if it may take the short path now. */
static inline weiri_nccl_user *quick_user(void)
{
    const weiri_nccl_thread *thread = &weiri_nccl_this_thread;
    weiri_nccl_user *user = thread->group_depth ? NULL : thread->user;
    return user && !atomic_load_explicit(&user->slot, memory_order_relaxed) ? user : NULL;
}

/* Enters the communicator for a call that the memo, or one that is made now, describes. Returns
 * NULL if the general path decides. */
static inline weiri_nccl_memo *quick_enter(weiri_nccl_user *user, ncclComm_t handle, int peer,
                                           int signal, int context, ncclWindow_t window)
{
    weiri_nccl_memo *memo = &user->memos[(unsigned)peer % WEIRI_NCCL_MEMOS];
    if (memo->handle != handle || memo->peer != peer || memo->signal != signal ||
        memo->context != context || (window && memo->window != window) ||
        weiri_fork_is_child(memo->forks))
        return quick_fill(user, handle, peer, signal, context, window);
    atomic_store_explicit(&user->slot, memo->slot, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); /* as in weiri_nccl_enter_quick */
    if (atomic_load_explicit(&weiri_nccl_epoch, memory_order_acquire) == memo->epoch)
        return memo;
    weiri_nccl_leave_quick(user);
    return quick_fill(user, handle, peer, signal, context, window);
}

static inline int quick_has_failed(const weiri_nccl_comm *comm)
{
    return atomic_load_explicit(&comm->async_error, memory_order_relaxed) != ncclSuccess;
}

static inline void quick_signal(const weiri_nccl_memo *memo)
{
    weir_store_release(memo->there, ++*memo->sent);
}

int weiri_rma_quick_put(ncclComm_t handle, int peer, ncclWindow_t window, uint64_t offset,
                        const void *from, uint64_t bytes, int signal, int context)
{
    weiri_nccl_user *user = quick_user();
    if (!user || !window || !from)
        return 0;
    const weiri_nccl_memo *memo = quick_enter(user, handle, peer, signal, context, window);
    if (!memo)
        return 0;
    const int done =
        !quick_has_failed(memo->comm) && offset <= memo->bytes && bytes <= memo->bytes - offset;
    if (done) {
        if (bytes == sizeof(uint64_t)) /* without a call */
            memcpy(memo->mapped + offset, from, sizeof(uint64_t));
        else
            memcpy(memo->mapped + offset, from, bytes);
        quick_signal(memo);
    }
    weiri_nccl_leave_quick(user);
    return done;
}

int weiri_rma_quick_signal(ncclComm_t handle, int peer, int signal, int context)
{
    weiri_nccl_user *user = quick_user();
    if (!user)
        return 0;
    const weiri_nccl_memo *memo = quick_enter(user, handle, peer, signal, context, NULL);
    if (!memo)
        return 0;
    const int done = !quick_has_failed(memo->comm);
    if (done)
        quick_signal(memo);
    weiri_nccl_leave_quick(user);
    return done;
}

/* Polls for a while, as long as the rank may do so without yielding its core. */
static int quick_poll(const weiri_nccl_comm *comm, const uint64_t *word, uint64_t target)
{
    enum { POLLS = 4000, FREE_POLLS = 16 };
    const unsigned spins = comm->comm->guard.spins;
    for (unsigned poll = 0; weir_load_acquire(word) < target; poll++) {
        if (poll >= spins || poll >= POLLS)
            return 0;
        if (poll > FREE_POLLS)
            weir_pause();
    }
    return 1;
}

int weiri_rma_quick_wait(ncclComm_t handle, const ncclWaitSignalDesc_t *desc, ncclResult_t *result)
{
    weiri_nccl_user *user = quick_user();
    if (!user || desc->opCnt < 1)
        return 0;
    const weiri_nccl_memo *memo =
        quick_enter(user, handle, desc->peer, desc->sigIdx, desc->ctx, NULL);
    if (!memo)
        return 0;
    const int done = !quick_has_failed(memo->comm);
    if (done) {
        const uint64_t target = *memo->taken + (uint64_t)desc->opCnt;
        weir_status status = WEIR_OK;
        if (!quick_poll(memo->comm, memo->arrived, target))
            status = weiri_rma_await(memo->comm, memo->arrived, target, desc->peer);
        if (status == WEIR_OK)
            *memo->taken = target;
        *result = status == WEIR_OK ? ncclSuccess : weiri_nccl_result_of(memo->comm, status);
    }
    weiri_nccl_leave_quick(user);
    return done;
}
