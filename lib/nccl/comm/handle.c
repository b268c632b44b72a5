/*
 * The table of handles. A slot counts the users of its communicator; the generation in a handle
 * must equal the slot's, which grows when the handle is withdrawn. A user increments the count
 * first and compares the generation then; whoever withdraws a handle changes the generation first
 * and reads the count then. So one of them sees the other. Short calls note their use elsewhere
 * (users.h).
 */
#include "nccl/comm/users.h"

#include "base/fork.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>

/* The analyzer's macros are for callers. */
#undef weiri_nccl_not_entered

enum { SLOTS = 4096, SLOT_BITS = 12 };

typedef struct handle_slot {
    _Atomic(weiri_nccl_comm *) comm;
    atomic_uint generation, users;
    atomic_int forks; /* of weiri_fork_count(), when comm was published */
} handle_slot;

static handle_slot slots[SLOTS];
static _Thread_local ncclResult_t not_entered = ncclInvalidArgument;
static pthread_mutex_t publish_lock = PTHREAD_MUTEX_INITIALIZER;

static weiri_nccl_comm *handle_refuse_child(void)
{
    weiri_fork_fail("communicator");
    weiri_nccl_fail(ncclInvalidArgument, "%s", weir_last_error());
    return NULL;
}

/* Odd, so that it differs from every object's address. */
static ncclComm_t handle_of(unsigned slot, unsigned generation)
{
    uintptr_t value = ((uintptr_t)generation << SLOT_BITS | slot) << 1 | 1;
    return (ncclComm_t)value; /* NOLINT: an opaque number */
}

static handle_slot *slot_of(ncclComm_t handle, unsigned *generation)
{
    uintptr_t value = (uintptr_t)handle;
    if (!(value & 1) || value >> (1 + SLOT_BITS) > UINT_MAX)
        return NULL;
    *generation = (unsigned)(value >> (1 + SLOT_BITS));
    return &slots[value >> 1 & (SLOTS - 1)];
}

ncclComm_t weiri_nccl_publish(weiri_nccl_comm *comm)
{
    ncclComm_t handle = NULL;
    pthread_mutex_lock(&publish_lock);
    for (unsigned slot = 0; slot < SLOTS && !handle; slot++) {
        weiri_nccl_comm *nobody = NULL;
        if (!atomic_compare_exchange_strong(&slots[slot].comm, &nobody, comm))
            continue;
        comm->slot = slot;
        atomic_store(&slots[slot].forks, weiri_fork_count());
        handle = handle_of(slot, atomic_load(&slots[slot].generation) + 1);
        comm->handle = handle;
        atomic_fetch_add(&slots[slot].generation, 1);
    }
    pthread_mutex_unlock(&publish_lock);
    return handle;
}

static weiri_nccl_comm *handle_refuse(ncclComm_t handle)
{
    weiri_nccl_fail(ncclInvalidArgument,
                    handle ? "communicator %p was destroyed or aborted, or is not a communicator"
                           : "communicator %p: expected a communicator",
                    (void *)handle);
    return NULL;
}

weiri_nccl_comm *weiri_nccl_enter_any(ncclComm_t handle)
{
    unsigned generation = 0;
    handle_slot *at = slot_of(handle, &generation);
    not_entered = ncclInvalidArgument;
    if (!at)
        return handle_refuse(handle);
    if (weiri_fork_is_child(atomic_load(&at->forks)))
        return handle_refuse_child();
    atomic_fetch_add(&at->users, 1);
    weiri_nccl_comm *comm = atomic_load(&at->comm);
    if (comm && atomic_load(&at->generation) == generation)
        return comm;
    atomic_fetch_sub(&at->users, 1);
    return handle_refuse(handle);
}

