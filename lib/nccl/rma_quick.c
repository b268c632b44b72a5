/* The short path of one-sided calls (rma_quick.h). */
#include "nccl/rma_quick.h"

#include "nccl/p2p_host.h"
#include "nccl/users.h"

#include "base/error.h"
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
        peers[rank] =
            (weiri_rma_peer){weiri_rma_word(rma, place, WEIRI_RMA_ARRIVED, rma->place, 0),
                             weiri_rma_word(rma, rma->place, WEIRI_RMA_SENT, place, 0),
                             weiri_rma_word(rma, rma->place, WEIRI_RMA_ARRIVED, place, 0),
                             weiri_rma_word(rma, rma->place, WEIRI_RMA_TAKEN, place, 0)};
    }
    made->rank = (unsigned)comm->rank;
    made->nranks = (unsigned)comm->nranks;
    if (comm->device < 0 && !comm->vendor) {
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
    if (!comm->rma || !comm->rma->quick)
        return;
    _Atomic(weiri_registration *) *place = quick_place(comm->rma->quick, window);
    if (atomic_load(place) == window)
        atomic_store(place, NULL);
}

/* Where a put writes; NULL: the general path decides. */
static char *quick_target(weiri_rma_quick *quick, const weiri_nccl_onesided *call)
{
    const weiri_registration *window =
        atomic_load_explicit(quick_place(quick, call->window), memory_order_acquire);
    if (!window || (const void *)window != (const void *)call->window)
        return NULL;
    const weiri_window_peer *to = &window->peers[call->peer];
    if (to->path != WEIRI_RMA_MAPPED || call->offset > to->bytes ||
        call->bytes > to->bytes - call->offset || !call->from)
        return NULL;
    return to->mapped + call->offset;
}

/* --------------------------------------------------------------------- calls */

/* The words of a peer and index; 0: the general path decides. */
static int quick_find(const weiri_nccl_comm *comm, int peer, int signal, int context,
                      weiri_rma_peer *words)
{
    const weiri_rma_quick *quick = comm->rma->quick;
    if ((unsigned)context >= quick->contexts || (unsigned)signal >= quick->signals ||
        (unsigned)peer >= quick->nranks || (unsigned)peer == quick->rank ||
        atomic_load_explicit(&comm->async_error, memory_order_relaxed) != ncclSuccess)
        return 0;
    const weiri_rma_peer *first = &quick->peers[peer];
    const unsigned index = (unsigned)context * quick->signals + (unsigned)signal;
    if (!first->there)
        return 0;
    *words = (weiri_rma_peer){first->there + index, first->sent + index, first->arrived + index,
                              first->taken + index};
    return 1;
}

int weiri_rma_quick_out(ncclComm_t handle, const weiri_nccl_onesided *call, int signal, int context,
                        unsigned flags)
{
    const weiri_nccl_thread *thread = &weiri_nccl_this_thread;
    weiri_rma_peer words;
    char *to = NULL;
    int done = 0;
    if (thread->group_depth || flags)
        return 0;
    weiri_nccl_comm *comm = weiri_nccl_enter_quick(handle, thread->user);
    if (!comm)
        return 0;
    if (quick_find(comm, call->peer, signal, context, &words) &&
        (call->kind == WEIRI_ONESIDED_SIGNAL || (to = quick_target(comm->rma->quick, call)))) {
        if (to)
            memcpy(to, call->from, call->bytes);
        weir_store_release(words.there, ++*words.sent);
        weiri_rma_log(comm, call);
        done = 1;
    }
    weiri_nccl_leave_quick(thread->user);
    return done;
}

/* Polls for a while, as long as the rank may do so without yielding its core. */
static int quick_poll(const weiri_nccl_comm *comm, const uint64_t *word, uint64_t target)
{
    enum { POLLS = 4000, FREE_POLLS = 256 };
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
    const weiri_nccl_thread *thread = &weiri_nccl_this_thread;
    weiri_rma_peer words;
    if (thread->group_depth || desc->opCnt < 1)
        return 0;
    weiri_nccl_comm *comm = weiri_nccl_enter_quick(handle, thread->user);
    if (!comm)
        return 0;
    const int done = quick_find(comm, desc->peer, desc->sigIdx, desc->ctx, &words);
    if (done) {
        const uint64_t target = *words.taken + (uint64_t)desc->opCnt;
        weir_status status = WEIR_OK;
        if (!quick_poll(comm, words.arrived, target))
            status = weiri_rma_await(comm, words.arrived, target, desc->peer);
        if (status == WEIR_OK)
            *words.taken = target;
        *result = status == WEIR_OK ? ncclSuccess : weiri_nccl_result_of(comm, status);
    }
    weiri_nccl_leave_quick(thread->user);
    return done;
}