weiri_nccl_comm *weiri_nccl_enter_quick(ncclComm_t handle, weiri_nccl_user *user)
{
    unsigned generation = 0;
    handle_slot *at = slot_of(handle, &generation);
    if (!user || !at || atomic_load_explicit(&user->slot, memory_order_relaxed) ||
        weiri_fork_is_child(atomic_load_explicit(&at->forks, memory_order_relaxed)))
        return NULL;
    atomic_store_explicit(&user->slot, (unsigned)(at - slots) + 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); /* the processor's part: weiri_nccl_users_fence */
    weiri_nccl_comm *comm = atomic_load_explicit(&at->comm, memory_order_acquire);
    if (comm && atomic_load_explicit(&at->generation, memory_order_acquire) == generation &&
        atomic_load_explicit(&comm->state, memory_order_acquire) == WEIRI_NCCL_READY)
        return comm;
    weiri_nccl_leave_quick(user);
    return NULL;
}

/* Sets the error for a communicator in a state in which it cannot be used. */
static weiri_nccl_comm *handle_refuse_state(weiri_nccl_comm *comm, int state)
{
    void *const handle = comm->handle;
    if (state == WEIRI_NCCL_SUSPENDED)
        not_entered = weiri_nccl_fail(
            ncclInvalidUsage, "communicator %p is suspended; call ncclCommResume first", handle);
    else if (state == WEIRI_NCCL_FAILED)
        not_entered = weiri_nccl_fail((ncclResult_t)atomic_load(&comm->async_error),
                                      "communicator %p could not be created; abort it", handle);
    else
        not_entered = weiri_nccl_fail(ncclInvalidArgument,
                                      "communicator %p is still being created; wait until "
                                      "ncclCommGetAsyncError reports ncclSuccess",
                                      handle);
    weiri_nccl_leave(comm);
    return NULL;
}

weiri_nccl_comm *weiri_nccl_enter(ncclComm_t handle)
{
    weiri_nccl_comm *comm = weiri_nccl_enter_any(handle);
    const int state = comm ? atomic_load(&comm->state) : WEIRI_NCCL_READY;
    return state == WEIRI_NCCL_READY ? comm : handle_refuse_state(comm, state);
}

weiri_nccl_comm *weiri_nccl_enter_opened(ncclComm_t handle)
{
    weiri_nccl_comm *comm = weiri_nccl_enter_any(handle);
    const int state = comm ? atomic_load(&comm->state) : WEIRI_NCCL_READY;
    if (state == WEIRI_NCCL_READY || state == WEIRI_NCCL_SUSPENDED)
        return comm;
    return handle_refuse_state(comm, state);
}

ncclResult_t weiri_nccl_not_entered(void)
{
    return not_entered;
}

void weiri_nccl_leave(weiri_nccl_comm *comm)
{
    atomic_fetch_sub(&slots[comm->slot].users, 1);
}

weiri_nccl_comm *weiri_nccl_withdraw(ncclComm_t handle)
{
    unsigned generation = 0;
    handle_slot *at = slot_of(handle, &generation);
    if (at && atomic_load(&at->comm) && weiri_fork_is_child(atomic_load(&at->forks)))
        return handle_refuse_child();
    weiri_nccl_comm *comm = at ? atomic_load(&at->comm) : NULL;
    if (!comm || !atomic_compare_exchange_strong(&at->generation, &generation, generation + 1))
        return handle_refuse(handle);
    weiri_nccl_epoch_end();
    return comm;
}

static unsigned handle_users(const weiri_nccl_comm *comm)
{
    return atomic_load(&slots[comm->slot].users) + weiri_nccl_users_of(comm->slot);
}

void weiri_nccl_await_users(weiri_nccl_comm *comm)
{
    weiri_nccl_users_fence();
    while (handle_users(comm) > 0)
        sched_yield();
}

int weiri_nccl_claim(weiri_nccl_comm *comm, int state)
{
    int ready = WEIRI_NCCL_READY;
    if (!atomic_compare_exchange_strong(&comm->state, &ready, state))
        return 0;
    weiri_nccl_epoch_end();
    weiri_nccl_users_fence();
    while ((int)handle_users(comm) - atomic_load(&comm->jobs) > 1)
        sched_yield();
    return 1;
}

void weiri_nccl_recycle(weiri_nccl_comm *comm)
{
    atomic_store(&slots[comm->slot].comm, NULL);
}
